"""The Gram map of a batch-norm layer on exchangeable batches, G = aI + b11ᵀ: two numbers to two numbers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from isometer.activations import Activation
from isometer.activations._closed_forms import as_two_rays
from isometer.errors import IsometerError
from isometer.theory.batch_norm._laplace import two_ray_pair
from isometer.theory.batch_norm._mixture import Mixture
from isometer.theory.batch_norm._moments import batch_moments
from isometer.theory.batch_norm._norm_after_activation import chance_of_no_size, pair_after
from isometer.theory.batch_norm._parts import Kind, Parts
from isometer.theory.batch_norm._sampling import normalised, quasi_expectation
from isometer.theory.batch_norm._shared_mean import SharedMean
from isometer.theory.batch_norm._sphere import Floats, SphereRule


class Pair(NamedTuple):
    """Diagonal and off-diagonal entry of an exchangeable Gram matrix and a bound on their error."""

    diagonal: float
    off_diagonal: float
    error: float


def exchangeable_map(parts: Parts, n: int, diagonal: float, off_diagonal: float) -> Pair:
    """One layer of infinite width on G with these entries.

    Example:
        >>> exchangeable_map(Parts.of("identity"), 5, 7.0, 3.0)[:2]  # any exchangeable batch
        (1.0, -0.25)
    """
    across, along = diagonal - off_diagonal, diagonal + (n - 1) * off_diagonal
    if across < -1e-12 * diagonal or along < -1e-9 * diagonal or diagonal < 0:
        raise IsometerError(
            f"diagonal {diagonal:.6g} with off-diagonal {off_diagonal:.6g} is not a Gram matrix of {n} samples; "
            "expected −1/(n−1) ≤ off/diagonal ≤ 1 — check the entries"
        )
    across, along = max(across, 0.0), max(along, 0.0)
    if parts.position == "post":
        return _after(parts, n, across, along)
    return _before(parts.phi, parts.kind, n, across, along)


def _before(phi: Activation, kind: Kind, n: int, across: float, along: float) -> Pair:
    at_zero = float(phi(0.0)) ** 2
    if kind in ("full", "recenter") and across == 0.0:
        return Pair(at_zero, at_zero, 0.0)  # equal samples are centred to 0
    if kind == "full":
        moments = batch_moments(phi, n)
        square = moments.mean.value**2
        error = moments.variance.error + moments.covariance.error + 2 * abs(moments.mean.value) * moments.mean.error
        return Pair(moments.variance.value + square, moments.covariance.value + square, error)
    if kind == "recenter":
        return gaussian_pair(phi, across * (n - 1) / n, -1.0 / (n - 1))
    if across == 0.0:
        if kind == "std":
            return Pair(at_zero, at_zero, 0.0)  # no deviation to divide by: normalised to 0
        # equal samples over their root mean square are all 1 or all −1
        both = (float(phi(1.0)) ** 2 + float(phi(-1.0)) ** 2) / 2 if along > 0 else at_zero
        return Pair(both, both, 0.0)
    rays = as_two_rays(phi.expression)
    if rays is not None:
        values, errors = two_ray_pair(n, across, along, rays, kind)
        return Pair(float(values[0, 0]), float(values[0, 1]), float(errors.max()))
    means = mixture(phi, n, kind).means(along / across)
    return Pair(float(means[0]), float(means[1]), 1e-11 * float(means[0]))


@lru_cache(maxsize=32)
def mixture(phi: Activation, n: int, kind: Kind) -> Mixture:
    """The moments of φ given the ratio of mean and deviation, kept."""
    if kind not in ("rms", "std"):
        raise IsometerError(f"kind is {kind!r}; expected 'rms' or 'std'")
    return Mixture(n, kind, phi, phi.kinks, ([(0, 0)], [(0, 0)]), phi.name)


def gaussian_pair(phi: Activation, variance: float, correlation: float) -> Pair:
    """E φ(X)², E φ(X)φ(Y) for centred Gaussians of this variance and correlation.

    Example:
        >>> round(gaussian_pair(Parts.of("relu").phi, 4.0, 0.0).off_diagonal, 6)  # 4/(2π)
        0.63662
    """
    root = math.sqrt(variance)
    if root == 0.0:
        return Pair(float(phi(0.0)) ** 2, float(phi(0.0)) ** 2, 0.0)

    def scaled(x: Floats) -> Floats:
        return np.asarray(phi(root * x))

    rule = SphereRule(math.inf, correlation, [scaled], [kink / root for kink in phi.kinks], phi.name)
    own = rule.single(lambda x: scaled(x) ** 2)
    if abs(correlation) >= 1.0:
        other = rule.single(lambda x: scaled(x) * scaled(math.copysign(1.0, correlation) * x))
    else:
        other = rule.pairs([scaled], [(0, 0)])[0]
    return Pair(own.value, other.value, own.error + other.error)


def _after(parts: Parts, n: int, across: float, along: float) -> Pair:
    phi, kind = parts.phi, parts.kind
    off = (along - across) / n
    diagonal = across + off
    if kind == "recenter":
        if across == 0.0:
            return Pair(0.0, 0.0, 0.0)
        raw = gaussian_pair(phi, diagonal, max(-1.0, min(1.0, off / diagonal)))
        spread = raw.diagonal - raw.off_diagonal
        return Pair(spread * (n - 1) / n, -spread / n, 2 * raw.error)
    if across <= 1e-14 * along:  # equal samples: no deviation, and a root mean square of |φ|
        alive = (
            0.0 if kind != "rms" else 1.0 - chance_of_no_size(SharedMean(phi, 1, max(along / n, 1e-300), along), kind)
        )
        return Pair(alive, alive, 0.0)
    if phi.is_constant:
        alive = 1.0 if kind == "rms" and float(phi(0.0)) != 0.0 else 0.0
        return Pair(alive, alive, 0.0)
    law = SharedMean(phi, n, across, along, 1e-7 if kind == "std" else 1e-12)
    if law.is_mixture or n > 4 or not law.flat or along <= 1e-12 * across:
        found = pair_after(law, kind)
        if found.error < 1e-4:
            return Pair(*found)

    def entries(h: Floats) -> Floats:
        y = normalised(np.asarray(phi(h)), kind)
        squares = (y * y).sum(axis=1)
        return np.array([squares.mean() / n, (y.sum(axis=1) ** 2 - squares).mean() / (n * (n - 1))])

    value, error = quasi_expectation(entries, across * np.eye(n) + off)
    return Pair(float(value[0]), float(value[1]), float(error.max()))
