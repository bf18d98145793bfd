"""A composition as it is executed: schedules as numbers, widths and positions known, repeats unrolled, in layers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import mul
from typing import Any

from isometer.checks import WIDEST
from isometer.spec._checks import SpecError
from isometer.spec._norm import Norm
from isometer.spec._schedule import PowerLaw, Schedule
from isometer.spec._steps import (
    Attention,
    Convolution,
    Dense,
    Flatten,
    Join,
    Pool,
    Repeat,
    Residual,
    Scaling,
    Step,
    Upsample,
    has_weights,
    parts,
)

_SCHEDULES = ("gain", "scale", "skip", "factor", "qk_gain", "value_gain", "output_gain")


@dataclass(frozen=True)
class Shape:
    """What one sample has at a place of the network: features, and the sizes of its axes of positions.

    Example:
        >>> Shape(3, (32, 32)).positions
        1024
    """

    width: int
    axes: tuple[int, ...] = ()

    @property
    def positions(self) -> int:
        """The number of positions; 1 without axes."""
        return math.prod(self.axes)


def value_at(value: Schedule, turn: int, turns: int, name: str) -> float:
    """A schedule as a number.

    Example:
        >>> value_at(PowerLaw(layer=-1.0), 4, 10, "gain")
        0.25
    """
    if isinstance(value, PowerLaw):
        return value.at(turn, turns)
    if isinstance(value, tuple):
        if len(value) != turns:
            raise SpecError(f"{name} has {len(value)} numbers; expected {turns}, one per repetition — or pass one")
        return value[turn - 1]
    return value


def varies(step: Step) -> bool:
    """Whether a step, or one inside it, changes from turn to turn of the repeat around it."""
    own = any(isinstance(getattr(step, name, None), tuple | PowerLaw) for name in _SCHEDULES)
    inner = () if isinstance(step, Repeat) else parts(step)
    return own or any(varies(one) for steps in inner for one in steps)


def executed(steps: Sequence[Step], shape: Shape, turn: int = 1, turns: int = 1) -> tuple[tuple[Step, ...], Shape]:
    """The steps with numbers in place of schedules and of widths, repeats unrolled; and the shape of what leaves.

    Example:
        >>> from isometer.spec._steps import Act
        >>> found, shape = executed((Repeat((Dense(8), Act("tanh", PowerLaw(layer=-1.0))), 2),), Shape(3))
        >>> [step.width if isinstance(step, Dense) else step.gain for step in found], shape.width
        ([8, 1.0, 8, 0.5], 8)
    """
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Repeat):
            for inner, after in turns_of(step, shape):
                found.extend(inner)
                shape = after
        else:
            one, shape = _executed_step(step, shape, turn, turns)
            found.append(one)
    return tuple(found), shape


def turns_of(step: Repeat, shape: Shape) -> Iterator[tuple[tuple[Step, ...], Shape]]:
    """The turns of a repeat: what is executed, and the shape after it."""
    steady: tuple[tuple[Step, ...], Shape] | None = None
    fixed = not any(varies(one) for one in step.body)
    for turn in range(1, step.times + 1):
        if steady is None:
            inner, after = executed(step.body, shape, turn, step.times)
            # from a turn on that keeps the shape, all are the same value
            if fixed and after == shape:
                steady = inner, after
            shape = after
            yield inner, after
        else:
            yield steady


def _executed_step(step: Step, shape: Shape, turn: int, turns: int) -> tuple[Step, Shape]:
    numbers: dict[str, Any] = {
        name: value_at(value, turn, turns, name)
        for name in _SCHEDULES
        if isinstance(value := getattr(step, name, None), tuple | PowerLaw)
    }
    match step:
        case Dense():
            width = shape.width if step.width is None else step.width
            return replace(step, width=width, **numbers), replace(shape, width=width)
        case Scaling():
            factor = 1 / math.sqrt(shape.width) if isinstance(step.factor, str) else numbers.get("factor", step.factor)
            return Scaling(factor), shape
        case Residual():
            branch, after = executed(step.branch, shape, turn, turns)
            scale = numbers.get("scale", step.scale)
            if after != shape and not math.isinf(scale):
                raise SpecError(
                    f"a residual branch adds its input to its output, but turns {_said(shape)} into {_said(after)}; "
                    "expected equal shapes — let the branch end with the width it began with"
                )
            return replace(step, branch=branch, **numbers), after
        case Join():
            return _joined(step, shape, turn, turns)
        case Convolution():
            width = shape.width if step.channels is None else step.channels
            axes = len(shape.axes)
            if not axes:
                raise SpecError(
                    "conv is used where there are no positions; expected some — begin with input(3, [32, 32])"
                )
            sizes: dict[str, Any] = {
                name: _per_axis(getattr(step, name), axes, name) for name in ("kernel", "stride", "dilation")
            }
            step = replace(step, channels=width, **sizes, **numbers)
            if shape.width % step.groups or width % step.groups:
                raise SpecError(
                    f"conv has {step.groups} groups for {shape.width} and {width} channels; expected a divisor of both"
                )
            return step, Shape(width, tuple(map(_convolved, shape.axes, *_geometry(step))))
        case Pool():
            if not shape.axes:
                raise SpecError(
                    "pool is used where there are no positions; expected some — begin with input(3, [32, 32])"
                )
            if step.size is None:
                return step, Shape(shape.width)
            size, stride = (_per_axis(v, len(shape.axes), "size") for v in (step.size, step.stride or step.size))
            windows = tuple((axis - k) // s + 1 for axis, k, s in zip(shape.axes, size, stride, strict=True))
            if min(windows) < 1:
                raise SpecError(f"pool has windows of {size} for {shape.axes} positions; expected smaller windows")
            return replace(step, size=size, stride=stride), replace(shape, axes=windows)
        case Upsample():
            if not shape.axes:
                raise SpecError(
                    "upsample is used where there are no positions; expected some — begin with input(3, [32, 32])"
                )
            repeats = _per_axis(step.repeats, len(shape.axes), "repeats")
            return Upsample(repeats), replace(shape, axes=tuple(map(mul, shape.axes, repeats)))
        case Flatten():
            width = shape.width * shape.positions
            if width > WIDEST:
                raise SpecError(f"flatten makes {width} features; expected at most {WIDEST} — pool before it")
            return step, Shape(width)
        case Attention():
            if len(shape.axes) != 1:
                raise SpecError(
                    "attention is used where there is no sequence; expected one — begin with input(64, [16])"
                )
            if step.head_width is None:
                if shape.width % step.heads:
                    raise SpecError(f"width {shape.width} does not split into {step.heads} heads; expected a multiple")
                numbers["head_width"] = shape.width // step.heads
                if step.rotary and numbers["head_width"] % 2:
                    raise SpecError(
                        f"rotary positions rotate pairs of features, and heads have {numbers['head_width']}; expected "
                        "an even number — set head_width"
                    )
            return replace(step, key_heads=step.key_heads or step.heads, **numbers), shape
        case Norm() if step.over == "groups" and shape.width % step.groups:
            raise SpecError(
                f"width {shape.width} does not split into {step.groups} groups; expected a multiple — change either"
            )
        case _:
            return (replace(step, **numbers) if numbers else step), shape


def _joined(step: Join, shape: Shape, turn: int, turns: int) -> tuple[Step, Shape]:
    ran = [executed(branch, shape, turn, turns) for branch in step.branches]
    shapes = [after for _, after in ran]
    alike = {after.axes if step.by == "concat" else after for after in shapes}
    if len(alike) > 1:
        raise SpecError(
            f"the branches of {step.by} end with {', '.join(map(_said, shapes))}; expected the same — change a width"
        )
    width = sum(after.width for after in shapes) if step.by == "concat" else shapes[0].width
    return replace(step, branches=tuple(inner for inner, _ in ran)), replace(shapes[0], width=width)


def _per_axis(sizes: tuple[int, ...], axes: int, name: str) -> tuple[int, ...]:
    """One number for each axis of the positions; a single one counts for all."""
    if len(sizes) == axes:
        return sizes
    if len(sizes) > 1:
        raise SpecError(f"{name} has {len(sizes)} numbers for {axes} axes of positions; expected {axes}, or one")
    return sizes * axes


def _geometry(step: Convolution) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    return step.kernel, step.stride, step.dilation, (step.padding,) * len(step.kernel)


def _convolved(axis: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    """Positions along an axis after a convolution."""
    reach = dilation * (kernel - 1)
    left = axis - reach if padding == "valid" else axis
    if left < 1 or (padding == "reflect" and reach - reach // 2 >= axis):
        raise SpecError(f"conv reaches over {reach + 1} of {axis} positions; expected a smaller kernel or dilation")
    return (left - 1) // stride + 1


def _said(shape: Shape) -> str:
    return f"{shape.width} features" + (f" at {shape.axes} positions" if shape.axes else "")


def layers(steps: Sequence[Step], shape: Shape) -> Iterator[tuple[tuple[Step, ...], Shape]]:
    """What is executed layer by layer, each with the shape after it.

    A layer is one turn of a repeat; outside of repeats a layer begins at every step that has weights, itself or inside
    of it, and what stands before the first of them belongs to it.

    Example:
        >>> from isometer.spec._steps import Act
        >>> program = (Dense(8), Act("relu"), Repeat((Residual((Dense(), Act("relu"))),), 2), Dense(1))
        >>> [len(inner) for inner, _ in layers(program, Shape(3))]
        [2, 1, 1, 1]
    """
    pending: list[Step] = []
    weighted = False

    def flush() -> Iterator[tuple[tuple[Step, ...], Shape]]:
        nonlocal shape, pending, weighted
        if pending:
            inner, shape = executed(pending, shape)
            pending, weighted = [], False
            yield inner, shape

    for step in steps:
        if isinstance(step, Repeat) and step.times > 1:
            yield from flush()
            for inner, after in turns_of(step, shape):
                shape = after
                yield inner, after
            continue
        heavy = has_weights((step,))
        if heavy and weighted:
            yield from flush()
        pending.append(step)
        weighted = weighted or heavy
    yield from flush()
