"""Steps that change positions without weights at infinite width: mean pooling, upsampling, flattening."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.spec import Flatten, Pool, Upsample
from isometer.theory.networks._columns import Activate
from isometer.theory.networks._convolution import mean_covariance, summed_pairs
from isometer.theory.networks._covariance import Covariance, without_mean
from isometer.theory.networks._gradient import Gradient, Squares
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._state import FeatureState, Group, NotCovered, Process, gaussian, given
from isometer.theory.networks._weights import Run, Stepped
from isometer.theory.networks._windows import Line, Places, pool_lines, summed

Floats = NDArray[np.float64]


def pool(step: Pool, state: FeatureState, run: Run) -> Stepped:
    """Means over windows of positions: linear, so that Gaussian features stay Gaussian."""
    layout = state.layout
    if layout.exchangeable:
        return _pool_exchangeable(step, state, run)
    along = pool_lines(layout.axes, step.size, step.stride)
    new = layout.at(pooled_axes(step, along))
    single = state.single
    if single is not None and single.features is not None:
        x = state.terms[0][0][..., None] * single.features + state.offset[..., None]
        process = given(pooled_features(x, layout, along), tangent=run.tangent, sources=state.keys)
    else:
        mean = _pooled_vectors(state.mean(), layout, along)
        covariance = Covariance.of_gram(_pooled(state.centred().gram(), layout, along))
        before = state.tangent()
        tangent = None if before is None else _pooled(before, layout, along)
        if state.is_gaussian and not mean.any():
            process = gaussian(covariance, tangent, state.keys)
        else:
            process = Process("opaque", mean, covariance, tangent, state.keys)
    out = FeatureState.of(process, new, state.width, state.log_scale)

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        return Gradient.of(_pooled(gradient.total(), layout, along, transpose=True), layout, gradient.log)

    return out, back if run.backward else None


def pooled_axes(step: Pool, along: tuple[Line, ...]) -> tuple[int, ...]:
    """Axes that a pool leaves; none where it has all positions."""
    return () if step.size is None else tuple(len(one.index) for one in along)


def _pool_exchangeable(step: Pool, state: FeatureState, run: Run) -> Stepped:
    """The mean over all of T exchangeable tokens; the two rows of one sample become the same."""
    if step.size is not None:
        raise NotCovered("pool with windows of exchangeable tokens", "they are all alike", "pass a batch")
    tokens, second, mean = state.layout.exchangeable, state.second(), state.mean()
    inside, across = second.gaps[:, 0, 1], second.gaps[:, 0, 2]
    lost = inside * (1.0 - 1.0 / tokens)  # of the mean square, which the mean leaves
    gaps = np.zeros_like(second.gaps)
    apart = np.clip((across - lost) / np.maximum(1.0 - lost, 1e-300), 0.0, 2.0)
    gaps[:, :2, 2] = gaps[:, 2, :2] = apart[:, None]
    made = Covariance(second.variances * (1.0 - lost)[:, None], gaps)
    if state.is_gaussian and not mean.any():
        process = gaussian(made, None, state.keys)
    else:
        process = Process("opaque", mean, without_mean(made, mean), None, state.keys)
    out = FeatureState.of(process, replace(state.layout, exchangeable=1), state.width, state.log_scale)

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        # every token has a share 1/T of its sample's gradient
        total = gradient.total() / tokens**2
        total[:, 0, 1] = total[:, 1, 0] = total[:, 0, 0]
        return Gradient.of(total, state.layout, gradient.log)

    return out, back if run.backward else None


def _offsets(along: tuple[Line, ...]) -> int:
    return math.prod(one.index.shape[1] for one in along)


def _pooled(array: Floats, layout: Layout, along: tuple[Line, ...], *, transpose: bool = False) -> Floats:
    """M K Mᵀ in the positions of every pair of samples; different positions count as independent if not in full."""
    if not layout.full:
        return summed_pairs(array, layout, along, transpose=transpose) / _offsets(along) ** 2
    n, rank = layout.samples, len(along)
    axes = tuple(len(one.index) for one in along) if transpose else layout.axes
    # the two positions of a pair move apart from each other
    dims = [(side + a,) for side in (1, 2 + rank) for a in range(rank)]
    found = summed(array.reshape(n, *axes, n, *axes), (*along, *along), dims, transpose=transpose)
    size = n * math.prod(found.shape[1 : 1 + rank])
    return found.reshape(1, size, size) / _offsets(along) ** 2


def _pooled_vectors(array: Floats, layout: Layout, along: tuple[Line, ...]) -> Floats:
    return pooled_features(array[..., None], layout, along)[..., 0]


def pooled_features(x: Floats, layout: Layout, along: tuple[Line, ...]) -> Floats:
    """Means over windows of features `(stack, m, d)`."""
    n, rank = layout.samples, len(along)
    shape: Any = (n, *layout.axes, -1) if layout.full else (*layout.axes, n, x.shape[-1])
    dims = [(layout.full + a,) for a in range(rank)]
    found = summed(x.reshape(shape), along, dims) / _offsets(along)
    return found.reshape(1, -1, x.shape[-1]) if layout.full else found.reshape(-1, n, x.shape[-1])


# --- upsampling and flattening ----------------------------------------------------------------------------------------


def upsample(step: Upsample, state: FeatureState, run: Run) -> Stepped:
    """Positions several times: those that repeat one are equal."""
    layout = state.layout
    if layout.exchangeable:
        raise NotCovered("upsample of exchangeable tokens", "some positions repeat others", "pass a batch")
    new = layout.at(tuple(axis * times for axis, times in zip(layout.axes, step.repeats, strict=True)))
    places = np.zeros(1, dtype=np.intp)
    for axis, times in zip(layout.axes, step.repeats, strict=True):
        places = (places[:, None] * axis + np.repeat(np.arange(axis), times)).ravel()
    take = _Taken(layout, places)
    terms = tuple((take.rows(scale), take.process(one)) for scale, one in state.terms)
    out = FeatureState(new, state.width, terms, take.rows(state.offset), state.log_scale)
    if not run.backward:
        return out, None
    # the transpose of repeating is a sum over windows
    along = pool_lines(new.axes, step.repeats, step.repeats)

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        total = _pooled(gradient.total(), new, along) * _offsets(along) ** 2
        return Gradient.of(total, layout, gradient.log)

    return out, back


class _Taken:
    """Arrays of a layout at some of its positions."""

    def __init__(self, layout: Layout, places: Places) -> None:
        self._layout, self._places = layout, places

    def rows(self, array: Floats) -> Floats:
        """`(stack, m)` or `(stack, m, d)`."""
        layout, places = self._layout, self._places
        if not layout.is_full:
            return np.asarray(array[places])
        parts = array.reshape(layout.samples, layout.positions, *array.shape[2:])[:, places]
        return np.asarray(parts.reshape(1, -1, *array.shape[2:]))

    def matrix(self, array: Floats | None) -> Floats | None:
        """`(stack, m, m)`."""
        layout, places = self._layout, self._places
        if array is None or not layout.is_full:
            return None if array is None else np.asarray(array[places])
        size = layout.samples * len(places)
        return np.asarray(layout.blocks(array)[:, places][:, :, :, places].reshape(1, size, size))

    def covariance(self, one: Covariance) -> Covariance:
        """Variances and gaps."""
        gaps = self.matrix(one.gaps)
        assert gaps is not None
        return Covariance(self.rows(one.variances), gaps)

    def process(self, one: Process) -> Process:
        """The same process at other positions."""
        group = one.group
        if group is not None and not all(isinstance(operation, Activate) for operation in group.operations):
            group = None  # it is about the old positions
        kept = (
            None if group is None else Group(self.covariance(group.base), group.operations, self.matrix(group.tangent))
        )
        return replace(
            one,
            kind="opaque" if one.kind == "operations" and kept is None else one.kind,
            mean=self.rows(one.mean),
            covariance=self.covariance(one.covariance),
            tangent=self.matrix(one.tangent),
            group=kept,
            features=None if one.features is None else self.rows(one.features),
        )


def flatten(step: Flatten, state: FeatureState, run: Run) -> Stepped:
    """Positions become features: second moments are means over positions, and features have several laws."""
    layout = state.layout
    if layout.exchangeable:
        raise NotCovered(
            "flatten of exchangeable tokens", "it gives each position features of its own", "pass a batch, or use pool"
        )
    if not layout.axes:
        return state, (lambda gradient, _: gradient) if run.backward else None
    new = layout.at(())
    width = state.width * layout.positions
    single = state.single
    if single is not None and single.features is not None:
        x = state.terms[0][0][..., None] * single.features + state.offset[..., None]
        if not layout.is_full:
            x = np.moveaxis(x, 0, 1)
        process = given(x.reshape(1, layout.samples, -1), tangent=run.tangent, sources=state.keys)
    else:
        second, mean = state.second(), layout.vectors(state.mean())
        roots = np.sqrt(layout.vectors(second.variances))  # (P, n)
        scaled = layout.diagonal(second.gaps) * roots[:, :, None]
        scaled *= roots[:, None, :]
        whole = mean_covariance(roots.T[None], scaled.sum(axis=0, keepdims=True))
        average = mean.mean(axis=0, keepdims=True)
        before = state.tangent()
        tangent = None if before is None else layout.diagonal(before).mean(axis=0, keepdims=True)
        mixed = layout.positions > 1
        process = Process("opaque", average, without_mean(whole, average), tangent, state.keys, mixed=mixed)
    out = FeatureState.of(process, new, width, state.log_scale)

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        # features of different positions are different features: no gradient has both
        spread = np.broadcast_to(gradient.total(), (layout.positions, layout.samples, layout.samples))
        return Gradient.of(layout.embedded(spread), layout, gradient.log)

    return out, back if run.backward else None
