"""Wasserstein-2 distances between centred Gaussian laws, which have a closed form."""

import math

from isometer.errors import IsometerError
from isometer.metrics._arrays import Array, epsilon, namespace, result
from isometer.metrics._batch import MetricInput, checked_gram


def wasserstein_to_isotropic(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Distance of the next linear layer's law from an isotropic Gaussian matrix.

    For W with i.i.d. N(0, 1/d) entries and H scaled to `‖H‖_F = 1`, the law of the pre-activations of a fixed batch is
    Gaussian and `W_2² = Σ_i (σ_i(H) − n^{−1/2})²` to the Gaussian with independent entries of variance 1/(nd). Between
    0 (orthogonal samples) and `√(2 − 2/√n)`; each sample beyond d adds a zero singular value. A batch of zeros cannot
    be scaled: its distance is 1.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        W_2, not its square, one number per matrix.

    Example:
        >>> round(float(wasserstein_to_isotropic([[1.0, 0.0], [1.0, 0.0]])) ** 2, 6)  # 2 − √2
        0.585786

    Implements: 001/lem-2.2, 001/metric-w2, 003/lem-2.
    """
    batch = MetricInput.of(representation, gram).scaled()
    xp, n = batch.xp, batch.samples
    values = batch.singular_values()
    # The root of a rounding error in a singular Gram matrix would be 1e-8 in float64.
    values = xp.where(values > batch.relative_noise * values[..., -1:], values, 0.0)
    total = xp.sum(values * values, axis=-1, keepdims=True)
    values = values / xp.sqrt(xp.where(total > 0, total, 1.0))
    squared = xp.sum((values - 1 / math.sqrt(n)) ** 2, axis=-1) + (n - int(values.shape[-1])) / n
    return result(xp.sqrt(squared))


def gaussian_wasserstein(covariance: Array, other: Array) -> Array:
    """Wasserstein-2 distance between two centred Gaussians (Bures distance of their covariances).

    `W_2² = tr A + tr B − 2 tr (A^{1/2} B A^{1/2})^{1/2}`, computed as `min_U ‖A^{1/2} − B^{1/2} U‖_F` over orthogonal
    U, which does not cancel for close covariances. Either may be singular: eigenvalues within `n ε` of the largest are
    taken for 0.

    Args:
        covariance: `(…, n, n)`.
        other: `(…, n, n)`; leading dimensions broadcast.

    Returns:
        W_2, one number per pair.

    Example:
        >>> round(float(gaussian_wasserstein([[4.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])), 12)
        1.0

    Implements: 001/metric-w2 for general covariances.
    """
    first, second = checked_gram(covariance, "covariance"), checked_gram(other, "other")
    if first.shape[-1] != second.shape[-1]:
        raise IsometerError(
            f"covariances have shapes {tuple(first.shape)} and {tuple(second.shape)}; expected the same dimension — "
            "pass covariances of the same variables"
        )
    xp = namespace(first)
    first, second = _square_root(first), _square_root(second)
    left, _, right = xp.linalg.svd(second.mT @ first)
    return result(xp.linalg.matrix_norm(first - second @ left @ right))


def _square_root(matrix: Array) -> Array:
    xp = namespace(matrix)
    values, vectors = xp.linalg.eigh(matrix)
    noise = int(matrix.shape[-1]) * epsilon(matrix) * xp.clip(values[..., -1:], 0.0, None)
    roots = xp.sqrt(xp.where(values > noise, values, 0.0))
    return vectors * roots[..., None, :] @ vectors.mT
