"""Elementary functions of float64 or mpmath numbers, and of arrays of them: one formula, two precisions.

mpmath is never imported here: its numbers know the context that they belong to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy import special

__all__ = [
    "Numeric",
    "absolute_determinant",
    "acos",
    "angle_of_cosine",
    "asin",
    "atan",
    "atan2",
    "cos",
    "cosh",
    "erf",
    "exp",
    "expm1",
    "gamma",
    "is_precise",
    "library_of",
    "log",
    "log1p",
    "ncdf",
    "npdf",
    "pi_like",
    "sin",
    "sinh",
    "sqrt",
    "tanh",
]

Numeric: TypeAlias = Any
"""A number or an array, float64 or mpmath, which has no types: a formula gives back the kind that it was given."""

Function = Callable[[Numeric], Numeric]


def is_precise(*values: Any) -> bool:
    """Whether one of the values is an mpmath number, or an array of objects.

    Example:
        >>> is_precise(1.0, np.ones(2)), is_precise(np.array([None], dtype=object))
        (False, True)
    """
    return any(hasattr(v, "context") or getattr(v, "dtype", None) == np.dtype(object) for v in values)


def library_of(value: Numeric) -> Any:
    """mpmath's context, for an mpmath number or an array of them; the module `math` otherwise.

    Example:
        >>> library_of(1.0).sqrt(4.0), library_of(np.ones(2)) is math
        (2.0, True)
    """
    items = value.flat if isinstance(value, np.ndarray) and value.dtype == object else (value,)
    return next((item.context for item in items if hasattr(item, "context")), math)


def _either(name: str, plain: Function) -> Function:
    """A function of both kinds of numbers, by the name that mpmath gives it; a Python float stays one."""

    def call(x: Any) -> Any:
        if isinstance(x, np.ndarray) and x.dtype == object:
            return np.frompyfunc(call, 1, 1)(x)
        context = getattr(x, "context", None)
        if context is not None:
            return getattr(context, name)(x)
        value = plain(x)
        return float(value) if type(x) in (int, float) else value

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"mpmath's {name} of a number or an array, float64 or mpmath, in the precision of x."
    return call


sqrt = _either("sqrt", np.sqrt)
exp = _either("exp", np.exp)
expm1 = _either("expm1", np.expm1)
log = _either("log", np.log)
log1p = _either("log1p", np.log1p)
sin = _either("sin", np.sin)
cos = _either("cos", np.cos)
tanh = _either("tanh", np.tanh)
sinh = _either("sinh", np.sinh)
cosh = _either("cosh", np.cosh)
asin = _either("asin", np.arcsin)
acos = _either("acos", np.arccos)
atan = _either("atan", np.arctan)
erf = _either("erf", special.erf)
gamma = _either("gamma", special.gamma)
ncdf = _either("ncdf", special.ndtr)
npdf = _either("npdf", lambda x: np.exp(-np.square(x) / 2) / math.sqrt(2 * math.pi))


def angle_of_cosine(x: Any) -> Any:
    """arccos of one number, clipped to [−1, 1].

    Example:
        >>> angle_of_cosine(1.0 + 1e-15)
        0.0
    """
    return acos(min(max(x, -1), 1) + 0 * x)  # the bounds take the precision of x


def atan2(y: Any, x: Any) -> Any:
    """The angle of (x, y), two numbers.

    Example:
        >>> atan2(0.0, 1.0)
        0.0
    """
    context = getattr(y, "context", None) or getattr(x, "context", None)
    return math.atan2(y, x) if context is None else context.atan2(y, x)


def pi_like(*values: Any) -> Any:
    """π in the precision of the values.

    Example:
        >>> pi_like(1.0, np.ones(2)) == math.pi
        True
    """
    return +next((one for one in map(library_of, values) if one is not math), math).pi


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
