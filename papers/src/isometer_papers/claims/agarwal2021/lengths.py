"""004, §3.5 and Appendix D: inputs of other lengths than one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.theory.kernels import SignalFamily, length_contraction
from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Rng, cases, drawn
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import at_least, at_most, deterministic, equal, vanishes
from isometer_papers.theory.duals.length_counterexamples import hinge_length, sigmoid_at_zero, staircase_length
from isometer_papers.theory.duals.odd_mixtures import OddMixture

NAMED = ("tanh", "arctan", "softsign")


def sigma(i: Instance) -> OddMixture:
    """σ of an instance."""
    return OddMixture(i["a"], i["b"], i["t"], i.get("g", "erf"))


def mixture(rng: Rng, kinds: tuple[str, ...] = ("erf",)) -> dict[str, Any]:
    style = int(rng.integers(3))
    a, b = (0.0, 1.0) if style == 0 else (float(rng.uniform(0, 1)), 1.0)
    return {"a": a, "b": b, "t": float(10 ** rng.uniform(-1, 1)), "g": str(rng.choice(kinds))}


simple = cases(*({"a": a, "b": 1.0, "t": t, "g": "erf"} for a, t in ((0.0, 1.0), (0.0, 0.3), (0.0, 5.0), (0.5, 1.0))))


def _lengths(rng: Rng, count: int) -> Iterator[Instance]:
    for base in simple(rng, count):
        for gamma in (1.1, 0.5, 2.0, 5.0):
            for depth in (1, 3):
                yield {**base, "gamma": gamma, "L": depth}
    for _ in range(count):
        gamma = float(rng.choice([rng.uniform(0.5, 2), 0.5 + rng.exponential(3)]))
        yield {**mixture(rng), "gamma": gamma, "L": int(rng.integers(0, 12))}


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


def contraction(i: Instance) -> Any:
    return sigma(i).contraction(i["a"] * 0 + 0.5)


def _printed_length(i: Instance, power: int) -> Any:
    return (1 - contraction(i)) ** i["L"] * abs(i["gamma"] - 1) ** power


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
    for base in simple(rng, count):
        yield {**base, "u": 0.0, "v": 1.0}
    for _ in range(count):
        u, v = np.sort(rng.exponential(2, 2))
        yield {**mixture(rng), "u": float(u), "v": float(v)}


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


_other_starts = drawn(lambda rng: {**mixture(rng), "gamma": 1.0, "L": 1, "gamma0": float(rng.uniform(0.05, 0.95))})


def _rem_38(i: Instance) -> Any:
    start = i["gamma0"]
    return abs(sigma(i).second_moment(start) - 1)


def _difference_slope(i: Instance) -> Any:
    step = i["a"] * 0 + 1e-4
    return (sigma(i).second_moment(1 + step) - sigma(i).second_moment(1 - step)) / (2 * step)


CLAIMS = (
    deterministic(
        "004/thm-37",
        "Theorem 37",
        "|k̄(x, x) − 1| ≤ (1 − α_σ)^L · |‖x‖² − 1|² for ‖x‖² ≥ ½, L ≥ 0",
        at_most(_length_after, lambda i: _printed_length(i, 2)),
        LENGTHS,
        search=_search_lengths(),
        scale=1,
        corrected="004/thm-37#corrected",
        remark="at L = 0 it says |‖x‖² − 1| ≤ |‖x‖² − 1|²; σ = a x + b erf(t x), scaled to E σ² = 1",
    ),
    deterministic(
        "004/thm-37#corrected",
        "Theorem 37",
        "|k̄(x, x) − 1| ≤ (1 − α_σ)^L · |‖x‖² − 1| for ‖x‖² ≥ ½, L ≥ 0",
        at_most(_length_after, lambda i: _printed_length(i, 1)),
        LENGTHS,
        search=_search_lengths(),
        scale=1,
    ),
    deterministic(
        "004/thm-37:eq-12",
        "eq. 12",
        "|σ̂_l(γ) − 1| ≤ (1 − α_σ)|γ − 1| for γ ≥ ½",
        at_most(
            lambda i: abs(sigma(i).second_moment(i["gamma"]) - 1), lambda i: (1 - contraction(i)) * abs(i["gamma"] - 1)
        ),
        LENGTHS,
        search=_search_lengths(),
        scale=1,
        remark="attained at γ = ½ or, to first order, at γ = 1",
    ),
    deterministic(
        "004/thm-37:named",
        "eq. 12",
        "the same for tanh, arctan and softsign, scaled to E σ² = 1",
        at_most(lambda i: _named_sides(i)[0], lambda i: _named_sides(i)[1]),
        {"named": _named},
        exact=_named_exact,
        scale=1,
        counts=(20, 100),
    ),
    deterministic(
        "004/rem-38:lower",
        "Remark 38",
        "α_σ ≥ 0",
        at_least(contraction, 0),
        LENGTHS,
        search=_search_lengths(),
        scale=1,
    ),
    deterministic(
        "004/rem-38:upper",
        "Remark 38",
        "α_σ ≤ 1",
        at_most(contraction, 1),
        LENGTHS,
        search=_search_lengths(),
    ),
    deterministic(
        "004/rem-38:start",
        "Remark 38",
        "½ may be any γ₀ > 0, with α_σ changed accordingly",
        at_most(_rem_38, lambda i: (1 - sigma(i).contraction(i["gamma0"])) * (1 - i["gamma0"])),
        {"random": _other_starts},
        scale=1,
        scope="γ = γ₀ in (0.05, 0.95), α from the chord (σ̂_l(γ₀) − γ₀)/(1 − γ₀) and the slope at 1",
    ),
    deterministic(
        "004/def-alpha-sigma",
        "proof of Theorem 37",
        "σ̂_l′(1) = E σ(X)σ′(X)X",
        equal(lambda i: sigma(i).length_slope(i["a"] * 0 + 1), _difference_slope),
        LENGTHS,
        tolerance=1e-6,
        scope="closed form of the expectation against a central difference of σ̂_l",
    ),
    deterministic(
        "004/lem-39:increasing",
        "Lemma 39",
        "σ̂_l is non-decreasing",
        at_most(lambda i: sigma(i).second_moment(i["u"]), lambda i: sigma(i).second_moment(i["v"])),
        {"random": _grid},
    ),
    deterministic(
        "004/lem-39:concave",
        "Lemma 39",
        "σ̂_l is concave",
        at_least(
            lambda i: sigma(i).second_moment((i["u"] + i["v"]) / 2),
            lambda i: (sigma(i).second_moment(i["u"]) + sigma(i).second_moment(i["v"])) / 2,
        ),
        {"random": _grid},
        scope="midpoints of random intervals",
    ),
    deterministic(
        "004/rem-D4:sigmoid",
        "D.4",
        "sigmoid is 0 at 0, as the norm part assumes",
        vanishes(lambda i: sigmoid_at_zero(i["x"])),
        {"one": lambda rng, count: iter([{"x": 0.0}])},
        corrected="004/rem-D4:sigmoid#corrected",
    ),
    deterministic(
        "004/rem-D4:sigmoid#corrected",
        "D.4",
        "sigmoid − ½ is 0 at 0",
        vanishes(lambda i: sigmoid_at_zero(i["x"], shift=True)),
        {"one": lambda rng, count: iter([{"x": 0.0}])},
    ),
    deterministic(
        "004/rem-D4:counterexample",
        "D.4",
        "the length map of max(x, 0) − 1 does not converge globally",
        at_least(_hinge_distance, 1e-6),
        {"starts": _starts},
        scale=1,
        corrected="004/rem-D4:counterexample#corrected",
        scope="two starts stay apart by 1e-6 after 60 layers; with E σ² = 1 and without scaling",
        remark="the map is γ/2 − √(2γ/π) + 1: after one layer its slope lies in (0, 0.72), so lengths contract",
    ),
    deterministic(
        "004/rem-D4:counterexample#corrected",
        "D.4",
        "monotone σ = sign(x)/10 + 10·sign(x)·1{|x| > 5} has two attracting lengths",
        at_least(_stair_distance, 1),
        {"starts": lambda rng, count: iter([{"gamma": 1.0}])},
        scale=1,
        scope="starts 0.01 and 100, 60 layers",
    ),
)
