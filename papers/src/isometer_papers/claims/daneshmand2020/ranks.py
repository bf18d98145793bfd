"""002, §2 and §7.1–7.2: the space 𝓗, rank and soft rank."""

from __future__ import annotations

import math

import numpy as np

from isometer.metrics import rank, soft_rank, stable_rank
from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import cases
from isometer_papers.claims._precise import eigenvalues, numerical_rank
from isometer_papers.claims._statements import above, at_least, at_most, below, deterministic, equal, vanishes
from isometer_papers.claims.daneshmand2020.instances import (
    extreme_unit,
    random_any,
    random_unit,
    search_unit,
    with_threshold,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.rank.bounds import power_sums, second_moments, soft_rank_bound

UNIT = {"random": random_unit, "extreme": extreme_unit}


def _offdiagonal(i: Instance) -> Numeric:
    m = second_moments(i["H"])
    return abs(m * (1 - np.eye(len(m), dtype=int))).max()


def _rank(i: Instance) -> float:
    return float(rank(i["H"], tolerance=1e-9))


def _soft_rank(i: Instance) -> float:
    return float(soft_rank(i["H"], tau=float(i["tau"])))


def _exact_soft_rank(i: Instance, *, strict: bool = False) -> int:
    values = eigenvalues(second_moments(i["H"]))
    # 40 digits decide what is equal to the threshold
    near = 1e-40 * (values[-1] + 1)
    return int(sum(value > i["tau"] + near if strict else value >= i["tau"] - near for value in values))


def _above_threshold(i: Instance) -> int:
    values = np.linalg.svd(i["H"], compute_uv=False)
    return int((values > math.sqrt(len(i["H"]) * i["tau"]) * (1 + 1e-12)).sum())


def _upper_mass(i: Instance) -> Numeric:
    values = eigenvalues(second_moments(i["H"]))
    return sum(value for value in values if value >= i["tau"] * (1 - 1e-12))


def square_gap(h: Numeric) -> Numeric:
    return abs((h * h).sum(axis=0) / h.shape[0] - 1).max()


# Thresholds that are eigenvalues, exactly.
_thresholded = cases({"H": np.array([[1.0, 1.0], [1.0, -1.0]]), "tau": 1.0}, {"H": np.ones((2, 2)), "tau": 2.0})


def _positive(i: Instance) -> bool:
    return bool(i["tau"] > 0)


def _spectral_rank(i: Instance) -> Numeric:
    values = eigenvalues(second_moments(i["H"]))
    return values.sum() ** 2 / (values**2).sum()


CLAIMS = (
    deterministic(
        "002/eq-3:spectral",
        equal(lambda i: float(stable_rank(i["H"])), _spectral_rank),
        {"random": random_any, "extreme": extreme_unit},
        exact=lambda i: (soft_rank_bound(i["H"], 0), _spectral_rank(i)),
        hypotheses=lambda i: bool(np.any(i["H"])),
    ),
    deterministic(
        "002/eq-46",
        equal(
            lambda i: float(stable_rank(i["H"])),
            lambda i: i["H"].shape[1] ** 2 / power_sums(second_moments(i["H"])).square,
        ),
        UNIT,
        exact=lambda i: (soft_rank_bound(i["H"], 0), i["H"].shape[1] ** 2 / power_sums(second_moments(i["H"])).square),
    ),
    deterministic(
        "002/lem-1",
        above(_rank, lambda i: soft_rank_bound(i["H"], 0)),
        {"random": random_any, "extreme": extreme_unit},
        search=search_unit(3, 3, normalize=False),
        exact=lambda i: (numerical_rank(i["H"]), soft_rank_bound(i["H"], 0)),
        hypotheses=lambda i: min(i["H"].shape) > 1 and bool(np.any(i["H"])),
    ),
    deterministic(
        "002/lem-1#corrected",
        at_least(_rank, lambda i: soft_rank_bound(i["H"], 0)),
        {"random": random_any, "extreme": extreme_unit},
        search=search_unit(3, 3, normalize=False),
        exact=lambda i: (numerical_rank(i["H"]), soft_rank_bound(i["H"], 0)),
        hypotheses=lambda i: bool(np.any(i["H"])),
    ),
    deterministic(
        "002/eq-4:words",
        equal(_soft_rank, _above_threshold),
        {"threshold": _thresholded, "random": with_threshold(random_unit)},
        exact=lambda i: (_exact_soft_rank(i), _exact_soft_rank(i, strict=True)),
        hypotheses=_positive,
    ),
    deterministic(
        "002/eq-4:words#corrected",
        equal(
            _soft_rank,
            lambda i: int((np.linalg.svd(i["H"], compute_uv=False) >= math.sqrt(len(i["H"]) * i["tau"])).sum()),
        ),
        {"random": with_threshold(random_unit)},
        hypotheses=_positive,
        exact=lambda i: (_exact_soft_rank(i), _exact_soft_rank(i)),
    ),
    deterministic(
        "002/eq-4:below-rank",
        below(_soft_rank, _rank),
        {"threshold": _thresholded, "random": with_threshold(random_unit)},
        exact=lambda i: (_exact_soft_rank(i), numerical_rank(i["H"])),
        hypotheses=_positive,
    ),
    deterministic(
        "002/eq-4:below-rank#corrected",
        at_most(_soft_rank, _rank),
        {"threshold": _thresholded, "random": with_threshold(random_unit)},
        exact=lambda i: (_exact_soft_rank(i), numerical_rank(i["H"])),
        hypotheses=lambda i: bool(i["tau"] > 1e-6),
    ),
    deterministic("002/def-space-H:diagonal", vanishes(lambda i: square_gap(i["H"])), UNIT),
    deterministic(
        "002/def-space-H:trace",
        equal(lambda i: eigenvalues(second_moments(i["H"])).sum(), lambda i: i["H"].shape[1]),
        UNIT,
    ),
    deterministic(
        "002/def-space-H:off-diagonal", below(_offdiagonal, 1), UNIT, hypotheses=lambda i: min(i["H"].shape) > 1
    ),
    deterministic("002/def-space-H:off-diagonal#corrected", at_most(_offdiagonal, 1), UNIT, search=search_unit(3, 2)),
    deterministic(
        "002/lem-2",
        at_least(_soft_rank, lambda i: soft_rank_bound(i["H"], i["tau"])),
        {"random": with_threshold(random_unit), "extreme": with_threshold(extreme_unit)},
        search=search_unit(3, 3, ["tau"]),
        exact=lambda i: (_exact_soft_rank(i), soft_rank_bound(i["H"], i["tau"])),
        trivial=lambda i: 0,
    ),
    deterministic(
        "002/lem-2:mass",
        at_least(_upper_mass, lambda i: i["H"].shape[1] * (1 - i["tau"])),
        {"random": with_threshold(random_unit), "extreme": with_threshold(extreme_unit)},
        search=search_unit(3, 3, ["tau"]),
        scale=lambda i: i["H"].shape[1],
    ),
)
