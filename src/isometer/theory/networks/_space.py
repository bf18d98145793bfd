"""Steps over positions at infinite width: convolution, mean pooling, flattening."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from isometer.spec import Convolution, Flatten, Pool
from isometer.theory.networks._covariance import Covariance, combined, without_mean
from isometer.theory.networks._gradient import Gradient, Squares
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._state import FeatureState, NotCovered, Process, gaussian, given
from isometer.theory.networks._weights import Run, Stepped

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


@lru_cache(maxsize=64)
def neighbours(
    axes: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], padding: str
) -> tuple[Places, tuple[int, ...]]:
    """What a convolution reads: for every position that leaves and offset the position that enters, −1 for padding.

    Kernels of even size reach one further to the right.

    Example:
        >>> neighbours((4,), (3,), (2,), (1,), "circular")[0].tolist()
        [[3, 0, 1], [1, 2, 3]]
    """
    lines, sizes = [], []
    for axis, k, s, d in zip(axes, kernel, stride, dilation, strict=True):
        reach = d * (k - 1)
        left = 0 if padding == "valid" else reach // 2
        count = ((axis - reach if padding == "valid" else axis) - 1) // s + 1
        places = s * np.arange(count)[:, None] + d * np.arange(k)[None, :] - left
        if padding == "circular":
            places = places % axis
        elif padding == "reflect":
            places = np.abs(places)
            places = np.where(places >= axis, 2 * (axis - 1) - places, places)
        else:
            places = np.where((places < 0) | (places >= axis), -1, places)
        lines.append(places)
        sizes.append(count)
    rank = len(axes)
    at = np.zeros((*sizes, *kernel), dtype=np.intp)
    inside = np.ones(at.shape, dtype=bool)
    for axis, line in enumerate(lines):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = line.shape
        at = at * axes[axis] + line.reshape(shape)
        inside = inside & (line >= 0).reshape(shape)
    out = np.where(inside, at, -1).reshape(math.prod(sizes), math.prod(kernel))
    out.setflags(write=False)  # cached
    return out, tuple(sizes)


def convolution_variance(step: Convolution, fan_in: int) -> float:
    """The factor from second moments, averaged over the offsets, to the covariance of what leaves.

    Example:
        >>> convolution_variance(Convolution((3,), 8, weights="orthogonal"), 4)
        1.0
    """
    gain, offsets, channels = float(step.gain), math.prod(step.kernel), step.channels  # type: ignore[arg-type]
    assert channels is not None
    if step.weights == "orthogonal":
        # entries of a Haar frame have the variance 1/max(rows, columns)
        return gain**2 * fan_in * offsets / max(channels, fan_in * offsets)
    if step.weights == "delta-orthogonal":
        return gain**2 * fan_in / max(channels, fan_in)
    return gain**2


def convolve(step: Convolution, state: FeatureState, run: Run) -> Stepped:
    """A convolution: the covariance of two positions is the mean of those that their offsets read."""
    layout, fan_in = state.layout, state.width
    assert step.channels is not None
    fan_out = step.channels
    places, axes = neighbours(layout.axes, step.kernel, step.stride, step.dilation, step.padding)
    if step.weights == "delta-orthogonal":
        centre = np.ravel_multi_index([(k - 1) // 2 for k in step.kernel], step.kernel)
        places = places[:, [int(centre)]]
    new, offsets = layout.at(axes), places.shape[1]
    variance = convolution_variance(step, fan_in)
    second = state.second()
    covariance = _read(second, layout, places).times(variance)
    before = state.tangent()
    tangent = None
    if run.tangent and before is not None:
        tangent = variance * _mean_read(before, layout, places) + covariance.gram()
    out = FeatureState.of(gaussian(covariance, tangent), new, fan_out, state.log_scale)
    if not run.backward:
        return out, None
    # the weights see Σ over offsets of what each reads
    seen = covariance.gram() * (offsets / variance) if variance > 0.0 else np.zeros_like(covariance.gaps)
    log = math.log(fan_in) + math.log(fan_out) + 2 * state.log_scale

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        total = gradient.total()
        squares.add(float(np.sum(total * seen)), gradient.log + log)
        factor = variance * fan_out / (fan_in * offsets)
        return Gradient.of(factor * _written(total, layout, new, places), layout, gradient.log)

    return out, back


def _read(second: Covariance, layout: Layout, places: Places) -> Covariance:
    """The mean over offsets, as a sum of independent parts of which each has the amplitude 1/√offsets."""
    roots = np.sqrt(layout.vectors(second.variances) / places.shape[1])  # (P, n)
    parts = []
    for offset in range(places.shape[1]):
        at = places[:, offset]
        own = np.where((at >= 0)[:, None], roots[at], 0.0)
        amplitude = np.ascontiguousarray(own.T).reshape(1, -1) if layout.is_full else own
        parts.append((amplitude, lambda at=at: _gathered(second.gaps, layout, at)))
    if len(parts) == 1 and (places >= 0).all():
        return Covariance(parts[0][0] ** 2, parts[0][1]())
    return combined(parts)


def _gathered(array: Floats, layout: Layout, at: Places) -> Floats:
    """Matrices whose position p is position at[p] of the array."""
    if not layout.is_full:
        return array[at]
    size = layout.samples * len(at)
    return np.asarray(layout.blocks(array)[:, at][:, :, :, at].reshape(1, size, size))


def _mean_read(array: Floats, layout: Layout, places: Places) -> Floats:
    total: Floats | None = None
    for offset in range(places.shape[1]):
        at = places[:, offset]
        own = _gathered(array, layout, at)
        if (at < 0).any():
            own = own * _present(layout, at)
        total = own if total is None else total + own
    assert total is not None
    return np.asarray(total / places.shape[1])


def _present(layout: Layout, at: Places) -> Floats:
    inside = (at >= 0).astype(float)
    if not layout.is_full:
        return inside[:, None, None]
    row = np.tile(inside, layout.samples)
    return np.asarray(row[None, :, None] * row[None, None, :])


def _written(array: Floats, layout: Layout, new: Layout, places: Places) -> Floats:
    """The transpose of reading, offsets summed."""
    n, before = layout.samples, layout.positions
    stack, size = layout.size
    out = np.zeros((stack, size, size))
    for offset in range(places.shape[1]):
        inside = np.flatnonzero(places[:, offset] >= 0)
        at = places[inside, offset]
        # several positions may read the same one at a reflecting border: additions must not overwrite each other
        if not layout.is_full:
            np.add.at(out, at, array[inside])
            continue
        samples = np.arange(n)[:, None]
        rows, read = ((samples * before + at).ravel(), (samples * new.positions + inside).ravel())
        np.add.at(out[0], (rows[:, None], rows[None, :]), array[0][np.ix_(read, read)])
    return out


# --- pooling and flattening -------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def windows(axes: tuple[int, ...], size: tuple[int, ...] | None, stride: tuple[int, ...] | None) -> Floats:
    """The matrix `(positions that leave, positions that enter)` of a mean over windows.

    Example:
        >>> windows((4,), (2,), (2,)).tolist()
        [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    if size is None or stride is None:
        return np.full((1, math.prod(axes)), 1.0 / math.prod(axes))
    places, _ = neighbours(axes, size, stride, (1,) * len(axes), "valid")
    out = np.zeros((len(places), math.prod(axes)))
    np.add.at(out, (np.arange(len(places))[:, None], places), 1.0 / places.shape[1])
    return out


def pool(step: Pool, state: FeatureState, run: Run) -> Stepped:
    """Means over windows of positions: linear, so that Gaussian features stay Gaussian."""
    layout = state.layout
    if layout.exchangeable:
        return _pool_exchangeable(step, state, run)
    matrix = windows(layout.axes, step.size, step.stride)
    left = (
        ()
        if step.size is None
        else tuple(
            (axis - k) // s + 1 for axis, k, s in zip(layout.axes, step.size, step.stride or step.size, strict=True)
        )
    )
    new = layout.at(left)
    single = state.single
    if single is not None and single.features is not None:
        x = state.terms[0][0][..., None] * single.features + state.offset[..., None]
        process = given(_pooled_features(x, layout, matrix), tangent=run.tangent, sources=state.keys)
    else:
        mean = _pooled_vectors(state.mean(), layout, matrix)
        covariance = Covariance.of_gram(_pooled(state.centred().gram(), layout, matrix))
        before = state.tangent()
        tangent = None if before is None else _pooled(before, layout, matrix)
        if state.is_gaussian and not mean.any():
            process = gaussian(covariance, tangent, state.keys)
        else:
            process = Process("opaque", mean, covariance, tangent, state.keys)
    out = FeatureState.of(process, new, state.width, state.log_scale)

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        return Gradient.of(_pooled(gradient.total(), new, matrix.T), layout, gradient.log)

    return out, back if run.backward else None


def _pool_exchangeable(step: Pool, state: FeatureState, run: Run) -> Stepped:
    """The mean over all of T exchangeable tokens; the two rows of one sample become the same."""
    if step.size is not None or run.backward:
        what = "pool with windows" if step.size is not None else "gradients through pool"
        raise NotCovered(f"{what} of exchangeable tokens", "it is not derived here", "pass a batch")
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
    return FeatureState.of(process, state.layout, state.width, state.log_scale), None


def _pooled(array: Floats, layout: Layout, matrix: Floats) -> Floats:
    """M K Mᵀ in the positions of every pair of samples; different positions count as independent if not in full."""
    n = layout.samples
    if not layout.full:
        return np.asarray(np.einsum("ap,pij->aij", matrix * matrix, array))
    blocks = array.reshape(n, layout.positions, n, layout.positions)
    found = np.einsum("ap,ipjq->iajq", matrix, blocks, optimize=True)
    found = np.einsum("bq,iajq->iajb", matrix, found, optimize=True)
    size = n * len(matrix)
    return np.ascontiguousarray(found).reshape(1, size, size)


def _pooled_vectors(array: Floats, layout: Layout, matrix: Floats) -> Floats:
    if not layout.full:
        return np.asarray(matrix @ array)
    return np.asarray(array.reshape(layout.samples, layout.positions) @ matrix.T).reshape(1, -1)


def _pooled_features(x: Floats, layout: Layout, matrix: Floats) -> Floats:
    found = np.einsum("ap,ipd->iad", matrix, x.reshape(layout.samples, layout.positions, -1))
    return np.ascontiguousarray(found).reshape(1, layout.samples * len(matrix), -1)


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
        roots = np.sqrt(layout.vectors(second.variances) / layout.positions)
        gaps = layout.diagonal(second.gaps)
        whole = combined([(own[None], matrix[None]) for own, matrix in zip(roots, gaps, strict=True)])
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
