"""A square batch X, one feature per row: batch norm without recentring, isometry, and what rows' lengths add to it."""

from __future__ import annotations

import numpy as np

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, absolute_determinant, log

__all__ = [
    "column_gap",
    "isometry_of",
    "normalized_rows",
    "normalized_rows_as_printed",
    "printed_gap",
    "row_norms",
    "variation_bound",
]


def row_norms(x: Numeric) -> Numeric:
    """Lengths of the rows.

    Example:
        >>> row_norms(np.array([[3.0, 4.0], [0.0, 2.0]])).tolist()
        [5.0, 2.0]
    """
    array = np.asarray(x)
    return (array * array).sum(axis=-1) ** 0.5


def normalized_rows(x: Numeric) -> Numeric:
    """BN(X) = diag(XXᵀ)^{−1/2} X: every row scaled to length 1; a row of zeros stays.

    Example:
        >>> normalized_rows(np.array([[3.0, 4.0], [0.0, 2.0]])).tolist()
        [[0.6, 0.8], [0.0, 1.0]]

    Implements: 001/op-6.4.
    """
    array, norms = np.asarray(x), row_norms(x)
    return array / np.where(norms == 0, 1, norms)[..., None]


def normalized_rows_as_printed(x: Numeric) -> Numeric:
    """The entries of 001/op-6.4 as printed, X_ij / √(Σ_{k ≤ d} X_ik²): the sum ends at the number of rows d.

    Example:
        >>> normalized_rows_as_printed(np.array([[3.0, 4.0]]))[0, 0].item()  # one row: only the first entry is summed
        1.0

    Implements: 001/op-6.4 (entries, as printed).
    """
    array = np.asarray(x)
    if array.shape[-1] < array.shape[-2]:
        raise IsometerError(f"X has shape {array.shape}; expected at least as many columns as rows — the sum runs to d")
    return array / row_norms(array[..., : array.shape[-2]])[..., None]


def isometry_of(x: Numeric) -> Numeric:
    """I(X) = det(XᵀX)^{1/d} / (tr XᵀX / d) of a square X; 0 if X is singular.

    Example:
        >>> round(isometry_of(np.diag([2.0, 1.0])).item(), 12)
        0.8

    Implements: 001/def-6.5.
    """
    array = np.asarray(x)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise IsometerError(f"X has shape {array.shape}; expected a square matrix — as many samples as features")
    d = len(array)
    total = (array * array).sum()
    size = (total / d) ** 0.5
    if size == 0:
        return total
    # at tr XᵀX = d the ratio is det(X)^{2/d}, and the determinant does not over- or underflow with the size of X
    return (absolute_determinant(array / size) ** 2) ** (1 / _exactly(d, total))


def _exactly(count: int, like: Numeric) -> Numeric:
    """A whole number in the precision of `like`."""
    return count + 0 * like


def printed_gap(x: Numeric) -> Numeric:
    """φ(X) of 001/def-6.5 on a d × n matrix, to the letter: −log(det(XᵀX)^{1/d} / (tr XᵀX / d)), d for both.

    For n < d it depends on the scale of X and can be negative; for n > d it is infinite.

    Example:
        >>> round(float(printed_gap(np.array([[1.0], [0.0]]))), 6)  # log(1/2)
        -0.693147

    Implements: 001/def-6.5 (as printed, for any n).
    """
    array = np.asarray(x)
    d = array.shape[0]
    gram = array.T @ array
    total = (array * array).sum()
    volume = absolute_determinant(gram)
    if volume == 0:
        return np.inf
    return log(total / d) - log(volume) / d


def column_gap(x: Numeric) -> Numeric:
    """log(tr XᵀX / n) − log det(XᵀX) / n of n ≤ d columns: φ(X) with the number of columns in both places.

    Example:
        >>> float(column_gap(np.array([[1.0], [0.0]]))) == 0
        True

    Implements: 001/def-6.5 (for any n ≤ d).
    """
    array = np.asarray(x)
    n = array.shape[1]
    volume = absolute_determinant(array.T @ array)
    return np.inf if volume == 0 else log((array * array).sum() / n) - log(volume) / n


def variation_bound(x: Numeric) -> Numeric:
    """1 + variance{‖X_j‖} / mean{‖X_j‖}² over the rows, the least factor by which BN raises isometry.

    Example:
        >>> round(variation_bound(np.diag([2.0, 1.0])).item(), 12)  # 2.5/1.5²
        1.111111111111

    Implements: 001/lem-C.1, 001/lem-C.2, 001/lem-6.2.
    """
    norms = row_norms(x)
    mean = norms.sum() / len(norms)
    return 1 + ((norms - mean) ** 2).sum() / len(norms) / mean**2
