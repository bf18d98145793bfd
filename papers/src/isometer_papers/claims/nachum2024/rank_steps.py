"""000, Appendix B: the steps of the proof of Theorem 3."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.run import seed_of
from isometer_papers.claims._claim import Estimate, Instance, Search
from isometer_papers.claims._families import Rng, cases, drawn, extended
from isometer_papers.claims._statements import (
    Sampled,
    at_least,
    at_most,
    deterministic,
    equal,
    expectation,
    probability,
)
from isometer_papers.claims.nachum2024.instances import fan, plane_batches, proportion
from isometer_papers.float_or_mpmath import Numeric, exp, log
from isometer_papers.theory.rank.relu import (
    chernoff_exponent,
    chernoff_point,
    circle_batch,
    expected_neurons_bound,
    full_rank_exponent,
    least_cell_volume,
    neurons_until_full_rank,
    pair_step_tail,
    pair_steps_joint,
)

BATCHES = {"circle 3": circle_batch(3), "circle 5": circle_batch(5), "fan 4": fan(4, 0.1), "fan 3": fan(3, 0.5)}


@lru_cache(maxsize=16)
def _steps(name: str) -> Any:
    """Draws of (y_1, …, y_n), 2000 of them."""
    rng = np.random.default_rng(seed_of(f"000 steps {name}"))
    x = BATCHES[name]
    return np.array([neurons_until_full_rank(x, rng=rng, limit=5000, steps=True) for _ in range(2000)])


_named = cases(*({"batch": name, "t": t} for name, x in list(BATCHES.items()) for t in range(1, len(x))))


def _named_tails(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in _named(rng, count):
        yield {**instance, "m": 2}
        yield {**instance, "m": 5}


def _next_gamma(i: Instance) -> float:
    return float(least_cell_volume(BATCHES[i["batch"]][: i["t"] + 1]))


def _tail(i: Instance, rng: Rng) -> Estimate:
    sample = _steps(i["batch"])[:, i["t"] - 1]
    return proportion(int((sample > i["m"]).sum()), len(sample))


def _prefixes(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"X": np.array([[1.0, 0.0], [0.0, 1.0]]), "t": 1}
    for instance in plane_batches(rng, count, 2, 7):
        yield {**instance, "t": int(rng.integers(1, len(instance["X"])))}


def _sum_of_inverses(i: Instance) -> Numeric:
    return sum(1 / least_cell_volume(i["X"][:t]) for t in range(1, len(i["X"]) + 1))


def _pairs(rng: Rng, count: int) -> Iterator[Instance]:
    for share in [0.5, 0.25, *rng.uniform(0.01, 0.99, count)]:
        yield {"angle/pi": float(share)}


_pair_tails = extended(_pairs, lambda rng, i: {"first": int(rng.integers(1, 5)), "m": int(rng.integers(0, 8))})


def _pair_gamma(share: Numeric) -> Numeric:
    return min(share, 1 - share) / 2


def _draws(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n, gamma = int(rng.integers(1, 6)), float(rng.uniform(0.05, 0.5))
        yield {"n": n, "gamma": gamma, "d": math.ceil(float(rng.uniform(2.01, 6)) * n / gamma)}


def _binomial_tail(i: Instance) -> Numeric:
    """P(Σ of n geometric numbers > d) = P(fewer than n successes in d trials)."""
    n, gamma, d = i["n"], i["gamma"], i["d"]
    return sum(math.comb(d, j) * gamma**j * (1 - gamma) ** (d - j) for j in range(n))


def _log_tail(i: Instance) -> Numeric:
    return log(_binomial_tail(i))


def _generating_bound(n: int, gamma: Numeric, d: int, s: Numeric) -> Numeric:
    """(γeˢ/(1 − (1−γ)eˢ))ⁿ e^{−sd}, d = αn/γ."""
    grown = exp(s)
    return (gamma * grown / (1 - (1 - gamma) * grown)) ** n * exp(-s * d)


_beyond = cases(
    {"n": 3, "gamma": 0.5, "d": 18, "s": 1.0},  # 1 − (1−γ)eˢ < 0 and n odd: a negative number
    {"n": 2, "gamma": 0.5, "d": 12, "s": 3.0},  # n even: too small a number
)


def _all_points(rng: Rng, count: int) -> Iterator[Instance]:
    """Any s > 0 but the pole."""
    for instance in _draws(rng, count):
        yield {**instance, "s": float(rng.uniform(0.01, 3))}


_points = drawn(
    lambda rng: {
        "alpha": float(rng.uniform(1.05, 15)),
        "gamma": float(rng.uniform(0.005, 0.5)),
        "part": float(rng.uniform(0.01, 0.99)),
    }
)


def _at(i: Instance) -> Numeric:
    """The exponent at a point of (0, −log(1 − γ))."""
    return chernoff_exponent(i["alpha"], i["gamma"], -i["part"] * log(1 - i["gamma"]))


def _rising(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in _points(rng, count):
        yield {"alpha": instance["alpha"], "gamma": instance["gamma"], "less": instance["part"]}


CHERNOFF = Search(
    lambda p: {
        "alpha": 1.05 + 14 * float(p[0]),
        "gamma": 0.005 + 0.49 * float(p[1]),
        "part": 0.01 + 0.98 * float(p[2]),
    },
    3,
)
RISING = Search(
    lambda p: {"alpha": 1.05 + 14 * float(p[0]), "gamma": 0.005 + 0.49 * float(p[1]), "less": 0.1 + 0.89 * float(p[2])},
    3,
)

CLAIMS = (
    expectation(
        "000/eq-26-28:26",
        at_most(
            Sampled(lambda i, rng: Estimate.of(_steps(i["batch"])[:, i["t"] - 1].astype(float))),
            lambda i: 1 / _next_gamma(i),
        ),
        {"batches": _named},
        counts=(8, 16),
        resolution=0.2,
    ),
    probability(
        "000/eq-26-28:geometric",
        at_least(
            lambda i: pair_step_tail(i["angle/pi"], i["first"], i["m"]),
            lambda i: (1 - _pair_gamma(i["angle/pi"])) ** i["m"],
        ),
        {"pairs": _pair_tails},
    ),
    probability(
        "000/eq-26-28:geometric#corrected",
        at_most(Sampled(_tail), lambda i: (1 - _next_gamma(i)) ** i["m"]),
        {"batches": _named_tails},
        counts=(16, 32),
        resolution=0.2,
    ),
    deterministic(
        "000/eq-26-28:monotone",
        at_most(lambda i: least_cell_volume(i["X"][: i["t"] + 1]), lambda i: least_cell_volume(i["X"][: i["t"]])),
        {"random": _prefixes},
    ),
    deterministic(
        "000/eq-26-28:27",
        at_most(lambda i: len(i["X"]) + 1, lambda i: len(i["X"])),  # the columns that X⁽ᵗ⁺¹⁾ needs at t = n
        {"random": lambda rng, count: plane_batches(rng, count)},
    ),
    deterministic(
        "000/eq-26-28:27#corrected",
        at_most(_sum_of_inverses, lambda i: expected_neurons_bound(len(i["X"]), least_cell_volume(i["X"]))),
        {"random": lambda rng, count: plane_batches(rng, count)},
    ),
    probability(
        "000/eq-26-28:independence",
        equal(lambda i: pair_steps_joint(i["angle/pi"])[0], lambda i: pair_steps_joint(i["angle/pi"])[1]),
        {"pairs": _pairs},
    ),
    probability(
        "000/eq-26-28:independence#corrected",
        at_most(
            lambda i: pair_step_tail(i["angle/pi"], i["first"], i["m"]),
            lambda i: (1 - _pair_gamma(i["angle/pi"])) ** i["m"],
        ),
        {"pairs": _pair_tails},
        search=Search(lambda p: {"angle/pi": 0.01 + 0.98 * float(p[0]), "first": 1, "m": 1 + int(6 * p[1])}, 2),
    ),
    deterministic(
        "000/eq-26-28:28b",
        at_most(_binomial_tail, lambda i: _generating_bound(i["n"], i["gamma"], i["d"], i["s"])),
        {"beyond": _beyond, "random": _all_points},
    ),
    deterministic(
        "000/eq-26-28:28b#corrected",
        at_most(_log_tail, lambda i: -i["n"] * full_rank_exponent(i["d"] * i["gamma"] / i["n"], i["gamma"])),
        {"random": _draws},
    ),
    deterministic(
        "000/eq-26-28:28c",
        equal(
            lambda i: chernoff_exponent(i["alpha"], i["gamma"], chernoff_point(i["alpha"], i["gamma"])),
            lambda i: full_rank_exponent(i["alpha"], i["gamma"]),
        ),
        {"random": _points},
    ),
    deterministic(
        "000/eq-26-28:28c-minimum",
        at_least(
            lambda i: _generating_bound(i["n"], i["gamma"], i["d"], i["s"]),
            lambda i: exp(-i["n"] * full_rank_exponent(i["d"] * i["gamma"] / i["n"], i["gamma"])),
        ),
        {"beyond": _beyond, "random": _all_points},
    ),
    deterministic(
        "000/eq-26-28:28c-minimum#corrected",
        at_most(_at, lambda i: full_rank_exponent(i["alpha"], i["gamma"])),
        {"random": _points},
        search=CHERNOFF,
    ),
    deterministic(
        "000/eq-26-28:28d",
        at_least(
            lambda i: full_rank_exponent(i["alpha"], i["gamma"]),
            lambda i: full_rank_exponent(i["alpha"], i["gamma"] * i["less"]),
        ),
        {"random": _rising},
        search=RISING,
    ),
)
