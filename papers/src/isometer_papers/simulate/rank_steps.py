"""Monte Carlo for 002: one weak layer many times, products of residual matrices, and chains written out plainly.

Everything here is NumPy and dense, apart from the engines of `simulate`, so that it can serve as a second opinion.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError
from isometer_papers.theory.rank.bounds import second_moments
from isometer_papers.theory.rank.chain import residual_step

__all__ = ["growth_exponents", "plain_chain", "uniform_weights", "weak_layer_change", "weak_layer_statistics"]

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
_CHUNK = 20_000  # draws at a time, which bounds the memory


def uniform_weights(rng: np.random.Generator, *shape: int) -> Floats:
    """Independent entries, uniform on [−√3, √3]: mean 0, variance 1.

    Example:
        >>> bool(abs(uniform_weights(np.random.default_rng(0), 100, 100)).max() <= 3**0.5)
        True

    Implements: 002/def-1.
    """
    return rng.uniform(-math.sqrt(3), math.sqrt(3), shape)


def weak_layer_statistics(
    moments: ArrayLike, gamma: float, statistic: Statistic, *, draws: int, rng: np.random.Generator
) -> Floats:
    """A statistic of M₊ after one linear layer `H ← BN(H + γ H Wᵀ)`, averaged over W and −W, per draw.

    Args:
        moments: M, d×d with unit diagonal.
        gamma: γ.
        statistic: of matrices `(…, d, d)`, one number each.
        draws: pairs of weights.
        rng: generator.

    Returns:
        One number per pair.

    Example:
        >>> square = lambda m: (m * m).sum((-2, -1))
        >>> weak_layer_statistics(np.ones((2, 2)), 0.1, square, draws=3, rng=np.random.default_rng(0)).round(9).tolist()
        [4.0, 4.0, 4.0]

    Implements: 002/lem-12 (left-hand side), 002/ex-14.
    """
    m = np.asarray(moments, dtype=float)
    d = m.shape[-1]
    if draws < 2:
        raise IsometerError(f"draws is {draws}; expected at least 2, for an error — draw more")
    found = []
    for start in range(0, draws, _CHUNK):
        w = uniform_weights(rng, min(_CHUNK, draws - start), d, d)
        pair = np.zeros(len(w))
        # terms odd in γ cancel between W and −W; they are noise of order γ over a change of order γ²
        for sign in (1.0, -1.0):
            a = np.eye(d) + sign * gamma * w
            after = a @ m @ np.swapaxes(a, -1, -2)
            size = np.sqrt(np.einsum("...ii->...i", after))
            pair += np.asarray(statistic(after / (size[..., :, None] * size[..., None, :]))) / 2
        found.append(pair)
    return np.concatenate(found)


def weak_layer_change(moments: ArrayLike, gamma: float, *, draws: int, rng: np.random.Generator) -> Floats:
    """(‖M₊‖_F² − ‖M‖_F²)/γ² per pair of draws of `weak_layer_statistics`.

    Example:
        >>> change = weak_layer_change(np.eye(3), 0.01, draws=4000, rng=np.random.default_rng(0))
        >>> bool(abs(change.mean() - 12) < 0.5)
        True

    Implements: 002/lem-12 (left-hand side).
    """
    m = np.asarray(moments, dtype=float)
    after = weak_layer_statistics(m, gamma, lambda a: (a * a).sum((-2, -1)), draws=draws, rng=rng)
    return np.asarray((after - (m * m).sum()) / gamma**2)


def growth_exponents(
    width: int, gamma: float, *, layers: int, chains: int, rng: np.random.Generator, burn_in: int = 20
) -> Floats:
    """Growth per layer of the two largest singular values of ∏(I + γW), by QR on a pair of vectors.

    Args:
        width: d.
        gamma: γ.
        layers: averaged over.
        chains: independent products.
        rng: generator.
        burn_in: layers left out at the start.

    Returns:
        `(chains, 2)`, Lyapunov exponents, the larger first on average.

    Example:
        >>> exponents = growth_exponents(4, 0.5, layers=200, chains=4, rng=np.random.default_rng(0))
        >>> bool((exponents[:, 0] > exponents[:, 1]).all())
        True

    Implements: 002/lem-4.
    """
    frames = np.linalg.qr(rng.standard_normal((chains, width, 2)))[0]
    total = np.zeros((chains, 2))
    for layer in range(burn_in + layers):
        weights = uniform_weights(rng, chains, width, width)
        # without QR both vectors turn to the leading direction, and the second exponent is lost
        frames, r = np.linalg.qr(frames + gamma * (weights @ frames))
        if layer >= burn_in:
            total += np.log(np.abs(np.einsum("...ii->...i", r)))
    return total / layers


def plain_chain(
    inputs: ArrayLike,
    gamma: float,
    *,
    layers: int,
    rng: np.random.Generator,
    function: Callable[[Any], Any] | None = None,
    normalize: bool = True,
    draw: Callable[[np.random.Generator, int, int], Any] = uniform_weights,
    every: int = 1,
) -> Floats:
    """The chain of 002 written out: `H ← H + γ F(H) Wᵀ`, features scaled to mean square 1.

    Without normalisation linear networks are divided by their norm after each layer, which changes no direction.

    Args:
        inputs: `(n, d)`.
        gamma: γ, `inf` for no skip.
        layers: how many.
        rng: generator.
        function: F, the identity by default.
        normalize: batch norm without recentring.
        draw: weights, `(rng, d, d)`.
        every: keep one state in so many.

    Returns:
        States `(kept, n, d)`.

    Example:
        >>> states = plain_chain(np.eye(3), 0.1, layers=4, rng=np.random.default_rng(0))
        >>> states.shape, bool(np.allclose((states**2).mean(1), 1))
        ((4, 3, 3), True)

    Implements: 002/def-2, 002/eq-rec-vanilla.
    """
    h = np.asarray(inputs, dtype=float)
    kept = []
    for layer in range(layers):
        step = residual_step(h, draw(rng, h.shape[1], h.shape[1]), gamma, function or (lambda x: x))
        if normalize:
            size = np.sqrt(np.einsum("...ii->...i", second_moments(step)))
            h = step / np.where(size > 0, size, 1.0)
        elif function is None:
            norm = np.linalg.norm(step)
            h = step / (norm if norm > 0 else 1.0)
        else:
            # F need not be homogeneous: dividing by a norm would make another network
            h = step
        if (layer + 1) % every == 0:
            kept.append(h)
    return np.stack(kept)
