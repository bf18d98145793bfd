"""The same network with another depth, another number, or ends of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from isometer.errors import unknown_name
from isometer.spec._chain import Chain
from isometer.spec._checks import SpecError
from isometer.spec._program import Shape, executed
from isometer.spec._reading import spec_of_steps
from isometer.spec._spec import Spec
from isometer.spec._steps import Act, Bias, Convolution, Dense, Join, Repeat, Residual, Step

NetworkNumber = Literal["gain", "gamma", "bias_variance", "activation_gain"]
"""The type of a number that all steps of a kind share: of weights, branches, biases or activations."""
NUMBERS: tuple[NetworkNumber, ...] = get_args(NetworkNumber)
_WHAT = {
    "gain": "weights whose gain",
    "gamma": "skip connection whose strength",
    "bias_variance": "bias whose variance",
    "activation_gain": "activation whose scale",
}


def with_depth(spec: Spec, depth: int) -> Spec:
    """The network at another depth: the layers of a chain, or the repetitions of its one repeat.

    Example:
        >>> print(with_depth(Spec("input(4) > dense > repeat(dense > act('relu'), 3) > dense(1)"), 5))
        input(4) > dense > repeat(dense > act('relu'), 5) > dense(1)
    """
    if isinstance(spec, Chain):
        return spec.replace(depth=depth)
    repeats = [place for place, step in enumerate(spec.composition) if isinstance(step, Repeat)]
    if len(repeats) != 1:
        raise SpecError(
            f"the network {spec} has {len(repeats)} repeats; expected one, whose repetitions are its depth — "
            "write repeat(…, times) once"
        )
    steps = [replace(step, times=depth) if isinstance(step, Repeat) else step for step in spec.composition]
    return spec_of_steps(steps, spec.shape)


def with_number(spec: Spec, name: NetworkNumber, value: float) -> Spec:
    """The network with one number set in every step that has it: the gain of all weights, the strength of all branches,
    the variance of all biases, the gain of all activations.

    Example:
        >>> print(with_number(Spec("input(4) > repeat(dense > act('relu') > norm('rms') > dense, 3)"), "gain", 1.5))
        input(4) > repeat(dense(gain=1.5) > act('relu') > norm('rms') > dense(gain=1.5), 3)
    """
    if name not in NUMBERS:
        raise unknown_name("number of a network", name, NUMBERS, error=SpecError)
    if isinstance(spec, Chain) and not (name == "gamma" and not spec.has_skip):
        return spec.replace(**{"residual" if name == "gamma" else name: value})
    changed = 0

    def edit(step: Step) -> Step:
        nonlocal changed
        match name, step:
            case "gain", Dense() | Convolution():
                changed += 1
                return replace(step, gain=value)
            case "gamma", Residual():
                changed += 1
                return replace(step, scale=value)
            case "bias_variance", Bias():
                changed += 1
                return replace(step, variance=value)
            case "activation_gain", Act():
                changed += 1
                return replace(step, gain=value)
        return step

    steps = edited(spec.composition, edit)
    if not changed:
        raise SpecError(f"the network {spec} has no {_WHAT[name]} could be set; expected one — add it")
    return spec_of_steps(steps, spec.shape)


def edited(steps: Sequence[Step], edit: Callable[[Step], Step]) -> tuple[Step, ...]:
    """Every step changed by `edit`, those inside other steps included.

    Example:
        >>> [made] = edited((Repeat((Dense(4),), 3),), lambda step: Dense(8) if isinstance(step, Dense) else step)
        >>> made.body[0].width
        8
    """

    def one(step: Step) -> Step:
        made: Any = edit(step)
        match made:
            case Repeat():
                return replace(made, body=edited(made.body, edit))
            case Residual():
                return replace(made, branch=edited(made.branch, edit))
            case Join():
                return replace(made, branches=tuple(edited(branch, edit) for branch in made.branches))
        return made  # type: ignore[no-any-return]

    return tuple(map(one, steps))


def with_ends(spec: Spec, features: int | None = None) -> Spec:
    """The network as a function: a dense input layer first and a linear readout last, where it has none.

    Args:
        spec: the network.
        features: features that enter an input layer; those of the network by default.

    Example:
        >>> print(with_ends(Spec("input(4) > repeat(residual(act('relu') > dense), 3) > norm('rms')")))
        input(4) > dense(4) > repeat(residual(act('relu') > dense), 3) > norm('rms') > dense(1)
        >>> print(with_ends(Spec("input(4) > dense > act('relu') > dense(2)")))
        input(4) > dense > act('relu') > dense(2)
        >>> print(with_ends(Spec("input(4) > repeat(residual(act('relu') > dense), 3) > norm('rms')"), 9))
        input(9) > dense(4) > repeat(residual(act('relu') > dense), 3) > norm('rms') > dense(1)
    """
    flat, shape = executed(spec.composition, spec.shape)
    if shape.axes:
        raise SpecError(
            f"the network {spec} ends with positions; expected features alone, for a readout — "
            "end it with pool or flatten"
        )
    steps: list[Step] = list(spec.composition)
    entering = spec.shape
    if not isinstance(flat[0], Dense | Convolution):
        steps.insert(0, Dense(entering.width))
        entering = Shape(features or entering.width, entering.axes)
    last = flat[-2] if isinstance(flat[-1], Bias) and len(flat) > 1 else flat[-1]
    if not isinstance(last, Dense):
        steps.append(Dense(1))
    return spec_of_steps(steps, entering)
