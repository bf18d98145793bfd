"""003, §4 and Appendix D, thesis 2.3: orthogonal representations make the next linear layer Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Instance
from isometer_papers.claims.daneshmand2021.definitions import WITH_ZEROS
from isometer_papers.claims.daneshmand2021.instances import Rng, spectrum_search, unit_scale
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
        *s.claims(
            "gaussian",
            "expectation",
            "W₂(law(W_ℓH_ℓ), law(G/√n))² ≤ 2n E V(H_ℓ)",
            "<=",
            lambda i: 2 * len(i["squares"]) * spectral_gap(i["squares"]),
            WITH_ZEROS,
            quantity=lambda i: gaussian_distance(i["squares"]),
            search=spectrum_search(),
            hypotheses=_apart,
            scope="given H_ℓ of norm 1, where W₂² = Σ(σ_i − 1/√n)²; for random H_ℓ its mean bounds W₂²",
            remark="loose: W₂² ≤ nV², about nV²/4 near orthogonality; at ℓ = 0 it needs ‖H_0‖_F = 1",
        ),
        *s.claims(
            "gaussian",
            "deterministic",
            "Σ(σ_i − 1/√n)² = Σ(σ_i² − 1/n)²/(σ_i + 1/√n)²",
            "==",
            _quotients,
            WITH_ZEROS,
            quantity=lambda i: gaussian_distance(i["squares"]),
            part="quotients",
            at="proof",
            scale=unit_scale,
        ),
        *s.claims(
            "gaussian",
            "deterministic",
            "Σ(σ_i − 1/√n)² ≤ n Σ(σ_i² − 1/n)² = n V²",
            "<=",
            lambda i: len(i["squares"]) * spectral_gap(i["squares"]) ** 2,
            WITH_ZEROS,
            quantity=lambda i: gaussian_distance(i["squares"]),
            part="square",
            at="proof",
            search=spectrum_search(),
            hypotheses=_apart,
        ),
        *s.claims(
            "gaussian",
            "deterministic",
            "n V²(H_ℓ) ≤ 2n V(H_ℓ)",
            "<=",
            lambda i: 2 * len(i["squares"]) * spectral_gap(i["squares"]),
            WITH_ZEROS,
            quantity=lambda i: len(i["squares"]) * spectral_gap(i["squares"]) ** 2,
            part="last",
            at="proof",
            search=spectrum_search(),
            hypotheses=_apart,
            remark="V < 1",
        ),
        *s.claims(
            "gaussian",
            "deterministic",
            "for orthogonal H_ℓ, W_ℓH_ℓ is equal in distribution to an isotropic Gaussian matrix: W₂ = 0",
            "==",
            lambda i: 0,
            {"orthogonal": _orthogonal},
            quantity=lambda i: gaussian_distance(i["squares"]),
            part="orthogonal",
            at="text before it",
            scale=unit_scale,
            remark="standard up to the variance 1/(nd) of its entries",
        ),
    )
