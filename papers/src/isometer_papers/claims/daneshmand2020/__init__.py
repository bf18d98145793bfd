"""Paper 002, "Theoretical understanding of batch-normalization: a Markov chain perspective", claim by claim."""

from isometer_papers.claims._claim import Claim, with_second
from isometer_papers.claims.daneshmand2020 import (
    expansion,
    expansion_steps,
    figures,
    gradients,
    invariance,
    operators,
    ranks,
    regularity,
    second,
    sentences,
    stationary,
    vanilla,
)

CLAIMS: tuple[Claim, ...] = with_second(
    (
        *operators.CLAIMS,
        *ranks.CLAIMS,
        *stationary.CLAIMS,
        *regularity.CLAIMS,
        *vanilla.CLAIMS,
        *invariance.CLAIMS,
        *expansion.CLAIMS,
        *expansion_steps.CLAIMS,
        *gradients.CLAIMS,
        *figures.CLAIMS,
        *sentences.CLAIMS,
    ),
    second.SECOND,
)
