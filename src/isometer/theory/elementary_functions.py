"""Logarithm, inverse trigonometric functions and factorials of floats or of mpmath numbers, arrays included."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["arccos", "arctan2", "gamma_function", "logarithm", "pi_of"]


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float | np.floating | np.integer)


def _library() -> Any:
    import mpmath

    return mpmath


def logarithm(value: Any) -> Any:
    """log x of one number.

    Example:
        >>> logarithm(1.0)
        0.0
    """
    return math.log(value) if _is_plain(value) else _library().log(value)


def arccos(value: Any) -> Any:
    """arccos x of one number, clipped to [−1, 1].

    Example:
        >>> arccos(1.0), arccos(1.0 + 1e-16)
        (0.0, 0.0)
    """
    clipped = min(max(value, -1), 1)
    return math.acos(clipped) if _is_plain(value) else _library().acos(clipped)


def arctan2(y: Any, x: Any) -> Any:
    """The angle of (x, y).

    Example:
        >>> arctan2(0.0, 1.0)
        0.0
    """
    return math.atan2(y, x) if _is_plain(y) and _is_plain(x) else _library().atan2(y, x)


def gamma_function(value: Any) -> Any:
    """Γ(x) of one number.

    Example:
        >>> gamma_function(5.0)
        24.0
    """
    return math.gamma(value) if _is_plain(value) else _library().gamma(value)


def pi_of(value: Any) -> Any:
    """π in the precision of a number.

    Example:
        >>> pi_of(1.0) == math.pi
        True
    """
    return math.pi if _is_plain(value) else +_library().pi
