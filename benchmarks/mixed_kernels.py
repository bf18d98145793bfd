"""Kernels of inputs of several lengths over those of one length, as ratios measured in one run.

Twenty inputs at depth 100, NNGP. One length costs a map of one angle per layer until its variance settles; several
lengths cost a rule over all pairs per layer where φ has kinks, and a series where it is smooth. Both sides take turns,
in processor time, and the fastest turn of each counts. `difference` is between the rule and a quadrature pair by pair.

Run with `python -m benchmarks mixed_kernels`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.environment import show
from isometer import activation
from isometer.theory.kernels import kernel_matrices
from isometer.theory.kernels._mixed_lengths import _pair, pieces_of
from isometer.theory.kernels._pair_rules import Factor, PairRule

INPUTS, FEATURES, DEPTH, TURNS = 20, 30, 100, 2
NAMES = ("selu", "elu", "normalized(relu)", "unit(hardtanh)", "tanh", "gelu")
PAIRS = 8


def _inputs() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x = np.random.default_rng(0).standard_normal((INPUTS, FEATURES)) / math.sqrt(FEATURES)
    # not the length 1, at which variances of normalised activations rest from the start
    return 1.2 * x / np.linalg.norm(x, axis=1, keepdims=True), x


def _seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def ratio(name: str, depth: int = DEPTH) -> dict[str, float]:
    """Seconds of one length, of several, and how many times more."""
    one, several = _inputs()
    best = [math.inf, math.inf]
    for _ in range(TURNS):
        for k, x in enumerate((one, several)):
            best[k] = min(best[k], _seconds(lambda x=x: kernel_matrices(name, x, depth, kinds=("nngp",))))  # type: ignore[misc]
    return {"one_length_seconds": best[0], "several_lengths_seconds": best[1], "ratio": best[1] / best[0]}


def difference(name: str) -> float:
    """The largest difference of 1 − cosine between the rule and a quadrature of each pair."""
    phi, rng = activation(name), np.random.default_rng(1)
    p, q, theta = rng.uniform(0.3, 3.0, PAIRS), rng.uniform(0.3, 3.0, PAIRS), rng.uniform(0.05, 3.0, PAIRS)
    sides = [[phi.gain(math.sqrt(v)) for v in values] for values in (p, q)]
    sizes = [np.sqrt([f.second_moment for f in side]) for side in sides]
    f, g = (Factor(np.sqrt(v), np.zeros(PAIRS), size) for v, size in zip((p, q), sizes, strict=True))
    gaps, _, _ = PairRule(phi, None, phi.kinks).pairs(f, g, theta)
    worst = 0.0
    for k in range(PAIRS):
        product = _pair(pieces_of(sides[0][k]), pieces_of(sides[1][k]), 2.0 * math.sin(theta[k] / 2) ** 2)
        worst = max(worst, abs(1.0 - product / (sizes[0][k] * sizes[1][k]) - gaps[k]))
    return worst


def run() -> dict[str, dict[str, float]]:
    """Measure everything, print a table and return the numbers."""
    results = {f"{name} (≤ 5×)": ratio(name) for name in NAMES}
    for name in NAMES[:4]:
        results[f"{name} (≤ 5×)"]["difference"] = difference(name)
    show(f"kernels of {INPUTS} inputs at depth {DEPTH}, several lengths over one", results)
    return results
