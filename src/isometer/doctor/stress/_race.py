"""Many short runs of one model from one state: rates by successive halving, on one batch and on fresh ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from isometer.doctor.probe._calling import call
from isometer.doctor.probe._subject import Subject
from isometer.doctor.probe._tensor_trees import owned
from isometer.doctor.stress._material import Material
from isometer.doctor.stress._optimizers import OptimizerChoice
from isometer.doctor.stress._reference import by_the_book_
from isometer.doctor.training._loop import Stepper, train
from isometer.errors import IsometerError

Who = Literal["model", "reference", "repaired"]
On = Literal["one batch", "fresh batches"]
WHO: tuple[Who, Who] = ("model", "reference")
Change = Callable[[nn.Module], object]
_SAME = 1e-4  # of losses that do not differ


@dataclass(frozen=True)
class StressRun:
    """One short training.

    Example:
        >>> run = StressRun("adam", "model", "fresh batches", 0.1, 4, (2.0, 1.0, 0.5, 0.25), 0.75)
        >>> run.end, run.diverged
        (0.25, False)

    Attributes:
        optimizer: its name.
        who: the model, its reference, or the model with repairs.
        on: which batches.
        rate: the learning rate.
        steps: how many were requested.
        losses: before every step; a run ends at the first that is not finite.
        progress: share of the lower of chance and first loss that is gone at the end, between 0 and 1.
    """

    optimizer: str
    who: Who
    on: On
    rate: float
    steps: int
    losses: tuple[float, ...]
    progress: float

    @property
    def diverged(self) -> bool:
        """Whether a loss was not finite."""
        return not math.isfinite(self.losses[-1])

    @property
    def end(self) -> float:
        """The last losses, infinite if the run diverged."""
        return _end(self.losses, self.on)


def _end(losses: tuple[float, ...], on: On) -> float:
    """The mean of the last quarter on fresh batches, which differ, and the last loss on one batch."""
    if not math.isfinite(losses[-1]):
        return math.inf
    return float(np.mean(losses[-max(1, len(losses) // 4) :])) if on == "fresh batches" else losses[-1]


def progress(losses: tuple[float, ...], on: On, chance: float) -> float:
    """Share of the lower of chance and first loss that is gone at the end: 0 for nothing, 1 for everything.

    Args:
        losses: before every step.
        on: which batches they are of.
        chance: loss of the best constant; nan if unknown, minus infinity if lower is not better.

    Example:
        >>> progress((2.0, 1.0, 0.5, 0.25), "one batch", 1.0), progress((2.0, math.inf), "one batch", 1.0)
        (0.75, 0.0)
    """
    end = _end(losses, on)
    if not math.isfinite(end) or chance == -math.inf:
        return 0.0
    start = min(chance, losses[0]) if math.isfinite(chance) else losses[0]
    # A loss that may be negative has no natural size but the distance between chance and the start.
    size = start if start > 0 else max(abs(start), abs(losses[0] - start))
    return min(1.0, max(0.0, (start - end) / size)) if size > 0 else 0.0


def _stepping(schedule: Any) -> Any:
    """A schedule that goes by steps.

    Raises:
        IsometerError: it is something else.
    """
    if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise IsometerError(
            "schedule makes a ReduceLROnPlateau, which needs validation losses; expected one that depends only "
            "on the step — leave it out"
        )
    if not callable(getattr(schedule, "step", None)):
        raise IsometerError(
            f"schedule makes a {type(schedule).__name__}; expected a learning rate schedule of torch — pass lambda "
            "optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 10)"
        )
    return schedule


class Track:
    """Where runs are made: a model, what it is trained on, and a diary of everything that was run.

    Args:
        subject: the model.
        material: what it is trained on.
        mode: in which it runs.
        seed: seed of the reference and of dropout.
        told: called before every run.
    """

    def __init__(
        self,
        subject: Subject,
        material: Material,
        *,
        mode: str | None,
        seed: int,
        told: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.subject, self.material, self.mode, self.seed, self._told = subject, material, mode, seed, told
        self.diary: list[StressRun] = []
        self.kept: list[str] = []  # parameters that the reference takes over as they are
        self.threads = 1
        self._levels: list[float] = []

    def run(
        self,
        choice: OptimizerChoice,
        rate: float,
        steps: int,
        *,
        who: Who,
        on: On,
        own: bool = False,
        change: Change | None = None,
    ) -> StressRun:
        """Train from the start; `own` for the caller's rate, with the caller's schedule; `change` makes repairs."""
        if on == "fresh batches":
            self.material.batches.read(steps)
        self._told(f"{choice.name} at rate {rate:.2g}, {who}, {on}")
        planned: list[Any] = []

        def make(model: nn.Module, rate: float) -> Any:
            optimizer = choice.make(model, rate)
            if own and choice.schedule is not None:
                planned.append(_stepping(choice.schedule(optimizer)))
            return optimizer

        def advance(step: int) -> None:
            try:
                for one in planned:
                    one.step()
            except ValueError:  # a schedule of fewer steps, such as OneCycleLR, refuses more: the last rate stays
                planned.clear()

        def work(model: nn.Module) -> tuple[float, ...]:
            return self._train(model, make, rate, steps, on, advance)

        losses = self.subject.run(
            work, seed=self.seed, mode=self.mode, prepare=self.book if who == "reference" else change
        )
        found = StressRun(choice.name, who, on, rate, steps, losses, self.progress(losses, on))
        self.diary.append(found)
        return found

    def progress(self, losses: tuple[float, ...], on: On) -> float:
        """Progress of a run; fresh batches that are hard for a constant too do not count against it."""
        if on == "fresh batches":
            losses = tuple(loss / level for loss, level in zip(losses, self._levels_of(len(losses)), strict=False))
        return progress(losses, on, self.chance(on))

    def _levels_of(self, steps: int) -> list[float]:
        """How hard the batches of the first steps are."""
        missing = range(len(self._levels), steps)
        if missing:
            # As if the model ran: whatever a loss holds is put back.
            self._levels += self.subject.run(lambda _: [self.material.level(step) for step in missing], seed=self.seed)
        return self._levels

    def chance(self, on: On) -> float:
        """What the progress on these batches is measured against."""
        return self.material.chance if on == "fresh batches" else self.material.chance_of_one

    def _train(
        self,
        model: nn.Module,
        make: Stepper,
        rate: float,
        steps: int,
        on: On,
        after: Callable[[int], None] | None = None,
    ) -> tuple[float, ...]:
        torch.set_num_threads(self.threads)  # put back after the run, like everything else

        def pair(step: int) -> tuple[Any, Any]:
            inputs, target = self.material.batch(step if on == "fresh batches" else 0)
            return owned(inputs), target

        return train(
            model,
            pair,
            loss=self.material.loss,
            optimizer=make,
            learning_rate=rate,
            steps=steps,
            seed=self.seed,
            after=after,
        ).losses

    def steps(self, model: nn.Module, choice: OptimizerChoice, rate: float, count: int) -> None:
        """Train a model in place."""
        self._train(model, choice.make, rate, count, "fresh batches")

    def book(self, model: nn.Module) -> None:
        """Make a model its reference."""
        inputs, _ = self.material.batch(0)
        self.kept = by_the_book_(model, lambda one: call(one, owned(inputs)), seed=self.seed)

    def race(
        self,
        choice: OptimizerChoice,
        *,
        who: Who,
        on: On,
        rates: int,
        steps: int,
        beyond: int,
        change: Change | None = None,
    ) -> list[StressRun]:
        """Runs at all rates, best first; while the best rate is the smallest or the largest, up to `beyond` more.

        Fewer steps than some dozens would not do: good rates often begin with a rise of the loss.
        """
        places = range(-(rates // 2), -(-rates // 2))

        def at(place: int) -> StressRun:
            return self.run(choice, choice.at(place), steps, who=who, on=on, change=change)

        found = {p: at(p) for p in places}
        for _ in range(beyond):
            ends = [run.end for run in found.values()]
            best = min(found, key=lambda p: (found[p].end, abs(p)))
            if all(map(math.isinf, ends)):
                further = min(found) - 2  # only much smaller rates can do better
            elif min(found) < best < max(found) or max(ends) - min(ends) <= _SAME * abs(min(ends)):
                break
            else:
                further = best - 1 if best == min(found) else best + 1
            found[further] = at(further)
        return [found[p] for p in sorted(found, key=lambda p: (found[p].end, abs(p)))]

    def longer(
        self,
        choice: OptimizerChoice,
        rates: list[float],
        steps: int,
        *,
        who: Who,
        on: On,
        change: Change | None = None,
    ) -> list[StressRun]:
        """Runs at these rates, best first; earlier ones first among equals."""
        found = (self.run(choice, rate, steps, who=who, on=on, change=change) for rate in rates)
        return sorted(found, key=lambda run: run.end)
