"""004, Appendix H: one layer of ReLU."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import Sampled, above, asymptotic, at_least, deterministic, probability
from isometer_papers.float_or_mpmath import Numeric, cos, cosh, exp, log, ncdf, pi_like, sqrt
from isometer_papers.theory.duals.kernel_tables import relu_dual
from isometer_papers.theory.duals.one_layer_relu import (
    circle_spectrum,
    good_event_bound,
    good_event_probability,
    hermite_parities,
    one_layer_smallest_bound,
    one_layer_width,
)


def _angles(rng: Rng, count: int) -> Iterator[Instance]:
    """Points on a circle by their angles, no two parallel."""
    yield {"angles": np.array([0.0, 1.0])}
    yield {"angles": np.array([0.0, 0.01])}
    yield {"angles": np.arange(5) * 2 * math.pi / 5}
    for _ in range(count):
        n = int(rng.integers(2, 7))
        angles = rng.uniform(0, 2 * math.pi, n)
        if rng.integers(3) == 0:
            angles[-1] = angles[0] + 10 ** -rng.uniform(1, 3)
        yield {"angles": angles}


def _cosines(i: Instance) -> Numeric:
    a = i["angles"]
    return cos(a[:, None] - a[None, :])


def _relu_kernel(i: Instance) -> Numeric:
    c = _cosines(i)
    inside = np.where(abs(c) < 1, c, c * 0)  # the diagonal is ½ by itself
    values = relu_dual(inside)
    same = np.eye(len(c), dtype=bool)
    return np.where(same, c * 0 + 0.5, np.where(abs(c) < 1, values, np.where(c > 0, c * 0 + 0.5, c * 0)))


def _gap(i: Instance) -> float:
    """δ of Assumption A."""
    c = np.cos(np.asarray(i["angles"], dtype=float)[:, None] - np.asarray(i["angles"], dtype=float)[None, :])
    return float(1 - np.abs(c - np.diag(np.diag(c))).max())


def _distinct(i: Instance) -> bool:
    return _gap(i) > 1e-8


_circles = cases(*({"low": low, "high": high} for low, high in ((21, 201), (51, 501), (101, 1001))))


def _log_rate(i: Instance) -> float:
    """d log(λ_min/δ^{3/2})/d log n for n equally spaced points, n odd."""

    def level(n: int) -> float:
        return math.log(float(circle_spectrum(n)[0])) - 1.5 * math.log(1 - math.cos(math.pi / n))

    return (level(i["high"]) - level(i["low"])) / math.log(i["high"] / i["low"])


def _log_rate_exact(i: Instance) -> tuple[Numeric, Numeric]:
    """The smallest eigenvalue again from the Fourier coefficients 2/(π²(k² − 1)²), k even, folded modulo n."""
    pi = pi_like(sqrt(_number(1)))

    def level(n: int) -> Any:
        best = _number(0)  # residue 3: its even frequencies 3 − n, 3 + n, … are the farthest from 0
        for fold in range(-200, 201):
            k = 3 + fold * n
            if k % 2 == 0:
                best += 2 / (pi**2 * (_number(k) ** 2 - 1) ** 2)
        delta = 1 - cos(pi / n)
        return log(n * best) - 3 * log(delta) / 2

    return (level(i["high"]) - level(i["low"])) / log(_number(i["high"]) / i["low"]), _number(-0.1)


def _number(x: Numeric) -> Numeric:
    from isometer_papers.claims._precise import mpmath

    return mpmath().mpf(x)


_small = cases(*({"angles": angle * np.arange(n)} for n, angle in ((2, math.pi / 2), (2, 1.0), (3, math.pi / 3))))


def _finite_width(i: Instance, rng: Rng) -> Estimate:
    """Share of networks of width n⁸log(n/δ)/δ³ with σ_min(ΦᵀΦ) above the bound of the proof."""
    n = len(i["angles"])
    width = math.ceil(one_layer_width(n, _gap(i))["theorem"])
    x = np.stack([np.cos(i["angles"]), np.sin(i["angles"])])
    hits, runs = 0, 60
    for _ in range(runs):
        phi = np.maximum(rng.standard_normal((min(width, 40_000), 2)) @ x, 0.0)
        values = np.linalg.eigvalsh(phi.T @ phi / len(phi))
        hits += bool(values[0] >= one_layer_smallest_bound(n, _gap(i)))
    share = (hits + 1) / (runs + 2)  # Laplace's rule: the error of 60 hits of 60 would be 0
    return Estimate(share, math.sqrt(share * (1 - share) / runs), runs - 1, runs)


def _good(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"angles": np.array([0.0, math.pi / 2])}
    yield {"angles": np.array([0.0, 0.1, -0.1])}
    for _ in range(count):
        n = int(rng.integers(2, 6))
        yield {"angles": rng.uniform(0, math.pi, n)}


def _points(i: Instance) -> Numeric:
    return np.stack([np.cos(i["angles"]), np.sin(i["angles"])], axis=1)


def _event(theta: bool) -> Callable[[Instance, Rng], Estimate]:
    """P(G), with θ of the lemma or of the proof of Theorem 56."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        mix = math.sqrt(_gap(i)) / (5 * len(i["angles"])) if theta else None
        seed = int(rng.integers(1 << 31))
        value, error = good_event_probability(_points(i), theta=mix, draws=20_000, seed=seed)
        # an error of 0 means an exact number, which no share of draws is
        return Estimate(value, max(error, 1e-6 * value), 19_999, 20_000)

    return estimate


def _inside(i: Instance) -> Numeric:
    """P(|w·x₁| < √δ/10n), w·x₁ ~ N(0, 1 − θ²)."""
    delta, n = i["delta"], i["n"]
    theta = sqrt(sqrt(delta)) / (5 * n)
    edge = sqrt(delta) / (10 * n) / sqrt(1 - theta * theta)
    return 2 * ncdf(edge) - 1


def _sizes(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"delta": 1.0, "n": 1}
    for _ in range(count):
        yield {"delta": float(10 ** -rng.uniform(0, 6)), "n": int(rng.integers(1, 50))}


def _transcendental(i: Instance) -> Numeric:
    """K̄ of one layer of e^u: e^{ρ + 1}, all Hermite coefficients non-zero."""
    return exp(_cosines(i) + 1)


_parity_names = cases({"F": "relu"})


def _even_kernel(i: Instance) -> Numeric:
    """K̄ of one layer of cos: cosh(ρ)/e, even coefficients only."""
    return cosh(_cosines(i)) / exp(_cosines(i)[0, 0] * 0 + 1)


def _far(least: float) -> Callable[[Instance], bool]:
    return lambda i: _gap(i) > least and len(i["angles"]) <= 5


def _odd_count() -> int:
    """Non-zero odd coefficients of ReLU up to degree 11, by mpmath quadrature."""
    from isometer_papers.claims._precise import mpmath

    lib = mpmath()
    found = 0
    for degree in range(1, 12, 2):
        value = lib.quad(lambda x, d=degree: x * lib.hermite(d, x / lib.sqrt(2)) * lib.npdf(x), [0, 4, 30])
        found += bool(abs(value) > 1e-15)
    return found


CLAIMS = (
    deterministic(
        "004/thm-56",
        at_least(
            lambda i: eigenvalues(_relu_kernel(i))[0], lambda i: one_layer_smallest_bound(len(i["angles"]), _gap(i))
        ),
        {"circle": _angles},
        hypotheses=_far(1e-6),
        counts=(60, 500),
    ),
    probability(
        "004/thm-56:width", at_least(Sampled(_finite_width), 0.5), {"points": _small}, counts=(2, 3), resolution=0.5
    ),
    asymptotic("004/thm-56:note", at_least(_log_rate, -0.1), {"circles": _circles}, exact=_log_rate_exact, scale=1),
    probability(
        "004/lem-57",
        at_least(Sampled(_event(False)), lambda i: good_event_bound(len(i["angles"]), _gap(i))),
        {"circle": _good},
        hypotheses=lambda i: _gap(i) > 1e-4,
        counts=(10, 60),
        resolution=0.5,
    ),
    probability(
        "004/lem-57:theta",
        at_least(Sampled(_event(True)), lambda i: good_event_bound(len(i["angles"]), _gap(i))),
        {"circle": _good},
        hypotheses=lambda i: _gap(i) > 1e-4,
        counts=(10, 60),
        resolution=0.5,
    ),
    deterministic(
        "004/lem-57:eq-27", at_least(_inside, lambda i: sqrt(i["delta"]) / (25 * i["n"])), {"random": _sizes}
    ),
    deterministic(
        "004/thm-58",
        above(lambda i: eigenvalues(_transcendental(i))[0], 0),
        {"circle": _angles},
        hypotheses=_far(1e-4),
        counts=(60, 400),
    ),
    deterministic(
        "004/thm-58:generalises",
        at_least(lambda i: hermite_parities(i["F"])[1], 2),
        {"relu": _parity_names},
        exact=lambda i: (_odd_count(), 2),
    ),
    deterministic(
        "004/thm-58#corrected",
        above(lambda i: min(eigenvalues(_even_kernel(i))[0], eigenvalues(_relu_kernel(i))[0]), 0),
        {"circle": _angles},
        hypotheses=_far(1e-4),
        counts=(60, 400),
    ),
)
