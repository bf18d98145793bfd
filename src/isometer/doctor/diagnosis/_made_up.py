"""A batch for a model that comes without one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._examine import call
from isometer.doctor.probe._subject import examined
from isometer.errors import IsometerError

_IMAGE_SIZES = (32, 28, 64, 224)
_TOKENS = 16


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
                call(copy, inputs)
        except Exception as problem:  # a model may raise anything
            return problem
        return None

    with examined(model) as subject:
        return subject.run(attempt, seed=0)


def made_up_batch(
    model: nn.Module, n: int = 32, *, shape: tuple[int, ...] | None = None, seed: int = 0
) -> torch.Tensor:
    """Gaussian inputs, or random tokens for a model that begins with an embedding.

    Args:
        model: takes the batch.
        n: number of samples.
        shape: of one sample; told from the model's first layer unless given.
        seed: of the draw.

    Raises:
        IsometerError: the shape cannot be told.

    Example:
        >>> made_up_batch(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 26 * 26, 2)), 5).shape
        torch.Size([5, 3, 28, 28])
    """
    generator = torch.Generator().manual_seed(seed)
    first = first_layer(model)
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    if isinstance(first, nn.Embedding) and (shape is None or len(shape) == 1):
        return torch.randint(first.num_embeddings, (n, *(shape or (_TOKENS,))), generator=generator)
    if shape is None:
        if isinstance(first, nn.Linear):
            shape = (first.in_features,)
        elif isinstance(first, nn.RNNBase):
            shape = (_TOKENS, first.input_size)
        elif isinstance(first, nn.modules.conv._ConvNd):
            axes = first.weight.dim() - 2
            shapes = [(first.in_channels, *[size] * axes) for size in _IMAGE_SIZES]
            # Two samples: batch norm in training mode refuses a single value per channel.
            fits = (one for one in shapes if refusal(model, torch.zeros((2, *one), dtype=dtype)) is None)
            shape = next(fits, shapes[0])
        elif isinstance(first, nn.modules.batchnorm._BatchNorm):
            shape = (first.num_features,)
        else:
            raise IsometerError(
                "the shape of the model's input cannot be told from its layers — pass --shape, for example --shape "
                "3,32,32, or --batch FILE, or let the factory return (model, batch)"
            )
    return torch.randn((n, *shape), generator=generator).to(dtype)


def with_offsets(batch: torch.Tensor, *, seed: int = 0) -> torch.Tensor:
    """Made-up images with a random offset per sample and channel, variance 1 as before; anything else as it is.

    A linear function of white noise is out of reach of networks that pool; the offset of a channel is not.

    Example:
        >>> images = with_offsets(torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
        >>> 0.5 < images.mean((2, 3)).std().item() < 0.9
        True
    """
    if not batch.is_floating_point() or batch.dim() < 4:
        return batch
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.randn((*batch.shape[:2], *[1] * (batch.dim() - 2)), generator=generator, dtype=torch.float32)
    return (batch + offsets.to(batch)) / 2**0.5
