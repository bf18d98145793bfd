"""The claims of paper 001, chapter 6 and Appendix C."""

from __future__ import annotations

from isometer_papers.claims._claim import Claim
from isometer_papers.claims.joudaki2024.isometry import (
    decay,
    definitions,
    eigenvalues,
    expectations,
    figures,
    gap_steps,
    hitting,
    jacobians,
    losses,
    paths,
    rotations,
    second_phase,
    shaping,
    single_draws,
    tables,
    weingarten,
)

CLAIMS: tuple[Claim, ...] = (
    *definitions.CLAIMS,
    *rotations.CLAIMS,
    *expectations.CLAIMS,
    *weingarten.CLAIMS,
    *decay.CLAIMS,
    *gap_steps.CLAIMS,
    *paths.CLAIMS,
    *hitting.CLAIMS,
    *single_draws.CLAIMS,
    *second_phase.CLAIMS,
    *losses.CLAIMS,
    *jacobians.CLAIMS,
    *eigenvalues.CLAIMS,
    *figures.CLAIMS,
    *shaping.CLAIMS,
    *tables.CLAIMS,
)
