"""Covariances of one feature over samples and positions, in variances and 1 − cosine.

Independent parts of amplitudes α_c and cosines ρ_c have together, with α̂ = α/|α|,

    1 − ρ_ij = ½|α̂_i − α̂_j|² + Σ_c α̂_ci α̂_cj (1 − ρ_cij),

a sum without cancellation near ρ = 1. A constant is a part with 1 − ρ = 0. Arrays have a leading axis for matrices that
do not affect each other: positions of which only equal ones are paired, or starting values of one recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isometer.theory.kernels._mixed_lengths import unit_gaps

Floats = NDArray[np.float64]
Gaps = Floats | Callable[[], Floats] | None


@dataclass(frozen=True)
class Covariance:
    """Variances `(stack, m)` and gaps 1 − ρ `(stack, m, m)`, 0 on the diagonal.

    Example:
        >>> Covariance.of_gram(np.array([[[4.0, 1.0], [1.0, 1.0]]])).gaps[0].tolist()
        [[0.0, 0.5], [0.5, 0.0]]
    """

    variances: Floats
    gaps: Floats

    @classmethod
    def of_gram(cls, gram: Floats) -> Covariance:
        """From matrices `(stack, m, m)`; what rounding puts outside of [−1, 1] is cut off."""
        variances = np.maximum(np.diagonal(gram, axis1=-2, axis2=-1), 0.0)
        roots = np.sqrt(np.where(variances > 0.0, variances, 1.0))
        gaps = np.clip(1.0 - gram / (roots[..., :, None] * roots[..., None, :]), 0.0, 2.0)
        return cls(variances.copy(), _hollow(gaps))

    @classmethod
    def of_features(cls, features: Floats) -> Covariance:
        """Of mean products of rows `(stack, m, d)`, each gap to relative accuracy."""
        variances = np.mean(features * features, axis=-1)
        sizes = np.sqrt(np.where(variances > 0.0, variances, 1.0) * features.shape[-1])
        unit = features / sizes[..., None]
        gaps = np.stack([unit_gaps(rows, rows) for rows in unit])
        return cls(variances, _hollow(np.clip(gaps, 0.0, 2.0)))

    def gram(self) -> Floats:
        """The matrices themselves, `(stack, m, m)`."""
        roots = np.sqrt(self.variances)
        out: Floats = 1.0 - self.gaps
        out *= roots[..., :, None]
        out *= roots[..., None, :]
        return out

    def times(self, factor: Floats | float) -> Covariance:
        """All features multiplied by the root of a number, or of one per matrix `(stack, 1)`."""
        return self if isinstance(factor, float) and factor == 1.0 else Covariance(self.variances * factor, self.gaps)

    def part(self, scale: Floats | float = 1.0) -> tuple[Floats, Floats]:
        """As a part of a sum, its features multiplied by `scale`."""
        return scale * np.sqrt(self.variances), self.gaps


def combined(parts: Sequence[tuple[Floats, Gaps]]) -> Covariance:
    """The covariance of a sum of independent parts; see the module.

    Args:
        parts: amplitudes `(stack, m)`, which may be negative, and gaps: a matrix, what makes it, or None for a
            constant.

    Example:
        >>> one = Covariance.of_gram(np.eye(2)[None])
        >>> combined([one.part(), (np.ones((1, 2)), None)]).gram()[0].round(12).tolist()
        [[2.0, 1.0], [1.0, 2.0]]
    """
    if len(parts) == 1 and isinstance(parts[0][1], np.ndarray) and (parts[0][0] >= 0.0).all():
        return Covariance(parts[0][0] ** 2, parts[0][1])
    amplitudes = np.stack([amplitude for amplitude, _ in parts])
    total = np.einsum("ksm,ksm->sm", amplitudes, amplitudes)
    unit = amplitudes / np.sqrt(np.where(total > 0.0, total, 1.0))
    gaps = np.zeros((*total.shape, total.shape[-1]))
    for own, (_, given) in zip(unit, parts, strict=True):
        apart = own[:, :, None] - own[:, None, :]
        apart *= apart
        apart *= 0.5
        gaps += apart
        if given is not None:
            matrix = given() if callable(given) else given
            gaps += own[:, :, None] * own[:, None, :] * matrix
    return Covariance(total, _hollow(np.clip(gaps, 0.0, 2.0)))


def with_mean(centred: Covariance, mean: Floats) -> Covariance:
    """Second moments of features of this covariance and mean.

    Example:
        >>> with_mean(Covariance.of_gram(np.eye(2)[None]), np.array([[1.0, -1.0]])).gram()[0].round(12).tolist()
        [[2.0, -1.0], [-1.0, 2.0]]
    """
    return centred if not mean.any() else combined([centred.part(), (mean, None)])


def without_mean(second: Covariance, mean: Floats) -> Covariance:
    """The covariance behind second moments and means: `with_mean` undone.

    Example:
        >>> second = Covariance.of_gram(np.array([[[2.0, 1.5], [1.5, 2.0]]]))
        >>> without_mean(second, np.ones((1, 2))).gram()[0].round(12).tolist()
        [[1.0, 0.5], [0.5, 1.0]]
    """
    if not mean.any():
        return second
    variances = np.maximum(second.variances - mean * mean, 0.0)
    roots = np.sqrt(np.where(second.variances > 0.0, second.variances, 1.0))
    gaps = second.gaps
    for part in (np.sqrt(variances) / roots, mean / roots):
        gaps = gaps - 0.5 * (part[:, :, None] - part[:, None, :]) ** 2
    size = (np.sqrt(variances) / roots)[:, :, None] * (np.sqrt(variances) / roots)[:, None, :]
    found = np.where(size > 0.0, gaps / np.where(size > 0.0, size, 1.0), 0.0)
    return Covariance(variances, _hollow(np.clip(found, 0.0, 2.0)))


def _hollow(gaps: Floats) -> Floats:
    """With zeros on the diagonals."""
    index = np.arange(gaps.shape[-1])
    gaps[..., index, index] = 0.0
    return gaps
