"""Ridge regression with a kernel: one eigendecomposition serves every ridge, leave-one-out errors and variances.

With K = VΛVᵀ, s the mean of K's diagonal and G = V(Λ + λs)⁻¹Vᵀ, the coefficients are α = Gy, and the prediction for a
sample that the fit leaves out is yᵢ − αᵢ/Gᵢᵢ, without another fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError

Floats = NDArray[np.float64]
RIDGES = tuple(float(10.0**power) for power in range(-7, 3))
"""Ridges that are tried unless others are given, in units of the mean of the kernel's diagonal."""
_LEAST = 1e-14  # of the mean of the diagonal: what rounding leaves of a singular kernel


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """A kernel, targets, and the ridge that leave-one-out prefers.

    Attributes:
        ridge: the chosen one, in units of the mean of the diagonal.
        ridges: all that were tried.
        errors: errors of leave-one-out for each: mean squared error, or what `loss` says.
        coefficients: `(n, outputs)`; predictions are `K(x, X) @ coefficients`.
        left_out: predictions for each sample by the fit to all others, `(n, outputs)`.
        inverse: (K + λsI)⁻¹.
    """

    ridge: float
    ridges: tuple[float, ...]
    errors: tuple[float, ...]
    coefficients: Floats
    left_out: Floats
    inverse: Floats

    def predict(self, cross: ArrayLike) -> Floats:
        """Predictions from the kernel between new samples and those of the fit, `(m, n)`."""
        return np.asarray(np.asarray(cross, dtype=np.float64) @ self.coefficients)

    def variance(self, cross: ArrayLike, diagonal: ArrayLike) -> Floats:
        """Variances of a Gaussian process with this kernel as its prior, given the targets; `diagonal` is K(x, x)."""
        rows = np.asarray(cross, dtype=np.float64)
        return np.asarray(np.maximum(np.asarray(diagonal) - np.einsum("mn,mn->m", rows @ self.inverse, rows), 0.0))

    def trained_variance(
        self, cross: ArrayLike, prior: ArrayLike, prior_cross: ArrayLike, diagonal: ArrayLike
    ) -> Floats:
        """Variances over networks trained to the end from random weights, this kernel being the NTK.

        Their outputs at the start have the covariance of the NNGP: `prior` among samples of the fit, `prior_cross`
        with new ones, `diagonal` of these. Training takes away A f(X), A = Θ(x, X)(Θ + λ)⁻¹, from f(x).
        """
        a = np.asarray(cross, dtype=np.float64) @ self.inverse
        mixed = np.einsum("mn,mn->m", a, np.asarray(prior_cross))
        left = np.asarray(diagonal) - 2 * mixed + np.einsum("mn,mn->m", a @ np.asarray(prior), a)
        return np.asarray(np.maximum(left, 0.0))


def ridge_fit(
    kernel: ArrayLike,
    targets: ArrayLike,
    ridges: float | Sequence[float] = RIDGES,
    *,
    loss: Callable[[Floats, Floats], float] | None = None,
) -> RidgeFit:
    """Fit targets, with the ridge whose leave-one-out predictions are best.

    Args:
        kernel: `(n, n)`, symmetric.
        targets: `(n,)` or `(n, outputs)`.
        ridges: to choose from, in units of the mean of the kernel's diagonal; one number is taken as it is. 0 is
            interpolation.
        loss: a function of (targets, predictions), the smaller the better; the mean squared error by default. Among
            equals, the largest ridge wins.

    Raises:
        IsometerError: shapes do not fit, or a ridge is negative.

    Example:
        >>> found = ridge_fit(np.eye(3) + 0.5, [1.0, 2.0, 3.0], 0.5)
        >>> found.predict(np.eye(3) + 0.5)[:, 0].round(3).tolist()
        [0.967, 1.538, 2.11]
    """
    k, y = np.asarray(kernel, dtype=np.float64), np.asarray(targets, dtype=np.float64)
    y = y[:, None] if y.ndim == 1 else y
    if k.ndim != 2 or k.shape != (len(y), len(y)):
        raise IsometerError(f"the kernel has shape {k.shape} for {len(y)} targets; expected ({len(y)}, {len(y)})")
    tried = tuple(map(float, [ridges] if np.ndim(ridges) == 0 else ridges))  # type: ignore[arg-type]
    if not tried or not all(np.isfinite(one) and one >= 0.0 for one in tried):
        raise IsometerError(f"ridges are {tried}; expected numbers of at least 0 — 1e-4, for example")
    values, vectors = np.linalg.eigh(k)
    size = float(np.trace(k)) / len(k)
    if not size > 0.0:
        raise IsometerError("the kernel's diagonal is zero; expected inputs that are not all zero")
    rotated = vectors.T @ y
    best: tuple[float, float, Floats, Floats] | None = None
    errors = []
    for ridge in sorted(tried, reverse=True):
        shrunk = 1.0 / np.maximum(values + ridge * size, _LEAST * size)
        alpha = vectors @ (shrunk[:, None] * rotated)
        left_out = y - alpha / np.einsum("ij,j,ij->i", vectors, shrunk, vectors)[:, None]
        error = float(((left_out - y) ** 2).mean()) if loss is None else loss(y, left_out)
        errors.append((ridge, error))
        if best is None or error < best[1]:
            best = ridge, error, alpha, left_out
    assert best is not None
    ridge, _, alpha, left_out = best
    inverse = (vectors / np.maximum(values + ridge * size, _LEAST * size)) @ vectors.T
    by_ridge = dict(errors)
    return RidgeFit(ridge, tried, tuple(by_ridge[one] for one in tried), alpha, left_out, inverse)
