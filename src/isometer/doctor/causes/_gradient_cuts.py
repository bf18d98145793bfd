"""Where gradients end on their way back, and which parameters get none because of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from isometer.doctor.causes._facts import INTEGERS, ROUNDINGS
from isometer.doctor.causes._flow import FlowStep, ForwardFlow, Muting, following, reaching
from isometer.doctor.causes._suspicion import SURE, VIEWS, Suspicion, quoted

_SUMS = frozenset({"add", "sub", "rsub", "neg"})
_ARITHMETIC = VIEWS | _SUMS | {"mul", "div", "rdiv", "float", "double", "half", "bfloat16", "to", "type", "type_as"}
_PARTIAL, _BY_DESIGN = 1.5, 0.5


def gradient_cuts(flow: ForwardFlow) -> Iterator[Suspicion]:
    """Calls that end the gradient of a trained parameter: `detach`, `no_grad`, rounding.

    Args:
        flow: the graph of a forward pass.

    Yields:
        One suspicion per call; what turned gradients off is one call, however much is behind it.
    """
    used = reaching(flow.outputs, _could_pass)
    served = {step for step in reaching(flow.outputs, _passes) if step.trained}
    regions: dict[Muting, list[FlowStep]] = {}
    for step in flow.steps:
        if step not in used or step.inner or not any(one.gradient for one in step.inputs):
            continue
        if step.muted is not None:
            if step.floating and not step.gradient:
                regions.setdefault(step.muted, []).append(step)
        elif step.module is not None and step.site.file and _ends(step):
            deviation = _weight([step], served)
            if deviation:
                yield Suspicion(
                    step.module, step.op, step.site, deviation, f"Remove {quoted(step.op)}", _evidence([step], served)
                )
    for muting, steps in regions.items():
        deviation = _weight(steps, served)
        if deviation and muting.module is not None:
            yield Suspicion(
                *(muting.module, "no_grad", muting.site, deviation, f"Remove {quoted('no_grad')}"),
                *(_evidence(steps, served), "gradients on"),
            )


def _passes(step: FlowStep) -> bool:
    """Whether a gradient comes through a step."""
    return step.gradient and step.op not in ROUNDINGS


def _could_pass(step: FlowStep) -> bool:
    """Whether a gradient could come through a step if nothing ended it: no gradient comes through an index."""
    return step.floating


def _ends(step: FlowStep) -> bool:
    if step.op in ("detach", "data") or (step.op in ROUNDINGS and step.floating):
        return True
    # A cast to whole numbers is a cut where they are calculated with; as an index they have no gradient anyway.
    return step.op in INTEGERS and not step.floating and _calculated_with(step)


def _calculated_with(step: FlowStep) -> bool:
    users = following(step, lambda user: user.op in _ARITHMETIC and not user.floating)
    return bool(users) and all(user.op in _ARITHMETIC for user in users)


def _behind(steps: Sequence[FlowStep]) -> set[FlowStep]:
    behind = reaching([one for step in steps for one in step.inputs], _could_pass)
    return {one for one in behind if one.trained}


def _weight(steps: Sequence[FlowStep], served: set[FlowStep]) -> float:
    """How wrong a cut is: parameters without any gradient are sure, those with another way to get one are not."""
    behind = _behind(steps)
    lost = bool(behind - served)
    if all(_is_straight_through(step) for step in steps):
        return _BY_DESIGN if lost else 0.0  # a codebook has a loss of its own
    if lost:
        return SURE
    if not behind or not any(step.content for step in steps):
        return 0.0
    # The largest entry that is subtracted for safety, a norm to divide by: small tensors that are constants by design.
    small = all(4 * math.prod(step.shape) <= math.prod(step.source.source.shape) for step in steps if _has_two(step))
    return _BY_DESIGN if small and all(_has_two(step) for step in steps) else _PARTIAL


def _has_two(step: FlowStep) -> bool:
    return bool(step.inputs) and bool(step.source.inputs)


def _is_straight_through(step: FlowStep) -> bool:
    """Whether what is cut is added to itself uncut, as in `x + (round(x) - x).detach()`."""
    if step.op in ROUNDINGS:
        later = following(step, lambda user: user.op in _SUMS | VIEWS | {"mul", "div", "clamp"})
        return any(user.op in ("detach", "data") and _is_straight_through(user) for user in later)
    cut = reaching(step.inputs, lambda one: one.op in _SUMS)
    for user in following(step, lambda user: user.op in _SUMS):
        if user.op in _SUMS:
            whole = reaching([one for one in user.inputs if one is not step], lambda one: one.op in _SUMS)
            if any(one.gradient and one.op not in ("parameter", "constant") for one in whole & cut):
                return True
    return False


def _evidence(steps: Sequence[FlowStep], served: set[FlowStep]) -> str:
    lost = len(_behind(steps) - served)
    if not lost:
        return "some of the gradient is lost"
    return "one trained parameter gets no gradient" if lost == 1 else f"{lost} trained parameters get no gradient"
