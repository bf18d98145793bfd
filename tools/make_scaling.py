"""Does the scaling check find what is known? Recomputes docs/scaling.json, docs/pictures/scaling.png and the table of
docs/howto/scaling.md.

An MLP, a ResNet and a GPT of `tests/support/scaled_models.py`, in standard parametrisation and by the published tables
of muP and CompleteP, are checked over a factor of 4 in width and in depth: exponents beside theory, and the best rate
at four times the width and at four times the depth. What the file has already is not computed again.

    python tools/make_scaling.py [--models mlp,gpt] [--again] [--tables]

--tables only rewrites table and picture from docs/scaling.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from isometer import scaling_check  # noqa: E402
from isometer.files import write_whole  # noqa: E402
from isometer.report import save_figure  # noqa: E402
from isometer.report._scaling import NAMES, quantity_words, scaling_picture  # noqa: E402
from isometer.serialize import json_text  # noqa: E402
from support.scaled_models import DATA, FACTORIES, PLAIN, SCALED  # noqa: E402

RESULTS = ROOT / "docs" / "scaling.json"
PAGE = ROOT / "docs" / "howto" / "scaling.md"
BEGIN, END = "<!-- tools/make_scaling.py: begin -->\n", "<!-- tools/make_scaling.py: end -->\n"
WIDTHS, DEPTHS = [32, 64, 128], [2, 4, 8]
SEEDS = {"mlp": 16, "resnet": 4, "gpt": 4}  # the MLP is quick, and its output depends much on the seed
SWEEP_STEPS, BATCHES = 60, 60
SHOWN = ("gpt", PLAIN)  # in the picture
THEORY = {"mlp": "mup", "resnet": "completep", "gpt": "completep"}
TITLES = {"mlp": "MLP, Adam", "resnet": "ResNet, SGD", "gpt": "GPT, Adam"}


def factory(name: str, kind: str) -> Callable[..., Any]:
    """The factory of one model; the MLP has a fixed depth."""
    make = FACTORIES[name]
    if name == "mlp":
        return lambda width: make(width, kind)
    return lambda width, depth: make(width, depth, kind)


def measured(name: str, kind: str) -> dict[str, Any]:
    """One check; the curves only where the picture shows them."""
    began = time.process_time()
    check = scaling_check(
        factory(name, kind),
        WIDTHS,
        [] if name == "mlp" else DEPTHS,
        batch=[DATA[name](seed=seed) for seed in range(BATCHES)],
        aim=THEORY[name],
        seeds=range(SEEDS[name]),
        sweep_steps=SWEEP_STEPS,
        told=lambda text: print(f"  {text}", file=sys.stderr, flush=True),
    )
    found = check.to_dict()
    del found["exponents"]
    if (name, kind) != SHOWN:
        del found["series"]
    return {**found, "seconds": round(time.process_time() - began, 1)}


def tables(results: dict[str, Any]) -> str:
    """What the page shows."""
    lines = [
        "| model | parametrisation | exponents within ¼ of theory | farthest one | best rate moves by |",
        "|---|---|---|---|---|",
    ]
    for key, one in results.items():
        name, kind = key.split("/")
        theory = "standard" if kind == PLAIN else THEORY[name]
        judged = [v for v in one["verdicts"] if v["theory"].get(theory) is not None]
        off = [abs(v["value"] - v["theory"][theory]) for v in judged]
        worst = judged[off.index(max(off))]
        fits = sum(value <= 0.25 for value in off)
        asked = f"{worst['theory'][theory]:g}"
        far = f"{quantity_words(worst)}, {worst['axis']}: {worst['value']:.2f} ± {worst['error']:.2f}, theory {asked}"
        lines.append(f"| {TITLES[name]} | {NAMES[theory]} | {fits} of {len(judged)} | {far} | {_moves(one['sweep'])} |")
        if one["corrected_sweep"] is not None:
            lines.append(f"| | corrected by the check | | | {_moves(one['corrected_sweep'])} |")
    return "\n".join(lines) + "\n"


def _moves(sweep: dict[str, Any]) -> str:
    words = ["width"] if len(sweep["sizes"]) == 2 else ["width", "depth"]
    steps = [f"{abs(step)} step{'' if abs(step) == 1 else 's'} (4 × {word})"
             for step, word in zip(sweep["steps_apart"][1:], words, strict=True)]  # fmt: skip
    return ", ".join(steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mlp,gpt,resnet", help="which, with commas")
    parser.add_argument("--again", action="store_true", help="compute what the file has already")
    parser.add_argument("--tables", action="store_true", help="only rewrite the tables")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in [] if options.tables else options.models.split(","):
        for kind in (SCALED, PLAIN):
            key = f"{name}/{kind}"
            if key not in results or options.again:
                print(key, file=sys.stderr, flush=True)
                results[key] = measured(name, kind)
                write_whole(RESULTS, json_text(results, indent=1) + "\n")
    save_figure(scaling_picture(results["/".join(SHOWN)]), ROOT / "docs" / "pictures" / "scaling.png")
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    write_whole(PAGE, before + BEGIN + tables(results) + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
