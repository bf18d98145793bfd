"""Short trainings of a model as it is at the moment: how much of the loss goes, at the best of a few rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from isometer.doctor.causes._explanation import CauseExplanation
from isometer.doctor.probe._subject import Subject
from isometer.doctor.stress._budget import Budget
from isometer.doctor.stress._material import Batches, Material, material
from isometer.doctor.stress._optimizers import OptimizerChoice
from isometer.doctor.stress._outlook import LEARNED, Outlook
from isometer.doctor.stress._plans import Plan
from isometer.doctor.stress._race import On, StressRun, Track
from isometer.doctor.stress._stress import Stress

_MOST, _MOST_LONG = 5, 3  # runs of one model with one optimizer
_WARM = 0.25  # of the steps


@dataclass(frozen=True)
class Progress:
    """What short trainings of a model reach.

    Attributes:
        value: share of the loss of chance that is gone, at the best rate.
        rate: the best rate.
        goal: what is known to be reachable, times what is requested.
        long: the same after many steps; the short one where these were not run.
    """

    value: float
    rate: float
    goal: float
    long: float

    @property
    def enough(self) -> bool:
        """Whether the goal is reached."""
        return max(self.value, self.long) >= self.goal


class Bench:
    """Short trainings of one model while it is changed.

    Args:
        model: changed by others between runs.
        batches: what it is trained on.
        loss: as for `diagnose`.
        tested: the stress test of the model as it came: plan, rates and outlooks.
        choices: optimizers, by name.
        mode: in which the model runs.
        seed: seed of dropout and a teacher.
        budget: after which nothing new is begun.
        told: called before every run.
        explained: the search for causes: what helps there has to be seen here too.

    Attributes:
        tried: how many short trainings were run.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        loss: Callable[..., torch.Tensor] | None,
        tested: Stress,
        choices: Sequence[OptimizerChoice],
        *,
        mode: str,
        seed: int,
        budget: Budget,
        told: Callable[[str], None],
        explained: CauseExplanation | None = None,
    ) -> None:
        assert tested.plan is not None
        assert tested.cost is not None
        self._model, self._beside = model, (loss, batches[0][1])
        self._mode, self._seed, self._told = mode, seed, told
        self._plan: Plan = tested.plan
        self._threads = tested.cost.threads
        self._choices = {one.name: one for one in choices}
        searched = {} if explained is None else {explained.optimizer: explained}
        self._hints = {one.name: _hints(tested, one, searched.get(one.name)) for one in choices}
        self._ways = {one.name: _way(tested, one.name, searched.get(one.name)) for one in choices}
        self.material: Material = material(
            Subject(model, self._beside), batches, loss, samples=tested.samples, mode=mode, seed=seed
        )
        self._budget = budget
        self.tried = 0

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return self._budget.late

    def progress(self, optimizer: str, goal: float, *, last: bool = False) -> Progress:
        """Train the model as it is, at rates around those that worked before, until one reaches the goal.

        Args:
            optimizer: its name.
            goal: after which no other rate is tried.
            last: run longer where the goal is in sight and not reached.
        """
        choice, track = self._choices[optimizer], self._track()
        found: dict[float, StressRun] = {}

        def run(rate: float) -> bool:
            if rate not in found:
                found[rate] = self._run(track, choice, rate)
            return found[rate].progress >= goal

        def best() -> StressRun:
            return max(found.values(), key=lambda one: (one.progress, -one.end))

        if not any(run(rate) for rate in self._hints[optimizer]):
            most = _MOST if self._ways[optimizer].steps <= self._plan.steps else _MOST_LONG
            while len(found) < most and not self.late:
                centre = best().rate
                further = [r for r in (centre / choice.factor, centre * choice.factor) if _new(r, found)]
                if not further or run(further[0]):
                    break
        short, long = best(), best().progress
        if last and self._ways[optimizer].longer and 0.3 * goal <= long < goal and not self.late:
            long = self._run(track, choice, short.rate, self._plan.long).progress
        return Progress(short.progress, short.rate, goal, long)

    def start(self, optimizer: str) -> float:
        """Progress of the model as it came, after as many steps as are run here."""
        return self._ways[optimizer].start

    def best(self, optimizer: str) -> float:
        """What is known to be reachable in these runs."""
        return self._ways[optimizer].best

    def warmed(self, optimizer: str, rate: float) -> tuple[float, float]:
        """Progress at a rate without and with a linear warm-up over the first quarter of the steps."""
        choice, track = self._choices[optimizer], self._track()
        way = self._ways[optimizer]
        quarter = max(1, round(_WARM * way.steps))

        def schedule(optimizer: torch.optim.Optimizer) -> Any:
            return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / quarter))

        with_it = replace(choice, schedule=schedule)
        runs = [
            track.run(one, rate, way.steps, who="repaired", on=way.on, own=True)
            for one in (replace(choice, schedule=None), with_it)
        ]
        self.tried += 2
        return runs[0].progress, runs[1].progress

    def _track(self) -> Track:
        subject = Subject(self._model, self._beside)
        track = Track(subject, self.material, mode=self._mode, seed=self._seed, told=self._told)
        track.threads = self._threads
        return track

    def _run(self, track: Track, choice: OptimizerChoice, rate: float, steps: int = 0) -> StressRun:
        self.tried += 1
        way = self._ways[choice.name]
        return track.run(choice, rate, steps or way.steps, who="repaired", on=way.on)


@dataclass(frozen=True)
class _Way:
    """How a model is trained with one optimizer.

    Attributes:
        on: which batches.
        steps: of a run.
        start: progress of the model as it came.
        best: what is known to be reachable.
        longer: whether there are longer runs.
    """

    on: On
    steps: int
    start: float
    best: float
    longer: bool = False


def _way(tested: Stress, optimizer: str, explained: CauseExplanation | None = None) -> _Way:
    """Fresh batches where something can be learned from them; many steps where few teach nothing; else one batch."""
    plan, evidence = tested.plan, tested.outlooks[optimizer].evidence
    assert plan is not None
    on: On = "one batch" if math.isnan(evidence.fresh) else "fresh batches"
    if explained is not None and explained.steps > plan.steps and explained.after >= LEARNED:
        # A repair helped after so many steps, and none after fewer.
        return _Way(on, explained.steps, evidence.ability, max(evidence.best, explained.after))
    if on == "fresh batches" and evidence.best < LEARNED <= evidence.reference_fit:
        return _Way("one batch", plan.fit, evidence.fit, max(evidence.fit, evidence.reference_fit))
    runs = [run for run in tested.runs if (run.optimizer, run.who, run.on) == (optimizer, "reference", on)]
    short, long = (
        max((run.progress for run in runs if run.steps == steps), default=0.0) for steps in (plan.steps, plan.long)
    )
    if short < LEARNED <= long:
        return _Way(on, plan.long, evidence.ability, evidence.best)
    return _Way(on, plan.steps, evidence.start, evidence.best, plan.long > plan.steps)


def _hints(tested: Stress, choice: OptimizerChoice, explained: CauseExplanation | None = None) -> list[float]:
    """Rates to begin with: those at which a repair helped, the best of the reference, and the usual one."""
    helped = () if explained is None or explained.after < LEARNED else explained.rates
    runs = [run for run in tested.runs if (run.optimizer, run.who) == (choice.name, "reference")]
    best = max(runs, key=lambda run: run.progress, default=None)
    return list(dict.fromkeys([*helped, *([] if best is None else [best.rate]), choice.at(0)]))


def _new(rate: float, found: dict[float, StressRun]) -> bool:
    return not any(abs(rate - one) <= 1e-2 * one for one in found)


def own_verdict(one: Outlook) -> str:
    """The verdict at the caller's rate, where there is one."""
    return one.verdict if one.at_rate is None else one.at_rate.verdict
