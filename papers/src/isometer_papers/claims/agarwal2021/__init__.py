"""Paper 004, "A Deep Conditioning Treatment of Neural Networks", claim by claim."""

from isometer_papers.claims._claim import Claim, with_second
from isometer_papers.claims.agarwal2021 import (
    activation_facts,
    interpolation,
    length_cosines,
    lengths,
    normalization,
    normrelu,
    one_layer,
    optimization,
    proof_steps,
    queries,
    second,
    sentences,
    table,
    tangent,
    top_layer,
    uncentred,
    uncentred_limits,
)

CLAIMS: tuple[Claim, ...] = with_second(
    (
        *normalization.CLAIMS,
        *activation_facts.CLAIMS,
        *table.CLAIMS,
        *top_layer.CLAIMS,
        *tangent.CLAIMS,
        *uncentred.CLAIMS,
        *uncentred_limits.CLAIMS,
        *lengths.CLAIMS,
        *length_cosines.CLAIMS,
        *optimization.CLAIMS,
        *queries.CLAIMS,
        *interpolation.CLAIMS,
        *one_layer.CLAIMS,
        *normrelu.CLAIMS,
        *sentences.CLAIMS,
        *proof_steps.CLAIMS,
    ),
    second.SECOND,
)
