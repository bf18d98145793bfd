"""The tree at any depth in polynomial time: `evolve_tree` and what it returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isometer.errors import IsometerError
from isometer_papers.simulate.tree.exact_rows import (
    DistinctValues,
    Floats,
    Integers,
    Number,
    check_depth,
    float_and_exponent,
    next_rows,
)
from isometer_papers.simulate.tree.transformations import STABLE_CLUSTERS

_LN2 = math.log(2.0)


def evolve_tree(values: Sequence[Number] | Floats, depth: int) -> TreeTrajectory:
    """The tree model at any depth, in time polynomial in the number of samples.

    Each layer costs O(n) operations on floats and on whole numbers of about `depth · log2 n` bits. Samples may be in
    any order and may coincide; entries equal to a row's mean are recognised exactly.

    Args:
        values: `(n,)`, the input feature of each sample, finite; `Fraction`s are taken as they are.
        depth: layers.

    Returns:
        A `TreeTrajectory`, to ask for Gram matrices, angles and lengths at any layer 0 … depth.

    Example:
        >>> tree = evolve_tree([0.0, 1.0, 2.0, 4.0, 8.0], 1000)
        >>> tree.gram(1000).shape, tree.stable_layer
        ((5, 5), 2)
        >>> round(float(np.degrees(tree.angles(1000)[0, -1])), 9)  # the extremes are orthogonal
        90.0

    Implements: 000/model-tree, 000/thm-10, 000/thm-11, 000/eq-39-40.
    """
    batch = DistinctValues.of(values)
    check_depth(depth)
    n, k = len(batch.group), len(batch.counts)
    below = np.cumsum(batch.counts)[:-1] / n  # share of the samples below each split
    mantissas = np.zeros((depth + 1, 2, k - 1))
    exponents = np.zeros((depth + 1, k - 1), dtype=np.int64)
    # rows of two clusters at height c, on either side, have the children c(1 − below) under and c·below over the split
    factors = np.stack([(1 - below) ** 2, below**2])
    rows, denominator = [batch.row], batch.denominator
    explicit: list[Floats] = []
    explicit_exponents: list[Integers] = []
    clusters = np.zeros(depth + 1, dtype=np.int64)
    for layer in range(depth + 1):
        unit, unit_exponent = float_and_exponent(denominator)
        floats = [row.as_floats() for row in rows]
        explicit.append(np.array([heights for heights, _ in floats]).reshape(-1, k) / unit)
        explicit_exponents.append(np.array([e - unit_exponent for _, e in floats], dtype=np.int64))
        # rows of two clusters are not in `rows`: they are kept as energies only
        clusters[layer] = max(
            [len(row.ends) for row in rows] + [2 if mantissas[layer].any() else 1],
        )
        if layer == depth:
            break
        energy, exponent = mantissas[layer].sum(axis=0) * factors, exponents[layer].copy()
        denominator *= n
        rows, pairs = next_rows(rows, batch.counts)
        unit, unit_exponent = float_and_exponent(denominator)
        for split, side, height in pairs:
            mantissa, shift = float_and_exponent(height)
            square, shift = (mantissa / unit) ** 2, 2 * (shift - unit_exponent)
            # the exponent of an empty split is a mere 0, no scale to align to
            common = shift if not energy[:, split].any() else max(shift, int(exponent[split]))
            energy[:, split] = np.ldexp(energy[:, split], int(exponent[split]) - common)
            energy[side, split] += math.ldexp(square, shift - common)
            exponent[split] = common
        # Largest mantissa of each split in [½, 1): products and sums neither over- nor underflow.
        _, drift = np.frexp(energy.max(axis=0))
        mantissas[layer + 1] = np.ldexp(energy, -drift)
        exponents[layer + 1] = exponent + drift
    return TreeTrajectory(
        group=batch.group,
        counts=np.array(batch.counts),
        clusters=clusters,
        _mantissas=mantissas,
        _exponents=exponents,
        _explicit=tuple(explicit),
        _explicit_exponents=tuple(explicit_exponents),
    )


@dataclass(frozen=True)
class TreeTrajectory:
    """The tree model from the input (layer 0) to its last layer; made by `evolve_tree`.

    Samples keep the order in which they were given. Inner products are those of the paper, sums over the `2^t` rows,
    not means.

    Attributes:
        group: `(n,)`, rank of each sample's value among the distinct values, from 0.
        counts: `(k,)`, samples at each distinct value.
        clusters: `(depth + 1,)`, most clusters in any row of the layer, coinciding samples counted once.

    Example:
        >>> tree = evolve_tree([3.0, 0.0, 1.0], 2)
        >>> tree.clusters.tolist()
        [3, 3, 3]
        >>> tree.group.tolist()
        [2, 0, 1]

    Implements: 000/model-tree.
    """

    group: Integers
    counts: Integers
    clusters: Integers
    _mantissas: Floats  # (depth + 1, 2, k − 1): lo and hi of each split
    _exponents: Integers  # (depth + 1, k − 1)
    _explicit: tuple[Floats, ...]  # per layer (rows, k)
    _explicit_exponents: tuple[Integers, ...]

    @property
    def depth(self) -> int:
        """Number of layers.

        Example:
            >>> evolve_tree([0.0, 1.0], 7).depth
            7
        """
        return len(self.clusters) - 1

    @property
    def stable_layer(self) -> int | None:
        """First layer without a row of more than three clusters, None if there is none yet (000/thm-10).

        Example:
            >>> evolve_tree([0.0, 1.0, 1.1, 1.2, 1.3, 1.4], 40).stable_layer
            3
        """
        stable = np.flatnonzero(self.clusters <= STABLE_CLUSTERS)
        return int(stable[0]) if len(stable) else None

    def gram(self, layer: int) -> Floats:
        """Inner products of the samples, `(n, n)`, divided by `exp(log_scale(layer))`: of trace 1.

        All zeros where every row is zero. Entries are precise in relative terms.

        Example:
            >>> tree = evolve_tree([0.0, 1.0, 5.0], 2)
            >>> (tree.gram(2) * np.exp(tree.log_scale(2))).round(9).tolist()[0]
            [2.0, 1.0, 0.0]
        """
        gram, _ = self._gram_and_scale(layer)
        return gram

    def log_scale(self, layer: int) -> float:
        """Logarithm of the trace, the factor between `gram(layer)` and the inner products; −inf if that is 0.

        Example:
            >>> round(evolve_tree([3.0, 4.0], 0).log_scale(0), 12) == round(float(np.log(25)), 12)
            True
        """
        _, scale = self._gram_and_scale(layer)
        return scale

    def norm_ratios(self, layer: int) -> Floats:
        """`‖x_i‖ / ‖x_j‖`, `(n, n)`: inf where only x_j is zero, NaN where both are (000/thm-11, item 3).

        Example:
            >>> evolve_tree([0.0, 1.0, 5.0], 1).norm_ratios(1)[2].tolist()  # lengths 2, 1, 3
            [1.5, 3.0, 1.0]
        """
        lengths = np.sqrt(np.diagonal(self.gram(layer)))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(lengths[:, None] / lengths[None, :])

    def angles(self, layer: int) -> Floats:
        """Angles between the samples in radians, `(n, n)`; NaN in the rows and columns of zero samples.

        `tan θ = √(‖x‖²‖y‖² − ⟨x, y⟩²) / ⟨x, y⟩`, the root by Lagrange's identity from non-negative terms. What rows of
        two clusters contribute is precise in relative terms, so that small angles are right down to 1e−150; rows of
        three clusters or more, which fade with depth, add an absolute error of some 1e−16.

        Example:
            >>> tree = evolve_tree([0.0, 1.0, 2.0, 4.0, 8.0], 600)
            >>> bool(0 < tree.angles(600)[1, 2] < 1e-15)  # samples in the middle become parallel
            True

        Implements: 000/metric-angle (11), 000/thm-11, items 1, 2, 4.
        """
        lower, upper, rows, _ = self._scaled(layer)
        k = len(self.counts)
        both, only_first, only_second = np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k))
        if k > 1:
            # For i < j: splits below i or from j on keep the two together, those between separate them.
            i, j = np.triu_indices(k, 1)
            from_here = np.append(np.cumsum(lower[::-1])[::-1], 0.0)
            up_to_here = np.append(0.0, np.cumsum(upper))
            both[i, j] = from_here[j] + up_to_here[i]
            # sums from i to j − 1 begun afresh for every i: a difference of two cumulative sums would cancel
            only_first[i, j] = np.cumsum(np.triu(np.broadcast_to(lower, (k, k - 1))), axis=1)[i, j - 1]
            only_second[i, j] = np.cumsum(np.triu(np.broadcast_to(upper, (k, k - 1))), axis=1)[i, j - 1]
        squares = rows**2
        length = squares.sum(axis=0)
        inner = rows.T @ rows
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(length > 0, inner.T / np.where(length > 0, length, 1.0), 0.0).T  # onto the first
        # ‖y‖² − ⟨x, y⟩²/‖x‖² and ‖x − y‖² as sums of squares, which do not cancel
        rejection = ((rows[:, None, :] - slope * rows[:, :, None]) ** 2).sum(axis=0)
        spread = ((rows[:, None, :] - rows[:, :, None]) ** 2).sum(axis=0)
        # (B + F + p)(B + S + q) − (B + r)² multiplied out, with p + q − 2r the spread and pq − r² = p · rejection
        area = (
            both * (only_first + only_second + spread)
            + only_first * (only_second + length[None, :])
            + only_second * length[:, None]
            + length[:, None] * rejection
        )
        angle = np.triu(np.arctan2(np.sqrt(area), both + inner), 1)
        angle = angle + angle.T
        zero = np.diagonal(self._group_gram(lower, upper, rows)) == 0
        angle[zero, :] = angle[:, zero] = math.nan
        return np.asarray(angle[np.ix_(self.group, self.group)])

    def split_energies(self, layer: int) -> tuple[Floats, Floats]:
        """Sums of squared heights of the rows with two clusters, for each split of the sorted batch.

        Entry m − 1 of the first array belongs to the rows whose m smallest distinct values are positive, that of the
        second to those whose other values are; both in units of `exp(log_scale(layer))`.

        Example:
            >>> tree = evolve_tree([0.0, 1.0, 5.0], 1)
            >>> lower, upper = tree.split_energies(1)
            >>> (upper * np.exp(tree.log_scale(1))).round(9).tolist()  # the row 0, 0, 3
            [0.0, 9.0]

        Implements: 000/eq-39-40, 000/eq-41-43, 000/eq-63-73 (A, B, C, D are its first and last two entries).
        """
        lower, upper, rows, _ = self._scaled(layer)
        gram = self._group_gram(lower, upper, rows)
        trace = float(np.diagonal(gram) @ self.counts)
        return (lower / trace, upper / trace) if trace > 0 else (lower, upper)

    def _gram_and_scale(self, layer: int) -> tuple[Floats, float]:
        lower, upper, rows, exponent = self._scaled(layer)
        gram = self._group_gram(lower, upper, rows)
        trace = float(np.diagonal(gram) @ self.counts)
        gram = gram[np.ix_(self.group, self.group)]
        return (gram / trace, math.log(trace) + exponent * _LN2) if trace > 0 else (gram, -math.inf)

    def _group_gram(self, lower: Floats, upper: Floats, rows: Floats) -> Floats:
        first = np.append(np.cumsum(lower[::-1])[::-1], 0.0)  # energy of the splits with i on the lower, positive side
        last = np.append(0.0, np.cumsum(upper))
        index = np.arange(len(self.counts))
        gram = first[np.maximum.outer(index, index)] + last[np.minimum.outer(index, index)]
        return np.asarray(gram + rows.T @ rows)

    def _scaled(self, layer: int) -> tuple[Floats, Floats, Floats, int]:
        """(lo, hi, explicit rows, e): the layer in units of 2^e for squares, so that the largest square is near 1."""
        if not -len(self.clusters) <= layer < len(self.clusters):
            raise IsometerError(f"layer is {layer}; expected 0 to {self.depth} — evolve the tree further")
        mantissas, exponents = self._mantissas[layer], self._exponents[layer]
        rows, row_exponents = self._explicit[layer], self._explicit_exponents[layer]
        used = mantissas.any(axis=0)
        sizes = [*exponents[used].tolist()]
        _, top = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
        sizes += [2 * (int(e) + int(t)) for e, t in zip(row_exponents, top, strict=True)]
        reference = max(sizes, default=0)
        reference += reference % 2  # even, so that rows scale by a whole power of two
        lower, upper = np.ldexp(mantissas, np.where(used, exponents - reference, 0))
        scaled = np.ldexp(rows, (row_exponents - reference // 2)[:, None])
        return lower, upper, scaled, reference
