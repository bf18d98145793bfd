"""Randomised quasi-Monte Carlo over Gaussian batches, for what no integral formula covers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from isometer.theory.batch_norm._parts import Kind
from isometer.theory.batch_norm._sphere import Floats

_REPLICATES = 16
_CONFIDENCE = 3.0  # standard errors of 16 replicates: 99 % by Student's law


def quasi_expectation(
    function: Callable[[Floats], Floats], covariance: Floats, *, samples: int = 1 << 15, seed: int = 0
) -> tuple[Floats, Floats]:
    """E f(h), h ~ N(0, G), by scrambled Sobol points, and an error of three standard errors of its replicates.

    Args:
        function: of batches `(k, n)`, the mean of the values over the first axis.
        covariance: G, `(n, n)`.
        samples: points in all, rounded to 16 powers of two.
        seed: seed of the scrambling.

    Example:
        >>> value, error = quasi_expectation(lambda h: (h * h).mean(axis=0), np.diag([1.0, 4.0]), samples=4096)
        >>> bool((np.abs(value - [1.0, 4.0]) < np.maximum(error, 1e-3)).all())
        True
    """
    from scipy.stats import qmc  # slow to import, seldom needed

    values, vectors = np.linalg.eigh(covariance)
    kept = values > len(values) * 1e-15 * max(float(values[-1]), 0.0)
    order = np.flatnonzero(kept)[::-1]  # the large directions get the best coordinates
    root = (vectors * np.sqrt(np.where(kept, values, 0.0)))[:, order]
    if not len(order):
        value = np.asarray(function(np.zeros((1, len(covariance)))), dtype=float)
        return value, np.zeros_like(value)
    # Sobol sequences are balanced at powers of two only
    level = max(4, round(math.log2(samples / _REPLICATES)))
    means = []
    # independent scrambles: the spread of their means is the error
    for child in np.random.SeedSequence(seed).spawn(_REPLICATES):
        points = qmc.MultivariateNormalQMC(
            np.zeros(len(order)), engine=qmc.Sobol(len(order), rng=np.random.default_rng(child))
        ).random(1 << level)
        means.append(np.asarray(function(points @ root.T), dtype=float))
    table = np.array(means)
    return table.mean(axis=0), _CONFIDENCE * table.std(axis=0, ddof=1) / math.sqrt(_REPLICATES)


def normalised(h: Floats, kind: Kind) -> Floats:
    """The batch-norm part of `h`, `(…, n)`, over the last axis; what has no size becomes 0.

    Example:
        >>> normalised(np.array([1.0, 3.0]), "full").tolist()
        [-1.0, 1.0]
    """
    centred = h - h.mean(axis=-1, keepdims=True)
    if kind == "recenter":
        return np.asarray(centred)
    base = h if kind == "rms" else centred
    size = np.sqrt((base * base).mean(axis=-1, keepdims=True))
    numerator = centred if kind == "full" else h
    return np.asarray(np.where(size > 0, numerator / np.where(size > 0, size, 1.0), 0.0))
