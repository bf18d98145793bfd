"""Checks that name what was expected, what came and the fix."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from isometer.errors import IsometerError, unknown_name


class SpecError(IsometerError):
    """A network spec asks for something that does not exist or does not fit together.

    Example:
        >>> from isometer.spec import Spec
        >>> Spec(width=100, depth=0)
        Traceback (most recent call last):
        ...
        isometer.spec._checks.SpecError: depth is 0; expected a whole number of at least 1 — ...
    """


MOST_LAYERS = 10_000_000
"""Layers of a spec: a number for each still fits into memory."""
MOST_FEATURES = 2**53
"""Features of a layer: every number up to it is one of float64."""


def whole(value: Any, name: str, fix: str, *, most: int = MOST_FEATURES) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise SpecError(f"{name} is {_shown(value)}; expected a whole number of at least 1 — {fix}")
    if value > most:
        raise SpecError(f"{name} is {_shown(value)}; expected a whole number of at most {most} — {fix}")
    return int(value)


def number(value: Any, name: str, *, infinite: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise SpecError(f"{name} is {_shown(value)}; expected a number — pass one")
    try:
        result = float(value)
    except (OverflowError, TypeError):  # a whole number beyond float64, a complex one
        raise SpecError(f"{name} is {_shown(value)}; expected a number of float64 — pass one") from None
    if math.isnan(result) or (math.isinf(result) and not (infinite and result > 0)):
        raise SpecError(f"{name} is {result}; expected a finite number — pass one")
    return result


def _shown(value: Any) -> str:
    """A value in a message; what is long is cut, and Python refuses to write whole numbers of many digits."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:60]}…"


def one_of(value: Any, allowed: Sequence[str], name: str) -> None:
    if value not in allowed:
        raise unknown_name(name, value, allowed, error=SpecError, fix="pass one of them")
