"""Predictions with and without bands of finite width, in processor time beyond imports, one thread.

Batch norm, gelu, 20 layers of width 100, 20 samples: an input that no closed form covers. The first call counts, with
everything that it sets up; libraries are imported before.

Run with `python -m benchmarks prediction`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import xarray

from benchmarks.environment import show
from isometer import Spec
from isometer.data import make_batch
from isometer.theory.prediction import finite_width, predict

SAMPLES, WIDTH, DEPTH = 20, 100, 20


def _seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def run() -> dict[str, dict[str, float]]:
    """Measure both, print a table and return the numbers."""
    from scipy.stats import qmc  # imported by the first sampled expectation

    assert qmc
    xarray.Dataset({"imported": ("layer", [0.0])}, coords={"layer": [0]})  # xarray imports its backends now
    spec = Spec(width=WIDTH, depth=DEPTH, activation="gelu", norm="batch")
    batch = make_batch("gaussian", SAMPLES, WIDTH)
    infinite = _seconds(lambda: predict(spec, batch))
    band = _seconds(lambda: finite_width(spec, batch))
    results = {
        "infinite width (≤ 0.5 s)": {"seconds": infinite},
        "with bands (≤ 1.5 s)": {"seconds": infinite + band, "bands_alone_seconds": band},
    }
    show(f"prediction of {DEPTH} layers of batch norm and gelu, {SAMPLES} samples", results)
    return results
