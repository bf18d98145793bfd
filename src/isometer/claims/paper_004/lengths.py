"""004, §3.5 and Appendix D: inputs of other lengths than one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer.claims.claim import Claim, Instance, Search
from isometer.claims.paper_004.instances import Rng, unit_scale
from isometer.claims.precise import mpmath
from isometer.theory.bounds import correlation_bound, one_layer_bound
from isometer.theory.either import apply
from isometer.theory.length_counterexamples import hinge_length, sigmoid_at_zero, staircase_length
from isometer.theory.length_maps import SignalFamily, length_contraction
from isometer.theory.odd_mixtures import OddMixture, as_printed_hermite_pairing, mixture_step
from isometer.theory.soft_clip import SoftClip

NAMED = ("tanh", "arctan", "softsign")


def sigma(i: Instance) -> OddMixture:
    """σ of an instance."""
    return OddMixture(i["a"], i["b"], i["t"], i.get("g", "erf"))


def _mixture(rng: Rng, kinds: tuple[str, ...] = ("erf",)) -> dict[str, Any]:
    style = int(rng.integers(3))
    a, b = (0.0, 1.0) if style == 0 else (float(rng.uniform(0, 1)), 1.0)
    return {"a": a, "b": b, "t": float(10 ** rng.uniform(-1, 1)), "g": str(rng.choice(kinds))}


def _simple(rng: Rng, count: int) -> Iterator[dict[str, Any]]:
    for a, t in ((0.0, 1.0), (0.0, 0.3), (0.0, 5.0), (0.5, 1.0)):
        yield {"a": a, "b": 1.0, "t": t, "g": "erf"}


def _lengths(rng: Rng, count: int) -> Iterator[Instance]:
    for base in _simple(rng, count):
        for gamma in (1.1, 0.5, 2.0, 5.0):
            for depth in (1, 3):
                yield {**base, "gamma": gamma, "L": depth}
    for _ in range(count):
        gamma = float(rng.choice([rng.uniform(0.5, 2), 0.5 + rng.exponential(3)]))
        yield {**_mixture(rng), "gamma": gamma, "L": int(rng.integers(0, 12))}


def _search_lengths(low: float = 0.5) -> Search:
    def build(p: Any) -> Instance:
        base = {"a": float(p[0]), "b": 1.0, "t": float(10 ** (2 * p[1] - 1)), "g": "erf"}
        return {**base, "gamma": low + 4 * float(p[2]), "L": int(8 * p[3])}

    return Search(build, 4)


LENGTHS: dict[str, Any] = {"mixtures": _lengths}


def _length_after(i: Instance) -> Any:
    gamma = i["gamma"]
    for _ in range(i["L"]):
        gamma = sigma(i).second_moment(gamma)
    return abs(gamma - 1)


def _contraction(i: Instance) -> Any:
    return sigma(i).contraction(i["a"] * 0 + 0.5)


def _printed_length(i: Instance, power: int) -> Any:
    return (1 - _contraction(i)) ** i["L"] * abs(i["gamma"] - 1) ** power


def _exact_moment(name: str, gamma: Any) -> Any:
    """E σ(√γX)² by mpmath quadrature."""
    lib = mpmath()
    function = {"tanh": lib.tanh, "arctan": lib.atan, "softsign": lambda x: x / (1 + abs(x))}[name]
    root = lib.sqrt(gamma)
    return 2 * lib.quad(lambda x: function(root * x) ** 2 * lib.npdf(x), [0, 1, 3, 8, 16])


def _named(rng: Rng, count: int) -> Iterator[Instance]:
    for name in NAMED:
        for gamma in (0.5, 1.1, 2.0, 5.0):
            yield {"name": name, "gamma": gamma}
    for _ in range(count // 4):
        yield {"name": str(rng.choice(NAMED)), "gamma": float(0.5 + rng.exponential(2))}


def _named_sides(i: Instance) -> tuple[float, float]:
    unit = f"unit({i['name']})"
    rate = length_contraction(unit)
    return abs(SignalFamily(unit).second_moment(float(i["gamma"])) - 1), (1 - rate) * abs(i["gamma"] - 1)


def _named_exact(i: Instance) -> tuple[Any, Any]:
    lib = mpmath()
    one = _exact_moment(i["name"], lib.mpf(1))

    def length(gamma: Any) -> Any:
        return _exact_moment(i["name"], gamma) / one

    slope = lib.diff(length, 1)
    rate = min(2 * length(lib.mpf(1) / 2) - 1, 1 - slope)
    return abs(length(i["gamma"]) - 1), (1 - rate) * abs(i["gamma"] - 1)


def _grid(rng: Rng, count: int) -> Iterator[Instance]:
    for base in _simple(rng, count):
        yield {**base, "u": 0.0, "v": 1.0}
    for _ in range(count):
        u, v = np.sort(rng.exponential(2, 2))
        yield {**_mixture(rng), "u": float(u), "v": float(v)}


def _pairs(
    kinds: tuple[str, ...], ranges: tuple[float, float] = (0.05, 5.0)
) -> Callable[[Rng, int], Iterator[Instance]]:
    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for base in _simple(rng, count):
            for rho in (0.5, 0.9, -0.9, 0.2):
                yield {**base, "p": 0.5, "q": 2.0, "rho": rho}
                yield {**base, "p": 1.0, "q": 1.0, "rho": rho}
        for _ in range(count):
            p, q = rng.uniform(*ranges, 2)
            yield {**_mixture(rng, kinds), "p": float(p), "q": float(q), "rho": float(rng.uniform(-1, 1))}

    return generator


def _search_pairs(kind: str) -> Search:
    def build(x: Any) -> Instance:
        base = {"a": float(x[0]), "b": 1.0, "t": float(10 ** (2 * x[1] - 1)), "g": kind}
        return {**base, "p": 0.05 + 4 * float(x[2]), "q": 0.05 + 4 * float(x[3]), "rho": 2 * float(x[4]) - 1}

    return Search(build, 5)


def _cosine_after(i: Instance) -> Any:
    p, q, s = i["p"], i["q"], sigma(i)
    cross = s.pair(p, q, i["rho"] * apply("sqrt", p * q))
    return abs(cross) / apply("sqrt", s.second_moment(p) * s.second_moment(q))


def _cosine_bound(i: Instance) -> Any:
    delta, s = 1 - abs(i["rho"]), sigma(i)
    factors = [one_layer_bound(delta, s.nonlinearity(z)) for z in (i["p"], i["q"])]
    return (factors[0] * factors[1]) ** 0.5


def _series(i: Instance) -> Any:
    """Σ_j a_j^{γ₁} a_j^{γ₂} ρ^j up to degree 120, from Hermite coefficients of the library's own quadrature."""
    s = sigma(i)
    root = float(s._square) ** 0.5
    name = f"({float(i['a'])!r}*x + erf({float(i['t'])!r}*x))/{root!r}"
    family = SignalFamily(name)
    left, right = (family.hermite(float(i[z]), 60) for z in ("p", "q"))
    return float(np.sum(left * right * float(i["rho"]) ** np.arange(len(left))))


def _gentle(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        a, t = float(rng.uniform(0, 1)), float(rng.uniform(0.2, 1.0))
        p, q, rho = rng.uniform(0.3, 2), rng.uniform(0.3, 2), rng.uniform(-0.9, 0.9)
        yield {"a": a, "b": 1.0, "t": t, "g": "erf", "p": float(p), "q": float(q), "rho": float(rho)}


def _squared_sum(i: Instance) -> Any:
    return _series({**i, "q": i["p"], "rho": 1.0})


def _near_one(rng: Rng, count: int) -> Iterator[Instance]:
    for base in _simple(rng, count):
        for place in (-1.0, 1.0, 0.5):
            yield {**base, "place": place}
    for _ in range(count):
        yield {**_mixture(rng), "place": float(rng.uniform(-1, 1))}


def _mu(i: Instance) -> Any:
    return sigma(i).nonlinearity(i["a"] * 0 + 1)


def _paths(rng: Rng, count: int) -> Iterator[Instance]:
    for base in _simple(rng, count):
        for p, q, rho in ((0.5, 0.5, 0.9), (0.5, 2.0, 0.5), (4.0, 0.5, 0.99), (1.0, 1.0, 0.9)):
            for more in (0, 1, 4):
                yield {**base, "p": p, "q": q, "rho": rho, "more": more}
    for _ in range(count):
        p, q = 0.5 + rng.exponential(1, 2)
        rho = float(rng.choice([rng.uniform(-1, 1), 1 - 10 ** -rng.uniform(0.5, 3)]))
        base = {"a": float(rng.uniform(0, 0.5)), "b": 1.0, "t": float(10 ** rng.uniform(-0.5, 1)), "g": "erf"}
        yield {**base, "p": float(p), "q": float(q), "rho": rho, "more": int(rng.integers(0, 10))}


def _search_paths() -> Search:
    def build(x: Any) -> Instance:
        base = {"a": 0.5 * float(x[0]), "b": 1.0, "t": float(10 ** (1.5 * x[1] - 0.5)), "g": "erf"}
        rho = 1 - 10 ** (-3 * float(x[4]))
        p, q = 0.5 + 4 * float(x[2]), 0.5 + 4 * float(x[3])
        return {**base, "p": p, "q": q, "rho": rho, "more": int(6 * x[5])}

    return Search(build, 6, (200, 800))


def _settling(i: Instance, prefactor: str) -> float:
    """L̂, with α_σ in front (Theorem 12 read with Theorem 37's constant) or 1/α_σ (Theorem 42)."""
    mu, alpha = float(_mu(i)), float(_contraction(i))
    away = max(abs(float(i["p"]) - 1), abs(float(i["q"]) - 1), mu / 4)
    return float(np.log(4 * away / mu)) * (alpha if prefactor == "alpha" else 1 / alpha)


def _depth(i: Instance, prefactor: str) -> int:
    return int(np.ceil(_settling(i, prefactor) - 1e-12)) + int(i["more"])


def _cosine_path(prefactor: str) -> Callable[[Instance], Any]:
    def value(i: Instance) -> Any:
        state = i["p"], i["q"], i["rho"] * apply("sqrt", i["p"] * i["q"])
        for _ in range(_depth(i, prefactor)):
            state = mixture_step(sigma(i), state)
        return state[2] / apply("sqrt", state[0] * state[1])

    return value


def _path_bound(prefactor: str) -> Callable[[Instance], Any]:
    def bound(i: Instance) -> Any:
        left = max(_depth(i, prefactor) - _settling(i, prefactor), 0.0)
        return correlation_bound(left, 1 - abs(i["rho"]), _mu(i) / 2)

    return bound


def _proper(i: Instance) -> bool:
    return bool(abs(i["rho"]) < 1 - 1e-6 and _contraction(i) > 0.005 and _mu(i) > 0.01)


def _clip(i: Instance) -> SoftClip:
    return SoftClip(i["T"], i["k"])


def _clips(rng: Rng, count: int) -> Iterator[Instance]:
    for threshold, depth in ((2.0, 1), (2.0, 3), (1.5, 2), (2.5, 3)):
        yield {"T": threshold, "k": 3.0, "p": 0.5, "rho": 0.4999, "L": depth}
    for _ in range(count // 4):
        threshold, sharpness = float(rng.uniform(1, 2.5)), float(rng.uniform(1, 4))
        rho = float(rng.choice([0.4999, rng.uniform(0.05, 0.95)]))
        yield {"T": threshold, "k": sharpness, "p": 0.5, "rho": rho, "L": int(rng.integers(1, 6))}


def _clip_start(i: Instance, prefactor: str) -> Any:
    clip, half = _clip(i), i["p"] * 0 + 0.5
    mu, alpha = clip.nonlinearity(half * 2), clip.contraction(half)
    travel = apply("log", 4 * max(abs(i["p"] - 1), mu / 4) / mu)
    return travel * alpha if prefactor == "alpha" else travel / alpha


def _clip_bound(prefactor: str) -> Callable[[Instance], Any]:
    def bound(i: Instance) -> Any:
        left = i["L"] - _clip_start(i, prefactor)
        return correlation_bound(float(left), 1 - i["rho"], _clip(i).nonlinearity(i["p"] * 0 + 1) / 2)

    return bound


def _clip_exact(prefactor: str) -> Callable[[Instance], tuple[Any, Any]]:
    """Both sides in 16 digits: every one of many layers is an integral."""

    def sides(i: Instance) -> tuple[Any, Any]:
        with mpmath().workdps(16):
            return _clip(i).cosine_floor(i["p"], i["rho"], i["L"]), _clip_bound(prefactor)(i)

    return sides


def _clip_after(prefactor: str) -> Callable[[Instance], bool]:
    return lambda i: bool(i["L"] >= _clip_start(i, prefactor))


def _late_clips(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in _clips(rng, count):
        yield {**instance, "L": int(np.ceil(_clip_start(instance, "inverse"))) + instance["L"]}


def _hermite_cases(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"i": 2, "j": 2, "p": 2.0, "q": 2.0, "c": 2.0}
    yield {"i": 0, "j": 2, "p": 1.0, "q": 2.0, "c": 0.5}
    for _ in range(count):
        p, q = rng.uniform(0.2, 4, 2)
        c = float(rng.uniform(-1, 1) * np.sqrt(p * q))
        yield {"i": int(rng.integers(0, 4)), "j": int(rng.integers(0, 4)), "p": float(p), "q": float(q), "c": c}


def _pairing(printed: bool) -> Callable[[Instance], Any]:
    return lambda i: as_printed_hermite_pairing(i["i"], i["j"], (i["p"], i["q"]), i["c"], printed=printed)


def _pairing_claimed(i: Instance) -> Any:
    return (i["c"] / apply("sqrt", i["p"] * i["q"])) ** i["j"] if i["i"] == i["j"] else i["c"] * 0


def _starts(rng: Rng, count: int) -> Iterator[Instance]:
    for scale in ("unit", "plain"):
        for gamma in (0.01, 0.3, 3.0, 100.0):
            yield {"scale": scale, "gamma": gamma}
    for _ in range(count):
        yield {"scale": str(rng.choice(["unit", "plain"])), "gamma": float(10 ** rng.uniform(-4, 4))}


def _hinge_distance(i: Instance) -> Any:
    """How far two starts are apart after 60 layers."""
    gamma, other = i["gamma"], i["gamma"] * 0 + 1
    for _ in range(60):
        gamma, other = (hinge_length(v, unit=i["scale"] == "unit") for v in (gamma, other))
    return abs(gamma - other)


def _stair_distance(i: Instance) -> Any:
    low, high = i["gamma"] * 0 + 0.01, i["gamma"] * 0 + 100
    for _ in range(60):
        low, high = staircase_length(low), staircase_length(high)
    return abs(high - low)


def _other_starts(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        yield {**_mixture(rng), "gamma": 1.0, "L": 1, "gamma0": float(rng.uniform(0.05, 0.95))}


def _rem_38(i: Instance) -> Any:
    start = i["gamma0"]
    return abs(sigma(i).second_moment(start) - 1)


def _difference_slope(i: Instance) -> Any:
    step = i["a"] * 0 + 1e-4
    return (sigma(i).second_moment(1 + step) - sigma(i).second_moment(1 - step)) / (2 * step)


CLAIMS = (
    Claim(
        "004/thm-37",
        "Theorem 37",
        "deterministic",
        "|k̄(x, x) − 1| ≤ (1 − α_σ)^L · |‖x‖² − 1|² for ‖x‖² ≥ ½, L ≥ 0",
        "<=",
        lambda i: _printed_length(i, 2),
        LENGTHS,
        quantity=_length_after,
        search=_search_lengths(),
        scale=unit_scale,
        corrected="004/thm-37#corrected",
        remark="at L = 0 it says |‖x‖² − 1| ≤ |‖x‖² − 1|²; σ = a x + b erf(t x), scaled to E σ² = 1",
    ),
    Claim(
        "004/thm-37#corrected",
        "Theorem 37",
        "deterministic",
        "|k̄(x, x) − 1| ≤ (1 − α_σ)^L · |‖x‖² − 1| for ‖x‖² ≥ ½, L ≥ 0",
        "<=",
        lambda i: _printed_length(i, 1),
        LENGTHS,
        quantity=_length_after,
        search=_search_lengths(),
        scale=unit_scale,
    ),
    Claim(
        "004/thm-37:eq-12",
        "eq. 12",
        "deterministic",
        "|σ̂_l(γ) − 1| ≤ (1 − α_σ)|γ − 1| for γ ≥ ½",
        "<=",
        lambda i: (1 - _contraction(i)) * abs(i["gamma"] - 1),
        LENGTHS,
        quantity=lambda i: abs(sigma(i).second_moment(i["gamma"]) - 1),
        search=_search_lengths(),
        scale=unit_scale,
        remark="attained at γ = ½ or, to first order, at γ = 1",
    ),
    Claim(
        "004/thm-37:named",
        "eq. 12",
        "deterministic",
        "the same for tanh, arctan and softsign, scaled to E σ² = 1",
        "<=",
        lambda i: _named_sides(i)[1],
        {"named": _named},
        quantity=lambda i: _named_sides(i)[0],
        exact=_named_exact,
        scale=unit_scale,
        counts=(20, 100),
    ),
    Claim(
        "004/rem-38:lower",
        "Remark 38",
        "deterministic",
        "α_σ ≥ 0",
        ">=",
        lambda i: 0,
        LENGTHS,
        quantity=_contraction,
        search=_search_lengths(),
        scale=unit_scale,
    ),
    Claim(
        "004/rem-38:upper",
        "Remark 38",
        "deterministic",
        "α_σ ≤ 1",
        "<=",
        lambda i: 1,
        LENGTHS,
        quantity=_contraction,
        search=_search_lengths(),
    ),
    Claim(
        "004/rem-38:start",
        "Remark 38",
        "deterministic",
        "½ may be any γ₀ > 0, with α_σ changed accordingly",
        "<=",
        lambda i: (1 - sigma(i).contraction(i["gamma0"])) * (1 - i["gamma0"]),
        {"random": _other_starts},
        quantity=_rem_38,
        scale=unit_scale,
        scope="γ = γ₀ in (0.05, 0.95), α from the chord (σ̂_l(γ₀) − γ₀)/(1 − γ₀) and the slope at 1",
    ),
    Claim(
        "004/def-alpha-sigma",
        "proof of Theorem 37",
        "deterministic",
        "σ̂_l′(1) = E σ(X)σ′(X)X",
        "==",
        _difference_slope,
        LENGTHS,
        quantity=lambda i: sigma(i).length_slope(i["a"] * 0 + 1),
        tolerance=1e-6,
        scope="closed form of the expectation against a central difference of σ̂_l",
    ),
    Claim(
        "004/lem-39:increasing",
        "Lemma 39",
        "deterministic",
        "σ̂_l is non-decreasing",
        "<=",
        lambda i: sigma(i).second_moment(i["v"]),
        {"random": _grid},
        quantity=lambda i: sigma(i).second_moment(i["u"]),
    ),
    Claim(
        "004/lem-39:concave",
        "Lemma 39",
        "deterministic",
        "σ̂_l is concave",
        ">=",
        lambda i: (sigma(i).second_moment(i["u"]) + sigma(i).second_moment(i["v"])) / 2,
        {"random": _grid},
        quantity=lambda i: sigma(i).second_moment((i["u"] + i["v"]) / 2),
        scope="midpoints of random intervals",
    ),
    Claim(
        "004/lem-40",
        "eq. 14, Lemma 40",
        "deterministic",
        "E h_i^{γ₁}(z₁)h_j^{γ₂}(z₂) = δ_ij (γ₃/√(γ₁γ₂))^j, h_j = H_j/√(γ^j j!), e^{tz − γ²t²/2} = Σ H_j t^j/j!",
        "==",
        _pairing_claimed,
        {"random": _hermite_cases},
        quantity=_pairing(True),
        scale=unit_scale,
        corrected="004/lem-40#corrected",
        scope="degrees 0 to 3",
        remark="H_2 = z² − γ² has mean γ − γ² under N(0, γ)",
    ),
    Claim(
        "004/lem-40#corrected",
        "eq. 14, Lemma 40",
        "deterministic",
        "the same with e^{tz − γt²/2} = Σ H_j t^j/j!",
        "==",
        _pairing_claimed,
        {"random": _hermite_cases},
        quantity=_pairing(False),
        scale=unit_scale,
        scope="degrees 0 to 3",
    ),
    Claim(
        "004/def-sigma-c:eq-15",
        "eq. 15",
        "deterministic",
        "σ̂_c(x, y) = Σ_j a_j^{‖x‖²}a_j^{‖y‖²}ρ^j",
        "==",
        _series,
        {"random": _gentle},
        quantity=lambda i: sigma(i).pair(i["p"], i["q"], i["rho"] * apply("sqrt", i["p"] * i["q"])),
        exact=lambda i: (sigma(i).pair(i["p"], i["q"], i["rho"] * apply("sqrt", i["p"] * i["q"])), _series(i)),
        scale=unit_scale,
        tolerance=1e-6,
        counts=(12, 60),
        scope="60 terms, steepness up to 1",
    ),
    Claim(
        "004/def-sigma-c:eq-16",
        "eq. 16",
        "deterministic",
        "σ̂_c(x, x) = σ̂_l(‖x‖²) = Σ_j (a_j^{‖x‖²})²",
        "==",
        _squared_sum,
        {"random": _gentle},
        quantity=lambda i: sigma(i).second_moment(i["p"]),
        exact=lambda i: (sigma(i).second_moment(i["p"]), _squared_sum(i)),
        tolerance=1e-4,
        counts=(12, 60),
        scope="60 terms, steepness up to 1",
    ),
    Claim(
        "004/lem-41",
        "Lemma 41",
        "deterministic",
        "odd σ: |σ̂_c(x, y)|/√(σ̂_c(x, x)σ̂_c(y, y)) ≤ ∏_z √(1 − (1 + μ^{‖z‖²}/2)δ), or ∏_z √((1 − μ^{‖z‖²}/2)(1 − δ))",
        "<=",
        _cosine_bound,
        {"erf": _pairs(("erf",)), "sin": _pairs(("sin",))},
        quantity=_cosine_after,
        search=_search_pairs("erf"),
        tolerance=1e-8,
    ),
    Claim(
        "004/lem-41:monotone",
        "Lemma 41",
        "deterministic",
        "odd σ: the normalised dot product never grows in absolute value",
        "<=",
        lambda i: abs(i["rho"]),
        {"erf": _pairs(("erf",)), "sin": _pairs(("sin",))},
        quantity=_cosine_after,
        search=_search_pairs("sin"),
        tolerance=1e-8,
    ),
    Claim(
        "004/thm-42:eq-20",
        "eq. 20",
        "deterministic",
        "‖x‖² ∈ [1 − μ/4, 1 + μ/4] ⇒ μ^{‖x‖²} ≥ μ/2",
        ">=",
        lambda i: _mu(i) / 2,
        {"random": _near_one},
        quantity=lambda i: sigma(i).nonlinearity(1 + i["place"] * _mu(i) / 4),
        hypotheses=lambda i: bool(_mu(i) > 1e-4),
        search=Search(
            lambda p: {"a": float(p[0]), "b": 1.0, "t": float(10 ** (2 * p[1] - 1)), "g": "erf", "place": 2 * p[2] - 1},
            3,
        ),
        scope="the family a x + b erf(t x)",
    ),
    Claim(
        "004/thm-42",
        "Theorem 42",
        "deterministic",
        "cosine after L ≥ L̂ = (1/α_σ)log(4 max(|‖x‖² − 1|, |‖y‖² − 1|, μ/4)/μ) layers ≤ B_{μ/2}(L − L̂, δ)",
        "<=",
        _path_bound("inverse"),
        {"random": _paths},
        quantity=_cosine_path("inverse"),
        hypotheses=_proper,
        search=_search_paths(),
        scale=unit_scale,
        scope="L = ⌈L̂⌉ and up to 10 more, the family a x + b erf(t x)",
    ),
    Claim(
        "004/thm-12",
        "Theorem 12",
        "deterministic",
        "the same with a constant c_σ: L̂ = c_σ log(4 max(…)/μ)",
        "<=",
        _path_bound("inverse"),
        {"random": _paths},
        quantity=_cosine_path("inverse"),
        hypotheses=_proper,
        search=_search_paths(),
        scale=unit_scale,
        scope="the constant is taken as 1/α_σ; the family a x + b erf(t x)",
    ),
    Claim(
        "004/thm-12:constant",
        "Theorem 12 with Theorem 37",
        "deterministic",
        "the same with L̂ = α_σ log(4 max(…)/μ), α_σ of Theorem 37",
        "<=",
        _clip_bound("alpha"),
        {"clips": _clips},
        quantity=lambda i: _clip(i).cosine_floor(i["p"], i["rho"], i["L"]),
        hypotheses=_clip_after("alpha"),
        corrected="004/thm-42",
        counts=(40, 200),
        scope="two inputs of squared length p and a smooth clip at ±T; the cosine by its lower bound ρ∏(1 − μ^{γ})",
        remark="the other reading of Theorem 12, whose constant Appendix D describes; L̂ has to grow like 1/α_σ",
    ),
    Claim(
        "004/thm-42:clips",
        "Theorem 42",
        "deterministic",
        "Theorem 42 for smooth clips at ±T",
        "<=",
        _clip_bound("inverse"),
        {"clips": _late_clips},
        quantity=lambda i: _clip(i).cosine_floor(i["p"], i["rho"], i["L"]),
        hypotheses=_clip_after("inverse"),
        exact=_clip_exact("inverse"),
        counts=(20, 80),
        scope="two inputs of squared length p; the cosine by its lower bound ρ∏(1 − μ^{γ})",
    ),
    Claim(
        "004/rem-D4:sigmoid",
        "D.4",
        "deterministic",
        "sigmoid is 0 at 0, as the norm part assumes",
        "==",
        lambda i: 0,
        {"one": lambda rng, count: iter([{"x": 0.0}])},
        quantity=lambda i: sigmoid_at_zero(i["x"]),
        scale=unit_scale,
        corrected="004/rem-D4:sigmoid#corrected",
    ),
    Claim(
        "004/rem-D4:sigmoid#corrected",
        "D.4",
        "deterministic",
        "sigmoid − ½ is 0 at 0",
        "==",
        lambda i: 0,
        {"one": lambda rng, count: iter([{"x": 0.0}])},
        quantity=lambda i: sigmoid_at_zero(i["x"], shift=True),
        scale=unit_scale,
    ),
    Claim(
        "004/rem-D4:counterexample",
        "D.4",
        "deterministic",
        "the length map of max(x, 0) − 1 does not converge globally",
        ">=",
        lambda i: 1e-6,
        {"starts": _starts},
        quantity=_hinge_distance,
        scale=unit_scale,
        corrected="004/rem-D4:counterexample#corrected",
        scope="two starts stay apart by 1e-6 after 60 layers; with E σ² = 1 and without scaling",
        remark="the map is γ/2 − √(2γ/π) + 1: after one layer its slope lies in (0, 0.72), so lengths contract",
    ),
    Claim(
        "004/rem-D4:counterexample#corrected",
        "D.4",
        "deterministic",
        "monotone σ = sign(x)/10 + 10·sign(x)·1{|x| > 5} has two attracting lengths",
        ">=",
        lambda i: 1,
        {"starts": lambda rng, count: iter([{"gamma": 1.0}])},
        quantity=_stair_distance,
        scale=unit_scale,
        scope="starts 0.01 and 100, 60 layers",
    ),
)
