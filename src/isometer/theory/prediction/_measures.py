"""Metrics of a trajectory by name, read off Gram matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from isometer import metrics as room
from isometer.errors import IsometerError

Floats = NDArray[np.float64]
_SINGULAR = 1e-12  # eigenvalues below this share of the largest are rounding
_OF_FACTORS: dict[str, Callable[[Floats], Floats]] = {
    "orthogonality_gap": room.orthogonality_gap,
    "lyapunov_gap": room.lyapunov_gap,
    "spectral_variance": room.spectral_variance,
    "isometry_gap": room.isometry_gap,
    "isometry": room.isometry,
    "stable_rank": room.stable_rank,
    "rank": room.rank,
    "effective_rank": room.effective_rank,
    "condition_number": room.condition_number,
    "mean_cosine": room.mean_cosine,
    "mean_abs_cosine": room.mean_abs_cosine,
    "mean_angle_deg": room.mean_angle_deg,
    "average_dot_product": room.average_dot_product,
    "clusters": room.clusters,
    "wasserstein_to_isotropic": room.wasserstein_to_isotropic,
    "odd_norm_ratio": lambda f: room.odd_point_statistics(f).rest_norm_ratio,
    "odd_second_norm_ratio": lambda f: room.odd_point_statistics(f).second_norm_ratio,
    "odd_angle_deg": lambda f: room.odd_point_statistics(f).angle_to_rest_mean,
    "cluster_angle_deg": lambda f: room.odd_point_statistics(f).angle_within_rest_mean,
    "top_eigenvalue_share": lambda f: _top_share(f),
}
_OF_SCALE = ("soft_rank", "smallest_singular_value", "largest_singular_value", "log_norm", "second_moment")
PREDICTED = (*_OF_FACTORS, *_OF_SCALE, "gradient_log_norm")
"""Every metric that theory predicts; those of single features and of gradients beyond their norm it does not."""


def checked_metrics(names: Sequence[str]) -> list[str]:
    """The names, or an error that says which ones theory has.

    Example:
        >>> checked_metrics(["rank"])
        ['rank']
    """
    for name in names:
        if name not in PREDICTED:
            raise IsometerError(
                f"metric is {name!r}; expected one that depends on the Gram matrix: {', '.join(PREDICTED)} — simulate "
                "the others"
            )
    return list(names)


def factor_of(gram: Floats) -> Floats:
    """F `(…, n, n)` with `F Fᵀ = G`; directions of no more than rounding are dropped.

    Example:
        >>> factor = factor_of(np.array([[2.0, 2.0], [2.0, 2.0]]))
        >>> (factor @ factor.T).round(12).tolist()
        [[2.0, 2.0], [2.0, 2.0]]
    """
    values, vectors = np.linalg.eigh(gram)
    top = np.maximum(values[..., -1:], 0.0)
    return np.asarray(vectors * np.sqrt(np.where(values > _SINGULAR * top, values, 0.0))[..., None, :])


def measured(names: Sequence[str], grams: Floats, log_scale: Floats, features: Floats) -> dict[str, Floats]:
    """Metrics of representations `H = √(d) e^s F`, `F Fᵀ` the Gram matrices.

    Args:
        names: metrics.
        grams: `(…, n, n)`.
        log_scale: s, `(…)`.
        features: d, `(…)`.

    Returns:
        One array `(…)` per metric.

    Example:
        >>> measured(["log_norm"], np.eye(4)[None], np.zeros(1), np.array([9.0]))["log_norm"].round(6).tolist()
        [1.791759]
    """
    factors = factor_of(grams)
    out = {}
    for name in names:
        if name in _OF_FACTORS:
            out[name] = np.asarray(_OF_FACTORS[name](factors), dtype=np.float64)
        elif name in _OF_SCALE:
            out[name] = _scaled(name, grams, factors, log_scale, features)
    return out


def _scaled(name: str, grams: Floats, factors: Floats, log_scale: Floats, features: Floats) -> Floats:
    if name in ("log_norm", "second_moment"):
        with np.errstate(divide="ignore"):
            logs = 0.5 * np.log(np.trace(grams, axis1=-2, axis2=-1)) + log_scale
        if name == "second_moment":
            return np.asarray(np.exp(np.minimum(2 * logs, 700.0)) / grams.shape[-1])
        return np.asarray(logs + 0.5 * np.log(features))
    size = np.exp(np.clip(log_scale + 0.5 * np.log(features), -300.0, 300.0))[..., None, None]
    if name == "soft_rank":
        return np.asarray(room.soft_rank(factors * size), dtype=np.float64)
    values = np.linalg.svd(factors * size, compute_uv=False)
    return np.asarray(values[..., -1 if name == "smallest_singular_value" else 0])


def _top_share(factors: Floats) -> Floats:
    values = room.spectrum(factors)
    total = values.sum(-1)
    return np.asarray(np.where(total > 0, values[..., 0] / np.where(total > 0, total, 1.0), 1.0))


def half_width(level: float) -> float:
    """Standard deviations of a Gaussian that cover `level` on both sides.

    Example:
        >>> round(half_width(0.95), 4)
        1.96
    """
    from scipy.special import ndtri

    if not 0 < level < 1:
        raise IsometerError(f"level is {level}; expected 0 < level < 1 — the usual one is 0.95")
    return float(ndtri((1 + level) / 2)) if math.isfinite(level) else math.inf
