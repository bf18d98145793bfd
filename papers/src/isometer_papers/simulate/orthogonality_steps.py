"""Monte Carlo for 003 and chapter 2 of the thesis: layers drawn in law from a factor of the Gram matrix, in NumPy.

`W F(Q)` with Gaussian W has the law of `G R`, G Gaussian and R the triangle of F(Q): a layer costs O(d n²). States are
`(chains, d, n)`, features first as in the papers. Apart from the engines of `simulate`, so that either can check the
other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError

__all__ = [
    "dense_chain",
    "feature_chain",
    "gram_statistics",
    "product_exponents_sample",
    "singular_value_gap",
    "smallest_singular_value",
]

Floats = NDArray[np.float64]
Norm = Literal["unit", "standard", "none"]
_ENTRIES = 4_000_000  # random numbers at a time


def gram_statistics(
    squares: ArrayLike, width: int, statistic: Callable[[Floats], Floats], *, draws: int, rng: np.random.Generator
) -> Floats:
    """A statistic of C = HᵀH after one batch-normalised linear layer, per draw of the weights.

    In the basis of the right singular vectors `C = (1/d) Σ uuᵀ`, `u = (w ⊙ σ)/‖w ⊙ σ‖`.

    Args:
        squares: squared singular values of the layer before.
        width: d.
        statistic: of matrices `(…, n, n)`, one number each.
        draws: of the weights, at least 2.
        rng: generator.

    Returns:
        `(draws,)`.

    Example:
        >>> trace = lambda c: np.trace(c, axis1=-2, axis2=-1)
        >>> gram_statistics([0.9, 0.1], 5, trace, draws=2, rng=np.random.default_rng(0)).round(12).tolist()
        [1.0, 1.0]

    Implements: 003/eq-12, 003/lem-6, 003/lem-7, 003/thm-5 (left-hand sides), 001/eq-A.7.
    """
    sigma = np.sqrt(np.asarray(squares, dtype=float))
    if draws < 2:
        raise IsometerError(f"draws is {draws}; expected at least 2, for an error — draw more")
    block = max(1, _ENTRIES // (width * len(sigma)))
    found = []
    for start in range(0, draws, block):
        rows = rng.standard_normal((min(block, draws - start), width, len(sigma))) * sigma
        rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
        found.append(np.asarray(statistic(np.swapaxes(rows, -1, -2) @ rows / width)))
    return np.concatenate(found)


def feature_chain(
    start: ArrayLike,
    width: int,
    *,
    layers: int,
    chains: int,
    rng: np.random.Generator,
    read: Callable[[Floats], Floats],
    function: Callable[[Floats], Floats] | None = None,
    norm: Norm = "unit",
    skip: int = 0,
    every: int = 1,
) -> Floats:
    """Independent chains `Q ← norm(W F(Q))` and what is read off every layer.

    Args:
        start: the input, `(features, n)`, or one for each chain, `(chains, features, n)`.
        width: d of every layer.
        layers: how many.
        chains: independent draws.
        rng: generator.
        read: of states `(chains, d, n)`, something per chain.
        function: F, the identity by default; it is not applied to the input.
        norm: rows of length 1 (`unit`), rows of mean 0 and mean square 1 (`standard`), or `none`, which scales each
            state to Frobenius norm √(dn).
        skip: layers at the start that are not read.
        every: distance of the layers that are read.

    Returns:
        `(chains, layers read, …)`.

    Example:
        >>> size = lambda q: np.linalg.norm(q, axis=(-2, -1))
        >>> feature_chain(np.eye(2), 9, layers=2, chains=1, rng=np.random.default_rng(0), read=size).round(12).tolist()
        [[3.0, 3.0]]

    Implements: 003/net-bn-linear, 003/net-act, 003/net-vanilla-linear, 001/rec-2.1, 001/rec-2.vanilla.
    """
    first = np.asarray(start, dtype=float)
    if first.ndim == 2:
        first = np.broadcast_to(first, (chains, *first.shape))
    if first.ndim != 3 or len(first) != chains:
        raise IsometerError(
            f"start has shape {first.shape} for {chains} chains; expected (features, samples) or one such per chain"
        )
    triangle = _triangle(first)
    found = []
    for layer in range(layers):
        # weights of unit variance: every norm takes their scale out again
        state = _normed(rng.standard_normal((chains, width, triangle.shape[1])) @ triangle, norm)
        if layer >= skip and (layer - skip) % every == 0:
            found.append(np.asarray(read(state)))
        triangle = _triangle(state if function is None else function(state))
    return np.stack(found, axis=1)


def dense_chain(
    start: ArrayLike,
    *,
    layers: int,
    rng: np.random.Generator,
    function: Callable[[Floats], Floats] | None = None,
    norm: Norm = "unit",
) -> Floats:
    """One chain `Q ← norm(W F(Q))` with the d × d weights written out, of the width of its input.

    Args:
        start: the input, `(d, n)`.
        layers: how many.
        rng: generator.
        function: F, the identity by default; it is not applied to the input.
        norm: as in `feature_chain`.

    Returns:
        `(layers, d, n)`.

    Example:
        >>> states = dense_chain(np.eye(3)[:, :2], layers=4, rng=np.random.default_rng(0))
        >>> np.linalg.norm(states[-1], axis=1).round(12).tolist()
        [1.0, 1.0, 1.0]

    Implements: 003/net-bn-linear, 003/net-act, 001/rec-2.1, to the letter.
    """
    state = np.asarray(start, dtype=float)
    found = []
    for layer in range(layers):
        inner = state if function is None or layer == 0 else function(state)
        weights = rng.standard_normal((len(state), len(state))) / math.sqrt(len(state))
        state = _normed((weights @ inner)[None], norm)[0]
        found.append(state)
    return np.stack(found)


def _triangle(state: Floats) -> Floats:
    # QR rather than Cholesky of QᵀQ: chains without batch norm approach rank one, and squaring halves the digits
    return np.asarray(np.linalg.qr(state, mode="r"))


def _normed(state: Floats, norm: Norm) -> Floats:
    if norm == "standard":
        state = state - state.mean(axis=-1, keepdims=True)
    if norm == "none":
        size = np.sqrt((state**2).mean(axis=(-2, -1), keepdims=True))
    else:
        size = np.linalg.norm(state, axis=-1, keepdims=True)
    # a feature that is constant over the batch stays zero
    scaled = state / np.where(size > 0, size, 1.0)
    return np.asarray(scaled * math.sqrt(state.shape[-1]) if norm == "standard" else scaled)


def singular_value_gap(state: Floats) -> Floats:
    """Orthogonality gap V of the samples of states `(…, d, n)`.

    Example:
        >>> float(singular_value_gap(np.eye(2)))
        0.0

    Implements: 003/def-V, 001/def-2.2.
    """
    gram = np.swapaxes(state, -1, -2) @ state
    gram = gram / np.trace(gram, axis1=-2, axis2=-1)[..., None, None]
    return np.asarray(np.sqrt(((gram - np.eye(gram.shape[-1]) / gram.shape[-1]) ** 2).sum((-2, -1))))


def smallest_singular_value(state: Floats) -> Floats:
    """σ_n of states `(…, d, n)` scaled to Frobenius norm 1.

    Example:
        >>> round(float(smallest_singular_value(np.diag([3.0, 4.0]))), 12)
        0.6

    Implements: 003/def-A1, 001/ass-2.A1.
    """
    values = np.linalg.svd(state, compute_uv=False)
    return np.asarray(values[..., -1] / np.linalg.norm(values, axis=-1))


def product_exponents_sample(
    width: int, *, layers: int, chains: int, rng: np.random.Generator, burn_in: int = 20
) -> Floats:
    """(1/ℓ) log σ_i² of products of Gaussian d×d matrices of unit variance, by QR.

    Args:
        width: d.
        layers: ℓ.
        chains: independent products.
        rng: generator.
        burn_in: factors left out at the start.

    Returns:
        `(chains, d)`, the largest first.

    Example:
        >>> sample = product_exponents_sample(2, layers=100, chains=3, rng=np.random.default_rng(0))
        >>> sample.shape
        (3, 2)

    Implements: 001/lem-A.8 (A.13).
    """
    frames = np.broadcast_to(np.eye(width), (chains, width, width))
    total = np.zeros((chains, width))
    for layer in range(burn_in + layers):
        # orthonormal again after every factor: the columns of the bare product turn parallel and overflow
        frames, triangle = np.linalg.qr(rng.standard_normal((chains, width, width)) @ frames)
        if layer >= burn_in:
            total += np.log(np.einsum("...ii->...i", triangle) ** 2)  # the signs of R's diagonal are arbitrary
    return np.asarray(total / layers)


def read_gram(state: Any) -> Floats:
    """QᵀQ/d of states `(…, d, n)`.

    Example:
        >>> read_gram(np.ones((1, 4, 2))).tolist()
        [[[1.0, 1.0], [1.0, 1.0]]]

    Implements: 003/conj-F1 (19), per feature.
    """
    return np.asarray(np.swapaxes(state, -1, -2) @ state / state.shape[-2])
