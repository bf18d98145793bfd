"""The Gram matrix of a batch: how it is made, its spectrum, how far it is from another one."""

from typing import NamedTuple

from isometer.errors import IsometerError
from isometer.metrics._arrays import Array, as_matrices, filled, result
from isometer.metrics._batch import MetricInput


def gram(representation: Array) -> Array:
    """Inner products of the samples, per feature.

    `G = H Hᵀ / d`: entry (i, j) is the mean over features of the product of samples i and j.

    Args:
        representation: `(…, n, d)`.

    Returns:
        `(…, n, n)`.

    Example:
        >>> gram([[1.0, 1.0], [1.0, -1.0]]).tolist()
        [[1.0, 0.0], [0.0, 1.0]]

    Implements: 001/def-3.2, 001/def-4.1 (which leaves out the 1/d).
    """
    return MetricInput.of(representation).gram_matrix()


def spectrum(representation: Array | None = None, *, gram: Array | None = None, top: int | None = None) -> Array:
    """Eigenvalues of the Gram matrix, largest first.

    From a representation they are squared singular values over d, so small ones keep their digits. A width d < n
    leaves n − d exact zeros; negative rounding errors are zero.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.
        top: how many to return, all n by default.

    Returns:
        `(…, top)`.

    Example:
        >>> spectrum([[2.0, 0.0], [0.0, 1.0], [0.0, 1.0]]).round(12).tolist()
        [2.0, 1.0, 0.0]

    Implements: 001/lem-4.2, 003/claim-vanilla-rank1 (the share of the first).
    """
    batch = MetricInput.of(representation, gram)
    count = batch.samples if top is None else top
    if not 1 <= count <= batch.samples:
        raise IsometerError(f"top is {count}; expected 1 to {batch.samples}, the number of samples — lower it")
    values = batch.xp.flip(batch.singular_values() ** 2, (-1,))
    missing = count - int(values.shape[-1])
    if missing > 0:
        zeros = filled(values, (*batch.leading_shape, missing), 0.0)
        values = batch.xp.concatenate([values, zeros], axis=-1)
    return values[..., :count]


class GramDistance(NamedTuple):
    """Frobenius distance to a reference Gram matrix: `‖G − G*‖_F` and the same over `‖G*‖_F`."""

    absolute: Array
    relative: Array


def gram_distance(representation: Array | None = None, *, gram: Array | None = None, reference: Array) -> GramDistance:
    """Frobenius distance from the Gram matrix of a batch to a reference, such as a fixed point.

    `‖G − G*‖_F` and `‖G − G*‖_F / ‖G*‖_F`. Relative to a zero reference it is 0 for a zero Gram matrix, else `inf`.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.
        reference: `G*`, `(…, n, n)`; leading dimensions broadcast.

    Returns:
        The absolute and the relative distance, each of the leading shape.

    Example:
        >>> gram_distance(gram=[[2.0, 0.0], [0.0, 1.0]], reference=[[1.0, 0.0], [0.0, 1.0]]).absolute.item()
        1.0

    Implements: 001/thm-3.2, 001/fig-3.1 to 3.4.
    """
    batch = MetricInput.of(representation, gram)
    target = as_matrices(reference, "reference", "samples, samples")
    if tuple(target.shape[-2:]) != (batch.samples, batch.samples):
        raise IsometerError(
            f"reference has shape {tuple(target.shape)}; expected (…, {batch.samples}, {batch.samples}) as the batch "
            f"has {batch.samples} samples — pass the Gram matrix of as many samples"
        )
    xp = batch.xp
    absolute = xp.linalg.matrix_norm(batch.gram_matrix() - target)
    size = xp.linalg.matrix_norm(target)
    relative = xp.where(
        size > 0, absolute / xp.where(size > 0, size, 1.0), xp.where(absolute > 0, float("inf"), absolute)
    )
    return GramDistance(result(absolute), result(relative))
