"""Several networks of one shape as one: their parameters side by side, their layers as grouped ones.

In small networks most of the time goes into calls, not into arithmetic. Runs of a study that differ in their seeds
alone take their steps together: every call then works for all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from isometer.nn import Activation, BatchNormParts, NormReLU
from isometer_papers.architectures.resnet import Bottleneck, FixupBlock, ResidualBlock

Tensor = torch.Tensor
Apply = Callable[[Tensor], Tensor]


class Stack:
    """Networks of one shape whose parameters and buffers are joined along their first axis.

    The networks go on as before, with views of what was joined: what one of them is measured on is always up to date.
    One network alone keeps its own.

    Args:
        models: the networks, on one device.

    Example:
        >>> models = [nn.Linear(3, 2), nn.Linear(3, 2)]
        >>> stack = Stack(models)
        >>> tuple(stack.parameters["weight"].shape), len(stack)
        ((4, 3), 2)
        >>> with torch.no_grad():
        ...     _ = stack.parameters["weight"][2:].fill_(7.0)
        >>> models[1].weight.unique().item()
        7.0
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self.models = list(models)
        own = [dict(model.named_parameters()) for model in models]
        kept = [dict(model.named_buffers()) for model in models]
        self.parameters: dict[str, nn.Parameter] = own[0]
        self.buffers: dict[str, Tensor] = kept[0]
        if len(models) > 1:
            self.parameters = {name: nn.Parameter(_joined([one[name].data for one in own])) for name in own[0]}
            self.buffers = {name: _joined([one[name] for one in kept]) for name in kept[0]}
            for i, (model, of) in enumerate(zip(self.models, own, strict=True)):
                for name, parameter in of.items():
                    parameter.data = self._part(self.parameters[name].data, i, parameter.shape)
                for name, buffer in kept[i].items():
                    room, _, inner = name.rpartition(".")
                    # in place of the buffer itself: `data` of a number without axes cannot become a view
                    model.get_submodule(room)._buffers[inner] = self._part(self.buffers[name], i, buffer.shape)

    def __len__(self) -> int:
        return len(self.models)

    def _part(self, joined: Tensor, i: int, shape: torch.Size) -> Tensor:
        if not shape:
            return joined[i]
        return joined[i * shape[0] : (i + 1) * shape[0]]

    def share_gradients(self) -> None:
        """Show every network the gradients of its own parameters."""
        if len(self) == 1:
            return
        for i, model in enumerate(self.models):
            for name, parameter in model.named_parameters():
                gradient = self.parameters[name].grad
                parameter.grad = None if gradient is None else self._part(gradient, i, parameter.shape)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts)) if parts[0].dim() else torch.stack(list(parts))


def applied_together(stack: Stack) -> Apply | None:
    """The networks of a stack as one function, in training mode; None if one of their layers is not written here.

    Inputs are `(samples, networks · features, …)`, as are outputs.

    Example:
        >>> models = [nn.Sequential(nn.Conv2d(1, 2, 1), nn.Flatten(), nn.Linear(2, 3)) for _ in range(2)]
        >>> x = torch.randn(5, 2, 1, 1)
        >>> y = applied_together(Stack(models))(x)
        >>> torch.allclose(y[:, 3:], models[1](x[:, 1:]), atol=1e-6)
        True
        >>> applied_together(Stack([nn.Sequential(nn.Bilinear(2, 2, 2))])) is None
        True
    """
    together = _together(stack, stack.models[0], "")
    if together is None or any(_hooked(module) for module in stack.models[0].modules()):
        return None
    return together.train()


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


class _Applied(nn.Module):
    """A function as a module; parameters stay with the stack."""

    def __init__(self, function: Apply) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


_ALONE = (  # these treat every channel by itself and have no parameters
    *(nn.ReLU, nn.SELU, nn.Tanh, nn.Identity, nn.Dropout, nn.MaxPool2d, nn.AdaptiveAvgPool2d, nn.Flatten),
    *(Activation, NormReLU),
)
_OF_PARTS = (nn.Sequential, ResidualBlock, Bottleneck)  # these have nothing beside their parts


def _together(stack: Stack, module: nn.Module, name: str) -> nn.Module | None:
    """One module for all networks, by an example and its name."""
    kind = type(module)
    if kind in _OF_PARTS:
        parts = {child: _together(stack, one, f"{name}{child}.") for child, one in module._modules.items() if one}
        if any(part is None for part in parts.values()):
            return None
        twin = copy.copy(module)
        twin._modules = dict(parts)
        return twin
    if kind in _ALONE:
        has_state = any(True for _ in module.parameters()) or any(True for _ in module.buffers())
        return None if has_state or getattr(module, "start_dim", 1) != 1 else module
    make = _MADE.get(kind)
    return None if make is None else _Applied(make(stack, module, name))


def _convolution(stack: Stack, layer: Any, name: str) -> Apply:
    weight, bias = stack.parameters[f"{name}weight"], stack.parameters.get(f"{name}bias")
    how = layer.stride, layer.padding, layer.dilation, len(stack) * layer.groups
    return lambda x: torch.conv2d(x, weight, bias, *how)


def _dense(stack: Stack, layer: Any, name: str) -> Apply:
    weight, bias = stack.parameters[f"{name}weight"], stack.parameters.get(f"{name}bias")
    count, sizes = len(stack), (layer.out_features, layer.in_features)

    def apply(x: Tensor) -> Tensor:
        runs = x.view(len(x), count, -1).transpose(0, 1)
        products = torch.bmm(runs, weight.view(count, *sizes).mT)
        together = products.transpose(0, 1).reshape(len(x), -1)
        return together if bias is None else together + bias

    return apply


def _batch_norm(stack: Stack, layer: Any, name: str) -> Apply:
    weight, bias = (stack.parameters.get(f"{name}{one}") for one in ("weight", "bias"))
    mean, variance, counter = (
        stack.buffers.get(f"{name}{one}") for one in ("running_mean", "running_var", "num_batches_tracked")
    )

    def apply(x: Tensor) -> Tensor:
        if counter is not None:
            counter.add_(1)
        return nn.functional.batch_norm(x, mean, variance, weight, bias, True, layer.momentum, layer.eps)

    return apply


def _batch_norm_in_parts(stack: Stack, layer: Any, name: str) -> Apply:
    twin = copy.copy(layer)
    twin.features = len(stack) * layer.features
    twin._parameters = {one: stack.parameters.get(f"{name}{one}") for one in layer._parameters}
    twin._buffers = {one: stack.buffers[f"{name}{one}"] for one in layer._buffers}
    return twin.train()  # type: ignore[no-any-return]


def _group_norm(stack: Stack, layer: Any, name: str) -> Apply:
    weight, bias = (stack.parameters.get(f"{name}{one}") for one in ("weight", "bias"))
    groups = len(stack) * layer.num_groups
    return lambda x: nn.functional.group_norm(x, groups, weight, bias, layer.eps)


def _layer_norm(stack: Stack, layer: Any, name: str) -> Apply:
    weight, bias = (stack.parameters.get(f"{name}{one}") for one in ("weight", "bias"))

    def apply(x: Tensor) -> Tensor:
        y = nn.functional.layer_norm(x.view(len(x), len(stack), -1), layer.normalized_shape, eps=layer.eps).view(
            x.shape
        )
        y = y if weight is None else y * weight
        return y if bias is None else y + bias

    return apply


def _fixup_block(stack: Stack, block: Any, name: str) -> Apply:
    """As `FixupBlock`, with biases and factors of every network for its own channels."""
    first, second, shortcut = (
        _together(stack, getattr(block, one), f"{name}{one}.") for one in ("first", "second", "shortcut")
    )
    assert first is not None  # these are convolutions, or the identity
    assert second is not None
    assert shortcut is not None
    biases, factor = stack.parameters[f"{name}biases"], stack.parameters[f"{name}factor"]

    def by_channel(values: Tensor, channels: int) -> Tensor:
        return values.repeat_interleave(channels // len(stack))[:, None, None]

    def apply(x: Tensor) -> Tensor:
        b = biases.view(len(stack), -1)
        narrow, wide = x.shape[1], len(stack) * block.first.out_channels
        branch = torch.relu(first(x + by_channel(b[:, 0], narrow)) + by_channel(b[:, 1], wide))
        branch = second(branch + by_channel(b[:, 2], wide)) * by_channel(factor, wide) + by_channel(b[:, 3], wide)
        return torch.relu(shortcut(x) + branch)

    return apply


_MADE: dict[type[nn.Module], Callable[[Stack, Any, str], Apply]] = {
    nn.Conv2d: _convolution,
    nn.Linear: _dense,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    BatchNormParts: _batch_norm_in_parts,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
    FixupBlock: _fixup_block,
}
