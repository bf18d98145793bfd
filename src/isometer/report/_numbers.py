"""Numbers for reading; imports nothing that takes time, since every table needs it."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 6) -> str:
    """A number for reading: short, with ∞ and – spelt as such."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{digits}g}"
    return "0" if float(text) == 0.0 else text.replace("-", "−")
