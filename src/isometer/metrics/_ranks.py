"""How many directions a batch spans: hard, soft and smooth ranks, and the condition number."""

import math

from isometer.errors import IsometerError
from isometer.metrics._arrays import Array, count, epsilon, result
from isometer.metrics._batch import MetricInput


def rank(
    representation: Array | None = None,
    *,
    gram: Array | None = None,
    tolerance: float | None = None,
    relative: bool = False,
    centered: bool = False,
) -> Array:
    """Numerical rank.

    The number of singular values above `tolerance` times the largest. The default is `max(n, d) ε`, that of
    `numpy.linalg.matrix_rank`, with the ε of the computation. Given a Gram matrix its eigenvalues are counted, as the
    thesis does: squares, against `n ε`, so that anything below about `√ε` of the largest singular value is lost.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.
        tolerance: relative threshold on singular values of H, or on eigenvalues of G.
        relative: divide by the attainable rank, `min(n, d)`, or n where only the Gram matrix is known.
        centered: subtract the mean sample first; the attainable rank is then `min(n − 1, d)`.

    Returns:
        Integers, or fractions of the attainable rank, one per matrix; 0 for zeros.

    Example:
        >>> int(rank([[1.0, 2.0], [2.0, 4.0]])), float(rank([[1.0, 2.0], [2.0, 4.0]], relative=True))
        (1, 0.5)

    Implements: 000/metric-rank, 001/tab-C.1, 002/alg-soft-rank-monitor (tolerance=1e-9).
    """
    batch, attainable = _prepared(representation, gram, centered)
    if relative:
        return result(count(_above(batch, tolerance), -1, batch.data) / attainable)
    return result(rank_of(batch, tolerance))


def rank_of(batch: MetricInput, tolerance: float | None = None) -> Array:
    """The numerical rank of a scaled batch."""
    return batch.xp.sum(_above(batch, tolerance), axis=-1)


def _above(batch: MetricInput, tolerance: float | None) -> Array:
    """Which singular values are above rounding."""
    values = batch.singular_values()
    if batch.given_gram is not None:
        values = values * values
    threshold = max(batch.data.shape[-2:]) * epsilon(batch.data) if tolerance is None else tolerance
    return values > threshold * values[..., -1:]


def soft_rank(representation: Array, *, tau: float = 0.5) -> Array:
    """Number of second-moment eigenvalues of at least τ.

    `rank_τ(H) = #{i ≤ d : σ_i² / n ≥ τ}`: eigenvalues of the d×d matrix `Hᵀ H / n`. For features of unit mean square
    (after batch norm) those have mean 1, and τ is a fraction of that. With n < d there are d − n zero eigenvalues,
    which count for τ = 0 only.

    Args:
        representation: `(…, n, d)`. The threshold depends on the width, so a Gram matrix is not enough.
        tau: threshold, at least 0.

    Returns:
        Integers, one per matrix.

    Example:
        >>> int(soft_rank([[1.0, 1.0], [1.0, -1.0]])), int(soft_rank([[1.0, 1.0], [1.0, 1.0]]))
        (2, 1)

    Implements: 002/eq-4.
    """
    if not tau >= 0:
        raise IsometerError(f"tau is {tau}; expected a number of at least 0 — the papers use 0.5")
    batch = MetricInput.of(representation)
    d = int(batch.data.shape[-1])
    return result(soft_rank_of(batch, batch.full(1.0), tau) + (d - batch.largest_rank if tau == 0 else 0))


def soft_rank_of(batch: MetricInput, scale: Array, tau: float = 0.5) -> Array:
    """The soft rank of `scale` times a batch, τ > 0."""
    n, d = (int(length) for length in batch.data.shape[-2:])
    return batch.xp.sum(batch.eigenvalues() * (d / n) >= (tau / scale / scale)[..., None], axis=-1)


def stable_rank(
    representation: Array | None = None, *, gram: Array | None = None, relative: bool = False, centered: bool = False
) -> Array:
    """Participation ratio of the spectrum, a smooth lower bound of the rank.

    `r(H) = (tr M)² / ‖M‖_F² = (Σλ)² / Σλ²`, the same for `M = Hᵀ H / n` and for the Gram matrix. Between 1 (rank one)
    and `min(n, d)`; 0 for zeros. Differentiable in torch.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.
        relative: divide by the attainable rank, `min(n, d)`, or n where only the Gram matrix is known.
        centered: subtract the mean sample first; the attainable rank is then `min(n − 1, d)`.

    Returns:
        One number per matrix.

    Example:
        >>> float(stable_rank(gram=[[3.0, 0.0], [0.0, 1.0]]))  # 16 / 10
        1.6

    Implements: 002/eq-3.
    """
    batch, attainable = _prepared(representation, gram, centered)
    value = stable_rank_of(batch)
    return result(value / attainable if relative else value)


def stable_rank_of(batch: MetricInput) -> Array:
    """The stable rank of a scaled batch."""
    xp, matrix = batch.xp, batch.smaller_gram()
    trace = xp.sum(xp.linalg.diagonal(matrix), axis=-1)
    squares = xp.sum(matrix * matrix, axis=(-2, -1))
    return xp.where(squares > 0, trace * trace / xp.where(squares > 0, squares, 1.0), 0.0)


def effective_rank(
    representation: Array | None = None, *, gram: Array | None = None, relative: bool = False, centered: bool = False
) -> Array:
    """Exponential of the entropy of the spectrum.

    `exp(−Σ p_i log p_i)`, `p_i = λ_i / Σλ` over the eigenvalues of the Gram matrix. From 1 to the rank; 0 for zeros.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.
        relative: divide by the attainable rank, `min(n, d)`, or n where only the Gram matrix is known.
        centered: subtract the mean sample first; the attainable rank is then `min(n − 1, d)`.

    Returns:
        One number per matrix.

    Example:
        >>> round(float(effective_rank([[1.0, 0.0], [0.0, 1.0]])), 12)
        2.0

    Implements: no inventory entry; compare 002/eq-3.
    """
    batch, attainable = _prepared(representation, gram, centered)
    value = effective_rank_of(batch)
    return result(value / attainable if relative else value)


def effective_rank_of(batch: MetricInput) -> Array:
    """The effective rank of a scaled batch."""
    xp, values = batch.xp, batch.eigenvalues()
    total = xp.sum(values, axis=-1)
    share = values / xp.where(total > 0, total, 1.0)[..., None]
    entropy = -xp.sum(share * xp.log(xp.where(share > 0, share, 1.0)), axis=-1)
    return xp.where(total > 0, xp.exp(entropy), 0.0)


def condition_number(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Condition number of the Gram matrix.

    `κ(G) = λ_max / λ_min`, the square of the condition number of H. It is `inf` for linearly dependent samples: n > d,
    or a smallest singular value within rounding of 0 (`16 ε` of the largest for H; eigenvalues within `n ε` for G).

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix.

    Example:
        >>> round(float(condition_number([[2.0, 0.0], [0.0, 1.0]])), 12)
        4.0

    Implements: 004/def-kappa, 001/fix-G* (κ of a fixed point).
    """
    batch = MetricInput.of(representation, gram).scaled()
    xp = batch.xp
    if batch.largest_rank < batch.samples:
        return result(batch.full(math.inf))
    values = batch.singular_values()
    smallest, largest = values[..., 0], values[..., -1]
    deficient = smallest <= batch.relative_noise * largest
    ratio = largest / xp.where(deficient, 1.0, smallest)
    return result(xp.where(deficient, math.inf, ratio * ratio))


def _prepared(representation: Array | None, gram: Array | None, centered: bool) -> tuple[MetricInput, int]:
    """The batch to take the rank of, and the rank it can have at most."""
    if not centered:
        batch = MetricInput.of(representation, gram).scaled()
        return batch, batch.largest_rank
    batch = MetricInput.of(representation, gram, need=2, purpose="ranks of centred batches").scaled()
    return batch.centered(), min(batch.samples - 1, batch.largest_rank)
