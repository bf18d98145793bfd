"""003, §4 and Appendix D, thesis 2.3: orthogonal representations make the next linear layer Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import at_most, equal, vanishes
from isometer_papers.claims.daneshmand2021.definitions import WITH_ZEROS
from isometer_papers.claims.daneshmand2021.instances import spectrum_search
from isometer_papers.claims.daneshmand2021.source import Source
from isometer_papers.theory.orthogonality.bounds import gaussian_distance, spectral_gap, unit_trace


def _quotients(i: Instance) -> Any:
    """Σ(σ_i² − 1/n)²/(σ_i + 1/√n)²."""
    values = unit_trace(i["squares"])
    n, one = len(values), values[0] * 0 + 1
    return ((values - one / n) ** 2 / (values**0.5 + one / n**0.5) ** 2).sum()


def _apart(i: Instance) -> bool:
    """Not orthogonal, where both sides are 0."""
    return bool(spectral_gap(i["squares"]) > 1e-3)


def _orthogonal(rng: Rng, count: int) -> Any:
    for n in range(1, min(count, 30) + 1):
        yield {"squares": np.full(n, 1.0)}


def claims(s: Source) -> tuple[Claim, ...]:
    """The claims of a paper."""
    return (
        *s.expectation(
            "gaussian",
            "W₂(law(W_ℓH_ℓ), law(G/√n))² ≤ 2n E V(H_ℓ)",
            at_most(
                lambda i: gaussian_distance(i["squares"]), lambda i: 2 * len(i["squares"]) * spectral_gap(i["squares"])
            ),
            WITH_ZEROS,
            search=spectrum_search(),
            hypotheses=_apart,
            scope="given H_ℓ of norm 1, where W₂² = Σ(σ_i − 1/√n)²; for random H_ℓ its mean bounds W₂²",
            remark="loose: W₂² ≤ nV², about nV²/4 near orthogonality; at ℓ = 0 it needs ‖H_0‖_F = 1",
        ),
        *s.deterministic(
            "gaussian:quotients",
            "Σ(σ_i − 1/√n)² = Σ(σ_i² − 1/n)²/(σ_i + 1/√n)²",
            equal(lambda i: gaussian_distance(i["squares"]), _quotients),
            WITH_ZEROS,
            at="proof",
            scale=1,
        ),
        *s.deterministic(
            "gaussian:square",
            "Σ(σ_i − 1/√n)² ≤ n Σ(σ_i² − 1/n)² = n V²",
            at_most(
                lambda i: gaussian_distance(i["squares"]), lambda i: len(i["squares"]) * spectral_gap(i["squares"]) ** 2
            ),
            WITH_ZEROS,
            at="proof",
            search=spectrum_search(),
            hypotheses=_apart,
        ),
        *s.deterministic(
            "gaussian:last",
            "n V²(H_ℓ) ≤ 2n V(H_ℓ)",
            at_most(
                lambda i: len(i["squares"]) * spectral_gap(i["squares"]) ** 2,
                lambda i: 2 * len(i["squares"]) * spectral_gap(i["squares"]),
            ),
            WITH_ZEROS,
            at="proof",
            search=spectrum_search(),
            hypotheses=_apart,
            remark="V < 1",
        ),
        *s.deterministic(
            "gaussian:orthogonal",
            "for orthogonal H_ℓ, W_ℓH_ℓ is equal in distribution to an isotropic Gaussian matrix: W₂ = 0",
            vanishes(lambda i: gaussian_distance(i["squares"])),
            {"orthogonal": _orthogonal},
            at="text before it",
            remark="standard up to the variance 1/(nd) of its entries",
        ),
    )
