"""Activations that squash what passes through them, or that are missing, and the usual ones in their place."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isometer.doctor.causes._repair import Repair
from isometer.doctor.causes._weights import shown
from isometer.doctor.probe._calling import call
from isometer.doctor.probe._tensor_trees import dense

Tensor = torch.Tensor
_SQUASHING: tuple[tuple[type[nn.Module], float, str], ...] = (
    (nn.Softmax, 2.0, "a softmax between layers makes all values small and positive"),
    (nn.Softmax2d, 2.0, "a softmax between layers makes all values small and positive"),
    (nn.Softmin, 2.0, "a softmin between layers makes all values small and positive"),
    (nn.Sigmoid, 1.0, "a sigmoid between layers divides gradients by four or more"),
    (nn.LogSigmoid, 1.0, "a log-sigmoid between layers saturates"),
    (nn.Hardsigmoid, 1.0, "a hard sigmoid between layers divides gradients by six"),
    (nn.Softplus, 0.5, "a softplus returns positive values only"),
)
_ROUNDING = 1e-3  # of differences between samples, far below what any nonlinearity does
_NARROW = 1.0  # width of a range that clips most of a signal of size 1
_LAYERS = (nn.Linear, nn.modules.conv._ConvNd)


def activation_repairs(model: nn.Module, *, linear: bool = False) -> list[Repair]:
    """One repair for each kind of squashing activation module, and one for a model without any activation.

    Args:
        model: the model; it is only read.
        linear: whether nothing in it is nonlinear.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 1))
        >>> [(one.modules, one.deviation) for one in activation_repairs(model)]
        [(('1', '3'), 1.0)]
        >>> activation_repairs(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
        []
    """
    groups: dict[tuple[str, float, str], list[str]] = defaultdict(list)
    # One activation may stand in several places; all of them are exchanged.
    for name, module in model.named_modules(remove_duplicate=False):
        kind = _kind(module)
        if kind is not None:
            groups[kind].append(name)
    found = [
        Repair(
            "activation",
            tuple(names),
            f"Use a ReLU in place of the {title} in {_listed(names)}.",
            words,
            deviation,
            _Exchange(tuple(names)),
        )
        for (title, deviation, words), names in groups.items()
    ]
    layers = [name for name, module in model.named_modules() if isinstance(module, _LAYERS)]
    if linear and len(layers) > 1:
        found.append(
            Repair(
                "activation",
                tuple(layers[:-1]),
                "Put a nonlinearity after every layer but the last.",
                "the model has no nonlinearity, so it computes no more than a single layer",
                2.0,
                _Insert(tuple(layers[:-1])),
            )
        )
    return found


def is_linear(model: nn.Module, inputs: Any) -> bool:
    """Whether a model computes an affine function of its one input of floating point, by trying it.

    Args:
        model: the model.
        inputs: a batch of it.

    Example:
        >>> x = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
        >>> stack = [nn.Linear(4, 4), nn.Linear(4, 2)]
        >>> is_linear(nn.Sequential(*stack), x), is_linear(nn.Sequential(stack[0], nn.ReLU(), stack[1]), x)
        (True, False)
    """
    if not isinstance(inputs, Tensor) or not inputs.is_floating_point() or len(inputs) < 2:
        return False
    finite = inputs.detach().nan_to_num()
    mixed = [finite, finite.roll(1, 0), (finite + finite.roll(1, 0)) / 2]
    with torch.no_grad():
        found = [dense(call(model, one.clone())) for one in mixed]
    if any(len(one) != 1 for one in found):
        return False
    first, second, middle = (one[0].double() for one in found)
    if not first.shape == second.shape == middle.shape:
        return False
    size = float((first - second).abs().max())
    return size > 0 and float((middle - (first + second) / 2).abs().max()) < _ROUNDING * size


def _kind(module: nn.Module) -> tuple[str, float, str] | None:
    if isinstance(module, nn.Hardtanh) and not isinstance(module, nn.ReLU6):
        width = float(module.max_val - module.min_val)
        if width <= _NARROW:
            return "hard tanh", 2.0, f"a hard tanh clips values to a range of {width:.2g}"
    for squashing, deviation, words in _SQUASHING:
        if isinstance(module, squashing):
            return type(module).__name__.lower(), deviation, words
    return None


def _listed(names: list[str]) -> str:
    return ", ".join(map(shown, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@dataclass(frozen=True)
class _Exchange:
    """Put a ReLU in the place of modules."""

    names: tuple[str, ...]

    def __call__(self, model: nn.Module) -> None:
        for name in self.names:
            if name:
                model.set_submodule(name, nn.ReLU())


@dataclass(frozen=True)
class _Insert:
    """Put a ReLU behind modules."""

    names: tuple[str, ...]

    def __call__(self, model: nn.Module) -> None:
        for name in self.names:
            model.get_submodule(name).register_forward_hook(_relu)


def _relu(module: nn.Module, args: Any, output: Any) -> Any:
    return output.relu() if isinstance(output, Tensor) else output
