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
from isometer_papers.float_or_mpmath import Numeric
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


def _built(p: Numeric) -> Instance:
    base = {"a": float(p[0]), "b": 1.0, "t": float(10 ** (2 * p[1] - 1)), "g": "erf"}
    return {**base, "gamma": 0.5 + 4 * float(p[2]), "L": int(8 * p[3])}


LENGTHS: dict[str, Any] = {"mixtures": _lengths}
_SEARCH = Search(_built, 4)


def _length_after(i: Instance) -> Numeric:
    gamma = i["gamma"]
    for _ in range(i["L"]):
        gamma = sigma(i).second_moment(gamma)
    return abs(gamma - 1)


def contraction(i: Instance) -> Numeric:
    return sigma(i).contraction(i["a"] * 0 + 0.5)


def _printed_length(i: Instance, power: int) -> Numeric:
    return (1 - contraction(i)) ** i["L"] * abs(i["gamma"] - 1) ** power


def _exact_moment(name: str, gamma: Numeric) -> Numeric:
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


def _named_exact(i: Instance) -> tuple[Numeric, Numeric]:
    lib = mpmath()
    one = _exact_moment(i["name"], lib.mpf(1))

    def length(gamma: Numeric) -> Numeric:
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


def _hinge_distance(i: Instance) -> Numeric:
    """How far two starts are apart after 60 layers."""
    gamma, other = i["gamma"], i["gamma"] * 0 + 1
    for _ in range(60):
        gamma, other = (hinge_length(v, unit=i["scale"] == "unit") for v in (gamma, other))
    return abs(gamma - other)


def _stair_distance(i: Instance) -> Numeric:
    low, high = i["gamma"] * 0 + 0.01, i["gamma"] * 0 + 100
    for _ in range(60):
        low, high = staircase_length(low), staircase_length(high)
    return abs(high - low)


_other_starts = drawn(lambda rng: {**mixture(rng), "gamma": 1.0, "L": 1, "gamma0": float(rng.uniform(0.05, 0.95))})


def _rem_38(i: Instance) -> Numeric:
    start = i["gamma0"]
    return abs(sigma(i).second_moment(start) - 1)


def _difference_slope(i: Instance) -> Numeric:
    step = i["a"] * 0 + 1e-4
    return (sigma(i).second_moment(1 + step) - sigma(i).second_moment(1 - step)) / (2 * step)


CLAIMS = (
    deterministic(
        "004/thm-37",
        at_most(_length_after, lambda i: _printed_length(i, 2)),
        LENGTHS,
        search=_SEARCH,
        scale=1,
    ),
    deterministic(
        "004/thm-37#corrected",
        at_most(_length_after, lambda i: _printed_length(i, 1)),
        LENGTHS,
        search=_SEARCH,
        scale=1,
    ),
    deterministic(
        "004/thm-37:eq-12",
        at_most(
            lambda i: abs(sigma(i).second_moment(i["gamma"]) - 1), lambda i: (1 - contraction(i)) * abs(i["gamma"] - 1)
        ),
        LENGTHS,
        search=_SEARCH,
        scale=1,
    ),
    deterministic(
        "004/thm-37:named",
        at_most(lambda i: _named_sides(i)[0], lambda i: _named_sides(i)[1]),
        {"named": _named},
        exact=_named_exact,
        scale=1,
        counts=(20, 100),
    ),
    deterministic("004/rem-38:lower", at_least(contraction, 0), LENGTHS, search=_SEARCH, scale=1),
    deterministic("004/rem-38:upper", at_most(contraction, 1), LENGTHS, search=_SEARCH),
    deterministic(
        "004/rem-38:start",
        at_most(_rem_38, lambda i: (1 - sigma(i).contraction(i["gamma0"])) * (1 - i["gamma0"])),
        {"random": _other_starts},
        scale=1,
    ),
    deterministic(
        "004/def-alpha-sigma",
        equal(lambda i: sigma(i).length_slope(i["a"] * 0 + 1), _difference_slope),
        LENGTHS,
        tolerance=1e-6,
    ),
    deterministic(
        "004/lem-39:increasing",
        at_most(lambda i: sigma(i).second_moment(i["u"]), lambda i: sigma(i).second_moment(i["v"])),
        {"random": _grid},
    ),
    deterministic(
        "004/lem-39:concave",
        at_least(
            lambda i: sigma(i).second_moment((i["u"] + i["v"]) / 2),
            lambda i: (sigma(i).second_moment(i["u"]) + sigma(i).second_moment(i["v"])) / 2,
        ),
        {"random": _grid},
    ),
    deterministic(
        "004/rem-D4:sigmoid",
        vanishes(lambda i: sigmoid_at_zero(i["x"])),
        {"one": lambda rng, count: iter([{"x": 0.0}])},
    ),
    deterministic(
        "004/rem-D4:sigmoid#corrected",
        vanishes(lambda i: sigmoid_at_zero(i["x"], shift=True)),
        {"one": lambda rng, count: iter([{"x": 0.0}])},
    ),
    deterministic("004/rem-D4:counterexample", at_least(_hinge_distance, 1e-6), {"starts": _starts}, scale=1),
    deterministic(
        "004/rem-D4:counterexample#corrected",
        at_least(_stair_distance, 1),
        {"starts": lambda rng, count: iter([{"gamma": 1.0}])},
        scale=1,
    ),
)
