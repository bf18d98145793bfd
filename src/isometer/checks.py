"""Numbers that come from outside, checked in one place: whole numbers and real ones, each within a stated range."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isometer.errors import IsometerError

WIDEST = 10**7
"""Features of a layer and samples of a batch, at most: what is larger fits into no computer's memory."""
DEEPEST = 10**7
"""Layers of a network, at most, where each is computed."""
MOST_RUNS = 10**7
"""Independent networks, at most."""
LARGEST_SEED = 2**63 - 1
"""The largest seed: the largest whole number that files of results can hold."""

LARGEST_ENTRY = 1e100
"""The largest number of a batch, and one over the smallest that counts: squares and sums of squares stay numbers."""

_SHOWN = 60  # characters of what came that fit into a message


def whole_number(
    value: Any,
    name: str,
    *,
    low: int = 1,
    high: int | None = None,
    fix: str = "pass one",
    error: type[IsometerError] = IsometerError,
) -> int:
    """A whole number from `low` to `high`, or an error that says what was expected and what came.

    Args:
        value: an `int` or a whole number of NumPy; a bool is none.
        name: what it is, for the message.
        low: the smallest allowed.
        high: the largest allowed, None for no limit.
        fix: what to do about a wrong one.
        error: class of the error.

    Example:
        >>> whole_number(3, "depth")
        3
        >>> whole_number(10**18, "runs", high=1000, fix="pass the number of networks")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: runs is 1000000000000000000; expected a whole number from 1 to 1000 — pass ...
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        span = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise error(f"{name} is {shown(value)}; expected a whole number {span} — {fix}")
    return int(value)


def real_number(
    value: Any,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    above: bool = False,
    infinite: bool = False,
    fix: str = "pass one",
    error: type[IsometerError] = IsometerError,
) -> float:
    """A real number from `low` to `high`, or an error that says what was expected and what came; nan is none.

    Args:
        value: a Python or NumPy number; a bool is none.
        name: what it is, for the message.
        low: the smallest allowed.
        high: the largest allowed.
        above: `low` itself is not allowed.
        infinite: whether +∞ is allowed, whatever `high`.
        fix: what to do about a wrong one.
        error: class of the error.

    Example:
        >>> real_number(2, "gain"), real_number(math.inf, "γ", infinite=True)
        (2.0, inf)
        >>> real_number(-1.0, "variance", low=0.0, fix="pass a variance")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: variance is -1.0; expected a finite number of at least 0 — pass a variance
    """
    expected = _expected(low, high, above, infinite)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise error(f"{name} is {shown(value)}; expected {expected} — {fix}")
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        number = math.nan
    if number == math.inf and infinite:
        return number
    if not (math.isfinite(number) and low <= number <= high and not (above and number == low)):
        raise error(f"{name} is {shown(value)}; expected {expected} — {fix}")
    return number


def seed_number(value: Any, name: str = "seed") -> int:
    """A seed: a whole number from 0 to `LARGEST_SEED`.

    Example:
        >>> seed_number(7)
        7
        >>> seed_number(-1)
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: seed is -1; expected a whole number from 0 to 9223372036854775807 — ...
    """
    return whole_number(
        value, name, low=0, high=LARGEST_SEED, fix="any such number gives independent draws; 0, for example"
    )


def check_entries(largest: float, *, single: bool = False, name: str = "batch") -> None:
    """Refuse arrays whose largest modulus is so large or small that its square is no number.

    Args:
        largest: the largest modulus.
        single: in single precision.
        name: what it is, for the message.

    Example:
        >>> check_entries(3.0)
        >>> check_entries(1e200)
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the largest entry of batch is 1e+200; expected 0, or 1e-100 to 1e+100 — ...
    """
    most = 1e15 if single else LARGEST_ENTRY
    if largest != 0.0 and not 1.0 / most <= largest <= most:
        raise IsometerError(
            f"the largest entry of {name} is {largest:.3g}; expected 0, or {1 / most:g} to {most:g} — rescale it"
        )


def shown(value: Any) -> str:
    """A value in a message: what came, cut where it is long.

    Example:
        >>> shown(10**18), len(shown(10**100))
        ('1000000000000000000', 61)
    """
    if isinstance(value, np.generic):
        value = value.item()
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write thousands of digits
        return f"a number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _expected(low: float, high: float, above: bool, infinite: bool) -> str:
    least = f"above {low:g}" if above else f"of at least {low:g}"
    if math.isfinite(low) and math.isfinite(high):
        span = f" from {low:g} to {high:g}" if not above else f" {least}, at most {high:g}"
    elif math.isfinite(low):
        span = f" {least}"
    else:
        span = "" if math.isinf(high) else f" of at most {high:g}"
    return f"a finite number{span}" + (", or inf" if infinite else "")
