"""One code path for NumPy arrays and torch tensors; torch is used only if the caller already has it."""

import math
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from isometer.errors import IsometerError

Array: TypeAlias = Any
"""A NumPy array (or anything `numpy.asarray` takes) or a torch tensor; results are of the same kind."""


def namespace(array: Array) -> Any:
    """The module whose functions act on `array`: `torch` for tensors, `numpy` for everything else."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else np


def as_floating(array: Array, name: str) -> Array:
    """`array` in the precision of the computation: half precision → float32, integers → float64, the rest as it is."""
    xp = namespace(array)
    if xp is np:
        array = np.asarray(array)
        if array.dtype.kind not in "fiub":
            raise IsometerError(f"{name} has dtype {array.dtype}; expected real numbers — pass a real array")
        if array.dtype.kind != "f" or array.dtype.itemsize > 8:
            array = array.astype(np.float64)
        return array.astype(np.float32) if array.dtype == np.float16 else array
    if array.is_complex():
        raise IsometerError(f"{name} has dtype {array.dtype}; expected real numbers — pass a real tensor")
    if not array.is_floating_point():
        return array.to(xp.float64)
    return array.to(xp.float32) if array.dtype.itemsize < 4 else array


def require_finite(array: Array, name: str) -> None:
    """Raise unless every entry is a finite number: one reduction, the only check that reads all the data."""
    xp = namespace(array)
    finite = xp.isfinite(array)
    if not bool(finite.all()):
        bad = int((~finite).sum())
        raise IsometerError(
            f"{name} has {bad} NaN or infinite entries of {math.prod(array.shape)}; expected finite numbers — "
            "find the operation that produced them, or drop those samples"
        )


def as_matrices(array: Array, name: str, axes: str) -> Array:
    """`array` as checked floating point matrices on its last two axes, which `axes` describes to the user."""
    array = as_floating(array, name)
    shape = tuple(array.shape)
    if len(shape) < 2:
        raise IsometerError(f"{name} has shape {shape}; expected (…, {axes}) — add the missing axis")
    if 0 in shape[-2:]:
        raise IsometerError(f"{name} has shape {shape}; expected (…, {axes}), none of them 0 — pass a non-empty array")
    require_finite(array, name)
    return array


def epsilon(array: Array) -> float:
    """The distance from 1 to the next number in the precision of `array`."""
    return float(namespace(array).finfo(array.dtype).eps)


def result(array: Array) -> Array:
    """`array`, with a zero-dimensional NumPy array turned into a scalar."""
    return array if namespace(array) is not np else np.asarray(array)[()]


def filled(like: Array, shape: Sequence[int], value: float) -> Array:
    """A constant array with the kind, precision and device of `like`."""
    xp = namespace(like)
    if xp is np:
        return np.full(tuple(shape), value, dtype=like.dtype)
    return xp.full(tuple(shape), value, dtype=like.dtype, device=like.device)


def identity(like: Array, side: int) -> Array:
    """The identity matrix with the kind, precision and device of `like`."""
    xp = namespace(like)
    return np.eye(side, dtype=like.dtype) if xp is np else xp.eye(side, dtype=like.dtype, device=like.device)


def indices(like: Array, count: int) -> Array:
    """0, 1, …, count − 1 on the device of `like`."""
    xp = namespace(like)
    return np.arange(count) if xp is np else xp.arange(count, device=like.device)


def count(chosen: Array, axes: int | tuple[int, ...], like: Array) -> Array:
    """How many are true over `axes`, as numbers in the precision of `like`."""
    return namespace(like).sum(chosen * filled(like, (), 1.0), axis=axes)


def binary_scale(array: Array, axes: tuple[int, ...]) -> Array:
    """The power of two just above the largest modulus over `axes` (1 where all is zero).

    Dividing by it is exact and keeps squares from over- and underflowing. The integer exponent makes it a constant to
    automatic differentiation, as it may be: what is divided here is multiplied again, or does not depend on the scale.
    """
    xp = namespace(array)
    largest = xp.amax(xp.abs(array), axis=axes, keepdims=True)
    _, exponent = xp.frexp(largest)
    # 2^1024 is no float64: stop one short, which leaves the moduli below 2.
    exponent = xp.clip(exponent, -1000, 1023) if epsilon(array) < 1e-10 else xp.clip(exponent, -120, 127)
    scale = xp.ldexp(xp.ones_like(largest), exponent) if xp is np else xp.exp2(exponent.to(largest.dtype))
    return xp.where(largest > 0, scale, 1.0)


def root_mean_square(array: Array, axis: int) -> Array:
    """Square roots of mean squares along `axis` (kept with length 1), whatever the scale of the entries."""
    scale = binary_scale(array, (axis,))
    return scale * _plain_root_mean_square(array / scale, axis)


def to_unit_mean_square(array: Array, axis: int) -> Array:
    """Vectors along `axis` scaled to mean square 1, whatever their size; zero vectors stay zero."""
    # In two steps, since a division by a subnormal length would not be precise.
    array = array / binary_scale(array, (axis,))
    size = _plain_root_mean_square(array, axis)
    return array / namespace(array).where(size > 0, size, 1.0)


def _plain_root_mean_square(array: Array, axis: int) -> Array:
    xp = namespace(array)
    square = xp.mean(array * array, axis=axis, keepdims=True)
    # The square root has no derivative at 0; that of a zero vector is a constant 0.
    return xp.where(square > 0, xp.sqrt(xp.where(square > 0, square, 1.0)), 0.0)


def subtract_mean(array: Array, axis: int) -> Array:
    """Vectors along `axis` minus their mean; exactly zero where the entries differ by no more than rounding."""
    xp = namespace(array)
    deviation = array - xp.mean(array, axis=axis, keepdims=True)
    noise = 8 * epsilon(array) * xp.amax(xp.abs(array), axis=axis, keepdims=True)
    constant = xp.amax(xp.abs(deviation), axis=axis, keepdims=True) <= noise
    return xp.where(constant, 0.0, deviation)


def eigvalsh(matrices: Array) -> Array:
    """Eigenvalues of symmetric matrices, ascending, in double precision where single precision does not converge."""
    linalg = namespace(matrices).linalg
    try:
        return linalg.eigvalsh(matrices)
    except (np.linalg.LinAlgError, RuntimeError):
        if epsilon(matrices) < 1e-10:
            raise
        wide = matrices.astype(np.float64) if namespace(matrices) is np else matrices.double()
        values = linalg.eigvalsh(wide)
        return values.astype(matrices.dtype) if namespace(matrices) is np else values.to(matrices.dtype)


def svdvals(matrices: Array) -> Array:
    """Singular values, descending."""
    return namespace(matrices).linalg.svdvals(matrices)


def log_mean_minus_mean_log(roots: Array) -> Array:
    """`log mean(r²) − mean(log r²)` over the last axis of positive `roots`: the logarithm of arithmetic over geometric
    mean, as a mean of the non-negative terms `x − log(1 + x)`, `x = r²/mean(r²) − 1`, so that values near 0 are right.
    """
    xp = namespace(roots)
    largest = xp.amax(roots, axis=-1, keepdims=True)
    squares = (roots / largest) ** 2
    mean = xp.mean(squares, axis=-1, keepdims=True)
    excess = (squares - mean) / mean
    near = xp.abs(excess) < 0.5
    # Far from the mean the square may underflow, so its logarithm is taken from the root.
    far = 2 * (xp.log(roots) - xp.log(largest)) - xp.log(mean)
    logarithm = xp.where(near, xp.log1p(xp.where(near, excess, 0.0)), far)
    return xp.clip(xp.mean(excess - logarithm, axis=-1), 0.0, None)
