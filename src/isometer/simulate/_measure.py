"""What is read off a chain: metrics by name, evaluated for many layers at a time.

Most metrics depend on the inner products of the samples alone. They are read off the triangular factor of the batch, an
n × n matrix with the same inner products and all the digits of the representation, gathered over a block of layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from isometer import metrics as room
from isometer.errors import IsometerError
from isometer.simulate._chain import Chain
from isometer.simulate._gram import Product, triangle

Tensor = torch.Tensor
Metric = str | Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Factors:
    """Factors of the same shape from several layers: `value · exp(log_scale)` is what a metric is about."""

    value: Tensor  # (layers, slots, n, k)
    log_scale: Tensor  # (layers, slots)
    features: int

    def scaled(self) -> Tensor:
        """The factors at their own scale, within what the precision holds."""
        limit = 300.0 if self.value.dtype == torch.float64 else 40.0
        return self.value * self.log_scale.clamp(-limit, limit).exp().to(self.value.dtype)[..., None, None]


def _log_norm(f: Factors) -> Tensor:
    return torch.add(room.gradient_log_norm(f.value).to(torch.float64), f.log_scale)


def _rank(f: Factors) -> Tensor:
    tolerance = max(f.value.shape[-2], f.features) * torch.finfo(f.value.dtype).eps
    ranks: Tensor = room.rank(f.value, tolerance=tolerance)
    return ranks


def _singular_value(which: int) -> Callable[[Factors], Tensor]:
    def of(f: Factors) -> Tensor:
        values: Tensor = torch.linalg.svdvals(f.value)
        if which < 0 and f.value.shape[-2] > f.value.shape[-1]:
            return torch.zeros_like(values[..., 0])
        return values[..., which].to(torch.float64) * f.log_scale.exp()

    return of


def _top_share(f: Factors) -> Tensor:
    values = room.spectrum(f.value)
    total = values.sum(-1)
    return torch.where(total > 0, values[..., 0] / torch.where(total > 0, total, 1.0), 1.0)


OF_FACTORS: dict[str, Callable[[Factors], Tensor]] = {
    "orthogonality_gap": lambda f: room.orthogonality_gap(f.value),
    "lyapunov_gap": lambda f: room.lyapunov_gap(f.value),
    "spectral_variance": lambda f: room.spectral_variance(f.value),
    "isometry_gap": lambda f: room.isometry_gap(f.value),
    "isometry": lambda f: room.isometry(f.value),
    "stable_rank": lambda f: room.stable_rank(f.value),
    "soft_rank": lambda f: room.soft_rank(f.scaled()),
    "rank": _rank,
    "effective_rank": lambda f: room.effective_rank(f.value),
    "condition_number": lambda f: room.condition_number(f.value),
    "mean_cosine": lambda f: room.mean_cosine(f.value),
    "mean_abs_cosine": lambda f: room.mean_abs_cosine(f.value),
    "mean_angle_deg": lambda f: room.mean_angle_deg(f.value),
    "average_dot_product": lambda f: room.average_dot_product(f.value),
    "clusters": lambda f: room.clusters(f.value),
    "wasserstein_to_isotropic": lambda f: room.wasserstein_to_isotropic(f.value),
    "odd_norm_ratio": lambda f: room.odd_point_statistics(f.value).rest_norm_ratio,
    "odd_second_norm_ratio": lambda f: room.odd_point_statistics(f.value).second_norm_ratio,
    "odd_angle_deg": lambda f: room.odd_point_statistics(f.value).angle_to_rest_mean,
    "cluster_angle_deg": lambda f: room.odd_point_statistics(f.value).angle_within_rest_mean,
    "top_eigenvalue_share": _top_share,
    "smallest_singular_value": _singular_value(-1),
    "largest_singular_value": _singular_value(0),
    "log_norm": _log_norm,
}
OF_REPRESENTATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "activity_sparsity": lambda h: room.activity_sparsity(h).sparsity.mean(-1),
    "active_fraction": lambda h: room.activity_sparsity(h).active_fraction.mean(-1),
    "widely_active_share": lambda h: room.activity_sparsity(h).widely_active_share,
    "second_moment": lambda h: room.moments(h).second_moment,
    "kurtosis": lambda h: room.moments(h).kurtosis,
}
OF_GRADIENTS = ("gradient_log_norm", "gradient_alignment")
METRICS = (*OF_FACTORS, *OF_REPRESENTATIONS, *OF_GRADIENTS)
"""Every metric that `simulate` knows by name."""

_BLOCK_BYTES, _BLOCK_LAYERS = 1 << 23, 64


def metric_name(metric: Metric) -> str:
    """The name of a metric in the results: its own, or that of the function.

    Example:
        >>> metric_name("rank"), metric_name(torch.std)
        ('rank', 'std')
    """
    if not isinstance(metric, str):
        name = getattr(metric, "__name__", "")
        if not callable(metric) or not name.isidentifier():
            raise IsometerError(
                f"metric {metric!r} has no name; expected a name or a function — use a def, not a lambda"
            )
        if name in METRICS:
            raise IsometerError(f"a function is named {name!r}, as a built-in metric is — rename it, or pass {name!r}")
        return str(name)
    if metric not in METRICS:
        raise IsometerError(f"metric is {metric!r}; expected a function or one of {', '.join(METRICS)} — correct it")
    return metric


class Recorder:
    """Measures a chain layer by layer and keeps numbers only: `(slots, layers + 1)` per metric.

    Args:
        metrics: names or functions of a representation `(slots, n, d)`.
        slots: slots of the chain.
        layers: depth.
        at: `"post"` for what layers hand on, `"pre"` for what enters their activation.
    """

    def __init__(self, metrics: Sequence[Metric], slots: int, layers: int, at: str) -> None:
        self.metrics = {metric_name(metric): metric for metric in metrics}
        self.values = {name: np.full((slots, layers + 1), np.nan) for name in self.metrics}
        self.at = at
        self._of_factors = [name for name in self.metrics if name in OF_FACTORS]
        self._of_representations = [n for n in self.metrics if n not in OF_FACTORS and n not in OF_GRADIENTS]
        self._pending: list[tuple[int, Tensor, Tensor]] = []
        self._features = 0

    @property
    def needs_backward(self) -> bool:
        return any(name in OF_GRADIENTS for name in self.metrics)

    def record(self, chain: Chain, layer: int) -> None:
        """Measure the representation the chain is at."""
        pre = self.at == "pre" and layer > 0
        value = chain.pre if pre else chain.value
        log_scale = chain.pre_log_scale if pre else chain.log_scale
        if self._of_factors:
            factor = (triangle(value).mT if value.shape[-2] < value.shape[-1] else value) if pre else chain.factor()
            if self._pending and (self._pending[0][1].shape != factor.shape or self._features != value.shape[-1]):
                self.flush()
            self._features = value.shape[-1]
            self._pending.append((layer, factor, log_scale))
            block = len(self._pending)
            if block >= _BLOCK_LAYERS or block * factor.numel() * factor.element_size() >= _BLOCK_BYTES:
                self.flush()
        for name in self._of_representations:
            own = value
            if chain.spec.homogeneity == 1:
                own = value * log_scale.exp().to(value.dtype)[:, None, None]
                own = torch.nan_to_num(own)
            metric = self.metrics[name]
            function = OF_REPRESENTATIONS[name] if isinstance(metric, str) else metric
            self.values[name][:, layer] = function(own).to(torch.float64).cpu().numpy()

    def flush(self) -> None:
        """Evaluate what has been gathered."""
        if not self._pending:
            return
        layers = [layer for layer, _, _ in self._pending]
        stacked = torch.stack([factor for _, factor, _ in self._pending])
        factors = Factors(stacked, torch.stack([scale for _, _, scale in self._pending]), self._features)
        for name in self._of_factors:
            values = OF_FACTORS[name](factors).to(torch.float64).cpu().numpy()  # (layers, slots)
            self.values[name][:, layers] = values.T
        self._pending = []

    def visit(self, layer: int, product: Product | None, cotangent: Tensor, log_scale: Tensor) -> None:
        """Measure the gradient at a weights step, or at the input for layer 0; see `Chain.backward`."""
        if "gradient_log_norm" in self.values:
            norm = log_norm(cotangent if product is None else gradient_factor(product, cotangent))
            self.values["gradient_log_norm"][:, layer] = (norm + log_scale).cpu().numpy()
        if "gradient_alignment" in self.values:
            gram = cotangent @ cotangent.mT
            if product is not None:
                gram = gram * (product.factor @ product.factor.mT)
            aligned = room.gradient_alignment(gram=gram).mean_abs_cosine.to(torch.float64)
            self.values["gradient_alignment"][:, layer] = (
                torch.where(log_scale.isnan(), math.nan, aligned).cpu().numpy()
            )


def gradient_factor(product: Product, cotangent: Tensor) -> Tensor:
    """A matrix with the Frobenius norm of the weight gradient `δZᵀ A`: `R δZ`, where `A = Rᵀ Qᵀ`.

    Cheaper than the gradient, and more precise than products of Gram matrices where the gradient nearly vanishes.
    """
    factor = product.factor
    samples, fan_in = factor.shape[-2:]
    if product.weights is not None and samples < fan_in:
        factor = triangle(factor).mT
    return factor.mT @ cotangent


def log_norm(matrices: Tensor) -> Tensor:
    """`log ‖·‖_F` per matrix, in float64, without over- or underflow; −inf for zeros."""
    largest = matrices.abs().amax((-2, -1), keepdim=True)
    safe = torch.where(largest > 0, largest, 1.0)
    scaled = matrices / safe
    total = (scaled * scaled).sum((-2, -1)).to(torch.float64)
    return safe[..., 0, 0].to(torch.float64).log() + 0.5 * total.log()
