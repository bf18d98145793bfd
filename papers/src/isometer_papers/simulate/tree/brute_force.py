"""The tree row by row, and its Gram matrices as fractions: references for `evolve_tree`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError
from isometer_papers.simulate.tree.exact_rows import DistinctValues, Floats, Number, check_depth, next_rows, numeric
from isometer_papers.simulate.tree.transformations import negative_transformation, positive_transformation

_LARGEST_BRUTE_FORCE = 16


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
    rows = numeric(rows)[None]
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
    batch = DistinctValues.of(values)
    check_depth(depth)
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
            # a row of height c on either side has the children c(n − m)/n below the split and cm/n above it
            energies[split] = [total * Fraction(n - m, n) ** 2, total * Fraction(m, n) ** 2]
        denominator *= n  # children are over n times the denominator of their parents
        rows, pairs = next_rows(rows, batch.counts)
        for split, side, height in pairs:
            energies[split][side] += Fraction(height, denominator) ** 2
    return grams
