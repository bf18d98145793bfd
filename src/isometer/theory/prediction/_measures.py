"""Metrics of a trajectory by name, read off Gram matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.metrics import METRICS, SEQUENCE_METRICS, metric, names
from isometer.metrics._batch import MetricInput
from isometer.metrics._several import Shared

Floats = NDArray[np.float64]
_SINGULAR = 1e-12  # eigenvalues below this share of the largest are rounding


def _log_norm(factors: Floats, log_scale: Floats, features: Floats) -> Floats:
    return np.asarray(_log_root_trace(factors, log_scale) + 0.5 * np.log(features))


def _second_moment(factors: Floats, log_scale: Floats, features: Floats) -> Floats:
    with np.errstate(over="ignore"):  # inf: larger than any float64, which `log_norm` tells
        return np.asarray(np.exp(2 * _log_root_trace(factors, log_scale)) / factors.shape[-2])


def _log_root_trace(factors: Floats, log_scale: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(0.5 * np.log((factors * factors).sum(axis=(-2, -1))) + log_scale)


_OF_TRACES = {"log_norm": _log_norm, "second_moment": _second_moment}  # at any scale, without a representation
_ENTRIES = 1 << 20  # of Gram matrices, measured at a time
GRADIENT = "gradient_log_norm"


def predicted_metrics() -> list[str]:
    """Names of the metrics that theory predicts; it covers neither single features nor gradients beyond their norm.

    Example:
        >>> "rank" in predicted_metrics(), "kurtosis" in predicted_metrics()
        (True, False)
    """
    return [*names("gram", "products"), "second_moment", GRADIENT]


def checked_metrics(chosen: Sequence[str]) -> list[str]:
    """The names, or an error that says which ones theory has.

    Example:
        >>> checked_metrics(["rank"])
        ['rank']
    """
    known = [*predicted_metrics(), *SEQUENCE_METRICS]
    for name in chosen:
        if name in METRICS and name not in known:
            raise IsometerError(
                f"metric is {name!r}; expected one that depends on the Gram matrix: {', '.join(known)} — simulate the "
                "others"
            )
        metric(name, known)
    return list(chosen)


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


def measured(chosen: Sequence[str], factors: Floats, log_scale: Floats, features: Floats) -> dict[str, Floats]:
    """Metrics of representations `H = √(d) e^s F`, `F Fᵀ` the Gram matrices.

    Args:
        chosen: names of metrics; gradients are left out.
        factors: F `(…, n, k)`, k at most n.
        log_scale: s, `(…)`.
        features: d, `(…)`.

    Returns:
        One array `(…)` per metric.

    Example:
        >>> measured(["log_norm"], np.eye(4)[None], np.zeros(1), np.array([9.0]))["log_norm"].round(6).tolist()
        [1.791759]
    """
    out = {}
    at_scale = MetricInput.of(factors * _size(features, log_scale))
    # for more than one sample; one by one, metrics say what they need
    shared = Shared(at_scale) if factors.shape[-2] > 1 else None
    for name in chosen:
        if name == GRADIENT or name in SEQUENCE_METRICS:
            continue  # not of one Gram matrix
        entry = METRICS[name]
        if name in _OF_TRACES:
            out[name] = _OF_TRACES[name](factors, log_scale, features)
        elif shared is not None and entry.shared is not None:
            out[name] = np.asarray(entry.shared(shared), dtype=np.float64)
        elif entry.reads == "products":
            out[name] = np.asarray(entry.of(_square(at_scale.data)), dtype=np.float64)
        else:
            columns = np.full_like(log_scale, factors.shape[-1])
            of = factors if entry.scaling == "invariant" else factors * _size(columns, log_scale)
            out[name] = np.asarray(entry.of(of), dtype=np.float64)
    return out


def _square(factors: Floats) -> Floats:
    """With columns of zeros up to n: a representation has as many features, and singular values are counted."""
    n, k = factors.shape[-2:]
    return factors if n == k else np.concatenate([factors, np.zeros((*factors.shape[:-1], n - k))], axis=-1)


def measured_by_layer(
    names: Sequence[str], pairs: Sequence[tuple[Floats, float]], features: Floats
) -> dict[str, Floats]:
    """Metrics of all layers, a few layers at a time: metrics of angles hold several numbers per pair of samples."""
    step = max(1, _ENTRIES // pairs[0][0].size)
    parts = []
    for start in range(0, len(pairs), step):
        some = pairs[start : start + step]
        scales = np.array([scale for _, scale in some])
        factors = factor_of(np.stack([gram for gram, _ in some]))
        parts.append(measured(names, factors, scales, features[start : start + step]))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _size(columns: Floats, log_scale: Floats) -> Floats:
    """What makes factors a representation of so many columns at its own scale."""
    return np.asarray(np.exp(np.clip(log_scale + 0.5 * np.log(columns), -300.0, 300.0))[..., None, None])


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
