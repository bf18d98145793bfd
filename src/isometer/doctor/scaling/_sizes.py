"""The user's factory: called for a width and a depth, and what comes of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isometer.checks import WIDEST, whole_number
from isometer.doctor.probe._world import World
from isometer.doctor.stress._optimizers import CLASSES
from isometer.errors import IsometerError, unknown_name

Factory = Callable[..., Any]
WIDTHS, DEPTHS = (64, 128, 256), (2, 4, 8)
"""Sizes where none are given."""


@dataclass(frozen=True, order=True)
class Size:
    """A width and a depth; None where the factory does not take one."""

    width: int | None
    depth: int | None

    def words(self) -> str:
        """For people.

        Example:
            >>> Size(64, None).words(), Size(64, 2).words()
            ('width 64', 'width 64, depth 2')
        """
        named = (("width", self.width), ("depth", self.depth))
        return ", ".join(f"{name} {value}" for name, value in named if value is not None)


@dataclass(frozen=True, eq=False)
class Built:
    """What a factory gave for one size and seed."""

    model: nn.Module
    optimizer: torch.optim.Optimizer | None = None
    groups: list[dict[str, Any]] | None = None
    batch: Any = None
    target: Any = None


def sizes_of(widths: Sequence[int] | None, depths: Sequence[int] | None) -> tuple[list[Size], list[Size]]:
    """The series over widths, at the smallest depth, and the series over depths, at the middle width.

    Raises:
        IsometerError: there is no series of at least two different positive sizes, or one is not whole.

    Example:
        >>> [len(series) for series in sizes_of([64, 128, 256], [2, 4])]
        [3, 2]
        >>> sizes_of([64, 128], None)[0]
        [Size(width=64, depth=None), Size(width=128, depth=None)]
    """
    wide, deep = _checked(widths, "widths", "[64, 128, 256]"), _checked(depths, "depths", "[2, 4, 8]")
    if len(wide) < 2 and len(deep) < 2:
        raise IsometerError(
            f"widths are {list(wide)} and depths {list(deep)}; expected at least two different widths or depths — pass "
            "widths=[64, 128, 256] or depths=[2, 4, 8]"
        )
    depth = deep[0] if deep else None
    width = wide[len(wide) // 2] if wide else None
    over_widths = [Size(one, depth) for one in wide] if len(wide) > 1 else []
    over_depths = [Size(width, one) for one in deep] if len(deep) > 1 else []
    return over_widths, over_depths


def taken(
    factory: Factory, widths: Sequence[int] | None, depths: Sequence[int] | None
) -> tuple[Sequence[int], Sequence[int]]:
    """Widths and depths; where none are given, the usual ones of what the factory takes.

    Example:
        >>> taken(lambda width: nn.Linear(2, width), None, None)
        ((64, 128, 256), ())
    """
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (ValueError, TypeError):
        return WIDTHS if widths is None else widths, DEPTHS if depths is None else depths
    names = {one.name for one in parameters}
    any_name = any(one.kind is one.VAR_KEYWORD for one in parameters)

    def chosen(name: str, values: Sequence[int] | None, usual: Sequence[int]) -> Sequence[int]:
        if values is not None:
            return values
        return usual if any_name or name in names else ()

    wide, deep = chosen("width", widths, WIDTHS), chosen("depth", depths, DEPTHS)
    if not len(wide) and not len(deep) and widths is None and depths is None:
        raise IsometerError(
            f"the factory takes {', '.join(sorted(names)) or 'nothing'}; expected width, depth or both — write "
            "def make(width, depth): …"
        )
    return wide, deep


def _checked(values: Sequence[int] | None, name: str, example: str) -> list[int]:
    found = [] if values is None else list(values)
    return sorted({whole_number(one, f"one of {name}", high=WIDEST, fix=f"pass {name}={example}") for one in found})


def build(factory: Factory, size: Size, seed: int) -> Built:
    """Call the factory, with seeded generators that are left as they were.

    Raises:
        IsometerError: it does not take the arguments, or does not give a model.

    Example:
        >>> build(lambda width: nn.Linear(2, width), Size(3, None), 0).model.out_features
        3
    """
    arguments = _arguments(factory, size)
    world = World()
    world.seed(seed)
    try:
        made = factory(*arguments[0], **arguments[1])
    finally:
        world.restore()
    return _parts(made)


def smallest_model(factory: Factory, widths: Sequence[int] | None, depths: Sequence[int] | None) -> nn.Module:
    """The model of the smallest width and depth, for what has to fit all of them.

    Example:
        >>> smallest_model(lambda width: nn.Linear(2, width), [8, 4], None).out_features
        4
    """
    wide, deep = taken(factory, widths, depths)
    return build(factory, Size(min(wide, default=None), min(deep, default=None)), 0).model


def _arguments(factory: Factory, size: Size) -> tuple[list[int], dict[str, int]]:
    given = {name: value for name, value in (("width", size.width), ("depth", size.depth)) if value is not None}
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (ValueError, TypeError):
        return [], given
    any_name = any(one.kind is one.VAR_KEYWORD for one in parameters)
    names = {one.name for one in parameters}
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(given) == 1 and not any_name and not set(given) & names and len(positional) >= 1:
        return [*given.values()], {}  # factory(n), whatever the argument is called
    missing = [] if any_name else [name for name in given if name not in names]
    needed = [one.name for one in parameters if one.default is one.empty and one.name not in given]
    needed = [name for name in needed if name in {one.name for one in positional}]
    if missing or needed:
        wanted = " and ".join(given)
        took = ", ".join(one.name for one in parameters) or "nothing"
        raise IsometerError(
            f"the factory takes {took}; expected {wanted} and no other required argument — write "
            f"def make({', '.join(given)}): …, or leave out the sizes that it does not take"
        )
    return [], given


def _parts(made: Any) -> Built:
    parts = made if isinstance(made, tuple) else (made,)
    if not parts or not isinstance(parts[0], nn.Module) or len(parts) > 4:
        raise IsometerError(
            f"the factory returned a {type(made).__name__}; expected a torch.nn.Module, or a tuple of it with an "
            "optimizer or parameter groups, a batch and a target"
        )
    optimizer, groups, rest = None, None, []
    for one in parts[1:]:
        if isinstance(one, torch.optim.Optimizer):
            optimizer = one
        elif isinstance(one, list) and one and all(isinstance(group, dict) and "params" in group for group in one):
            groups = one
        else:
            rest.append(one)
    return Built(parts[0], optimizer, groups, *rest[:2])


def optimizer_of(built: Built, name: Any, lr: float | None) -> tuple[Any, float | None]:
    """What the doctor's choice of optimizers takes: the user's optimizer with its groups, or what was named.

    Raises:
        IsometerError: there are two rates, or groups without a class of optimizer.
    """
    if built.optimizer is not None:
        if lr is not None:
            raise IsometerError(
                f"lr is {lr} and the factory returns an optimizer with its own rates; expected one of them — drop lr"
            )
        return built.optimizer, None
    if built.groups is None:
        return name, lr
    if isinstance(name, str):
        if name.lower() not in CLASSES:
            raise unknown_name("optimizer", name, sorted(CLASSES))
        name = CLASSES[name.lower()]
    if not (isinstance(name, type) and issubclass(name, torch.optim.Optimizer)):
        raise IsometerError("the factory returns parameter groups; expected optimizer= as a name or a class of torch")
    kind: Any = name
    settings: dict[str, Any] = {} if lr is None else {"lr": lr}
    return kind(built.groups, **settings), None
