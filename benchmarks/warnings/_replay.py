"""What the rules say of a run that was watched: scores at every observation, and the warnings at given limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.warnings._records import raw
from benchmarks.warnings._roster import HEALTHY, STEPS, WatchedRun
from benchmarks.warnings._truth import outcome
from isometer.doctor.watch._course import RunCourse
from isometer.doctor.watch._observation import StepReading
from isometer.doctor.watch._rules import RULES

LEAD = STEPS // 5
IDS = tuple(rule.id for rule in RULES)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Replay:
    """A run: its truth, and the scores at every observation."""

    run: WatchedRun
    failed: bool
    shown: int
    steps: NDArray[np.int64]
    scores: Floats  # (observation, rule)

    def raised(self, limits: Mapping[str, float]) -> list[tuple[int, str]]:
        """Steps and ids of all warnings at some limits, the first of each kind."""
        found = []
        for at, one in enumerate(IDS):
            high = np.flatnonzero(self.scores[:, at] >= limits[one])
            if high.size:
                found.append((int(self.steps[high[0]]), one))
        return sorted(found)

    def between(self, first: int, last: int) -> Floats:
        """The largest score of each rule at steps in (first, last]."""
        inside = self.scores[(self.steps > first) & (self.steps <= last)]
        filled = np.where(np.isnan(inside), -math.inf, inside)
        return filled.max(axis=0) if len(filled) else np.full(len(IDS), -math.inf)

    def false(self) -> Floats:
        """The largest scores that are no announcements: of a healthy run all, of another those before the onset."""
        return self.between(0, STEPS if self.run.way == HEALTHY else self.run.onset)

    def timely(self) -> Floats:
        """The largest scores from the onset to a fifth of the run before the loss shows the fault."""
        return self.between(self.run.onset, self.shown - LEAD)


def replayed(runs: Sequence[WatchedRun]) -> list[Replay]:
    """Replays of runs, each faulty one beside its healthy twin."""
    losses: dict[str, Any] = {}
    found = []
    for one in sorted(runs, key=lambda one: one.way != HEALTHY):
        seen = raw(one)
        losses.setdefault(one.network.name, seen["loss"])
        known = outcome(seen["loss"], losses[one.network.name])
        steps, scores = _scores(seen)
        found.append(Replay(one, known.failed, known.shown, steps, scores))
    return found


def _scores(seen: Mapping[str, Any]) -> tuple[NDArray[np.int64], Floats]:
    observations = [StepReading.from_state(state) for state in seen["observations"]]
    scores = np.full((len(observations), len(RULES)), math.nan)
    for index in range(len(observations)):
        course = RunCourse.of(observations[: index + 1], seen["parameters"], seen["matrices"])
        if course is not None:
            scores[index] = [rule.score(course).value for rule in RULES]
    return np.array([one.step for one in observations]), scores
