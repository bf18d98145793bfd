"""Isometry: the volume the samples span, relative to their lengths."""

import math

from isometer.metrics._arrays import Array, log_mean_minus_mean_log, namespace, result
from isometer.metrics._batch import MetricInput


def isometry_gap(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Logarithm of arithmetic over geometric mean of the Gram matrix's eigenvalues.

    `ψ(H) = −log I(G) = log(tr G / n) − (1/n) log det G`. It is 0 for orthogonal samples of equal length and `inf` for
    linearly dependent ones: n > d, a zero sample, or samples whose directions have a smallest singular value within
    rounding of 0 (`16 ε` of the largest for a representation; for a Gram matrix, of cosines, eigenvalues within `n ε`).

    The value is split as `ψ(G) = ψ(cosines) + [log mean a² − mean log a²]`, a the lengths of the samples, which
    Theorem 4.3 of the thesis rests on. Both parts are means of non-negative terms, so that a gap of 1e-18 is not lost,
    lengths may differ by any factor, and singular values of H give directions with condition numbers up to about 1e14.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix.

    Example:
        >>> round(float(isometry_gap([[2.0, 0.0], [0.0, 1.0]])), 6)  # log(5/2) − log(4)/2
        0.223144

    Implements: 001/metric-isogap (6.5), 001/def-6.5, 001/def-4.1.
    """
    return result(gap_of(MetricInput.of(representation, gram)))


def gap_of(batch: MetricInput) -> Array:
    """The isometry gap of a batch."""
    xp = batch.xp
    if batch.largest_rank < batch.samples:
        return batch.full(math.inf)
    lengths, directions = batch.norms(), batch.directions()
    values = directions.singular_values()
    dependent = values[..., 0] <= batch.relative_noise * values[..., -1]  # also if a sample is zero
    of_directions = log_mean_minus_mean_log(xp.where(dependent[..., None], 1.0, values))
    of_lengths = log_mean_minus_mean_log(xp.where(dependent[..., None], 1.0, lengths))
    return xp.where(dependent, math.inf, of_directions + of_lengths)


def isometry(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Geometric over arithmetic mean of the Gram matrix's eigenvalues.

    `I(G) = det(G)^{1/n} / (tr G / n)`: 1 for multiples of the identity, 0 for linearly dependent samples. This is
    `exp(−ψ)` of the isometry gap ψ, which decides what counts as dependent. The isometry of the d×d second-moment
    matrix is that of the transpose, `isometry(H.mT)`.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix, in [0, 1].

    Example:
        >>> round(float(isometry(gram=[[4.0, 0.0], [0.0, 1.0]])), 12)  # 2 / 2.5
        0.8

    Implements: 001/metric-isometry (4.2), 001/def-4.1, 001/lem-4.2.
    """
    gap = isometry_gap(representation, gram=gram)
    return result(namespace(gap).exp(-gap))
