"""The free factors of a Jacobian, each by its S-transform: as a power series, and in the cut complex plane.

For the law of a positive a, ψ(w) = E aw/(1 − aw), χ is the inverse of ψ and S(z) = χ(z)(1 + z)/z. S is multiplicative
over free factors. A matrix between widths d and d′ counts with z over the ratio of its width to that of the input, so
a single variable u = z·(width/input width) serves the whole product.

Along w = |w| e^{iφ} from the negative axis (φ = π), where everything is real and monotone, to the positive one, where
Im ψ/π is the density over log a, the numbers of a product stay in the closed upper half plane; those of the branch of a
skip may cross the negative axis, where χ is analytic. A `state` holds the inner unknowns of a factor at all points; it
makes the next solution a few Newton steps away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.theory.jacobians._series import log_s_transform, sum_log_s

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
LogS = tuple[Complexes, Complexes, Any]
"""log S(z), its derivative by z, and the state behind them."""
_NEWTON = 40  # steps at most
_CLOSE = 1e-7  # a Newton step after which the next one is rounding


@dataclass(frozen=True)
class Atoms:
    """Mass at zero, and the largest atom elsewhere: its mass and the logarithm of its place."""

    zero: float
    mass: float = 0.0
    log_place: float = 0.0


@dataclass(frozen=True)
class ScaledIsometry:
    """Multiples of an isometry: a = exp(log_mean)."""

    log_mean: float

    def log_s_series(self, order: int) -> Floats:
        return np.zeros(order)

    @property
    def atoms(self) -> Atoms:
        return Atoms(0.0, 1.0, self.log_mean)

    def start(self, z: Floats) -> Any:
        return None

    def log_s(self, z: Complexes, state: Any) -> LogS:
        return np.full_like(z, -self.log_mean), np.zeros_like(z), None


@dataclass(frozen=True)
class FreePoisson:
    """WᵀW of a Gaussian W with `rate` times as many rows as columns: S = 1/(scale (rate + z))."""

    log_mean: float
    rate: float = 1.0

    def log_s_series(self, order: int) -> Floats:
        k = np.arange(1, order)
        return np.append(0.0, (-1.0 / self.rate) ** k / k)

    @property
    def atoms(self) -> Atoms:
        return Atoms(max(0.0, 1.0 - self.rate))

    def start(self, z: Floats) -> Any:
        return None

    def log_s(self, z: Complexes, state: Any) -> LogS:
        one = 1.0 + z / self.rate
        return -self.log_mean - _log(one), -1.0 / (self.rate * one), None


@dataclass(frozen=True)
class Projection:
    """WᵀW of a Haar W with fewer rows than columns: a projection of rank `rank`, times exp(log_scale)."""

    log_scale: float
    rank: float

    @property
    def log_mean(self) -> float:
        return self.log_scale + math.log(self.rank)

    def log_s_series(self, order: int) -> Floats:
        k = np.arange(1, order)
        return np.append(0.0, ((-1.0 / self.rank) ** k - (-1.0) ** k) / k)

    @property
    def atoms(self) -> Atoms:
        return Atoms(1.0 - self.rank, self.rank, self.log_scale)

    def start(self, z: Floats) -> Any:
        return None

    def log_s(self, z: Complexes, state: Any) -> LogS:
        value = -self.log_scale + _log(1.0 + z) - _log(self.rank + z)
        return value, 1.0 / (1.0 + z) - 1.0 / (self.rank + z), None


@dataclass(frozen=True, eq=False)
class Diagonal:
    """A diagonal matrix by the values of its squares over their mean, and their probabilities; positive values only.

    `moments` are those of the same numbers by a finer rule.
    """

    log_mean: float
    values: Floats
    weights: Floats
    moments: Floats

    def log_s_series(self, order: int) -> Floats:
        return log_s_transform(self.moments[:order])

    @property
    def atoms(self) -> Atoms:
        zero = max(0.0, 1.0 - float(self.weights.sum()))
        if len(self.values) > 3:  # nodes of a continuous law
            return Atoms(zero)
        largest = int(np.argmax(self.weights))
        return Atoms(zero, float(self.weights[largest]), self.log_mean + math.log(self.values[largest]))

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """ψ at negative w, and log |w|: a start for Newton steps."""
        span = np.log(self.values.max()), np.log(self.values.min())
        log_w = np.linspace(-span[0] - 16.0, -span[1] + 16.0, 64 + 4 * int(span[0] - span[1]))
        rows = np.log(self.values) + log_w[:, None]
        psi = -1.0 / (1.0 + np.exp(-rows)) @ self.weights
        return psi[::-1], log_w[::-1]

    def start(self, z: Floats) -> Complexes:
        """log w, nearly, for real z between −P(a > 0) and 0: w is negative and monotone in z."""
        return np.asarray(np.interp(z, *self._table) + 1j * np.pi)

    def _psi(self, log_w: Complexes) -> tuple[Complexes, Complexes]:
        """ψ and its derivative by log w: with t = aw, t/(1 − t) and t/(1 − t)²."""
        t = np.exp(log_w)[..., None] * self.values
        share = 1.0 / (1.0 - t)
        first = t * share
        return np.asarray(first @ self.weights, dtype=complex), np.asarray(
            (first * share) @ self.weights, dtype=complex
        )

    def log_s(self, z: Complexes, state: Any) -> LogS:
        log_w = state
        slope = np.ones_like(z)
        for _ in range(_NEWTON):
            value, slope = self._psi(log_w)
            step = (z - value) / slope
            size = np.abs(step)
            step = np.where(size > 0.5, 0.5 * step / np.where(size > 0, size, 1.0), step)
            log_w = log_w + step
            if not (size > _CLOSE).any():
                break
        value = log_w + _log(1.0 + z) - _log(z) - self.log_mean
        return value, 1.0 / slope + 1.0 / (1.0 + z) - 1.0 / z, log_w


@dataclass(frozen=True, eq=False)
class FreeProduct:
    """A product of free factors with how often each occurs and the width of each over that of the input."""

    parts: tuple[tuple[Factor, float, int], ...]  # factor, ratio of widths, times
    ratio: float = 1.0  # of the last width to the first

    @property
    def log_mean(self) -> float:
        """log of E a: that of |Jx|²/|x|² for random x."""
        return sum(times * one.log_mean for one, _, times in self.parts)

    def log_s_series(self, order: int) -> Floats:
        powers = np.arange(order)
        return sum((n * one.log_s_series(order) / r**powers for one, r, n in self.parts), np.zeros(order))

    @property
    def rank(self) -> float:
        return min([1.0, *(ratio * (1.0 - one.atoms.zero) for one, ratio, _ in self.parts)])

    @property
    def atoms(self) -> Atoms:
        """The zeros of the factor of least rank; elsewhere the intersection of eigenspaces in general position."""
        missing = sum(times * ratio * (1.0 - one.atoms.mass) for one, ratio, times in self.parts)
        place = sum(times * one.atoms.log_place for one, _, times in self.parts)
        return Atoms(1.0 - self.rank, max(0.0, 1.0 - missing), place)

    def start(self, z: Floats) -> Any:
        return [one.start(z / ratio) for one, ratio, _ in self.parts]

    def log_s(self, z: Complexes, state: Any) -> LogS:
        total, slope, states = np.zeros_like(z), np.zeros_like(z), []
        for (one, ratio, times), own in zip(self.parts, state, strict=True):
            value, change, after = one.log_s(z / ratio, own)
            total, slope = total + times * value, slope + times * change / ratio
            states.append(after)
        return total, slope, states

    def log_chi(self, z: Complexes, state: Any) -> LogS:
        """log χ(z), for the points of the spectrum."""
        value, slope, after = self.log_s(z, state)
        return value + _log(z) - _log(1.0 + z), slope + 1.0 / z - 1.0 / (1.0 + z), after


@dataclass(frozen=True, eq=False)
class SkipSum:
    """|s + A|² with an R-diagonal A: t = χ(z)(1 + z)² is common to the summands, and their z add up."""

    skip: float
    branch: FreeProduct

    @property
    def log_mean(self) -> float:
        return float(np.logaddexp(2 * math.log(self.skip), self.branch.log_mean))

    def log_s_series(self, order: int) -> Floats:
        return sum_log_s(self.skip, self.branch.log_s_series(order), self.branch.log_mean)[0]

    @property
    def atoms(self) -> Atoms:
        """Where the branch is zero, s is left: half of the symmetrised law at each of ±s."""
        return Atoms(0.0, max(0.0, 2.0 * self.branch.atoms.zero - 1.0), 2 * math.log(self.skip))

    def _mismatch(self, own: Complexes, z: Complexes, state: Any) -> LogS:
        """log t of the branch minus log t of the skip, for a share `own` of z; by `own`."""
        value, slope, after = self.branch.log_chi(own, state)
        rest = z - own
        found = value + 2 * _log(1.0 + own) - _log(rest) - _log(1.0 + rest) + 2 * math.log(self.skip)
        return found, slope + 2.0 / (1.0 + own) + 1.0 / rest + 1.0 / (1.0 + rest), after

    def start(self, z: Floats) -> Any:
        """The branch's share of a real z, bracketed: t of the branch is the smaller one at 0, the larger one at z."""

        def negative(share: Floats) -> NDArray[np.bool_]:
            own = share * bound
            found, _, _ = self._mismatch(own.astype(complex), z.astype(complex), self.branch.start(own))
            return np.asarray(found.real < 0)  # |t| of the branch is the smaller

        bound = np.maximum(z, -self.branch.rank * (1.0 - 1e-15))
        low, high = np.full(z.shape, -60.0), np.full(z.shape, 36.0)  # logit of the share
        for _ in range(14):  # Newton steps do the rest
            middle = (low + high) / 2
            small = negative(1.0 / (1.0 + np.exp(-middle)))
            low, high = np.where(small, middle, low), np.where(small, high, middle)
        own = bound / (1.0 + np.exp(-(low + high) / 2))
        return own + 0j, self.branch.start(own)

    def log_s(self, z: Complexes, state: Any) -> LogS:
        own, inner = state
        slope = np.ones_like(z)
        for _ in range(_NEWTON):
            found, slope, inner = self._mismatch(own, z, inner)
            step = -found / (slope * own)  # of log own
            size = np.abs(step)
            step = np.where(size > 0.3, 0.3 * step / np.where(size > 0, size, 1.0), step)
            own = own * np.exp(step)
            if not (size > _CLOSE).any():
                break
        rest = z - own
        value = _log(rest) + _log(1.0 + rest) - 2 * math.log(self.skip) - _log(1.0 + z) - _log(z)
        by_rest = 1.0 / rest + 1.0 / (1.0 + rest)
        change = by_rest * (1.0 - by_rest / slope) - 1.0 / (1.0 + z) - 1.0 / z
        return value, change, (own, inner)


Factor = ScaledIsometry | FreePoisson | Projection | Diagonal | SkipSum


def _log(z: Complexes) -> Complexes:
    """The logarithm cut along the negative imaginary axis, where nothing comes: arguments from −π/2 to 3π/2."""
    return np.log(-1j * z) + 0.5j * np.pi
