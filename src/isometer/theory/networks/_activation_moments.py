"""Gaussian expectations of an activation for batches whose samples have variances of their own."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.theory.kernels._length_map import GaussianView, SignalFamily

Floats = NDArray[np.float64]
_EQUAL = 1e-4  # relative differences of variances below this are left out of the dual
_NEAR = 1e-9  # relative changes of variances below this change nothing
_RANGE = (1e-200, 1e150)  # variances outside have vanished or diverged


class ActivationMoments:
    """Gaussian expectations of an activation; what was found for the variances before is used again near them.

    Example:
        >>> kernel, mean = ActivationMoments(SignalFamily("relu")).activated(np.eye(2))
        >>> kernel.round(6).tolist(), mean.round(6).tolist()
        ([[0.5, 0.159155], [0.159155, 0.5]], [0.398942, 0.398942])
    """

    def __init__(self, family: SignalFamily) -> None:
        self._family = family
        self._variances = np.empty(0)
        self._found: Floats | None = None
        self._view: tuple[float, GaussianView, float] | None = None

    def activated(self, covariance: Floats) -> tuple[Floats, Floats] | None:
        """`E φ(u)φ(v)` for every pair, and `E φ(u)`; None where there is no fast way."""
        variances = np.diag(covariance).copy()
        if not (variances.min() > _RANGE[0] and variances.max() < _RANGE[1]):
            return None
        roots = np.sqrt(variances)
        cosine = np.clip(covariance / np.outer(roots, roots), -1.0, 1.0)
        np.fill_diagonal(cosine, 1.0)
        family = self._family
        try:
            if family.homogeneous:
                kernel = family.at(1.0).dual.value(cosine)
                return kernel * np.outer(roots, roots), roots * family.activation.mean
            if np.ptp(variances) <= _EQUAL * variances.max():
                view, mean = self._at(float(variances.mean()))
                return view.dual.value(cosine), np.full(len(roots), mean)
            found = self._coefficients(variances)
        except IsometerError:
            return None
        if found is None:
            return None
        kept = int(np.flatnonzero((found**2).max(axis=0) > 1e-18 * (found**2).sum(axis=1).max())[-1]) + 1
        value = np.zeros_like(cosine)
        for k in range(kept - 1, -1, -1):  # Σ a_k(u) a_k(v) ρ^k, 004/eq-15
            value = value * cosine + np.outer(found[:, k], found[:, k])
        return value, found[:, 0]

    def slopes(self, variances: Floats) -> Floats:
        """`E φ′²` at each variance."""
        found = None if self._family.homogeneous or not variances.min() > 0 else self._coefficients(variances)
        if found is not None:
            return np.asarray((found**2 @ np.arange(found.shape[1])) / variances)
        known = {q: self._family.slope_second(q) for q in set(variances.tolist())}
        return np.array([known[q] for q in variances.tolist()])

    def _coefficients(self, variances: Floats) -> Floats | None:
        if self._variances.shape != variances.shape or not np.allclose(self._variances, variances, rtol=_NEAR, atol=0):
            self._variances, self._found = variances, self._family.coefficients(variances)
        return self._found

    def _at(self, variance: float) -> tuple[GaussianView, float]:
        if self._view is None or abs(self._view[0] - variance) > _NEAR * variance:
            mean = self._family.activation.gain(math.sqrt(variance)).mean
            self._view = variance, self._family.at(variance), mean
        return self._view[1:]
