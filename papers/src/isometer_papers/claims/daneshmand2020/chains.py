"""Long chains of 002 and what is read off them; computed once per process."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.run import seed_of
from isometer.work import GIB, allow, allowance
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Family, Rng, cases
from isometer_papers.claims._fits import combined, exponent
from isometer_papers.float_or_mpmath import Numeric

TAUS = (0.25, 0.5, 0.75)
_BATCHES = 16
_MEMORY = 4 * GIB


@dataclass(frozen=True)
class Averages:
    """Time averages along a chain from a full-rank input, and the regularity constant."""

    mean: dict[str, Estimate]
    regularity: Estimate


def averages(width: int, gamma: float, layers: int, function: str = "identity", start: str = "gaussian") -> Averages:
    """Of `stable_rank`, `frobenius`, `cube`, `drift`, `offdiagonal`, `soft_τ` and `excess_τ` with τ in percent."""
    return _averages(width, float(gamma), layers, function, start)


@lru_cache(maxsize=64)
def _averages(width: int, gamma: float, layers: int, function: str, start: str) -> Averages:
    from isometer.data import make_batch
    from isometer.simulate import ergodic_average
    from isometer.spec import recurrence

    seed = seed_of(f"002 chain {width} {gamma} {layers} {function} {start}")
    spec = recurrence("002/eq-5", width=width, depth=1, residual=gamma, activation=function)
    batch = make_batch("gaussian", width, width, seed=seed & 0x7FFFFFFF)
    if start == "collinear":
        batch = np.ones((width, 1)) @ np.ones((1, width)) + 0.1 * batch
    weak = 0.0 if math.isinf(gamma) else 20 / (gamma**2 * width)
    measured = _metrics()
    # at effort thorough the widest chains need more than a command is allowed by itself; free memory is still checked
    with allow(memory=max(allowance().memory, _MEMORY)):
        result = ergodic_average(
            spec,
            batch,
            layers=layers,
            metrics=list(measured),
            seed=seed & 0x7FFFFFFF,
            burn_in=200 + int(weak),
            chains=8,
            batches=_BATCHES,
            moments=True,
        )
    freedom = 8 * _BATCHES - 1
    means = {
        str(name): Estimate(float(value), float(error), freedom, 8 * _BATCHES)
        for name, value, error in zip(
            result["metric"].values, result["mean"].values, result["standard_error"].values, strict=True
        )
    }
    alpha = Estimate(float(result["regularity"]), float(result["regularity_error"]), freedom, 8 * _BATCHES)
    return Averages(means, alpha)


@lru_cache(maxsize=1)
def _metrics() -> tuple[Any, ...]:
    import torch

    from isometer.metrics import stable_rank

    def moments(h: Numeric) -> Numeric:
        return h.mT @ h / h.shape[-2]

    def frobenius(h: Numeric) -> Numeric:
        m = moments(h)
        return (m * m).sum((-2, -1))

    def cube(h: Numeric) -> Numeric:
        m = moments(h)
        return ((m @ m) * m).sum((-2, -1))

    def drift(h: Numeric) -> Numeric:
        m = moments(h)
        square = m @ m
        rows = torch.diagonal(square, dim1=-2, dim2=-1)
        traces = rows.sum(-1), (square * m).sum((-2, -1)), (rows**2).sum(-1)
        return 2 * m.shape[-1] ** 2 - 2 * traces[0] - 8 * traces[1] + 8 * traces[2]

    def offdiagonal(h: Numeric) -> Numeric:
        return moments(h)[..., 0, 1]

    last: list[Any] = [None, None]

    def eigenvalues(h: Numeric) -> Numeric:
        """Of M, shared by the counts of one block."""
        if last[0] is not h:
            last[:] = h, torch.linalg.eigvalsh(moments(h))
        return last[1]

    def soft(tau: float, share: float) -> Any:
        def count(h: Numeric) -> Numeric:
            number = (eigenvalues(h) >= tau).sum(-1).to(torch.float64)
            return number - share * (1 - tau) ** 2 * stable_rank(h)

        count.__name__ = f"{'excess' if share else 'soft'}_{100 * tau:.0f}"
        return count

    counts = [soft(tau, share) for tau in TAUS for share in (0.0, 1.0)]
    return ("stable_rank", frobenius, cube, drift, offdiagonal, *counts)


def linear_chains(*given: tuple[int, float, int]) -> Family:
    """Chains (width, γ, layers), as many as the effort allows."""
    return cases(*({"width": width, "gamma": gamma, "layers": layers} for width, gamma, layers in given))


def run_of(i: Instance) -> Averages:
    """The chain of an instance."""
    return averages(i["width"], i["gamma"], i["layers"], i.get("F", "identity"), i.get("start", "gaussian"))


def mean_of(name: str) -> Callable[[Instance, Rng], Estimate]:
    """The time average of a quantity."""
    return lambda i, rng: run_of(i).mean[name]


def over_bound(name: str, bound: Callable[[Any, Any], Any]) -> Callable[[Instance, Rng], Estimate]:
    """Average over a bound that depends on the regularity constant, errors added."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        chain = run_of(i)
        value, alpha = chain.mean[name], chain.regularity
        step = 1e-6
        here = float(bound(i["width"], alpha.value))
        derivative = (float(bound(i["width"], alpha.value + step)) - here) / step
        return combined([(1 / here, value), (value.value * derivative / here**2, alpha)], value.value / here)

    return estimate


def growth(name: str, widths: Sequence[int], gamma: float, layers: int, function: str = "identity") -> Estimate:
    """Exponent of a time average in the width."""
    values = [averages(d, gamma, layers, function).mean[name] for d in widths]
    return exponent(widths, values)


def growth_cases(*given: tuple[list[int], float, int, str]) -> Family:
    """Instances for `growth_of`: widths, γ, layers, F."""
    return cases(*({"widths": w, "gamma": gamma, "layers": layers, "F": f} for w, gamma, layers, f in given))


def growth_of(name: str) -> Callable[[Instance, Rng], Estimate]:
    """Exponent of a time average in the width, as an estimate of a claim."""
    return lambda i, rng: growth(name, i["widths"], i["gamma"], i["layers"], i["F"])
