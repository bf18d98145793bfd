"""What a pass through a model did: every operation on the way from the input, and what each of them read.

A step is what is left of a call once its tensors are gone: indices of the steps it reads, shapes, numbers, and names of
parameters. No activation and no graph stays alive with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

Tensor = torch.Tensor
_ROWS = 16  # of the weights that are tested for orthogonality


@dataclass(frozen=True)
class Numbers:
    """What is known of a tensor that is not kept.

    Attributes:
        shape: shape of the tensor.
        total: sum of the entries.
        sample: a few of them, evenly spaced.
        mean_square: mean square of the entries.
        norm: root of the sum of their squares.
        orthogonal: whether rows (columns of tall matrices) are orthogonal and of one length, within rounding.
        constant: the one value that all entries have, `None` if there are several.
    """

    shape: tuple[int, ...]
    total: float
    sample: tuple[float, ...]
    mean_square: float
    norm: float
    orthogonal: bool
    constant: float | None

    @property
    def count(self) -> int:
        return math.prod(self.shape)


def numbers_of(tensor: Tensor | Numbers) -> Numbers:
    """The numbers of a tensor, in float64.

    Example:
        >>> numbers = numbers_of(2 * torch.eye(3))
        >>> numbers.total, numbers.orthogonal, numbers.constant
        (6.0, True, None)
    """
    if isinstance(tensor, Numbers):
        return tensor
    values = tensor.detach()
    entries = values.flatten()
    wide = entries.double()
    return Numbers(
        tuple(values.shape),
        float(wide.sum()),
        tuple(entries[:: max(1, len(entries) // 8)].tolist()),
        float(wide.square().mean()),
        float(torch.linalg.vector_norm(values.double())),
        values.dim() == 2 and values.numel() > 0 and _is_orthogonal(values),
        constant(values),
    )


def _is_orthogonal(matrix: Tensor) -> bool:
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
    rows = wide[:: max(1, wide.shape[0] // _ROWS)][:_ROWS].double()
    gram = rows @ rows.mT
    size = gram.diagonal().mean()
    error = (gram / size - torch.eye(len(gram), dtype=gram.dtype, device=gram.device)).abs().max()
    resolution = torch.finfo(matrix.dtype).eps if matrix.is_floating_point() else 0.0
    return len(gram) > 1 and bool(error < max(1e-5, 8 * resolution))


def constant(values: Tensor) -> float | None:
    """The one value that all entries of a tensor have, `None` if there are several or none.

    Example:
        >>> constant(torch.full((3,), 0.5)), constant(torch.arange(2.0))
        (0.5, None)
    """
    if not values.numel():
        return None
    first = values.detach().flatten()[0]
    return float(first) if bool((values == first).all()) else None


@dataclass(frozen=True)
class Held:
    """A tensor that a function was given and that does not come from the input.

    Attributes:
        name: name of the parameter that it is; empty for one that was computed.
        numbers: what was read of a computed one, `None` where nothing was.
    """

    name: str = ""
    numbers: Numbers | None = None

    def of(self, parameters: Mapping[str, Tensor]) -> Tensor | Numbers | None:
        """The parameter of a model, or the numbers of what was computed; `None` where neither is known."""
        return parameters.get(self.name) if self.name else self.numbers


class TraceStep(NamedTuple):
    """One operation.

    Attributes:
        name: name of the function, without the underscore of in-place forms; of the class, for a module that is one
            step.
        kind: `input`, `weight`, `product`, `norm`, `activation`, `add`, `scale`, the kind of another site, or `other`.
        inputs: the steps it reads, in the order of its arguments; none where it reads nothing that was seen.
        layer: the layer of the examination that its output is, `None` where that is no site, or was left out.
        shape: shape of its output.
        read_shape: of the first tensor it was given.
        first: whether that tensor comes from the input.
        activation: what the registry calls an activation, `None` for an unknown one.
        settings: numbers that it was given.
        held: tensors that it was given and that do not come from the input.
        module: path of the module that called it.
    """

    name: str
    kind: str
    inputs: tuple[int, ...] = ()
    layer: int | None = None
    shape: tuple[int, ...] = ()
    read_shape: tuple[int, ...] = ()
    first: bool = True
    activation: str | None = None
    settings: Mapping[str, Any] = {}
    held: Mapping[str, Held] = {}
    module: str = ""

    @property
    def flat(self) -> bool:
        """Whether it acts on (samples, features)."""
        return len(self.shape) == 2 and len(self.read_shape) == 2
