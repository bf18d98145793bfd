"""002, §4 and §7.4, §7.6: symmetry of the invariant law, rank one, odd activations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Family, Rng, cases
from isometer_papers.claims._precise import elementwise, numerical_rank
from isometer_papers.claims._statements import (
    Sampled,
    asymptotic,
    at_least,
    at_most,
    deterministic,
    equal,
    expectation,
    probability,
    vanishes,
)
from isometer_papers.claims.daneshmand2020.instances import ODD_FUNCTIONS, shapes, steps, unit_features
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.rank_steps import plain_chain, uniform_weights
from isometer_papers.theory.rank.bounds import second_moments
from isometer_papers.theory.rank.chain import normalized_step, residual_step, several_invariant_laws

ODD = steps(functions=tuple(ODD_FUNCTIONS))
SIMPLE = cases(
    {
        "H": np.array([[1.4, 1.0], [0.2, 1.0]]),  # features of mean square 1
        "W": np.array([[1.0, 0.5], [-0.5, 1.0]]),
        "gamma": 1.0,
        "F": "identity",
    }
)

CORNER = 3**0.5


def unique_law(i: Instance) -> bool:
    """The hypothesis "admits a unique invariant distribution", for an odd F."""
    return not several_invariant_laws(i["n"], i["d"], float(i["gamma"]), abs(float(elementwise(i["F"])(np.ones(1))[0])))


def why_not_unique(i: Instance) -> str:
    """Two invariant laws, in words."""
    if i["n"] >= 2:
        other = "(1, −1, 1, …)" if i["n"] > 2 else "(1, −1)"
        return (
            f"for d = {i['d']}, N = {i['n']}, γ = {i['gamma']:.4g}, F = {i['F']} the states s hᵀ, s ∈ {{±1}}^d, keep "
            f"h = (1, …, 1), and equally h = {other}, up to sign: two disjoint closed sets, hence two invariant laws"
        )
    return (
        f"for d = {i['d']}, N = 1, γ = {i['gamma']:.4g}, F = {i['F']} every state s ∈ {{±1}}^d is fixed: s and −s "
        "carry two invariant laws"
    )


def weak_chains(functions: tuple[str, ...]) -> Family:
    """Chains with γ ≤ 1/(8Bd)."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for _ in range(count):
            n, d = shapes(rng, 1, 8)
            name = str(rng.choice(functions))
            yield {"n": n, "d": d, "gamma": float(rng.uniform(0.01, 1)) / (8 * ODD_FUNCTIONS[name] * d), "F": name}

    return generator


def _flip_gap(i: Instance) -> Numeric:
    """FBN(SH, W) against S FBN(H, SWS); signs act on features."""
    s = np.where(np.arange(i["H"].shape[1]) % 2, 1, -1)
    function = elementwise(i["F"])
    left = normalized_step(i["H"] * s, i["W"], i["gamma"], function)
    return abs(left - normalized_step(i["H"], i["W"] * np.outer(s, s), i["gamma"], function) * s).max()


def _flipped_products(i: Instance) -> tuple[Numeric, Numeric]:
    """H_½ H_½ᵀ/N and H̃_½ H̃_½ᵀ/N of eq. 37 and 38."""
    s = np.where(np.arange(i["H"].shape[1]) % 2, 1, -1)
    function = elementwise(i["F"])
    first = residual_step(i["H"], i["W"] * np.outer(s, s), i["gamma"], function)
    return second_moments(first), second_moments(residual_step(i["H"] * s, i["W"], i["gamma"], function))


def _eq_44(i: Instance, *, diagonal: bool) -> Numeric:
    """The left side of eq. 39 against the right side of eq. 44, as printed or with its diag."""
    left, right = _flipped_products(i)
    ones = np.eye(len(left), dtype=int)
    return abs(left * ones - (right * ones if diagonal else right)).max()


def _permutation_gap(i: Instance) -> Numeric:
    """FBN(ΠH, W) against Π FBN(H, ΠᵀWΠ)."""
    order = np.roll(np.arange(i["H"].shape[1]), 1)
    back = np.argsort(order)
    function = elementwise(i["F"])
    left = normalized_step(i["H"][:, order], i["W"], i["gamma"], function)
    right = normalized_step(i["H"], i["W"][np.ix_(back, back)], i["gamma"], function)
    return abs(left - right[:, order]).max()


# One sample and strong layers: the law is unique.
_single = cases(
    *(
        {"n": 1, "d": d, "gamma": gamma, "F": name}
        for d, gamma, name in ((2, 1.0, "identity"), (3, 2.0, "tanh"), (4, 1.0, "sin"), (3, 5.0, "arctan"))
    )
)


def _time_average(statistic: Callable[[Any], Any], layers: int = 16_000) -> Callable[[Instance, Rng], Estimate]:
    """Batch means of a statistic of M along a chain from H = 1."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        start = np.ones((i["n"], i["d"]))
        states = plain_chain(start, i["gamma"], layers=layers, rng=rng, function=elementwise(i["F"]))
        # layers depend on each other; means of 64 long blocks hardly do
        return Estimate.of(statistic(states).reshape(64, -1).mean(1))

    return estimate


def _products(states: Numeric, j: int, k: int) -> Numeric:
    return (states[:, :, j] * states[:, :, k]).mean(1)


def _rank_change(i: Instance) -> tuple[int, int]:
    after = normalized_step(i["H"], i["W"], i["gamma"], elementwise(i["F"]))
    return numerical_rank(after), numerical_rank(i["H"])


def _rank_one_steps(function: str) -> Family:
    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        h, w = np.array([[1.0, 1.0], [0.5, 0.5]]), np.array([[1.0, 0.0], [0.0, -0.5]])
        yield {"H": h, "W": w, "gamma": 0.5, "F": function}
        for _ in range(count):
            n, d = shapes(rng)
            k = int(rng.integers(1, min(n, d)))
            low = rng.standard_normal((n, k)) @ rng.standard_normal((k, d))
            yield {"H": low, "W": uniform_weights(rng, d, d), "gamma": float(rng.uniform(0.1, 2)), "F": function}

    return generator


def _rank_one_chains(rng: Rng, count: int) -> Iterator[Instance]:
    """Rank-one H in 𝓗 and γ ≤ 1/(8d), with random or extreme weights."""
    signs = np.array([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]])
    yield {"H": signs, "W": np.eye(3)[None], "gamma": 0.03125}
    for _ in range(count):
        n, d = shapes(rng, 1, 6)
        h = np.outer(rng.standard_normal(n), rng.choice([-1.0, 1.0], d))
        gamma = float(rng.choice([1.0, rng.uniform(0.01, 1)])) / (8 * d)
        weights = uniform_weights(rng, 12, d, d)
        yield {"H": unit_features(h), "W": np.sign(weights) * CORNER if rng.integers(2) else weights, "gamma": gamma}


def _odd_rank_one(rng: Rng, count: int) -> Iterator[Instance]:
    """Rank-one H in 𝓗, γ = 1/(8Bd), one layer with an odd function that is not linear."""
    yield {
        "H": np.array([[1.4, 1.4], [0.2, 0.2]]),
        "W": np.diag([1.5, -1.5])[None],
        "gamma": 0.0625,
        "F": "tanh",
    }
    for _ in range(count):
        n, d = shapes(rng, 2, 6)
        h = unit_features(np.outer(rng.standard_normal(n), rng.choice([-1.0, 1.0], d)))
        name = str(rng.choice([name for name in ODD_FUNCTIONS if name not in ("identity", "double")]))
        yield {"H": h, "W": uniform_weights(rng, 1, d, d), "gamma": 1 / (8 * ODD_FUNCTIONS[name] * d), "F": name}


def _drift_of_rank_one(i: Instance) -> Numeric:
    """max |M(H_ℓ) − M(H_k)| over the layers, and how far entries are from ±1."""
    h, start, worst = i["H"], second_moments(i["H"]), 0
    for w in i["W"]:
        h = normalized_step(h, w, i["gamma"], elementwise(i.get("F", "identity")))
        m = second_moments(h)
        worst = max(worst, abs(m - start).max(), abs(abs(m) - 1).max())
    return worst


def _frobenius(i: Instance) -> Numeric:
    """‖M(H)‖_F²."""
    return (second_moments(i["H"]) ** 2).sum()


def _averages_from_rank_one(i: Instance, rng: Rng) -> Estimate:
    """|time average of M_12| of 200 tanh chains from one matrix of rank one."""
    h = np.tile(unit_features(np.outer(i["h"], np.ones(i["d"]))), (200, 1, 1))
    total = np.zeros(len(h))
    for _ in range(i["layers"]):
        h = h + i["gamma"] * np.tanh(h) @ uniform_weights(rng, 200, i["d"], i["d"])
        h = h / np.sqrt((h**2).mean(axis=1, keepdims=True))
        total += (h[:, :, 0] * h[:, :, 1]).mean(axis=1)
    return Estimate.of(abs(total) / i["layers"])


def _last_from_rank_one(i: Instance, rng: Rng) -> Estimate:
    """|M_12| at layer 1500, chain by chain: if M stays as it is, this is 1, too."""
    start = unit_features(np.outer(i["h"], np.ones(i["d"])))
    found = []
    for _ in range(60):
        state = plain_chain(start, i["gamma"], layers=1500, rng=rng, function=np.tanh, every=1500)[-1]
        found.append(abs(float((state[:, 0] * state[:, 1]).mean())))
    return Estimate.of(found)


_tanh_from_rank_one = cases(
    {"h": [1.0, 2.0], "d": 2, "gamma": 0.0625, "layers": 4000},
    {"h": [1.0, 2.0, 0.5], "d": 4, "gamma": 0.03125, "layers": 4000},
)


def _sign_states(rng: Rng, count: int) -> Iterator[Instance]:
    """H = s hᵀ of signs, any γ, six layers."""
    for _ in range(count):
        n, d = shapes(rng, 1, 6)
        h = rng.choice([-1.0, 1.0], n)
        yield {
            "H": np.outer(h, rng.choice([-1.0, 1.0], d)),
            "W": uniform_weights(rng, 6, d, d),
            "gamma": float(10 ** rng.uniform(-2, 1)),
            "F": str(rng.choice(list(ODD_FUNCTIONS))),
        }


def _left_the_signs(i: Instance) -> Numeric:
    """How far features are from ±h after six layers, h the first feature at the start."""
    state, h, worst = i["H"], i["H"][:, :1], 0
    for w in i["W"]:
        state = normalized_step(state, w, i["gamma"], elementwise(i["F"]))
        worst = max(worst, abs(state - h * state[:1] * h[0]).max())
    return worst


def _odd_chains(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n, d = shapes(rng, 2, 8)
        name = str(rng.choice(list(ODD_FUNCTIONS)))
        gamma = float(rng.uniform(0.05, 1)) / (8 * ODD_FUNCTIONS[name] * d)
        yield {"H": rng.standard_normal((n, d)), "gamma": gamma, "F": name, "seed": int(rng.integers(1 << 31))}


def _least_rank(i: Instance) -> int:
    h = np.asarray(i["H"], dtype=float)
    rng = np.random.default_rng(i["seed"])
    states = plain_chain(h, float(i["gamma"]), layers=200, rng=rng, function=elementwise(i["F"]), every=20)
    return min(numerical_rank(state) for state in states)


CLAIMS = (
    deterministic("002/lem-6:coupling", vanishes(_flip_gap), {"random": ODD}, tolerance=1e-7),
    deterministic("002/lem-6:eq-44", vanishes(lambda i: _eq_44(i, diagonal=False)), {"simple": SIMPLE, "random": ODD}),
    deterministic(
        "002/lem-6:eq-44#corrected", vanishes(lambda i: _eq_44(i, diagonal=True)), {"random": ODD}, tolerance=1e-7
    ),
    expectation(
        "002/lem-6",
        vanishes(Sampled(_time_average(lambda h: h[:, 0, 0]))),
        {"one sample": _single, "others": weak_chains(tuple(ODD_FUNCTIONS))},
        hypotheses=unique_law,
        witness=why_not_unique,
        counts=(4, 12),
        resolution=0.15,
    ),
    expectation(
        "002/eq-8",
        vanishes(Sampled(_time_average(lambda h: _products(h, 0, 1)))),
        {"one sample": _single, "others": weak_chains(tuple(ODD_FUNCTIONS))},
        hypotheses=unique_law,
        witness=why_not_unique,
        counts=(4, 12),
        resolution=0.15,
    ),
    deterministic(
        "002/lem-11:coupling",
        vanishes(_permutation_gap),
        {"random": steps(functions=(*ODD_FUNCTIONS, "relu"))},
        tolerance=1e-7,
    ),
    expectation(
        "002/lem-11",
        vanishes(Sampled(_time_average(lambda h: _products(h, 0, 1) - _products(h, 1, 2)))),
        {"one sample": lambda rng, count: (i for i in _single(rng, 4) if i["d"] > 2)},
        hypotheses=unique_law,
        counts=(4, 4),
        resolution=0.2,
    ),
    deterministic("002/claim-3.4:many-laws", vanishes(_left_the_signs), {"signs": _sign_states}),
    probability(
        "002/thm-5",
        at_least(lambda i: 1, 2),
        {"weak": weak_chains(tuple(ODD_FUNCTIONS))},
        hypotheses=unique_law,
        witness=why_not_unique,
    ),
    probability(
        "002/thm-5#corrected",
        at_least(_least_rank, 2),
        {"gaussian": _odd_chains},
        hypotheses=lambda i: numerical_rank(i["H"]) >= 2,
        counts=(20, 200),
    ),
    asymptotic(
        "002/lem-7",
        equal(lambda i: 1, 0),
        {"weak": weak_chains(tuple(ODD_FUNCTIONS))},
        hypotheses=unique_law,
        witness=why_not_unique,
    ),
    deterministic(
        "002/lem-21",
        equal(lambda i: 1, 0),
        {"weak": weak_chains(tuple(ODD_FUNCTIONS))},
        hypotheses=unique_law,
        witness=why_not_unique,
    ),
    deterministic(
        "002/lem-7:norm",
        equal(lambda i: _frobenius(i) ** 0.5, lambda i: i["H"].shape[1] ** 2),
        {"rank one": _rank_one_chains},
        hypotheses=lambda i: i["H"].shape[1] > 1,
    ),
    deterministic(
        "002/lem-7:norm#corrected", equal(_frobenius, lambda i: i["H"].shape[1] ** 2), {"rank one": _rank_one_chains}
    ),
    asymptotic(
        "002/lem-7#intended",
        equal(
            Sampled(
                _averages_from_rank_one, _last_from_rank_one, "one layer of another chain code instead of time averages"
            ),
            1.0,
        ),
        {"tanh": _tanh_from_rank_one},
        counts=(1, 2),
    ),
    deterministic("002/lem-21#intended", vanishes(_drift_of_rank_one), {"odd": _odd_rank_one}),
    deterministic("002/lem-21#corrected", vanishes(_drift_of_rank_one), {"rank one": _rank_one_chains}),
    deterministic(
        "002/lem-21:rank",
        at_most(lambda i: _rank_change(i)[0], lambda i: _rank_change(i)[1]),
        {"tanh": _rank_one_steps("tanh")},
        exact=_rank_change,
    ),
    deterministic(
        "002/lem-21:rank#corrected",
        at_most(lambda i: _rank_change(i)[0], lambda i: _rank_change(i)[1]),
        {"linear": _rank_one_steps("identity")},
    ),
)
