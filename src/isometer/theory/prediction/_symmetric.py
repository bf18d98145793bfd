"""Symmetric matrices as vectors: the entries on and above the diagonal, those above times √2.

The factor keeps inner products, `⟨A, B⟩ = packed(A)·packed(B)`, so that a covariance over packed matrices has the
trace and the eigenvalues of the one over all n² entries, at an eighth of the cost.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@lru_cache(maxsize=32)
def pairs_of(n: int) -> tuple[Indices, Indices, Floats]:
    """Rows, columns and factors of the packed entries of n × n matrices."""
    rows, columns = np.triu_indices(n)
    factors = np.where(rows == columns, 1.0, math.sqrt(2.0))
    for part in (rows, columns, factors):
        part.setflags(write=False)  # cached: every caller gets these very arrays
    return rows, columns, factors


def packed(matrices: Floats) -> Floats:
    """Symmetric matrices `(…, n, n)` as vectors `(…, n(n+1)/2)`.

    Example:
        >>> packed(np.array([[1.0, 2.0], [2.0, 5.0]])).round(3).tolist()
        [1.0, 2.828, 5.0]
    """
    rows, columns, factors = pairs_of(matrices.shape[-1])
    return np.asarray(matrices[..., rows, columns] * factors)


def unpacked(vectors: Floats) -> Floats:
    """The matrices `(…, n, n)` of vectors that `packed` made.

    Example:
        >>> unpacked(packed(np.array([[1.0, 2.0], [2.0, 5.0]]))).round(12).tolist()
        [[1.0, 2.0], [2.0, 5.0]]
    """
    n = (math.isqrt(8 * vectors.shape[-1] + 1) - 1) // 2
    rows, columns, factors = pairs_of(n)
    out = np.empty((*vectors.shape[:-1], n, n))
    out[..., rows, columns] = out[..., columns, rows] = vectors / factors
    return out


def packed_operator(operator: Floats) -> Floats:
    """A map of symmetric matrices `(n, n, n, n)`, output indices first, as one of packed vectors.

    Only what it does to symmetric matrices counts, and of the result the symmetric part.

    Example:
        >>> twice = 2 * np.einsum("ia,jb->ijab", np.eye(2), np.eye(2))
        >>> packed_operator(twice).round(12).tolist()
        [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]
    """
    rows, columns, factors = pairs_of(len(operator))
    written = (operator[rows, columns] + operator[columns, rows]) / 2
    read = (written[:, rows, columns] + written[:, columns, rows]) / 2
    return np.asarray(factors[:, None] * read * factors)


def unpacked_operator(operator: Floats) -> Floats:
    """The map over all entries, `(n², n²)`, of one over packed vectors.

    Example:
        >>> unpacked_operator(np.eye(3)).round(12).tolist()[1]  # the mean of both entries off the diagonal
        [0.0, 0.5, 0.5, 0.0]
    """
    whole = unpacked(unpacked(operator).transpose(1, 2, 0))  # (a, b, i, j): what is read comes first
    return whole.reshape((whole.shape[0] ** 2,) * 2).T


def congruence(matrix: Floats) -> Floats:
    """The map `Δ ↦ AᵀΔA` over packed vectors, for A `(n, k)`.

    Example:
        >>> congruence(np.array([[3.0]])).tolist()
        [[9.0]]
    """
    rows, columns, factors = pairs_of(matrix.shape[1])
    first, second, own = pairs_of(matrix.shape[0])
    turned = matrix.T
    one = turned[np.ix_(rows, first)] * turned[np.ix_(columns, second)]
    other = turned[np.ix_(rows, second)] * turned[np.ix_(columns, first)]
    return np.asarray(factors[:, None] * (one + other) / 2 * own)


def exponential(matrices: Floats) -> Floats:
    """exp of symmetric matrices `(…, k, k)`, by squaring a Taylor polynomial: no eigenvectors, only products.

    Example:
        >>> exponential(np.diag([0.0, math.log(3.0)])).round(12).tolist()
        [[1.0, 0.0], [0.0, 3.0]]
    """
    size = float(np.abs(matrices).sum(axis=-1).max(initial=0.0))
    if not size < _LARGEST_EXPONENT:
        return np.full_like(matrices, math.nan)
    squarings = max(0, math.ceil(math.log2(size)) + 4) if size > 0 else 0
    small = matrices / 2.0**squarings  # of norm 1/16 at most: 8 terms leave less than rounding
    each = np.arange(matrices.shape[-1])
    out = small / _TERMS
    out[..., each, each] += 1.0
    for term in range(_TERMS - 1, 0, -1):
        out = small @ out
        out /= term
        out[..., each, each] += 1.0
    for _ in range(squarings):
        out = out @ out
    return np.asarray((out + np.swapaxes(out, -1, -2)) / 2)


_TERMS = 8
_LARGEST_EXPONENT = 600.0  # beyond, numbers overflow
