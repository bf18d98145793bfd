"""004, D.2 and D.3: cosines of inputs of other lengths than one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from isometer.theory.kernels import SignalFamily, correlation_bound, one_layer_bound
from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Family, Rng, extended
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import at_least, at_most, deterministic, equal, vanishes
from isometer_papers.claims.agarwal2021.lengths import contraction, mixture, sigma, simple
from isometer_papers.float_or_mpmath import Numeric, log, sqrt
from isometer_papers.theory.duals.odd_mixtures import as_printed_hermite_pairing, mixture_step
from isometer_papers.theory.duals.soft_clip import SoftClip


def _pairs(kinds: tuple[str, ...], ranges: tuple[float, float] = (0.05, 5.0)) -> Family:
    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for base in simple(rng, count):
            for rho in (0.5, 0.9, -0.9, 0.2):
                yield {**base, "p": 0.5, "q": 2.0, "rho": rho}
                yield {**base, "p": 1.0, "q": 1.0, "rho": rho}
        for _ in range(count):
            p, q = rng.uniform(*ranges, 2)
            yield {**mixture(rng, kinds), "p": float(p), "q": float(q), "rho": float(rng.uniform(-1, 1))}

    return generator


def _search_pairs(kind: str) -> Search:
    def build(x: Numeric) -> Instance:
        base = {"a": float(x[0]), "b": 1.0, "t": float(10 ** (2 * x[1] - 1)), "g": kind}
        return {**base, "p": 0.05 + 4 * float(x[2]), "q": 0.05 + 4 * float(x[3]), "rho": 2 * float(x[4]) - 1}

    return Search(build, 5)


def _cosine_after(i: Instance) -> Numeric:
    p, q, s = i["p"], i["q"], sigma(i)
    cross = s.pair(p, q, i["rho"] * sqrt(p * q))
    return abs(cross) / sqrt(s.second_moment(p) * s.second_moment(q))


def _cosine_bound(i: Instance) -> Numeric:
    delta, s = 1 - abs(i["rho"]), sigma(i)
    factors = [one_layer_bound(delta, s.nonlinearity(z)) for z in (i["p"], i["q"])]
    return (factors[0] * factors[1]) ** 0.5


def _series(i: Instance) -> Numeric:
    """Σ_j a_j^{γ₁} a_j^{γ₂} ρ^j up to degree 60, from Hermite coefficients of the library's own quadrature."""
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


def _free_powers(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"a": 0.0, "b": 1.0, "t": 1.0, "g": "erf", "p": 1.0, "q": 1.0, "rho": 0.5}
    yield from _gentle(rng, count)


def _off_one_power(i: Instance) -> Numeric:
    """Least distance of σ̂_c from ρ^i Σ_j a_j^{γ₁} a_j^{γ₂} over i ≤ 8; the sum is E σ(√γ₁X)σ(√γ₂X)."""
    s, size = sigma(i), sqrt(i["p"] * i["q"])
    pair, total = s.pair(i["p"], i["q"], i["rho"] * size), s.pair(i["p"], i["q"], size)
    return min(abs(pair - i["rho"] ** power * total) for power in range(9))


def _squared_sum(i: Instance) -> Numeric:
    return _series({**i, "q": i["p"], "rho": 1.0})


def _near_one(rng: Rng, count: int) -> Iterator[Instance]:
    for base in simple(rng, count):
        for place in (-1.0, 1.0, 0.5):
            yield {**base, "place": place}
    for _ in range(count):
        yield {**mixture(rng), "place": float(rng.uniform(-1, 1))}


def _mu(i: Instance) -> Numeric:
    return sigma(i).nonlinearity(i["a"] * 0 + 1)


def _paths(rng: Rng, count: int) -> Iterator[Instance]:
    for base in simple(rng, count):
        for p, q, rho in ((0.5, 0.5, 0.9), (0.5, 2.0, 0.5), (4.0, 0.5, 0.99), (1.0, 1.0, 0.9)):
            for more in (0, 1, 4):
                yield {**base, "p": p, "q": q, "rho": rho, "more": more}
    for _ in range(count):
        p, q = 0.5 + rng.exponential(1, 2)
        rho = float(rng.choice([rng.uniform(-1, 1), 1 - 10 ** -rng.uniform(0.5, 3)]))
        base = {"a": float(rng.uniform(0, 0.5)), "b": 1.0, "t": float(10 ** rng.uniform(-0.5, 1)), "g": "erf"}
        yield {**base, "p": float(p), "q": float(q), "rho": rho, "more": int(rng.integers(0, 10))}


def _search_paths() -> Search:
    def build(x: Numeric) -> Instance:
        base = {"a": 0.5 * float(x[0]), "b": 1.0, "t": float(10 ** (1.5 * x[1] - 0.5)), "g": "erf"}
        rho = 1 - 10 ** (-3 * float(x[4]))
        p, q = 0.5 + 4 * float(x[2]), 0.5 + 4 * float(x[3])
        return {**base, "p": p, "q": q, "rho": rho, "more": int(6 * x[5])}

    return Search(build, 6, (200, 800))


def _settling(i: Instance, prefactor: str) -> float:
    """L̂, with α_σ in front (Theorem 12 read with Theorem 37's constant) or 1/α_σ (Theorem 42)."""
    mu, alpha = float(_mu(i)), float(contraction(i))
    away = max(abs(float(i["p"]) - 1), abs(float(i["q"]) - 1), mu / 4)
    return float(np.log(4 * away / mu)) * (alpha if prefactor == "alpha" else 1 / alpha)


def _depth(i: Instance, prefactor: str) -> int:
    return int(np.ceil(_settling(i, prefactor) - 1e-12)) + int(i["more"])


def _cosine_path(prefactor: str) -> Callable[[Instance], Numeric]:
    def value(i: Instance) -> Numeric:
        state = i["p"], i["q"], i["rho"] * sqrt(i["p"] * i["q"])
        for _ in range(_depth(i, prefactor)):
            state = mixture_step(sigma(i), state)
        return state[2] / sqrt(state[0] * state[1])

    return value


def _path_bound(prefactor: str) -> Callable[[Instance], Numeric]:
    def bound(i: Instance) -> Numeric:
        left = max(_depth(i, prefactor) - _settling(i, prefactor), 0.0)
        return correlation_bound(left, 1 - abs(i["rho"]), _mu(i) / 2)

    return bound


def _proper(i: Instance) -> bool:
    return bool(abs(i["rho"]) < 1 - 1e-6 and contraction(i) > 0.005 and _mu(i) > 0.01)


def _clip(i: Instance) -> SoftClip:
    return SoftClip(i["T"], i["k"])


def _clips(rng: Rng, count: int) -> Iterator[Instance]:
    for threshold, depth in ((2.0, 1), (2.0, 3), (1.5, 2), (2.5, 3)):
        yield {"T": threshold, "k": 3.0, "p": 0.5, "rho": 0.4999, "L": depth}
    for _ in range(count // 4):
        threshold, sharpness = float(rng.uniform(1, 2.5)), float(rng.uniform(1, 4))
        rho = float(rng.choice([0.4999, rng.uniform(0.05, 0.95)]))
        yield {"T": threshold, "k": sharpness, "p": 0.5, "rho": rho, "L": int(rng.integers(1, 6))}


def _clip_start(i: Instance, prefactor: str) -> Numeric:
    clip, half = _clip(i), i["p"] * 0 + 0.5
    mu, alpha = clip.nonlinearity(half * 2), clip.contraction(half)
    travel = log(4 * max(abs(i["p"] - 1), mu / 4) / mu)
    return travel * alpha if prefactor == "alpha" else travel / alpha


def _clip_bound(prefactor: str) -> Callable[[Instance], Numeric]:
    def bound(i: Instance) -> Numeric:
        left = i["L"] - _clip_start(i, prefactor)
        return correlation_bound(float(left), 1 - i["rho"], _clip(i).nonlinearity(i["p"] * 0 + 1) / 2)

    return bound


def _clip_exact(prefactor: str) -> Callable[[Instance], tuple[Numeric, Numeric]]:
    """Both sides in 16 digits: every one of many layers is an integral."""

    def sides(i: Instance) -> tuple[Numeric, Numeric]:
        with mpmath().workdps(16):
            return _clip(i).cosine_floor(i["p"], i["rho"], i["L"]), _clip_bound(prefactor)(i)

    return sides


def _clip_after(prefactor: str) -> Callable[[Instance], bool]:
    return lambda i: bool(i["L"] >= _clip_start(i, prefactor))


_late_clips = extended(_clips, lambda rng, i: {"L": int(np.ceil(_clip_start(i, "inverse"))) + i["L"]})


def _hermite_cases(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"i": 2, "j": 2, "p": 2.0, "q": 2.0, "c": 2.0}
    yield {"i": 0, "j": 2, "p": 1.0, "q": 2.0, "c": 0.5}
    for _ in range(count):
        p, q = rng.uniform(0.2, 4, 2)
        c = float(rng.uniform(-1, 1) * np.sqrt(p * q))
        yield {"i": int(rng.integers(0, 4)), "j": int(rng.integers(0, 4)), "p": float(p), "q": float(q), "c": c}


def _pairing(printed: bool) -> Callable[[Instance], Numeric]:
    return lambda i: as_printed_hermite_pairing(i["i"], i["j"], (i["p"], i["q"]), i["c"], printed=printed)


def _pairing_claimed(i: Instance) -> Numeric:
    return (i["c"] / sqrt(i["p"] * i["q"])) ** i["j"] if i["i"] == i["j"] else i["c"] * 0


def _cubics(rng: Rng, count: int) -> Iterator[Instance]:
    """σ(x) = a x + b x³ and two lengths."""
    yield {"a": 1.0, "b": 0.1, "p": 0.5, "q": 0.5, "rho": 0.8}
    yield {"a": 1.0, "b": 0.1, "p": 2.0, "q": 2.0, "rho": 0.8}
    for _ in range(count):
        p, q = rng.uniform(0.3, 3, 2)
        yield {
            "a": 1.0,
            "b": float(rng.uniform(-0.2, 0.2)),
            "p": float(p),
            "q": float(q),
            "rho": float(rng.uniform(-1, 1)),
        }


def _cubic_pair(i: Instance, p: Numeric, q: Numeric, c: Numeric) -> Numeric:
    """E σ(z_1)σ(z_2) for variances p, q and covariance c."""
    a, b = i["a"], i["b"]
    return a * a * c + 3 * a * b * (p + q) * c + b * b * (9 * p * q * c + 6 * c**3)


def _printed_terms(i: Instance, v: Numeric) -> tuple[Numeric, Numeric]:
    """(a_1^{γ})² and (a_3^{γ})² by eq. 14 as printed: H_1 = z, H_3 = z³ − 3γ²z, γ = v."""
    a, b = i["a"], i["b"]
    first = a * v + 3 * b * v**2
    third = 3 * a * v**2 * (1 - v) + b * (15 * v**3 - 9 * v**4)
    return first**2 / v, third**2 / (6 * v**3)


def _printed_nonlinearity(i: Instance, v: Numeric) -> Numeric:
    """At most the printed μ^{γ}: two terms of its sum."""
    first, third = _printed_terms(i, v)
    return 1 - first / (first + third)


def _cubic_cosine(i: Instance) -> Numeric:
    p, q = i["p"], i["q"]
    cross = _cubic_pair(i, p, q, i["rho"] * sqrt(p * q))
    return abs(cross) / sqrt(_cubic_pair(i, p, p, p) * _cubic_pair(i, q, q, q))


def _printed_cosine_bound(i: Instance) -> Numeric:
    delta, product = 1 - abs(i["rho"]), 1
    for v in (i["p"], i["q"]):
        mu = _printed_nonlinearity(i, v)
        product = product * (1 - (1 + mu / 2) * delta if delta <= 0.5 else (1 - mu / 2) * (1 - delta))
    return sqrt(product)


CLAIMS = (
    deterministic("004/lem-40", equal(_pairing(True), _pairing_claimed), {"random": _hermite_cases}, scale=1),
    deterministic(
        "004/lem-40#corrected", equal(_pairing(False), _pairing_claimed), {"random": _hermite_cases}, scale=1
    ),
    deterministic("004/def-sigma-c:eq-15", vanishes(_off_one_power), {"random": _free_powers}),
    deterministic(
        "004/def-sigma-c:eq-15#corrected",
        equal(lambda i: sigma(i).pair(i["p"], i["q"], i["rho"] * sqrt(i["p"] * i["q"])), _series),
        {"random": _gentle},
        scale=1,
        tolerance=1e-6,
        counts=(12, 60),
    ),
    deterministic(
        "004/def-sigma-c:eq-16",
        at_most(lambda i: sum(_printed_terms(i, i["p"])), lambda i: _cubic_pair(i, i["p"], i["p"], i["p"])),
        {"cubics": _cubics},
    ),
    deterministic(
        "004/def-sigma-c:eq-16#corrected",
        equal(lambda i: sigma(i).second_moment(i["p"]), _squared_sum),
        {"random": _gentle},
        tolerance=1e-4,
        counts=(12, 60),
    ),
    deterministic("004/lem-41", at_most(_cubic_cosine, _printed_cosine_bound), {"cubics": _cubics}),
    deterministic(
        "004/lem-41#corrected",
        at_most(_cosine_after, _cosine_bound),
        {"erf": _pairs(("erf",)), "sin": _pairs(("sin",))},
        search=_search_pairs("erf"),
        tolerance=1e-8,
    ),
    deterministic(
        "004/lem-41:monotone",
        at_most(_cosine_after, lambda i: abs(i["rho"])),
        {"erf": _pairs(("erf",)), "sin": _pairs(("sin",))},
        search=_search_pairs("sin"),
        tolerance=1e-8,
    ),
    deterministic(
        "004/thm-42:eq-20",
        at_least(lambda i: sigma(i).nonlinearity(1 + i["place"] * _mu(i) / 4), lambda i: _mu(i) / 2),
        {"random": _near_one},
        hypotheses=lambda i: bool(_mu(i) > 1e-4),
        search=Search(
            lambda p: {"a": float(p[0]), "b": 1.0, "t": float(10 ** (2 * p[1] - 1)), "g": "erf", "place": 2 * p[2] - 1},
            3,
        ),
    ),
    deterministic(
        "004/thm-42",
        at_most(_cosine_path("inverse"), _path_bound("inverse")),
        {"random": _paths},
        hypotheses=_proper,
        search=_search_paths(),
        scale=1,
    ),
    deterministic(
        "004/thm-12",
        at_most(_cosine_path("inverse"), _path_bound("inverse")),
        {"random": _paths},
        hypotheses=_proper,
        search=_search_paths(),
        scale=1,
    ),
    deterministic(
        "004/thm-12:constant",
        at_most(lambda i: _clip(i).cosine_floor(i["p"], i["rho"], i["L"]), _clip_bound("alpha")),
        {"clips": _clips},
        hypotheses=_clip_after("alpha"),
        counts=(40, 200),
    ),
    deterministic(
        "004/thm-42:clips",
        at_most(lambda i: _clip(i).cosine_floor(i["p"], i["rho"], i["L"]), _clip_bound("inverse")),
        {"clips": _late_clips},
        hypotheses=_clip_after("inverse"),
        exact=_clip_exact("inverse"),
        counts=(20, 80),
    ),
)
