"""Kernels of inputs of several lengths over those of one length, as ratios measured in one run.

Twenty inputs at depth 100, NNGP. One length costs a map of one angle per layer until its variance settles. Several
lengths cost a series per pair and layer where φ is smooth, and a table that layers share or an integral over one angle
where it has kinks. Both sides take turns, each with nothing kept from the turn before, in processor time; the fastest
turn of each counts. `difference` is from a quadrature pair by pair.

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
from isometer.activations import ENTRIES
from isometer.activations._activation import _CORES
from isometer.theory.kernels import SignalFamily, kernel_matrices
from isometer.theory.kernels._mixed_lengths import Architecture, PairMoments, _pair, pieces_of

INPUTS, FEATURES, DEPTH, TURNS = 20, 30, 100, 2
DIVERGING = ("relu2", "square", "cube", "exp")
NAMES = (*(name for name in ENTRIES if name not in DIVERGING), "normalized(relu)", "unit(tanh)", "unit(hardtanh)")
KINKED = ("selu", "elu", "softsign", "normalized(relu)", "hardtanh", "hardswish")
PAIRS = 8


def _inputs() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x = np.random.default_rng(0).standard_normal((INPUTS, FEATURES)) / math.sqrt(FEATURES)
    # not the length 1, at which variances of normalised activations rest from the start
    return 1.2 * x / np.linalg.norm(x, axis=1, keepdims=True), x


def _seconds(function: Callable[[], object]) -> float:
    _CORES.clear()  # a command starts with nothing
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
    """The largest difference of 1 − cosine from a quadrature of each pair."""
    phi, rng, worst = activation(name), np.random.default_rng(1), 0.0
    for _ in range(PAIRS):
        variances, gap = rng.uniform(0.3, 3.0, 2), 1.0 - math.cos(rng.uniform(0.05, 3.0))
        moments = PairMoments(SignalFamily(phi), variances, Architecture(), 1)
        gaps = np.array([[0.0, gap], [gap, 0.0]])
        found = moments.block(slice(0, 2), gaps, 2.0 - gaps, False)[0][0, 1]
        sides = [phi.gain(math.sqrt(v)) for v in variances]
        size = math.sqrt(sides[0].second_moment * sides[1].second_moment)
        worst = max(worst, abs(1.0 - _pair(*(pieces_of(f) for f in sides), gap) / size - found))
    return worst


def run() -> dict[str, dict[str, float]]:
    """Measure everything, print a table and return the numbers."""
    results = {f"{name} (≤ 5×)": ratio(name) for name in NAMES}
    for name in KINKED:
        results[f"{name} (≤ 5×)"]["difference"] = difference(name)
    show(f"kernels of {INPUTS} inputs at depth {DEPTH}, several lengths over one", results)
    return results
