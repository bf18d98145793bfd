"""How many ReLU neurons make the representation of a batch of full rank.

The hyperplanes orthogonal to the samples cut the space of weights into cells, in each of which a neuron is a linear
function of its weights. Volumes are probabilities of standard Gaussian weights. In the plane cells are arcs and all
numbers are exact; arrays of mpmath numbers go through unchanged.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, atan2, is_precise, log, pi_like
from isometer_papers.theory.rank.bounds import numeric

__all__ = [
    "Cells",
    "chernoff_exponent",
    "chernoff_point",
    "circle_batch",
    "circle_cell_volumes",
    "expected_neurons_bound",
    "full_rank_exponent",
    "full_rank_exponent_simple",
    "image_points",
    "least_cell_volume",
    "nearest_column",
    "neurons_until_full_rank",
    "pair_step_tail",
    "pair_steps_joint",
    "plane_cells",
    "rank_gain_probability",
    "rectified",
    "sampled_least_cell_volume",
    "sign_flip",
]


class Cells(NamedTuple):
    """Cells of the plane: their volumes, and a weight vector inside each."""

    volumes: Numeric
    inside: Numeric


def rectified(array: Numeric) -> Numeric:
    """max(x, 0) by entry, of floats or mpmath numbers.

    Example:
        >>> rectified(np.array([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """
    values = np.asarray(array)
    return np.where(values > 0, values, 0 * abs(values))  # abs: 0 times a negative number is −0.0


def _turns(batch: Numeric) -> list[Numeric]:
    """Directions orthogonal to the samples, as parts of a full turn in [0, 1), sorted."""
    found = []
    for x, y in batch:
        turn = atan2(y, x) / (2 * pi_like(x))
        for quarter in (0.25, 0.75):
            value = turn + quarter
            found.append(value - int(value) if value >= 0 else value + 1)
    return sorted(found)


def plane_cells(batch: ArrayLike) -> Cells:
    """Cells of positive volume of a batch of two features.

    Args:
        batch: `(n, 2)`, no sample zero.

    Returns:
        Volumes that sum to 1, and inner points `(cells, 2)`.

    Example:
        >>> plane_cells([[1.0, 0.0], [0.0, 1.0]]).volumes.tolist()
        [0.25, 0.25, 0.25, 0.25]

    Implements: 000/def-1.
    """
    x = numeric(batch)
    if x.ndim != 2 or x.shape[1] != 2 or not all(a != 0 or b != 0 for a, b in x):
        raise IsometerError(f"batch has shape {x.shape}; expected (n, 2) without a zero sample")
    turns = _turns(x)
    # parallel samples share directions up to rounding; the sliver between them is no cell
    least = 1e-13 if not is_precise(x) else 1e-40
    volumes, inside = [], []
    for first, second in zip(turns, [*turns[1:], turns[0] + 1], strict=True):
        if second - first > least:
            volumes.append(second - first)
            inside.append(_unit((first + second) / 2))
    kind = object if is_precise(x) else float
    return Cells(np.array(volumes, dtype=kind), np.array(inside, dtype=kind))


def _unit(turn: Numeric) -> list[Numeric]:
    angle = 2 * pi_like(turn) * turn
    if isinstance(turn, float):
        return [float(np.cos(angle)), float(np.sin(angle))]
    import mpmath

    return [mpmath.cos(angle), mpmath.sin(angle)]


def least_cell_volume(batch: ArrayLike) -> Numeric:
    """γ(X): the least positive volume of a cell, for a batch of one or two features.

    Example:
        >>> least_cell_volume([[1.0, 0.0], [1.0, 1.0]])
        0.125

    Implements: 000/def-1 (5).
    """
    x = numeric(batch)
    if x.shape[1] == 1:
        return 0.5
    return min(plane_cells(x).volumes.tolist())


def sampled_least_cell_volume(batch: ArrayLike, *, draws: int, rng: np.random.Generator) -> float:
    """γ(X) for any number of features, from the least frequent sign pattern; cells that were not met are missing.

    Example:
        >>> volume = sampled_least_cell_volume(np.eye(3), draws=20_000, rng=np.random.default_rng(0))
        >>> bool(0.1 < volume < 0.13)
        True

    Implements: 000/def-1 (5).
    """
    x = np.asarray(batch, dtype=float)
    signs = rng.standard_normal((draws, x.shape[1])) @ x.T > 0
    # packed into bytes, rows are eight times shorter to sort
    _, counts = np.unique(np.packbits(signs, axis=1), axis=0, return_counts=True)
    return float(counts.min()) / draws


def circle_batch(n: int) -> Numeric:
    """n equally spaced points of the unit circle, `(n, 2)`.

    Example:
        >>> circle_batch(4).round(9).tolist()[0]
        [0.0, 1.0]

    Implements: 000/example-circle.
    """
    angle = 2 * np.pi * np.arange(1, n + 1) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def circle_cell_volumes(n: int) -> list[Fraction]:
    """Volumes of the cells of `circle_batch(n)` as fractions: the directions are rational parts of a turn.

    Example:
        >>> circle_cell_volumes(3)[:2], len(circle_cell_volumes(3))
        ([Fraction(1, 6), Fraction(1, 6)], 6)

    Implements: 000/example-circle.
    """
    turns = sorted({(Fraction(i, n) + Fraction(q, 4)) % 1 for i in range(n) for q in (1, 3)})
    return [b - a for a, b in zip(turns, [*turns[1:], turns[0] + 1], strict=True)]


def rank_gain_probability(batch: ArrayLike, weights: ArrayLike) -> Numeric:
    """Chance that one more Gaussian neuron makes the representation of all samples of full rank, in the plane.

    The neurons so far represent all samples but the last with full rank. Either they do so with the last too, and the
    chance is 1, or one linear combination of the samples vanishes on them, and the new neuron has to lie in a cell
    where it does not.

    Args:
        batch: `(t + 1, 2)`.
        weights: `(r, 2)`, r may be 0 for t = 0.

    Example:
        >>> float(rank_gain_probability([[1.0, 0.0]], np.zeros((0, 2))))
        0.5

    Implements: 000/lem-2 (6), (13)–(17).
    """
    x, w = numeric(batch), numeric(weights)
    hidden = rectified(x @ w.T)  # samples × neurons
    t = len(x) - 1
    coefficients = _combination(hidden)
    small = 1e-9 if not is_precise(x) else 1e-30
    if t > 0 or w.shape[0]:
        rest = hidden[t] - (coefficients @ hidden[:t] if t else 0)
        size = max([1e-300, *(abs(v) for v in hidden[t])]) if w.shape[0] else 1
        if w.shape[0] and max(abs(v) for v in rest) > small * size:
            return 1.0 if not is_precise(x) else hidden.sum() * 0 + 1
    combination = np.append(coefficients, [-1])
    total = 0.0 if not is_precise(x) else x.sum() * 0
    cells = plane_cells(x)
    for volume, inner in zip(cells.volumes, cells.inside, strict=True):
        # Σ a_i relu(w·x_i) = w · Σ_active a_i x_i inside a cell: zero throughout, or almost nowhere
        gradient = (np.where(x @ inner > 0, combination, combination * 0)[:, None] * x).sum(axis=0)
        if max(abs(v) for v in gradient) > small * max(abs(v) for v in x.ravel()):
            total = total + volume
    return total


def _combination(hidden: Numeric) -> Numeric:
    """a with Σ a_j h_j = h_{t+1}, as good as possible."""
    t = len(hidden) - 1
    if t == 0 or hidden.shape[1] == 0:
        return np.zeros(t)
    if not is_precise(hidden):
        return np.linalg.lstsq(hidden[:t].T, hidden[t], rcond=None)[0]
    import mpmath

    solved = mpmath.lu_solve(mpmath.matrix(hidden[:t].T.tolist()), mpmath.matrix(hidden[t].tolist()))
    return np.array(list(solved), dtype=object)


def nearest_column(batch: ArrayLike, weight: ArrayLike, *, normalized: bool) -> int:
    """The sample with the least |w·x_i|, or with the least |w·x_i|/‖x_i‖, the nearest hyperplane.

    Example:
        >>> batch = [[0.1, 0.0], [1.0, -0.5]]
        >>> nearest_column(batch, [1.0, 1.0], normalized=False), nearest_column(batch, [1.0, 1.0], normalized=True)
        (0, 1)

    Implements: 000/lem-2 (18).
    """
    x, w = numeric(batch), numeric(weight)
    sizes = abs(x @ w)
    if normalized:
        sizes = sizes / (x * x).sum(axis=1) ** 0.5
    return min(range(len(x)), key=lambda i: sizes[i])


def sign_flip(batch: ArrayLike, weight: ArrayLike, index: int, *, squared: bool, beyond: Numeric = 1e-6) -> Numeric:
    """Products of all samples with `w − (1 + ε)(w·x_i/‖x_i‖^p) x_i`, p = 2 (`squared`) or 1.

    Example:
        >>> sign_flip([[0.5, 0.0]], [1.0, 0.0], 0, squared=False, beyond=0.0).tolist()
        [0.25]
        >>> sign_flip([[0.5, 0.0]], [1.0, 0.0], 0, squared=True, beyond=0.5).tolist()
        [-0.25]

    Implements: 000/lem-2 (19), (20).
    """
    x, w = numeric(batch), numeric(weight)
    size = (x[index] * x[index]).sum() ** (1 if squared else 0.5)
    return x @ (w - (1 + beyond) * (x[index] @ w) / size * x[index])


def expected_neurons_bound(samples: int, gamma: Numeric) -> Numeric:
    """n/γ.

    Example:
        >>> expected_neurons_bound(3, 0.5)
        6.0

    Implements: 000/thm-3.1.
    """
    return samples / gamma


def full_rank_exponent(alpha: Numeric, gamma: Numeric) -> Numeric:
    """(α/γ) log(1/α) + (α/γ − 1) log((α − γ)/(1 − γ)): d = αn/γ neurons fail with probability at most exp(−n·this).

    Example:
        >>> round(full_rank_exponent(3.0, 0.25), 6)
        1.108765

    Implements: 000/thm-3.2a (7a), 000/eq-26-28 (28c).
    """
    ratio = alpha / gamma
    return -ratio * log(alpha) + (ratio - 1) * log((alpha - gamma) / (1 - gamma))


def full_rank_exponent_simple(alpha: Numeric) -> Numeric:
    """α − 1 − log α, the limit γ → 0 of `full_rank_exponent`.

    Example:
        >>> round(full_rank_exponent_simple(3.0), 6)
        0.901388

    Implements: 000/thm-3.2b (7b), 000/eq-26-28 (28d).
    """
    return alpha - 1 - log(alpha)


def chernoff_exponent(alpha: Numeric, gamma: Numeric, s: Numeric) -> Numeric:
    """−log of γ eˢ/(1 − (1 − γ)eˢ) · exp(−sα/γ), the bound per sample before it is minimised.

    Example:
        >>> chernoff_exponent(3.0, 0.5, 0.0)
        0.0

    Implements: 000/eq-26-28 (28b).
    """
    grown = 1 - (1 - gamma) * _exponential(s)
    return s * alpha / gamma - s - log(gamma) + log(grown)


def chernoff_point(alpha: Numeric, gamma: Numeric) -> Numeric:
    """The s at which the bound is least: log((α/γ − 1)/((α/γ)(1 − γ))).

    Example:
        >>> round(chernoff_point(3.0, 0.5), 6) == round(float(np.log(5 / 3)), 6)
        True

    Implements: 000/eq-26-28 (28c).
    """
    ratio = alpha / gamma
    return log((ratio - 1) / (ratio * (1 - gamma)))


def _exponential(value: Numeric) -> Numeric:
    if isinstance(value, float | int):
        return float(np.exp(value))
    import mpmath

    return mpmath.exp(value)


def pair_steps_joint(share: Numeric) -> tuple[Numeric, Numeric]:
    """P(y₁ = 1, y₂ = 0) and P(y₁ = 1) P(y₂ = 0) for two samples at the angle `share`·π.

    After one neuron the rank is at most 1, so that the first is 0. If y₁ = m, the m − 1 neurons before see the second
    sample with probability `share` each, and then y₂ = 0.

    Example:
        >>> pair_steps_joint(0.5)
        (0.0, 0.16666666666666666)

    Implements: 000/eq-26-28 (the independence of the steps).
    """
    return share * 0, share / (1 + share) / 2


def pair_step_tail(share: Numeric, first: int, more: int) -> Numeric:
    """P(y₂ > m | y₁ = first) for two samples at the angle `share`·π.

    Example:
        >>> pair_step_tail(0.5, 1, 0)
        1.0

    Implements: 000/eq-26-28 (the law of a step given the ones before).
    """
    half = share * 0 + 1
    silent = (half / 2) ** more
    shared = ((1 - share) / 2) ** more
    return (1 - share) ** (first - 1) * (share * silent + (1 - share) * shared)


def image_points(weights: ArrayLike) -> Numeric:
    """relu(Wx) for W with two columns at two points of every cell: `(points, d)`, whose rank is the image's dimension.

    Example:
        >>> int(np.linalg.matrix_rank(image_points([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])))
        3

    Implements: 000/cmp-dittmer.
    """
    w = numeric(weights)
    turns = _turns(w)
    points = []
    for first, second in zip(turns, [*turns[1:], turns[0] + 1], strict=True):
        points += [_unit((2 * first + second) / 3), _unit((first + 2 * second) / 3)]
    return rectified(np.array(points, dtype=w.dtype) @ w.T)


def neurons_until_full_rank(
    batch: ArrayLike, *, rng: np.random.Generator, limit: int, recenter: bool = False, steps: bool = False
) -> Numeric:
    """Draws of y: Gaussian neurons are added until relu(WX) has rank n.

    Args:
        batch: `(n, k)`.
        rng: of the weights.
        limit: neurons after which the count stops, y = limit.
        recenter: subtract the mean of the batch before the ReLU; rescaling neurons changes no rank.
        steps: return y₁ … y_n as well, the neurons needed for each further sample.

    Returns:
        y, or the array of steps, which sum to y.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> neurons_until_full_rank([[1.0], [2.0]], rng=rng, limit=50)  # parallel samples
        50

    Implements: 000/thm-3.1, 000/cor-4, 000/eq-26-28.
    """
    x = np.asarray(batch, dtype=float)
    if recenter:
        x = x - x.mean(axis=0)
    n = len(x)
    basis = np.zeros((n, 0))
    reached = np.full(n, limit)  # neurons until the first i + 1 samples have full rank
    bases = [np.zeros((i + 1, 0)) for i in range(n)] if steps else []
    count = 0
    while count < limit:
        block = rectified(x @ rng.standard_normal((x.shape[1], min(32, limit - count))))
        for row in block.T:
            count += 1
            for i in range(n) if steps else ():
                if bases[i].shape[1] <= i:
                    bases[i] = _extended(bases[i], row[: i + 1])
                    if bases[i].shape[1] == i + 1:
                        reached[i] = count
            if not steps:
                basis = _extended(basis, row)
                if basis.shape[1] == n:
                    return count
        if steps and (reached < limit).all():
            break
    return np.diff(reached, prepend=0) if steps else limit


def _extended(basis: Numeric, row: Numeric) -> Numeric:
    """The basis with one more orthonormal vector if the row is not in its span."""
    size = float(np.linalg.norm(row))
    if size == 0:
        return basis
    rest = row / size
    for _ in range(2):  # one pass of Gram–Schmidt leaves parts of the span in a rest that has cancelled
        rest = rest - basis @ (basis.T @ rest)
    left = float(np.linalg.norm(rest))
    return np.concatenate([basis, rest[:, None] / left], axis=1) if left > 1e-9 else basis
