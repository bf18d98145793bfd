"""001, §5.4–5.5: the steps of the proofs of Theorem 5.8 and of cases 2 and 3 of Theorem 5.11."""

from __future__ import annotations

from collections.abc import Iterator

from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import at_least, at_most, deterministic, equal
from isometer_papers.claims.joudaki2024.mean_field.kernels import (
    ALL,
    POLYNOMIALS,
    families,
    in_case,
    inner,
    kernel,
    search,
    series,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.global_convergence import (
    centred_rate_of,
    chord_terms,
    knife_edge_bound,
    knife_edge_rate,
)


def _terms(rng: Rng, count: int) -> Iterator[Instance]:
    for k in (1, 2, 3, 8):
        for rho in (0.9, 0.5, 0.0, -0.5, 0.99, -0.99, 0.75):
            yield {"rho": rho, "k": k}
    for _ in range(count):
        yield {"rho": float(rng.uniform(-1, 1)), "k": int(rng.integers(1, 20))}


def _chord_ratio(i: Instance) -> Numeric:
    return abs(kernel(i)(i["rho"]) - 1) / abs(i["rho"] - 1)


def _chord_as_printed(i: Instance) -> Numeric:
    """κ′(1) − Σ c_k² (k − Σ_{i≥k} ρ^i), the inner sum as a geometric series."""
    rho = i["rho"]
    tails = (a * (k - rho**k / (1 - rho)) for k, a in enumerate(series(i).coefficients) if k)
    return kernel(i).slope_at_one - sum(tails)


def _chord(i: Instance) -> Numeric:
    terms = (a * chord_terms(i["rho"], k) for k, a in enumerate(series(i).coefficients) if k)
    return kernel(i).slope_at_one - sum(terms)


def _sequences(rng: Rng, count: int) -> Iterator[Instance]:
    """x_{ℓ+1} = x_ℓ(1 − αx_ℓ) with αx ≤ 1, x ≤ 2."""
    for x in (1.0, 0.5, 2.0):
        for depth in (1, 2, 10):
            yield {"x": x, "alpha": 0.5, "depth": depth}
    for _ in range(count):
        x = float(rng.uniform(0.01, 2))
        alpha = float(rng.uniform(0.01, min(1.0, 1 / x)))
        yield {"x": x, "alpha": alpha, "depth": int(rng.integers(1, 60))}


def _last(i: Instance) -> Numeric:
    x = i["x"]
    for _ in range(i["depth"]):
        x = x * (1 - i["alpha"] * x)
    return x


def _pair_search() -> Search:
    return Search(lambda p: {"rho": 2 * float(p[0]) - 1, "k": 1 + int(12 * p[1])}, 2)


CLAIMS = (
    deterministic(
        "001/thm-5.11.steps:chord-terms",
        at_least(lambda i: i["k"] - i["rho"] ** i["k"] / (1 - i["rho"]), 0),
        {"terms": _terms},
        scale=lambda i: i["k"],
    ),
    deterministic(
        "001/thm-5.11.steps:chord-terms#corrected",
        at_least(lambda i: chord_terms(i["rho"], i["k"]), 0),
        {"terms": _terms},
        scale=lambda i: i["k"],
        search=_pair_search(),
    ),
    deterministic("001/thm-5.11.steps:chord", equal(_chord_ratio, _chord_as_printed), POLYNOMIALS, hypotheses=inner),
    deterministic(
        "001/thm-5.11.steps:chord#corrected",
        equal(_chord_ratio, _chord),
        POLYNOMIALS,
        hypotheses=inner,
        scale=lambda i: kernel(i).slope_at_one,
    ),
    deterministic(
        "001/thm-5.11.steps:increasing",
        at_least(lambda i: chord_terms(i["rho"], i["k"] + 1), lambda i: chord_terms(i["rho"], i["k"])),
        {"terms": _terms},
        scale=lambda i: i["k"],
        search=_pair_search(),
    ),
    deterministic(
        "001/thm-5.11.steps:knife-edge",
        at_most(_chord_ratio, lambda i: 1 - knife_edge_rate(kernel(i)) * (1 - i["rho"])),
        families(3),
        hypotheses=lambda i: inner(i) and in_case(3)(i),
        scale=1,
        search=search(3),
    ),
    deterministic(
        "001/thm-5.11.steps:recursion",
        at_most(_last, lambda i: knife_edge_bound(1 - i["x"], i["depth"], i["alpha"])),
        {"sequences": _sequences},
        search=Search(
            lambda p: {"x": 0.01 + 1.99 * float(p[0]), "alpha": 0.5 * float(p[1]) + 1e-3, "depth": 1 + int(40 * p[2])},
            3,
        ),
    ),
    deterministic(
        "001/thm-5.11.steps:modulus",
        at_most(lambda i: abs(kernel(i)(i["rho"])), lambda i: kernel(i)(abs(i["rho"]))),
        ALL,
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11.steps:one-step",
        at_most(
            lambda i: kernel(i)(i["rho"]) / (kernel(i)(i["rho"]) + i["rho"] * (1 - kernel(i).slope_at_zero)),
            lambda i: centred_rate_of(kernel(i)),
        ),
        families(1),
        hypotheses=lambda i: in_case(1)(i) and 0 < i["rho"] < 1,
        search=search(1),
    ),
)
