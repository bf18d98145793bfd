"""Tensors inside what models take and return: tensors, sequences, mappings and dataclasses, nested at will."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch


def tensors(tree: Any) -> Iterator[torch.Tensor]:
    """Every tensor in a nested structure, in order; anything else is skipped.

    Example:
        >>> [t.item() for t in tensors({"a": torch.tensor(1), "b": ("text", [torch.tensor(2)])})]
        [1, 2]
    """
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from tensors(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from tensors(value)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            yield from tensors(getattr(tree, field.name, None))


def dense(tree: Any) -> list[torch.Tensor]:
    """Tensors of floating point with entries, nested ones excepted.

    Example:
        >>> len(dense([torch.ones(2), torch.ones(0), torch.tensor(1)]))
        1
    """
    return [t for t in tensors(tree) if t.is_floating_point() and not t.is_nested and t.numel()]


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    """The same structure with every tensor replaced; objects that hold no tensors are passed on as they are.

    Example:
        >>> map_tensors(lambda t: t + 1, (torch.tensor(1), {"a": [torch.tensor(2)]}, "text"))
        (tensor(2), {'a': [tensor(3)]}, 'text')
    """
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if next(tensors(tree), None) is None:
        return tree
    if isinstance(tree, Mapping):
        items = {key: map_tensors(function, value) for key, value in tree.items()}
        return items if type(tree) is dict else _refilled(tree, items)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_tensors(function, value) for value in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_tensors(function, value) for value in tree)
    # dataclasses.replace would run the class's own __init__ again.
    twin = copy.copy(tree)
    for field in dataclasses.fields(tree):
        # Frozen dataclasses refuse a plain assignment.
        object.__setattr__(twin, field.name, map_tensors(function, getattr(tree, field.name, None)))
    return twin


def _refilled(tree: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the same class with other values; a plain dict where the class does not allow it."""
    try:
        twin: Any = copy.copy(tree)
        for key, value in items.items():
            twin[key] = value
    except Exception:
        return items
    return twin


def owned(inputs: Any) -> Any:
    """A copy of the tensors that a model may write to.

    Example:
        >>> import torch
        >>> inputs = torch.ones(2)
        >>> owned({"x": inputs})["x"].zero_().sum().item(), inputs.sum().item()
        (0.0, 2.0)
    """
    return map_tensors(lambda tensor: tensor.detach().clone(), inputs)
