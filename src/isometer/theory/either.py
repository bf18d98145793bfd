"""Elementary functions of float64 or mpmath numbers and arrays: one formula, two precisions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

__all__ = ["apply", "is_precise", "pi_like"]

_FLOAT: dict[str, Any] = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "erf": special.erf,
    "ncdf": special.ndtr,
    "npdf": lambda x: np.exp(-np.square(x) / 2) / math.sqrt(2 * math.pi),
}


def is_precise(*values: Any) -> bool:
    """Whether one of the values is an mpmath number, or an array of them.

    Example:
        >>> import numpy as np
        >>> is_precise(1.0, np.ones(2)), is_precise(np.array([None], dtype=object))
        (False, True)
    """
    return any(hasattr(v, "_mpf_") or getattr(v, "dtype", None) == np.dtype(object) for v in values)


def apply(name: str, x: Any) -> Any:
    """An elementary function, by the name that mpmath gives it.

    Args:
        name: sqrt, exp, log, sin, cos, tanh, sinh, cosh, asin, acos, atan, erf, ncdf or npdf.
        x: a number or an array, float64 or mpmath.

    Returns:
        The value, in the precision of x.

    Example:
        >>> float(apply("sqrt", 4.0)), float(apply("ncdf", 0.0))
        (2.0, 0.5)
    """
    if not is_precise(x):
        return _FLOAT[name](x)
    import mpmath

    function = getattr(mpmath, name)
    return np.frompyfunc(function, 1, 1)(x) if isinstance(x, np.ndarray) else function(x)


def pi_like(*values: Any) -> Any:
    """π in the precision of the values.

    Example:
        >>> pi_like(1.0)
        3.141592653589793
    """
    if not is_precise(*values):
        return math.pi
    import mpmath

    return +mpmath.pi
