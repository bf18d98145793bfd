"""The Gram map of a batch-norm layer of infinite width, for any batch."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isometer.activations import Activation
from isometer.activations._closed_forms import as_two_rays
from isometer.errors import IsometerError
from isometer.spec import Norm
from isometer.theory.batch_norm._exchangeable import exchangeable_map
from isometer.theory.batch_norm._gram_maps import gram_map
from isometer.theory.batch_norm._laplace import two_ray_gram
from isometer.theory.batch_norm._parts import Parts, Position, checked_samples
from isometer.theory.batch_norm._sampling import normalised, quasi_expectation
from isometer.theory.batch_norm._sphere import Floats

__all__ = ["GramEstimate", "batch_norm_chain", "batch_norm_map"]

_EXCHANGEABLE = 1e-12  # relative spread of entries that counts as none


class GramEstimate(NamedTuple):
    """A Gram matrix `(n, n)`, a bound on the error of each entry, and how it was computed."""

    gram: Floats
    error: Floats
    method: Literal["exchangeable", "integral", "quasi-Monte Carlo"]


def batch_norm_map(
    gram: ArrayLike,
    source: str | Activation,
    *,
    norm: str | Norm = "batch",
    position: Position = "pre",
    samples: int = 1 << 15,
    seed: int = 0,
) -> GramEstimate:
    """Gram matrix after one batch-norm layer of infinite width: `G ↦ E φ(BN(h)) φ(BN(h))ᵀ`, h ~ N(0, G).

    Exchangeable G (one diagonal and one off-diagonal value) and positively homogeneous activations after a rescaling
    norm are integrals, precise to about 1e−12; everything else is randomised quasi-Monte Carlo.

    Args:
        gram: G, `(n, n)`, positive semi-definite.
        source: the activation.
        norm: `"batch"`, `"batch-recenter"`, `"batch-rescale"`, `"batch-rescale-std"` or a `Norm` of these.
        position: the norm before (`"pre"`) or after (`"post"`) the activation.
        samples: points of quasi-Monte Carlo.
        seed: seed of quasi-Monte Carlo.

    Returns:
        A `GramEstimate`; the error of sampled entries is three standard errors.

    Example:
        >>> batch_norm_map(np.diag([3.0, 2.0, 1.0, 1.0]), "identity").gram.trace().round(12).item()
        4.0

    Implements: 001/map-3.3.
    """
    matrix = np.array(gram, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise IsometerError(f"gram has shape {matrix.shape}; expected finite numbers (n, n) — pass H Hᵀ / d")
    n = checked_samples(len(matrix))
    size = float(np.abs(matrix).max())
    if float(np.abs(matrix - matrix.T).max()) > 1e-10 * size:
        raise IsometerError("gram is not symmetric; expected H Hᵀ / d — symmetrise it as (G + Gᵀ)/2 if rounding did it")
    lowest = float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
    if lowest < -1e-10 * n * size:
        raise IsometerError(f"gram has the eigenvalue {lowest:.3g}; expected none below 0 — pass H Hᵀ / d")
    parts = Parts.of(source, norm, position, n)
    apart = ~np.eye(n, dtype=bool)
    spread = max(np.ptp(np.diag(matrix)), np.ptp(matrix[apart]))
    if spread <= _EXCHANGEABLE * size:
        pair = exchangeable_map(parts, n, float(np.diag(matrix).mean()), float(matrix[apart].mean()))
        filled = np.where(apart, pair.off_diagonal, pair.diagonal)
        return GramEstimate(filled, np.full((n, n), pair.error), "exchangeable")
    rays = as_two_rays(parts.phi.expression)
    if position == "pre" and rays is not None:
        if parts.kind != "recenter":
            return GramEstimate(*two_ray_gram(matrix, rays, parts.kind), "integral")
        value = gram_map(matrix, parts.phi, recenter=True)
        return GramEstimate(value, 1e-13 * float(np.diag(value).max()) * np.ones((n, n)), "integral")

    def products(h: Floats) -> Floats:
        if position == "pre":
            y = np.asarray(parts.phi(normalised(h, parts.kind)))
        else:
            y = normalised(np.asarray(parts.phi(h)), parts.kind)
        return np.asarray(y.T @ y / len(y))

    return GramEstimate(*quasi_expectation(products, matrix, samples=samples, seed=seed), "quasi-Monte Carlo")


def batch_norm_chain(
    gram: ArrayLike,
    depth: int,
    source: str | Activation,
    *,
    norm: str | Norm = "batch",
    position: Position = "pre",
    samples: int = 1 << 13,
    seed: int = 0,
) -> list[GramEstimate]:
    """`batch_norm_map` iterated over `depth` layers, layer by layer; errors are those of the last step alone.

    Args:
        gram: G of the input.
        depth: layers.
        source: the activation.
        norm: as in `batch_norm_map`.
        position: as in `batch_norm_map`.
        samples: points of quasi-Monte Carlo per layer.
        seed: seed of quasi-Monte Carlo.

    Returns:
        One `GramEstimate` per layer 1 … depth.

    Example:
        >>> chain = batch_norm_chain(np.diag([4.0, 1.0, 1.0, 1.0, 1.0]), 40, "relu")
        >>> bool(np.ptp(np.diag(chain[-1].gram)) < 1e-8)  # on its way to the exchangeable fixed point
        True

    Implements: 001/claim-3.global.
    """
    if depth < 1:
        raise IsometerError(f"depth is {depth}; expected a whole number of at least 1 — pass the number of layers")
    layers: list[GramEstimate] = []
    state: ArrayLike = gram
    for layer in range(depth):
        layers.append(batch_norm_map(state, source, norm=norm, position=position, samples=samples, seed=seed + layer))
        state = layers[-1].gram
    return layers
