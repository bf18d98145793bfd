"""Warnings: which signs of trouble are strong enough, said once each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from isometer.doctor.watch._course import RunCourse
from isometer.doctor.watch._limits import LIMITS
from isometer.doctor.watch._observation import StepReading
from isometer.doctor.watch._rules import RULES


@dataclass(frozen=True)
class TrainingWarning:
    """A sign that a training run is failing.

    Attributes:
        step: at which it was seen.
        id: which sign.
        layers: names of the modules or parameters where it is strongest; none if it is about all of them.
        reason: what was measured, and what it leads to.
        advice: what to do.
        score: how strong it is; the limit is in `isometer.doctor.watch._limits`.

    Example:
        >>> print(TrainingWarning(200, "dead-units", ("3",), "half are dead; they stay so.", "lower the rate", 0.5))
        step 200: dead-units in 3: half are dead; they stay so. To do: lower the rate.
    """

    step: int
    id: str
    layers: tuple[str, ...]
    reason: str
    advice: str
    score: float

    def __str__(self) -> str:
        where = f" in {', '.join(self.layers)}" if self.layers else ""
        return f"step {self.step}: {self.id}{where}: {self.reason} To do: {self.advice}."

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {**asdict(self), "layers": list(self.layers)}


class SignWatch:
    """Scores every observation and warns when one reaches its limit; a sign is told again when it has gone and come.

    Example:
        >>> SignWatch().look([StepReading(1)])
        ({}, [])
    """

    def __init__(self, limits: Mapping[str, float] = LIMITS) -> None:
        self._limits = limits
        self._raised: set[str] = set()

    def look(
        self,
        observations: Sequence[StepReading],
        parameters: Sequence[str] = (),
        matrices: Sequence[bool] | None = None,
    ) -> tuple[dict[str, float], list[TrainingWarning]]:
        """Scores of the last observation by rule, and what there is to say."""
        course = RunCourse.of(observations, parameters, matrices)
        scores: dict[str, float] = {}
        found = []
        for rule in RULES if course is not None else ():
            assert course is not None
            score = rule.score(course)
            scores[f"score_{rule.id.replace('-', '_')}"] = score.value
            high = not math.isnan(score.value) and score.value >= self._limits[rule.id]
            if high and rule.id not in self._raised:
                reason = f"{score.reason}; {rule.meaning}."
                found.append(
                    TrainingWarning(
                        observations[-1].step, rule.id, score.places, reason, rule.advice, float(score.value)
                    )
                )
            if high:
                self._raised.add(rule.id)
            else:
                self._raised.discard(rule.id)
        return scores, found

    def state(self) -> list[str]:
        return sorted(self._raised)

    def restore(self, state: Sequence[str]) -> None:
        self._raised = set(state)
