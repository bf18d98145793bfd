"""What is read off a chain: metrics by name, evaluated for many layers at a time.

Most metrics depend on the inner products of the samples alone. They are read off the triangular factor of the batch, an
n × n matrix with the same inner products and all the digits of the representation, gathered over a block of layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.metrics import METRICS, SEQUENCE_METRICS, Metric, metric, names, rank
from isometer.metrics._metric import SIMULATED
from isometer.metrics._sequences import sequence_numbers
from isometer.simulate._chain import LayerChain
from isometer.simulate._gradients import WeightGradient, log_norm
from isometer.simulate._gram import Product, triangle
from isometer.simulate._network import NetworkWalk

Tensor = torch.Tensor
Measured = str | Callable[[Tensor], Tensor]
"""A metric by its name in the catalogue, or a function of a representation `(slots, n, d)`."""


@dataclass(frozen=True)
class Factors:
    """Factors of the same shape from several layers: `value · exp(log_scale)` is what a metric is about."""

    value: Tensor  # (…, n, k)
    log_scale: Tensor  # (…)
    features: int

    def scaled(self) -> Tensor:
        """The factors at their own scale, within what the precision holds."""
        # e^±2·limit, the scale of inner products, is still a normal number
        limit = 300.0 if self.value.dtype == torch.float64 else 40.0
        return self.value * self.log_scale.clamp(-limit, limit).exp().to(self.value.dtype)[..., None, None]


def _rank(f: Factors) -> Tensor:
    tolerance = max(f.value.shape[-2], f.features) * torch.finfo(f.value.dtype).eps
    ranks: Tensor = rank(f.value, tolerance=tolerance)
    return ranks


_OF_FACTORS: dict[str, Callable[[Factors], Tensor]] = {"rank": _rank}  # its tolerance is that of the whole width


def of_factors(metric: Metric, f: Factors) -> Tensor:
    """A metric of inner products, evaluated at factors."""
    if metric.name in _OF_FACTORS:
        return _OF_FACTORS[metric.name](f)
    value = f.scaled() if metric.scaling == "absolute" else f.value
    if metric.reads == "gram" and metric.scaling != "invariant":
        value = value * math.sqrt(value.shape[-1] / f.features)  # the Gram matrix is divided by the width
    found: Tensor = metric.of(value)
    if metric.scaling in ("invariant", "absolute"):
        return found
    scaled: Tensor = metric.at_scale(found.to(torch.float64), f.log_scale)
    return scaled


_BLOCK_BYTES, _BLOCK_LAYERS = 1 << 23, 64
_PAIRS = 1 << 20  # of samples, at most, whose cosines are held at a time; of one matrix at least


def together(samples: int, columns: int) -> int:
    """Matrices that are measured at a time: metrics of angles hold one number per pair of samples."""
    return max(1, _PAIRS // (samples * max(samples, columns)))


def _pieces(value: Tensor, log_scale: Tensor, features: int) -> Iterator[tuple[NDArray[np.intp], Factors]]:
    """A few matrices `(matrices, n, k)` at a time, with their places."""
    step = together(*value.shape[-2:])
    for start in range(0, len(value), step):
        end = min(start + step, len(value))
        yield np.arange(start, end), Factors(value[start:end], log_scale[start:end], features)


def metric_name(measured: Measured) -> str:
    """The name of a metric in the results: its own, or that of the function.

    Example:
        >>> metric_name("rank"), metric_name(torch.std)
        ('rank', 'std')
    """
    known = [*names(*SIMULATED), *SEQUENCE_METRICS]
    if isinstance(measured, str):
        return metric(measured, known).name
    name = getattr(measured, "__name__", "")
    if not callable(measured) or not name.isidentifier():
        raise IsometerError(f"metric {measured!r} has no name; expected a name or a function — use a def, not a lambda")
    if name in known:
        raise IsometerError(f"a function is named {name!r}, as a metric is — rename it, or pass {name!r}")
    return str(name)


def of_representation(measured: Measured) -> Callable[[Tensor], Tensor]:
    """The function of a representation that a name or a function stands for."""
    return METRICS[measured].of if isinstance(measured, str) else measured


class Recorder:
    """Measures a chain layer by layer and keeps numbers only: `(slots, layers + 1)` per metric.

    Args:
        metrics: names or functions of a representation `(slots, n, d)`.
        slots: slots of the chain.
        layers: depth.
        at: `"post"` for what layers hand on, `"pre"` for what enters their activation.
    """

    def __init__(self, metrics: Sequence[Measured], slots: int, layers: int, at: str) -> None:
        self.metrics = {metric_name(metric): metric for metric in metrics}
        self.values = {name: np.full((slots, layers + 1), np.nan) for name in self.metrics}
        self.at = at
        own = [METRICS[name] for name, measured in self.metrics.items() if isinstance(measured, str)]
        self._of_factors = [one for one in own if one.reads in ("gram", "products")]
        self._of_gradients = [one for one in own if one.reads == "gradient"]
        self._of_sequences = [one.name for one in own if one.name in SEQUENCE_METRICS]
        others = {*(one.name for one in (*self._of_factors, *self._of_gradients)), *self._of_sequences}
        self._of_representations = [name for name in self.metrics if name not in others]
        self._pending: list[tuple[int, Tensor, Tensor]] = []
        self._features = 0

    @property
    def reads_attention(self) -> bool:
        """Whether entropies of attention are requested."""
        return any(name.startswith("attention") for name in self._of_sequences)

    @property
    def needs_backward(self) -> bool:
        return bool(self._of_gradients)

    def record(self, chain: LayerChain | NetworkWalk, layer: int) -> None:
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
        if self._of_sequences:
            self._record_sequences(chain, layer)
        for name in self._of_representations:
            own = value
            if chain.carries_scale:
                own = value * log_scale.exp().to(value.dtype)[:, None, None]
                own = torch.nan_to_num(own)  # where the scale overflows: 0·inf becomes 0, inf the largest float
                if name in METRICS and METRICS[name].scaling == "invariant":
                    beyond = log_scale.abs() > 300.0  # the scale does not matter, so it must not spoil the number
                    own = torch.where(beyond[:, None, None], value, own)
            self.values[name][:, layer] = of_representation(self.metrics[name])(own).to(torch.float64).cpu().numpy()

    def _record_sequences(self, chain: LayerChain | NetworkWalk, layer: int) -> None:
        assert isinstance(chain, NetworkWalk)  # chains have no positions, and are refused before
        rows = chain.rows
        found = sequence_numbers(rows @ rows.mT / rows.shape[-1], chain.samples)
        found["rms"] = found["rms"] * chain.log_scale.exp()
        if chain.attention:  # the mean over the attention steps of a layer
            found["attention_entropy"] = torch.stack([one.entropy for one in chain.attention]).mean(0)
            found["attention_participation"] = torch.stack([one.participation for one in chain.attention]).mean(0)
        for name in self._of_sequences:
            if name in found:
                self.values[name][:, layer] = found[name].to(torch.float64).cpu().numpy()

    def flush(self) -> None:
        """Evaluate what has been gathered."""
        if not self._pending:
            return
        layers = [layer for layer, _, _ in self._pending]
        stacked = torch.stack([factor for _, factor, _ in self._pending])
        scales = torch.stack([scale for _, _, scale in self._pending])
        self._pending = []
        for piece in _pieces(stacked.flatten(0, 1), scales.flatten(), self._features):
            for one in self._of_factors:
                found = of_factors(one, piece[1]).to(torch.float64).cpu().numpy()
                layer, slot = np.divmod(piece[0], scales.shape[1])
                self.values[one.name][slot, np.asarray(layers)[layer]] = found

    def visit(self, layer: int, product: Product | None, cotangent: Tensor, log_scale: Tensor) -> None:
        """Measure the gradient at a weights step, or at the input for layer 0; see `LayerChain.backward`."""
        samples = cotangent.shape[-2]
        gradients = None if product is None else [WeightGradient(lambda: product.factor, cotangent, samples)]
        self.visit_layer(layer, gradients, cotangent, log_scale)

    def visit_layer(
        self, layer: int, gradients: Sequence[WeightGradient] | None, cotangent: Tensor, log_scale: Tensor
    ) -> None:
        """Measure the gradient of all weights of a layer, or of the input; see `NetworkWalk.backward`."""
        for one in self._of_gradients:
            if one.name == "gradient_log_norm":
                norm = log_norm(cotangent) if gradients is None else _total_log_norm(gradients, log_scale)
                self.values[one.name][:, layer] = (norm + log_scale).cpu().numpy()
                continue
            gram = cotangent @ cotangent.mT if gradients is None else _total_gram(gradients)
            if gram is None:  # no weights, no gradient
                continue
            found = one.of_gram(gram).to(torch.float64)
            # a nan scale marks a cotangent that was not finite and goes on as zeros
            self.values[one.name][:, layer] = torch.where(log_scale.isnan(), math.nan, found).cpu().numpy()


def _total_log_norm(gradients: Sequence[WeightGradient], log_scale: Tensor) -> Tensor:
    """The log-norm of several weight gradients together; −inf where there are no weights."""
    if not gradients:
        return torch.full_like(log_scale, -math.inf)
    if len(gradients) == 1:
        return gradients[0].log_norm()
    return 0.5 * torch.stack([2 * one.log_norm() for one in gradients]).logsumexp(0)


def _total_gram(gradients: Sequence[WeightGradient]) -> Tensor | None:
    found = None
    for one in gradients:
        found = one.gram() if found is None else found + one.gram()
    return found
