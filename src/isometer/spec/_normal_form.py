"""One normal form for all spellings of a network.

What does nothing is left out, and what is written turn by turn becomes a repeat: the sequence as it is executed is
rolled up again from the left, where the run that covers most comes first. So `dense > act('relu') > dense >
act('relu')` and `repeat(dense > act('relu'), 2)` have the same normal form, and so has a schedule and the numbers it
gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from isometer.spec._activation import resolved
from isometer.spec._program import Shape, executed
from isometer.spec._steps import Act, Bias, Dropout, Join, Noise, Repeat, Residual, Scaling, Step, Upsample

_LONGEST_PERIOD = 64  # steps of a body that are looked for
_LONGEST = 20_000  # steps that are unrolled for it


def length(steps: Sequence[Step]) -> int:
    """How many steps are executed, branches included.

    Example:
        >>> length((Repeat((Act("relu"), Scaling(2.0)), 10),))
        20
    """
    total = 0
    for step in steps:
        match step:
            case Repeat():
                total += step.times * length(step.body)
            case Residual():
                total += 1 + length(step.branch)
            case Join():
                total += 1 + sum(map(length, step.branches))
            case _:
                total += 1
    return total


def normal_form(steps: Sequence[Step], shape: Shape) -> tuple[Step, ...]:
    """The normal form; beyond 20 000 steps only what does nothing is left out.

    Example:
        >>> from isometer.spec._steps import Dense
        >>> once = (Dense(4), Act("identity"), Dense(4), Scaling(1.0))
        >>> normal_form(once, Shape(4)) == normal_form((Repeat((Dense(),), 2),), Shape(4))
        True
    """
    if length(steps) > _LONGEST:
        return _without_nothing(steps)
    return rolled(_without_nothing(executed(steps, shape)[0]))


def _without_nothing(steps: Sequence[Step]) -> tuple[Step, ...]:
    found: list[Step] = []
    for step in steps:
        for one in _simplified(step):
            last = found[-1] if found else None
            match last, one:
                case Scaling(factor=float() as first), Scaling(factor=float() as second):
                    found[-1] = Scaling(first * second)
                case _:
                    found.append(one)
    return tuple(step for step in found if step != Scaling(1.0))


def _simplified(step: Step) -> tuple[Step, ...]:
    match step:
        case Act(gain=1.0) if _canonical(step.activation) == "x":
            return ()
        case Act():
            return (replace(step, activation=_canonical(step.activation)),)
        case Bias(variance=0.0) | Noise(variance=0.0) | Dropout(rate=0.0) | Scaling(factor=1.0):
            return ()
        case Upsample() if set(step.repeats) == {1}:
            return ()
        case Residual():
            branch = _without_nothing(step.branch)
            if isinstance(step.scale, float) and math.isinf(step.scale):
                return branch
            if step.scale == 0.0:
                return (Scaling(step.skip),)
            return (replace(step, branch=branch),) if branch else (step,)
        case Join():
            return (replace(step, branches=tuple(map(_without_nothing, step.branches))),)
        case Repeat():
            body = _without_nothing(step.body)
            if not body:
                return ()
            return body if step.times == 1 else (Repeat(body, step.times),)
        case _:
            return (step,)


def _canonical(text: str) -> str:
    """The expression of an activation, which all its names share."""
    phi = resolved(text)
    return text if text.startswith("import:") else str(phi.expression)


def rolled(steps: Sequence[Step]) -> tuple[Step, ...]:
    """What is written turn by turn, as repeats.

    Example:
        >>> rolled((Act("relu"), Scaling(2.0), Act("relu"), Scaling(2.0)))[0].times
        2
    """
    numbers: dict[Step, int] = {}
    tokens = [numbers.setdefault(step, len(numbers)) for step in steps]
    found: list[Step] = []
    at = 0
    while at < len(tokens):
        period, times = _longest_run(tokens, at)
        body = tuple(_rolled_inside(step) for step in steps[at : at + period])
        found.extend(body if times == 1 else (Repeat(rolled(body) if period > 1 else body, times),))
        at += period * times
    return tuple(found)


def _rolled_inside(step: Step) -> Step:
    match step:
        case Residual():
            return replace(step, branch=rolled(step.branch))
        case Join():
            return replace(step, branches=tuple(map(rolled, step.branches)))
        case _:
            return step


def _longest_run(tokens: list[int], at: int) -> tuple[int, int]:
    """(period, times) of the repetition that begins here and covers most; the shorter period where two do."""
    best, covered = (1, 1), 1
    for period in range(1, min(_LONGEST_PERIOD, (len(tokens) - at) // 2) + 1):
        body, times = tokens[at : at + period], 1
        while tokens[at + times * period : at + (times + 1) * period] == body:
            times += 1
        if times > 1 and times * period > covered:
            best, covered = (period, times), times * period
    return best
