"""Normalisation layers as plain functions, and the isometry they gain (chapter 4 of the thesis).

Scaling every sample to the same length multiplies the isometry of the Gram matrix by an amount that depends on the
lengths alone. Batch norm without mean subtraction does the same to features, so its results are those of the transpose:
`isometry_gain(H.mT)` is the gain of the d×d second-moment matrix, whose isometry is `isometry(H.mT)`.
"""

import math

from isometer.metrics._arrays import (
    Array,
    as_matrices,
    log_mean_minus_mean_log,
    namespace,
    result,
    root_mean_square,
    subtract_mean,
    to_unit_mean_square,
)
from isometer.metrics._batch import MetricInput


def layer_normalize(representation: Array) -> Array:
    """Centre each sample over its features and scale it to length √d.

    `x ↦ √d (x − x̄) / ‖x − x̄‖`, no ε, no affine part. Samples with equal features become zero.

    Args:
        representation: `(…, n, d)`.

    Returns:
        `(…, n, d)`.

    Example:
        >>> layer_normalize([[1.0, 3.0], [2.0, 2.0]]).round(12).tolist()
        [[-1.0, 1.0], [0.0, 0.0]]

    Implements: 001/op-ln (5.13).
    """
    array = as_matrices(representation, "representation", "samples, features")
    return to_unit_mean_square(subtract_mean(array, -1), -1)


def rms_normalize(representation: Array) -> Array:
    """Scale each sample to length √d.

    `x ↦ √d x / ‖x‖`, no ε, no affine part. Zero samples stay zero.

    Args:
        representation: `(…, n, d)`.

    Returns:
        `(…, n, d)`.

    Example:
        >>> rms_normalize([[2.0, -2.0], [0.0, 0.0]]).round(12).tolist()
        [[1.0, -1.0], [0.0, 0.0]]

    Implements: 001/op-rms (5.13).
    """
    return to_unit_mean_square(as_matrices(representation, "representation", "samples, features"), -1)


def batch_normalize(representation: Array, *, recenter: bool = True) -> Array:
    """Scale each feature to mean square 1 over the batch, with or without subtracting its mean.

    `x ↦ (x − x̄) / √mean((x − x̄)²)`, or `x / √mean(x²)`; no ε, no affine part. What has no length becomes zero: features
    constant over the batch, or zero features.

    Args:
        representation: `(…, n, d)`.
        recenter: subtract each feature's mean first.

    Returns:
        `(…, n, d)`.

    Example:
        >>> batch_normalize([[1.0, 0.0], [3.0, 2.0]]).round(12).tolist()
        [[-1.0, -1.0], [1.0, 1.0]]

    Implements: 001/op-bn-std, 001/op-bn-nomean with factor √n, 000/op-rc, 000/op-rs, 003/def-bn, 002/def-bn.
    """
    array = as_matrices(representation, "representation", "samples, features")
    return to_unit_mean_square(subtract_mean(array, -2) if recenter else array, -2)


def isometry_gap_decrease(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """The exact decrease of the isometry gap when all samples are scaled to one length.

    `ψ(G) − ψ(G̃) = log mean_i a_i² − mean_i log a_i²`, a_i the lengths of the samples. Never negative; 0 for equal
    lengths (and for a batch of zeros), `inf` where only some samples are zero. On the transpose it is
    `ψ(H) − ψ(BN(H))` for batch norm without mean subtraction.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix.

    Example:
        >>> round(float(isometry_gap_decrease([[2.0, 0.0], [0.0, 1.0]])), 6)  # log(5/2) − log(4)/2
        0.223144

    Implements: 001/thm-4.3 (the identity in its proof), 001/lem-6.2.
    """
    batch = MetricInput.of(representation, gram)
    xp, lengths = batch.xp, batch.norms()
    zero = lengths == 0
    some, every = xp.any(zero, axis=-1), xp.all(zero, axis=-1)
    value = log_mean_minus_mean_log(xp.where(some[..., None], 1.0, lengths))
    return result(xp.where(some & ~every, math.inf, value))


def isometry_gain(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Factor by which scaling all samples to one length multiplies the isometry, exactly.

    `I(G̃) / I(G) = mean(a²) / (∏ a_i)^{2/n} ≥ 1`, a_i the lengths of the samples: squared quadratic over geometric mean.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix, the exponential of `isometry_gap_decrease`.

    Example:
        >>> round(float(isometry_gain([[2.0, 0.0], [0.0, 1.0]])), 12)  # 2.5 / 2
        1.25

    Implements: 001/thm-4.3 (the left-hand side over I(G)), 001/cor-4.4 for op-rms, 001/cor-4.5 for op-bn-nomean.
    """
    decrease = isometry_gap_decrease(representation, gram=gram)
    return result(namespace(decrease).exp(decrease))


def isometry_gain_bound(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """The lower bound that the thesis gives for the gain of isometry.

    `1 + var(a) / mean(a)²` with the population variance, which is `mean(a²) / mean(a)²`. It equals the gain only if all
    lengths do. For a batch of zeros it is 1.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix, at least 1.

    Example:
        >>> round(float(isometry_gain_bound([[2.0, 0.0], [0.0, 1.0]])), 12)  # 2.5 / 1.5²
        1.111111111111

    Implements: 001/thm-4.3, 001/cor-4.4, 001/lem-C.1; on the transpose 001/cor-4.5 with ā the mean.
    """
    batch = MetricInput.of(representation, gram).scaled()
    xp, lengths = batch.xp, batch.norms()
    mean = xp.mean(lengths, axis=-1, keepdims=True)
    deviation = (lengths - mean) / xp.where(mean > 0, mean, 1.0)
    return result(1 + xp.mean(deviation * deviation, axis=-1))


def batch_norm_gain_bound_as_printed(representation: Array) -> Array:
    """The lower bound of the gain of isometry under batch norm, with the reference length that is printed.

    `1 + (1/d) Σ_j (a_j − ā)² / ā²`, `ā = (1/n) Σ_{j ≤ d} a_j`, a_j the lengths of the d features: a sum over features
    divided by the number of samples. For n = d it is `isometry_gain_bound(H.mT)`; for n > d it exceeds the gain itself
    where all features have equal lengths. For a batch of zeros it is 1.

    Args:
        representation: `(…, n, d)`.

    Returns:
        One number per matrix.

    Example:
        >>> float(batch_norm_gain_bound_as_printed([[1.0], [0.0]]))  # one feature, two samples: ā = 1/2
        2.0

    Implements: 001/cor-4.5 as printed.
    """
    batch = MetricInput.of(representation).scaled()
    xp, n = batch.xp, batch.samples
    lengths = root_mean_square(batch.representation, -2)[..., 0, :]  # a common factor does not matter
    reference = xp.sum(lengths, axis=-1, keepdims=True) / n
    deviation = (lengths - reference) / xp.where(reference > 0, reference, 1.0)
    return result(1 + xp.mean(deviation * deviation, axis=-1))
