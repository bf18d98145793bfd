"""002, §2 and §7.1–7.2: the space 𝓗, rank and soft rank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.metrics import rank, soft_rank, stable_rank
from isometer_papers.claims._claim import Claim, Instance
from isometer_papers.claims._precise import eigenvalues, numerical_rank
from isometer_papers.claims.daneshmand2020.instances import (
    Rng,
    extreme_unit,
    random_any,
    random_unit,
    search_unit,
    unit_scale,
    with_threshold,
)
from isometer_papers.theory.rank.bounds import power_sums, second_moments, soft_rank_bound

UNIT = {"random": random_unit, "extreme": extreme_unit}


def _offdiagonal(i: Instance) -> Any:
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


def _upper_mass(i: Instance) -> Any:
    values = eigenvalues(second_moments(i["H"]))
    return sum(value for value in values if value >= i["tau"] * (1 - 1e-12))


def square_gap(h: Any) -> Any:
    return abs((h * h).sum(axis=0) / h.shape[0] - 1).max()


def _thresholded(rng: Rng, count: int) -> Iterator[Instance]:
    """Thresholds that are eigenvalues, exactly."""
    yield {"H": np.array([[1.0, 1.0], [1.0, -1.0]]), "tau": 1.0}
    yield {"H": np.ones((2, 2)), "tau": 2.0}


def _positive(i: Instance) -> bool:
    return bool(i["tau"] > 0)


def _spectral_rank(i: Instance) -> Any:
    values = eigenvalues(second_moments(i["H"]))
    return values.sum() ** 2 / (values**2).sum()


CLAIMS = (
    Claim(
        "002/eq-3:spectral",
        "eq. 3",
        "deterministic",
        "Tr(M)²/‖M‖_F² = ‖λ‖₁²/‖λ‖₂²",
        "==",
        _spectral_rank,
        {"random": random_any, "extreme": extreme_unit},
        lambda i: float(stable_rank(i["H"])),
        exact=lambda i: (soft_rank_bound(i["H"], 0), _spectral_rank(i)),
        hypotheses=lambda i: bool(np.any(i["H"])),
    ),
    Claim(
        "002/eq-46",
        "eq. 46",
        "deterministic",
        "r(H) = d²/‖M(H)‖_F² for H ∈ 𝓗",
        "==",
        lambda i: i["H"].shape[1] ** 2 / power_sums(second_moments(i["H"])).square,
        UNIT,
        lambda i: float(stable_rank(i["H"])),
        exact=lambda i: (soft_rank_bound(i["H"], 0), i["H"].shape[1] ** 2 / power_sums(second_moments(i["H"])).square),
    ),
    Claim(
        "002/lem-1",
        "Lemma 1",
        "deterministic",
        "rank(H) > r(H) for every matrix H",
        ">",
        lambda i: soft_rank_bound(i["H"], 0),
        {"random": random_any, "extreme": extreme_unit},
        _rank,
        search=search_unit(3, 3, normalize=False),
        exact=lambda i: (numerical_rank(i["H"]), soft_rank_bound(i["H"], 0)),
        hypotheses=lambda i: bool(np.any(i["H"])),
        corrected="002/lem-1#corrected",
        remark="for H = 0 the ratio r is 0/0; left out",
    ),
    Claim(
        "002/lem-1#corrected",
        "Lemma 1, eq. 18",
        "deterministic",
        "rank(H) ≥ r(H) for every H ≠ 0",
        ">=",
        lambda i: soft_rank_bound(i["H"], 0),
        {"random": random_any, "extreme": extreme_unit},
        _rank,
        search=search_unit(3, 3, normalize=False),
        exact=lambda i: (numerical_rank(i["H"]), soft_rank_bound(i["H"], 0)),
        hypotheses=lambda i: bool(np.any(i["H"])),
        remark="equality exactly when all non-zero eigenvalues are equal",
    ),
    Claim(
        "002/eq-4:words",
        "§2.2",
        "deterministic",
        "rank_τ(H) is the number of singular values greater than √(Nτ)",
        "==",
        _above_threshold,
        {"threshold": _thresholded, "random": with_threshold(random_unit)},
        _soft_rank,
        exact=lambda i: (_exact_soft_rank(i), _exact_soft_rank(i, strict=True)),
        hypotheses=_positive,
        corrected="002/eq-4:words#corrected",
        remark="eq. 4 counts with ≥",
    ),
    Claim(
        "002/eq-4:words#corrected",
        "§2.2",
        "deterministic",
        "rank_τ(H) is the number of singular values of at least √(Nτ)",
        "==",
        lambda i: int((np.linalg.svd(i["H"], compute_uv=False) >= math.sqrt(len(i["H"]) * i["tau"])).sum()),
        {"random": with_threshold(random_unit)},
        _soft_rank,
        hypotheses=_positive,
        exact=lambda i: (_exact_soft_rank(i), _exact_soft_rank(i)),
    ),
    Claim(
        "002/eq-4:below-rank",
        "§2.2",
        "deterministic",
        "rank_τ(H) is less than rank(H) for all H",
        "<",
        _rank,
        {"threshold": _thresholded, "random": with_threshold(random_unit)},
        _soft_rank,
        exact=lambda i: (_exact_soft_rank(i), numerical_rank(i["H"])),
        hypotheses=_positive,
        corrected="002/eq-4:below-rank#corrected",
    ),
    Claim(
        "002/eq-4:below-rank#corrected",
        "§2.2",
        "deterministic",
        "rank_τ(H) ≤ rank(H) for τ > 0",
        "<=",
        _rank,
        {"threshold": _thresholded, "random": with_threshold(random_unit)},
        _soft_rank,
        exact=lambda i: (_exact_soft_rank(i), numerical_rank(i["H"])),
        hypotheses=lambda i: bool(i["tau"] > 1e-6),
        remark="for τ = 0 the count is d whatever the rank",
    ),
    Claim(
        "002/def-space-H:diagonal",
        "§7.1 (i)",
        "deterministic",
        "the diagonal of M(H) is 1 for H ∈ 𝓗",
        "==",
        lambda i: 0,
        UNIT,
        lambda i: square_gap(i["H"]),
        scale=unit_scale,
    ),
    Claim(
        "002/def-space-H:trace",
        "§7.1",
        "deterministic",
        "the eigenvalues of M(H) sum to d for H ∈ 𝓗",
        "==",
        lambda i: i["H"].shape[1],
        UNIT,
        lambda i: eigenvalues(second_moments(i["H"])).sum(),
    ),
    Claim(
        "002/def-space-H:off-diagonal",
        "§7.1 (ii)",
        "deterministic",
        "|M(H)_ij| < 1 for i ≠ j and H ∈ 𝓗",
        "<",
        lambda i: 1,
        UNIT,
        _offdiagonal,
        corrected="002/def-space-H:off-diagonal#corrected",
        remark="the proof of Lemma 21 has ≤",
    ),
    Claim(
        "002/def-space-H:off-diagonal#corrected",
        "§7.6, proof of Lemma 21",
        "deterministic",
        "|M(H)_ij| ≤ 1 for i ≠ j and H ∈ 𝓗",
        "<=",
        lambda i: 1,
        UNIT,
        _offdiagonal,
        search=search_unit(3, 2),
    ),
    Claim(
        "002/lem-2",
        "Lemma 2",
        "deterministic",
        "rank_τ(H) ≥ (1−τ)² r(H) for H ∈ 𝓗, τ ∈ [0, 1]",
        ">=",
        lambda i: soft_rank_bound(i["H"], i["tau"]),
        {"random": with_threshold(random_unit), "extreme": with_threshold(extreme_unit)},
        _soft_rank,
        search=search_unit(3, 3, ["tau"]),
        exact=lambda i: (_exact_soft_rank(i), soft_rank_bound(i["H"], i["tau"])),
        trivial=lambda i: 0,
    ),
    Claim(
        "002/lem-2:mass",
        "eq. 22–24",
        "deterministic",
        "Σ_{λ_i ≥ τ} λ_i ≥ ‖λ‖₁ − dτ for H ∈ 𝓗",
        ">=",
        lambda i: i["H"].shape[1] * (1 - i["tau"]),
        {"random": with_threshold(random_unit), "extreme": with_threshold(extreme_unit)},
        _upper_mass,
        search=search_unit(3, 3, ["tau"]),
        scale=lambda i: i["H"].shape[1],
    ),
)
