"""Paper 004, "A Deep Conditioning Treatment of Neural Networks", claim by claim."""

from isometer.claims.claim import Claim
from isometer.claims.paper_004 import (
    activation_facts,
    interpolation,
    lengths,
    normrelu,
    one_layer,
    optimization,
    queries,
    tangent,
    top_layer,
    uncentred,
)

CLAIMS: tuple[Claim, ...] = (
    *activation_facts.CLAIMS,
    *top_layer.CLAIMS,
    *tangent.CLAIMS,
    *uncentred.CLAIMS,
    *lengths.CLAIMS,
    *optimization.CLAIMS,
    *queries.CLAIMS,
    *interpolation.CLAIMS,
    *one_layer.CLAIMS,
    *normrelu.CLAIMS,
)
