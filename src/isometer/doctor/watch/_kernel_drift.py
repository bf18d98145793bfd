"""How far the tangent kernel on a held batch has moved since training began."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from isometer.empirical import empirical_kernel, kernel_distance

Floats = NDArray[np.float64]


class TangentKernelDrift:
    """The first kernel on a batch, and the distance of later ones from it.

    Args:
        batch: held throughout.

    Example:
        >>> import torch
        >>> model = nn.Linear(2, 1)
        >>> drift = TangentKernelDrift(torch.eye(2))
        >>> drift.look(model)[0]["kernel_drift"], drift.look(model)[0]["kernel_growth"]
        (0.0, 1.0)
    """

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.reference: dict[str, Floats] = {}

    def look(self, model: nn.Module) -> tuple[dict[str, float], dict[str, float]]:
        """Of the whole kernel, and the relative change of the part of each layer."""
        found = empirical_kernel(model, self.batch, by="layer", mode=None)
        now = {"": found.matrix, **found.parts}
        if not self.reference:
            self.reference = now
        first = self.reference[""]
        size = float(np.linalg.norm(first))
        total = {
            "kernel_drift": _relative(first, found.matrix),
            "kernel_turned": kernel_distance(first, found.matrix),
            "kernel_growth": float(np.linalg.norm(found.matrix)) / size if size else math.nan,
        }
        by_layer = {
            name: _relative(self.reference[name], part) for name, part in now.items() if name and name in self.reference
        }
        return total, by_layer

    def state(self) -> dict[str, Any]:
        return {name: matrix.tolist() for name, matrix in self.reference.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.reference = {name: np.array(matrix, dtype=np.float64) for name, matrix in state.items()}


def at_layers(by_layer: Mapping[str, float], names: Sequence[str]) -> Floats:
    """The numbers of modules at the layers that carry their names, nan elsewhere."""
    return np.array([by_layer.get(name, math.nan) for name in names])


def _relative(first: Floats, now: Floats) -> float:
    size = float(np.linalg.norm(first))
    change = float(np.linalg.norm(now - first))
    return change / size if size else (0.0 if change == 0.0 else math.inf)
