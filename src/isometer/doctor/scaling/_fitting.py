"""Exponents: straight lines through logarithms, with Student's intervals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from isometer.doctor.scaling._measuring import Quantity, Record

Floats = NDArray[np.float64]
AT_START = ("activation", "logits", "stream", "branch", "gradient")
"""Quantities whose exponent is that before training; the others are averaged over the steps, in logarithms."""


@dataclass(frozen=True)
class Exponent:
    """How one quantity depends on width or depth: it grows like width^value.

    Example:
        >>> Exponent("width", "update", "hidden", "blocks.*.weight", 0.97, 0.05, 9).nearest
        1.0

    Attributes:
        axis: `width` or `depth`.
        quantity: what was measured.
        group: group of parameters, `model` for logits, `stream` for residual streams.
        label: names of the parameters, with `*` for numbers; `all` for a whole group.
        value: slope of the logarithm against that of the size.
        error: half of its 95 % interval.
        points: number of points that the line is fitted to.
        repeated: whether it is about parameters of which deeper models have more.
    """

    axis: str
    quantity: str
    group: str
    label: str
    value: float
    error: float
    points: int
    repeated: bool = False

    @property
    def nearest(self) -> float:
        """The nearest multiple of ½: theory has no others."""
        return round(2 * self.value) / 2 if math.isfinite(self.value) else math.nan

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


def fitted(axis: str, sizes: Sequence[int], records: Sequence[Sequence[Record]]) -> list[Exponent]:
    """Exponents of every quantity that all sizes have, by role and by group.

    Args:
        axis: `width` or `depth`.
        sizes: along it.
        records: by size and seed.
    """
    shared = set.intersection(*(set(_quantities(row)) for row in records))
    order = [one for one in _quantities(records[0]) if one in shared]
    tables = {one: table(one, records) for one in order}
    found = [_exponent(axis, one, one.role.label, sizes, tables[one]) for one in order]
    for name, group, repeated in dict.fromkeys((q.name, q.role.group, q.role.repeated) for q in order):
        mine = [q for q in order if (q.name, q.role.group, q.role.repeated) == (name, group, repeated)]
        merged = _mean([tables[one] for one in mine])
        found.append(_exponent(axis, mine[0], "all", sizes, merged))
    return found


def _quantities(row: Sequence[Record]) -> list[Quantity]:
    return [one for one in row[0].values if all(one in record.values for record in row)]


def table(quantity: Quantity, records: Sequence[Sequence[Record]]) -> Floats:
    """Logarithms `(size, seed)`; nan where there is nothing positive at the same steps of all sizes and seeds."""
    rows = [[record.values[quantity] for record in row] for row in records]
    steps = min(len(values) for row in rows for values in row)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.asarray([[values[:steps] for values in row] for row in rows], dtype=np.float64))
    if quantity.name in AT_START and quantity.name != "gradient":
        logs = logs[..., :1]
    usable = np.isfinite(logs).all(axis=(0, 1))
    if not usable.any():
        return np.full(logs.shape[:2], math.nan)
    # The first step that all have: a gradient may be zero before the output layer has moved.
    kept = logs[..., usable][..., :1] if quantity.name in AT_START else logs[..., usable]
    found: Floats = kept.mean(axis=-1)
    return found


def _mean(tables: Sequence[Floats]) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all of them may be nan
        found: Floats = np.nanmean(np.stack(tables), axis=0)
    return found


def _exponent(axis: str, quantity: Quantity, label: str, sizes: Sequence[int], logs: Floats) -> Exponent:
    value, error, points = slope(np.log(np.asarray(sizes, dtype=np.float64)), logs)
    role = quantity.role
    return Exponent(axis, quantity.name, role.group, label, value, error, points, role.repeated)


def slope(logs: Floats, values: Floats) -> tuple[float, float, int]:
    """Least squares through `(size, seed)` values: slope, half of its 95 % interval, points.

    Example:
        >>> slope(np.log([1.0, 2.0, 4.0]), 0.5 * np.log([[1.0], [2.0], [4.0]]))
        (0.5, 0.0, 3)
    """
    x = np.repeat(logs, values.shape[1])
    y = values.reshape(-1)
    if not np.isfinite(y).all():
        return math.nan, math.nan, 0
    centred = x - x.mean()
    spread = float(centred @ centred)
    found = float(centred @ y) / spread
    if len(y) < 3:
        return found, math.nan, len(y)
    rest = y - y.mean() - found * centred
    error = math.sqrt(float(rest @ rest) / (len(y) - 2) / spread)
    error = 0.0 if error < 1e-12 else error
    return round(found, 12), float(stats.t.ppf(0.975, len(y) - 2)) * error, len(y)


def by_key(exponents: Sequence[Exponent]) -> Mapping[tuple[str, str, str, bool], Exponent]:
    """Exponents of whole groups by axis, quantity, group and whether the parameters repeat."""
    return {(e.axis, e.quantity, e.group, e.repeated): e for e in exponents if e.label == "all"}


def curve_of(one: Exponent, records: Sequence[Sequence[Record]]) -> list[float]:
    """The values that the exponent of a whole group was fitted to, geometric means over seeds, by size."""
    shared = set.intersection(*(set(_quantities(row)) for row in records))
    key = (one.quantity, one.group, one.repeated)
    mine = [q for q in _quantities(records[0]) if q in shared and (q.name, q.role.group, q.role.repeated) == key]
    if not mine:
        return []
    return [float(value) for value in np.exp(_mean([table(q, records) for q in mine]).mean(axis=-1))]
