"""How kernels approach their limit and predict descent: docs/kernel-tables.json, and two tables of docs/empirical.md.

    python tools/make_kernel_tables.py [convergence] [descent] [--tables]

Convergence: kernels of random networks of several widths against theory, a single draw and the mean over all. Descent:
losses that the tangent kernel at the start predicts against those of gradient descent, over draws of the weights; a
width is wide enough if the median deviation is at most 5 % there and at every larger width. Rows that the file has are
not computed again; --tables only rewrites the tables. All of it takes ten to fifteen minutes of one core.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.empirical import descent, width_convergence
from isometer.files import write_whole
from isometer.serialize import json_text

HERE = Path(__file__).parents[1] / "docs"
RESULTS, PAGE = HERE / "kernel-tables.json", HERE / "empirical.md"
PART = "<!-- {0}: made by tools/make_kernel_tables.py -->\n{1}<!-- end -->"
DRAWS, STEPS, ENOUGH = 12, 100, 0.05
WIDTHS = tuple(2**power for power in range(4, 13))


def perceptron(width: int) -> str:
    return "input(4)" + f" > dense({width}, gain=1.4) > act('gelu')" * 2 + " > dense(2)"


def normalised(width: int) -> str:
    return "input(4)" + f" > dense({width}) > norm('batch') > act('gelu')" * 2 + " > dense(1)"


def attention(width: int) -> str:
    """Scores become Gaussian with the width of the heads, and their sum a mean with their number: both grow."""
    heads = f"attention(heads={width}, head_width={width}, qk_gain=1.5)"
    return (
        f"input(4, [3]) > dense({width}) > {heads} > dense({width}, gain=1.4) > act('gelu') > pool('mean') > dense(1)"
    )


# title: network, kind, samples, positions, widths, draws
NETWORKS: dict[str, tuple[Callable[[int], str], Any, int, tuple[int, ...], tuple[int, ...], int]] = {
    "MLP, conjugate kernel": (perceptron, "nngp", 3, (), (8, 16, 32, 64), 400_000),
    "MLP, tangent kernel": (perceptron, "ntk", 3, (), (8, 16, 32), 80_000),
    "batch norm, conjugate kernel": (normalised, "nngp", 6, (), (4, 8, 16, 32), 120_000),
    "batch norm, tangent kernel": (normalised, "ntk", 6, (), (8, 16, 32), 50_000),
    "attention, conjugate kernel": (attention, "nngp", 3, (3,), (4, 8, 16), 40_000),
}


def convergence(known: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for title, (network, kind, samples, positions, widths, draws) in NETWORKS.items():
        if title in known:
            found[title] = known[title]
            continue
        batch = np.random.default_rng(0).standard_normal((samples, 4, *positions))
        one = width_convergence(network, batch, kind=kind, widths=widths, draws=draws)
        found[title] = {
            "network": network(widths[0]),
            "kind": kind,
            "samples": samples,
            "widths": widths,
            "draws": draws,
            "single": one.single,
            "single_error": one.single_error,
            "bias": one.bias,
            "bias_error": one.bias_error,
            "steps": one.steps,
            "steps_error": one.steps_error,
            "steps_slope": one.steps_slope,
            "single_slope": one.single_slope,
            "bias_slope": one.bias_slope,
            "limit_error": one.limit_error,
        }
        print(title, json_text(found[title]), flush=True)
    return found


def _hidden(width: int, layers: int, *, norm: bool, act: type[nn.Module]) -> nn.Module:
    parts: list[nn.Module] = []
    features = 3
    for _ in range(layers):
        parts += [nn.Linear(features, width), *([nn.BatchNorm1d(width)] if norm else []), act()]
        features = width
    return nn.Sequential(*parts, nn.Linear(features, 2)).double()


def _he(model: nn.Module) -> nn.Module:
    for one in model.modules():
        if isinstance(one, nn.Linear):
            nn.init.kaiming_normal_(one.weight, nonlinearity="relu")
            nn.init.zeros_(one.bias)
    return model


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "one hidden layer, tanh": lambda width: _hidden(width, 1, norm=False, act=nn.Tanh),
    "three hidden layers, ReLU": lambda width: _hidden(width, 3, norm=False, act=nn.ReLU),
    "three hidden layers, ReLU, He initialisation": lambda width: _he(_hidden(width, 3, norm=False, act=nn.ReLU)),
    "one hidden layer, batch norm in training mode, ReLU": lambda width: _hidden(width, 1, norm=True, act=nn.ReLU),
}


def losses(known: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for title, make in MODELS.items():
        if title in known:
            found[title] = known[title]
            continue
        rows: dict[str, Any] = {}
        for width in WIDTHS[: 7 if "three" in title else None]:
            several = [_deviations(make, width, seed) for seed in range(DRAWS)]
            rows[str(width)] = {"of_loss": [one[0] for one in several], "of_start": [one[1] for one in several]}
            print(title, width, np.median(several, 0), flush=True)
        found[title] = rows
    return found


def _deviations(make: Callable[[int], nn.Module], width: int, seed: int) -> tuple[float, float]:
    """The largest over the steps, relative to the loss of the step and to the first loss; widths share their data."""
    random = torch.Generator().manual_seed(seed)
    batch, target = (torch.randn(8, size, generator=random, dtype=torch.float64) for size in (3, 2))
    torch.manual_seed(seed)
    found = descent(make(width), batch, target, steps=STEPS, seed=seed)
    if not math.isfinite(found.largest_deviation):
        return math.inf, math.inf
    return found.largest_deviation, float(np.abs(found.predicted - found.measured).max() / found.measured[0])


def enough(rows: dict[str, Any], which: str) -> int | None:
    """The smallest width from which on the median deviation is at most 5 %."""
    good = {int(width) for width, one in rows.items() if _median(one[which]) <= ENOUGH}
    bad = {int(width) for width in rows} - good
    return min((width for width in good if width > max(bad, default=0)), default=None)


def _median(values: list[Any]) -> float:
    return float(np.median([float(value) for value in values]))


def _percent(value: Any) -> str:
    number = 100.0 * float(value)
    return f"{number:.3g} %" if math.isfinite(number) and number < 1000 else "> 1000 %"


def convergence_table(found: dict[str, Any]) -> str:
    rows = ["| network | widths | single draw | power | bias | power |", "|---|---|---|---|---|---|"]
    for title, one in found.items():
        single = " → ".join(_percent(value) for value in (one["single"][0], one["single"][-1]))
        bias = [f"{100 * b:.2g} ± {100 * e:.2g} %" for b, e in zip(one["bias"], one["bias_error"], strict=True)]
        seen = one["bias"][0] > 3 * one["bias_error"][0]
        powers = []
        for name in ("single_slope", "bias_slope"):
            slope, error = one[name]
            powers.append("–" if slope is None else f"{slope:.2f} ± {error:.2f}".replace("-", "−"))
        shown = f"{bias[0]} → {bias[-1]}" if seen else f"below {_percent(one['bias_error'][0] * 3)}"
        ends = f"{one['widths'][0]} → {one['widths'][-1]}"
        rows.append(f"| {title} | {ends} | {single} | {powers[0]} | {shown} | {powers[1] if seen else '–'} |")
    return "\n".join(rows) + "\n"


def losses_table(found: dict[str, Any]) -> str:
    rows = [f"| width | {' | '.join(map(str, WIDTHS))} | 5 % from |", "|---" * (len(WIDTHS) + 2) + "|"]
    for title, one in found.items():
        for which, words in (("of_loss", "of the loss"), ("of_start", "of the first loss")):
            cells = [_percent(_median(one[str(w)][which])) if str(w) in one else "" for w in WIDTHS]
            rows.append(f"| {title}; {words} | {' | '.join(cells)} | {enough(one, which) or '–'} |")
    return "\n".join(rows) + "\n"


def write_tables() -> None:
    results = json.loads(RESULTS.read_text())
    page = PAGE.read_text()
    for name, table in (("convergence", convergence_table), ("descent", losses_table)):
        if name in results:
            pattern = re.escape(PART.format(name, "@")).replace("@", ".*?")
            page = re.sub(pattern, lambda _, n=name, t=table: PART.format(n, t(results[n])), page, flags=re.S)
    write_whole(PAGE, lambda path: path.write_text(page))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["convergence", "descent", []], default=[])
    parser.add_argument("--tables", action="store_true", help="only rewrite the tables")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in [] if given.tables else given.parts or ("convergence", "descent"):
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        found = {"convergence": convergence, "descent": losses}[name](results.get(name, {}))
        text = json_text({**results, name: found})
        write_whole(RESULTS, lambda path, text=text: path.write_text(text))
    write_tables()


if __name__ == "__main__":
    main()
