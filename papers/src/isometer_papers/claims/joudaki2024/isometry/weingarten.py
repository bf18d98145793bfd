"""001, eq. C.25 to C.31: moments of Haar matrices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.run import seed_of
from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims.joudaki2024.isometry.draws import polar_factors
from isometer_papers.claims.joudaki2024.isometry.instances import Rng, whole
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


def _product(w: Any, i: Instance) -> Estimate:
    """Of the entries named, in units of 1/d²."""
    values = np.ones(len(w))
    for row, column in zip(i["rows"], i["columns"], strict=True):
        values = values * w[:, row, column]
    return Estimate.of(values * i["d"] ** 2)


def _estimate(i: Instance, rng: Rng) -> Estimate:
    return _product(_matrices(i["d"]), i)


def _again(i: Instance, rng: Rng) -> Estimate:
    return _product(polar_factors(_DRAWS, i["d"], rng), i)


def _all(rng: Rng, count: int) -> Iterator[Instance]:
    for d in (2, 3, 5):
        for rows, columns in _INDICES:
            yield {"d": d, "rows": rows, "columns": columns}


def _fixed(index: int) -> Any:
    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        rows, columns = _INDICES[index]
        for d in (2, 3, 5)[:count]:
            yield {"d": d, "rows": rows, "columns": columns}

    return generator


def _second(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(_matrices(i["d"])[:, 0, 0] ** 2 * i["d"])


def _denominator(d: int) -> int:
    return d * (d + 2) * (d - 1)


def _printed_second(i: Instance) -> float:
    return float((i["d"] + 1) / _denominator(i["d"]) + 2 * (-1 / _denominator(i["d"])))


_COMMON: dict[str, Any] = {
    "estimate": _estimate,
    "again": _again,
    "independence": "polar factors instead of QR, other draws",
    "counts": (12, 12),
    "resolution": 0.1,
}

CLAIMS = (
    Claim(
        "001/weingarten:eq-C.25",
        "eq. C.25",
        "expectation",
        "E Π r_{i_k j_k} = Σ_σ Σ_τ Δ_σ(i) Δ_σ(j) Wg(σ⁻¹τ)",
        "==",
        lambda i: float(pairing_moment_as_printed(i["d"], i["rows"], i["columns"])) * i["d"] ** 2,
        {"indices": _all},
        corrected="001/weingarten:eq-C.25#corrected",
        scale=lambda i: 1,
        scope="order 4, in units of 1/d², both sums over the pairings of the four indices",
        remark="for E W_11² W_22², d = 2, it gives 1/8 where E cos⁴ = 3/8",
        **_COMMON,
    ),
    Claim(
        "001/weingarten:eq-C.25#corrected",
        "eq. C.25",
        "expectation",
        "E Π r_{i_k j_k} = Σ_σ Σ_τ Δ_σ(i) Δ_τ(j) Wg(σ⁻¹τ)",
        "==",
        lambda i: float(pairing_moment(i["d"], i["rows"], i["columns"])) * i["d"] ** 2,
        {"indices": _all},
        scale=lambda i: 1,
        scope="order 4, in units of 1/d²",
        **_COMMON,
    ),
    Claim(
        "001/weingarten:second",
        "eq. C.23",
        "expectation",
        "E W_ik² = 1/d",
        "==",
        lambda i: 1.0,
        {"widths": whole((2, 3, 5))},
        estimate=_second,
        counts=(3, 3),
        resolution=0.03,
        scope="times d",
    ),
    Claim(
        "001/weingarten:E1",
        "under eq. C.28",
        "expectation",
        "E₁ = E W_ik² W_jq² = (d+1)/(d(d+2)(d−1)), i ≠ j, k ≠ q",
        "==",
        lambda i: i["d"] ** 2 * (i["d"] + 1) / _denominator(i["d"]),
        {"widths": _fixed(0)},
        **{**_COMMON, "counts": (3, 3)},
        scope="times d²",
    ),
    Claim(
        "001/weingarten:E2",
        "eq. C.29 to C.31",
        "expectation",
        "E₂ = E W_ik² W_jk² = (d−1)/(d(d+2)(d−1)), i ≠ j",
        "==",
        lambda i: i["d"] ** 2 * (i["d"] - 1) / _denominator(i["d"]),
        {"widths": _fixed(1)},
        **{**_COMMON, "counts": (3, 3)},
        scope="times d²",
    ),
    Claim(
        "001/weingarten:eq-C.30",
        "eq. C.30",
        "deterministic",
        "Wg([1,1]) + 2 Wg([2]) = (d−1)/(d(d+2)(d−1))",
        "==",
        lambda i: (i["d"] - 1) / _denominator(i["d"]),
        {"widths": whole((2, 3, 4, 7, 20, 100))},
        quantity=_printed_second,
    ),
)
