"""The truth about a model: how much of its sound sibling's improvement over chance training reaches.

Rates are tried by successive halving: each for a few steps from one seed, the best few for longer from three seeds. If
the best rate of the first round is the smallest or the largest, further ones are tried beyond it, so that the best lies
inside. What is best after a few steps may be unstable later, or only seem best while nothing is learned yet; where
three rates are trained for longer, the neighbours of the best are among them. The loss of a run is the mean over its
last steps, each on a fresh batch before the step that uses it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import xarray
from scipy import stats

from isometer.doctor.training._loop import train
from isometer.trial._family import Blueprint
from isometer.trial._members import specimen
from isometer.trial._specimen import Specimen

Optimizer = Literal["adam", "sgd"]
RATES: Mapping[str, tuple[float, float]] = {"adam": (1.6e-3, 4.0), "sgd": (3e-2, 6.0)}
"""The middle rate of each optimizer, and the factor between neighbours; sgd has momentum 0.9."""
FIRST_ROUND, SECOND_ROUND = 40, 160
BEYOND = 6
"""Rates that may be tried beyond the five, on the side where the best is."""
BEHIND = 1.15
"""A rate above the best is clearly behind if its early score is larger by this factor."""
_SAME = 1e-4
TRAINS, SICK = 0.7, 0.3
"""A model trains from this share of its sibling's improvement on, and is sick up to that; between them it is slow."""
LEARNABLE = 0.08
"""Improvement over chance that a sibling must surely reach; otherwise nothing can be said."""


def final_score(cell: Mapping[str, Any], optimizer: str, rate: float, *, seed: int, steps: int) -> float:
    """The model of a cell, trained at one rate: mean score of its last steps, infinite if it diverged."""
    made = specimen(cell["family"], Blueprint(**cell["blueprint"]), cell["fault"], cell["severity"], seed)
    return trained_score(made, optimizer, rate, seed=seed, steps=steps)


def trained_score(made: Specimen, optimizer: str, rate: float, *, seed: int, steps: int) -> float:
    """A model as it is, trained in place at one rate: mean score of its last steps, infinite if it diverged."""
    # A batch of two or three teaches little: four times as many steps.
    steps *= 4 if made.samples < 8 else 1
    truths: list[Any] = []

    def sampler(step: int) -> Any:
        inputs, targets, truth = made.batch(seed=seed, step=step)
        truths.append(truth)
        return inputs, targets

    curve = train(
        made.model,
        sampler,
        loss=made.loss,
        optimizer=optimizer,
        learning_rate=rate,
        steps=steps,
        seed=seed,
        score=lambda output, step: made.score(output, truths.pop()),
    )
    window = max(10, steps // 8)
    return math.inf if curve.diverged else float(np.mean(curve.losses[-window:]))


def truth_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Train one model with one optimizer: `family`, `blueprint`, `fault`, `severity`, `optimizer`, `seeds`, `steps`
    of both rounds, and the number of `rates` in the second, two or three. All randomness comes from `seeds`.

    Example:
        >>> cell = {"family": "mlp-relu", "blueprint": {"task": "friedman", "width": 16, "depth": 2, "batch": 16,
        ...         "options": {"activation": "ReLU"}}, "fault": None, "severity": {}, "optimizer": "adam",
        ...         "seeds": [0, 1], "steps": [4, 8]}
        >>> found = json.loads(truth_cell(cell, 0)["record"].item())
        >>> len(found["first"]) >= 5, len(found["second"]), len(found["second"][0]["scores"])
        (True, 2, 2)
    """
    optimizer = cell["optimizer"]

    def score(rate: float, seed: int, steps: int) -> float:
        return final_score(cell, optimizer, rate, seed=seed, steps=steps)

    record = both_rounds(score, optimizer, cell)
    return xarray.Dataset({"record": json.dumps(record)})


def both_rounds(score: Callable[[float, int, int], float], optimizer: str, cell: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a model: five rates and those beyond from the first seed, the best few from all seeds.

    Args:
        score: the final score at a rate, from a seed, after so many steps.
        optimizer: which rates are tried.
        cell: `steps` of both rounds, `seeds` of weights and batches, and the number of `rates` of the second round.
    """
    (first, second), (middle, factor) = cell["steps"], RATES[optimizer]
    seeds: Sequence[int] = cell["seeds"]
    tried: dict[float, float] = {}

    def attempt(place: int) -> None:
        rate = _digits(middle * factor**place)
        tried[rate] = score(rate, seeds[0], first)

    low, high = -2, 2
    for place in range(low, high + 1):
        attempt(place)
    for _ in range(BEYOND):
        best = min(tried, key=lambda rate: (tried[rate], rate))
        if min(tried) < best < max(tried) or _flat(tried.values()):
            break
        low, high = (low - 1, high) if best == min(tried) else (low, high + 1)
        attempt(low if best == min(tried) else high)
    order = sorted(tried, key=lambda rate: (tried[rate], abs(math.log(rate / middle))))
    rounds: list[tuple[float, float, list[float]]] = []
    for rate in order[:2] if cell.get("rates", 2) == 2 else _bracket(tried, order, factor):
        # Nobody keeps what is worse than chance.
        scores = [min(1.0, score(rate, one, second)) for one in seeds]
        rounds.append((float(np.mean(scores)), rate, [round(one, 5) for one in scores]))
    return {
        "first": [{"rate": rate, "score": _rounded(tried[rate])} for rate in sorted(tried)],
        "second": [{"rate": rate, "scores": scores} for _, rate, scores in sorted(rounds)],
    }


def _bracket(tried: Mapping[float, float], order: Sequence[float], factor: float) -> list[float]:
    """The best rate, the next below it, and the next above it unless that is clearly behind; then the next best."""
    best = order[0]
    below = max((rate for rate in tried if rate < best), default=_digits(best / factor))
    above = [rate for rate in sorted(tried) if rate > best][:1]
    near = [best, below, *(rate for rate in above if tried[rate] < BEHIND * tried[best])]
    return [*near, *(rate for rate in order if rate not in near)][:3]


def _digits(rate: float) -> float:
    """Four digits, so that a rate of the grid is the same number however it was reached."""
    return float(f"{rate:.4g}")


def _flat(scores: Iterable[float]) -> bool:
    """Whether no rate makes a difference: all runs end, and they end alike."""
    known = [*scores]
    return all(map(math.isfinite, known)) and max(known) - min(known) < _SAME * min(known)


def _rounded(score: float) -> float | None:
    """For JSON: five digits, `None` for a run that diverged."""
    return float(f"{score:.5g}") if math.isfinite(score) else None


@dataclass(frozen=True)
class Verdict:
    """What training says about a model with one optimizer.

    Example:
        >>> own = {"second": [{"rate": 0.1, "scores": [0.98, 0.99, 1.0]}]}
        >>> sound = {"second": [{"rate": 0.1, "scores": [0.4, 0.41, 0.42]}]}
        >>> compare(own, sound).verdict
        'sick'

    Attributes:
        verdict: `trains`, `slow`, `sick`, or `unknown` where the sibling does not learn from every seed either.
        share: of its sibling's improvement over chance.
        low: end of the 90 % interval of the share, from the seeds of both.
        high: the other end.
        rate: the best one.
        inside: whether the best rate of the first round has tried neighbours on both sides.
    """

    verdict: Literal["trains", "slow", "sick", "unknown"]
    share: float
    low: float
    high: float
    rate: float
    inside: bool


def compare(own: Mapping[str, Any], sound: Mapping[str, Any]) -> Verdict:
    """Judge a model by its record and that of its sibling.

    A verdict is `trains` or `sick` only if the interval stays clear of the other's limit.
    """
    best = own["second"][0]
    improved = 1 - np.asarray(best["scores"])
    reference = 1 - np.asarray(sound["second"][0]["scores"])
    inside = _inside(own.get("first", []))
    certain = float(stats.t.ppf(0.95, max(1, len(reference) - 1))) * float(
        reference.std(ddof=1) if len(reference) > 1 else 0
    )
    if reference.mean() - certain / math.sqrt(len(reference)) < LEARNABLE:
        return Verdict("unknown", math.nan, math.nan, math.nan, best["rate"], inside)
    share = float(improved.mean() / reference.mean())
    # Of a ratio, by the delta method, with the degrees of freedom of the smaller sample.
    parts = [x.var(ddof=1) / len(x) if len(x) > 1 else 0.0 for x in (improved, reference)]
    spread = math.sqrt(parts[0] + share**2 * parts[1]) / reference.mean()
    half = float(stats.t.ppf(0.95, max(1, min(len(improved), len(reference)) - 1))) * float(spread)
    low, high = share - half, share + half
    verdict: Literal["trains", "slow", "sick"] = "slow"
    if share >= TRAINS and low > SICK:
        verdict = "trains"
    elif share <= SICK and high < TRAINS:
        verdict = "sick"
    return Verdict(verdict, share, low, high, best["rate"], inside)


def _inside(first: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the best rate of the first round has neighbours on both sides, or no rate makes a difference."""
    scores = {one["rate"]: math.inf if one["score"] is None else one["score"] for one in first}
    best = min(scores, key=lambda rate: (scores[rate], rate), default=None)
    return best is None or _flat(scores.values()) or min(scores) < best < max(scores)


def long_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The same model trained for longer, at given `rates`, from `seeds`, for `steps`; a cell as for `truth_cell`.

    Example:
        >>> cell = {"family": "mlp-relu", "blueprint": {"task": "friedman", "width": 16, "depth": 2, "batch": 16,
        ...         "options": {"activation": "ReLU"}}, "fault": None, "severity": {}, "optimizer": "adam",
        ...         "seeds": [0], "rates": [0.01], "steps": 12}
        >>> len(json.loads(long_cell(cell, 0)["record"].item())["second"])
        1
    """
    rounds = []
    for rate in cell["rates"]:
        scores = [
            min(1.0, final_score(cell, cell["optimizer"], rate, seed=one, steps=cell["steps"])) for one in cell["seeds"]
        ]
        rounds.append((float(np.mean(scores)), rate, [round(score, 5) for score in scores]))
    record = {"second": [{"rate": rate, "scores": scores} for _, rate, scores in sorted(rounds)]}
    return xarray.Dataset({"record": json.dumps(record)})
