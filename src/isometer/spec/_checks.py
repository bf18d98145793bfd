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


def whole(value: Any, name: str, fix: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise SpecError(f"{name} is {value!r}; expected a whole number of at least 1 — {fix}")
    return int(value)


def number(value: Any, name: str, *, infinite: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise SpecError(f"{name} is {value!r}; expected a number — pass one")
    result = float(value)
    if math.isnan(result) or (math.isinf(result) and not (infinite and result > 0)):
        raise SpecError(f"{name} is {result}; expected a finite number — pass one")
    return result


def one_of(value: Any, allowed: Sequence[str], name: str) -> None:
    if value not in allowed:
        raise unknown_name(name, value, allowed, error=SpecError, fix="pass one of them")
