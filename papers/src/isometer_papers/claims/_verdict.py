"""From a claim to a verdict: instances, comparison, certification."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

from isometer.run import seed_of
from isometer.serialize import json_data, json_text
from isometer_papers.claims._claim import Claim, Effort, Estimate, Instance, index_of, slack
from isometer_papers.claims._precise import certified
from isometer_papers.claims._result import Result, Verdict

LEVEL = 1e-6  # chance of calling a true statistical statement refuted
POWER = 0.99  # a statistical statement holds only if a violation of the stated size would be seen with this chance
COARSEST = 0.5  # a check that sees only violations above half of the larger side says little
COARSEST_EQUALITY = 0.3  # the same for an equality, which has no safe side
TOO_LITTLE = "no violation, but too little power"
_POINTS = 60  # kept for the picture
_STARTS, _TRIES = 4, 8  # of the adversary: descents, and random points of which the best starts one
_SIZES = frozenset({"n", "d", "N", "samples", "width"})
_CERTIFY = 25  # candidates that are tried before a violation counts as rounding


@dataclass(frozen=True)
class Observation:
    """One instance, and both sides of the statement there."""

    family: str
    instance: Instance
    estimate: Estimate
    bound: float
    trivial: float | None
    size: float

    @property
    def value(self) -> float:
        return self.estimate.value


def check(claim: Claim, *, effort: Effort = "quick", seed: int | None = None) -> Result:
    """Test one claim.

    The verdict follows from what was seen: refuted (certified in high precision, or by an independent estimator at
    confidence 1 − 1e-6) before vacuous (no instance satisfies the hypotheses and each has a witness of that, or the
    bound was never better than the trivial one) before holds; inconclusive otherwise.

    Args:
        claim: the statement.
        effort: quick or thorough.
        seed: seed of the instances; from the claim's ID by default.

    Returns:
        The result.

    Example:
        >>> claim = Claim("000/demo", "deterministic", ">=", lambda i: i["x"],
        ...               {"random": lambda rng, n: ({"x": float(x)} for x in rng.uniform(0, 2, n))},
        ...               quantity=lambda i: i["x"] ** 2)
        >>> result = check(claim)
        >>> result.verdict, result.certified_by
        ('refuted', 'mpmath, 50 digits')
    """
    start = time.perf_counter()
    rng = np.random.default_rng(seed_of(claim.id) if seed is None else seed)
    seen: list[Observation] = []
    counts: Counter[str] = Counter()
    witnesses: list[str] = []
    bare = 0  # rejected without a witness
    for family, instance in _instances(claim, effort, rng):
        if not claim.hypotheses(instance):
            counts["rejected"] += 1
            if claim.witness is None:
                bare += 1
            else:
                witnesses.append(claim.witness(instance))
            continue
        counts[family] += 1
        seen.append(_observed(claim, family, instance, rng))
    if claim.search is not None and seen:
        seen += _searched(claim, effort, rng, counts)
    judged = _judged(claim, seen, witnesses if not bare else [], rng)
    seconds = round(time.perf_counter() - start, 3)
    return _result(claim, judged, seen, counts, seconds)


def _instances(claim: Claim, effort: Effort, rng: np.random.Generator) -> Iterator[tuple[str, Instance]]:
    count = claim.counts[index_of(effort)]
    for family, generate in claim.generators.items():
        for i, instance in enumerate(generate(rng, count)):
            if i >= count:
                break
            yield family, instance


def _observed(claim: Claim, family: str, instance: Instance, rng: np.random.Generator) -> Observation:
    if claim.estimate is not None:
        estimate = claim.estimate(instance, rng)
    else:
        assert claim.quantity is not None
        estimate = Estimate(float(claim.quantity(instance)), 0.0)
    bound = float(claim.bound(instance))
    if math.isnan(estimate.value) or math.isnan(bound):
        raise ArithmeticError(f"{claim.id}: NaN at {json_data(instance, nonfinite='text')}")
    trivial = None if claim.trivial is None else float(claim.trivial(instance))
    size = max(abs(estimate.value), abs(bound)) if claim.scale is None else float(claim.scale(instance))
    return Observation(family, instance, estimate, bound, trivial, size if size > 0 else 1.0)


def _searched(claim: Claim, effort: Effort, rng: np.random.Generator, counts: Counter[str]) -> list[Observation]:
    """What an optimiser finds that wants to violate the statement, and the way there."""
    assert claim.search is not None
    search, found = claim.search, list[Observation]()

    def room(point: Any) -> float:
        instance = search.build(np.clip(point, 0.0, 1.0))
        if not claim.hypotheses(instance):
            return 10.0  # more than any room over the larger side, which is at most 2
        observation = _observed(claim, "search", instance, rng)
        found.append(observation)
        return _room(claim, observation)

    budget = search.evaluations[index_of(effort)]
    for _ in range(_STARTS):
        first = min(rng.uniform(0, 1, (_TRIES, search.dimension)), key=room)
        options = {"maxfev": budget // _STARTS - _TRIES, "xatol": 1e-10, "fatol": 1e-14}
        optimize.minimize(room, first, method="Nelder-Mead", bounds=[(0, 1)] * search.dimension, options=options)
    counts["search"] += len(found)
    return found


def _room(claim: Claim, seen: Observation) -> float:
    return float(slack(claim.relation, seen.value, seen.bound)) / seen.size + 0.0  # no minus in front of zero


@dataclass(frozen=True)
class _Judged:
    verdict: Verdict
    note: str
    worst: Observation | None = None
    certified_by: str | None = None
    power: float | None = None
    sees: float | None = None


def _judged(claim: Claim, seen: list[Observation], witnesses: list[str], rng: np.random.Generator) -> _Judged:
    if not seen:
        if witnesses:
            text = f"the hypotheses are empty: {witnesses[0]}"
            return _Judged("vacuous", text)
        return _Judged("inconclusive", "no instance that satisfies the hypotheses was generated")
    judged = _statistical(claim, seen, rng) if claim.statistical else _deterministic(claim, seen)
    if judged.verdict == "refuted":
        return judged
    if claim.trivial is not None and all(_is_trivial(claim, item) for item in seen):
        return _Judged("vacuous", "the bound is never better than what holds anyway", None, None, judged.power)
    return judged


def _is_trivial(claim: Claim, seen: Observation) -> bool:
    assert seen.trivial is not None
    if claim.relation in ("<", "<="):
        return seen.bound >= seen.trivial
    return seen.bound <= seen.trivial


def _deterministic(claim: Claim, seen: list[Observation]) -> _Judged:
    strict = claim.relation in ("<", ">")
    # equality already violates a strict statement, so that every near tie is suspect
    limit = claim.tolerance if strict else -claim.tolerance
    suspects = [item for item in seen if _room(claim, item) <= limit]
    suspects.sort(key=lambda item: _readability(item.instance))
    worst_first = sorted(suspects, key=lambda item: _room(claim, item))
    # by identity: instances hold arrays, which have no hash
    tried = {id(item): item for item in [*suspects[:_CERTIFY], *worst_first[:_CERTIFY]]}
    for item in tried.values():  # the smallest telling instances first: they can be read
        how = certified(claim, item.instance)
        if how is not None:
            return _Judged("refuted", f"violated at {len(suspects)} of {len(seen)} instances", item, how)
    if suspects and not strict:
        return _Judged("inconclusive", "a violation beyond the tolerance is not confirmed in high precision")
    return _Judged("holds", _tightness(claim, seen))


def _statistical(claim: Claim, seen: list[Observation], rng: np.random.Generator) -> _Judged:
    level = LEVEL / len(seen)  # Bonferroni: all instances together
    refuting = [item for item in seen if _excess(claim, item) > _limit(claim, item.estimate, level)]
    refuting.sort(key=lambda item: _readability(item.instance))
    for item in refuting[:_CERTIFY]:
        if claim.again is None:
            continue
        second = claim.again(item.instance, np.random.default_rng(rng.integers(1 << 62)))
        other = Observation(item.family, item.instance, second, item.bound, item.trivial, item.size)
        if _excess(claim, other) > _limit(claim, second, LEVEL):
            text = f"independent estimator ({claim.independence or 'fresh draws'}), confidence 1 − 1e-6"
            return _Judged("refuted", f"violated at {len(refuting)} of {len(seen)} instances", item, text)
    power = min(_power(claim, item, level) for item in seen)
    sees = max(_seen_violation(claim, item, level) for item in seen)
    if refuting:
        text = "a violation is not confirmed by an independent estimator"
        return _Judged("inconclusive", text, power=power, sees=sees)
    note = f"power against a violation of {claim.resolution:g} of the larger side: {power:.4g}"
    clear = claim.relation == "==" or all(-_excess(claim, i) > _limit(claim, i.estimate, level) for i in seen)
    if not clear:
        text = f"the confidence interval meets the bound; {note}"
    elif lacks_power(power, claim.resolution, claim.relation):
        text = f"{TOO_LITTLE}; {note}"
    else:
        return _Judged("holds", f"{_tightness(claim, seen)}; {note}", power=power, sees=sees)
    return _Judged("inconclusive", text, power=power, sees=sees)


def lacks_power(power: float | None, resolution: float | None, relation: str) -> bool:
    """Whether a statistical check that found no violation says little: it would have missed a telling one."""
    if power is None or resolution is None:
        return False
    return power < POWER or resolution > (COARSEST_EQUALITY if relation == "==" else COARSEST)


def _excess(claim: Claim, seen: Observation) -> float:
    """How far the estimate lies on the wrong side."""
    return -float(slack(claim.relation, seen.value, seen.bound))


def _limit(claim: Claim, estimate: Estimate, level: float) -> float:
    """Half-width of the confidence interval, plus rounding."""
    tail = level / 2 if claim.relation == "==" else level
    rounding = claim.tolerance * max(1.0, abs(estimate.value))
    return _quantile(tail, estimate.freedom) * estimate.error + rounding


def _quantile(tail: float, freedom: float) -> float:
    return float(stats.norm.isf(tail) if math.isinf(freedom) else stats.t.isf(tail, freedom))


def _power(claim: Claim, seen: Observation, level: float) -> float:
    """Chance to refute if the truth were beyond the bound by the stated part of the larger side.

    Draws that are all equal, such as ranks, have no error. They are held against a law in which that part of the draws
    is off by the whole size: the chance to miss it is that of making none of those draws.
    """
    estimate = seen.estimate
    if estimate.error == 0:
        return 1 - (1 - claim.resolution) ** estimate.draws if estimate.draws else 1.0
    shift = claim.resolution * seen.size / estimate.error
    return float(stats.norm.cdf(shift - _limit(claim, estimate, level) / estimate.error))


def _seen_violation(claim: Claim, seen: Observation, level: float) -> float:
    """The violation, relative to the scale, that is seen with the chance `POWER`."""
    estimate = seen.estimate
    if estimate.error == 0:
        return float(1 - (1 - POWER) ** (1 / estimate.draws)) if estimate.draws else 0.0
    return float(_limit(claim, estimate, level) + stats.norm.ppf(POWER) * estimate.error) / seen.size


def _readability(instance: Instance) -> tuple[bool, int]:
    """Telling instances first, short ones first among them; of equals the first that was made stays first."""
    return _degenerate(instance), len(json_text(instance, nonfinite="text"))


def _degenerate(instance: Instance) -> bool:
    """Whether there is only one sample, feature or layer unit, where two or three say more."""
    return any(
        (name in _SIZES and value == 1) or (isinstance(value, np.ndarray) and value.ndim == 2 and 1 in value.shape)
        for name, value in instance.items()
    )


def _tightness(claim: Claim, seen: list[Observation]) -> str:
    least = min(_room(claim, item) for item in seen)
    if claim.relation == "==":
        return f"largest relative difference {abs(least):.2g}"
    if least <= max(claim.tolerance, 1e-9):
        return "the bound is attained"
    if 0 < least < 1:
        return f"closest by a factor of {1 / (1 - least):.4g}"
    return f"closest by {least:.3g} of the larger side"


def _result(claim: Claim, judged: _Judged, seen: list[Observation], counts: Counter[str], seconds: float) -> Result:
    worst, counterexample = judged.worst, None
    if judged.verdict == "refuted":
        assert worst is not None
        instance = json_data(worst.instance, nonfinite="text")
        counterexample = {"instance": instance, "value": worst.value, "bound": worst.bound}
        if worst.estimate.error:
            counterexample["standard_error"] = worst.estimate.error
    ordered = sorted(seen, key=lambda item: _room(claim, item))
    step = max(1, len(ordered) // (_POINTS // 2))
    kept = [*ordered[: _POINTS // 2], *ordered[_POINTS // 2 :: step]]  # all of the tightest, the others thinned out
    return Result(
        id=claim.id,
        verdict=judged.verdict,
        kind=claim.kind,
        margin=_room(claim, worst or ordered[0]) if seen else None,
        instances=dict(counts),
        counterexample=counterexample,
        certified_by=judged.certified_by,
        note=judged.note,
        seconds=seconds,
        power=judged.power,
        resolution=claim.resolution if claim.statistical else None,
        sees=judged.sees,
        relation=claim.relation,
        points=tuple((item.family, item.value, item.bound) for item in kept[: 2 * _POINTS]),
    )
