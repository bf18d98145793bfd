"""Logarithms, exponentials and determinants of float64 and mpmath numbers; mpmath is never imported here."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["absolute_determinant", "exp", "expm1", "log", "log1p"]


def log(x: Any) -> Any:
    """Natural logarithm of a number or an array.

    Example:
        >>> log(1.0)
        0.0
    """
    return _apply("log", x)


def log1p(x: Any) -> Any:
    """log(1 + x), without cancellation.

    Example:
        >>> log1p(1e-20)
        1e-20
    """
    return _apply("log1p", x)


def exp(x: Any) -> Any:
    """Exponential of a number or an array.

    Example:
        >>> exp(np.zeros(2)).tolist()
        [1.0, 1.0]
    """
    return _apply("exp", x)


def expm1(x: Any) -> Any:
    """e^x − 1, without cancellation.

    Example:
        >>> expm1(1e-20)
        1e-20
    """
    return _apply("expm1", x)


def _apply(name: str, x: Any) -> Any:
    if isinstance(x, np.ndarray) and x.dtype == object:
        return np.frompyfunc(lambda value: _apply(name, value), 1, 1)(x)
    context = getattr(x, "context", None)  # every mpmath number knows its own
    if context is not None:
        return getattr(context, name)(x)
    value = getattr(np, name)(x)
    return value if value.ndim else value.item()


def absolute_determinant(matrix: Any) -> Any:
    """|det A| by elimination with pivots.

    Example:
        >>> float(absolute_determinant(np.array([[0.0, 2.0], [3.0, 1.0]])))
        6.0
    """
    a = np.array(matrix)
    value: Any = 1
    for column in range(len(a)):
        pivot = column + int(np.argmax(np.abs(a[column:, column]).astype(float)))
        if a[pivot, column] == 0:
            return 0 * a[0, 0]
        a[[column, pivot]] = a[[pivot, column]]
        value = value * abs(a[column, column])
        for row in range(column + 1, len(a)):
            a[row] = a[row] - a[row, column] / a[column, column] * a[column]
    return value
