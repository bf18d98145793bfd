"""Is what theory predicts for the network in a model what the probe measures? Recomputes the table of docs/overlay.md.

    python tools/check_overlay.py [--seeds 8] [--models PATTERN] [--page docs/overlay.md]

Every model of `tests/support/overlay_models.py` is built with weights of several seeds, probed, extracted as a spec of
the language of networks and predicted. A layer is inside if all its metrics are inside the band, which holds for all
layers and metrics together with probability 0.95. Infinite width is compared once for each model with the mean over
draws, in half widths of the band. Takes about ten minutes on one core.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402

from isometer.doctor import probe  # noqa: E402
from isometer.doctor.prediction import Prediction, extract_network, predict_network, why_no_network  # noqa: E402
from isometer.files import write_whole  # noqa: E402
from support.overlay_models import ARCHITECTURES, IMAGES, MODULES, OUTSIDE, build  # noqa: E402

BEGIN, END = "<!-- overlay: made by tools/check_overlay.py -->", "<!-- overlay ends -->"
SECONDS = 60.0  # of infinite width, by its estimate


@dataclass
class Tally:
    """What the models of one architecture gave."""

    name: str
    models: int = 0
    whole: int = 0  # models that stay inside everywhere
    layers: int = 0
    inside: int = 0
    readings: int = 0
    outside: int = 0
    infinite: float | None = None

    @property
    def share(self) -> float:
        return self.inside / max(1, self.layers)

    def add(self, found: Prediction) -> None:
        """Count the layers of one model."""
        bands = [np.isfinite(band.low) for band in found.metrics.values()]
        places = np.any(bands, axis=0)
        left = {layer for _, layer in found.leaves_band}
        self.models += 1
        self.whole += not left
        self.layers += int(places.sum())
        self.inside += int(places.sum()) - len(left)
        self.readings += int(np.sum(bands))
        self.outside += len(found.leaves_band)
        if found.infinite and self.infinite is None:
            self.infinite = _departure(found)


def _departure(found: Prediction) -> float:
    """The largest difference of infinite width and the mean over draws, in half widths of the band."""
    largest = 0.0
    for name, values in found.infinite.items():
        band = found.metrics.get(name)
        if band is None:
            continue
        half = (band.high - band.low) / 2
        with np.errstate(all="ignore"):
            parts = np.abs(values - band.mean) / half
        largest = max(largest, float(np.nanmax(np.where(np.isfinite(parts), parts, 0.0))))
    return largest


def tally(name: str, seeds: int) -> Tally:
    """Models of one architecture, each with weights of its own."""
    found = Tally(name)
    for seed in range(seeds):
        model, batch = build(name, seed)
        examination = probe(model, batch)
        network = extract_network(model, examination)
        if network is None:
            raise SystemExit(f"{name}: {why_no_network(model, examination)}")
        found.add(predict_network(network, examination, seed=1000 + seed, seconds=0.0 if seed else SECONDS))
    print(
        f"{found.name}: {found.inside} of {found.layers} layers, {found.whole} of {found.models} models, "
        f"infinite width {'–' if found.infinite is None else f'{found.infinite:.2f}'}",
        flush=True,
    )
    return found


def reasons() -> list[tuple[str, str]]:
    """Why the language of networks does not describe some architectures."""
    out = []
    for name in OUTSIDE:
        model, batch = build(name, 0)
        out.append((name, why_no_network(model, probe(model, batch)).split("; ", 1)[-1]))
    return out


def page(found: list[Tally], why: list[tuple[str, str]]) -> str:
    """The generated part of the page."""
    heads = ("model", "models", "layers inside", "readings outside", "models inside everywhere", "infinite width")
    lines = [f"| {' | '.join(heads)} |", "|---|--:|--:|--:|--:|--:|"]
    for one in found:
        infinite = "–" if one.infinite is None else f"{one.infinite:.2f}"
        lines.append(
            f"| {one.name} | {one.models} | {one.inside} of {one.layers} ({100 * one.share:.1f} %) | "
            f"{one.outside} of {one.readings} | {one.whole} | {infinite} |"
        )
    layers, inside = sum(one.layers for one in found), sum(one.inside for one in found)
    models, whole = sum(one.models for one in found), sum(one.whole for one in found)
    lines.append(f"| all | {models} | {inside} of {layers} ({100 * inside / max(1, layers):.1f} %) | | {whole} | |")
    lines += ["", "| not described | why |", "|---|---|", *(f"| {name} | {reason} |" for name, reason in why)]
    return "\n".join(lines)


def main() -> None:
    """Compute the table and write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--models", default="*")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "overlay.md")
    given = parser.parse_args()
    names = [name for name in (*ARCHITECTURES, *MODULES, *IMAGES) if fnmatch(name, given.models)]
    found = [tally(name, given.seeds) for name in names]
    made = page(found, reasons())
    if given.models != "*":
        print(made)
        return
    text = given.page.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    write_whole(given.page, f"{head}{BEGIN}\n{made}\n{END}{tail}")


if __name__ == "__main__":
    main()
