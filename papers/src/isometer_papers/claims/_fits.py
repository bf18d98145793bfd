"""Limits and exponents from a few estimates, with their errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from isometer.errors import IsometerError
from isometer_papers.claims._claim import Estimate


def intercept(abscissae: Sequence[float], values: Sequence[Estimate]) -> Estimate:
    """The value at 0 of the straight line through independent estimates, by weighted least squares.

    Example:
        >>> line = intercept([1.0, 2.0, 3.0], [Estimate(3.0, 0.1), Estimate(5.0, 0.1), Estimate(7.0, 0.1)])
        >>> round(line.value, 12)
        1.0
    """
    return _line(abscissae, values)[0]


def slope(abscissae: Sequence[float], values: Sequence[Estimate]) -> Estimate:
    """The slope of the straight line through independent estimates, by weighted least squares.

    Example:
        >>> round(slope([1.0, 2.0], [Estimate(3.0, 0.1), Estimate(5.0, 0.1)]).value, 12)
        2.0
    """
    return _line(abscissae, values)[1]


def exponent(abscissae: Sequence[float], values: Sequence[Estimate]) -> Estimate:
    """d log(value) / d log(abscissa) of positive estimates.

    Example:
        >>> round(exponent([1.0, 10.0], [Estimate(2.0, 0.01), Estimate(200.0, 1.0)]).value, 12)
        2.0
    """
    if any(value.value <= 0 for value in values):
        raise IsometerError("an exponent needs positive values — check the signs")
    logs = [Estimate(math.log(v.value), v.error / v.value, v.freedom, v.draws) for v in values]
    return slope([math.log(x) for x in abscissae], logs)


def beyond_power_law(places: Sequence[float], logarithms: Any) -> Any:
    """Slope of a logarithm between the last two of three places, less the slope that a power law predicts there.

    The power law is the one through the first two places. The result is positive for exponential growth, zero for
    growth by a power and for none, and negative for exponential decay.

    Args:
        places: three, ascending and positive.
        logarithms: of the quantity there, `(3, …)`.

    Returns:
        One number per column.

    Example:
        >>> places = [10.0, 20.0, 40.0]
        >>> round(float(beyond_power_law(places, [0.3 * x for x in places])), 12)  # e^{0.3 x}
        0.15
        >>> round(float(beyond_power_law(places, [3 * math.log(x) for x in places])), 12)  # x³
        0.0
    """
    near, middle, far = places
    if not 0 < near < middle < far:
        raise IsometerError(f"places are {list(places)}; expected three ascending positive numbers")
    values = np.asarray(logarithms, dtype=float)
    power = (values[1] - values[0]) / math.log(middle / near)
    return (values[2] - values[1] - power * math.log(far / middle)) / (far - middle)


def combined(parts: Sequence[tuple[float, Estimate]], value: float) -> Estimate:
    """A function of estimates that may depend on one another: errors add up, each times its derivative.

    Example:
        >>> combined([(2.0, Estimate(1.0, 0.1)), (-1.0, Estimate(1.0, 0.2))], 1.0).error
        0.4
    """
    error = sum(abs(derivative) * part.error for derivative, part in parts)
    return Estimate(value, error, min(part.freedom for _, part in parts), min(part.draws for _, part in parts))


def _line(abscissae: Sequence[float], values: Sequence[Estimate]) -> tuple[Estimate, Estimate]:
    x = np.asarray(abscissae, dtype=float)
    y = np.array([value.value for value in values])
    errors = np.array([value.error for value in values])
    if len(x) < 2 or len(x) != len(y) or not (errors > 0).all():
        raise IsometerError(
            f"a line needs at least two estimates with errors, one per place; got {len(y)} for {len(x)}"
        )
    # rows over their errors have unit variance: (AᵀA)⁻¹ is then the covariance of the fit
    design = np.stack([np.ones_like(x), x], axis=1) / errors[:, None]
    covariance = np.linalg.inv(design.T @ design)
    fit = covariance @ design.T @ (y / errors)
    freedom, draws = min(value.freedom for value in values), min(value.draws for value in values)
    return (
        Estimate(float(fit[0]), float(np.sqrt(covariance[0, 0])), freedom, draws),
        Estimate(float(fit[1]), float(np.sqrt(covariance[1, 1])), freedom, draws),
    )
