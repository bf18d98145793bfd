"""001, §3.4: the assumption of geometric ergodicity and what is derived from it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import elementwise
from isometer_papers.claims._statements import (
    Sampled,
    above,
    asymptotic,
    at_least,
    at_most,
    deterministic,
    equal,
    probability,
    vanishes,
)
from isometer_papers.claims.joudaki2024.mean_field.chains import (
    TV_EXPONENT,
    distances_of,
    equal_samples,
    exponent_between,
    fluctuation,
    image_tv,
    mean_field_networks,
    precise_library,
    two_sample_networks,
    unique,
    why_several,
)
from isometer_papers.float_or_mpmath import Numeric, erf, log
from isometer_papers.theory.isometry.gap_steps import batch_norm_rows
from isometer_papers.theory.mean_field.total_variation import contraction, finite_tv, scale_tv
from isometer_papers.theory.mean_field.two_samples import (
    deviation_bound,
    joint_tail,
    mean_distance,
    mixing_limit,
    two_sample_condition,
    two_sample_distance,
    two_sample_tail,
)


def _squares(i: Instance, rng: Rng) -> Estimate:
    """Mean of ‖G_ℓ − G*‖² over the second half of the layers, over what the theory of fluctuations says."""
    values = distances_of(i)
    half = values.shape[1] // 2
    return Estimate.of((values[:, half:] ** 2).mean(axis=1) / fluctuation(i["phi"], i["n"], i["width"]))


def _sample_gap(i: Instance) -> Numeric:
    h, phi = i["X"], elementwise(i["phi"])
    for w in i["W"]:
        h = w @ phi(batch_norm_rows(h, True))
    return abs(h[:, 0] - h[:, 1]).sum()


def _pairs(rng: Rng, count: int) -> Iterator[Instance]:
    for x in ([1.0, 0.0], [0.0, 1.0], [3.0, -2.0]):
        yield {"x": np.array([x])}
    for _ in range(count):
        yield {"x": rng.standard_normal((1, 2)) * 10 ** rng.uniform(-3, 3)}


def _chain(p: Numeric, mu: Numeric) -> Instance:
    """A stochastic matrix with its invariant law, and another law."""
    p = p / p.sum(axis=1, keepdims=True)
    values, vectors = np.linalg.eig(p.T)
    # of the eigenvalue 1; the sign of eigenvectors is arbitrary
    invariant = np.abs(np.real(vectors[:, np.argmax(values.real)]))
    return {"P": p, "pi": invariant / invariant.sum(), "mu": mu}


def _chains(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n = int(rng.integers(2, 6))
        p = rng.dirichlet(np.full(n, float(rng.choice([0.2, 1.0, 5.0]))), n) + 1e-3
        yield _chain(p, rng.dirichlet(np.full(n, 0.5)))


def _chain_search() -> Search:
    """An adversary over chains of three states."""

    def build(point: Numeric) -> Instance:
        start = np.asarray(point[9:]) + 1e-3
        return _chain(np.asarray(point[:9]).reshape(3, 3) + 1e-3, start / start.sum())

    return Search(build, 12)


def _lemma_3_3(width: int) -> float:
    """‖G*^{-1}‖ (n²/d) ln(d/n), n = 2; the first factor does not matter."""
    return 4 / width * math.log(width / 2)


def _theorem_bound(i: Instance) -> float:
    condition = two_sample_condition(i["high"], i["low"])
    return deviation_bound(condition, 1.0, i["width"], 2, mixing_limit(i["width"]))


_layers = cases(
    *(
        {"width": width, "layers": layers, "t": t}
        for width in (2, 4, 10, 20)
        for layers in (2, 10, 1000)
        for t in (0.7, 0.3, 0.1)
    )
)


def _exact_joint(i: Instance) -> tuple[Numeric, Numeric]:
    tail = precise_library(i["t"]).mpf(two_sample_tail(i["width"], float(i["t"]), 1.0, 0.0))  # hits/2^d: no rounding
    return joint_tail(tail, i["layers"]), tail


# x′ = x/2 + N(0, 1) has a positive density everywhere, from every x.
_states = cases({"x": 8.0, "alpha": 0.01}, {"x": 20.0, "alpha": 1e-6}, {"x": 40.0, "alpha": 1e-12})


def _overlap(i: Instance) -> Numeric:
    """1 − tv of the laws of x′ from x and from −x: of N(x/2, 1) and N(−x/2, 1)."""
    return 1 - erf(i["x"] / (8 * (1 + 0 * i["x"])) ** 0.5)


def _walks(rng: Rng, count: int) -> Iterator[Instance]:
    """De Bruijn walks: k bits, of which the first is dropped and a fair one is added. After k steps all is uniform."""
    for bits in (2, 3):
        n = 2**bits
        p = np.zeros((n, n))
        for state in range(n):
            p[state, [(2 * state) % n, (2 * state) % n + 1]] = 0.5
        # all bits but the first are 0: one step later the law is as far from uniform as before
        yield {
            "P": p,
            "pi": np.full(n, 1 / n),
            "mu": np.eye(n)[[0, n // 2]].sum(axis=0) / 2,
            "alpha": {2: 0.25, 3: 0.1}[bits],
        }


def _ergodic(i: Instance) -> bool:
    """Assumption 3.1 for every state that the chain can start from."""
    law = np.eye(len(i["pi"]))
    start = [finite_tv(row, i["pi"]) for row in law]
    for layer in range(1, 30):
        law = law @ i["P"]
        for row, first in zip(law, start, strict=True):
            if finite_tv(row, i["pi"]) > (1 - i["alpha"]) ** layer * first + 1e-12:
                return False
    return True


def _targets(rng: Rng, count: int) -> Iterator[Instance]:
    """h of full column rank, and a matrix that the next layer may become; samples as columns."""
    yield {"h": np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]), "Y": np.eye(3)}
    for _ in range(count):
        n = int(rng.integers(2, 6))
        d = n + int(rng.integers(0, 4))
        yield {"h": rng.standard_normal((d, n)), "Y": rng.standard_normal((d, n))}


def _unreached(target: Numeric, h: Numeric) -> Numeric:
    """The largest distance of a row of the target from the span of the rows of h: 0 where W h can be the target."""
    frame: list[Numeric] = []
    for row in h:
        rest = _rest(_rest(row, frame), frame)
        if (rest * rest).sum() > 1e-20 * (row * row).sum():
            frame.append(rest / (rest * rest).sum() ** 0.5)
    return max((_rest(row, frame) ** 2).sum() ** 0.5 for row in target)


def _rest(row: Numeric, frame: list[Numeric]) -> Numeric:
    for one in frame:
        row = row - (row * one).sum() * one
    return row


def _many_layers(rng: Rng, count: int) -> Iterator[Instance]:
    for alpha in (0.1, 0.5, 0.01):
        for width in (1e6, 1e4):
            yield {"alpha": alpha, "d": width, "n": 10.0}
    for _ in range(count):
        n = float(rng.integers(2, 100))
        yield {
            "alpha": float(rng.uniform(0.001, 0.99)),
            "d": float(math.ceil(n * math.e * 10 ** rng.uniform(0, 6))),
            "n": n,
        }


def _first_term(i: Instance, depth: Numeric) -> Numeric:
    return (1 - i["alpha"]) ** (depth / 2)


def _second_term(i: Instance) -> Numeric:
    return i["n"] / i["d"] ** 0.5


_radii = cases(*({"d": d, "n": 10.0, "alpha": 0.5, "c": c} for c in (3.0, 10.0) for d in (1e4, 1e6)))


CLAIMS = (
    deterministic(
        "001/claim-3.tvmono",
        at_most(lambda i: finite_tv(i["mu"] @ i["P"], i["pi"] @ i["P"]), lambda i: finite_tv(i["mu"], i["pi"])),
        {"chains": _chains},
        search=_chain_search(),
    ),
    deterministic("001/ass-3.1:unique", above(_sample_gap, 0), {"equal": equal_samples}),
    deterministic(
        "001/ass-3.1:unique#corrected",
        equal(lambda i: abs(batch_norm_rows(i["x"], True)).sum() / 2, 1),
        {"pairs": _pairs},
        hypotheses=lambda i: bool(i["x"][0, 0] != i["x"][0, 1]),
    ),
    deterministic("001/claim-3.doeblin", at_least(_overlap, lambda i: i["alpha"]), {"states": _states}),
    deterministic(
        "001/claim-3.doeblin#corrected",
        above(lambda i: 1 - contraction(i["P"]), 0),
        {"chains": _chains},
        scale=1,
        search=_chain_search(),
    ),
    deterministic(
        "001/claim-3.explore:product",
        vanishes(lambda i: _unreached(i["Y"], i["h"])),
        {"targets": _targets},
        tolerance=1e-7,
    ),
    deterministic(
        "001/claim-3.explore:chain",
        vanishes(lambda i: _unreached(i["Y"], batch_norm_rows(i["h"], True))),
        {"targets": _targets},
        tolerance=1e-7,
    ),
    asymptotic(
        "001/thm-3.2",
        at_most(lambda i: mean_distance(i["width"], i["high"], i["low"]), _theorem_bound),
        {"networks": two_sample_networks},
        hypotheses=unique,
        witness=why_several,
        trivial=lambda i: two_sample_distance(1.0, i["high"], i["low"]),
    ),
    asymptotic(
        "001/thm-3.2#corrected",
        equal(Sampled(_squares), 1.0),
        mean_field_networks(
            {"phi": "relu", "n": 5, "width": 1000, "depth": 60, "runs": 80},
            {"phi": "tanh", "n": 5, "width": 1000, "depth": 60, "runs": 80},
        ),
        counts=(1, 2),
        tolerance=0.05,
        resolution=0.25,
    ),
    probability(
        "001/thm-3.2:joint",
        at_most(
            lambda i: joint_tail(two_sample_tail(i["width"], i["t"], 1.0, 0.0), i["layers"]),
            lambda i: two_sample_tail(i["width"], i["t"], 1.0, 0.0),
        ),
        {"layers": _layers},
        exact=lambda i: _exact_joint(i),
    ),
    probability(
        "001/thm-3.2:joint#corrected",
        at_most(
            lambda i: joint_tail(two_sample_tail(i["width"], i["t"], 1.0, 0.0), i["layers"]),
            lambda i: i["layers"] * two_sample_tail(i["width"], i["t"], 1.0, 0.0),
        ),
        {"layers": _layers},
    ),
    deterministic(
        "001/thm-3.2:layers",
        at_most(lambda i: _first_term(i, log(i["d"] / i["n"])), _second_term),
        {"networks": _many_layers},
    ),
    deterministic(
        "001/thm-3.2:layers#corrected",
        at_most(lambda i: _first_term(i, log(i["d"] / i["n"]) / i["alpha"]), _second_term),
        {"networks": _many_layers},
    ),
    asymptotic(
        "001/lem-3.3",
        at_most(TV_EXPONENT, lambda i: exponent_between(i, _lemma_3_3)),
        {"widths": cases({"widths": [100, 10_000]})},
        counts=(1, 1),
    ),
    asymptotic(
        "001/lem-3.3#corrected",
        equal(Sampled(lambda i, rng: image_tv(i["width"], rng)), lambda i: scale_tv(1, 2.0)),
        {"widths": cases({"width": 1_000_000}, {"width": 10_000})},
        counts=(1, 2),
        tolerance=0.003,
        resolution=0.1,
    ),
    deterministic(
        "001/eq-3.7-3.8:eq-3.7",
        at_most(
            lambda i: finite_tv(i["mu"] @ i["P"], i["pi"] @ i["P"]),
            lambda i: (1 - i["alpha"]) * finite_tv(i["mu"], i["pi"]),
        ),
        {"walks": _walks},
        hypotheses=_ergodic,
    ),
    deterministic(
        "001/eq-3.7-3.8:eq-3.7#corrected",
        at_most(
            lambda i: finite_tv(i["mu"] @ i["P"], i["pi"] @ i["P"]),
            lambda i: contraction(i["P"]) * finite_tv(i["mu"], i["pi"]),
        ),
        {"chains": _chains},
        scale=1,
        search=_chain_search(),
    ),
    deterministic(
        "001/eq-3.7-3.8:eq-3.8",
        at_least(
            lambda i: finite_tv(i["mu"] @ i["P"], i["mu"]),
            lambda i: (1 - contraction(i["P"])) * finite_tv(i["mu"], i["pi"]),
        ),
        {"chains": _chains},
        scale=1,
        search=_chain_search(),
    ),
    deterministic(
        "001/eq-3.7-3.8:radius",
        at_most(
            lambda i: i["n"] ** 2 / i["d"] * log(i["d"] / i["n"]) / i["alpha"],
            lambda i: i["c"] * i["n"] ** 2 / (i["d"] * i["alpha"]),
        ),
        {"widths": _radii},
    ),
    deterministic(
        "001/lem-B.4:any-law",
        at_most(
            lambda i: finite_tv(i["mu"] @ i["P"], i["pi"] @ i["P"]),
            lambda i: (1 - i["alpha"]) * finite_tv(i["mu"], i["pi"]),
        ),
        {"walks": _walks},
        hypotheses=_ergodic,
    ),
)
