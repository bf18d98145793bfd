"""How fast the simulation engines are, as ratios measured in one run.

The yardstick is the loop one would write first: draw all weights of a layer for all runs (into memory allocated once,
which makes it three times faster than allocating them anew), multiply, normalise, activate; for gradients, let torch
differentiate it. Both sides do the same work in turns, and the fastest of several turns
counts, since other work on the machine only ever adds time.

Run with `python -m benchmarks simulate`.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import torch

from benchmarks.environment import show
from isometer.data import make_batch
from isometer.simulate import ergodic_average, simulate
from isometer.spec import Spec, recurrence

RUNS, SAMPLES = 16, 10


def _turns(functions: list[Callable[[], object]], turns: int) -> list[float]:
    """The shortest time of each function, taken in turns after one round of warm-up."""
    best = [float("inf")] * len(functions)
    for turn in range(turns + 1):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            elapsed = time.perf_counter() - start
            if turn:
                best[i] = min(best[i], elapsed)
    return best


def _plain_layer(h: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    z = h @ w.mT
    z = z - z.mean(1, keepdim=True)
    return torch.relu(z / z.square().mean(1, keepdim=True).sqrt())


def plain_forward(width: int, layers: int, w: torch.Tensor) -> torch.Tensor:
    """ReLU and batch norm with drawn weights, and the orthogonality gap of every layer."""
    h = torch.randn(RUNS, SAMPLES, width)
    gap = torch.empty(0)
    for _ in range(layers):
        torch.randn(w.shape, out=w)
        h = _plain_layer(h / width**0.5, w)
        gram = h @ h.mT
        gram = gram / gram.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
        gap = (gram - torch.eye(SAMPLES) / SAMPLES).norm(dim=(1, 2))
    return gap


def plain_backward(width: int, weights: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same with the norm of every weight gradient, differentiated by torch."""
    h = torch.randn(weights[0].shape[0], SAMPLES, width)
    for w in weights:
        with torch.no_grad():
            w.normal_()
        h = _plain_layer(h / width**0.5, w)
    gradients = torch.autograd.grad(h, weights, torch.randn_like(h))
    return [g.flatten(1).norm(dim=1).log() for g in gradients]


def forward_ratio(width: int, layers: int, turns: int) -> dict[str, float]:
    spec = Spec(width=width, depth=20 * layers, norm="batch")
    batch = make_batch("gaussian", SAMPLES, width)
    w = torch.empty(RUNS, width, width)
    plain, gram = _turns(
        [
            lambda: plain_forward(width, layers, w),
            lambda: simulate(spec, batch, runs=RUNS, metrics=["orthogonality_gap"], dtype="float32"),
        ],
        turns,
    )
    plain, gram = plain / layers, gram / spec.layers
    return {"plain_ms_per_layer": 1e3 * plain, "isometer_ms_per_layer": 1e3 * gram, "ratio": plain / gram}


def backward_ratio(width: int = 1000, layers: int = 200, turns: int = 2) -> dict[str, float]:
    # 200 layers of 16 weight matrices and their gradients are 26 GB; two runs at a time fit, and the time of a plain
    # run does not depend on how many there are
    together = 2
    spec = Spec(width=width, depth=layers, norm="batch")
    batch = make_batch("gaussian", SAMPLES, width)
    weights = [torch.empty(together, width, width, requires_grad=True) for _ in range(layers)]
    plain, gram = _turns(
        [
            lambda: plain_backward(width, weights),
            lambda: simulate(spec, batch, runs=RUNS, metrics=["gradient_log_norm"], dtype="float32"),
        ],
        turns,
    )
    plain *= RUNS / together
    return {"plain_seconds": plain, "isometer_seconds": gram, "ratio": plain / gram}


def dense_ratio(width: int = 1000, layers: int = 10, turns: int = 3) -> dict[str, float]:
    """The dense engine against its random numbers and matrix products alone."""
    spec = Spec(width=width, depth=layers, norm="batch")
    batch = make_batch("gaussian", SAMPLES, width)
    h, w = torch.randn(RUNS, SAMPLES, width), torch.empty(RUNS, width, width)

    def bare() -> None:
        for _ in range(layers):
            torch.randn(RUNS, width, width, out=w)
            torch.matmul(h, w.mT)

    bare_time, dense = _turns(
        [
            bare,
            lambda: simulate(spec, batch, runs=RUNS, metrics=["orthogonality_gap"], dtype="float32", engine="dense"),
        ],
        turns,
    )
    return {"numbers_and_products_seconds": bare_time, "isometer_seconds": dense, "ratio": dense / bare_time}


def long_chain(layers: int = 1_000_000, width: int = 32) -> dict[str, float]:
    """002's linear chain, one chain, soft rank and r over all layers: throughput and memory."""
    spec = recurrence("002/eq-5", width=width, depth=1)
    batch = make_batch("gaussian", width, width)
    ergodic_average(spec, batch, layers=2000, metrics=["soft_rank", "stable_rank"], dtype="float32")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    result = ergodic_average(spec, batch, layers=layers, metrics=["soft_rank", "stable_rank"], dtype="float32")
    elapsed = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "layers": float(layers),
        "layers_per_second": layers / elapsed,
        "peak_memory_growth_mb": (after - before) / 1024,
        "soft_rank": float(result["mean"].sel(metric="soft_rank")),
        "stable_rank": float(result["mean"].sel(metric="stable_rank")),
    }


def run(*, layers: int = 1_000_000) -> dict[str, dict[str, float]]:
    """Measure everything, print a table and return the numbers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        results = {
            "forward d=1000 (≥ 40×)": forward_ratio(1000, 5, 5),
            "forward d=4000 (≥ 150×)": forward_ratio(4000, 1, 3),
            "forward and backward d=1000, 200 layers (≥ 15×)": backward_ratio(),
            "dense d=1000 over numbers and products (≤ 2×)": dense_ratio(),
            "long chain d=N=32": long_chain(layers),
        }
    finally:
        torch.set_num_threads(threads)
    show(f"torch {torch.__version__}, one thread, float32", results)
    return results
