"""Trainings of a factory's models: what they learn, at which size, with which optimizer."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._calling import call
from isometer.doctor.probe._given import BatchReader
from isometer.doctor.probe._made_up import made_up_batch, with_offsets
from isometer.doctor.probe._subject import Subject
from isometer.doctor.probe._tensor_trees import owned
from isometer.doctor.probe._world import World
from isometer.doctor.scaling._corrected import Corrections
from isometer.doctor.scaling._measuring import Record, train_and_measure
from isometer.doctor.scaling._roles import Repeats, Roles, repeats, roles
from isometer.doctor.scaling._sizes import Built, Factory, Size, build, optimizer_of
from isometer.doctor.scaling._transfer import final_loss
from isometer.doctor.stress._material import Batches, choose_loss, is_stream, written
from isometer.doctor.stress._objectives import Loss, Teacher
from isometer.doctor.stress._optimizers import OptimizerChoice, optimizer_choices
from isometer.doctor.training._loop import train
from isometer.errors import IsometerError

Tensor = torch.Tensor
SAMPLES = 64  # of a batch that is made up
_FRESH = 64  # made-up batches before they start again
_SMALL = 1 / 64  # of the rate: at the full one a step overshoots in wide models, and exponents say little


@dataclass(frozen=True)
class LearningTask:
    """What the models of one size learn."""

    batches: Batches
    loss: Loss
    kind: str
    teacher: Teacher | None

    def pair(self, step: int) -> tuple[Any, Any]:
        """Inputs and targets of a step; models and losses may write to them."""
        inputs, target = self.batches[step]
        return owned(inputs), written(target) if self.teacher is None else self.teacher(inputs)

    def on_first(self, model: nn.Module) -> Tensor:
        """The loss on the first batch."""
        inputs, target = self.pair(0)
        return self.loss(call(model, inputs), target)


@dataclass(eq=False)
class Trainings:
    """Builds and trains the models of a factory.

    Attributes:
        factory: the user's.
        batch: the user's; None for that of the factory, or made-up inputs.
        target: the user's.
        loss: the user's; None for the usual one.
        optimizer: name, class, or function of parameters.
        lr: the user's rate.
        repeated: what deeper models have more of.
        other_width: another width than that of a size, to see which axes grow; None if the factory takes no width.
    """

    factory: Factory
    batch: Any
    target: Any
    loss: Callable[..., Tensor] | None
    optimizer: Any
    lr: float | None
    repeated: Repeats = field(default_factory=Repeats)
    other_width: Callable[[int], int] | None = None
    _tasks: dict[Size, LearningTask] = field(default_factory=dict)
    _roles: dict[Size, Roles] = field(default_factory=dict)
    _first: Built | None = None

    def find_repeats(self, shallow: Size, deep: Size) -> None:
        """Compare a shallow model with a deep one."""
        pairs = [(build(self.factory, size, 0).model, self._wider(size)) for size in (shallow, deep)]
        self.repeated = repeats(pairs[0], pairs[1])

    def _wider(self, size: Size) -> nn.Module | None:
        if self.other_width is None or size.width is None:
            return None
        return build(self.factory, Size(self.other_width(size.width), size.depth), 0).model

    def roles(self, size: Size) -> Roles:
        """The roles of the parameters at a size."""
        if size not in self._roles:
            self._roles[size] = roles(build(self.factory, size, 0).model, self._wider(size), self.repeated)
        return self._roles[size]

    def task(self, size: Size) -> LearningTask:
        """What models of a size learn: the same at every size, up to the shape of the output."""
        if size not in self._tasks:
            built = build(self.factory, size, 0)
            self._first = self._first or built
            batches = next(iter(self._tasks.values())).batches if self._tasks else self._batches(self._first)
            with _taking(size):
                chosen = choose_loss(Subject(built.model), batches[0], self.loss, mode=None, seed=0)
            self._tasks[size] = LearningTask(batches, *chosen[:3])
        return self._tasks[size]

    def _batches(self, first: Built) -> Batches:
        batch = first.batch if self.batch is None else self.batch
        target = first.target if self.batch is None and self.target is None else self.target
        reader = BatchReader(first.model)
        if batch is None:
            if target is not None:
                raise IsometerError("target was given without batch; expected both — pass batch=… too")
            return _made_up(first.model)
        inputs, target = reader.read(batch, target)
        if is_stream(inputs):
            found = Batches(inputs, reader)
            found.read(_FRESH)
            return found
        return Batches([(inputs, target)])

    def choice(self, built: Built) -> OptimizerChoice:
        """The optimizer, as a function of model and rate."""
        asked, rate = optimizer_of(built, self.optimizer, self.lr)
        return optimizer_choices(asked, rate, None, Subject(built.model))[0]

    def rate(self, size: Size) -> float:
        """The rate at which the optimizer of a size is used."""
        found = self.choice(build(self.factory, size, 0))
        return found.rate or found.middle

    def share(self, size: Size) -> float:
        """Factor of the rate in the steps that are measured, small enough for changes to be proportional to it."""
        model = build(self.factory, size, 0).model
        # In half precision small updates are rounded away.
        half = any(one.is_floating_point() and one.element_size() < 4 for one in model.parameters())
        return 1.0 if half else _SMALL

    def _made(
        self, size: Size, seed: int, factor: float, corrections: Corrections | None
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        built = build(self.factory, size, seed)
        choice = self.choice(built)
        optimizer = choice.make(built.model, (choice.rate or choice.middle) * factor)
        if corrections is not None:
            mine = self.roles(size)
            corrections.apply(built.model, mine, size)
            corrections.regroup(optimizer, built.model, corrections.rates(mine, size))
        return built.model, optimizer

    def measure(
        self, size: Size, seed: int, steps: int, metrics: Sequence[str] = (), corrections: Corrections | None = None
    ) -> Record:
        """Train on one batch and measure."""
        world = World()
        try:
            world.seed(seed)
            task = self.task(size) if steps else None
            inputs = self._inputs(size) if task is None else task.pair(0)[0]
            if steps:
                model, optimizer = self._made(size, seed, self.share(size), corrections)
            else:
                model, optimizer = build(self.factory, size, seed).model, None
            loss = None if task is None else task.on_first
            with _taking(size):
                found = train_and_measure(model, optimizer, loss, inputs, self.roles(size), steps, metrics)
            if found.losses and not math.isfinite(found.losses[0]):
                raise IsometerError(
                    f"the first loss of the model of {size.words()} is {found.losses[0]}; expected a finite one — run "
                    "isometer doctor on that size, or look at the batch"
                )
            return found
        finally:
            world.restore()

    def _inputs(self, size: Size) -> Any:
        """Inputs without a task: a model that is not trained needs nothing to learn."""
        self._first = self._first or build(self.factory, size, 0)
        if self._shared is None:
            self._shared = self._batches(self._first)
        return owned(self._shared[0][0])

    _shared: Batches | None = None

    def final(self, size: Size, seed: int, factor: float, steps: int, corrections: Corrections | None = None) -> float:
        """The loss that a short training reaches."""
        task = self.task(size)
        world = World()
        try:
            model, optimizer = self._made(size, seed, factor, corrections)
            curve = train(
                model,
                task.pair,
                loss=task.loss,
                optimizer=lambda model, rate: optimizer,
                learning_rate=0.0,
                steps=steps,
                seed=seed,
            )
        finally:
            world.restore()
        return final_loss(curve)


def _made_up(model: nn.Module) -> Batches:
    """Inputs for a model that brings none, fresh ones for every step."""
    found = [(with_offsets(made_up_batch(model, SAMPLES, seed=seed), seed=seed), None) for seed in range(_FRESH)]
    batches = Batches(found)
    batches.read(_FRESH)
    return batches


@contextlib.contextmanager
def _taking(size: Size) -> Iterator[None]:
    try:
        yield
    except IsometerError:
        raise
    except RuntimeError as problem:
        told = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise IsometerError(
            f"the model of {size.words()} fails on the batch ({told}); expected models that take the same inputs at "
            "every size — let only hidden widths and the number of blocks depend on width and depth"
        ) from problem
