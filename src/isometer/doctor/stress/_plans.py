"""How much a stress test runs: as much as is worth while, or what fits the budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from isometer.doctor.probe._kept import keeping
from isometer.doctor.stress._budget import clock_of
from isometer.doctor.training._loop import trained

Tensor = torch.Tensor
_SMALL = 16  # samples: of smaller batches there are more
_MOST_TIMES = 4
_LONG = 0.02  # seconds of a step that several threads may shorten
SECOND_LOOK = 3
"""Further rates that a model runs at for long before it is called sick."""
_REPEATS, _ENOUGH = 5, 0.5  # steps that are timed, and seconds after which fewer do


@dataclass(frozen=True)
class Plan:
    """Steps of a stress test with one optimizer, for the model and again for its reference.

    Example:
        >>> PLANS[0].most > PLANS[-1].most
        True

    Attributes:
        name: `full`, or what was left out.
        rates: that the search begins with.
        steps: of each of these rates.
        fit: steps on one batch, at the two best rates.
        long: steps of another round with the two best rates, for what the first does not decide; 0 for none.
        beyond: rates that may follow where the best is at an end.
    """

    name: str
    rates: int
    steps: int
    fit: int
    long: int
    beyond: int

    def times(self, factor: int) -> Plan:
        """So many times as many steps."""
        return replace(self, steps=factor * self.steps, fit=factor * self.fit, long=factor * self.long)

    @property
    def most(self) -> int:
        """How many steps there are at most, those of both references included; rates beyond mostly end early.

        The yardstick costs little, and the search for causes takes what is left of a budget.
        """
        race = (self.rates + 1) * self.steps + 3 * self.fit
        repaired = 4 * self.steps + self.long
        return 2 * race + (3 + SECOND_LOOK) * self.long + repaired


PLANS = (
    Plan("full", 5, 40, 20, 160, 6),
    Plan("without the long runs", 5, 40, 20, 0, 6),
    Plan("half of the steps", 5, 20, 10, 0, 3),
    Plan("three rates, few steps", 3, 12, 8, 0, 2),
)


def more_for_small_batches(samples: int) -> int:
    """How many times as many steps a batch of few samples gets: what counts is how many samples are seen.

    Example:
        >>> [more_for_small_batches(n) for n in (2, 8, 32)]
        [4, 2, 1]
    """
    return min(_MOST_TIMES, max(1, _SMALL // max(1, samples)))


def plan_within(seconds: float, per_step: float, *, optimizers: int, samples: int) -> Plan | None:
    """The first plan that fits, `None` if none does.

    Example:
        >>> plan_within(60.0, 0.01, optimizers=2, samples=32).name, plan_within(60.0, 10.0, optimizers=2, samples=32)
        ('full', None)
    """
    factor = more_for_small_batches(samples)
    for plan in PLANS:
        found = plan.times(factor)
        if optimizers * found.most * per_step <= seconds:
            return found
    return None


@dataclass(frozen=True)
class Cost:
    """What one training step takes.

    Attributes:
        seconds: of work of one step.
        weights: bytes of the parameters, which are copied once.
        training: bytes of gradients and of the larger state of an optimizer (two numbers per weight, as Adam keeps).
        activations: bytes that the forward pass keeps for the backward pass.
        threads: of torch that serve it best.
    """

    seconds: float
    weights: int
    training: int
    activations: int
    threads: int


def measured(model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> Cost:
    """Run some steps without an optimizer and measure them: with one thread, and with more where one takes long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    kept = _step(model, loss)
    seconds, alone = _timed(model, loss)
    best = 1
    # Many threads on small matrices wait for each other, for long on a busy machine.
    if threads > 1 and seconds > _LONG:
        torch.set_num_threads(threads)
        _step(model, loss)
        _, together = _timed(model, loss)
        if together < alone:
            best, seconds = threads, seconds * together / alone
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    learned = sum(p.numel() * p.element_size() for p in trained(model))
    return Cost(seconds, weights, 3 * learned, kept, best)


def _timed(model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> tuple[float, float]:
    """Seconds of work of one step, and seconds on the wall: the least of a few, which other programs disturb least."""
    clock = clock_of(model)
    work: list[float] = []
    wall: list[float] = []
    while len(work) < _REPEATS and sum(wall) < _ENOUGH:
        begun, started = clock(), time.perf_counter()
        _step(model, loss)
        work.append(clock() - begun)
        wall.append(time.perf_counter() - started)
    return min(work), min(wall)


def _step(model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> int:
    """Forward and backward; bytes kept in between."""
    kept: dict[int, int] = {}
    try:
        with keeping(model) as kept:
            value = loss(model)
    except RuntimeError:  # some operations, such as torch.func.grad, bear no hooks; other problems come again
        value = loss(model)
    if value.requires_grad:
        value.backward()  # type: ignore[no-untyped-call]
    model.zero_grad()
    return sum(kept.values())
