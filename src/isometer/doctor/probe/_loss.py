"""What is read where the model ends: the loss, and the gradient that enters from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from isometer.serialize import json_data


@dataclass(frozen=True)
class LossReading:
    """The end of a model on one batch.

    Example:
        >>> from torch import nn
        >>> from isometer.doctor import probe
        >>> found = probe(nn.Identity(), torch.eye(2), target=torch.zeros(2, 2), loss=nn.functional.mse_loss)
        >>> found.loss  # the gradient by the output is x / 2 for each sample
        LossReading(value=0.5, finite=True, gradient_norms=(0.5, 0.5))

    Attributes:
        value: the loss, nan where none was given and the gradient that enters is a Gaussian one.
        finite: whether the loss is a finite number; `True` where none was given.
        gradient_norms: norm of the loss's gradient by the output, one per sample, over all outputs together; empty
            where no gradient comes to them, or samples cannot be told.
    """

    value: float = math.nan
    finite: bool = True
    gradient_norms: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: nan is `None`, infinities are `"inf"` and `"-inf"`."""
        norms = list(self.gradient_norms)
        return {"value": json_data(self.value), "finite": self.finite, "gradient_norms": json_data(norms)}


def norms_by_sample(gradient: torch.Tensor) -> torch.Tensor:
    """Norms of a gradient `(samples, …)`, one per sample, in float64.

    Example:
        >>> norms_by_sample(torch.tensor([[3e-30, 4e-30], [0.0, 1.0]])).tolist()[1]
        1.0
    """
    flat = gradient.detach().reshape(gradient.shape[0], -1)
    norms: torch.Tensor = torch.linalg.vector_norm(flat, dim=1, dtype=torch.float64)
    return norms
