"""Transformers in theory, in processor time beyond imports, one thread.

A diagram of 60 × 60 points at depth 100, tokens exchangeable and attention in full, without and with gradients; and the
prediction of one batch of 64 tokens through 48 blocks with a causal mask. The first call counts, with every table that
it sets up.

Run with `python -m benchmarks transformers`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import xarray

from benchmarks.environment import show
from isometer import Spec
from isometer.metrics import SEQUENCE_METRICS
from isometer.theory.prediction import predict
from isometer.theory.transformers import PresetPlane, token_diagram

SIDE, DEPTH, TOKENS, BLOCKS = 60, 100, 64, 48


def _seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def _diagram(norm: str, backward: bool) -> float:
    network = f"gpt(blocks={DEPTH}, width=512, heads=8, tokens=32, norm={norm!r}, causal=False)"
    plane = PresetPlane(network, "qk_gain", "branch")
    across, along = np.geomspace(0.1, 10.0, SIDE).tolist(), np.linspace(0.0, 1.0, SIDE).tolist()
    return _seconds(lambda: token_diagram(plane, across, along, backward=backward))


def _prediction(metrics: tuple[str, ...]) -> float:
    """One sequence, so no cosines across samples."""
    spec = Spec(f"gpt(blocks={BLOCKS}, width=512, heads=8, tokens={TOKENS}, branch=0.2)")
    batch = np.random.default_rng(0).standard_normal((1, 512, TOKENS))
    return _seconds(lambda: predict(spec, batch, metrics=metrics))


def run() -> dict[str, dict[str, float]]:
    """Measure all of it, print a table and return the numbers."""
    from scipy.stats import qmc  # imported by the first sampled expectation

    assert qmc
    xarray.Dataset({"imported": ("layer", [0.0])}, coords={"layer": [0]})  # xarray imports its backends now
    cosines = tuple(name for name in SEQUENCE_METRICS if name != "sample_cosine")
    results = {
        "diagram, norm after the sum (≤ 5 s)": {"seconds": _diagram("post", False)},
        "the same with gradients (≤ 5 s)": {"seconds": _diagram("post", True)},
        "diagram, norm before attention, with gradients (≤ 5 s)": {"seconds": _diagram("pre", True)},
        "prediction (≤ 10 s)": {"seconds": _prediction(cosines)},
        "prediction with gradients (≤ 10 s)": {"seconds": _prediction((*cosines, "gradient_log_norm"))},
    }
    title = f"diagrams of {SIDE} × {SIDE} points at depth {DEPTH}; {TOKENS} tokens, {BLOCKS} blocks"
    show(title, results)
    return results
