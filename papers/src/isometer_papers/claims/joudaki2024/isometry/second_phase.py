"""001, Lemmas C.12 and C.15: sums over the layers, on chains of rotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import (
    Comparison,
    Sampled,
    at_most,
    deterministic,
    equal,
    expectation,
    probability,
)
from isometer_papers.claims.joudaki2024.isometry.draws import chains, edge_spectra, hitting_times, rotated, start_gap
from isometer_papers.claims.joudaki2024.isometry.hitting import far_start, near_start, phase
from isometer_papers.claims.joudaki2024.isometry.instances import whole
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.rotations import RotationChain
from isometer_papers.theory.isometry import (
    failure_bound,
    geometric_bound,
    geometric_sum,
    gradient_bound,
    jacobian_bound_from_far,
    root_gap_factor,
    root_gap_step,
    second_phase_bound,
    spectrum_gap,
)

_CONSTANT = 4.0  # in place of ≲


def _late_roots(i: Instance, chain: RotationChain) -> Numeric:
    """Σ_{ℓ=S+1}^L √(dψ_ℓ)."""
    below = chain.gap <= 1 / (16 * i["d"])
    # argmax of a row without True is 0
    hit = np.where(below.any(axis=1), below.argmax(axis=1), chain.gap.shape[1])
    late = np.arange(chain.gap.shape[1]) > hit[:, None]
    return (np.sqrt(i["d"] * chain.gap) * late).sum(axis=1)


def _log_sum(i: Instance, chain: RotationChain) -> Numeric:
    """Σ log‖J_BN(H)‖ over all layers; X_0 = BN(·) in law, so that the first counts."""
    return chain.log_jacobian.sum(axis=1)


def _against_phases(i: Instance, chain: RotationChain) -> Numeric:
    """Left less right of C.91, for the layers 1 … L − 1 of the chain."""
    inner = RotationChain(chain.gap[:, :-1], chain.log_jacobian)
    early = (i["d"] * start_gap(i) + 1) * hitting_times(i, inner)
    return chain.log_jacobian[:, 1:].sum(axis=1) - early - 2 * _late_roots(i, inner)


def _edge(statistic: Any) -> Sampled:
    """Mean of a statistic of ψ'/ψ."""

    def read(i: Instance, squares: Numeric) -> Estimate:
        gap = float(spectrum_gap(i["spectrum"]))
        # ψ′ = ψ + mean log ‖X′_j‖²: rotations keep the determinant, batch norm divides it by the lengths
        ratio = np.maximum(1 + np.log(squares).mean(axis=1) / gap, 0.0)
        return Estimate.of(statistic(ratio, len(i["spectrum"])))

    return rotated(read)


_FAILURE = _edge(lambda ratio, d: (ratio >= 1 - 1 / (4 * d**2)).astype(float))


def _chance_at_isometry(i: Instance) -> Numeric:
    """Pr{ψ(X′) ≥ (1 − 1/(4d²))ψ(X)} for orthogonal X: then WX is orthogonal, and batch norm leaves it alone."""
    before = after = spectrum_gap(i["spectrum"])
    return 0 * before + int(after >= (1 - 1 / (4 * len(i["spectrum"]) ** 2)) * before)


_ROOT = _edge(lambda ratio, d: np.sqrt(ratio))


def _geometric(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"d": 1, "L": 0}
    yield {"d": 1, "L": 10}
    for _ in range(count):
        yield {"d": int(rng.integers(1, 5)), "L": int(10.0 ** rng.uniform(0, 3))}


def _partial_sum(i: Instance) -> Numeric:
    ratio = root_gap_factor(i["d"])
    return sum(ratio**k for k in range(i["L"] + 1))


def _algebra(part: str, compared: Comparison) -> Claim:
    """About whole numbers d."""
    return deterministic(f"001/{part}", compared, {"widths": whole((1, 2, 3, 5, 10, 30))})


CLAIMS = (
    phase("lem-C.15", lambda i: float(second_phase_bound(start_gap(i), i["d"], i["layers"])), _late_roots),
    deterministic(
        "001/lem-C.15:eq-C.99",
        at_most(_chance_at_isometry, lambda i: failure_bound(len(i["spectrum"]), simple=False)),
        {"orthogonal": cases({"spectrum": np.ones(3)}, {"spectrum": np.ones(2)})},
    ),
    probability(
        "001/lem-C.15:eq-C.99#corrected",
        at_most(_FAILURE, lambda i: failure_bound(len(i["spectrum"]), simple=False)),
        {"edge": edge_spectra},
        trivial=lambda i: 1.0,
        counts=(3, 6),
    ),
    _algebra(
        "lem-C.15:eq-C.99-simple",
        at_most(lambda i: failure_bound(i["d"], simple=False), lambda i: failure_bound(i["d"])),
    ),
    _algebra(
        "lem-C.15:eq-C.106",
        equal(
            lambda i: root_gap_step(i["d"], failure_bound(i["d"])),
            lambda i: failure_bound(i["d"]) + (1 - failure_bound(i["d"])) * failure_bound(i["d"]) ** 0.5,
        ),
    ),
    _algebra(
        "lem-C.15:eq-C.108",
        at_most(lambda i: root_gap_step(i["d"], failure_bound(i["d"])), lambda i: root_gap_factor(i["d"])),
    ),
    expectation(
        "001/lem-C.15:eq-C.109",
        at_most(_ROOT, lambda i: root_gap_factor(len(i["spectrum"]))),
        {"edge": edge_spectra},
        counts=(3, 6),
    ),
    deterministic(
        "001/lem-C.15:eq-C.110",
        at_most(_partial_sum, lambda i: geometric_sum(i["d"], i["L"])),
        {"widths": _geometric},
        tolerance=1e-8,
    ),
    deterministic(
        "001/lem-C.15:eq-C.111",
        at_most(lambda i: geometric_sum(i["d"], i["L"]), lambda i: geometric_bound(1.0 * i["d"], 1.0 * i["L"])),
        {"widths": _geometric},
    ),
    deterministic(
        "001/lem-C.15:eq-C.111#corrected",
        at_most(
            lambda i: geometric_sum(i["d"], i["L"], first=1), lambda i: geometric_bound(1.0 * i["d"], 1.0 * i["L"])
        ),
        {"widths": _geometric},
        scale=lambda i: max(1.0, float(i["L"])),
    ),
    phase("lem-C.12#intended", lambda i: float(gradient_bound(start_gap(i), i["d"], i["layers"], _CONSTANT)), _log_sum),
    phase(
        "lem-C.12:eq-C.91",
        0,
        _against_phases,
        families={"chains": chains((2, 0.2, 80), (2, 0.9, 80), (3, 0.95, 80), (5, 0.9, 120))},
        counts=(3, 4),
        resolution=0.5,
    ),
    phase(
        "lem-C.12:eq-C.92",
        lambda i: float(second_phase_bound(start_gap(i), i["d"], i["layers"])),
        _log_sum,
        families={"chains": chains((2, 0.2, 1), (5, 0.05, 80), (2, 0.2, 80), (5, 0.05, 1))},
        hypotheses=near_start,
        counts=(2, 4),
    ),
    phase(
        "lem-C.12:eq-C.94",
        lambda i: float(jacobian_bound_from_far(start_gap(i), i["d"], i["layers"])),
        _log_sum,
        families={"chains": chains((2, 0.5, 1), (2, 0.9, 80), (5, 0.9, 80), (5, 0.99, 80))},
        hypotheses=far_start,
        counts=(3, 4),
    ),
)
