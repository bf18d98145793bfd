"""What one layer does to a row: recentre and rectify; clusters, and what becomes of two of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError
from isometer_papers.simulate.tree.exact_rows import numeric

STABLE_CLUSTERS = 3  # 000/def-8: a row with at most this many clusters is stable


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


def _centred(rows: ArrayLike) -> NDArray[Any]:
    array = numeric(np.asarray(rows))
    if array.ndim == 0 or array.shape[-1] == 0:
        raise IsometerError(f"rows have shape {array.shape}; expected (…, n) with at least one sample")
    return np.asarray(array - array.sum(axis=-1, keepdims=True) / array.shape[-1])


def _check_split(members: int, n: int, name: str) -> None:
    if not 1 <= members <= n - 1:
        raise IsometerError(f"{name} is {members} of n = {n}; expected 1 to n − 1, or there are no two clusters")
