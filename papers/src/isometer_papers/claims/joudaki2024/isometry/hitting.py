"""001, Theorem 6.1 along depth and Lemma C.14, on chains of rotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Instance
from isometer_papers.claims._families import Family, Rng, cases, drawn
from isometer_papers.claims._statements import Sampled, at_most, deterministic, equal, probability, stated, vanishes
from isometer_papers.claims.joudaki2024.isometry.draws import chain_of, chains, hitting_times, of_chain, start_gap
from isometer_papers.float_or_mpmath import Numeric, exp
from isometer_papers.simulate.rotations import RotationChain
from isometer_papers.theory.isometry import decay_time, gap_bound, hitting_bound, tail_bound
from isometer_papers.theory.isometry.hitting_times import printed_hitting_bound


def _layered(*given: tuple[int, float, int, int]) -> Family:
    """Chains (d, ρ, layers) and a layer ℓ."""
    return cases(*({"d": d, "rho": rho, "layers": layers, "layer": layer} for d, rho, layers, layer in given))


_EARLY = _layered((2, 0.9, 80, 0), (3, 0.95, 80, 1), (5, 0.9, 80, 2), (5, 0.9, 80, 10), (2, 0.999, 80, 3))


_TAILS = _layered((2, 0.5, 80, 30), (2, 0.9, 80, 79), (2, 0.3, 80, 20), (2, 0.3, 80, 10))


ANY = chains((2, 0.2, 1), (2, 0.5, 1), (2, 0.9, 80), (3, 0.95, 80), (5, 0.05, 80), (5, 0.9, 80), (5, 0.99, 80))


def _contraction(i: Instance, chain: RotationChain) -> Numeric:
    """ψ^{ℓ+1} − e^{−1/k} ψ^ℓ."""
    kept = float(np.exp(-1 / decay_time(start_gap(i), i["d"])))
    return chain.gap[:, i["layer"] + 1] - kept * chain.gap[:, i["layer"]]


def _above(i: Instance, chain: RotationChain) -> Numeric:
    return (chain.gap[:, i["layer"]] >= 1 / (16 * i["d"])).astype(float)


def _not_hit(i: Instance, chain: RotationChain) -> Numeric:
    """1 where S ≥ ℓ: the gap of layer ℓ − 1 is above 1/(16d)."""
    return (chain.gap[:, i["layer"] - 1] > 1 / (16 * i["d"])).astype(float)


def _inputs(rng: Rng, count: int) -> Iterator[Instance]:
    """Gaps of the input above 1/(16d), many just above."""
    yield {"d": 2, "gap": 0.032}
    for _ in range(count):
        d = int(rng.integers(2, 20))
        yield {"d": d, "gap": float(1 + 10.0 ** rng.uniform(-3, 2)) / (16 * d)}


def near_start(i: Instance) -> bool:
    """ψ(X_0) ≤ 1/(16d)."""
    return bool(16 * i["d"] * start_gap(i) <= 1)


def far_start(i: Instance) -> bool:
    """ψ(X_0) > 1/(16d)."""
    return not near_start(i)


_samples = drawn(lambda rng: {"S": rng.geometric(rng.uniform(0.1, 0.9), int(rng.integers(1, 20))) - 1})


def _survival(i: Instance) -> float:
    """Σ_{ℓ≥1} Pr{S ≥ ℓ} of an empirical law."""
    times = np.asarray(i["S"]).astype(int)
    return float(sum((times >= layer).mean() for layer in range(1, int(times.max()) + 1)))


def _summed_tail(i: Instance) -> Numeric:
    """16dψ₀ Σ_{ℓ=1}^{N} e^{−ℓ/k}, in blocks of equal length."""
    k = decay_time(i["gap"], i["d"]) + 0 * i["gap"]
    block = sum(exp(-layer / k) for layer in range(1, 1001))
    ratio = exp(-1000 / k)
    total, factor = 0 * k, 1 + 0 * k
    while factor > 1e-12:
        total, factor = total + factor * block, factor * ratio
    return 16 * i["d"] * i["gap"] * total


def phase(part: str, bound: Any, statistic: Any, **rest: Any) -> Claim:
    """A claim about the mean of a statistic of chains."""
    rest = {"families": {"chains": ANY}, "counts": (5, 7), "resolution": 0.5, "kind": "expectation", **rest}
    compared = at_most(Sampled(of_chain(statistic)), bound)
    return stated(rest.pop("kind"), f"001/{part}", compared, rest.pop("families"), **rest)


CLAIMS = (
    phase(
        "thm-6.1",
        lambda i: gap_bound(start_gap(i), i["d"], i["layer"]),
        lambda i, chain: chain.gap[:, i["layer"] + 1],
        families={"chains": _layered((2, 0.9, 80, 5), (3, 0.95, 80, 40), (5, 0.9, 80, 50), (2, 0.999, 80, 79))},
        counts=(3, 4),
    ),
    phase("eq-C.67-75:eq-C.75-step", 0, _contraction, families={"chains": _EARLY}, counts=(3, 5), resolution=0.5),
    phase(
        "eq-C.67-75:eq-C.75",
        lambda i: start_gap(i) * float(np.exp(-i["layer"] / decay_time(start_gap(i), i["d"]))),
        lambda i, chain: chain.gap[:, i["layer"] + 1],
        families={"chains": _layered((2, 0.9, 80, 5), (3, 0.95, 80, 40), (5, 0.9, 80, 50), (2, 0.999, 80, 79))},
        counts=(3, 4),
    ),
    phase(
        "lem-C.14",
        lambda i: printed_hitting_bound(start_gap(i), i["d"]),
        hitting_times,
        families={"chains": chains((2, 0.5, 80), (2, 0.3, 80), (3, 0.95, 80), (5, 0.9, 120), (5, 0.99, 120))},
        hypotheses=far_start,
        counts=(4, 5),
    ),
    deterministic(
        "001/lem-C.14:zero",
        vanishes(lambda i: int(hitting_times(i, chain_of(i)).max())),
        {"chains": chains((2, 0.2, 80), (5, 0.05, 80))},
        hypotheses=near_start,
        counts=(2, 2),
    ),
    phase(
        "lem-C.14:eq-C.112",
        lambda i: float(tail_bound(start_gap(i), i["d"], i["layer"])),
        _above,
        families={"chains": _TAILS},
        kind="probability",
        counts=(3, 4),
        trivial=lambda i: 1.0,
    ),
    probability(
        "001/lem-C.14:eq-C.113",
        at_most(lambda i: int(i["gap"] * 16 * i["d"] > 1), lambda i: tail_bound(i["gap"], i["d"], 1)),
        {"inputs": _inputs},
    ),
    phase(
        "lem-C.14:eq-C.113#corrected",
        lambda i: float(tail_bound(start_gap(i), i["d"], i["layer"] - 1)),
        _not_hit,
        families={"chains": _layered((2, 0.5, 80, 30), (2, 0.9, 80, 79), (2, 0.3, 80, 20), (2, 0.26, 80, 1))},
        kind="probability",
        counts=(4, 4),
        trivial=lambda i: 1.0,
    ),
    deterministic(
        "001/lem-C.14:eq-C.114",
        equal(lambda i: sum(float(s) for s in i["S"]) / len(i["S"]), _survival),
        {"samples": _samples},
        scale=1,
    ),
    deterministic(
        "001/lem-C.14:eq-C.116",
        equal(_summed_tail, lambda i: hitting_bound(i["gap"], i["d"], summed=True)),
        {"inputs": _inputs},
        tolerance=1e-7,
        counts=(20, 100),
    ),
    deterministic(
        "001/lem-C.14:eq-C.117",
        at_most(lambda i: hitting_bound(i["gap"], i["d"], summed=True), lambda i: hitting_bound(i["gap"], i["d"])),
        {"inputs": _inputs},
    ),
    deterministic(
        "001/lem-C.14:eq-C.119",
        at_most(lambda i: hitting_bound(i["gap"], i["d"]), lambda i: 512 * i["d"] ** 4 * i["gap"] ** 2),
        {"inputs": _inputs},
    ),
)
