"""Now beside before: medians of the last observations and of those around half and a quarter as many steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isometer.doctor.watch._observation import StepReading

Floats = NDArray[np.float64]
HIDDEN = frozenset({"activation", "norm", "add", "attention", "recurrent", "other"})
_LATEST = 3  # observations whose median is "now", so that one outlier raises nothing
_EARLIER, _FROM, _TO = 0.09, 0.3, 0.6  # of the steps so far: "earlier" ends where "before" begins
_MOST = 6.0  # decades that a score tells apart


@dataclass(frozen=True)
class NowAndBefore:
    """Observations of now, of before, and of earlier than that."""

    now: Sequence[StepReading]
    before: Sequence[StepReading]
    earlier: Sequence[StepReading] = ()
    parameter_names: Sequence[str] = ()
    matrices: Sequence[bool] | None = None

    @classmethod
    def of(
        cls,
        observations: Sequence[StepReading],
        parameter_names: Sequence[str] = (),
        matrices: Sequence[bool] | None = None,
    ) -> NowAndBefore | None:
        """`None` while there is too little to compare; `matrices` says which parameters are, all unless given."""
        now = observations[-_LATEST:]
        step = observations[-1].step
        before = [one for one in observations[:-_LATEST] if _FROM * step <= one.step <= _TO * step]
        earlier = [one for one in observations[:-_LATEST] if _EARLIER * step <= one.step < _FROM * step]
        known = len(now) == _LATEST and bool(before)
        return cls(now, before, earlier, parameter_names, matrices) if known else None

    def values(self, metric: str) -> tuple[Floats, Floats]:
        """Medians by layer of now, and of before."""
        return _medians(self.now, metric, "values"), _medians(self.before, metric, "values")

    def first(self, name: str, table: str) -> Floats | None:
        """Medians of earlier, `None` where there are none of as many places."""
        found = _medians(self.earlier, name, table)
        return found if len(found) and len(found) == len(_medians(self.now, name, table)) else None

    def parameters(self, name: str) -> tuple[Floats, Floats]:
        """Medians by parameter of now, and of before."""
        return _medians(self.now, name, "parameters"), _medians(self.before, name, "parameters")

    def scalars(self, name: str) -> tuple[float, float]:
        """Medians of now, and of before."""
        now, before = (
            np.array([one.scalars.get(name, math.nan) for one in some], dtype=np.float64)
            for some in (self.now, self.before)
        )
        return _median(now), _median(before)

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
        last = self.now[-1]
        found = np.array([layer.kind in HIDDEN for layer in last.layers], dtype=bool)
        found[list(last.outputs)] = False
        return found


def _medians(some: Sequence[StepReading], name: str, table: str) -> Floats:
    """Of those with as many places as the last one: a model that runs otherwise is another model."""
    rows = [getattr(one, table)[name] for one in some if name in getattr(one, table)]
    rows = [row for row in rows if len(row) == len(rows[-1])]
    if not rows or not len(rows[0]):
        return np.empty(0)
    stacked: Floats = np.sort(np.stack(rows), axis=0)  # nan last
    known = np.sum(~np.isnan(stacked), axis=0)
    middle = np.maximum(known - 1, 0) // 2
    found: Floats = np.take_along_axis(stacked, middle[None], axis=0)[0]
    return found


def _median(numbers: Floats) -> float:
    known = numbers[~np.isnan(numbers)]
    return float(np.median(known)) if known.size else math.nan


@dataclass(frozen=True)
class SignScore:
    """How strong a sign is, where it is seen, and in which words."""

    value: float
    places: tuple[str, ...] = ()
    reason: str = ""


NOTHING = SignScore(math.nan)


def decades(now: Floats, before: Floats) -> Floats:
    """log₁₀ of now over before, within ±6; nan where one of them is not known."""
    with np.errstate(all="ignore"):
        found = np.log10(now) - np.log10(before)
    found = np.where(np.isnan(now) | np.isnan(before) | (now == before), np.where(now == before, 0.0, math.nan), found)
    clipped: Floats = np.clip(found, -_MOST, _MOST)
    return clipped


def beyond(now: Floats, before: Floats, earlier: Floats | None, sign: float = 1.0, floor: float = 0.0) -> Floats:
    """Decades that a quantity rose (or fell, with sign −1) beyond what it did before; `floor` is added to all."""
    change = sign * decades(np.maximum(now, 0) + floor, np.maximum(before, 0) + floor)
    if earlier is None:
        return change
    usual = sign * decades(np.maximum(before, 0) + floor, np.maximum(earlier, 0) + floor)
    return change - np.maximum(0.0, np.nan_to_num(usual, nan=0.0))
