"""The claims of the thesis (001), chapters 1 and 2 and Appendix A. Most are also printed in 003, often otherwise."""

from isometer_papers.claims._claim import Claim
from isometer_papers.claims.daneshmand2021 import (
    contraction,
    definitions,
    drift,
    figures,
    gaussian,
    initialisation,
    inputs,
    proof_steps,
    rates,
)
from isometer_papers.claims.joudaki2024.orthogonality import assumptions, products
from isometer_papers.claims.joudaki2024.orthogonality.source import THESIS

CLAIMS: tuple[Claim, ...] = (
    *assumptions.INTRODUCTION,
    *definitions.claims(THESIS),
    *inputs.claims(THESIS),
    *rates.claims(THESIS),
    *assumptions.CLAIMS,
    *gaussian.claims(THESIS),
    *drift.claims(THESIS),
    *contraction.claims(THESIS),
    *products.CLAIMS,
    *figures.claims(THESIS),
    *initialisation.claims(THESIS),
    *proof_steps.claims(THESIS),
    *assumptions.BASELINE,
)
