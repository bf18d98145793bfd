"""Numbers for reading; imports nothing that takes time, since every table needs it."""

from __future__ import annotations

import math
import re

_ROUNDING = 1e-13  # times the numbers that a result is the difference of; a float64 cannot say less


def number(value: float | None, digits: int = 6, *, beside: float = 0.0) -> str:
    """A number for reading: short, with ∞ and – spelt as such.

    Args:
        value: the number.
        digits: significant ones.
        beside: the size of the numbers that it comes from, 1 for a cosine; what rounding leaves of them prints as 0.

    Example:
        >>> number(-4.44e-16, beside=1.0), number(-4.44e-16), number(2.0 / 3, 3, beside=1.0)
        ('0', '−4.44e−16', '0.667')
    """
    if value is None:
        return "–"
    if abs(value) < _ROUNDING * beside:
        return "0"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{digits}g}"
    return "0" if float(text) == 0.0 else text.replace("-", "−")


def spread(half: float) -> str:
    """Half the width of an interval, to one digit.

    Example:
        >>> spread(0.0312), spread(18.7), spread(4e-7)
        ('±0.03', '±20', '±4e−07')
    """
    rough = float(f"{half:.1g}")
    return f"±{rough:.0f}" if 1.0 <= rough < 1e4 else f"±{rough:.1g}".replace("-", "−")


def rounded(text: str) -> str:
    """A text for reading: numbers with more than four decimals are given to four digits.

    Example:
        >>> rounded("dense(gain=1.5925374197228312) > act('tanh')")
        "dense(gain=1.593) > act('tanh')"
    """
    return re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found[0]):.4g}", text)
