"""A chain as a composition of steps, and back where a composition is one layer repeated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from isometer.spec._norm import Norm
from isometer.spec._program import Shape, executed
from isometer.spec._steps import Act, Bias, Dense, Repeat, Residual, Scaling, Step

if TYPE_CHECKING:
    from isometer.spec._chain import Chain

_NAMES: dict[type, str] = {Dense: "weights", Norm: "norm", Act: "activation"}


def steps_of(chain: Chain) -> tuple[Step, ...]:
    """The composition of a chain: its layer repeated, or layer by layer where widths differ.

    Example:
        >>> from isometer.spec import Spec
        >>> [type(step).__name__ for step in steps_of(Spec(width=4, depth=9, residual=0.5))[0].body]
        ['Residual', 'Act']
    """
    if not isinstance(chain.width, tuple):
        body = Repeat(_layer(chain), chain.layers)
        if chain.input_width != chain.width:
            return (replace(body, body=_with_width(body.body, chain.width)),)
        return (body,)
    assert chain.input_width is not None
    found: list[Step] = []
    shape = Shape(chain.input_width)
    for turn, width in enumerate(chain.width, start=1):
        found.extend(executed(_with_width(_layer(chain), width), shape, turn, chain.layers)[0])
        shape = Shape(width)
    return tuple(found)


def _layer(chain: Chain) -> tuple[Step, ...]:
    made: dict[str, tuple[Step, ...]] = {
        "weights": (Dense(None, chain.gain, chain.weights, chain.weight_scaling),),
        "norm": () if chain.norm is None else (chain.norm,),
        "activation": () if chain.is_linear else (Act(chain.activation, chain.activation_gain),),
    }
    if chain.bias_variance > 0:
        made["weights"] += (Bias(chain.bias_variance),)
    steps: tuple[Step, ...] = ()
    for name in chain.steps:
        if name != "residual":
            steps += made[name]
        elif chain.has_skip:
            steps = (Residual(steps, chain.residual),)
    return steps if chain.scale == 1.0 else (*steps, Scaling(chain.scale))


def _with_width(steps: Sequence[Step], width: int) -> tuple[Step, ...]:
    def one(step: Step) -> Step:
        if isinstance(step, Dense):
            return replace(step, width=width)
        return replace(step, branch=_with_width(step.branch, width)) if isinstance(step, Residual) else step

    return tuple(map(one, steps))


def chain_fields(steps: Sequence[Step], shape: Shape) -> dict[str, Any] | None:
    """The fields of the chain that these steps are, None if they are none.

    Example:
        >>> chain_fields((Repeat((Dense(), Act("tanh")), 5),), Shape(8))["depth"]
        5
        >>> chain_fields((Dense(), Act("tanh"), Dense()), Shape(8)) is None
        True
    """
    if shape.axes:
        return None
    if len(steps) == 1 and isinstance(steps[0], Repeat):
        repeat = steps[0]
        found = _layer_fields(repeat.body)
        if found is None:
            return None
        width = found.pop("dense")
        return {**found, "width": shape.width if width is None else width, "depth": repeat.times, **_input(shape)}
    return _layer_by_layer(steps, shape)


def _input(shape: Shape) -> dict[str, int]:
    return {"input_width": shape.width}


def _layer_by_layer(steps: Sequence[Step], shape: Shape) -> dict[str, Any] | None:
    """Equal runs of steps with one dense step each."""
    flat = executed(steps, shape)[0]
    count = sum(1 for step in flat if _dense_steps((step,)))
    if not count or len(flat) % count:
        return None
    size = len(flat) // count
    rows = [_layer_fields(flat[at : at + size]) for at in range(0, len(flat), size)]
    if any(row is None for row in rows):
        return None
    first = rows[0]
    assert first is not None
    scheduled = ("gain", "residual", "activation_gain", "dense")
    for row in rows:
        assert row is not None
        if {k: v for k, v in row.items() if k not in scheduled} != {
            k: v for k, v in first.items() if k not in scheduled
        }:
            return None
    columns = {name: tuple(row[name] for row in rows if row is not None) for name in scheduled}
    numbers = {name: _constant(columns[name]) for name in scheduled[:-1]}
    widths = columns["dense"]
    size_fields = {"width": widths[0], "depth": count} if len(set(widths)) == 1 else {"width": widths}
    same = {name: value for name, value in first.items() if name not in scheduled}
    return {**same, **numbers, **size_fields, **_input(shape)}


def _constant(values: tuple[float, ...]) -> float | tuple[float, ...]:
    return values[0] if len(set(values)) == 1 else values


def _dense_steps(steps: Sequence[Step]) -> list[Dense]:
    found: list[Dense] = []
    for step in steps:
        if isinstance(step, Dense):
            found.append(step)
        elif isinstance(step, Residual):
            found.extend(_dense_steps(step.branch))
    return found


def _layer_fields(body: Sequence[Step]) -> dict[str, Any] | None:
    """One layer as fields of a chain, with the width of its dense step as `dense`."""
    found: dict[str, Any] = {"activation": "identity", "norm": None, "bias_variance": 0.0, "activation_gain": 1.0}
    found |= {"residual": math.inf, "scale": 1.0}
    rest, order = list(body), list[str]()
    match rest[-1]:
        case Scaling(factor=float() | str() as factor):
            found["scale"] = factor
            rest.pop()
    match rest[:1]:
        case [Residual(skip=1.0) as residual] if _dense_steps(residual.branch):
            found["residual"] = residual.scale
            if not _read_steps(residual.branch, found, order):
                return None
            order.append("residual")
            rest.pop(0)
    if not _read_steps(rest, found, order) or "weights" not in order:
        return None
    return {**found, "order": _completed(order)}


def _read_steps(steps: Sequence[Step], found: dict[str, Any], order: list[str]) -> bool:
    """Read steps into the fields of a chain; False where a chain has no such step, or not twice."""
    before: Step | None = None
    for step in steps:
        name = _NAMES.get(type(step))
        if name in order or (name is None and not (isinstance(step, Bias) and isinstance(before, Dense))):
            return False
        match step:
            case Dense():
                found |= {"gain": step.gain, "weights": step.weights, "dense": step.width}
                found["weight_scaling"] = step.weight_scaling
            case Bias():
                found["bias_variance"] = step.variance
            case Norm():
                found["norm"] = step
            case Act():
                found |= {"activation": step.activation, "activation_gain": step.gain}
        if name is not None:
            order.append(name)
        before = step
    return True


def _completed(order: list[str]) -> tuple[str, ...]:
    """The order with the steps that are not there in their usual place."""
    if "activation" not in order:
        order = [*order, "activation"]
    if "norm" not in order:
        order.insert(order.index("activation"), "norm")
    return tuple(order)
