"""The course of a run: what the next observations should show if it goes on as it did, and how far they depart from it.

A quantity that trains follows a power of the step, or settles: its logarithm is close to a line over log step. The line
is fitted to the observations from 0.45 to 0.86 of the steps so far and prolonged to the last two. What fails by itself
grows or decays exponentially and leaves the line. A departure is measured in tolerances: what ordinary training departs
anyway, and three standard errors of the prediction, by the scatter around the line. Both of the last two observations
must depart, so that one outlier says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isometer.doctor.watch._observation import StepReading

Floats = NDArray[np.float64]
HIDDEN = frozenset({"activation", "norm", "add", "attention", "recurrent", "other"})
WARM_UP = 50  # steps in which nothing is judged: everything changes at once
_LATEST = 2  # observations that must all depart
_FROM, _TO = 0.45, 0.86  # of the steps so far, between which the course is fitted
_FEWEST = 5  # observations that make a course
_ERRORS = 3.0  # standard errors within which a departure is scatter
_MOST = 1e30  # numbers beyond are as large as this one


@dataclass(frozen=True)
class CourseDeparture:
    """How far the last observations are from their course, one number a place.

    Attributes:
        score: in tolerances, the smaller of the last two; positive in the direction that was asked for.
        now: what was seen last.
        expected: what the course leads to.
    """

    score: Floats
    now: Floats
    expected: Floats


@dataclass(frozen=True)
class RunCourse:
    """The last observations, those that make the course, and all before the last."""

    latest: Sequence[StepReading]
    reference: Sequence[StepReading]
    earlier: Sequence[StepReading]
    parameter_names: Sequence[str] = ()
    matrices: Sequence[bool] | None = None

    @classmethod
    def of(
        cls,
        observations: Sequence[StepReading],
        parameter_names: Sequence[str] = (),
        matrices: Sequence[bool] | None = None,
    ) -> RunCourse | None:
        """`None` while there is too little to compare; `matrices` says which parameters are, all by default."""
        step = observations[-1].step
        latest, earlier = observations[-_LATEST:], observations[:-_LATEST]
        reference = [one for one in earlier if _FROM * step <= one.step <= _TO * step]
        if step < WARM_UP or len(reference) < _FEWEST:
            return None
        return cls(latest, reference, earlier, parameter_names, matrices)

    def departure(
        self,
        name: str,
        table: str,
        sign: float,
        tolerance: float,
        scale: CourseScale,
        *,
        level: bool = False,
        prepare: Callable[[Floats], Floats] | None = None,
    ) -> CourseDeparture | None:
        """How far a quantity rose above its course, or fell below it with `sign` −1.

        A course that goes the other way counts as level: a fall that ends is no rise.

        Args:
            name: name of the quantity.
            table: `values`, `parameters` or `scalars`.
            sign: of the departures that count.
            tolerance: that ordinary training needs, in units of the scale.
            scale: on which departures add up.
            level: the quantity should not change at all, so that all earlier observations make its course.
            prepare: makes the numbers that are compared of those of one observation.

        Returns:
            `None` where there are too few observations of as many places.
        """
        last = _rows(self.latest, name, table, prepare)
        known = _rows(self.earlier if level else self.reference, name, table, prepare)
        if len(last) < _LATEST or not last[-1][1].size:
            return None
        places = len(last[-1][1])
        known = [(step, row) for step, row in known if len(row) == places]
        if len(known) < _FEWEST or any(len(row) != places for _, row in last):
            return None
        line = _Line.of(known, scale, sign, level=level)
        scores = [line.departures(step, sign * scale(row), tolerance) for step, row in last]
        expected = scale.back(sign * line.at(last[-1][0])[0])
        return CourseDeparture(np.minimum(*scores), last[-1][1], expected)

    def last(self, name: str) -> Floats:
        """The last two known numbers of a scalar; of the last observation some are known at the next step only."""
        numbers = [one.scalars.get(name, math.nan) for one in (*self.earlier[-1:], *self.latest)]
        return np.array([one for one in numbers if not math.isnan(one)][-_LATEST:], dtype=np.float64)

    def chosen(self, number: int) -> NDArray[np.bool_]:
        """The matrices among some number of parameters; all where it is not known which are, or none is."""
        found = np.zeros(number, dtype=bool) if self.matrices is None else np.array(self.matrices, dtype=bool)
        return found if len(found) == number and found.any() else np.ones(number, dtype=bool)

    def named(self, number: int) -> Sequence[str]:
        """Names of parameters, or their numbers."""
        return self.parameter_names if len(self.parameter_names) == number else list(map(str, range(number)))

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Layers of hidden representations, the outputs left out."""
        last = self.latest[-1]
        found = np.array([layer.kind in HIDDEN for layer in last.layers], dtype=bool)
        found[list(last.outputs)] = False
        return found


@dataclass(frozen=True)
class _Line:
    """A line over log step for every place, by least squares, in the direction that counts."""

    centre: float
    level: Floats
    slope: Floats
    scatter: Floats  # of one observation around the line
    number: int
    spread: float

    @classmethod
    def of(cls, known: Sequence[tuple[int, Floats]], scale: CourseScale, sign: float, *, level: bool) -> _Line:
        x = np.log([step for step, _ in known])
        y = sign * scale(np.stack([row for _, row in known]))
        centre, middle = float(x.mean()), y.mean(axis=0)
        spread = float(np.square(x - centre).sum())
        slope = np.zeros_like(middle) if level else ((x - centre)[:, None] * (y - middle)).sum(axis=0) / spread
        left = y - middle - (x - centre)[:, None] * slope
        scatter = np.sqrt(np.square(left).sum(axis=0) / (len(x) - 2))
        return cls(centre, middle, np.maximum(0.0, slope), scatter, len(x), math.inf if level else spread)

    def at(self, step: int) -> tuple[Floats, Floats]:
        """The expected value at a step, times the sign, and the standard error of one observation there."""
        away = math.log(step) - self.centre
        error = self.scatter * math.sqrt(1 + 1 / self.number + away**2 / self.spread)
        return self.level + self.slope * away, error

    def departures(self, step: int, row: Floats, tolerance: float) -> Floats:
        expected, error = self.at(step)
        found: Floats = (row - expected) / np.hypot(tolerance, _ERRORS * error)
        return found


def _rows(
    some: Sequence[StepReading], name: str, table: str, prepare: Callable[[Floats], Floats] | None
) -> list[tuple[int, Floats]]:
    rows = [(one.step, np.atleast_1d(getattr(one, table)[name])) for one in some if name in getattr(one, table)]
    return rows if prepare is None else [(step, prepare(row)) for step, row in rows]


@dataclass(frozen=True)
class SignScore:
    """How strong a sign is, where it is seen, and in which words."""

    value: float
    places: tuple[str, ...] = ()
    reason: str = ""


NOTHING = SignScore(math.nan)


@dataclass(frozen=True)
class CourseScale:
    """On which departures add up: log₁₀ of what is above `least`, plus `floor`; the number itself if that is `None`.

    Example:
        >>> CourseScale(0.0)(np.array([1.0, 100.0])).tolist(), CourseScale(None)(np.array([0.5])).tolist()
        ([0.0, 2.0], [0.5])
        >>> CourseScale(0.0).back(np.array([2.0])).tolist()
        [100.0]
    """

    floor: float | None
    least: float = 0.0

    def __call__(self, values: Floats) -> Floats:
        if self.floor is None:
            return values
        # Infinity is far away, and nothing is very little: neither is unknown.
        found: Floats = np.log10(np.clip(values - self.least, 0.0, _MOST) + max(self.floor, 1 / _MOST))
        return found

    def back(self, scaled: Floats) -> Floats:
        """The number that has this place on the scale."""
        if self.floor is None:
            return scaled
        found: Floats = 10.0 ** np.minimum(scaled, math.log10(_MOST)) - max(self.floor, 1 / _MOST) + self.least
        return found
