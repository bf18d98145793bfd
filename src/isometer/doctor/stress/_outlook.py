"""From short runs to a verdict about training: one probability, fitted to models of the trial."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from isometer.serialize import json_data

TrainingVerdict = Literal["trains", "slow", "sick", "unknown"]
NOTHING, LEARNED = 0.02, 0.08
"""Progress that is none (what chance makes of the last batches), and progress from which on something was learned."""
DECIDED = (0.3, 0.7)
"""Progress and share of the reference from which on a model counts as learning without longer runs."""
_LEAST = 0.05  # of a reference, that a share is taken of
_HALF = 0.5  # of what can be reached, below which a model that learns is slow


@dataclass(frozen=True)
class Evidence:
    """Progress of the best runs, each between 0 (chance) and 1 (no loss left); nan where nothing was run.

    Example:
        >>> Evidence(0.2, 0.9, 0.4, 0.9).share
        0.5

    Attributes:
        fresh: the model on fresh batches, after the long round where there was one.
        fit: the model on one batch.
        reference_fresh: the reference on fresh batches.
        reference_fit: the reference on one batch.
        broken: whether losses are not finite at every rate, or can fall without end: nothing can be learned from them.
        early: the model after the first round, on fresh batches where there are any; nan if that was all there is.
        repaired: the reference without what is odd in the model's operations, inputs and targets; nan if nothing is.
        yardstick: a simple learner on the same fresh batches; nan where there is none.
    """

    fresh: float
    fit: float
    reference_fresh: float
    reference_fit: float
    broken: bool = False
    early: float = math.nan
    repaired: float = math.nan
    yardstick: float = math.nan

    @property
    def start(self) -> float:
        """Progress of the model in the first round."""
        return self.ability if math.isnan(self.early) else self.early

    @property
    def best(self) -> float:
        """What can be learned in as many steps: the best of model, reference, repaired reference and yardstick."""
        other = self.reference_fit if math.isnan(self.fresh) else self.reference_fresh
        known = (self.ability, other, self.repaired, self.yardstick)
        return max((value for value in known if not math.isnan(value)), default=0.0)

    @property
    def headroom(self) -> float:
        """How much more the reference learns, with what is odd repaired or without."""
        other = self.reference_fit if math.isnan(self.fresh) else self.reference_fresh
        return max((one for one in (other, self.repaired) if not math.isnan(one)), default=0.0) - self.ability

    @property
    def ability(self) -> float:
        """Progress of the model, on fresh batches where there are any."""
        return self.fit if math.isnan(self.fresh) else self.fresh

    @property
    def share(self) -> float:
        """Of what the better of model and reference reaches."""
        other = self.reference_fit if math.isnan(self.fresh) else self.reference_fresh
        return self.ability / max(other, self.ability, _LEAST)

    @property
    def decided(self) -> bool:
        """Whether the model is clearly learning and keeps up with its reference: longer runs would not change that."""
        return self.ability >= DECIDED[0] and self.share >= DECIDED[1]

    @property
    def held_back(self) -> bool:
        """Whether the model learns less than half of what its reference does without what is odd."""
        return not math.isnan(self.fresh) and self._beside(self.repaired) < math.log(_HALF)

    def keeps_up(self, reference: float, best: float) -> bool:
        """Whether the model learned, and in the end reached these shares of its reference and of what can be learned.

        Some models start late: after the first round they look like those that never learn.

        Example:
            >>> late = Evidence(0.19, 0.1, 0.27, 0.6, early=0.0, repaired=0.28, yardstick=0.39)
            >>> late.keeps_up(0.6, 0.33), late.keeps_up(0.6, 0.5)
            (True, False)
        """
        beside = max(self.ability, self.ability + self.headroom)
        return self.ability >= max(LEARNED, reference * beside, best * self.best)

    def features(self) -> tuple[float, ...]:
        """The numbers that the probability is made of, logarithms of progress and of shares: larger is better."""
        if math.isnan(self.fresh):
            return _log(self.start), _log(self.fit)
        return _log(self.start), _log(self.fresh), self._beside(self.repaired), self._beside(self.yardstick)

    def _beside(self, other: float) -> float:
        """The logarithm of the model's share of what another reaches; 0 where it reaches more, or there is none."""
        return 0.0 if math.isnan(other) else min(0.0, _log(self.ability) - _log(other))


def _log(progress: float) -> float:
    return math.log(NOTHING + progress)


@dataclass(frozen=True)
class AtRate:
    """The verdict at the caller's own rate.

    Attributes:
        rate: the rate.
        verdict: as of an `Outlook`.
        probability: as of an `Outlook`.
        progress: progress of the model at that rate.
    """

    rate: float
    verdict: TrainingVerdict
    probability: float
    progress: float


@dataclass(frozen=True)
class Outlook:
    """Whether a model trains with one optimizer.

    Example:
        >>> Outlook.unknown("adam").verdict
        'unknown'

    Attributes:
        optimizer: its name.
        verdict: `trains`, `slow`, `sick`, or `unknown` where nothing was run.
        probability: probability that it trains, given that it either trains or is sick; nan if nothing was run.
        rates: those that work: they reach half of the best one's progress in the first steps.
        best_rate: the best that was found; nan where nothing was run.
        at_rate: the verdict at the caller's rate, `None` if none was given.
        evidence: what the probability is made of.
    """

    optimizer: str
    verdict: TrainingVerdict
    probability: float
    rates: tuple[float, ...]
    best_rate: float
    at_rate: AtRate | None
    evidence: Evidence

    @classmethod
    def unknown(cls, optimizer: str) -> Outlook:
        """Where nothing was run."""
        return cls(
            optimizer,
            "unknown",
            math.nan,
            (),
            math.nan,
            None,
            Evidence(math.nan, math.nan, math.nan, math.nan),
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        found: dict[str, Any] = json_data(asdict(self), digits=4)
        return found


def outlook(
    optimizer: str,
    evidence: Evidence,
    best_rate: float,
    rates: tuple[float, ...],
    own: tuple[float, Evidence] | None = None,
) -> Outlook:
    """The verdict that evidence amounts to; `own` is the caller's rate with the evidence at it."""
    verdict, probability = judged(evidence)
    at_rate = None if own is None else _at_rate(own[0], own[1], evidence, best_rate, verdict)
    return Outlook(optimizer, verdict, probability, rates, best_rate, at_rate, evidence)


def _at_rate(rate: float, own: Evidence, best: Evidence, best_rate: float, verdict: TrainingVerdict) -> AtRate:
    """The verdict at a rate, beside the reference at that rate.

    Where another rate works, one at which less than half of that is learned is slow; if nothing at all is learned, it
    is slow below the best rate, where more steps help, and sick above it.
    """
    found, probability = judged(own)
    if verdict in ("trains", "slow"):
        if own.ability < NOTHING and own.fit < NOTHING and rate > best_rate:
            found, probability = "sick", min(probability, 1 - probability)
        elif own.ability < _HALF * best.ability:
            found = "slow"
    return AtRate(rate, found, probability, own.ability)


def judged(evidence: Evidence) -> tuple[TrainingVerdict, float]:
    """A verdict and the probability of training."""
    fit = fitted()["one batch" if math.isnan(evidence.fresh) else "fresh batches"]
    logit = fit["constant"] + sum(w * x for w, x in zip(fit["weights"], evidence.features(), strict=True))
    probability = 1 / (1 + math.exp(-max(-50.0, min(50.0, logit))))
    return verdict_at(probability, evidence, fit), probability


def verdict_at(probability: float, evidence: Evidence, limits: Mapping[str, Any]) -> TrainingVerdict:
    """What a probability of training amounts to.

    Args:
        probability: that the model trains.
        evidence: what the stress test saw.
        limits: `trains` and `sick`, probabilities from which on, and below which, a model is said to be so; `keeps_up`,
            where there is one, the two shares from which on a model that learns is not sick, however late it starts.

    Example:
        >>> seen = Evidence(0.19, 0.1, 0.27, 0.6, early=0.0)
        >>> verdict_at(0.4, seen, {"trains": 0.8, "sick": 0.7})
        'sick'
        >>> verdict_at(0.4, seen, {"trains": 0.8, "sick": 0.7, "keeps_up": (0.6, 0.33)})
        'slow'
    """
    if probability >= limits["trains"]:
        return "slow" if evidence.held_back else "trains"
    if probability >= limits["sick"] or ("keeps_up" in limits and evidence.keeps_up(*limits["keeps_up"])):
        return "slow"
    return "sick"


@cache
def fitted() -> Mapping[str, Any]:
    """The numbers that `isometer trial fit` found."""
    found: Mapping[str, Any] = json.loads(
        files("isometer.doctor.stress").joinpath("fitted.json").read_text(encoding="utf-8")
    )
    return found
