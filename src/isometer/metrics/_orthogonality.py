"""How far the samples of a batch are from orthogonal vectors of equal length."""

import math

from isometer.metrics._arrays import Array, identity, result
from isometer.metrics._batch import MetricInput


def orthogonality_gap(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Distance of the trace-normalised Gram matrix from the identity.

    `V(H) = ‖G / tr G − I / n‖_F`, between 0 (orthogonal samples of equal length) and `√(1 − 1/n)` (all samples on one
    line). More samples than features cannot be orthogonal: then `V ≥ √(1/d − 1/n)`. A batch of zeros counts as
    collapsed and has the largest value.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix.

    Example:
        >>> round(float(orthogonality_gap([[1.0, 0.0], [1.0, 0.0]])), 6)  # √(1/2)
        0.707107

    Implements: 001/def-2.2, 001/metric-orthgap, 003/def-V.
    """
    return result(gap_of(MetricInput.of(representation, gram).scaled()))


def gap_of(batch: MetricInput) -> Array:
    """The orthogonality gap of a scaled batch."""
    xp, n = batch.xp, batch.samples
    matrix = batch.smaller_gram()
    side = int(matrix.shape[-1])
    diagonal = xp.linalg.diagonal(matrix)
    trace = xp.sum(diagonal, axis=-1)
    positive = trace > 0
    trace = xp.where(positive, trace, 1.0)
    deviation = diagonal / trace[..., None] - 1 / side
    off_diagonal = matrix / trace[..., None, None]
    off_diagonal = off_diagonal * (1 - identity(matrix, side))
    squared = xp.sum(deviation * deviation, axis=-1) + xp.sum(off_diagonal * off_diagonal, axis=(-2, -1))
    # Σ(λ − 1/n)² over n eigenvalues, n − d of them zero, is Σ(λ − 1/d)² over the others plus 1/d − 1/n.
    squared = squared + (1 / side - 1 / n)
    gap = xp.where(squared > 0, xp.sqrt(xp.where(squared > 0, squared, 1.0)), 0.0)
    return xp.where(positive, gap, math.sqrt(1 - 1 / n))


def spectral_variance(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Variance of the eigenvalues of the Gram matrix scaled to mean eigenvalue 1.

    `σ_λ = (1/n) Σ (λ_k − 1)²` with `Σ λ_k = n`, which is `n V²` of the orthogonality gap V. Between 0 and n − 1, which
    is also the value of a batch of zeros.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix.

    Example:
        >>> round(float(spectral_variance(gram=[[3.0, 0.0], [0.0, 1.0]])), 12)  # eigenvalues 3/2 and 1/2
        0.25

    Implements: 001/metric-sigma-lambda (C.51).
    """
    batch = MetricInput.of(representation, gram)
    return result(batch.samples * orthogonality_gap(batch.representation, gram=batch.given_gram) ** 2)


def lyapunov_gap(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """How far the smallest singular value is below that of orthogonal samples.

    `V̂(H) = 1/n − σ_n(H)²` for H scaled to `‖H‖_F = 1`, so `1/n − λ_min / tr G`. Between 0 (orthogonal) and 1/n
    (linearly dependent samples, a batch of zeros included).

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix.

    Example:
        >>> float(lyapunov_gap(gram=[[3.0, 0.0], [0.0, 1.0]]))
        0.25

    Implements: 001/metric-lyap (A.5), 003/def-Vhat.
    """
    batch = MetricInput.of(representation, gram).scaled()
    xp, n = batch.xp, batch.samples
    if batch.largest_rank < n:
        return result(batch.full(1 / n))
    values = batch.eigenvalues()
    total = xp.sum(values, axis=-1)
    share = values[..., 0] / xp.where(total > 0, total, 1.0)
    return result(xp.clip(1 / n - share, 0.0, None))
