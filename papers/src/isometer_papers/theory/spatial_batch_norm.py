"""Batch norm over samples and space at infinite width, for ReLU networks of convolutions, by one integral per layer.

One channel before the norm is a Gaussian z over all points (sample, position), centred, with covariance C = VΛVᵀ. The
norm divides it by its own size, so the next layer sees E[φ(z)φ(z)ᵀ N/‖z‖²], N points, φ being positively homogeneous.
With 1/‖z‖² = ∫₀^∞ exp(−t‖z‖²) dt, a Gaussian under that weight is a Gaussian again, of covariance
C_t = VΛ(1 + 2tΛ)⁻¹Vᵀ, and

    E[φ(z)φ(z)ᵀ/‖z‖²] = ∫₀^∞ det(1 + 2tΛ)^(−1/2) E_{z∼C_t}[φ(z)φ(z)ᵀ] dt,

exact for any number of points. In log t the integrand is smooth and falls off on both sides, so the trapezoidal rule
converges fast; the trace of E[zzᵀ/‖z‖²], which is 1, tells how far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_STEPS = 40  # nodes of the integral
_REACH = 1e-10  # what is left out at both ends, as a share of the integrand's largest value


@dataclass(frozen=True, eq=False)
class SpatialLayer:
    """What a layer is before its activation.

    Attributes:
        covariance: of one channel behind the norm over all points, `(n·P, n·P)`, sample by sample.
        rectified: of what leaves the ReLU.
        error: how far the trace of the covariance is from what the norm makes it, as a share.
    """

    covariance: Floats
    rectified: Floats
    error: float


def patches_mean(covariance: Floats, samples: int, side: int) -> Floats:
    """Through a convolution of 3×3 with zeros around the image: means over the nine offsets of both positions.

    Example:
        >>> patches_mean(np.ones((4, 4)), 1, 2)[0, 0].round(4)  # four of nine pixels are inside
        np.float64(0.4444)
    """
    shape = (samples, side, side) * 2
    out = np.zeros(shape)
    cut = {-1: (slice(1, None), slice(None, -1)), 0: (slice(None),) * 2, 1: (slice(None, -1), slice(1, None))}
    given = covariance.reshape(shape)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            to = (slice(None), cut[down][0], cut[right][0])
            source = (slice(None), cut[down][1], cut[right][1])
            out[(*to, *to)] += given[(*source, *source)]
    return out.reshape(covariance.shape) / 9.0


def relu_moments(covariance: Floats) -> Floats:
    """E relu(z)relu(z)ᵀ of a Gaussian.

    Example:
        >>> relu_moments(np.eye(2)).round(4).tolist()
        [[0.5, 0.1592], [0.1592, 0.5]]
    """
    root = np.sqrt(np.diag(covariance))
    size = np.outer(root, root)
    cosine = np.clip(covariance / np.where(size > 0.0, size, 1.0), -1.0, 1.0)
    np.fill_diagonal(cosine, 1.0)
    return np.asarray(size * (np.sqrt(1 - cosine**2) + cosine * (np.pi - np.arccos(cosine))) / (2 * np.pi))


def normalised_layer(covariance: Floats) -> SpatialLayer:
    """The norm and the ReLU of what a convolution hands on.

    Example:
        >>> layer = normalised_layer(np.eye(6))
        >>> layer.covariance[0, :2].round(4).tolist(), layer.error < 1e-6  # centred: 1 and −1/5
        ([1.0, -0.2], True)
    """
    points = len(covariance)
    centred = covariance - covariance.mean(axis=0) - covariance.mean(axis=1)[:, None] + covariance.mean()
    values, vectors = np.linalg.eigh(centred / np.trace(centred))  # eigenvalues add to 1
    values = np.maximum(values, 0.0)
    logs, weights = _nodes(values)
    times = np.exp(logs)
    covariance = np.zeros_like(centred)
    rectified = np.zeros_like(centred)
    for time, weight in zip(times, weights, strict=True):
        tilted = (vectors * (values / (1 + 2 * time * values))) @ vectors.T
        covariance += weight * tilted
        rectified += weight * relu_moments(tilted)
    error = abs(float(np.trace(covariance)) - 1.0)
    return SpatialLayer(points * covariance, points * rectified, error)


def _nodes(values: Floats) -> tuple[Floats, Floats]:
    """Logarithms of t and weights det(1 + 2tΛ)^(−1/2) t du, where t times the trace of C_t counts."""

    def integrand(log: Floats) -> Floats:
        t = np.exp(log)[:, None]
        determinant = -0.5 * np.log1p(2 * t * values).sum(axis=1)
        trace = (values / (1 + 2 * t * values)).sum(axis=1)
        return np.asarray(np.exp(determinant + log) * trace)

    coarse = np.linspace(-40.0, 40.0, 1601)
    found = integrand(coarse)
    inside = coarse[found > _REACH * found.max()]
    logs = np.linspace(inside[0], inside[-1], _STEPS)
    step = logs[1] - logs[0]
    t = np.exp(logs)
    weights = step * t * np.exp(-0.5 * np.log1p(2 * t[:, None] * values).sum(axis=1))
    return logs, weights


def input_covariance(images: Floats) -> Floats:
    """Of rectified images `(n, channels, side, side)`, over all points."""
    flat = np.moveaxis(images, 1, -1).reshape(-1, images.shape[1])
    return np.asarray(flat @ flat.T / images.shape[1])


def same_position_gram(covariance: Floats, samples: int) -> Floats:
    """Products of samples, means over positions, `(n, n)`.

    Example:
        >>> same_position_gram(np.eye(4), 2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    positions = len(covariance) // samples
    return np.asarray(np.einsum("ipjp->ij", covariance.reshape(samples, positions, samples, positions)) / positions)


def gap_parts(gram: Floats) -> tuple[float, float, float]:
    """The orthogonality gap ‖G/tr G − I/n‖ and its two parts: lengths (diagonal) and cosines (the rest).

    Example:
        >>> [round(part, 4) for part in gap_parts(np.diag([3.0, 1.0]))]
        [0.3536, 0.3536, 0.0]
    """
    share = gram / np.trace(gram)
    lengths = float(((np.diag(share) - 1 / len(share)) ** 2).sum())
    cosines = float((share**2).sum() - (np.diag(share) ** 2).sum())
    return math.sqrt(lengths + cosines), math.sqrt(lengths), math.sqrt(max(cosines, 0.0))
