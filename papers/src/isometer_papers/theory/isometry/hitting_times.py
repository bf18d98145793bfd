"""Batch norm without recentring, as many samples as features: the bound of hitting times of isometry."""

from __future__ import annotations

from isometer.errors import IsometerError

__all__ = ["printed_hitting_bound"]


def printed_hitting_bound(gap: float, d: int) -> float:
    """512 d⁴ ψ₀², the bound of the expected time to reach a gap of 1/(16d), without its unnamed constant.

    Example:
        >>> round(printed_hitting_bound(0.1, 10))
        51200

    Implements: 001/lem-C.14 (as printed).
    """
    if not gap >= 0.0:
        raise IsometerError(f"gap is {gap}; expected gap ≥ 0 — pass isometry gaps")
    return 0.0 if gap <= 1.0 / (16 * d) else 512.0 * d**4 * gap**2
