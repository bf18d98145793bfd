"""001 chapter 4 line by line: isometry, normalisation and the chain of equalities in the proof of Theorem 4.3.

Matrices are as the thesis writes them, `d × n` with samples as columns, of floats or of mpmath numbers; every formula
is made of arithmetic only. `isometer.metrics` has the robust versions for data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric

__all__ = [
    "batch_norm_bound",
    "batch_norm_rows",
    "column_lengths",
    "determinant",
    "gain_as_printed",
    "gram_of",
    "isometry_of",
    "layer_norm_columns",
    "length_bound",
    "length_gain",
    "parallelogram_ratio",
    "unit_columns",
]

Matrix = Any


def determinant(matrix: Matrix) -> Numeric:
    """By elimination with row exchange, in the precision of the entries.

    Example:
        >>> float(determinant(np.array([[2.0, 1.0], [1.0, 1.0]])))
        1.0
    """
    rows = [list(row) for row in np.asarray(matrix)]
    value = 1 + 0 * rows[0][0]
    for k in range(len(rows)):
        best = max(range(k, len(rows)), key=lambda r: abs(rows[r][k]))
        if rows[best][k] == 0:
            return 0 * value
        if best != k:
            rows[k], rows[best], value = rows[best], rows[k], -value
        value = value * rows[k][k]
        for r in range(k + 1, len(rows)):
            factor = rows[r][k] / rows[k][k]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[k], strict=True)]
    return value


def isometry_of(matrix: Matrix) -> Numeric:
    """I(M) = det(M)^{1/n}/(tr M/n) of a positive semi-definite matrix; a determinant below 0 counts as 0.

    Implements: 001/def-4.1, 001/lem-4.2.

    Example:
        >>> round(float(isometry_of(np.diag([4.0, 1.0]))), 12)
        0.8
    """
    array = np.asarray(matrix)
    n = len(array)
    trace = sum(array[k, k] for k in range(n))
    if trace == 0:
        raise IsometerError("the isometry of a zero matrix is 0/0; expected a positive trace")
    volume = determinant(array)
    if volume <= 0:
        return 0 * trace
    return volume ** ((1 + 0 * trace) / n) / (trace / n)


def gram_of(samples: Matrix) -> Matrix:
    """G = XᵀX, samples as columns.

    Implements: 001/def-4.1.

    Example:
        >>> gram_of(np.array([[1.0, 1.0]])).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """
    return samples.T @ samples


def column_lengths(samples: Matrix) -> Matrix:
    """‖x_i‖ of every column.

    Example:
        >>> column_lengths(np.array([[3.0], [4.0]])).tolist()
        [5.0]
    """
    return (samples * samples).sum(axis=0) ** 0.5


def unit_columns(samples: Matrix) -> Matrix:
    """x_i/‖x_i‖.

    Implements: 001/thm-4.3.

    Example:
        >>> unit_columns(np.array([[3.0], [4.0]])).tolist()
        [[0.6], [0.8]]
    """
    return samples / column_lengths(samples)


def layer_norm_columns(samples: Matrix) -> Matrix:
    """LN of every column (eq. 5.13): centred over the features, length √d.

    Implements: 001/op-ln, 001/cor-4.4.

    Example:
        >>> layer_norm_columns(np.array([[1.0], [3.0]])).tolist()
        [[-1.0], [1.0]]
    """
    d = len(samples)
    centred = samples - samples.sum(axis=0) / d
    lengths = column_lengths(centred)
    if (lengths == 0).any():
        raise IsometerError("a sample has equal features; layer norm is not defined there")
    return centred / lengths * ((0 * lengths + d) ** 0.5)


def batch_norm_rows(samples: Matrix, recentre: bool) -> Matrix:
    """BN of every row: length √n, after subtracting the mean or not.

    Implements: 001/op-bn-std, 001/op-bn-nomean, 001/cor-4.5.

    Example:
        >>> batch_norm_rows(np.array([[1.0, 3.0]]), True).tolist()
        [[-1.0, 1.0]]
    """
    n = samples.shape[1]
    rows = samples - (samples.sum(axis=1) / n)[:, None] if recentre else samples
    lengths = (rows * rows).sum(axis=1) ** 0.5
    if (lengths == 0).any():
        raise IsometerError("a feature is constant over the batch; batch norm is not defined there")
    return rows / lengths[:, None] * ((0 * lengths + n) ** 0.5)[:, None]


def length_bound(lengths: Matrix) -> Numeric:
    """1 + var(a)/ā² with the population variance.

    Implements: 001/thm-4.3, eq. 4.7.

    Example:
        >>> round(float(length_bound(np.array([2.0, 1.0]))), 12)
        1.111111111111
    """
    n = len(lengths)
    mean = lengths.sum() / n
    return 1 + ((lengths - mean) ** 2).sum() / n / mean**2


def batch_norm_bound(lengths: Matrix, samples: int) -> Numeric:
    """1 + (1/d)Σ(a_i − ā)²/ā² with ā = (1/n)Σ_{i≤d} a_i, as 001/cor-4.5 prints it.

    Implements: 001/cor-4.5 as printed.

    Example:
        >>> float(batch_norm_bound(np.array([1.0]), 2))
        2.0
    """
    mean = lengths.sum() / samples
    return 1 + ((lengths - mean) ** 2).sum() / len(lengths) / mean**2


def length_gain(lengths: Matrix) -> Numeric:
    """mean(a²)/(Π a_i)^{2/n}: I(G̃)/I(G) exactly.

    Implements: 001/thm-4.3 (eq. 4.5), 001/thm-4.3:eq-4.6#corrected.

    Example:
        >>> round(float(length_gain(np.array([2.0, 1.0]))), 12)
        1.25
    """
    n = len(lengths)
    product = math.prod(lengths)
    return (lengths * lengths).sum() / n / product ** ((2 + 0 * product) / n)


def gain_as_printed(lengths: Matrix, features: int) -> Numeric:
    """(mean a)²/(Πa)^{2/n} · ((1/d)Σa²)/(mean a)², eq. 4.6 with its 1/d.

    Implements: 001/thm-4.3:eq-4.6 as printed.

    Example:
        >>> float(gain_as_printed(np.array([1.0, 1.0]), 4))
        0.5
    """
    return length_gain(lengths) * len(lengths) / features


def parallelogram_ratio(first: Numeric, second: Numeric, sine: Numeric) -> Numeric:
    """ab sin θ/(a² + b²), half the isometry of two vectors in the plane.

    Implements: 001/fig-4.1.

    Example:
        >>> parallelogram_ratio(1.0, 1.0, 1.0)
        0.5
    """
    return first * second * sine / (first * first + second * second)
