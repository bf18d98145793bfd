"""One layer of recentring and ReLU with Gaussian weights on an odd point and a cluster: expectations in closed form.

Weights are d × k with variance σ²; functions take `energy` = dσ², what d neurons add up to. A batch is `(n, k)`, its
first sample the odd point. Arrays of mpmath numbers go through unchanged.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import ArrayLike

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, angle_of_cosine, gamma, pi_like
from isometer_papers.theory.rank.bounds import numeric

__all__ = [
    "centred_batch",
    "cluster_centre",
    "expected_length",
    "expected_product",
    "expected_square",
    "expected_squared_distance",
    "invariance_factor",
    "invariant_batch",
    "invariant_defects",
    "mean_image_product",
    "odd_distance",
    "recentred_relu_gram",
    "stability_factor",
]


def invariant_batch(n: int, features: int = 2) -> Numeric:
    """The invariant representation in its plainest form: x₁ = e₁, all others e₂/(n − 1).

    Example:
        >>> invariant_batch(3).tolist()
        [[1.0, 0.0], [0.0, 0.5], [0.0, 0.5]]

    Implements: 000/def-12.
    """
    if n < 2 or features < 2:
        raise IsometerError(f"n is {n}, features {features}; expected at least 2 of both")
    batch = np.zeros((n, features))
    batch[0, 0] = 1.0
    batch[1:, 1] = 1.0 / (n - 1)
    return batch


def cluster_centre(batch: ArrayLike) -> Numeric:
    """ν_c, the mean of all samples but the first.

    Example:
        >>> cluster_centre([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]]).tolist()
        [0.0, 2.0]

    Implements: 000/def-12.
    """
    x = numeric(batch)
    return x[1:].sum(axis=0) / (len(x) - 1)


def odd_distance(batch: ArrayLike) -> Numeric:
    """R = ‖x₁ − ν_c‖.

    Example:
        >>> float(odd_distance([[3.0, 0.0], [0.0, 4.0]]))
        5.0

    Implements: 000/thm-14.
    """
    x = numeric(batch)
    difference = x[0] - cluster_centre(x)
    return (difference * difference).sum() ** 0.5


def invariant_defects(batch: ArrayLike) -> tuple[Numeric, Numeric, Numeric, Numeric]:
    """By how much each item fails: ‖x₁‖² − 1, (n − 1)²‖ν_c‖² − 1, x₁·ν_c and the largest ‖x_i − ν_c‖², i ≥ 2.

    Example:
        >>> [float(defect) for defect in invariant_defects(invariant_batch(3))]
        [0.0, 0.0, 0.0, 0.0]

    Implements: 000/def-12.
    """
    x = numeric(batch)
    centre = cluster_centre(x)
    apart = ((x[1:] - centre) ** 2).sum(axis=1)
    return (x[0] @ x[0] - 1, (len(x) - 1) ** 2 * (centre @ centre) - 1, x[0] @ centre, max(apart.tolist()))


def centred_batch(batch: ArrayLike) -> Numeric:
    """x̃_i = x_i − x̄, and in a last row ν_c − x̄.

    Example:
        >>> centred_batch(invariant_batch(2)).tolist()
        [[0.5, -0.5], [-0.5, 0.5], [-0.5, 0.5]]

    Implements: 000/eq-101-104.
    """
    x = numeric(batch)
    mean = x.sum(axis=0) / len(x)
    return np.concatenate([x - mean, (cluster_centre(x) - mean)[None]])


def invariance_factor(n: int, one: Numeric = 1.0) -> Numeric:
    """α = n²/(n² − 2n + 2).

    Example:
        >>> invariance_factor(2)
        2.0

    Implements: 000/thm-13.
    """
    return one * n**2 / (n**2 - 2 * n + 2)


def stability_factor(n: int, distance: Numeric) -> Numeric:
    """α = n²/((n − 1)² R²).

    Example:
        >>> stability_factor(2, 4.0)
        0.25

    Implements: 000/thm-14.
    """
    return n**2 / ((n - 1) ** 2 * distance**2)


def expected_square(vector: ArrayLike, energy: Numeric) -> Numeric:
    """E‖relu(Wx)‖² = dσ²‖x‖²/2.

    Example:
        >>> float(expected_square([3.0, 4.0], 2.0))
        25.0

    Implements: 000/eq-95-98, 000/thm-13, 000/thm-14.
    """
    x = numeric(vector)
    return energy * (x @ x) / 2


def mean_image_product(first: ArrayLike, second: ArrayLike, energy: Numeric) -> Numeric:
    """E relu(Wx) · E relu(Wy) = dσ²‖x‖‖y‖/(2π): the inner product of the expectations.

    Example:
        >>> round(float(mean_image_product([1.0, 0.0], [0.0, 1.0], 2.0)), 6)
        0.31831

    Implements: 000/thm-13 (E X as a matrix).
    """
    x, y = numeric(first), numeric(second)
    size = (x @ x) ** 0.5 * (y @ y) ** 0.5
    return energy * size / (2 * pi_like(size))


def expected_length(vector: ArrayLike, width: int, variance: Numeric) -> Numeric:
    """E‖relu(Wx)‖ for d neurons: a mixture of χ laws, k of the d neurons being active.

    Args:
        vector: x.
        width: d.
        variance: σ².

    Example:
        >>> round(float(expected_length([1.0], 1, 2.0)), 6)  # 1/√π
        0.56419

    Implements: 000/thm-14, items 1 and 2.
    """
    x = numeric(vector)
    size = ((x @ x) * variance) ** 0.5
    half = size * 0 + 1
    total = size * 0
    for k in range(1, width + 1):
        ratio = gamma(half * (k + 1) / 2) / gamma(half * k / 2)  # E χ_k/√2
        total = total + comb(width, k) * ratio
    return size * (half * 2) ** 0.5 * total / 2**width


def expected_product(first: ArrayLike, second: ArrayLike, energy: Numeric) -> Numeric:
    """K(x, y) = (dσ²/2) ‖x‖‖y‖ (√(1 − ρ²) + (π − arccos ρ)ρ)/π = E relu(Wx)·relu(Wy).

    Example:
        >>> round(float(expected_product([1.0, 0.0], [0.0, 1.0], 2.0)), 6)  # 1/π
        0.31831

    Implements: 000/eq-111, 000/K-gt-ip, 000/eq-8.
    """
    x, y = numeric(first), numeric(second)
    size = (x @ x) ** 0.5 * (y @ y) ** 0.5
    if size == 0:
        return size * 0
    rho = min(max((x @ y) / size, size * 0 - 1), size * 0 + 1)  # parallel vectors exceed 1 by a rounding
    pi = pi_like(size)
    return energy * size / 2 * ((1 - rho * rho) ** 0.5 + (pi - angle_of_cosine(rho)) * rho) / pi


def expected_squared_distance(first: ArrayLike, second: ArrayLike, energy: Numeric) -> Numeric:
    """E‖relu(Wx) − relu(Wy)‖².

    Example:
        >>> float(expected_squared_distance([1.0], [-1.0], 2.0))
        2.0

    Implements: 000/eq-112-117, 000/thm-14, item 4.
    """
    squares = expected_square(first, energy) + expected_square(second, energy)
    return squares - 2 * expected_product(first, second, energy)


def recentred_relu_gram(gram: ArrayLike) -> Numeric:
    """Gram matrix after one layer of recentring and ReLU of infinite width, of trace 1; mpmath numbers allowed.

    A reference for `gram_map(…, "relu", recenter=True)`, entry by entry.

    Example:
        >>> recentred_relu_gram(np.eye(4)).round(6).tolist()[0]
        [0.25, 0.042374, 0.042374, 0.042374]

    Implements: 000/eq-8, 000/net-rc-relu.
    """
    g = numeric(gram)
    n = len(g)
    rows = g.sum(axis=1) / n
    centred = g - rows[:, None] - rows[None, :] + rows.sum() / n
    sizes = [max(centred[i, i], 0 * centred[i, i]) ** 0.5 for i in range(n)]
    out = np.zeros((n, n), dtype=g.dtype)
    for i in range(n):
        for j in range(i + 1):
            size = sizes[i] * sizes[j]
            if size == 0:
                continue
            rho = min(max(centred[i, j] / size, size * 0 - 1), size * 0 + 1) if i != j else size * 0 + 1
            pi = pi_like(size)
            if rho == -1:  # antipodes are never active together; the formula would leave a rounding
                continue
            value = size * (max(1 - rho * rho, 0 * rho) ** 0.5 + (pi - angle_of_cosine(rho)) * rho) / (2 * pi)
            out[i, j] = out[j, i] = value
    trace = sum(out[i, i] for i in range(n))
    return out / trace if trace > 0 else out
