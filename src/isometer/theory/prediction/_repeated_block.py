"""Where depth leads a composition that repeats a block: the state that one more turn does not change.

Two numbers per turn, the length and the cosine of exchangeable samples, are followed from the network's own input
through what stands before the block and then through more and more turns of it, so that means and skips arrive as the
network has them. The multiplier is the factor by which the last steps towards the fixed point shrink.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.spec import Norm, Repeat, Spec, Step
from isometer.spec._program import layers as layers_of
from isometer.spec._program import varies
from isometer.spec._steps import walk as every_step
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._expectations import Expectations
from isometer.theory.networks._interpreter import Passage, gradient_norms, passage
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._state import FeatureState, gaussian
from isometer.theory.networks._weights import Run
from isometer.theory.prediction._limits import FixedPointLimits, depth_scale, limits_at

Floats = NDArray[np.float64]
_TURNS = (32, 128, 400)  # tried one after the other
_BATCH_TURNS = (24, 72)  # with a norm over samples a turn costs more
_VANISHED = 1e-250  # share of the largest variance
_SETTLED = 1e-9
_ROUNDING = 1e-11  # smaller steps have no ratio
_BACK = 6  # turns at the fixed point that gradients are followed through


def block_limits(spec: Spec, gram: Floats) -> FixedPointLimits:
    """The fixed point of the block that a composition repeats most often, and rates there.

    Args:
        spec: a covered composition.
        gram: Gram matrix of its input; the mean length and the mean cosine are what is followed.

    Returns:
        `FixedPointLimits`; rates are per turn of the block, which is a layer.

    Example:
        >>> found = block_limits(Spec("input(8) > repeat(dense > act('tanh') > dense > norm('rms'), 5)"), np.eye(3))
        >>> round(found.diagonal, 12), round(found.off_diagonal, 9), round(found.local_rate, 3)
        (1.0, 0.0, 0.93)
    """
    before, block = _repeated(spec)
    if block is None:
        return _nothing("no block is repeated unchanged, so that there is no fixed point")
    if spec.shape.axes:
        return _nothing("with positions the state of a repeated block has more than two numbers; no fixed point given")
    n = len(gram)
    over_samples = any(isinstance(step, Norm) and step.over == "batch" for step in every_step((*before, block)))
    start = _start(gram, n if over_samples else 2, spec.shape.width)
    found: Passage | None = None
    steps: list[float] = []
    for turns in _BATCH_TURNS if over_samples else _TURNS:
        try:
            layers = list(layers_of((*before, replace(block, times=turns)), spec.shape))
            found = passage(layers, start, Run(Expectations()))
        except (IsometerError, np.linalg.LinAlgError) as problem:
            return _nothing(f"no fixed point: {str(problem).partition(' — ')[0]}")
        if found.diverged >= 0:
            return _nothing(f"no fixed point: variances leave the range of numbers after {found.diverged} layers")
        first = len(layers) - turns
        path = _two_numbers(found)[first:]
        if not path[-1, 0] > _VANISHED * path[:, 0].max():
            return _nothing("no fixed point: the signal vanishes")
        changes = np.abs(np.diff(path, axis=0)) / np.abs(path[-1, 0])
        steps = changes.max(axis=1).tolist()
        if steps[-1] <= _SETTLED:
            break
    assert found is not None
    place = f"of the block in layers {first + 1} to {first + block.times}"
    if steps[-1] > _SETTLED:
        return _unsettled(path, changes, place)
    growth = _gradient_growth(spec, (*before, replace(block, times=len(steps) + _BACK)), start)
    point = np.full((n, n), path[-1, 1]) + np.eye(n) * (path[-1, 0] - path[-1, 1])
    ends = limits_at(point, n, _ratio(steps), growth, f"the fixed point is that {place}")
    if over_samples:  # batches that are not exchangeable approach it, or leave it, at rates of their own
        note = f"{ends.note}, for batches of one length and one cosine; how others approach it is not known"
        return replace(ends, local_rate=None, depth_scale=None, note=note)
    return ends


def _repeated(spec: Spec) -> tuple[tuple[Step, ...], Repeat | None]:
    """The block that is repeated most often without a change from turn to turn, and the steps before it."""
    steps = spec.composition
    places = [
        (step.times, place, step)
        for place, step in enumerate(steps)
        if isinstance(step, Repeat) and step.times > 1 and not any(varies(one) for one in step.body)
    ]
    if not places:
        return (), None
    _, place, block = max(places, key=lambda one: one[:2])
    shapes = [shape for _, shape in layers_of((*steps[:place], block), spec.shape)]
    # the first turn may change the width; the others must not
    return (steps[:place], block) if len(shapes) < 2 or shapes[-1] == shapes[-2] else ((), None)


def _start(gram: Floats, count: int, width: int) -> FeatureState:
    """Exchangeable samples of the mean length and the mean cosine of a batch, a little off 0 and 1."""
    n = len(gram)
    variance = max(float(np.trace(gram)) / n, 1e-300)
    off = float(gram.sum() - np.trace(gram)) / (n * (n - 1)) if n > 1 else 0.0
    gap = min(max(1.0 - off / variance, 1e-3), 0.98)
    matrix = gap * (1.0 - np.eye(count))[None]
    return FeatureState.of(gaussian(Covariance(np.full((1, count), variance), matrix), None), Layout(count), width)


def _two_numbers(found: Passage) -> Floats:
    """G_11 and G_12 by layer, `(layers + 1, 2)`."""
    rows = []
    for state in found.states:
        second = state.second()
        variance = float(second.variances[0, 0]) * math.exp(2 * state.log_scale)
        rows.append((variance, variance * (1.0 - float(second.gaps[0, 0, -1]))))
    return np.array(rows)


def _ratio(steps: Sequence[float]) -> float:
    """The factor by which steps shrink at last; 0 if they vanish at once."""
    moving = [step for step in steps if step > _ROUNDING]
    return moving[-1] / moving[-2] if len(moving) > 1 else 0.0


def _unsettled(path: Floats, changes: Floats, place: str) -> FixedPointLimits:
    """Where lengths have no end, cosines may."""
    cosine = path[:, 1] / path[:, 0]
    moves = np.abs(np.diff(cosine))
    if moves[-1] > _SETTLED:
        rate = _ratio(changes.max(axis=1).tolist())
        note = f"no fixed point {place} is reached within {len(changes)} turns"
        return replace(_nothing(note), local_rate=rate, depth_scale=depth_scale(rate))
    way = "grow" if path[-1, 0] > path[-2, 0] else "shrink"
    note = f"no fixed point {place}: variances {way} without end, while cosines settle at {cosine[-1]:.4g}"
    rate = _ratio(moves.tolist())
    return replace(_nothing(note), local_rate=rate, depth_scale=depth_scale(rate))


def _gradient_growth(spec: Spec, steps: tuple[Step, ...], start: FeatureState) -> float | None:
    """Log of the factor of gradient norms per turn, towards the input."""
    layers = list(layers_of(steps, spec.shape))
    try:
        found = passage(layers, start, Run(Expectations(), backward=True))
        sizes = gradient_norms(found).outputs
    except (IsometerError, np.linalg.LinAlgError):
        return None
    growth = float(sizes[-1 - _BACK] - sizes[-_BACK])
    return growth if math.isfinite(growth) else None


def _nothing(note: str) -> FixedPointLimits:
    return FixedPointLimits(None, None, None, None, None, None, note)
