"""Numbers for reading; imports nothing that takes time, since every table needs it."""

from __future__ import annotations

import math
import re


def number(value: float | None, digits: int = 6) -> str:
    """A number for reading: short, with ∞ and – spelt as such."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{digits}g}"
    return "0" if float(text) == 0.0 else text.replace("-", "−")


def rounded(text: str) -> str:
    """A text for reading: numbers with more than four decimals are given to four digits.

    Example:
        >>> rounded("dense(gain=1.5925374197228312) > act('tanh')")
        "dense(gain=1.593) > act('tanh')"
    """
    return re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found[0]):.4g}", text)
