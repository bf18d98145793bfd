"""Products that are written as `einsum`: which of them are layers of weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache


@lru_cache(maxsize=256)
def summed_axes(equation: str, weights: int) -> tuple[int, ...] | None:
    """The axes of the weights that a contraction sums over, if it is a product of a signal and a matrix.

    That is one where the signal's last axes are summed with the weights and replaced by the weights' other axes:
    `...i,oi->...o`, and with several axes on either side `btd,dhk->bthk`.

    Args:
        equation: what `torch.einsum` is given, of two operands.
        weights: which of the two holds the weights, 0 or 1.

    Returns:
        Axes of the weights, `None` where it is something else.

    Example:
        >>> summed_axes("...i,oi->...o", 1), summed_axes("bthd,hdo->bto", 1), summed_axes("bi,bio->bo", 1)
        ((1,), (0, 1), None)
    """
    left, arrow, result = equation.replace(" ", "").replace("...", ".").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != 2:
        return None
    matrix, signal = terms[weights], terms[1 - weights]
    if any(len(set(term)) != len(term) for term in (matrix, signal, result)) or "." in matrix:
        return None
    summed = [axis for axis in matrix if axis in signal and axis not in result]
    new = [axis for axis in matrix if axis in result and axis not in signal]
    if not summed or not new or len(summed) + len(new) != len(matrix):
        return None
    kept = signal[: len(signal) - len(summed)]
    if set(signal[len(kept) :]) != set(summed) or result[: len(kept)] != kept or set(result[len(kept) :]) != set(new):
        return None
    return tuple(matrix.index(axis) for axis in summed)


def fan_in(equation: str, weights: int, shape: Sequence[int]) -> int:
    """How many products each entry of the result adds up.

    Example:
        >>> fan_in("bthd,hdo->bto", 1, (4, 8, 32))
        32
    """
    return math.prod(shape[axis] for axis in summed_axes(equation, weights) or ())
