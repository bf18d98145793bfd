"""What is known of the tensors and functions that pass by while a model runs.

Tags are kept beside the tensors, by identity. A tensor that comes out of something torch does not announce (a custom
`autograd.Function`, NumPy, C++ extensions) has no tag; where its history says that a custom function made it, it gets
the depth of what was running when it is next used.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from isometer.doctor.probe._sites import Draft
from isometer.doctor.probe._tensor_trees import tensors

Tensor = torch.Tensor
_PLAIN = (int, float, bool, str, type(None))


class Tag:
    """What is known of a tensor."""

    __slots__ = ("channels_first", "depth", "reference", "site", "step", "version", "weights")

    def __init__(
        self,
        tensor: Tensor,
        depth: int,
        channels_first: bool | None = None,
        weights: tuple[Draft, bool] | None = None,
        step: int | None = None,
    ) -> None:
        self.reference = weakref.ref(tensor)  # weak: a tag keeps no activation alive
        self.depth = depth
        self.site: Draft | None = None  # the site whose output the tensor is
        self.version = -2  # of the tensor when the site read it
        self.channels_first = channels_first
        self.weights = weights  # the weights just behind it, and whether normalised since
        self.step = step  # of the trace, whose output it is


class Tags:
    """The tags of one forward pass."""

    def __init__(self) -> None:
        self.latest = 0  # depth of the latest operation
        self._known: dict[int, Tag] = {}

    def of(self, tensor: Tensor) -> Tag | None:
        tag = self._known.get(id(tensor))
        # An id is given again once its tensor is freed; the reference tells the two apart.
        if tag is not None and tag.reference() is tensor:
            return tag
        try:
            maker: Any = tensor.grad_fn
        except RuntimeError:  # a view made without gradients, written to with them: torch will not say
            return None
        if isinstance(maker, torch.autograd.function.BackwardCFunction):  # a custom function made it
            return self.put(tensor, Tag(tensor, self.latest))
        return None

    def put(self, tensor: Tensor, tag: Tag) -> Tag:
        self._known[id(tensor)] = tag
        return tag

    def clear(self) -> None:
        self._known = {}


class Operation(NamedTuple):
    """One call of a torch function."""

    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    given: list[Tensor]
    output: Tensor  # the first of them

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)


def version(tensor: Tensor) -> int:
    """Counts the writes to a tensor."""
    return -1 if tensor.is_inference() else tensor._version  # inference tensors count no writes


def is_parameter(tensor: Tensor) -> bool:
    """`isinstance(tensor, nn.Parameter)`, which is slow for tensors that are none."""
    kind = type(tensor)
    return kind is nn.Parameter or (kind is not Tensor and isinstance(tensor, nn.Parameter))


def all_tensors(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Every tensor among the arguments of a call, in order."""
    found: list[Tensor] = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, Tensor):
            found.append(value)
        elif not isinstance(value, _PLAIN):
            found.extend(tensors(value))
    return found
