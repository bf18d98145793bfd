"""The tree model of recentring followed by ReLU: one input feature, weights `[I; −I]`, two child rows for every row.

A batch of n numbers becomes `2^t` rows after t layers, but only n of them are interesting. Rows stay monotone in the
sorted input, entries merge only at zero, and a row without an entry at its mean has children with two clusters more
than it had itself. So at most n − 2 rows ever have three clusters or more. Those are kept one by one, in exact integer
arithmetic, since the order of an entry and the mean decides what merges. A row with two clusters is a split of the
sorted batch, a side and a height, and all rows of one split are summed up in two numbers:
`lo' = ((n − m)/n)² (lo + hi)`, `hi' = (m/n)² (lo + hi)`, the sums of squared heights of the rows whose first m, or last
n − m, samples are positive. Every Gram entry is then a sum of non-negative numbers, precise in relative terms at any
depth, since each split carries its own binary exponent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError

__all__ = [
    "TreeTrajectory",
    "brute_force_tree",
    "cluster_values",
    "evolve_tree",
    "exact_tree_grams",
    "negative_transformation",
    "positive_transformation",
    "stabilization_time",
    "two_cluster_energy",
    "two_cluster_row",
]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Number: TypeAlias = float | Fraction
STABLE_CLUSTERS = 3  # 000/def-8: a row with at most this many clusters is stable
_LARGEST_BRUTE_FORCE = 16
_LN2 = math.log(2.0)


def positive_transformation(rows: ArrayLike) -> NDArray[Any]:
    """Recentre and rectify: `y_i = relu(x_i − x̄)`.

    Args:
        rows: `(…, n)`, one row per neuron. `Fraction` entries are computed with exactly.

    Returns:
        `(…, n)`.

    Example:
        >>> positive_transformation([0.0, 1.0, 5.0]).tolist()
        [0.0, 0.0, 3.0]

    Implements: 000/def-5.
    """
    centred = _centred(rows)
    return np.asarray(np.maximum(centred, 0))


def negative_transformation(rows: ArrayLike) -> NDArray[Any]:
    """Mirror, recentre and rectify: `y_i = relu(x̄ − x_i)`.

    Args:
        rows: `(…, n)`, one row per neuron. `Fraction` entries are computed with exactly.

    Returns:
        `(…, n)`.

    Example:
        >>> negative_transformation([0.0, 1.0, 5.0]).tolist()
        [2.0, 1.0, 0.0]

    Implements: 000/def-5.
    """
    centred = _centred(rows)
    return np.asarray(np.maximum(-centred, 0))


def cluster_values(row: ArrayLike, *, tolerance: float = 0.0) -> NDArray[Any]:
    """The distinct entries of a row in ascending order, `C(x)`; their number is `c(x)`.

    No map applied to the entries makes them more (000/lem-7), and a row with at most three of them is stable
    (000/def-8).

    Args:
        row: `(n,)`.
        tolerance: neighbouring values closer than this share of the largest modulus count as one, the smallest of
            them.

    Returns:
        `(c(x),)`.

    Example:
        >>> cluster_values([3.0, 0.0, 1.0, 0.0]).tolist()
        [0.0, 1.0, 3.0]

    Implements: 000/def-6.
    """
    values = np.unique(np.asarray(row))
    if len(values) < 2 or tolerance == 0.0:
        return values
    apart = np.diff(values) > tolerance * np.max(np.abs(values))
    return np.asarray(values[np.concatenate([[True], apart])])


def stabilization_time(values: Sequence[Number] | Floats, signs: Iterable[int]) -> int | None:
    """Number of transformations until a row has at most three clusters.

    Computed exactly, so that ties with the mean are ties.

    Args:
        values: `(n,)`, the row to begin with.
        signs: +1 for a positive, −1 for a negative transformation; may be endless, since every sequence gets there
            (000/thm-10).

    Returns:
        The number of transformations, or None if `signs` ends before.

    Example:
        >>> from itertools import repeat
        >>> stabilization_time([0.0, 1.0, 2.0, 4.0, 8.0], repeat(+1))
        1
        >>> stabilization_time([0.0, 1.0, 2.0, 4.0, 8.0], [-1]) is None
        True

    Implements: 000/thm-10, 000/def-8.
    """
    batch = _Batch.of(values)
    row = batch.row
    if len(row.ends) <= STABLE_CLUSTERS:
        return 0
    for time, sign in enumerate(signs, start=1):
        if sign not in (1, -1):
            raise IsometerError(f"sign {time} is {sign!r}; expected +1 (positive) or −1 (negative transformation)")
        row = row.children(batch.counts)[0 if sign == 1 else 1]
        if len(row.ends) <= STABLE_CLUSTERS:
            return time
    return None


def two_cluster_row(height: Any, zeros: int, n: int, signs: Iterable[int]) -> tuple[Any, int]:
    """What a row with two clusters, `zeros` entries at 0 and the others at `height`, becomes.

    A positive transformation leaves the clusters and multiplies the height by `n₀/n`; a negative one swaps them, and
    the height becomes `c (n − n₀)/n`. After T of them the height is `c (n₀/n)^k ((n − n₀)/n)^{T−k}`, where k counts
    those after which the `zeros` entries of the beginning are at 0.

    Args:
        height: a number, a `Fraction` for an exact answer.
        zeros: n₀, from 1 to n − 1.
        n: samples.
        signs: +1 or −1 for each transformation.

    Returns:
        The height, and the number of entries at 0.

    Example:
        >>> from fractions import Fraction
        >>> two_cluster_row(Fraction(1), 1, 4, [+1, -1])
        (Fraction(3, 16), 3)

    Implements: 000/eq-36-38.
    """
    _check_split(zeros, n, "zeros")
    for sign in signs:
        if sign not in (1, -1):
            raise IsometerError(f"a sign is {sign!r}; expected +1 (positive) or −1 (negative transformation)")
        if sign == 1:
            height = height * zeros / n
        else:
            height, zeros = height * (n - zeros) / n, n - zeros
    return height, zeros


def two_cluster_energy(height: Any, members: int, n: int, layers: int) -> Any:
    """Sum of squares of one entry over all descendants of a row with two clusters.

    `c² ((n − n_ℓ)/n)² {((n − n_ℓ)/n)² + (n_ℓ/n)²}^{T−1}`, T layers below a row of height c in which that entry belongs
    to a cluster of n_ℓ samples, whichever of the two is positive.

    Args:
        height: c, a number or a `Fraction`.
        members: n_ℓ, from 1 to n − 1.
        n: samples.
        layers: T, at least 1.

    Returns:
        A number of the kind of `height`.

    Example:
        >>> from fractions import Fraction
        >>> two_cluster_energy(Fraction(1), 3, 4, 2)
        Fraction(5, 128)

    Implements: 000/eq-39-40.
    """
    _check_split(members, n, "members")
    if layers < 1:
        raise IsometerError(f"layers is {layers}; expected at least 1 — the row itself has energy height²")
    # Powers of whole numbers before the division: exact for fractions, one rounding for floats.
    return height**2 * (n - members) ** 2 * ((n - members) ** 2 + members**2) ** (layers - 1) / n ** (2 * layers)


def brute_force_tree(values: ArrayLike, depth: int) -> NDArray[Any]:
    """All `2^depth` rows of the tree, every one computed.

    `X^{(t+1)} = relu([I; −I] (X^{(t)} − x̄^{(t)}))`: the positive children of all rows, then the negative ones.

    Args:
        values: `(n,)`, the input feature of each sample; `Fraction` entries give exact rows.
        depth: layers, at most 16.

    Returns:
        `(2^depth, n)`, neurons by samples as the paper has it: its columns are the samples.

    Example:
        >>> brute_force_tree([0.0, 1.0, 5.0], 1).tolist()
        [[0.0, 0.0, 3.0], [2.0, 1.0, 0.0]]

    Implements: 000/model-tree (9), (10).
    """
    if not 0 <= depth <= _LARGEST_BRUTE_FORCE:
        raise IsometerError(
            f"depth is {depth}, that is 2^{depth} rows; expected 0 to {_LARGEST_BRUTE_FORCE} — use evolve_tree"
        )
    rows = np.asarray(values)
    if rows.ndim != 1 or rows.size == 0:
        raise IsometerError(f"values have shape {rows.shape}; expected (n,), one number per sample")
    rows = _numeric(rows)[None]
    for _ in range(depth):
        rows = np.concatenate([positive_transformation(rows), negative_transformation(rows)])
    return rows


def exact_tree_grams(values: Sequence[Number] | Floats, depth: int) -> list[NDArray[Any]]:
    """The inner products of the samples at every layer as fractions.

    The recursion of `evolve_tree` without a rounding anywhere. Numerators grow with depth: meant as a reference for
    some hundred layers of some ten samples.

    Args:
        values: `(n,)`, numbers or `Fraction`s.
        depth: layers.

    Returns:
        depth + 1 matrices `(n, n)` of `Fraction`.

    Example:
        >>> exact_tree_grams([0, 1, 5], 2)[2].tolist()[0]
        [Fraction(2, 1), Fraction(1, 1), Fraction(0, 1)]

    Implements: 000/model-tree.
    """
    batch = _Batch.of(values)
    _check_depth(depth)
    n, k = len(batch.group), len(batch.counts)
    energies = [[Fraction(0), Fraction(0)] for _ in range(k - 1)]  # lo, hi of every split
    below = np.cumsum(batch.counts).tolist()
    rows, grams = [batch.row], []
    denominator = batch.denominator
    for layer in range(depth + 1):
        gram = np.full((k, k), Fraction(0))
        for row in rows:
            heights = np.array([Fraction(height, denominator) for height in row.by_group()], dtype=object)
            gram = gram + np.outer(heights, heights)
        for split, (lower, upper) in enumerate(energies):
            gram[: split + 1, : split + 1] += lower
            gram[split + 1 :, split + 1 :] += upper
        grams.append(gram[np.ix_(batch.group, batch.group)])
        if layer == depth:
            break
        for split, (lower, upper) in enumerate(energies):
            total, m = lower + upper, below[split]
            energies[split] = [total * Fraction(n - m, n) ** 2, total * Fraction(m, n) ** 2]
        denominator *= n
        rows, pairs = _next_rows(rows, batch.counts)
        for split, side, height in pairs:
            energies[split][side] += Fraction(height, denominator) ** 2
    return grams


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
    batch = _Batch.of(values)
    _check_depth(depth)
    n, k = len(batch.group), len(batch.counts)
    below = np.cumsum(batch.counts)[:-1] / n  # share of the samples below each split
    mantissas = np.zeros((depth + 1, 2, k - 1))
    exponents = np.zeros((depth + 1, k - 1), dtype=np.int64)
    factors = np.stack([(1 - below) ** 2, below**2])
    rows, denominator = [batch.row], batch.denominator
    explicit: list[Floats] = []
    explicit_exponents: list[Integers] = []
    clusters = np.zeros(depth + 1, dtype=np.int64)
    for layer in range(depth + 1):
        unit, unit_exponent = _float_and_exponent(denominator)
        floats = [row.as_floats() for row in rows]
        explicit.append(np.array([heights for heights, _ in floats]).reshape(-1, k) / unit)
        explicit_exponents.append(np.array([e - unit_exponent for _, e in floats], dtype=np.int64))
        clusters[layer] = max(
            [len(row.ends) for row in rows] + [2 if mantissas[layer].any() else 1],
        )
        if layer == depth:
            break
        energy, exponent = mantissas[layer].sum(axis=0) * factors, exponents[layer].copy()
        denominator *= n
        rows, pairs = _next_rows(rows, batch.counts)
        unit, unit_exponent = _float_and_exponent(denominator)
        for split, side, height in pairs:
            mantissa, shift = _float_and_exponent(height)
            square, shift = (mantissa / unit) ** 2, 2 * (shift - unit_exponent)
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
            only_first[i, j] = np.cumsum(np.triu(np.broadcast_to(lower, (k, k - 1))), axis=1)[i, j - 1]
            only_second[i, j] = np.cumsum(np.triu(np.broadcast_to(upper, (k, k - 1))), axis=1)[i, j - 1]
        squares = rows**2
        length = squares.sum(axis=0)
        inner = rows.T @ rows
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(length > 0, inner.T / np.where(length > 0, length, 1.0), 0.0).T  # onto the first
        rejection = ((rows[:, None, :] - slope * rows[:, :, None]) ** 2).sum(axis=0)
        spread = ((rows[:, None, :] - rows[:, :, None]) ** 2).sum(axis=0)
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


# --- exact rows ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    """A row with its clusters in the order of the groups: cluster c ends before group `ends[c]` and has `heights[c]`.

    Heights are whole numbers over a denominator that all rows of a layer share.
    """

    ends: tuple[int, ...]
    heights: tuple[int, ...]

    def children(self, counts: Sequence[int]) -> tuple[_Row, _Row]:
        """The positive and the negative child, over n times the denominator."""
        total, n, start = 0, sum(counts), 0
        for end, height in zip(self.ends, self.heights, strict=True):
            total += sum(counts[start:end]) * height
            start = end
        above = [n * height - total for height in self.heights]
        return self._rectified(above), self._rectified([-height for height in above])

    def _rectified(self, heights: Iterable[int]) -> _Row:
        ends: list[int] = []
        merged: list[int] = []
        for end, signed in zip(self.ends, heights, strict=True):
            height = max(signed, 0)
            if merged and merged[-1] == height:  # different heights meet only at zero
                ends[-1] = end
            else:
                ends.append(end)
                merged.append(height)
        return _Row(tuple(ends), tuple(merged))

    def by_group(self) -> list[int]:
        """One height per group."""
        heights: list[int] = []
        for end, height in zip(self.ends, self.heights, strict=True):
            heights += [height] * (end - len(heights))
        return heights

    def as_floats(self) -> tuple[list[float], int]:
        """(values per group, e), each value in units of 2^e."""
        split = [_float_and_exponent(height) for height in self.heights]
        shift = max(exponent for _, exponent in split)
        values: list[float] = []
        for end, (mantissa, exponent) in zip(self.ends, split, strict=True):
            values += [math.ldexp(mantissa, exponent - shift)] * (end - len(values))
        return values, shift


@dataclass(frozen=True)
class _Batch:
    """The input: sorted distinct values as whole numbers over one denominator, and who has which."""

    group: Integers
    counts: list[int]
    row: _Row
    denominator: int

    @classmethod
    def of(cls, values: Sequence[Number] | Floats) -> _Batch:
        array = np.asarray(values)
        if array.ndim != 1 or array.size == 0:
            raise IsometerError(f"values have shape {array.shape}; expected (n,), one number per sample")
        if array.dtype != object:
            array = _numeric(array)
            if not np.isfinite(array).all():
                raise IsometerError(
                    f"values have {int((~np.isfinite(array)).sum())} NaN or infinite entries of {array.size}; "
                    "expected finite numbers — drop those samples"
                )
        exact = [Fraction(value) for value in array.tolist()]
        denominator = math.lcm(*(value.denominator for value in exact))
        whole = [int(value * denominator) for value in exact]
        distinct = sorted(set(whole))
        rank = {value: index for index, value in enumerate(distinct)}
        group = np.array([rank[value] for value in whole], dtype=np.int64)
        counts = np.bincount(group, minlength=len(distinct)).tolist()
        return cls(group, counts, _Row(tuple(range(1, len(distinct) + 1)), tuple(distinct)), denominator)


def _next_rows(rows: Sequence[_Row], counts: Sequence[int]) -> tuple[list[_Row], list[tuple[int, int, int]]]:
    """(children with three clusters or more, children with two as (split, side, height)); side 0 is the lower one."""
    many: list[_Row] = []
    pairs: list[tuple[int, int, int]] = []
    for row in rows:
        for child in row.children(counts):
            if len(child.ends) > 2:
                many.append(child)
            elif len(child.ends) == 2:
                first, second = child.heights
                pairs.append((child.ends[0] - 1, 0, first) if first else (child.ends[0] - 1, 1, second))
    return many, pairs


def _float_and_exponent(whole: int) -> tuple[float, int]:
    """`whole` as float · 2^exponent, whatever its size."""
    shift = max(abs(whole).bit_length() - 64, 0)
    return float(whole >> shift), shift


def _numeric(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype == object:
        return array
    if array.dtype.kind not in "fiub":
        raise IsometerError(f"values have dtype {array.dtype}; expected real numbers or fractions")
    return array.astype(np.float64)


def _centred(rows: ArrayLike) -> NDArray[Any]:
    array = _numeric(np.asarray(rows))
    if array.ndim == 0 or array.shape[-1] == 0:
        raise IsometerError(f"rows have shape {array.shape}; expected (…, n) with at least one sample")
    return np.asarray(array - array.sum(axis=-1, keepdims=True) / array.shape[-1])


def _check_depth(depth: int) -> None:
    if depth < 0:
        raise IsometerError(f"depth is {depth}; expected a whole number of at least 0")


def _check_split(members: int, n: int, name: str) -> None:
    if not 1 <= members <= n - 1:
        raise IsometerError(f"{name} is {members} of n = {n}; expected 1 to n − 1, or there are no two clusters")
