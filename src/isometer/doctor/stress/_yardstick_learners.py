"""The learners of a yardstick: small networks for features, images, series, sets and tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from isometer.doctor.stress._yardstick_answers import Form
from isometer.doctor.stress._yardstick_views import SIDE, Views, sized

Tensor = torch.Tensor
Body = Callable[[Tensor], Tensor]
_FEW = 16  # features that may be coordinates
_PLACES = 64  # tokens whose place counts
_MANY = 4096  # positions from which on layers are narrower


class LearnerWeights:
    """Parameters from a generator of their own.

    Example:
        >>> weights = LearnerWeights(0)
        >>> weights.layer(3, 5)[0].shape, len(weights.parameters)
        (torch.Size([5, 3]), 2)
    """

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self.parameters: list[Tensor] = []

    def fixed(self, *shape: int) -> Tensor:
        """Numbers that stay as they are."""
        return torch.randn(shape, generator=self._generator)

    def drawn(self, *shape: int, deviation: float) -> Tensor:
        """Gaussian parameters."""
        self.parameters.append((deviation * self.fixed(*shape)).requires_grad_())
        return self.parameters[-1]

    def layer(self, inputs: int, outputs: int, *kernel: int) -> tuple[Tensor, Tensor]:
        """Weight and bias."""
        deviation = math.sqrt(2 / (inputs * math.prod(kernel)))
        return self.drawn(outputs, inputs, *kernel, deviation=deviation), self.drawn(outputs, deviation=0.0)


def _bent(x: Tensor) -> Tensor:
    return functional.leaky_relu(x, 0.1)  # at high rates units of a ReLU die


def _dense(x: Tensor, *layers: tuple[Tensor, Tensor]) -> Tensor:
    for layer in layers:
        x = _bent(functional.linear(x, *layer))
    return x


def _neighbours(x: Tensor, before: int, after: int) -> Tensor:
    """Samples, positions, features: those of positions before and after are put beside each.

    Example:
        >>> _neighbours(torch.tensor([[[1.0], [2.0], [3.0]]]), 1, 0).tolist()
        [[[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]]
    """
    padded, length = functional.pad(x, (0, 0, before, after)), x.shape[1]
    return torch.cat([padded[:, place : place + length] for place in range(before + after + 1)], 2)


def _pooled(x: Tensor) -> Tensor:
    return torch.cat([x.mean(1), x.amax(1)], 1)


def _linear(weights: LearnerWeights, x: Tensor) -> Body:
    return lambda x: x


def _mlp(weights: LearnerWeights, x: Tensor) -> Body:
    layers = weights.layer(x.shape[1], 128), weights.layer(128, 128)
    return lambda x: _dense(x, *layers)


def _waves(weights: LearnerWeights, x: Tensor) -> Body:
    """Random waves of several lengths, for functions of few coordinates."""
    direction = weights.fixed(x.shape[1], 128) * torch.linspace(0.4, 3.6, 128) / math.sqrt(x.shape[1])
    phase, layer = 10 * weights.fixed(128), weights.layer(128, 128)
    return lambda x: _dense(math.sqrt(2) * torch.cos(x @ direction + phase), layer)


def _image(weights: LearnerWeights, x: Tensor) -> Body:
    first, second = weights.layer(x.shape[1], 16, 3, 3), weights.layer(16, 32, 3, 3)

    def body(x: Tensor) -> Tensor:
        for layer in (first, second):
            x = functional.max_pool2d(_bent(functional.conv2d(x, *layer, padding=1)), 2, ceil_mode=True)
        return x.flatten(1)

    return body


def _pixels(weights: LearnerWeights, x: Tensor) -> Body:
    first, second = weights.layer(x.shape[1], 16, 3, 3), weights.layer(16, 16, 3, 3)

    def body(x: Tensor) -> Tensor:
        for layer in (first, second):
            x = _bent(functional.conv2d(x, *layer, padding=1))
        return x.permute(0, 2, 3, 1)

    return body


def _set(weights: LearnerWeights, x: Tensor) -> Body:
    layers = weights.layer(x.shape[2], 64), weights.layer(64, 64)
    return lambda x: _pooled(_dense(x, *layers))


def _series(weights: LearnerWeights, x: Tensor) -> Body:
    first, second = weights.layer(5 * x.shape[2], 64), weights.layer(5 * 64, 64)
    return lambda x: _pooled(_dense(_neighbours(_dense(_neighbours(x, 2, 2), first), 2, 2), second))


def _context(weights: LearnerWeights, x: Tensor, embedding: Body, *, causal: bool) -> Body:
    """Each position with its neighbours and the mean of all, or with what comes before it alone."""
    before, after = (3, 0) if causal else (2, 2)
    size, width = embedding(x[:1]).shape[2], 64 if x.shape[:2].numel() <= _MANY else 32
    layers = weights.layer((before + after + 2) * size, width), weights.layer(width, width)

    def body(x: Tensor) -> Tensor:
        x = embedding(x)
        mean = x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None] if causal else x.mean(1, keepdim=True)
        return _dense(torch.cat([_neighbours(x, before, after), mean.expand(x.shape)], 2), *layers)

    return body


def _bag(weights: LearnerWeights, x: Tensor, embedding: Body) -> Body:
    layer = weights.layer(3 * embedding(x[:1]).shape[2], 64)
    return lambda x: _pooled(_dense(_neighbours(embedding(x), 1, 1), layer))


def _places(weights: LearnerWeights, x: Tensor, embedding: Body) -> Body:
    """Tokens at their places: columns of a table, or words in an order."""
    shape = (min(x.shape[1], _PLACES), embedding(x[:1]).shape[2])
    layer = weights.layer(math.prod(shape), 128)
    return lambda x: _dense(sized(embedding(x), shape).flatten(1), layer)


@dataclass(frozen=True, eq=False)
class Learner:
    """A kind of network: its name, the view it reads, and what makes its body from weights and a first batch."""

    name: str
    view: str
    build: Callable[[LearnerWeights, Tensor], Body]


def learners(views: Views, form: Form, vocabulary: int, *, causal: bool) -> Iterator[Learner]:
    """Those for these inputs and answers; only causal ones, if the answer is found later in the inputs."""

    def embedded(size: int, then: Callable[..., Body], **how: Any) -> Callable[[LearnerWeights, Tensor], Body]:
        def build(weights: LearnerWeights, x: Tensor) -> Body:
            table = weights.drawn(vocabulary, size, deviation=1.0)
            return then(weights, x, lambda x: functional.embedding(x, table), **how)

        return build

    if form == "grid" and not causal:
        yield Learner("pixels", "full" if max(views["full"].shape[2:]) <= 2 * SIDE else "grid", _pixels)
    elif form in ("position", "channels first", "rows"):
        if "tokens" in views:
            yield Learner("context of tokens", "tokens", embedded(32, _context, causal=causal))
        else:
            yield Learner("context", "line", lambda weights, x: _context(weights, x, lambda x: x, causal=causal))
    elif form == "sample" and not causal:
        if "flat" in views:
            yield from (Learner("linear", "flat", _linear), Learner("mlp", "flat", _mlp))
            if views["flat"].shape[1] <= _FEW:
                yield Learner("waves", "flat", _waves)
        if "grid" in views:
            yield Learner("convolution", "grid", _image)
        if "line" in views:
            yield from (Learner("set", "points", _set), Learner("series", "patches", _series))
        if "lane" in views:
            yield from (Learner("set", "lane", _set), Learner("series", "lane", _series))
        if "tokens" in views:
            yield Learner("bag of tokens", "tokens", embedded(32, _bag))
            yield Learner("tokens in order", "tokens", embedded(16, _places))
