"""Samples of runs compared: what came out, and what the comparison could have seen.

A comparison is *decisive* if it sees the difference that the paper shows with a probability of at least 0.9. Whether it
does follows from that difference in units of the deviation from run to run, and from the number of runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from isometer.errors import IsometerError

LEVEL = 0.01  # of one-sided tests
POWER = 0.9  # of a decisive comparison
_MOST = 10_000  # runs, beyond which no number is told


@dataclass(frozen=True)
class Decisive:
    """The difference that a study has to see.

    Args:
        gap: how large it is.
        of: of what, in words.
        source: where it is from: a published number, or why this one is taken where the paper has none.

    Example:
        >>> Decisive(0.05, "accuracy", "a twentieth of the axis").gap
        0.05
    """

    gap: float
    of: str
    source: str


@dataclass(frozen=True)
class Compared:
    """Samples of runs, compared.

    Args:
        seen: whether what is asked was seen; None where chance explains the difference.
        gap: the difference that had to be seen; None if none was stated.
        deviation: from run to run, the root mean square over the samples.
        runs: of the smaller sample.
        power: the chance that a difference of that size is seen; None without a gap.
        needed: runs of each sample at which that chance is 0.9; None without a gap, or if 10,000 are too few.

    Example:
        >>> Compared(True, 0.05, 0.01, 4, 0.99, 4).seen
        True
    """

    seen: bool | None
    gap: float | None
    deviation: float
    runs: int
    power: float | None
    needed: int | None


Seen = bool | None | Compared


def plain(seen: Seen) -> bool | None:
    """What was seen, without what could have been.

    Example:
        >>> plain(Compared(None, None, 0.1, 4, None, None)), plain(True)
        (None, True)
    """
    return seen.seen if isinstance(seen, Compared) else None if seen is None else bool(seen)


def surely_less(first: ArrayLike, second: ArrayLike, *, level: float = LEVEL) -> bool:
    """Whether one sample of runs is lower than another beyond chance: Welch's test, one-sided.

    Example:
        >>> surely_less([1.0, 1.1, 0.9], [2.0, 2.1, 1.9])
        True
        >>> surely_less([1.0, 1.1, 0.9], [1.0, 1.2, 0.8])
        False
        >>> surely_less([1.0, 1.0, 1.0], [1.0, 1.0 + 1e-15, 2.0])
        False
    """
    a, b = _samples(first, second)
    error, freedom = _welch(a.var(ddof=1), b.var(ddof=1), a.size, b.size)
    if error == 0:
        return bool(a[0] < b[0])
    return bool(stats.t.cdf((a.mean() - b.mean()) / error, freedom) < level)


def ordered(first: ArrayLike, second: ArrayLike, *, gap: float | None = None, level: float = LEVEL) -> Compared:
    """Whether one sample of runs is lower than another.

    True if it is, beyond chance (Welch's test). False if it is higher beyond chance or, with a gap, if the difference
    is surely smaller than the gap. Else undecided.

    Args:
        first: the lower one.
        second: the higher one.
        gap: the difference that the comparison must be able to see.
        level: of the tests.

    Example:
        >>> ordered([1.0, 1.1], [2.0, 2.1]).seen, ordered([2.0, 2.1], [1.0, 1.1]).seen
        (True, False)
        >>> ordered([1.0, 1.1], [1.05, 1.2]).seen, ordered([1.0, 1.1], [1.05, 1.2], gap=5.0).seen
        (None, False)
    """
    a, b = _samples(first, second)
    seen: bool | None = None
    if surely_less(a, b, level=level):
        seen = True
    elif surely_less(b, a, level=level) or (gap is not None and surely_less(b, a + gap, level=level)):
        seen = False
    return _compared(seen, a, b, gap, lambda error, freedom: _order_power(gap or 0.0, error, freedom, level))


def not_below(floor: ArrayLike, runs: ArrayLike, *, gap: float, level: float = LEVEL) -> Compared:
    """Whether a sample of runs is above a floor that is a sample itself, or below it, beyond chance; else undecided.

    For “no worse by more than a margin”: the floor is the other sample less the margin, and the margin is the gap that
    the power is for.

    Example:
        >>> not_below([0.4, 0.41], [0.5, 0.51], gap=0.1).seen, not_below([0.5, 0.52], [0.51, 0.5], gap=0.1).seen
        (True, None)
    """
    a, b = _samples(floor, runs)
    seen = True if surely_less(a, b, level=level) else False if surely_less(b, a, level=level) else None
    return _compared(seen, a, b, gap, _order(gap, level))


def similar(first: ArrayLike, second: ArrayLike, margin: float, *, level: float = LEVEL) -> Compared:
    """Whether the means of two samples of runs are at most a margin apart: beyond chance, or surely not.

    The power is the chance to see that two equal laws are within the margin.

    Example:
        >>> similar([0.5, 0.501, 0.5], [0.5, 0.501, 0.502], 0.03).seen
        True
        >>> similar([0.5, 0.51], [0.72, 0.71], 0.03).seen, similar([0.5, 0.51], [0.52, 0.53], 0.03).seen
        (False, None)
    """
    low, high = sorted(_samples(first, second), key=lambda one: float(one.mean()))
    seen: bool | None = None
    if surely_less(high, low + margin, level=level):
        seen = True
    elif surely_less(low + margin, high, level=level):
        seen = False
    return _compared(seen, low, high, margin, lambda error, freedom: _equal_power(margin, error, freedom, level))


def above(runs: ArrayLike, threshold: float, *, gap: float, level: float = LEVEL) -> Compared:
    """Whether the mean of a sample of runs is above a number, or below it, beyond chance (Student's test).

    The power is the chance to see a mean that lies a gap above the number.

    Example:
        >>> above([0.5, 0.52, 0.51], 0.2, gap=0.1).seen, above([0.1, 0.9], 0.2, gap=0.1).seen
        (True, None)
    """
    data = np.asarray(runs, dtype=float).ravel()
    if data.size < 2:
        raise IsometerError(f"a comparison has {data.size} run; expected at least 2")
    error = float(data.std(ddof=1)) / math.sqrt(data.size)
    away = float(data.mean()) - threshold
    # runs that are all equal to the number are neither above nor below it
    chance = 0.5 - 0.5 * float(np.sign(away)) if error == 0 else float(stats.t.sf(away / error, data.size - 1))
    seen = True if chance < level else False if chance > 1 - level else None
    # a sample against a number: as one against a sample without deviation and with runs without end
    return _powered(seen, (float(data.var(ddof=1)),), data.size, gap, _order(gap, level))


def rising(abscissae: ArrayLike, runs: ArrayLike, *, gap: float | None = None, level: float = LEVEL) -> Compared:
    """Whether a quantity rises along a line: the slope through all runs, by Student's test.

    True if it rises beyond chance. False if it falls or, with a gap, if its rise from the first abscissa to the last is
    surely smaller than that. Else undecided.

    Args:
        abscissae: one per column.
        runs: runs by columns, all points independent of each other.
        gap: the rise that the comparison must be able to see.
        level: of the tests.

    Example:
        >>> rising([0, 1, 2], [[0.0, 1.0, 2.1], [0.1, 0.9, 2.0]]).seen
        True
        >>> flat = [[0.0, 0.1, 0.0], [0.1, 0.0, 0.1]]
        >>> rising([0, 1, 2], flat).seen, rising([0, 1, 2], flat, gap=1.0).seen
        (None, False)
    """
    y = np.atleast_2d(np.asarray(runs, dtype=float))
    x = np.broadcast_to(np.asarray(abscissae, dtype=float), y.shape)
    if y.size < 3 or np.ptp(x) == 0:
        raise IsometerError(f"a rise was requested of {y.size} points; expected at least 3, at two or more abscissae")
    fit, reach = stats.linregress(x.ravel(), y.ravel()), float(np.ptp(x))
    rise, error = float(fit.slope) * reach, float(fit.stderr) * reach

    def chance(below: float) -> float:
        """That a rise of that size, or a smaller one, gives this one."""
        away = rise - below
        if error == 0:
            return 0.5 - 0.5 * float(np.sign(away))
        return float(stats.t.sf(away / error, y.size - 2))

    seen: bool | None = True if chance(0.0) < level else None
    if chance(0.0) > 1 - level or (seen is None and gap is not None and chance(gap) > 1 - level):
        seen = False
    residuals = y - (fit.intercept + fit.slope * x)
    deviation = math.sqrt(float((residuals**2).sum()) / (y.size - 2))
    if gap is None:
        return Compared(seen, None, deviation, len(y), None, None)

    def at(count: int) -> float:
        freedom = max(count * y.shape[1] - 2, 1)
        return _order_power(gap, error * math.sqrt(len(y) / count), freedom, level)

    return Compared(seen, gap, deviation, len(y), at(len(y)), _least(at))


def all_of(statements: Iterable[Seen]) -> Seen:
    """Of statements that may be undecided: false if one is, else undecided if one is; with the weakest comparison.

    Example:
        >>> all_of([True, None]), all_of([None, False]), all_of([True, True])
        (None, False, True)
    """
    found = list(statements)
    seen = [plain(one) for one in found]
    result = False if False in seen else None if None in seen else True
    alike = [one for one in found if isinstance(one, Compared) and one.seen is result]
    if not alike:
        return result
    return min(alike, key=lambda one: 1.0 if one.power is None else one.power)


def by_reading(statements: Mapping[str, Seen], readings: Mapping[str, str]) -> str:
    """What is seen under each of several readings alone, from the statements that do not name another one.

    Args:
        statements: by text.
        readings: the words by which statements name each.

    Example:
        >>> by_reading({"it learns": True, "with a, it is level": False, "with b, it is level": True}, {"a": "with a",
        ...     "b": "with b"})
        'By reading: partly (with a), agree (with b).'
    """
    if len(readings) < 2:
        return ""
    found = []
    for words in readings.values():
        others = [other for other in readings.values() if other != words]
        own = [plain(seen) for text, seen in statements.items() if not any(other in text for other in others)]
        found.append(f"{verdict_of(own)} ({words})")
    return f"By reading: {', '.join(found)}."


def verdict_of(seen: Iterable[bool | None]) -> Any:
    """`agree` if all was seen, `disagree` if nothing was, `partly` in between, `unclear` if nothing can be told.

    Example:
        >>> verdict_of([True, None])
        'partly'
    """
    found = list(seen)
    if all(one is None for one in found):
        return "unclear"
    if all(found):
        return "agree"
    return "disagree" if not any(found) else "partly"


def _samples(first: ArrayLike, second: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    a, b = np.asarray(first, dtype=float).ravel(), np.asarray(second, dtype=float).ravel()
    if a.size < 2 or b.size < 2:
        raise IsometerError(f"a comparison has {min(a.size, b.size)} runs; expected at least 2 on each side")
    return a, b


def _welch(first: float, second: float, one: int, other: int) -> tuple[float, float]:
    """Standard error of a difference of means and its degrees of freedom, from variances and runs."""
    parts = float(first) / one, float(second) / other  # written out: scipy warns of runs that are nearly equal
    error = math.sqrt(sum(parts))
    if error == 0:
        return 0.0, math.inf
    return error, sum(parts) ** 2 / (parts[0] ** 2 / (one - 1) + parts[1] ** 2 / (other - 1))


Power = Callable[[float, float], float]  # of standard error and degrees of freedom


def _order(gap: float, level: float) -> Power:
    return lambda error, freedom: _order_power(gap, error, freedom, level)


def _order_power(gap: float, error: float, freedom: float, level: float) -> float:
    """The chance that Welch's test sees a difference of that size."""
    if error == 0:
        return 1.0
    found = stats.nct.sf(stats.t.isf(level, freedom), freedom, gap / error)
    # scipy's law gives NaN where almost nothing is missing
    return float(found) if math.isfinite(found) else float(stats.norm.sf(stats.norm.isf(level) - gap / error))


def _equal_power(margin: float, error: float, freedom: float, level: float) -> float:
    """The chance that both one-sided tests see a difference below the margin if there is none."""
    if error == 0:
        return 1.0
    room = margin / error - float(stats.t.isf(level, freedom))
    return max(0.0, 2 * float(stats.t.cdf(room, freedom)) - 1)


def _compared(seen: bool | None, a: NDArray[Any], b: NDArray[Any], gap: float | None, power: Power) -> Compared:
    variances = float(a.var(ddof=1)), float(b.var(ddof=1))
    return _powered(seen, variances, min(a.size, b.size), gap, power)


def _powered(seen: bool | None, variances: tuple[float, ...], runs: int, gap: float | None, power: Power) -> Compared:
    deviation = math.sqrt(math.fsum(variances) / len(variances))
    if gap is None:
        return Compared(seen, None, deviation, runs, None, None)

    def at(count: int) -> float:
        if len(variances) == 1:
            return power(math.sqrt(variances[0] / count), count - 1)
        return power(*_welch(variances[0], variances[1], count, count))

    return Compared(seen, gap, deviation, runs, at(runs), _least(at))


def _least(power: Callable[[int], float]) -> int | None:
    """The least number of runs with enough power, from 2 on."""
    high = 2
    while power(high) < POWER:
        high *= 2
        if high > _MOST:
            return None
    low = max(high // 2, 1)  # too few, or 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high
