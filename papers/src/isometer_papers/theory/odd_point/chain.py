"""Deep networks of ReLU with parts of batch norm, drawn in law: the last layer of many independent runs at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric

__all__ = ["cluster_spread", "sampled_last_layer"]


def sampled_last_layer(
    batch: ArrayLike,
    *,
    width: int,
    depth: int,
    rng: np.random.Generator,
    recenter: bool = True,
    rescale: bool = False,
    deviation: bool = False,
) -> NDArray[np.float64]:
    """The last layer of `relu(norm(W h))` with Gaussian weights, one network per batch.

    A layer is drawn from the inner products of its input, so that it costs O(width · n²). Without rescaling the scale
    of a batch is set to 1 at each layer, which a positively homogeneous network does not notice.

    Args:
        batch: `(runs, n, k)`.
        width: neurons per layer.
        depth: layers, at least 1.
        rng: of the weights.
        recenter: subtract the mean over the batch (RC).
        rescale: divide by the root mean square over the batch (RS).
        deviation: divide by the deviation from the mean instead, as eq. 2 has it; the same after recentring.

    Returns:
        `(runs, n, width)`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> last = sampled_last_layer(rng.standard_normal((2, 20, 5)), width=50, depth=150, rng=rng)
        >>> lengths = np.sort(np.linalg.norm(last, axis=2))
        >>> bool((lengths[:, -2] < 0.5 * lengths[:, -1]).all())  # one sample has left the others
        True

    Implements: 000/net-rc-relu, 000/def-layer (its parts), 000/odd-emergence.
    """
    h = np.asarray(batch, dtype=float)
    if h.ndim != 3 or depth < 1 or width < 1:
        raise IsometerError(f"batch has shape {h.shape}, depth {depth}, width {width}; expected (runs, n, k), ≥ 1 both")
    for _ in range(depth):
        if recenter:
            h = h - h.mean(axis=1, keepdims=True)  # W is linear: centring before it is centring after it
        root = h if h.shape[2] <= h.shape[1] else _root(h)
        z = root @ rng.standard_normal((len(root), root.shape[2], width))
        about = z - z.mean(axis=1, keepdims=True) if deviation else z
        size = np.sqrt((about**2).mean(axis=1, keepdims=True) if rescale else (z**2).sum(axis=(1, 2), keepdims=True))
        h = np.maximum(z / np.where(size > 0, size, 1.0), 0.0)
    return h


def _root(h: Numeric) -> Numeric:
    """An n × n matrix with the same inner products of its rows."""
    # not Cholesky: centred batches are singular, with eigenvalues that round below 0
    values, vectors = np.linalg.eigh(h @ np.swapaxes(h, 1, 2))
    return vectors * np.sqrt(np.clip(values, 0.0, None))[:, None, :]


def cluster_spread(batch: ArrayLike) -> NDArray[np.float64]:
    """Largest distance of the samples but the longest from their mean, over the distance of the longest from it.

    Args:
        batch: `(runs, n, d)`.

    Returns:
        `(runs,)`.

    Example:
        >>> cluster_spread([[[3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]]).round(6).tolist()
        [0.333333]

    Implements: 000/odd-emergence, 000/fig-3a.
    """
    h = np.asarray(batch, dtype=float)
    runs, n = h.shape[:2]
    odd = np.argmax((h**2).sum(axis=2), axis=1)
    at = np.arange(runs)
    centre = (h.sum(axis=1) - h[at, odd]) / (n - 1)
    away = np.linalg.norm(h - centre[:, None], axis=2)
    distance = away[at, odd].copy()
    away[at, odd] = 0.0
    return np.asarray(away.max(axis=1) / np.where(distance > 0, distance, 1.0))
