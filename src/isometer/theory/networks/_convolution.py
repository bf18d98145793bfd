"""Convolutions at infinite width.

The covariance of two positions is the mean over offsets of what the two read. With amplitudes a = √variance and
S = aᵢaⱼ(1 − ρᵢⱼ), both of what enters, it is in variances and 1 − ρ

    V = mean a²,    1 − ρᵢⱼ = ½|α̂ᵢ − α̂ⱼ|² + mean S / √(VᵢVⱼ),    α̂ᵢ = (aᵢ at every offset)/√(offsets · Vᵢ),

sums without cancellation near ρ = 1: one sum over windows of a matrix, and a product of thin ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.spec import Convolution
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._gradient import Gradient, Squares
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._state import FeatureState, NotCovered, Process, gaussian
from isometer.theory.networks._weights import Run, Stepped
from isometer.theory.networks._windows import Line, lines, summed, table

Floats = NDArray[np.float64]
_ROUNDING = 8 * np.finfo(float).eps


def convolution_variance(step: Convolution, fan_in: int) -> float:
    """The factor from second moments, averaged over the offsets, to the covariance of what leaves.

    Example:
        >>> convolution_variance(Convolution((3,), 8, weights="orthogonal"), 4)
        1.0
    """
    gain, offsets, channels = float(step.gain), math.prod(step.kernel), step.channels  # type: ignore[arg-type]
    assert channels is not None
    rows, columns = channels // step.groups, fan_in // step.groups
    if step.weights == "orthogonal":
        # entries of a Haar frame have the variance 1/max(rows, columns)
        return gain**2 * columns * offsets / max(rows, columns * offsets)
    if step.weights == "delta-orthogonal":
        return gain**2 * columns / max(rows, columns)
    return gain**2


def convolve(step: Convolution, state: FeatureState, run: Run) -> Stepped:
    """A convolution; what leaves groups of one channel is Gaussian given that channel alone, and not Gaussian."""
    layout, fan_in, fan_out = state.layout, state.width, step.channels
    assert fan_out is not None
    along = _read_lines(step, layout.axes)
    new = layout.at(tuple(len(one.index) for one in along))
    offsets = math.prod(one.index.shape[1] for one in along)
    variance = convolution_variance(step, fan_in)
    covariance = _read(state.second(), layout, along).times(variance)
    before = state.tangent()
    tangent = None
    if run.tangent and before is not None:
        tangent = (variance / offsets) * summed_pairs(before, layout, along) + covariance.gram()
    process = _made(step, state, covariance, tangent)
    out = FeatureState.of(process, new, fan_out, state.log_scale)
    if not run.backward:
        return out, None
    # the weights see Σ over offsets of what each reads
    seen = covariance.gram() * (offsets / variance) if variance > 0.0 else np.zeros_like(covariance.gaps)
    log = math.log(fan_in) + math.log(fan_out) - math.log(step.groups) + 2 * state.log_scale

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        total = gradient.total()
        entries = fan_in * fan_out * offsets // step.groups
        squares.add("convolution", float(np.sum(total * seen)), gradient.log + log, entries)
        factor = variance * fan_out / (fan_in * offsets)
        pulled = summed_pairs(total, layout, along, transpose=True)
        return Gradient.of(factor * pulled, layout, gradient.log)

    return out, back


def _read_lines(step: Convolution, axes: tuple[int, ...]) -> tuple[Line, ...]:
    found = lines(axes, step.kernel, step.stride, step.dilation, step.padding)
    if step.weights != "delta-orthogonal":
        return found
    middle = [(k - 1) // 2 for k in step.kernel]
    return tuple(Line.of(one.index[:, [k]], one.size) for one, k in zip(found, middle, strict=True))


def _made(step: Convolution, state: FeatureState, covariance: Covariance, tangent: Floats | None) -> Process:
    """The process that leaves: Gaussian unless groups of channels differ, at any width, in what they see."""
    differ = any(process.mixed or process.kind == "given" for _, process in state.terms)
    if step.groups == 1 or (step.groups < state.width and not differ):
        return gaussian(covariance, tangent)
    if step.groups < state.width and any(process.mixed for _, process in state.terms):
        raise NotCovered("conv with groups", "features of several laws stand before it", "put a dense step before it")
    return Process("opaque", np.zeros_like(covariance.variances), covariance, tangent, state.keys, mixed=differ)


def _read(second: Covariance, layout: Layout, along: tuple[Line, ...]) -> Covariance:
    """The mean over windows; see the module."""
    places = table(along)
    offsets = places.shape[1]
    roots = np.sqrt(second.variances)
    position_roots = layout.vectors(roots)  # (P, n)
    read = np.where((places >= 0)[..., None], position_roots[places], 0.0)  # (P', offsets, n)
    read = np.moveaxis(read, 2, 0).reshape(1, -1, offsets) if layout.is_full else np.moveaxis(read, 1, 2)
    if offsets == 1 and (places >= 0).all():
        return Covariance(read[..., 0] ** 2, summed_pairs(second.gaps, layout, along))
    scaled = second.gaps * roots[:, :, None]
    scaled *= roots[:, None, :]
    return mean_covariance(read, summed_pairs(scaled, layout, along))


def mean_covariance(amplitudes: Floats, scaled: Floats) -> Covariance:
    """The mean of covariances.

    Args:
        amplitudes: `(stack, m, parts)`, roots of the variances of each.
        scaled: `(stack, m, m)`, the sum over parts of aᵢaⱼ(1 − ρᵢⱼ); it is overwritten.

    Example:
        >>> mean_covariance(np.array([[[1.0, 1.0], [2.0, 2.0]]]), np.zeros((1, 2, 2))).variances.tolist()
        [[1.0, 4.0]]
    """
    total = np.einsum("smk,smk->sm", amplitudes, amplitudes)
    inverse = 1.0 / np.sqrt(np.where(total > 0.0, total, 1.0))
    unit = amplitudes * inverse[..., None]
    scaled *= inverse[:, :, None]
    scaled *= inverse[:, None, :]
    if (unit != unit[:, :1]).any():
        scaled += half_squares(unit)
    index = np.arange(scaled.shape[-1])
    scaled[:, index, index] = 0.0
    return Covariance(total / amplitudes.shape[-1], np.clip(scaled, 0.0, 2.0, out=scaled))


def half_squares(rows: Floats) -> Floats:
    """½|u − v|² of all pairs of rows `(stack, m, k)`, relative to their spread around a common vector.

    Example:
        >>> half_squares(np.array([[[1.0, 1e-9], [1.0, 0.0]]])).tolist()
        [[[0.0, 5e-19], [5e-19, 0.0]]]
    """
    apart = rows - rows.mean(axis=1, keepdims=True)
    squares = np.einsum("smk,smk->sm", apart, apart)
    out = np.matmul(apart, np.swapaxes(apart, 1, 2))
    out *= -2.0
    out += squares[:, :, None]
    out += squares[:, None, :]
    # equal rows are to have no distance, not one of rounding
    out[out < _ROUNDING * float(squares.max(initial=0.0))] = 0.0
    out *= 0.5
    return np.asarray(out)


def summed_pairs(array: Floats, layout: Layout, along: tuple[Line, ...], *, transpose: bool = False) -> Floats:
    """Sums over windows of matrices, the two positions of a pair at the same offset; `layout` is that of what enters.

    Example:
        >>> layout = Layout(1, (3,))
        >>> summed_pairs(np.ones((3, 1, 1)), layout, lines((3,), (3,), (1,), (1,), "zeros")).ravel().tolist()
        [2.0, 3.0, 2.0]
    """
    there = layout.at(tuple(len(one.index) for one in along))
    old, new = (there, layout) if transpose else (layout, there)
    rank, n = len(along), layout.samples
    shape: Any
    dims: list[tuple[int, ...]]
    if layout.is_full:
        shape, dims = (n, *old.axes, n, *old.axes), [(1 + a, 2 + rank + a) for a in range(rank)]
    else:
        shape, dims = (*old.axes, n, n), [(a,) for a in range(rank)]
    found = summed(array.reshape(shape), along, dims, transpose=transpose)
    stack, size = new.size
    return found.reshape(stack, size, size)
