"""Synthetic batches: samples (n, d) with a chosen geometry, mean square 1 on average, length √d."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError

Floats = NDArray[np.float64]
Generator = np.random.Generator


def gaussian(n: int, d: int, rng: Generator) -> Floats:
    """Independent standard normals.

    Example:
        >>> gaussian(2, 3, np.random.default_rng(0)).shape
        (2, 3)
    """
    return rng.standard_normal((n, d))


def orthogonal(n: int, d: int, rng: Generator) -> Floats:
    """Orthogonal samples of length √d in Haar-random directions; with more samples than features, orthogonal features
    of length √n.

    Example:
        >>> batch = orthogonal(2, 3, np.random.default_rng(0))
        >>> abs(batch @ batch.T / 3).round(12).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    q, r = np.linalg.qr(rng.standard_normal((max(n, d), min(n, d))))
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)  # uniqueness of QR makes q Haar
    return np.asarray((q.T if n <= d else q) * math.sqrt(max(n, d)))


def correlated(n: int, d: int, rng: Generator, *, cosine: float) -> Floats:
    """Samples of length √d with the same cosine between any two, exactly.

    Raises:
        IsometerError: if no n samples can have that cosine, or d < n.

    Example:
        >>> batch = correlated(3, 5, np.random.default_rng(0), cosine=-0.25)
        >>> (batch @ batch.T / 5).round(12)[0].tolist()
        [1.0, -0.25, -0.25]
    """
    lowest = -1 / (n - 1) if n > 1 else -1.0
    if not lowest <= cosine <= 1:
        raise IsometerError(f"cosine is {cosine}; {n} samples can have {lowest:.3g} to 1 — change it")
    if d < n:
        raise IsometerError(f"{n} samples of cosine {cosine} need at least {n} features; got {d} — pass more features")
    frame = orthogonal(n, d, rng)
    # the root of (1 − c) I + c 11ᵀ has the same form
    # rounding may leave less than 0 at the ends of the range of cosines
    small, large = math.sqrt(max(0.0, 1 - cosine)), math.sqrt(max(0.0, 1 + (n - 1) * cosine))
    return np.asarray(small * frame + (large - small) * frame.mean(0))


def near_collinear(n: int, d: int, rng: Generator, *, angle: float) -> Floats:
    """Samples of length √d at exactly the given angle (radians) from one common direction, in random directions around
    it.

    With many features two samples are at about √2 times that angle from each other.

    Raises:
        IsometerError: if the angle is not from 0 to π/2, or d < 2.

    Example:
        >>> batch = near_collinear(3, 50, np.random.default_rng(0), angle=1e-3)
        >>> bool((batch @ batch.T / 50).min() > 1 - 2.001e-6)
        True
    """
    if not 0 <= angle <= math.pi / 2:
        raise IsometerError(f"angle is {angle}; expected 0 to π/2 radians — collinear:0.001, for example")
    if d < 2:
        raise IsometerError(f"samples around a direction need at least 2 features; got {d} — pass more features")
    axis = rng.standard_normal(d)
    axis /= np.linalg.norm(axis)
    around = rng.standard_normal((n, d))
    for _ in range(2):  # twice is enough for orthogonality to rounding
        around -= np.outer(around @ axis, axis)
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    return np.asarray(math.sqrt(d) * (math.cos(angle) * axis + math.sin(angle) * around))


def repeated(n: int, d: int, rng: Generator, *, distinct: int) -> Floats:
    """Gaussian samples of which only the first `distinct` differ, repeated in turn, equal to the last bit.

    Raises:
        IsometerError: if `distinct` is not from 1 to n.

    Example:
        >>> batch = repeated(5, 4, np.random.default_rng(0), distinct=2)
        >>> bool((batch[0] == batch[4]).all()), len(np.unique(batch, axis=0))
        (True, 2)
    """
    if distinct != int(distinct) or not 1 <= distinct <= n:
        raise IsometerError(
            f"{distinct} distinct samples requested; expected 1 to {n}, as the batch has {n} — change it"
        )
    return rng.standard_normal((int(distinct), d))[np.arange(n) % int(distinct)]


def power_law(n: int, d: int, rng: Generator, *, exponent: float) -> Floats:
    """Batch whose Gram matrix H Hᵀ/d has exactly the eigenvalues c k^(−exponent), k = 1 … min(n, d), of sum n, in
    Haar-random directions on both sides.

    Exponent 0 is `orthogonal`; natural images have about 1. Samples have mean square 1 on average over the batch.

    Raises:
        IsometerError: if the exponent is negative or not finite.

    Example:
        >>> batch = power_law(4, 10, np.random.default_rng(0), exponent=1.0)
        >>> (np.linalg.eigvalsh(batch @ batch.T / 10)[::-1] * 25 / 48).round(12).tolist()
        [1.0, 0.5, 0.333333333333, 0.25]
    """
    if not (math.isfinite(exponent) and exponent >= 0):
        raise IsometerError(f"exponent is {exponent}; expected a number of at least 0 — power-law:1, for example")
    smaller = min(n, d)
    spectrum = np.arange(1.0, smaller + 1) ** -exponent
    spectrum *= n / spectrum.sum()
    left = orthogonal(smaller, n, rng) / math.sqrt(n)  # orthonormal rows
    right = orthogonal(smaller, d, rng) / math.sqrt(d)
    return np.asarray((left.T * np.sqrt(spectrum * d)) @ right)
