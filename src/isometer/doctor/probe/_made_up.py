"""A batch for a model that comes without one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from isometer.checks import WIDEST, seed_number, whole_number
from isometer.doctor.probe._calling import call
from isometer.doctor.probe._subject import examined
from isometer.doctor.probe._tensor_trees import owned, tensors
from isometer.errors import IsometerError
from isometer.work import Work, check_work

_COPIES = 4  # of a batch: what a first layer makes of it, gradients
_IMAGE_SIZES = (32, 28, 64, 224)
_TOKENS = 16
_POSITIONS = ("max_position_embeddings", "n_positions")  # names that configurations of `transformers` have for it


def first_layer(model: nn.Module) -> nn.Module | None:
    """The first layer whose inputs have a shape that can be told, in the order of modules."""
    kinds = (nn.Linear, nn.Embedding, nn.RNNBase, nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm)
    return next((module for module in model.modules() if isinstance(module, kinds)), None)


def refusal(model: nn.Module, inputs: Any) -> Exception | None:
    """What the model raises on a batch, outside of any examination; None if it takes it.

    Example:
        >>> refusal(nn.Linear(2, 1), torch.ones(1, 2)), type(refusal(nn.Linear(2, 1), torch.ones(1, 3))).__name__
        (None, 'RuntimeError')
    """

    def attempt(copy: nn.Module) -> Exception | None:
        try:
            with torch.no_grad():
                call(copy, owned(inputs))
        except Exception as problem:  # a model may raise anything
            return problem
        return None

    with examined(model) as subject:
        return subject.run(attempt, seed=0)


def made_up_batch(model: nn.Module, n: int = 32, *, shape: tuple[int, ...] | None = None, seed: int = 0) -> Any:
    """Gaussian inputs, or random tokens for a model that begins with an embedding.

    Args:
        model: takes the batch.
        n: number of samples.
        shape: of one sample; from the model's first layer, or from the configuration of a `transformers` model, unless
            given.
        seed: of the draw.

    Returns:
        A tensor; for an encoder with a decoder of `transformers`, a mapping of both inputs.

    Raises:
        IsometerError: the model does not tell the shape, or the batch is too large.

    Example:
        >>> made_up_batch(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 26 * 26, 2)), 5).shape
        torch.Size([5, 3, 28, 28])
    """
    generator = torch.Generator().manual_seed(seed_number(seed))
    first = first_layer(model)
    config = getattr(model, "config", None)
    parameter = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    if isinstance(first, nn.Embedding) and (shape is None or len(shape) == 1):
        size = (n, *(shape or (_tokens(config),)))
        check_size(n, size[1:])
        words = min(first.num_embeddings, _number(config, "vocab_size") or first.num_embeddings)
        drawn = [torch.randint(words, size, generator=generator).to(parameter.device) for _ in range(2)]
        if getattr(config, "is_encoder_decoder", False):
            return {"input_ids": drawn[0], "decoder_input_ids": drawn[1]}
        return drawn[0]
    shape = shape or _told_shape(model, first, config, parameter)
    check_size(n, shape)
    return torch.randn((n, *shape), generator=generator).to(parameter)


def check_size(n: int, shape: Sequence[int]) -> None:
    """Refuse a batch that would not fit into memory, with what a model makes of it.

    Args:
        n: number of samples.
        shape: of one sample.

    Raises:
        IsometerError: a number is not a size, or the batch takes more than is allowed.

    Example:
        >>> check_size(10**6, (3, 224, 224))
        Traceback (most recent call last):
        ...
        isometer.work.TooMuchWorkError: the batch needs about 2e+03 GiB of memory; ... — use at most 890 samples, or ...
    """
    whole_number(n, "the number of samples", high=WIDEST, fix="pass a smaller batch")
    for side in shape:
        whole_number(side, "a side of the shape of one sample", high=WIDEST, fix="pass (3, 32, 32), for example")
    sample = _COPIES * 4.0 * math.prod(shape)
    check_work("the batch", Work(sample * n, 0.0), {"samples": (n, lambda fewer: Work(sample * fewer, 0.0))})


def _told_shape(model: nn.Module, first: nn.Module | None, config: Any, like: torch.Tensor) -> tuple[int, ...]:
    """The shape of one sample, by the model's first layer."""
    if isinstance(first, nn.Linear):
        return (first.in_features,)
    if isinstance(first, nn.RNNBase):
        return (_TOKENS, first.input_size)
    if isinstance(first, nn.modules.batchnorm._BatchNorm):
        return (first.num_features,)
    if isinstance(first, nn.modules.conv._ConvNd):
        own = _number(config, "image_size")
        sizes = _IMAGE_SIZES if own is None else (own, *_IMAGE_SIZES)
        shapes = [(first.in_channels, *[size] * (first.weight.dim() - 2)) for size in sizes]
        # Two samples: batch norm in training mode refuses a single value per channel.
        fits = (one for one in shapes if refusal(model, like.new_zeros((2, *one))) is None)
        return next(fits, shapes[0])
    raise IsometerError(
        "the layers of the model do not determine the shape of its input; expected one that begins with a linear "
        "layer, a "
        "convolution, a recurrent cell or an embedding — pass the shape of one sample as the batch, (3, 32, 32) say, "
        "or a batch (on the command line: --shape 3,32,32 or --input FILE, or a factory that returns (model, batch))"
    )


def _number(config: Any, name: str) -> int | None:
    """A positive whole number of a configuration."""
    value = getattr(config, name, None)
    return value if isinstance(value, int) and value > 0 else None


def _tokens(config: Any) -> int:
    """As many tokens as are usual, or fewer where the model has fewer positions."""
    return min([_TOKENS, *filter(None, (_number(config, name) for name in _POSITIONS))])


def made_up_words(batch: Any) -> str:
    """What a made-up batch is, for the report.

    Example:
        >>> made_up_words(torch.randn(32, 3, 28, 28))
        'made for this model: 32 Gaussian inputs of shape (3, 28, 28)'
        >>> made_up_words(torch.zeros(8, 16, dtype=torch.int64))
        'made for this model: 8 rows of 16 random tokens'
    """
    tensor = next(tensors(batch))
    if tensor.is_floating_point():
        return f"made for this model: {len(tensor)} Gaussian inputs of shape {tuple(tensor.shape[1:])}"
    return f"made for this model: {len(tensor)} rows of {tensor.shape[-1]} random tokens"


def with_offsets(batch: Any, *, seed: int = 0) -> Any:
    """Made-up images with a random offset per sample and channel, variance 1 as before; anything else as it is.

    A linear function of white noise is out of reach of networks that pool; the offset of a channel is not.

    Example:
        >>> images = with_offsets(torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
        >>> 0.5 < images.mean((2, 3)).std().item() < 0.9
        True
    """
    if not isinstance(batch, torch.Tensor) or not batch.is_floating_point() or batch.dim() < 4:
        return batch
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.randn((*batch.shape[:2], *[1] * (batch.dim() - 2)), generator=generator, dtype=torch.float32)
    return (batch + offsets.to(batch)) / 2**0.5
