"""What the patients are fed: images in the form each of them takes, or Gaussian noise of that form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from isometer.errors import IsometerError

Tensor = torch.Tensor
Shape = tuple[int, ...]
CLASSES = 10
LEVELS = 16
_IMAGE = (1, 28, 28)


class Images(NamedTuple):
    """Labelled images, standardised: mean 0 and variance 1 over all pixels."""

    images: Tensor
    labels: Tensor

    @classmethod
    def of(cls, images: NDArray[Any], labels: NDArray[Any]) -> Images:
        """Standardise arrays of images and labels.

        Args:
            images: `(n, 1, 28, 28)`.
            labels: `(n,)`, classes 0 to 9.

        Returns:
            Tensors, float32 and int64.

        Raises:
            IsometerError: the shapes differ from these.

        Example:
            >>> data = Images.of(np.random.default_rng(0).random((6, 1, 28, 28)), np.arange(6))
            >>> data.images.shape, round(float(data.images.std()), 3)
            (torch.Size([6, 1, 28, 28]), 1.0)
        """
        if images.ndim != 4 or images.shape[1:] != _IMAGE or labels.shape != images.shape[:1]:
            raise IsometerError(
                f"images have shape {images.shape} and labels {labels.shape}; expected (n, 1, 28, 28) and (n,) — "
                "reshape them"
            )
        pixels = torch.as_tensor(np.ascontiguousarray(images, dtype=np.float32))
        spread = float(pixels.std(correction=0))
        return cls((pixels - pixels.mean()) / (spread or 1.0), torch.as_tensor(labels.astype(np.int64)))


class Form(NamedTuple):
    """Shape of one sample, and the function that makes samples of it from standardised images."""

    shape: Shape
    of_images: Callable[[Tensor], Tensor]


def _levels(images: Tensor) -> Tensor:
    """Means of 4×4 patches as grey levels, which are equally likely where the means are standard Gaussian."""
    pooled = functional.avg_pool2d(images, 4).flatten(1)
    levels: Tensor = (torch.special.ndtr(pooled) * LEVELS).long().clamp(0, LEVELS - 1)
    return levels


INPUTS = {
    "flat": Form((784,), lambda images: images.flatten(1)),
    "image": Form(_IMAGE, lambda images: images),
    "bands": Form((7, 112), lambda images: images.reshape(-1, 7, 112)),
    "tokens": Form((49,), _levels),
}


def gaussian(form: str, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Standard Gaussian inputs (uniform grey levels for tokens) with random labels."""
    generator = torch.Generator().manual_seed(seed)
    shape = (n, *INPUTS[form].shape)
    if form == "tokens":
        inputs = torch.randint(LEVELS, shape, generator=generator)
    else:
        inputs = torch.randn(shape, generator=generator)
    return inputs, torch.randint(CLASSES, (n,), generator=generator)


def pick(form: str, data: Images, index: Tensor) -> tuple[Tensor, Tensor]:
    """The samples of an index, in the form asked for, with their labels."""
    return INPUTS[form].of_images(data.images[index]), data.labels[index]


def repeated(distinct: int) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A defect: only the first few samples of a batch, again and again.

    Args:
        distinct: how many different samples are left.

    Returns:
        A function of inputs and targets.

    Example:
        >>> repeated(2)(torch.arange(5), torch.arange(5))[0].tolist()
        [0, 1, 0, 1, 0]
    """

    def defect(inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        index = torch.arange(len(targets)) % distinct
        return inputs[index], targets[index]

    return defect
