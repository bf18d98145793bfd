"""Short trainings of a model as it is at the moment: how much of the loss goes, at the best of a few rates."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._subject import Subject
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
        goal: what is known to be reachable, times what is asked for.
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
        seed: of dropout and a teacher.
        deadline: by `time.perf_counter`, after which nothing new is begun.
        told: called before every run.

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
        deadline: float,
        told: Callable[[str], None],
    ) -> None:
        assert tested.plan is not None
        assert tested.cost is not None
        self._model, self._beside = model, (loss, batches[0][1])
        self._mode, self._seed, self._told = mode, seed, told
        self._plan: Plan = tested.plan
        self._threads = tested.cost.threads
        self._choices = {one.name: one for one in choices}
        self._hints = {one.name: _hints(tested, one) for one in choices}
        self._steps = {one.name: _steps(tested, one) for one in choices}
        self.material: Material = material(
            Subject(model, self._beside), batches, loss, samples=tested.samples, mode=mode, seed=seed
        )
        self._on: On = "fresh batches" if self.material.fresh else "one batch"
        self._deadline = deadline
        self.tried = 0

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return time.perf_counter() > self._deadline

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
            most = _MOST if self._steps[optimizer] == self._plan.steps else _MOST_LONG
            while len(found) < most and not self.late:
                centre = best().rate
                further = [r for r in (centre / choice.factor, centre * choice.factor) if _new(r, found)]
                if not further or run(further[0]):
                    break
        short, long = best(), best().progress
        more = self._plan.long > self._steps[optimizer]
        if last and more and 0.3 * goal <= long < goal and not self.late:
            long = self._run(track, choice, short.rate, self._plan.long).progress
        return Progress(short.progress, short.rate, goal, long)

    def start(self, outlook: Outlook) -> float:
        """Progress of the model as it came, after as many steps as are run here."""
        short = self._steps[outlook.optimizer] == self._plan.steps
        return outlook.evidence.start if short else outlook.evidence.ability

    def warmed(self, optimizer: str, rate: float) -> tuple[float, float]:
        """Progress at a rate without and with a linear warm-up over the first quarter of the steps."""
        choice, track = self._choices[optimizer], self._track()
        steps = self._steps[optimizer]
        quarter = max(1, round(_WARM * steps))

        def schedule(optimizer: torch.optim.Optimizer) -> Any:
            return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / quarter))

        with_it = replace(choice, schedule=schedule)
        runs = [
            track.run(one, rate, steps, who="repaired", on=self._on, own=True)
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
        return track.run(choice, rate, steps or self._steps[choice.name], who="repaired", on=self._on)


def _steps(tested: Stress, choice: OptimizerChoice) -> int:
    """How many: more where the reference learns something in many steps only."""
    assert tested.plan is not None
    runs = [run for run in tested.runs if (run.optimizer, run.who) == (choice.name, "reference")]
    reached = {
        steps: max((run.progress for run in runs if run.steps == steps), default=0.0)
        for steps in (tested.plan.steps, tested.plan.long)
    }
    slow = reached[tested.plan.steps] < LEARNED <= reached[tested.plan.long]
    return tested.plan.long if slow else tested.plan.steps


def _hints(tested: Stress, choice: OptimizerChoice) -> list[float]:
    """Rates to begin with: the best of the reference, which is initialised by the book, and the usual one."""
    runs = [run for run in tested.runs if (run.optimizer, run.who) == (choice.name, "reference")]
    best = max(runs, key=lambda run: run.progress, default=None)
    return list(dict.fromkeys([*([] if best is None else [best.rate]), choice.at(0)]))


def _new(rate: float, found: dict[float, StressRun]) -> bool:
    return not any(abs(rate - one) <= 1e-2 * one for one in found)


def own_verdict(one: Outlook) -> str:
    """The verdict at the caller's rate, where there is one."""
    return one.verdict if one.at_rate is None else one.at_rate.verdict
