"""Kernel maps: time per value of κ on 10⁶ correlations against scipy's dblquad, at a checked accuracy of 1e-10."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.integrate import dblquad

from benchmarks.environment import best_of
from isometer import Activation, activation

# scalar formulas without array overhead, so that dblquad is given its best chance
SCALAR: dict[str, Callable[[float], float]] = {
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "tanh": math.tanh,
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x)) if x < 30 else x),
    "elu": lambda x: x if x > 0 else math.expm1(x),
}
VALUES = 1_000_000
PROBES = (-0.9, 0.3, 0.95)


def _by_dblquad(phi: Callable[[float], float], rho: float) -> float:
    """E φ(X)φ(Y) the straightforward way, to the same absolute accuracy."""
    s = math.sqrt(1 - rho * rho)

    def integrand(z: float, x: float) -> float:
        return phi(x) * phi(rho * x + s * z) * math.exp(-(x * x + z * z) / 2) / (2 * math.pi)

    return float(dblquad(integrand, -9, 9, -9, 9, epsabs=1e-10, epsrel=0)[0])


def run() -> dict[str, Any]:
    """Set-up time, time per value, ratio to dblquad and the largest disagreement, per activation."""
    rho = np.random.default_rng(0).uniform(-1, 1, VALUES)
    table = Table(title="κ(ρ) on 10⁶ values against scipy.integrate.dblquad")
    for column in ("activation", "set-up", "per value", "dblquad", "ratio", "with set-up", "difference"):
        table.add_column(column, justify="right")
    rows = {}
    for name, scalar in SCALAR.items():
        start = time.perf_counter()
        phi = Activation(activation(name).expression, name)
        phi.kernel(0.5)
        setup = time.perf_counter() - start
        ours = best_of(lambda phi=phi: phi.kernel(rho)) / VALUES  # type: ignore[misc]
        start = time.perf_counter()
        references = [_by_dblquad(scalar, r) for r in PROBES]
        theirs = (time.perf_counter() - start) / len(PROBES)
        difference = max(abs(phi.kernel(r) - v) for r, v in zip(PROBES, references, strict=True))
        rows[name] = {
            "setup_seconds": setup,
            "seconds_per_value": ours,
            "dblquad_seconds_per_value": theirs,
            "ratio": theirs / ours,
            "ratio_with_setup": theirs / (ours + setup / VALUES),
            "max_difference": difference,
        }
        table.add_row(
            name, f"{setup * 1e3:.0f} ms", f"{ours * 1e9:.0f} ns", f"{theirs * 1e3:.0f} ms", f"{theirs / ours:.2g}×",
            f"{theirs / (ours + setup / VALUES):.2g}×", f"{difference:.0e}",
        )  # fmt: skip
    Console().print(table)
    return {"kernel_map_vs_dblquad": rows}
