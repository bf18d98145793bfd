"""The law of a Gram matrix at finite width: its mean, its covariance, and draws from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isometer.theory.networks._points import spectrum_of

Floats = NDArray[np.float64]
_SAME = 2e-2  # relative change, in any direction, below which two Gram matrices count as one


@dataclass(frozen=True)
class GramLaw:
    """The law of the Gram matrix of a layer: `e^{s_i + s_j} C_ij`, C of given mean and covariance, s Gaussian.

    s is 0 unless the chain has no scale of its own (`Spec.homogeneity` 1). Then it is what depth over width makes a
    random walk: one s for all samples and C of trace n, or, where layers commute with the scale of each sample, one
    for each and C of unit diagonal.
    """

    mean: Floats  # (n, n)
    covariance: Floats  # (n², n²)
    log_scale: Floats  # (n,)
    log_covariance: Floats  # (n, n)
    cross: Floats  # (n², n)
    exact: Literal["trace", "diagonal"] | None = None  # what a norm keeps in every draw

    @classmethod
    def certain(cls, gram: Floats) -> GramLaw:
        """A Gram matrix that is known.

        Example:
            >>> GramLaw.certain(np.eye(2)).covariance.shape
            (4, 4)
        """
        n = len(gram)
        return cls(gram, np.zeros((n * n, n * n)), np.zeros(n), np.zeros((n, n)), np.zeros((n * n, n)))

    def resembles(self, other: GramLaw) -> bool:
        """Whether mean and covariance differ by little."""
        return resembles(self.mean, other.mean) and alike(self.covariance, other.covariance, 5e-2)

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
        values, vectors = np.linalg.eigh(self.mean)
        kept = values > 1e-12 * max(float(values[-1]), 0.0)
        if not kept.any():
            return 0.0
        inverse = vectors[:, kept] / np.sqrt(values[kept])
        # (A ⊗ A)ᵀ vec Δ = vec(AᵀΔA)
        both = np.kron(inverse, inverse)
        return max(0.0, float(np.linalg.eigvalsh(both.T @ self.covariance @ both)[-1]))

    def draws(self, count: int) -> tuple[Floats, Floats]:
        """Matrices of this law `(count, n, n)`, and the mean of s `(count,)`, which they leave out.

        Positive semi-definite ones: `m^{1/2} exp(S) m^{1/2}`, S Gaussian, which is Gaussian to leading order.

        Example:
            >>> GramLaw.certain(np.eye(2)).draws(4)[0].shape
            (4, 2, 2)
        """
        n = len(self.mean)
        values, vectors = np.linalg.eigh(self.mean)
        kept = values > 1e-12 * max(float(values[-1]), 0.0)
        if not kept.any():
            return np.zeros((count, n, n)), np.full(count, float(self.log_scale.mean()))
        k = int(kept.sum())
        root = vectors[:, kept] * np.sqrt(values[kept])
        inverse = vectors[:, kept] / np.sqrt(values[kept])
        both = np.kron(inverse, inverse)  # S = root⁺ Δ root⁺ᵀ, flattened
        joint = np.block(
            [
                [both.T @ self.covariance @ both, both.T @ self.cross],
                [self.cross.T @ both, self.log_covariance],
            ]
        )
        size, directions = np.linalg.eigh((joint + joint.T) / 2)
        alive = size > 1e-10 * max(float(size[-1]), 1e-290)
        drawn = _normals(count, int(alive.sum())) @ (directions[:, alive] * np.sqrt(size[alive])).T
        s = drawn[:, : k * k].reshape(count, k, k)
        s = (s + np.swapaxes(s, 1, 2)) / 2
        s = s - np.mean(s @ s, axis=0) / 2  # so that the mean stays, to second order
        eigenvalues, turned = np.linalg.eigh(s)
        grown = np.exp(np.clip(eigenvalues, -300.0, 300.0))
        left = root @ turned
        shapes = self._kept((left * grown[:, None, :]) @ np.swapaxes(left, 1, 2))
        scales = self.log_scale + drawn[:, k * k :]
        common = scales.mean(axis=1)
        own = np.exp(np.clip(scales - common[:, None], -300.0, 300.0))
        return shapes * own[:, :, None] * own[:, None, :], common

    def _kept(self, shapes: Floats) -> Floats:
        """Draws with the trace or the diagonal of the mean, where a norm fixes it."""
        if self.exact == "trace":
            traces = np.trace(shapes, axis1=1, axis2=2)
            return np.asarray(shapes * (np.trace(self.mean) / np.where(traces > 0, traces, 1.0))[:, None, None])
        if self.exact == "diagonal":
            own = np.diagonal(shapes, axis1=1, axis2=2)
            sizes = np.sqrt(np.diag(self.mean) / np.where(own > 0, own, 1.0))
            return np.asarray(shapes * sizes[:, :, None] * sizes[:, None, :])
        return shapes

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
        spread = reading @ self.covariance @ reading.T  # of b
        mixed = (self.covariance @ reading.T).reshape(n, n, n) / root[:, :, None]  # of a and b
        diagonal = np.diag(spread)
        first = np.arange(n)[:, None]
        second = np.arange(n)[None, :]
        paired = mixed[first, second, first] + mixed[first, second, second]
        curved = 0.375 * (diagonal[:, None] + diagonal) + 0.25 * spread
        halves = np.zeros((n, n, n))  # ½C_ij(b_i + b_j), by b
        halves[first, second, first] += shape / 2
        halves[first, second, second] += shape / 2
        moved = np.diag(1.0 / root.ravel()) - halves.reshape(n * n, n) @ reading
        back = reading @ self.cross / 2  # of ½b and s
        return GramLaw(
            shape - 0.5 * paired + shape * curved,
            moved @ self.covariance @ moved.T,
            self.log_scale + 0.5 * (np.log(sizes) - 0.5 * diagonal),
            self.log_covariance + back + back.T + 0.25 * spread,
            moved @ self.cross + 0.5 * moved @ self.covariance @ reading.T,
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


def resembles(one: Floats, other: Floats, tolerance: float = _SAME) -> bool:
    """Whether two covariances differ by little in every direction, the small ones included."""
    values, vectors = spectrum_of(one)
    if not len(values):
        return not other.any()
    half = vectors / np.sqrt(values)
    return bool(np.abs(half.T @ other @ half - np.eye(len(values))).max() <= tolerance)
