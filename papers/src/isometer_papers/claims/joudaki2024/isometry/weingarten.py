"""001, eq. C.25 to C.31: moments of Haar matrices."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from isometer.run import seed_of
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import Sampled, deterministic, equal, expectation
from isometer_papers.claims.joudaki2024.isometry.draws import POLAR, polar_factors
from isometer_papers.claims.joudaki2024.isometry.instances import whole
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.rotations import haar_matrices
from isometer_papers.theory.isometry import pairing_moment, pairing_moment_as_printed

_DRAWS = 100_000
_INDICES = (
    ([0, 0, 1, 1], [0, 0, 1, 1]),
    ([0, 0, 1, 1], [0, 0, 0, 0]),
    ([0, 0, 0, 0], [0, 0, 0, 0]),
    ([0, 0, 1, 1], [0, 1, 0, 1]),
)


@lru_cache(maxsize=8)
def _matrices(d: int) -> Any:
    return haar_matrices(_DRAWS, d, np.random.default_rng(seed_of(f"001 haar {d}")))


def _product(w: Numeric, i: Instance) -> Estimate:
    """Of the entries named, in units of 1/d²."""
    values = np.ones(len(w))
    for row, column in zip(i["rows"], i["columns"], strict=True):
        values = values * w[:, row, column]
    return Estimate.of(values * i["d"] ** 2)


def _estimate(i: Instance, rng: Rng) -> Estimate:
    return _product(_matrices(i["d"]), i)


def _again(i: Instance, rng: Rng) -> Estimate:
    return _product(polar_factors(_DRAWS, i["d"], rng), i)


_all = cases(*({"d": d, "rows": rows, "columns": columns} for d in (2, 3, 5) for rows, columns in _INDICES))


def _fixed(index: int) -> Any:
    return cases(*({"d": d, "rows": _INDICES[index][0], "columns": _INDICES[index][1]} for d in (2, 3, 5)))


def _second(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(_matrices(i["d"])[:, 0, 0] ** 2 * i["d"])


def _denominator(d: int) -> int:
    return d * (d + 2) * (d - 1)


def _printed_second(i: Instance) -> float:
    return float((i["d"] + 1) / _denominator(i["d"]) + 2 * (-1 / _denominator(i["d"])))


_PRODUCT = Sampled(_estimate, _again, POLAR)

CLAIMS = (
    expectation(
        "001/weingarten:eq-C.25",
        equal(_PRODUCT, lambda i: float(pairing_moment_as_printed(i["d"], i["rows"], i["columns"])) * i["d"] ** 2),
        {"indices": _all},
        counts=(12, 12),
        resolution=0.1,
        scale=1,
    ),
    expectation(
        "001/weingarten:eq-C.25#corrected",
        equal(_PRODUCT, lambda i: float(pairing_moment(i["d"], i["rows"], i["columns"])) * i["d"] ** 2),
        {"indices": _all},
        counts=(12, 12),
        resolution=0.1,
        scale=1,
    ),
    expectation(
        "001/weingarten:second",
        equal(Sampled(_second), 1.0),
        {"widths": whole((2, 3, 5))},
        counts=(3, 3),
        resolution=0.03,
    ),
    expectation(
        "001/weingarten:E1",
        equal(_PRODUCT, lambda i: i["d"] ** 2 * (i["d"] + 1) / _denominator(i["d"])),
        {"widths": _fixed(0)},
        counts=(3, 3),
        resolution=0.1,
    ),
    expectation(
        "001/weingarten:E2",
        equal(_PRODUCT, lambda i: i["d"] ** 2 * (i["d"] - 1) / _denominator(i["d"])),
        {"widths": _fixed(1)},
        counts=(3, 3),
        resolution=0.1,
    ),
    deterministic(
        "001/weingarten:eq-C.30",
        equal(_printed_second, lambda i: (i["d"] - 1) / _denominator(i["d"])),
        {"widths": whole((2, 3, 4, 7, 20, 100))},
    ),
)
