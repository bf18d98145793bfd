"""Numbers with intervals, read off results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from isometer.errors import IsometerError
from isometer_papers.studies._study import Measured

LEVEL = 0.95


def mean_interval(values: ArrayLike, axis: int = 0, *, level: float = LEVEL) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean over independent runs and the half-width of its Student interval, 95 % unless told; 0 for a single run.

    Example:
        >>> mean, half = mean_interval([1.0, 2.0, 3.0])
        >>> float(mean), round(float(half), 3)
        (2.0, 2.484)
    """
    data = np.asarray(values, dtype=float)
    count = data.shape[axis]
    mean = data.mean(axis)
    if count < 2:
        return mean, np.zeros_like(mean)
    return mean, stats.t.isf((1 - level) / 2, count - 1) * data.std(axis, ddof=1) / math.sqrt(count)


def epochs_measured(settings: Mapping[str, Any]) -> list[int]:
    """Those after which a network was tested and measured: every so many, the last, and 0, before training.

    Example:
        >>> epochs_measured({"epochs": 5, "every": 2})
        [0, 2, 4, 5]
    """
    last = settings["epochs"]
    return sorted({*range(0, last + 1, settings["every"]), last})


def measured(values: ArrayLike) -> Measured:
    """The mean of independent runs as a number with its interval.

    Example:
        >>> measured([1.0, 1.0]).uncertainty
        0.0
    """
    data = np.asarray(values, dtype=float).ravel()
    if data.size == 0:
        raise IsometerError("there are no values to take the mean of; expected at least one")
    mean, half = mean_interval(data)
    return Measured(float(mean), float(half))


def log_slope(abscissae: ArrayLike, values: ArrayLike) -> Measured:
    """d log(value) / d log(abscissa), by least squares in each run, then the mean over runs.

    Args:
        abscissae: positive, one per column.
        values: positive, runs by columns; one row is one run.

    Returns:
        The exponent; of a single run the interval is that of the least-squares line.

    Example:
        >>> round(log_slope([1, 10, 100], [[5, 50, 500], [3, 30, 300]]).value, 12)
        1.0
    """
    x, y = np.log(np.asarray(abscissae, dtype=float)), np.log(np.atleast_2d(np.asarray(values, dtype=float)))
    if y.shape[0] == 1:
        fit = stats.linregress(x, y[0])
        half = float(fit.stderr) * float(stats.t.isf((1 - LEVEL) / 2, len(x) - 2)) if len(x) > 2 else 0.0
        return Measured(float(fit.slope), half)
    centred = x - x.mean()
    return measured(y @ centred / (centred @ centred))


def line_slope(abscissae: ArrayLike, values: ArrayLike) -> Measured:
    """d value / d abscissa by least squares through independent points, with its interval.

    Args:
        abscissae: one per column.
        values: runs by columns; all points are independent of each other.

    Example:
        >>> line_slope([0, 1, 2], [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]).value
        2.0
    """
    y = np.atleast_2d(np.asarray(values, dtype=float))
    x = np.broadcast_to(np.asarray(abscissae, dtype=float), y.shape)
    if y.size < 3 or np.ptp(x) == 0:
        raise IsometerError(f"a line through {y.size} points was requested; expected at least 3, at two abscissae")
    fit = stats.linregress(x.ravel(), y.ravel())
    return Measured(float(fit.slope), float(fit.stderr) * float(stats.t.isf((1 - LEVEL) / 2, y.size - 2)))


def straightness(abscissae: ArrayLike, values: ArrayLike) -> float:
    """R² of a straight line through the means over runs (first dimension); 1 if the means do not vary.

    Example:
        >>> round(straightness([0, 1, 2], [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]), 9)
        1.0
    """
    mean = np.atleast_2d(np.asarray(values, dtype=float)).mean(0)
    if np.ptp(mean) == 0:
        return 1.0
    return float(np.corrcoef(np.asarray(abscissae, dtype=float), mean)[0, 1] ** 2)


def jackknife(runs: ArrayLike, statistic: Callable[[NDArray[Any]], float]) -> Measured:
    """A number computed from the mean over runs (first dimension), with the interval from leaving out one run each.

    Example:
        >>> jackknife([[1.0], [3.0]], lambda mean: 10 * mean[0]).value
        20.0
    """
    data = np.asarray(runs, dtype=float)
    count = len(data)
    if count < 2:
        raise IsometerError(f"an interval from {count} runs was requested; expected at least 2 runs")
    without = np.array([statistic((data.sum(0) - one) / (count - 1)) for one in data])
    error = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    return Measured(float(statistic(data.mean(0))), error * float(stats.t.isf((1 - LEVEL) / 2, count - 1)))
