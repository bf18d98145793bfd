"""The law of a Gram matrix at finite width: its mean, its covariance, and draws from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.theory.networks._points import spectrum_of
from isometer.theory.prediction._symmetric import (
    congruence,
    exponential,
    packed,
    packed_operator,
    unpacked,
    unpacked_operator,
)

Floats = NDArray[np.float64]
SAME = 5e-2  # relative change of a Gram matrix, in any direction, below which what is sampled around it is kept


class _Whitened(NamedTuple):
    """Deviations Δ of a Gram matrix of mean m as `S = m^{−1/2} Δ m^{−1/2}`, on the k directions in which m is not 0."""

    root: Floats  # (n, k): m^{1/2}
    covariance: Floats  # of S, packed
    cross: Floats  # of S and the log-scales, (k(k+1)/2, n)


@dataclass(frozen=True)
class GramLaw:
    """The law of the Gram matrix of a layer: `e^{s_i + s_j} C_ij`, C of given mean and covariance, s Gaussian.

    s is 0 unless the chain has no scale of its own (`Spec.homogeneity` 1). Then it is what depth over width makes a
    random walk: one s for all samples and C of trace n, or, where layers commute with the scale of each sample, one
    for each and C of unit diagonal.
    """

    mean: Floats  # (n, n)
    covariance: Floats  # of packed matrices, (n(n+1)/2, n(n+1)/2); its trace is E ‖C − E C‖_F²
    log_scale: Floats  # (n,)
    log_covariance: Floats  # (n, n)
    cross: Floats  # (n(n+1)/2, n)
    exact: Literal["trace", "diagonal"] | None = None  # what a norm keeps in every draw

    @classmethod
    def certain(cls, gram: Floats) -> GramLaw:
        """A Gram matrix that is known.

        Example:
            >>> GramLaw.certain(np.eye(2)).covariance.shape
            (3, 3)
        """
        n = len(gram)
        entries = n * (n + 1) // 2
        return cls(gram, np.zeros((entries, entries)), np.zeros(n), np.zeros((n, n)), np.zeros((entries, n)))

    def resembles(self, other: GramLaw) -> bool:
        """Whether mean and covariance differ by little."""
        return resembles(self.mean, other.mean) and alike(self.covariance, other.covariance, 2 * SAME)

    def equals(self, other: GramLaw) -> bool:
        """Whether the two differ by no more than theory is good for."""
        scales = alike(self.log_scale, other.log_scale, 1e-4) and alike(self.log_covariance, other.log_covariance, 5e-3)
        return resembles(self.mean, other.mean, 1e-3) and alike(self.covariance, other.covariance, 5e-3) and scales

    def reach(self) -> float:
        """How large fluctuations are: the largest variance of `m^{-1/2} Δ m^{-1/2}`. Leading order means well below 1.

        Example:
            >>> GramLaw.certain(np.eye(2)).reach()
            0.0
        """
        if not self._whitened.root.size:
            return 0.0
        return max(0.0, float(self._spectrum[0][-1]))

    @cached_property
    def _whitened(self) -> _Whitened:
        values, vectors = np.linalg.eigh(self.mean)
        kept = values > 1e-12 * max(float(values[-1]), 0.0)
        into = congruence(vectors[:, kept] / np.sqrt(values[kept]))
        covariance = into @ self.covariance @ into.T
        root = vectors[:, kept] * np.sqrt(values[kept])
        return _Whitened(root, (covariance + covariance.T) / 2, into @ self.cross)

    @cached_property
    def _spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of the covariance of S."""
        values, vectors = np.linalg.eigh(self._whitened.covariance)
        return values, vectors

    @cached_property
    def _deviations(self) -> Floats:
        """R with RRᵀ the covariance of S, packed, and behind it of the log-scales where there are any."""
        size, directions = self._spectrum
        if self.log_covariance.any():
            own, cross = self._whitened.covariance, self._whitened.cross
            joint = np.block([[own, cross], [cross.T, (self.log_covariance + self.log_covariance.T) / 2]])
            size, directions = np.linalg.eigh(joint)
        alive = size > 1e-10 * max(float(size[-1]), 1e-290)
        return np.asarray(directions[:, alive] * np.sqrt(size[alive]))

    def draws(self, count: int) -> tuple[Floats, Floats]:
        """Factors F `(count, n, k)` of matrices `FFᵀ` of this law, and the mean of s `(count,)`, which they leave out.

        The matrices are `m^{1/2} exp(S) m^{1/2}`, S Gaussian: positive semi-definite, and Gaussian to leading order.

        Example:
            >>> GramLaw.certain(np.eye(2)).draws(4)[0].shape
            (4, 2, 2)
        """
        n, k = self._whitened.root.shape
        if not k:
            return np.zeros((count, n, 1)), np.full(count, float(self.log_scale.mean()))
        drawn = _normals(count, self._deviations.shape[1]) @ self._deviations.T
        entries = k * (k + 1) // 2
        s = unpacked(drawn[:, :entries])
        s = s - np.mean(s @ s, axis=0) / 2  # so that the mean stays, to second order
        factors = self._kept(self._whitened.root @ exponential(s / 2))
        scales = self.log_scale + (drawn[:, entries:] if drawn.shape[1] > entries else np.zeros((count, n)))
        common = scales.mean(axis=1)
        own = np.exp(np.clip(scales - common[:, None], -300.0, 300.0))
        return factors * own[:, :, None], common

    def opposite_draws(self, count: int) -> tuple[Floats, Floats, Floats]:
        """A factor of the mean `(n, k)`, and factors `(count, n, k)` of matrices at opposite places around it.

        `m^{1/2} exp(±S − E S²/2) m^{1/2}`, as in `draws`.

        Example:
            >>> middle, above, below = GramLaw.certain(np.eye(2)).opposite_draws(3)
            >>> middle.shape, above.shape, bool((above == below).all())
            ((2, 2), (3, 2, 2), True)
        """
        n, k = self._whitened.root.shape
        if not k:
            return np.zeros((n, 1)), np.zeros((count, n, 1)), np.zeros((count, n, 1))
        root = self._whitened.root
        normals = _normals(2 * count, self._deviations.shape[1])[:count]  # without their negatives
        s = unpacked(normals @ self._deviations[: k * (k + 1) // 2].T)
        lowered = np.mean(s @ s, axis=0) / 2
        above, below = (self._kept(root @ exponential((sign * s - lowered) / 2)) for sign in (1.0, -1.0))
        return root, above, below

    def _kept(self, factors: Floats) -> Floats:
        """Factors of matrices with the trace or the diagonal of the mean, where a norm fixes it."""
        if self.exact is None:
            return factors
        own = (factors * factors).sum(axis=-1)  # the diagonal
        wanted = np.diag(self.mean)
        if self.exact == "trace":
            own, wanted = own.sum(axis=-1, keepdims=True), wanted.sum()
        return np.asarray(factors * np.sqrt(wanted / np.where(own > 0, own, 1.0))[..., None])

    def unscaled(self, *, each: bool) -> GramLaw:
        """With the size of the matrix moved into s, to second order: of each sample, or of all together.

        With t the sizes, b = dt/t and a = dG_ij/√(t_i t_j): `dC_ij = a − ½C_ij(b_i + b_j)` and
        `E C_ij = C_ij − ½E a(b_i + b_j) + C_ij E(⅜b_i² + ⅜b_j² + ¼b_i b_j)`.
        """
        n = len(self.mean)
        sizes = np.diag(self.mean) if each else np.full(n, float(np.trace(self.mean)) / n)
        sizes = np.where(sizes > 0, sizes, 1.0)
        root = np.sqrt(np.outer(sizes, sizes))
        shape = self.mean / root
        read = np.zeros((n, n, n))  # b from dG
        if each:
            read[np.arange(n), np.arange(n), np.arange(n)] = 1.0 / sizes
        else:
            read[:] = np.eye(n) / (n * sizes[0])  # b = tr dG/tr G for every sample
        reading = read.reshape(n, n * n)
        covariance, cross = unpacked_operator(self.covariance), unpacked(self.cross.T).reshape(n, n * n).T
        spread = reading @ covariance @ reading.T  # of b
        mixed = (covariance @ reading.T).reshape(n, n, n) / root[:, :, None]  # of a and b
        diagonal = np.diag(spread)
        first = np.arange(n)[:, None]
        second = np.arange(n)[None, :]
        paired = mixed[first, second, first] + mixed[first, second, second]
        curved = 0.375 * (diagonal[:, None] + diagonal) + 0.25 * spread
        halves = np.zeros((n, n, n))  # ½C_ij(b_i + b_j), by b
        halves[first, second, first] += shape / 2
        halves[first, second, second] += shape / 2
        moved = np.diag(1.0 / root.ravel()) - halves.reshape(n * n, n) @ reading
        back = reading @ cross / 2  # of ½b and s
        new_cross = moved @ cross + 0.5 * moved @ covariance @ reading.T
        return GramLaw(
            shape - 0.5 * paired + shape * curved,
            packed_operator((moved @ covariance @ moved.T).reshape(n, n, n, n)),
            self.log_scale + 0.5 * (np.log(sizes) - 0.5 * diagonal),
            self.log_covariance + back + back.T + 0.25 * spread,
            packed(new_cross.T.reshape(n, n, n)).T,
        )


@lru_cache(maxsize=16)
def _normals(count: int, dimensions: int) -> Floats:
    """Normals that come with their negatives, and where there are enough of them with unit covariance."""
    half = np.random.default_rng(7).standard_normal((max(count // 2, 1), dimensions))
    if dimensions and len(half) > 2 * dimensions:
        values, vectors = np.linalg.eigh(half.T @ half / len(half))
        half = half @ (vectors / np.sqrt(values)) @ vectors.T
    return np.concatenate([half, -half])[:count] if count > 1 else half


def alike(one: Floats, other: Floats, tolerance: float) -> bool:
    return bool(np.abs(one - other).max() <= tolerance * np.abs(other).max())


def resembles(one: Floats, other: Floats, tolerance: float = SAME) -> bool:
    """Whether two covariances differ by little in every direction, the small ones included."""
    values, vectors = spectrum_of(one)
    if not len(values):
        return not other.any()
    half = vectors / np.sqrt(values)
    return bool(np.abs(half.T @ other @ half - np.eye(len(values))).max() <= tolerance)
