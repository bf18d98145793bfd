"""Optimizers as a stress test needs them: made anew for a copy, at any rate."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._subject import Subject
from isometer.doctor.training._loop import Stepper, stepper, trained
from isometer.errors import IsometerError, unknown_name

Optimizer = torch.optim.Optimizer
Schedule = Callable[[Optimizer], Any]

USUAL: Mapping[str, tuple[float, float]] = MappingProxyType({"adam": (1.6e-3, 4.0), "sgd": (3e-2, 6.0)})
"""The middle rate of the search, and the factor between neighbours."""
CLASSES: Mapping[str, Any] = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type) and issubclass(kind, Optimizer) and kind is not Optimizer and name != "LBFGS"
}
"""Optimizers of torch that step by the gradient, by name."""


@dataclass(frozen=True)
class OptimizerChoice:
    """One optimizer.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> choice = optimizer_choices(None, None, None, Subject(model))[0]
        >>> choice.name, choice.make(model, 0.5).param_groups[0]["lr"]
        ('adam', 0.5)

    Attributes:
        name: `adam`, `sgd`, or that of the caller's class.
        make: gives an optimizer of a model's parameters at a rate.
        middle: where the search for rates begins.
        factor: between neighbouring rates.
        rate: the caller's own, if any.
        schedule: the caller's own, if any; holds at the caller's rate.
    """

    name: str
    make: Stepper
    middle: float
    factor: float
    rate: float | None = None
    schedule: Schedule | None = None

    def rates(self, count: int) -> list[float]:
        """That many around the middle."""
        return [self.at(place - count // 2) for place in range(count)]

    def at(self, place: int) -> float:
        """The rate so many factors from the middle, to four digits."""
        return float(f"{self.middle * self.factor**place:.4g}")


def optimizer_choices(
    optimizer: Any, lr: float | None, schedule: Schedule | None, subject: Subject
) -> tuple[OptimizerChoice, ...]:
    """What the caller asks about; Adam and SGD with momentum 0.9 unless something is named.

    Args:
        optimizer: a name, a class of torch, an optimizer of the model's parameters, or a function that makes one from
            parameters.
        lr: the caller's rate.
        schedule: makes a learning rate schedule of torch from an optimizer.
        subject: the model.

    Raises:
        IsometerError: it is none of these, or the rate is not positive.
    """
    if lr is not None and not (isinstance(lr, (int, float)) and 0 < lr < float("inf")):
        raise IsometerError(f"lr is {lr!r}; expected a positive number — pass the learning rate of your optimizer")
    if schedule is not None and not callable(schedule):
        raise IsometerError(
            f"schedule is a {type(schedule).__name__}; expected a function that makes one from an optimizer — pass "
            "lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 10)"
        )
    if optimizer is None:
        if schedule is not None:
            raise IsometerError("schedule was given without optimizer; expected both — pass optimizer=… too")
        return tuple(_named(name, lr, schedule) for name in USUAL)
    found = _asked(optimizer, lr, schedule, subject)
    if schedule is not None and found.rate is None:
        raise IsometerError(f"schedule was given for {found.name} without a rate; expected both — pass lr=… too")
    return (found,)


def _asked(optimizer: Any, lr: float | None, schedule: Schedule | None, subject: Subject) -> OptimizerChoice:
    if isinstance(optimizer, str):
        return _named(optimizer.lower(), lr, schedule)
    if isinstance(optimizer, Optimizer):
        return _like(optimizer, lr, schedule, subject)
    if isinstance(optimizer, type) and issubclass(optimizer, Optimizer):
        return _of_class(optimizer, lr, schedule)
    if callable(optimizer):
        return _made(optimizer, lr, schedule)
    raise IsometerError(
        f"optimizer is a {type(optimizer).__name__}; expected a name such as 'adamw', an optimizer of torch, or a "
        "function that makes one from parameters"
    )


def _named(name: str, lr: float | None, schedule: Schedule | None) -> OptimizerChoice:
    if name in USUAL:
        return OptimizerChoice(name, stepper(name), *USUAL[name], lr, schedule)
    if name not in CLASSES:
        raise unknown_name("optimizer", name, sorted(CLASSES))
    return _of_class(CLASSES[name], lr, schedule)


def _of_class(kind: Any, lr: float | None, schedule: Schedule | None) -> OptimizerChoice:
    _steps_alone(kind)
    try:
        usual = lr or float(kind([nn.Parameter(torch.zeros(1, 1))]).defaults["lr"])
    except Exception as problem:  # a class may want anything
        raise IsometerError(
            f"optimizer is {kind.__name__}, which has no default rate ({_first_line(problem)}); expected one made from "
            f"parameters alone — pass lr=, or lambda parameters: {kind.__name__}(parameters, …)"
        ) from problem
    return OptimizerChoice(
        kind.__name__.lower(), lambda model, rate: kind(trained(model), lr=rate), usual, USUAL["adam"][1], lr, schedule
    )


def _made(
    function: Callable[[Iterable[nn.Parameter]], Optimizer], lr: float | None, schedule: Schedule | None
) -> OptimizerChoice:
    try:
        trial = function([nn.Parameter(torch.zeros(1, 1))])
    except Exception as problem:  # a function may do anything
        raise IsometerError(
            f"optimizer is a function that does not take parameters ({_first_line(problem)}); expected one that makes "
            "an optimizer from them — pass lambda parameters: torch.optim.AdamW(parameters, lr=1e-3)"
        ) from problem
    if not isinstance(trial, Optimizer):
        raise IsometerError(
            f"optimizer is a function that returns a {type(trial).__name__}; expected an optimizer of torch made from "
            "parameters — pass lambda parameters: torch.optim.AdamW(parameters, lr=1e-3)"
        )
    _steps_alone(type(trial))
    own = _own(trial)
    middle = lr or own

    def make(model: nn.Module, rate: float) -> Optimizer:
        made = function(trained(model))
        return _times(made, rate / own)

    return OptimizerChoice(type(trial).__name__.lower(), make, middle, USUAL["adam"][1], middle, schedule)


def _steps_alone(kind: type[Optimizer]) -> None:
    """Refuse an optimizer that asks for the loss again and again, such as LBFGS.

    Raises:
        IsometerError: its step needs a closure.
    """
    asked = inspect.signature(kind.step).parameters.get("closure")
    if asked is not None and asked.default is inspect.Parameter.empty:
        raise IsometerError(
            f"optimizer is {kind.__name__}, whose step evaluates the loss several times; expected one that steps by "
            "the gradient — pass optimizer='adam' or 'sgd'"
        )


def _rate(group: Mapping[str, Any]) -> float:
    """The rate of a group; before the first step of a warm-up, the one that it leads to."""
    return float(group.get("lr") or group.get("initial_lr") or 0.0)


def _own(optimizer: Optimizer) -> float:
    """The rate of an optimizer: that of the first group that has one.

    Raises:
        IsometerError: there is none.
    """
    found = next((rate for rate in map(_rate, optimizer.param_groups) if rate > 0), None)
    if found is None:
        raise IsometerError("optimizer has the rate 0; expected a positive one — pass it before a schedule sets it")
    return found


def _first_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"


def _times(optimizer: Optimizer, factor: float) -> Optimizer:
    for group in optimizer.param_groups:
        group["lr"] = float(group["lr"]) * factor
    return optimizer


def _like(optimizer: Optimizer, lr: float | None, schedule: Schedule | None, subject: Subject) -> OptimizerChoice:
    """Of the same class with the same groups; its state is not taken over."""
    _steps_alone(type(optimizer))
    own = _own(optimizer)
    middle = lr or own
    place = {id(parameter): name for name, parameter in subject.original.named_parameters(remove_duplicate=False)}
    unknown = [p for group in optimizer.param_groups for p in group["params"] if id(p) not in place]
    if unknown:
        raise IsometerError(
            f"optimizer has {len(unknown)} parameters that the model does not have; expected an optimizer of this "
            "model — make it after the model, from model.parameters()"
        )
    groups = [
        {
            # A schedule of the caller's leaves initial_lr, which another one would take for the rate.
            **{key: value for key, value in group.items() if key not in ("params", "initial_lr")},
            "lr": _rate(group),
            "params": [place[id(p)] for p in group["params"]],
        }
        for group in optimizer.param_groups
    ]

    def make(model: nn.Module, rate: float) -> Optimizer:
        found = dict(model.named_parameters(remove_duplicate=False))
        mine = [{**group, "params": [found[name] for name in group["params"]]} for group in groups]
        kind: Any = type(optimizer)
        try:
            made = kind(mine, **_accepted(optimizer))
        except TypeError as problem:
            raise IsometerError(
                f"optimizer is a {kind.__name__} that cannot be constructed again ({_first_line(problem)}); expected a "
                f"class that takes groups of parameters — pass lambda parameters: {kind.__name__}(parameters, …)"
            ) from problem
        return _times(made, rate / own)

    return OptimizerChoice(type(optimizer).__name__.lower(), make, middle, USUAL["adam"][1], middle, schedule)


def _accepted(optimizer: Optimizer) -> dict[str, Any]:
    """The defaults that the class takes as arguments."""
    names = inspect.signature(type(optimizer).__init__).parameters
    return {key: value for key, value in optimizer.defaults.items() if key in names}
