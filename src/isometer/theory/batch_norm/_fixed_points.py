"""Fixed points of batch-norm layers at infinite width, and how fast they are approached.

An exchangeable batch stays exchangeable, so the fixed point is G* = aI + b11ᵀ. Perturbations of G split by how they
transform under permutations of the samples: trivial (I and 11ᵀ), standard (one sample apart from the others) and pair
(symmetric matrices of zero diagonal and zero row sums, the representation (n−2, 2)). Under full batch norm, with
v = √n Mh/‖Mh‖ and a Gaussian's score, `dT(Δ)_ij = (n−1)/(2an) E φ_i φ_j vᵀΔv` for Δ centred and traceless; with
Δ = M e_k e_kᵀ M − M/n and with Δ = (e₁−e₂)(e₃−e₄)ᵀ + transpose the local rates are

    standard:  [E φ²(v²−1) − 2 (n−1)/(n−2) E φ_i φ_j (v_i²−1)] / (2a)
    pair:      (n−1)/(an) E φ_i φ_j (v_i − v_k)(v_j − v_l),  all four different;

the trivial one is 0, since T depends neither on the scale of G nor on its part along 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from isometer.activations import Activation
from isometer.activations._closed_forms import as_two_rays
from isometer.errors import IsometerError
from isometer.spec import Norm
from isometer.theory.batch_norm._exchangeable import Pair, exchangeable_map, gaussian_pair
from isometer.theory.batch_norm._moments import batch_moments
from isometer.theory.batch_norm._parts import Kind, Parts, Position, checked_samples
from isometer.theory.batch_norm._sphere import Floats

__all__ = ["FixedPoint", "LocalRates", "batch_norm_fixed_point", "local_rates"]

_FAR = 1e9  # a ratio or variance past this counts as gone
_ROUNDS = 60
_OUTGROWN = (
    "no fixed point: the variance along 1 outgrows the one across in every layer, the samples become equal up to sign "
    "— recentre, or use an activation of zero mean"
)


class LocalRates(NamedTuple):
    """Factors by which small deviations from G* shrink per layer; None where they are not computed or do not exist."""

    trivial: float
    standard: float | None
    pair: float | None

    @property
    def largest(self) -> float:
        """The slowest of them in absolute value."""
        return max(abs(rate) for rate in self if rate is not None)


@dataclass(frozen=True)
class FixedPoint:
    """The exchangeable fixed point G* = aI + b11ᵀ of a batch-norm layer.

    Example:
        >>> point = batch_norm_fixed_point("identity", 5)
        >>> point.diagonal, point.off_diagonal, point.eigenvalues
        (1.0, -0.25, (1.25, 0.0))
        >>> round(point.rates.largest, 12)  # (n − 1)/(n + 1)
        0.666666666667
    """

    n: int
    kind: Kind
    position: Position
    diagonal: float
    off_diagonal: float
    error: float
    rates: LocalRates

    @property
    def eigenvalues(self) -> tuple[float, float]:
        """a (n − 1 times, across 1) and a + nb (along 1)."""
        along = self.diagonal + (self.n - 1) * self.off_diagonal
        # a + nb of a centred batch is zero, and comes out as rounding
        return self.diagonal - self.off_diagonal, along if abs(along) > 8e-16 * self.n * self.diagonal else 0.0

    @property
    def condition_number(self) -> float:
        """Largest over smallest eigenvalue, inf for singular G*."""
        low, high = sorted(self.eigenvalues)
        return high / low if low > 0 else math.inf

    @property
    def gram(self) -> Floats:
        """G*, `(n, n)`."""
        return np.full((self.n, self.n), self.off_diagonal) + np.eye(self.n) * (self.diagonal - self.off_diagonal)


def batch_norm_fixed_point(
    source: str | Activation, n: int, *, norm: str | Norm = "batch", position: Position = "pre"
) -> FixedPoint:
    """The exchangeable fixed point G* of `G ↦ E φ(BN(h)) φ(BN(h))ᵀ`, h ~ N(0, G), at infinite width.

    Under full batch norm it exists for every activation and is reached from exchangeable batches in one layer; other
    batches approach it at the local rates, or leave it if one exceeds 1. Without rescaling, or without recentring, it
    is the one that the chain reaches from orthogonal samples of unit length, if there is one.

    Args:
        source: the activation.
        n: samples, at least 2.
        norm: `"batch"`, `"batch-recenter"`, `"batch-rescale"`, `"batch-rescale-std"` or a `Norm` of these.
        position: the norm before (`"pre"`) or after (`"post"`) the activation.

    Returns:
        A `FixedPoint`. Raises `IsometerError` where none exists, saying what happens instead.

    Example:
        >>> point = batch_norm_fixed_point("relu", 10)
        >>> round(point.diagonal, 12), round(point.off_diagonal, 6)
        (0.5, 0.132361)
        >>> batch_norm_fixed_point("identity", 10, norm="batch-rescale-std")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: no fixed point: the variance along 1 outgrows the one across ...

    Implements: 001/fix-G*, 001/map-3.3, 001/claim-3.global.
    """
    count = checked_samples(n)
    parts = Parts.of(source, norm, position, count)
    if parts.kind == "full":
        pair = exchangeable_map(parts, count, 1.0, 0.0)
        rates = local_rates(parts.phi, count) if position == "pre" else LocalRates(0.0, None, None)
        for _ in range(_ROUNDS if position == "post" and pair.diagonal < 1.0 else 0):  # the chance of equal activations
            before, pair = pair, exchangeable_map(parts, count, pair.diagonal, pair.off_diagonal)
            if pair.diagonal == 0.0 or abs(pair.diagonal - before.diagonal) <= 1e-13:
                break
    elif parts.kind == "recenter":
        pair, rates = _recentred(parts, count)
    else:
        pair, rates = _rescaled(parts, count) if position == "pre" else _rescaled_after(parts, count)
    return FixedPoint(count, parts.kind, parts.position, *pair, rates)


def local_rates(phi: Activation, n: int) -> LocalRates:
    """Local rates around G* of full batch norm before φ; None where n has no such direction.

    Example:
        >>> rates = local_rates(Parts.of("identity").phi, 7)
        >>> round(rates.standard, 12), round(rates.pair, 12)  # linear: (n − 1)/(n + 1) in all directions
        (0.75, 0.75)
    """
    moments = batch_moments(phi, n)
    a = moments.spread.value
    if n == 2 or a == 0.0:
        return LocalRates(0.0, None, None)
    f = moments.centred
    functions = [f, lambda v: v * f(v), lambda v: v * v * f(v)]
    plain = moments.covariance.value
    shifted, products = (e.value for e in moments.rule.pairs(functions, [(0, 2), (1, 1)]))
    own = moments.rule.single(lambda v: (v * v - 1.0) * f(v) ** 2).value
    standard = (own - 2 * (n - 1) / (n - 2) * (shifted - plain)) / (2 * a)
    if n == 3:
        return LocalRates(0.0, standard, None)
    # the other two samples given v_i, v_j: E v_k = −(v_i + v_j)/(n−2), E v_k v_l = ((v_i + v_j)² − n + v_i² + v_j²)/…
    sum_squared = 2 * shifted + 2 * products  # E φ_i φ_j (v_i + v_j)²
    both = (n - 2) * (n - 3)
    moment = products + sum_squared / (n - 2) + (sum_squared + 2 * shifted - n * plain) / both
    return LocalRates(0.0, standard, moment * (n - 1) / (a * n))


def _recentred(parts: Parts, n: int) -> tuple[Pair, LocalRates]:
    """Without rescaling: a ↦ E φ² − E φφ at variance a(n−1)/n, correlation −1/(n−1), before or after alike."""
    before = Parts(parts.phi, "recenter", "pre")

    def across(a: float) -> float:
        pair = exchangeable_map(before, n, a * (n - 1) / n, -a / n)
        return pair.diagonal - pair.off_diagonal

    if as_two_rays(parts.phi.expression) is not None:
        factor = across(1.0)
        if abs(factor - 1.0) < 1e-12:
            raise IsometerError(
                f"no single fixed point: {parts.phi.name} without rescaling keeps every scale — read the shape of the "
                "batch off gram_chain, or rescale"
            )
        raise IsometerError(
            f"no fixed point: without rescaling, {parts.phi.name} multiplies the batch's variance by {factor:.6g} per "
            "layer — rescale, or scale the weights by the inverse root"
        )
    a = _limit(across, 1.0)
    if math.isinf(a):
        raise IsometerError(f"no fixed point: without rescaling, {parts.phi.name} lets the variance grow without bound")
    pair = exchangeable_map(parts, n, a * (n - 1) / n, -a / n)
    trivial = _slope(across, a)
    if n == 2 or a == 0.0:
        return pair, LocalRates(trivial, None, None)
    standard, other = _price_rates(parts.phi, n, a)
    return pair, LocalRates(trivial, standard, other if n > 3 else None)


def _price_rates(phi: Activation, n: int, a: float) -> tuple[float, float]:
    """Standard and pair rate of G ↦ E φ(Mh)φ(Mh)ᵀ at G = aM, from derivatives by variance and correlation.

    A perturbation Δ of the covariance changes E φ_i² by k Δ_ii and E φ_i φ_j by s Δ_ij + u (Δ_ii + Δ_jj).
    """
    q, rho, h = a * (n - 1) / n, -1.0 / (n - 1), 1e-4
    high, low = gaussian_pair(phi, q * (1 + h), rho), gaussian_pair(phi, q * (1 - h), rho)
    step = min(h, 0.1 * (1 + rho))  # ρ − step must stay above −1
    near, far = gaussian_pair(phi, q, rho + step), gaussian_pair(phi, q, rho - step)
    s = (near.off_diagonal - far.off_diagonal) / (2 * step * q)
    k = (high.diagonal - low.diagonal) / (2 * h * q)
    # at fixed ρ the variance moves E φ_i φ_j by ρs + 2u
    u = ((high.off_diagonal - low.off_diagonal) / (2 * h * q) - rho * s) / 2
    share = 1 - 2 / n
    return k * share - 2 * (u * share - s / n), s


@lru_cache(maxsize=64)
def _rescaled(parts: Parts, n: int) -> tuple[Pair, LocalRates]:
    """Without recentring: the ratio r = (a + nb)/a of the variances along and across 1 is the state."""

    def step(ratio: float) -> Pair:
        return exchangeable_map(parts, n, (n - 1 + ratio) / n, (ratio - 1) / n)

    def ratio_of(pair: Pair) -> float:
        spread = pair.diagonal - pair.off_diagonal
        return (pair.diagonal + (n - 1) * pair.off_diagonal) / spread if spread > 0 else math.inf

    ratio = _limit(lambda r: ratio_of(step(r)), 1.0)
    if math.isinf(ratio):
        raise IsometerError(_OUTGROWN)
    return step(ratio), LocalRates(_slope(lambda r: ratio_of(step(r)), ratio), None, None)


@lru_cache(maxsize=64)
def _rescaled_after(parts: Parts, n: int) -> tuple[Pair, LocalRates]:
    """Rescaled after φ, which sees the scale too: the logs of both variances, by Newton's method after a few layers."""
    last: list[Pair] = []
    far = (1e3 if parts.kind == "rms" else 5.0) * n
    # the integrals behind `std` are computed to 1e-7 only, those of `rms` to 1e-12
    close = 1e-10 if parts.kind == "rms" else 1e-6

    def step(state: Floats) -> Floats:
        across, along = (float(v) for v in np.exp(state))
        last[:] = [exchangeable_map(parts, n, across + (along - across) / n, (along - across) / n)]
        new = last[0].diagonal - last[0].off_diagonal, last[0].diagonal + (n - 1) * last[0].off_diagonal
        if not new[0] > 0.0 or not new[1] < far * new[0] or not new[1] < _FAR:
            raise IsometerError(_OUTGROWN)
        return np.asarray(np.log(new))

    state = np.zeros(2)
    for _ in range(4):
        before, state = state, step(state)
        if np.abs(state - before).max() < 1e-11:
            break
    for _ in range(12):
        moved = step(state)
        if np.abs(moved - state).max() < close:
            break
        turn = np.eye(2) - _jacobian(step, state, moved, 0.1 * math.sqrt(close))
        if abs(np.linalg.det(turn)) < 1e-6:  # a rate of 1: no isolated fixed point
            raise IsometerError(_OUTGROWN)
        # a Newton step in logarithms, by a factor e² at most
        state = state + np.clip(np.linalg.solve(turn, moved - state), -2.0, 2.0)
    else:
        raise IsometerError(_OUTGROWN)
    pair = Pair(*last[0])  # before _jacobian steps elsewhere and overwrites it
    rate = float(np.abs(np.linalg.eigvals(_jacobian(step, state, moved, 0.1 * math.sqrt(close)))).max())
    return pair, LocalRates(rate if rate > 1e-8 else 0.0, None, None)


def _jacobian(step: Callable[[Floats], Floats], state: Floats, value: Floats, width: float) -> Floats:
    columns = [(step(state + width * unit) - value) / width for unit in np.eye(len(state))]
    return np.stack(columns, axis=1)


def _limit(update: Callable[[float], float], start: float) -> float:
    """Where an increasing map takes `start`: its first fixed point in the direction of the first step, 0 or inf."""
    tolerance = 1e-11
    first = update(start)
    if abs(first - start) <= tolerance * start:
        return start
    up, here, factor = first > start, start, 1.5
    while 1 / _FAR < here < _FAR:
        there = here * factor if up else here / factor
        moved = update(there)
        if (moved > there) != up:
            low, high = min(here, there), max(here, there)
            found = brentq(lambda x: math.log(max(update(math.exp(x)), 1e-300)) - x, math.log(low), math.log(high),
                           xtol=1e-14)  # fmt: skip
            return math.exp(float(found))
        here, factor = there, min(factor * factor, 1e3)
    return math.inf if up else 0.0


def _slope(update: Callable[[float], float], x: float, width: float = 1e-4) -> float:
    """Derivative by central differences, one-sided at 0."""
    if x == 0.0:
        return update(1e-6) / 1e-6
    return (update(x * (1 + width)) - update(x * (1 - width))) / (2 * width * x)
