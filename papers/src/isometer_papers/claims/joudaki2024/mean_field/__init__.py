"""The claims of paper 001, chapters 3 to 5 and Appendix B."""

from __future__ import annotations

from isometer_papers.claims._claim import Claim
from isometer_papers.claims.joudaki2024.mean_field import (
    activations,
    contraction,
    convergence,
    covariances,
    gram_figures,
    gram_map,
    hermite,
    isometry,
    logarithms,
    mixing,
    normalization,
    norms,
    proof_chord,
    proof_interior,
    variation,
    wide_networks,
)

CLAIMS: tuple[Claim, ...] = (
    *gram_map.CLAIMS,
    *mixing.CLAIMS,
    *gram_figures.CLAIMS,
    *covariances.CLAIMS,
    *variation.CLAIMS,
    *logarithms.CLAIMS,
    *isometry.CLAIMS,
    *normalization.CLAIMS,
    *hermite.CLAIMS,
    *contraction.CLAIMS,
    *convergence.CLAIMS,
    *proof_chord.CLAIMS,
    *proof_interior.CLAIMS,
    *norms.CLAIMS,
    *wide_networks.CLAIMS,
    *activations.CLAIMS,
)
