"""Checks that name what was expected, what came and the fix."""

from collections.abc import Sequence
from typing import Any

from isometer.checks import DEEPEST, WIDEST, real_number, whole_number
from isometer.errors import IsometerError, unknown_name

LARGEST = 1e100
"""The largest number of a spec: its square is a float64 with room to spare, and no network needs more."""


class SpecError(IsometerError):
    """A network spec names something that does not exist or does not fit together.

    Example:
        >>> from isometer.spec import Spec
        >>> Spec(width=100, depth=0)
        Traceback (most recent call last):
        ...
        isometer.spec._checks.SpecError: depth is 0; expected a whole number from 1 to 10000000 — ...
    """


def whole(value: Any, name: str, fix: str) -> int:
    most = DEEPEST if name == "depth" else WIDEST
    return whole_number(value, name, high=most, fix=fix, error=SpecError)


def number(value: Any, name: str, *, low: float = -LARGEST, infinite: bool = False) -> float:
    return real_number(value, name, low=low, high=LARGEST, infinite=infinite, error=SpecError)


def one_of(value: Any, allowed: Sequence[str], name: str) -> None:
    if value not in allowed:
        raise unknown_name(name, value, allowed, error=SpecError, fix="pass one of them")
