"""The few moments of φ under full batch norm from which fixed point, rates and gradient growth are made."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np

from isometer.activations import Activation, NumericalEstimate
from isometer.theory.batch_norm._sphere import Floats, batch_rule


class BatchMoments:
    """Moments of φ(v_i), φ(v_j) and of the slopes, v = √n u with u uniform on the unit sphere of 1^⊥.

    Values are those of φ minus a constant close to its mean, which changes neither differences of Gram entries nor
    slopes and spares cancellation.

    Example:
        >>> from isometer import activation
        >>> moments = BatchMoments(activation("identity"), 5)
        >>> round(moments.spread.value, 12)  # G* = n/(n − 1) M
        1.25
    """

    def __init__(self, phi: Activation, n: int) -> None:
        self.phi, self.n = phi, n
        self.rule = batch_rule(n, [phi], phi.kinks, phi.name)
        self.mean = self.rule.single(phi)

    def centred(self, v: Floats) -> Floats:
        """φ minus its mean."""
        return np.asarray(self.phi(v) - self.mean.value)

    def slope(self, v: Floats) -> Floats:
        """φ′ almost everywhere."""
        return slope_of(self.phi, v)

    @cached_property
    def variance(self) -> NumericalEstimate:
        """E (φ(v_i) − E φ)²."""
        return self.rule.single(lambda v: self.centred(v) ** 2)

    @cached_property
    def covariance(self) -> NumericalEstimate:
        """E (φ(v_i) − E φ)(φ(v_j) − E φ), i ≠ j."""
        return self.rule.pairs([self.centred], [(0, 0)])[0]

    @cached_property
    def spread(self) -> NumericalEstimate:
        """a = G*_ii − G*_ij = ½ E (φ(v_i) − φ(v_j))²."""
        first, second = self.variance, self.covariance
        return NumericalEstimate(max(first.value - second.value, 0.0), first.error + second.error)

    @cached_property
    def backward(self) -> NumericalEstimate:
        """E tr[D M D (M − uuᵀ)] n/(n−1) = (n−1) E φ′² + E φ′φ′ − E v²φ′² + E vφ′·vφ′, D = diag φ′(v)."""
        if is_flat(self.phi, math.sqrt(self.n - 1.0)):
            return NumericalEstimate(0.0, 0.0)
        n = self.n
        rule = batch_rule(n, [self.slope], self.phi.kinks, self.phi.name)
        own = rule.single(lambda v: (n - 1 - v * v) * self.slope(v) ** 2)
        if own.error > 1e-3 * abs(own.value):
            return NumericalEstimate(math.inf, 0.0)  # a cusp: φ′ is not square-integrable
        cross = rule.pairs([self.slope, lambda v: v * self.slope(v)], [(0, 0), (1, 1)])
        value = own.value + sum(part.value for part in cross)
        return NumericalEstimate(max(value, 0.0), own.error + sum(part.error for part in cross))


def slope_of(phi: Activation, x: Floats) -> Floats:
    """φ′ almost everywhere, with the 0·∞ of a chain rule read as 0.

    Example:
        >>> from isometer import activation
        >>> slope_of(activation("relu"), np.array([-1.0, 2.0])).tolist()
        [0.0, 1.0]
    """
    with np.errstate(all="ignore"):
        values = np.asarray(phi.derivative(x), dtype=float)
    return np.where(np.isnan(values), 0.0, values)


def is_flat(phi: Activation, reach: float) -> bool:
    """Whether φ is piecewise constant on [−reach, reach], so that no gradient passes.

    Example:
        >>> from isometer import activation
        >>> is_flat(activation("sign"), 2.0), is_flat(activation("relu"), 2.0)
        (True, False)
    """
    # an even number of points leaves out 0, where steps have no slope
    grid = min(reach, 9.0) * np.linspace(-1.0, 1.0, 1002)
    size = float(np.abs(np.asarray(phi(grid))).max())
    return bool(np.abs(slope_of(phi, grid)).max() <= 1e-10 * size)


@lru_cache(maxsize=64)
def batch_moments(phi: Activation, n: int) -> BatchMoments:
    """`BatchMoments`, kept for activations asked about again."""
    return BatchMoments(phi, n)
