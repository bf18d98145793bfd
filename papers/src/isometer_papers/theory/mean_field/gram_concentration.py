"""The concentration bound of the thesis for Gram matrices under batch norm, as printed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric

__all__ = ["concentration_bound"]


def concentration_bound(
    depth: ArrayLike,
    n: int,
    width: int,
    *,
    condition: float,
    mixing: float,
    constant: float = 1.0,
    simple: bool = False,
) -> Numeric:
    """The right-hand side of 001/thm-3.2 for ‖G_ℓ − G*‖_F, whose O(·) hides a constant.

    `C κ(G*) [(1 − α)^{ℓ/2} + (n/√d) α^{−1/2} ln^{1/2}(d/n)]`; the simple form (3.9) has n/√d alone in its second term.

    Args:
        depth: ℓ, a number or an array.
        n: samples.
        width: d, more than n.
        condition: κ(G*).
        mixing: α in (0, 1], the rate of the chain's laws in total variation.
        constant: C, which the thesis does not give.
        simple: eq. 3.9 instead of 3.5.

    Returns:
        The bound at every depth.

    Example:
        >>> round(float(concentration_bound(20, 10, 1000, condition=2.0, mixing=1.0, simple=True)), 4)  # 2 · 10/√1000
        0.6325

    Implements: 001/thm-3.2 (3.5), 001/eq-3.9.
    """
    if not 0 < mixing <= 1:
        raise IsometerError(f"mixing is {mixing}; expected a rate α in (0, 1]")
    if not width > n >= 1:
        raise IsometerError(f"n is {n} and width {width}; expected more neurons than samples")
    spread = n / math.sqrt(width)
    if not simple:
        spread *= math.sqrt(math.log(width / n) / mixing)
    layers = np.asarray(depth, dtype=np.float64)
    values = constant * condition * ((1 - mixing) ** (layers / 2) + spread)
    return float(values) if values.ndim == 0 else values
