"""Images in memory: some of a data set to train on, some to test on, prepared once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from isometer.data import load

Tensor = torch.Tensor


@dataclass(frozen=True)
class Sets:
    """What a run trains and tests on.

    Example:
        >>> sets = Sets(torch.zeros(4, 1, 2, 2), torch.zeros(4).long(), torch.zeros(2, 1, 2, 2), torch.zeros(2).long())
        >>> sets.shape, sets.features
        ((1, 2, 2), 4)
    """

    inputs: Tensor
    labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    classes: int = 10

    def to(self, device: str) -> Sets:
        """The same on another device."""
        parts = (self.inputs, self.labels, self.test_inputs, self.test_labels)
        inputs, labels, test_inputs, test_labels = (part.to(device) for part in parts)
        return Sets(inputs, labels, test_inputs, test_labels, self.classes)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of an image."""
        channels, height, width = self.inputs.shape[1:]
        return channels, height, width

    @property
    def features(self) -> int:
        """Numbers of an image."""
        return int(self.inputs[0].numel())


@lru_cache(maxsize=4)
def image_sets(data: str, train: int | None = None, test: int | None = None, *, shrink: int = 1, **how: Any) -> Sets:
    """The first images of a fixed shuffle of a data set, prepared by the training split's statistics.

    Args:
        data: name of a data set of `isometer.data`.
        train: training images; all by default.
        test: test images; all by default.
        shrink: average over squares of so many pixels a side.
        how: `centre` and `scale` of `DataSet.prepare`.

    Returns:
        The images; the same for every seed of a study, which differ in weights and order.

    Example:
        >>> sets = image_sets("digits", 100, 50)
        >>> sets.inputs.shape, sets.test_labels.shape
        (torch.Size([100, 1, 8, 8]), torch.Size([50]))
    """
    pages = [load(data, split=split) for split in ("train", "test")]
    found: list[Tensor] = []
    for i, (page, count) in enumerate(zip(pages, (train, test), strict=True)):
        chosen = np.random.default_rng(i).permutation(len(page))[: count or len(page)]
        images = torch.from_numpy(pages[0].prepare(page.images[chosen], **how))
        found += [torch.nn.functional.avg_pool2d(images, shrink) if shrink > 1 else images]
        found += [torch.from_numpy(page.labels[chosen]).long()]
    return Sets(found[0], found[1], found[2], found[3], len(pages[0].classes))
