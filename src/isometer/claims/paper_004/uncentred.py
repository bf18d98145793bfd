"""004, §3.4 and C.3: activations with E σ² = 1 and a mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.claims.claim import Claim, Instance, Search
from isometer.claims.paper_004.instances import Rng, dual_of, like, nonaffinity, random_squares
from isometer.theory.bounds import knife_edge_depth, uncentred_depth
from isometer.theory.exact_duals import UNCENTRED, dual_slope, dual_value, iterated_dual, smallest_fixed_point


def fixed_point(i: Instance) -> Any:
    """ρ̄."""
    return smallest_fixed_point(dual_of(i), precise=hasattr(like(i), "_mpf_"))


def _simple(rng: Rng, count: int) -> Iterator[dict[str, Any]]:
    yield {"squares": np.array([0.25, 0.0, 0.75])}
    yield {"squares": np.array([0.1, 0.0, 0.0, 0.9])}
    yield {"squares": np.array([0.1, 0.5, 0.4])}
    yield {"squares": np.array([0.5, 0.25, 0.25])}
    for name in UNCENTRED:
        yield {"dual": name}


def _duals(rng: Rng, count: int) -> Iterator[Instance]:
    yield from _simple(rng, count)
    for _ in range(count):
        yield {"squares": random_squares(rng, centred=False)}


def _with(name: str, low: float, high: float, *places: float) -> Any:
    """Duals with one more number."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for dual in _simple(rng, count):
            for value in places:
                yield {**dual, name: value}
        for _ in range(count):
            yield {"squares": random_squares(rng, centred=False), name: float(rng.uniform(low, high))}

    return generator


def _search(name: str, low: float, high: float) -> Search:
    def build(point: Any) -> Instance:
        squares = np.array([point[0], point[1], point[2] + 0.01, point[3]])
        return {"squares": squares / squares.sum(), name: low + (high - low) * float(point[4])}

    return Search(build, 5, (200, 1000))


COSINES = {"random": _with("rho", -1, 1, 0.25, 0.5, 0.95, -0.5)}


def _pull(i: Instance) -> Any:
    """(μ̃/2)(1 − ρ̄)."""
    return nonaffinity(i) / 2 * (1 - fixed_point(i))


def _on_chord(i: Instance) -> Any:
    rho = i["share"] + (1 - i["share"]) * fixed_point(i)
    return rho - dual_value(dual_of(i), rho)


def _away(i: Instance) -> Any:
    return abs(dual_value(dual_of(i), i["rho"]) - fixed_point(i))


def _case(number: int) -> Any:
    def hypothesis(i: Instance) -> bool:
        rho, fixed = i["rho"], fixed_point(i)
        middle = (1 + fixed) / 2
        return bool((rho >= middle, fixed <= rho < middle, 0 <= rho < fixed, rho < 0)[number - 1])

    return hypothesis


def _settled(i: Instance) -> bool:
    """σ̂(0) > 0, and ρ̄ < 1."""
    return bool(dual_value(dual_of(i), like(i)) > 1e-3 and fixed_point(i) < 1 - 1e-6)


def _start(i: Instance) -> int:
    at_zero = float(dual_value(dual_of(i), like(i)))
    return uncentred_depth(float(1 - abs(i["rho"])), float(nonaffinity(i)), float(fixed_point(i)), at_zero)


def _rate(i: Instance) -> Any:
    fixed = fixed_point(i)
    return max(1 - nonaffinity(i) * (1 - fixed) / 2, dual_slope(dual_of(i), fixed))


def _converged(i: Instance) -> Any:
    return abs(iterated_dual(dual_of(i), i["rho"], _start(i) + i["more"]) - fixed_point(i))


def _paths(rng: Rng, count: int) -> Iterator[Instance]:
    for dual in _simple(rng, count):
        for rho in (0.5, 0.99, -0.5, -0.99):
            for more in (0, 1, 5):
                yield {**dual, "rho": rho, "more": more}
    for _ in range(count):
        rho = float(rng.choice([rng.uniform(-1, 1), 1 - 10 ** -rng.uniform(1, 4), -1 + 10 ** -rng.uniform(1, 4)]))
        yield {"squares": random_squares(rng, centred=False), "rho": rho, "more": int(rng.integers(0, 20))}


def _search_paths() -> Search:
    def build(point: Any) -> Instance:
        squares = np.array([point[0] + 0.01, point[1], point[2] + 0.02, point[3]])
        rho = (1 - 10 ** (-4 * float(point[4]))) * (1 if point[5] > 0.5 else -1)
        return {"squares": squares / squares.sum(), "rho": rho, "more": int(10 * point[6])}

    return Search(build, 7, (200, 1000))


def _critical(k: int, mass: float) -> Any:
    """σ̂ = a_0² + a_1²ρ + a_k²ρ^k with σ̂(1) = σ̂′(1) = 1."""
    squares = np.zeros(k + 1)
    squares[k], squares[0] = mass, (k - 1) * mass
    squares[1] = 1 - k * mass
    return squares


def _critical_cases(rng: Rng, count: int) -> Iterator[Instance]:
    for epsilon in (0.4, 0.1, 0.05):
        for rho in (-1.0, 0.0, 0.5):
            yield {"dual": "unit-relu", "epsilon": epsilon, "rho": rho}
            yield {"dual": "unit-exp", "epsilon": epsilon, "rho": rho}
            yield {"squares": _critical(2, 0.25), "epsilon": epsilon, "rho": rho}
    for _ in range(count):
        k = int(rng.integers(2, 6))
        squares = _critical(k, float(rng.uniform(0.1, 1)) / k)
        rho = float(rng.choice([-1.0, rng.uniform(-1, 1)]))
        yield {"squares": squares, "epsilon": float(rng.uniform(0.05, 0.499)), "rho": rho}


def _search_critical() -> Search:
    def build(point: Any) -> Instance:
        squares = _critical(2 + int(3.99 * point[0]), 0.04 + 0.16 * float(point[1]))
        return {"squares": squares, "epsilon": 0.05 + 0.44 * float(point[2]), "rho": 2 * float(point[3]) - 1}

    return Search(build, 4, (100, 300))


def _knife_edge(part: str) -> Any:
    """Depth of Lemma 36 with μ̃, or with μ = 1 − a_1² as it is printed."""

    def reached(i: Instance) -> Any:
        at_zero = float(dual_value(dual_of(i), like(i)))
        mu = 1 - float(dual_slope(dual_of(i), like(i))) if part == "printed" else float(nonaffinity(i))
        return iterated_dual(dual_of(i), i["rho"], knife_edge_depth(float(i["epsilon"]), mu, at_zero))

    return reached


def _derivative_step(i: Instance) -> Any:
    return 1 - dual_slope(dual_of(i), 1 - i["epsilon"])


def _contraction_step(i: Instance) -> Any:
    alpha = i["epsilon"]
    return 2 * alpha**2 * nonaffinity(i) + (1 - 2 * alpha * nonaffinity(i)) * (1 - i["rho"])


def _limit(i: Instance) -> Any:
    return abs(iterated_dual(dual_of(i), i["rho"], i["depth"]) - fixed_point(i))


def _limits(rng: Rng, count: int) -> Iterator[Instance]:
    for dual in (*_simple(rng, count), {"dual": "relu"}, {"dual": "sin"}, {"squares": np.array([0.0, 0.0, 1.0])}):
        for rho in (0.9, -0.9):
            yield {**dual, "rho": rho, "depth": 2000}
    for _ in range(count):
        yield {
            "squares": random_squares(rng, centred=bool(rng.integers(2))),
            "rho": float(rng.uniform(-0.99, 0.99)),
            "depth": 2000,
        }


def _fixed_slope(i: Instance) -> Any:
    return dual_slope(dual_of(i), fixed_point(i))


def _convex(i: Instance) -> Any:
    """σ̂ in the middle of [u, v] against the chord."""
    dual, u, v = dual_of(i), i["u"], i["v"]
    return dual_value(dual, (u + v) / 2)


def _chord(i: Instance) -> Any:
    dual = dual_of(i)
    return (dual_value(dual, i["u"]) + dual_value(dual, i["v"])) / 2


def _intervals(rng: Rng, count: int) -> Iterator[Instance]:
    for dual in _simple(rng, count):
        yield {**dual, "u": 0.0, "v": 1.0}
    for _ in range(count):
        u, v = np.sort(rng.uniform(0, 1, 2))
        yield {"squares": random_squares(rng, centred=bool(rng.integers(2))), "u": float(u), "v": float(v)}


def _nonnegative_mean(i: Instance) -> bool:
    return bool(i["rho"] >= 0 and i["rho"] <= 1 - i["epsilon"])


CLAIMS = (
    Claim(
        "004/lem-30:positive",
        "Lemma 30",
        "deterministic",
        "0 < μ̃ for non-affine σ",
        ">",
        lambda i: 0,
        {"random": _duals},
        quantity=nonaffinity,
    ),
    Claim(
        "004/lem-30:one",
        "Lemma 30",
        "deterministic",
        "μ̃ ≤ 1",
        "<=",
        lambda i: 1,
        {"random": _duals, "pure": lambda rng, n: iter([{"squares": np.array([0.0, 0.0, 1.0])}])},
        quantity=nonaffinity,
    ),
    Claim(
        "004/lem-31:increasing",
        "Lemma 31",
        "deterministic",
        "σ̂ is non-decreasing on [0, 1]",
        "<=",
        lambda i: dual_value(dual_of(i), i["v"]),
        {"random": _intervals},
        quantity=lambda i: dual_value(dual_of(i), i["u"]),
    ),
    Claim(
        "004/lem-31:convex",
        "Lemma 31",
        "deterministic",
        "σ̂ is convex on [0, 1]",
        "<=",
        _chord,
        {"random": _intervals},
        quantity=_convex,
        scope="midpoints of random intervals",
    ),
    Claim(
        "004/lem-32",
        "Lemma 32",
        "deterministic",
        "ρ_λ − σ̂(ρ_λ) ≥ μ̃λ(1 − λ)(1 − ρ̄)², ρ_λ = λ + (1 − λ)ρ̄",
        ">=",
        lambda i: nonaffinity(i) * i["share"] * (1 - i["share"]) * (1 - fixed_point(i)) ** 2,
        {"random": _with("share", 0, 1, 0.5, 0.1)},
        quantity=_on_chord,
        search=_search("share", 0, 1),
        scale=lambda i: 1,
        remark="attained by a_0² + a_2²ρ²",
    ),
    Claim(
        "004/lem-32:unique",
        "Lemma 32",
        "deterministic",
        "at most one fixed point in [0, 1): σ̂(ρ) < ρ between ρ̄ and 1",
        ">",
        lambda i: 0,
        {"random": _with("share", 0.02, 0.98, 0.5)},
        quantity=_on_chord,
        hypotheses=lambda i: bool(fixed_point(i) < 1 - 1e-6),
    ),
    Claim(
        "004/lem-33:below",
        "Lemma 33",
        "deterministic",
        "ρ̄ < 1 ⇒ (σ̂)′(ρ̄) < 1",
        "<",
        lambda i: 1,
        {"random": _duals},
        quantity=_fixed_slope,
        hypotheses=lambda i: bool(fixed_point(i) < 1),
        search=Search(
            lambda p: {"squares": np.array([p[0], p[1], p[2] + 0.01, p[3]]) / (p[0] + p[1] + p[2] + p[3] + 0.01)}, 4
        ),
    ),
    Claim(
        "004/lem-33:one",
        "Lemma 33",
        "deterministic",
        "ρ̄ = 1 ⇒ (σ̂)′(1) ≤ 1",
        "<=",
        lambda i: 1,
        {"random": _duals, "critical": _critical_cases},
        quantity=_fixed_slope,
        hypotheses=lambda i: bool(fixed_point(i) == 1),
    ),
    Claim(
        "004/lem-34:case-1",
        "Lemma 34",
        "deterministic",
        "ρ ∈ [(1 + ρ̄)/2, 1]: σ̂(ρ) ≤ ρ − (μ̃/2)(1 − ρ̄)(1 − ρ)",
        "<=",
        lambda i: i["rho"] - _pull(i) * (1 - i["rho"]),
        COSINES,
        quantity=lambda i: dual_value(dual_of(i), i["rho"]),
        hypotheses=_case(1),
        search=_search("rho", 0, 1),
        counts=(200, 1000),
    ),
    Claim(
        "004/lem-34:case-2",
        "Lemma 34",
        "deterministic",
        "ρ ∈ [ρ̄, (1 + ρ̄)/2): |σ̂(ρ) − ρ̄| ≤ (1 − (μ̃/2)(1 − ρ̄))|ρ − ρ̄|",
        "<=",
        lambda i: (1 - _pull(i)) * abs(i["rho"] - fixed_point(i)),
        COSINES,
        quantity=_away,
        hypotheses=lambda i: _case(2)(i) and abs(i["rho"] - fixed_point(i)) > 1e-3,
        search=_search("rho", 0, 1),
        tolerance=1e-8,
        counts=(200, 1000),
    ),
    Claim(
        "004/lem-34:case-3",
        "Lemma 34",
        "deterministic",
        "ρ ∈ [0, ρ̄): |σ̂(ρ) − ρ̄| ≤ (σ̂)′(ρ̄)|ρ − ρ̄|",
        "<=",
        lambda i: _fixed_slope(i) * abs(i["rho"] - fixed_point(i)),
        COSINES,
        quantity=_away,
        hypotheses=_case(3),
        search=_search("rho", 0, 1),
        scale=lambda i: 1,
        counts=(200, 1000),
        remark="the factor is the derivative, as in the proof; the display has lost its dot",
    ),
    Claim(
        "004/lem-34:case-4",
        "Lemma 34",
        "deterministic",
        "ρ ∈ [−1, 0): |σ̂(ρ)| ≤ σ̂(−ρ)",
        "<=",
        lambda i: dual_value(dual_of(i), -i["rho"]),
        COSINES,
        quantity=lambda i: abs(dual_value(dual_of(i), i["rho"])),
        hypotheses=_case(4),
        search=_search("rho", -1, 0),
    ),
    Claim(
        "004/lem-34:case-4-rise",
        "Lemma 34",
        "deterministic",
        "ρ ∈ [−1, 0): σ̂(ρ) ≥ ρ + σ̂(0)",
        ">=",
        lambda i: i["rho"] + dual_value(dual_of(i), i["rho"] * 0),
        COSINES,
        quantity=lambda i: dual_value(dual_of(i), i["rho"]),
        hypotheses=_case(4),
        search=_search("rho", -1, 0),
        scale=lambda i: 1,
        remark="the proof gives ρ + (1 − ρ)σ̂(0), up to twice as much",
    ),
    Claim(
        "004/lem-35",
        "Lemma 35",
        "deterministic",
        "L ≥ L₀, |ρ| ≤ 1 − δ ⇒ |σ̂^{(L)}(ρ) − ρ̄| ≤ max{1 − μ̃(1 − ρ̄)/2, (σ̂)′(ρ̄)}^{L − L₀}(1 + ρ̄)/2",
        "<=",
        lambda i: _rate(i) ** i["more"] * (1 + fixed_point(i)) / 2,
        {"random": _paths},
        quantity=_converged,
        hypotheses=_settled,
        search=_search_paths(),
        scope="ρ̄ < 1; for ρ̄ = 1 the first logarithm is of 0 and the rate is 1",
    ),
    Claim(
        "004/lem-35:one",
        "Lemma 35",
        "deterministic",
        "ρ̄ = 1, (σ̂)′(1) < 1: |σ̂^{(L)}(ρ) − 1| ≤ 1 for L ≥ ⌈1/σ̂(0)⌉",
        "<=",
        lambda i: 1,
        {"random": _paths},
        quantity=_converged,
        hypotheses=lambda i: bool(fixed_point(i) == 1 and dual_value(dual_of(i), like(i)) > 1e-3),
        scope="the printed rate max{1 − μ̃(1 − ρ̄)/2, (σ̂)′(1)} is 1 here, so no convergence follows from it",
        remark="convexity gives 1 − σ̂(ρ) ≤ (σ̂)′(1)(1 − ρ) on [0, 1], the rate that was meant",
    ),
    Claim(
        "004/lem-35:one-rate",
        "after Lemma 35",
        "deterministic",
        "ρ̄ = 1, ρ ≥ 0: 1 − σ̂(ρ) ≤ (σ̂)′(1)(1 − ρ)",
        "<=",
        lambda i: _fixed_slope(i) * (1 - i["rho"]),
        {"random": _paths},
        quantity=lambda i: 1 - dual_value(dual_of(i), i["rho"]),
        hypotheses=lambda i: bool(fixed_point(i) == 1 and i["rho"] >= 0),
        remark="not in the paper; what Lemma 35 needs for ρ̄ = 1",
    ),
    Claim(
        "004/lem-36",
        "Lemma 36",
        "deterministic",
        "ρ̄ = 1, (σ̂)′(1) = 1: σ̂^{(L)}(ρ) ≥ 1 − ε for L ≥ max{⌈log(2/ε)/(−log(1 − εμ/2))⌉, ⌈1/σ̂(0)⌉}",
        ">=",
        lambda i: 1 - i["epsilon"],
        {"random": _critical_cases},
        quantity=_knife_edge("proof"),
        search=_search_critical(),
        counts=(60, 150),
        scope="μ read as μ̃, the coefficient of its proof",
        remark="the true time is of order 1/ε, without the logarithm",
    ),
    Claim(
        "004/lem-36:printed-mu",
        "Lemma 36",
        "deterministic",
        "the same with μ = 1 − a_1²",
        ">=",
        lambda i: 1 - i["epsilon"],
        {"random": _critical_cases},
        quantity=_knife_edge("printed"),
        search=_search_critical(),
        counts=(60, 150),
        scope="μ of Definition 2, which is larger than μ̃",
    ),
    Claim(
        "004/lem-36:derivative",
        "proof of Lemma 36",
        "deterministic",
        "(σ̂)′(1) = 1 ⇒ 1 − (σ̂)′(1 − α) ≥ 2αμ̃",
        ">=",
        lambda i: 2 * i["epsilon"] * nonaffinity(i),
        {"random": _critical_cases},
        quantity=_derivative_step,
        search=_search_critical(),
        remark="attained by degree two",
    ),
    Claim(
        "004/lem-36:contraction",
        "proof of Lemma 36",
        "deterministic",
        "1 − σ̂(ρ) ≤ 2α²μ̃ + (1 − 2αμ̃)(1 − ρ) for ρ ∈ [0, 1 − α]",
        "<=",
        _contraction_step,
        {"random": _critical_cases},
        quantity=lambda i: 1 - dual_value(dual_of(i), i["rho"]),
        hypotheses=_nonnegative_mean,
        search=_search_critical(),
    ),
    Claim(
        "004/thm-11:limit",
        "Theorem 11",
        "asymptotic",
        "lim_{L→∞} K̄_ij = ρ̄ ∈ [0, 1] for non-affine σ and |ρ| < 1",
        "<=",
        lambda i: 0.05 if fixed_point(i) == 1 else 1e-6,
        {"random": _limits},
        quantity=_limit,
        hypotheses=lambda i: bool(abs(_fixed_slope(i) - 1) > 0.02 or fixed_point(i) == 1),
        counts=(60, 150),
        scale=lambda i: 1,
        scope="distance to ρ̄ after 2000 layers: 1e-6, or 0.05 for ρ̄ = 1, where it may fall like 1/L",
    ),
    Claim(
        "004/thm-11:rate",
        "Theorem 11",
        "deterministic",
        "ρ̄ < 1 ⇒ |K̄_ij − ρ̄| ≤ c_σ^{L − L₀} with c_σ < 1, L₀ = O_σ(log(1/δ))",
        "<=",
        lambda i: _rate(i) ** i["more"],
        {"random": _paths},
        quantity=_converged,
        hypotheses=_settled,
        search=_search_paths(),
        scope="c_σ and L₀ of Lemma 35",
    ),
)
