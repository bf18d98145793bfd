"""Paper 003, "Batch normalization orthogonalizes representations in deep random networks", claim by claim.

The thesis (001, chapter 2 and Appendix A) prints nearly the same statements: modules here have a function `claims` that
makes the claims of either paper, each to its letter.
"""

from isometer_papers.claims._claim import Claim, with_second
from isometer_papers.claims.daneshmand2021 import (
    contraction,
    definitions,
    drift,
    figures,
    gaussian,
    initialisation,
    inputs,
    networks,
    proof_steps,
    rates,
    second,
)
from isometer_papers.claims.daneshmand2021.source import PAPER

CLAIMS: tuple[Claim, ...] = with_second(
    (
        *definitions.claims(PAPER),
        *inputs.claims(PAPER),
        *rates.claims(PAPER),
        *gaussian.claims(PAPER),
        *drift.claims(PAPER),
        *contraction.claims(PAPER),
        *figures.claims(PAPER),
        *initialisation.claims(PAPER),
        *proof_steps.claims(PAPER),
        *networks.CLAIMS,
    ),
    second.SECOND,
)
