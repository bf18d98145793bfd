"""Batch norm of any Gaussian batch before a positively homogeneous activation: one integral per Gram entry.

For φ of slopes r, l on the two sides of 0, φ(Ch/‖Bh‖) = φ(Ch)/‖Bh‖, and 1/‖Bh‖² = ∫_0^∞ exp(−t‖Bh‖²) dt tilts the
Gaussian: `n E φφᵀ/‖Bh‖² = n ∫ det(I + 2tBGB)^{−1/2} K(S_t) dt`, S_t = C (G⁻¹ + 2tB)⁻¹ C, K the arc-cosine kernel. B and
C are M or I. The integral is a trapezoidal sum in log t, as in `gram_maps.spectrum_map`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from isometer.errors import IsometerError
from isometer.theory.batch_norm._parts import Kind
from isometer.theory.batch_norm._sphere import Floats

_STEP = 0.25
_NEGLIGIBLE = 40.0
_BLOCK = 1 << 21  # entries of S_t held together


def two_ray_gram(gram: Floats, slopes: tuple[float, float], kind: Kind) -> tuple[Floats, Floats]:
    """E φφᵀ for φ of these slopes (right, left) behind a rescaling batch norm, and a bound on the error of each entry.

    Example:
        >>> value, error = two_ray_gram(np.diag([16.0, 9.0]), (1.0, 1.0), "rms")
        >>> value.round(12).tolist()  # n times 4/7 and 3/7
        [[1.142857142857, 0.0], [0.0, 0.857142857143]]
    """
    n = len(gram)
    centring = np.eye(n) - 1.0 / n
    inner = gram if kind == "rms" else centring @ gram @ centring
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    kept = values > n * 1e-15 * max(values[-1], 0.0)
    values, vectors = values[kept], vectors[:, kept]
    if not len(values):
        return np.zeros((n, n)), np.zeros((n, n))  # what has no size is normalised to 0
    if kind == "std" and len(values) < 3:
        raise IsometerError(
            f"the centred batch has rank {len(values)}; expected at least 3: with the mean kept, the mean over the "
            "deviation has no second moment — use more samples or recentre"
        )
    scale = float(values.max())
    values = values / scale
    outward = gram @ vectors / scale  # Gu, for the part along 1 that "std" keeps

    def tilted(times: Floats) -> Floats:
        shrink = 1.0 / (1.0 + times[:, None] * values)
        if kind == "std":
            # Woodbury: (G⁻¹ + 2tM)⁻¹ without inverting G, which may be singular
            return np.asarray(gram / scale - (outward * (times[:, None] * shrink)[:, None, :]) @ outward.T)
        return np.asarray((vectors * (values * shrink)[:, None, :]) @ vectors.T)

    return _integral(n, np.log(values), np.ones(len(values)), tilted, slopes, kind)


def two_ray_pair(n: int, across: float, along: float, slopes: tuple[float, float], kind: Kind) -> tuple[Floats, Floats]:
    """As `two_ray_gram` for an exchangeable batch of variances `across` and `along` 1: two samples, `(2, 2)`.

    Example:
        >>> two_ray_pair(8, 1.0, 5.0, (1.0, 0.0), "full")[0].round(6).tolist()
        [[0.5, 0.125067], [0.125067, 0.5]]
    """
    values = np.array([across, along]) if kind == "rms" and along > 0 else np.array([across])
    counts = np.array([n - 1.0, 1.0])[: len(values)]
    if kind == "std" and n < 4:
        raise IsometerError(f"n is {n}; expected at least 4: the mean over the deviation has no second moment below")

    def tilted(times: Floats) -> Floats:
        inside = across / (1.0 + times * across)
        mean = {"full": 0.0 * times, "std": along + 0.0 * times}.get(kind, along / (1.0 + times * along))
        off = (mean - inside) / n
        return np.stack([np.stack([inside + off, off], -1), np.stack([off, inside + off], -1)], -1)

    return _integral(n, np.log(values), counts, tilted, slopes, kind)


def _integral(
    n: int, logs: Floats, counts: Floats, tilted: Callable[[Floats], Floats], slopes: tuple[float, float], kind: Kind
) -> tuple[Floats, Floats]:
    """n ∫ Π(1 + 2tλ)^{−1/2} K(S_t) dt by two trapezoidal rules in log 2t, and the difference of the two."""
    # in log t the integrand falls like t^−power: K ~ 1/t, but with "std" K tends to a constant
    power = (counts.sum() - 2 if kind == "std" else counts.sum()) / 2
    low, high = -float(logs.max()) - _NEGLIGIBLE - math.log(n) - 4, -float(logs.min()) + _NEGLIGIBLE / power + 6
    t = np.arange(low, high, _STEP / 2)
    weights = t - 0.5 * (np.logaddexp(0.0, t[:, None] + logs) @ counts)
    # K falls like 1/t where all of S_t does
    height = weights if kind == "std" else weights - np.logaddexp(0.0, t + float(logs.max()))
    alive = height > height.max() - _NEGLIGIBLE - 6
    t, weights = t[alive], np.exp(weights[alive]) / 2  # dt = ½ d(2t)
    sums: list[Floats | float] = [0.0, 0.0]
    # even, so that k::2 picks the same rule in every block
    step = 2 * max(1, _BLOCK // (2 * n * n))
    for start in range(0, len(t), step):
        part = slice(start, start + step)
        terms = weights[part, None, None] * _arc_cosine(tilted(np.exp(t[part])), *slopes)
        sums = [total + terms[k::2].sum(axis=0) for k, total in enumerate(sums)]
    first, second = np.asarray(sums[0]), np.asarray(sums[1])
    total = n * _STEP / 2 * (first + second)
    size = np.sqrt(np.outer(np.diag(total), np.diag(total)))
    return total, n * _STEP / 2 * np.abs(first - second) + 1e-14 * size


def _arc_cosine(covariance: Floats, right: float, left: float) -> Floats:
    """E φφᵀ for N(0, S), S of shape `(…, n, n)`."""
    squares = np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0.0)
    size = np.sqrt(squares[..., :, None] * squares[..., None, :])
    cosine = np.clip(covariance / np.where(size > 0, size, 1.0), -1.0, 1.0)
    bend = np.sqrt((1 - cosine) * (1 + cosine)) + (math.pi - np.arccos(cosine)) * cosine
    kernel = size * ((right - left) ** 2 * bend / (2 * math.pi) + right * left * cosine)
    index = np.arange(covariance.shape[-1])
    kernel[..., index, index] = (right**2 + left**2) / 2 * squares
    return np.asarray(kernel)
