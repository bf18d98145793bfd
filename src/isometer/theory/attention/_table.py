"""The moments of softmax for many tokens' Gram matrices at a time: each of its own, or from a table of one length.

Exchangeable tokens of cosine 1 − g whose scores have the size κ have scores of standard deviation σ = κ√g that differ
between rows by a = κg. For small a two rows differ by a² times the slope of one, so the table holds logarithms of the
ratios D/(a² Q) and Q₂/Q, which vanish there like a².
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.theory.attention._softmax import COARSE, FINE, WIDEST, pair_moments, row_moments

Floats = NDArray[np.float64]
_FEW = 48  # different Gram matrices, up to which each has integrals of its own
_NARROWEST = 1e-3  # σ below which moments are those of the first order
_LEAST = 0.05  # a below which ratios are those of the first order
_ROW_NODES, _SCALE_NODES, _GAP_NODES = 48, 24, 16
TABLE_ERROR = 1e-3
"""Relative error of what a table gives, at most; measured against the integrals."""


class SoftmaxMoments(NamedTuple):
    """Of exchangeable tokens: `OneRowMoments` and `TwoRowMoments` as arrays, and their relative error."""

    participation: Floats
    entropy: Floats
    row_slope: Floats
    distance: Floats
    pair_slope: Floats
    error: float


def softmax_moments(size: Floats, gap: Floats, tokens: int) -> SoftmaxMoments:
    """Moments of the attention of T exchangeable tokens.

    Args:
        size: κ, the standard deviation that scores of orthogonal tokens of the same length have.
        gap: g, 1 − cosine of two tokens.
        tokens: T.

    Example:
        >>> found = softmax_moments(np.array([0.0, 2.0]), np.array([1.0, 0.5]), 4)
        >>> found.participation.round(4).tolist(), found.distance.round(4).tolist()
        ([0.25, 0.4761], [0.0, 0.1258])
    """
    size, gap = np.broadcast_arrays(np.asarray(size, dtype=float), np.asarray(gap, dtype=float))
    pairs, place = np.unique(np.stack([size.ravel(), gap.ravel()]), axis=1, return_inverse=True)
    if pairs.shape[1] <= _FEW:
        rows = np.array([_exact(float(k), float(g), tokens) for k, g in pairs.T])
        columns = rows[place.ravel()].reshape(*size.shape, 5)
        one, two, three, four, five = (np.ascontiguousarray(columns[..., k]) for k in range(5))
        return SoftmaxMoments(one, two, three, four, five, 1e-11)
    return _tabulated(size, gap, tokens)


@lru_cache(maxsize=4096)
def _exact(size: float, gap: float, tokens: int) -> tuple[float, ...]:
    width = size * math.sqrt(gap)
    return (*row_moments(width, tokens), *pair_moments(width, gap, tokens))


def _tabulated(size: Floats, gap: Floats, tokens: int) -> SoftmaxMoments:
    width = size * np.sqrt(gap)
    level = math.ceil(math.log2(max(float(size.max()), 1.0)) - 1e-9)
    table = _table(tokens, min(2.0**level, WIDEST))
    first = max(tokens - 1, 0) / tokens**2
    row = np.exp(_chebyshev(table.rows, table.row_place(width)))  # (3, …)
    sigma2 = np.minimum(width, WIDEST) ** 2
    own = np.minimum(size, table.largest) * gap
    ratios = _pairs(table, size, gap, own)
    slope = first * row[2]
    distance = np.minimum(own**2 * slope * ratios[0], 1.0)
    participation = np.clip(1.0 / tokens + sigma2 * first * row[0], 1.0 / tokens, 1.0)
    entropy = np.clip(math.log(tokens) - sigma2 * first * row[1], 0.0, math.log(tokens))
    return SoftmaxMoments(participation, entropy, slope, distance, slope * ratios[1], TABLE_ERROR)


class _Table(NamedTuple):
    """Chebyshev coefficients: of logarithms of row moments in log σ, of ratios in log κ and log g."""

    tokens: int
    largest: float  # κ
    rows: Floats  # (3, nodes)
    pairs: Floats  # (2, nodes, nodes)

    def row_place(self, width: Floats) -> Floats:
        return _unit(np.log(np.clip(width, _NARROWEST, WIDEST)), math.log(_NARROWEST), math.log(WIDEST))

    @property
    def widest(self) -> float:
        """The largest gap that so many tokens can have."""
        return self.tokens / max(self.tokens - 1, 1)


def _unit(value: Floats, low: float, high: float) -> Floats:
    return np.asarray(np.clip((2 * value - low - high) / (high - low), -1.0, 1.0))


def _pairs(table: _Table, size: Floats, gap: Floats, own: Floats) -> Floats:
    """Ratios `(2, …)`; below the least a they are 1 + O(a²)."""
    low = math.log(_LEAST / table.widest)
    across = _unit(np.log(np.maximum(size, math.exp(low))), low, math.log(table.largest))
    reach = np.log(np.maximum(np.minimum(size, table.largest), math.exp(low)) * table.widest / _LEAST)
    depth = np.log(np.maximum(own, 1e-300) / _LEAST) / np.where(reach > 0.0, reach, 1.0)
    along = np.where(reach > 1e-9, np.clip(2.0 * depth - 1.0, -1.0, 1.0), -1.0)
    x, y = _basis(across, table.pairs.shape[1]), _basis(along, table.pairs.shape[2])
    logs = np.stack([((x @ one) * y).sum(axis=-1) for one in table.pairs])
    faint = np.minimum(own / _LEAST, 1.0) ** 2
    return np.asarray(np.exp(logs * faint))


@lru_cache(maxsize=16)
def _table(tokens: int, largest: float) -> _Table:
    first = max(tokens - 1, 1) / tokens**2
    nodes = _places(_ROW_NODES)
    low, high = math.log(_NARROWEST), math.log(WIDEST)
    rows = []
    for place in nodes:
        width = math.exp(0.5 * (low + high) + 0.5 * (high - low) * place)
        found = row_moments(width, tokens, FINE)
        scale = width**2 * first
        # where the width is small differences cancel: 1e-12/σ² is still below the error of the table
        rows.append(
            (
                math.log(max((found.participation - 1.0 / tokens) / scale, 1e-300)),
                math.log(max((math.log(tokens) - found.entropy) / scale, 1e-300)),
                math.log(max(found.slope / first, 1e-300)),
            )
        )
    empty = _Table(tokens, largest, _coefficients(np.array(rows).T), np.zeros((2, 1, 1)))
    values = np.zeros((2, _SCALE_NODES, _GAP_NODES))
    start = math.log(_LEAST / empty.widest)
    for i, across in enumerate(_places(_SCALE_NODES)):
        size = math.exp(0.5 * (start + math.log(largest)) + 0.5 * (math.log(largest) - start) * across)
        for j, along in enumerate(_places(_GAP_NODES)):
            own = _LEAST * (size * empty.widest / _LEAST) ** (0.5 * (1.0 + along))
            gap = min(own / size, empty.widest)
            width = min(size * math.sqrt(gap), WIDEST)
            slope = row_moments(width, tokens, COARSE).slope
            pair = pair_moments(width, gap, tokens, COARSE)
            values[0, i, j] = math.log(max(pair.distance, 1e-300) / (own**2 * slope))
            values[1, i, j] = math.log(max(pair.slope, 1e-300) / slope)
    along_gaps = _coefficients(values)  # (2, scale, gap)
    both = np.swapaxes(_coefficients(np.swapaxes(along_gaps, 1, 2)), 1, 2)
    return empty._replace(pairs=both)


def _places(count: int) -> Floats:
    return np.asarray(np.cos(np.pi * (np.arange(count) + 0.5) / count))


def _basis(x: Floats, count: int) -> Floats:
    """T_0 … at x, `(…, count)`."""
    return np.asarray(np.cos(np.arange(count) * np.arccos(x)[..., None]))


def _coefficients(values: Floats) -> Floats:
    """Of the Chebyshev series through values at `_places`, along the last axis."""
    count = values.shape[-1]
    transform = _basis(_places(count), count) * (2.0 / count)
    transform[:, 0] /= 2.0
    return np.asarray(values @ transform)


def _chebyshev(coefficients: Floats, x: Floats) -> Floats:
    return np.stack([_basis(x, coefficients.shape[-1]) @ row for row in coefficients])
