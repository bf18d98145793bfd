"""How kernels approach their limit and predict descent: docs/kernel-tables.json, and two tables of docs/empirical.md.

    python tools/make_kernel_tables.py [convergence] [descent] [--tables]

Convergence: kernels of random networks of several widths against theory, a single draw and the mean over all. Descent:
losses that the tangent kernel at the start predicts against those of gradient descent, over draws of the weights; a
width is wide enough if the median deviation is at most 5 % there and at every larger width. --tables only rewrites the
tables. Convergence takes five minutes of one core, descent two.
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
    "MLP, conjugate kernel": (perceptron, "nngp", 3, (), (4, 8, 16, 32), 3000),
    "MLP, tangent kernel": (perceptron, "ntk", 3, (), (4, 8, 16, 32), 1500),
    "batch norm, conjugate kernel": (normalised, "nngp", 6, (), (4, 8, 16, 32), 3000),
    "batch norm, tangent kernel": (normalised, "ntk", 12, (), (8, 16, 32, 64), 200),
    "attention, conjugate kernel": (attention, "nngp", 3, (3,), (4, 8, 16), 3000),
}


def convergence() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for title, (network, kind, samples, positions, widths, draws) in NETWORKS.items():
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


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "one hidden layer, tanh": lambda width: _hidden(width, 1, norm=False, act=nn.Tanh),
    "three hidden layers, ReLU": lambda width: _hidden(width, 3, norm=False, act=nn.ReLU),
    "one hidden layer, batch norm in training mode, ReLU": lambda width: _hidden(width, 1, norm=True, act=nn.ReLU),
}


def losses() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for title, make in MODELS.items():
        rows: dict[str, list[float]] = {}
        for width in WIDTHS[: 7 if "three" in title else None]:
            rows[str(width)] = []
            for seed in range(DRAWS):
                torch.manual_seed(seed)
                model, batch, target = make(width), torch.randn(8, 3).double(), torch.randn(8, 2).double()
                rows[str(width)].append(descent(model, batch, target, steps=STEPS, seed=seed).largest_deviation)
            print(title, width, float(np.median(rows[str(width)])), flush=True)
        found[title] = rows
    return found


def enough(rows: dict[str, list[float]]) -> int | None:
    """The smallest width from which on the median deviation is at most 5 %."""
    good = [int(width) for width, values in rows.items() if np.median(values) <= ENOUGH]
    bad = [int(width) for width, values in rows.items() if int(width) not in good]
    return min((width for width in good if width > max(bad, default=0)), default=None)


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
            slope, error = (float(value) for value in one[name])
            powers.append(f"{slope:.2f} ± {error:.2f}".replace("-", "−") if math.isfinite(slope) else "–")
        shown = f"{bias[0]} → {bias[-1]}" if seen else f"below {_percent(one['bias_error'][0] * 3)}"
        ends = f"{one['widths'][0]} → {one['widths'][-1]}"
        rows.append(f"| {title} | {ends} | {single} | {powers[0]} | {shown} | {powers[1] if seen else '–'} |")
    return "\n".join(rows) + "\n"


def losses_table(found: dict[str, Any]) -> str:
    rows = [f"| width | {' | '.join(map(str, WIDTHS))} | 5 % from |", "|---" * (len(WIDTHS) + 2) + "|"]
    for title, one in found.items():
        cells = [_percent(np.median(one[str(width)])) if str(width) in one else "" for width in WIDTHS]
        rows.append(f"| {title} | {' | '.join(cells)} | {enough(one) or '–'} |")
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
        found = {"convergence": convergence, "descent": losses}[name]()
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        text = json_text({**results, name: found})
        write_whole(RESULTS, lambda path, text=text: path.write_text(text))
    write_tables()


if __name__ == "__main__":
    main()
