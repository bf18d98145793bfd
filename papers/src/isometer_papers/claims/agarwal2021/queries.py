"""004, §5 and Appendix F: cosines in networks of finite width, and statistical queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.activations import activation
from isometer.theory.kernels import correlation_bound
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._fits import exponent
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import Sampled, at_most, deterministic, expectation, probability, vanishes
from isometer_papers.claims.agarwal2021.simulations import dense_cosines, kernel_draws, unit_cosines
from isometer_papers.float_or_mpmath import Numeric, asin, cosh, exp, log, ncdf, pi_like, sqrt
from isometer_papers.theory.duals.exact_duals import dual_slope, iterated_dual
from isometer_papers.theory.kernel_learning.queries import cosine_floor, half_cube, subgaussian_norm


def _generating(i: Instance) -> Numeric:
    """log E e^{tσ(X)} of sign, unit tanh or normalised ReLU."""
    t, pi = i["t"], pi_like(i["t"])
    if i["F"] == "sign":
        return log(cosh(t))
    if i["F"] == "relu":
        scale = 1 / sqrt((pi - 1) / (2 * pi) + 0 * t)
        mean = 1 / sqrt(2 * pi + 0 * t)
        s = t * scale
        inside = exp(s * s / 2) * ncdf(s) + ncdf(t * 0)
        return log(inside) - s * mean
    return _tanh_generating(t)


def _tanh_generating(t: Numeric) -> Numeric:
    if hasattr(t, "_mpf_"):
        lib = mpmath()
        size = lib.sqrt(lib.quad(lambda x: lib.tanh(x) ** 2 * lib.npdf(x), [-14, 0, 14]))
        return lib.log(lib.quad(lambda x: lib.exp(t * lib.tanh(x) / size) * lib.npdf(x), [-14, 0, 14]))
    x, w = np.polynomial.legendre.leggauss(200)
    weight = 10 * w * np.exp(-((10 * x) ** 2) / 2) / math.sqrt(2 * math.pi)
    size = math.sqrt(float(weight @ np.tanh(10 * x) ** 2))
    return math.log(float(weight @ np.exp(t * np.tanh(10 * x) / size)))


def _parameters(rng: Rng, count: int) -> Iterator[Instance]:
    for name in ("sign", "relu", "tanh"):
        for t in (0.5, -1.0, 3.0, 4.5):
            yield {"F": name, "t": t}
    for _ in range(count):
        yield {"F": str(rng.choice(["sign", "relu", "tanh"])), "t": float(rng.uniform(-6, 6))}


@lru_cache(maxsize=3)
def _norm(name: str) -> float:
    return subgaussian_norm({"sign": "sign", "relu": "normalized(relu)", "tanh": "unit(tanh)"}[name])


_tails = cases(
    *(
        {"F": name, "m": width, "t": t}
        for name, width in (("normalized(relu)", 64), ("unit(tanh)", 64), ("normalized(relu)", 256))
        for t in (0.15, 0.3)
    )
)


_RATE = 0.05  # the universal constant of eq. 22 and 23, as it is tested


def _tail_bound(i: Instance) -> float:
    return min(1.0, 2 * math.exp(-_RATE * i["m"] * min(i["t"] ** 2, i["t"])))


def _share(hits: Any) -> Estimate:
    n = len(hits)
    share = (float(np.sum(hits)) + 1) / (n + 2)
    return Estimate(share, math.sqrt(share * (1 - share) / n), n - 1, n)


def _length_tail(i: Instance, rng: Rng) -> Estimate:
    phi = activation(i["F"])
    squares = (phi(rng.standard_normal((4000, i["m"]))) ** 2).mean(1)
    return _share(np.abs(squares - 1) > i["t"])


def _product_tail(i: Instance, rng: Rng) -> Estimate:
    name = {"normalized(relu)": "relu", "unit(tanh)": None}[i["F"]]
    draws = kernel_draws(i["F"], i["m"], 1, 0.5, 4000)
    mean = float(iterated_dual(name, 0.5, 1)) if name else float(draws.mean())
    return _share(np.abs(draws - mean) > i["t"])


_grown = cases({"F": "normalized(relu)", "depths": [8, 32], "ratio": 2, "rho": 0.5})


def _mean_exponent(dense: bool) -> Callable[[Instance, Rng], Estimate]:
    """d log E ρ_L/d log L with m = ratio·L."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        values = []
        for depth in i["depths"]:
            width = i["ratio"] * depth
            runs = 4000 if not dense else 1500
            if dense:
                values.append(Estimate.of(dense_cosines(i["F"], width, depth, i["rho"], runs, rng)))
            else:
                values.append(Estimate.of(unit_cosines(i["F"], width, depth, i["rho"], runs)[-1]))
        return exponent(i["depths"], values)

    return estimate


_floors = cases({"F": "normalized(relu)", "m": 64, "L": 40, "rho": 0.5})


def _away_from_floor(i: Instance, rng: Rng) -> Estimate:
    """|log₂| of the mean over its floor."""
    sample = unit_cosines(i["F"], i["m"], i["L"], i["rho"], 16_000)[-1]
    mean = Estimate.of(sample)
    floor = cosine_floor(i["F"], i["m"]).mean
    error = mean.error / (mean.value * math.log(2))
    return Estimate(abs(math.log2(mean.value / floor)), error, mean.freedom, mean.draws)


_odd = cases(*({"F": name, "m": 64, "L": depth, "rho": 0.5} for name, depth in (("sign", 30), ("unit(tanh)", 60))))


def _last_mean(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(unit_cosines(i["F"], i["m"], i["L"], i["rho"], 4000)[-1])


_displayed = cases({"F": "normalized(relu)", "m": 64, "L": 20, "rho": 0.5})


def _displayed_mean(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(unit_cosines(i["F"], i["m"], i["L"], i["rho"], 400, True)[-1])


def _displayed_dense(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(dense_cosines(i["F"], i["m"], i["L"], i["rho"], 200, rng, True))


def _cubes(rng: Rng, count: int) -> Iterator[Instance]:
    for d in (3, 4):
        for depth in (50, 200):
            yield {"dual": "relu", "d": d, "L": depth}
    yield {"dual": "sin", "d": 3, "L": 200}


def _query(i: Instance) -> Numeric:
    """E_W(E_x g(x) sgn f_W(x))² for g = 1 at infinite width: the mean of (2/π) arcsin ρ(x, y)."""
    d = i["d"]
    signs = np.rint(half_cube(d) * math.sqrt(d)).astype(int)
    one = i.get("one", 1.0)
    cosines = signs @ signs.T
    values = {int(c): iterated_dual(i["dual"], one * int(c) / (one * d), i["L"]) for c in np.unique(cosines)}
    total = sum(2 / pi_like(one) * asin(values[int(c)]) for c in cosines.ravel())
    return total / len(signs) ** 2


def _query_exact(bound: Callable[[Instance], Numeric]) -> Callable[[Instance], tuple[Numeric, Numeric]]:
    def sides(i: Instance) -> tuple[Numeric, Numeric]:
        return _query({**i, "one": mpmath().mpf(1)}), bound(i)

    return sides


def _mu(i: Instance) -> float:
    return 1 - float(dual_slope(i["dual"], 0.0))


def _query_bound(i: Instance) -> float:
    """L(1 − μ/4)^L, the rate of the proof of Theorem 52."""
    return float(i["L"] * (1 - _mu(i) / 4) ** i["L"])


def _query_corrected(i: Instance) -> float:
    """1/|S| + B(L, δ), δ = 2/d on half of the cube."""
    return float(2.0 ** (1 - i["d"]) + correlation_bound(i["L"], 2 / i["d"], _mu(i)))


CLAIMS = (
    deterministic(
        "004/eq-21",
        at_most(_generating, lambda i: i["t"] ** 2 * _norm(i["F"]) ** 2 / 2),
        {"random": _parameters},
        tolerance=1e-6,
        counts=(40, 300),
    ),
    probability(
        "004/thm-52:eq-22",
        at_most(Sampled(_length_tail), _tail_bound),
        {"widths": _tails},
        counts=(4, 6),
        resolution=0.5,
    ),
    probability(
        "004/thm-52:eq-23",
        at_most(Sampled(_product_tail), _tail_bound),
        {"widths": _tails},
        counts=(4, 6),
        resolution=0.5,
    ),
    expectation(
        "004/thm-52",
        at_most(
            Sampled(
                _mean_exponent(False), _mean_exponent(True), "networks with all their weights instead of pairs in law"
            ),
            -2.0,
        ),
        {"networks": _grown},
        counts=(1, 1),
        resolution=0.5,
    ),
    expectation(
        "004/thm-52#corrected",
        at_most(Sampled(_away_from_floor), 1.0),
        {"networks": _floors},
        counts=(1, 1),
        resolution=0.5,
    ),
    expectation("004/thm-52:odd", vanishes(Sampled(_last_mean)), {"networks": _odd}, counts=(2, 2), resolution=0.05),
    expectation(
        "004/eq-3",
        at_most(
            Sampled(_displayed_mean, _displayed_dense, "networks with all their weights instead of pairs in law"), 0.5
        ),
        {"networks": _displayed},
        counts=(1, 1),
        resolution=0.3,
    ),
    expectation(
        "004/eq-3#intended", at_most(Sampled(_last_mean), 0.5), {"networks": _displayed}, counts=(1, 1), resolution=0.3
    ),
    deterministic(
        "004/thm-15:eq-24", at_most(_query, _query_bound), {"cubes": _cubes}, exact=_query_exact(_query_bound)
    ),
    deterministic(
        "004/thm-15:eq-24#corrected",
        at_most(_query, _query_corrected),
        {"cubes": _cubes},
        exact=_query_exact(_query_corrected),
    ),
)
