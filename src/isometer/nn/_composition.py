"""A composition of steps as a torch module that reads like it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from isometer.errors import IsometerError
from isometer.nn._activation import step_activation
from isometer.nn._attention import SelfAttention
from isometer.nn._normalization import norm_module
from isometer.simulate._attention import query_gain
from isometer.simulate._steps import centre, check_covered
from isometer.simulate._streams import GroupedNumbers, StepStreams
from isometer.simulate._weights import draw_weights, step_factor, stream_kind
from isometer.spec import (
    Act,
    Attention,
    Bias,
    Composition,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    Join,
    Noise,
    Norm,
    Pool,
    Repeat,
    Residual,
    Scaling,
    Shape,
    Step,
    Upsample,
)
from isometer.spec._language import word_of
from isometer.spec._program import executed, turns_of
from isometer.spec._steps import has_weights

Tensor = torch.Tensor
_CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d}
_PADS: dict[tuple[str, int], type[nn.Module]] = {
    ("circular", 1): nn.CircularPad1d,
    ("circular", 2): nn.CircularPad2d,
    ("zeros", 1): nn.ZeroPad1d,
    ("zeros", 2): nn.ZeroPad2d,
    ("reflect", 1): nn.ReflectionPad1d,
    ("reflect", 2): nn.ReflectionPad2d,
}
_POOLS: dict[tuple[str, int], type[nn.Module]] = {
    ("mean", 1): nn.AvgPool1d,
    ("mean", 2): nn.AvgPool2d,
    ("max", 1): nn.MaxPool1d,
    ("max", 2): nn.MaxPool2d,
}


class FixedScale(nn.Module):
    """`x ↦ factor · x`, a fixed number.

    Example:
        >>> FixedScale(0.5)(torch.tensor([2.0])).tolist()
        [1.0]
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def extra_repr(self) -> str:
        return f"{self.factor:g}"

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class Offset(nn.Module):
    """`x ↦ x + bias`, one number per feature (axis 1); a bias that follows no weights.

    Example:
        >>> offset = Offset(2)
        >>> offset(torch.ones(1, 2)).tolist()
        [[1.0, 1.0]]
    """

    def __init__(self, features: int, *, dtype: torch.dtype | None = None, device: Any = None) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features, dtype=dtype, device=device))

    def extra_repr(self) -> str:
        return f"{len(self.bias)}"

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias.view(1, -1, *[1] * (x.dim() - 2))


class AddedNoise(nn.Module):
    """`x ↦ x + z` in training mode, z from N(0, variance) for every entry; `x` in evaluation mode.

    Example:
        >>> AddedNoise(0.1).eval()(torch.ones(2)).tolist()
        [1.0, 1.0]
    """

    def __init__(self, variance: float) -> None:
        super().__init__()
        self.variance = variance

    def extra_repr(self) -> str:
        return f"{self.variance:g}"

    def forward(self, x: Tensor) -> Tensor:
        return x + math.sqrt(self.variance) * torch.randn_like(x) if self.training else x


class ResidualBranch(nn.Module):
    """`x ↦ skip · x + scale · branch(x)`; an infinite scale leaves the branch alone.

    Example:
        >>> ResidualBranch(nn.Identity(), scale=0.5)(torch.tensor([2.0])).tolist()
        [3.0]
    """

    def __init__(self, branch: nn.Module, *, scale: float = 1.0, skip: float = 1.0) -> None:
        super().__init__()
        self.branch, self.scale, self.skip = branch, scale, skip

    def extra_repr(self) -> str:
        return f"scale={self.scale:g}, skip={self.skip:g}"

    def forward(self, x: Tensor) -> Tensor:
        value: Tensor = self.branch(x)
        if math.isinf(self.scale):
            return value
        return torch.add(x if self.skip == 1.0 else x * self.skip, value, alpha=self.scale)


class Branches(nn.Module):
    """The sum, the product or the concatenation (along axis 1) of what several branches make of x.

    Example:
        >>> Branches([nn.Identity(), FixedScale(3.0)], by="product")(torch.tensor([2.0])).tolist()
        [12.0]
    """

    def __init__(self, branches: Sequence[nn.Module], *, by: str) -> None:
        super().__init__()
        self.branches, self.by = nn.ModuleList(branches), by

    def extra_repr(self) -> str:
        return f"by={self.by}"

    def forward(self, x: Tensor) -> Tensor:
        values = [branch(x) for branch in self.branches]
        if self.by == "concat":
            return torch.cat(values, 1)
        total: Tensor = values[0]
        for value in values[1:]:
            total = total + value if self.by == "sum" else total * value
        return total


class ComposedNetwork(nn.Sequential):
    """The network of a composition: a module for each step, named by the step's word, and repetitions in `blocks`.

    `layer_names[ℓ − 1]` names the module whose output is layer ℓ of a trajectory.

    Example:
        >>> from isometer.nn import build
        >>> from isometer.spec import Spec
        >>> network = build(Spec("input(8) > repeat(residual(norm('layer') > dense > act('gelu')), 4) > dense(2)"))
        >>> network.blocks[3].branch.dense, network.layer_names[3:]
        (Linear(in_features=8, out_features=8, bias=False), ('blocks.3', 'dense'))
        >>> network(torch.ones(5, 8)).shape
        torch.Size([5, 2])
    """

    def __init__(self, spec: Composition, modules: Sequence[tuple[str, nn.Module]], layer_names: Sequence[str]) -> None:
        super().__init__()
        for name, module in modules:
            self.add_module(name, module)
        self.spec, self.layer_names = spec, tuple(layer_names)

    def forward(self, x: Tensor) -> Tensor:
        expected = (self.spec.shape.width, *self.spec.shape.axes)
        if tuple(x.shape[1:]) != expected:
            said = ", ".join(map(str, expected))
            raise IsometerError(
                f"input has shape {tuple(x.shape)}; expected (samples, {said}) — reshape it, or build another network"
            )
        value = x
        for module in self:
            value = module(value)
        return value


def build_composition(
    spec: Composition, *, seed: int, dtype: torch.dtype, device: torch.device | str
) -> ComposedNetwork:
    """The network of a composition; its weights are those of run 0 of the dense simulation."""
    check_covered(spec)
    with torch.no_grad():
        return _Builder(seed, dtype, device).network(spec)


class _Builder:
    """Makes modules in the order of execution, and draws the numbers of each step from the simulation's streams."""

    def __init__(self, seed: int, dtype: torch.dtype, device: torch.device | str) -> None:
        self._streams = StepStreams(seed, [0], 1, torch.empty(0, dtype=dtype))
        self._where: dict[str, Any] = {"dtype": dtype, "device": device}

    def network(self, spec: Composition) -> ComposedNetwork:
        """As `layers` of the spec divides it: a turn of a repeat, or what begins with a step that has weights."""
        modules: list[tuple[str, nn.Module]] = []
        names: list[str] = []
        shape, steps = spec.shape, list(spec.steps)
        while steps:
            step = steps[0]
            if isinstance(step, Repeat) and step.times > 1:
                name = _unused("blocks", modules)
                blocks = []
                for inner, after in turns_of(step, shape):
                    block = self._sequence(inner, shape)
                    blocks.append(block[0] if len(block) == 1 else block)
                    shape = after
                modules.append((name, nn.Sequential(*blocks)))
                names.extend(f"{name}.{turn}" for turn in range(len(blocks)))
                steps = steps[1:]
            else:
                size = _layer_length(steps)
                inner, after = executed(steps[:size], shape)
                for word, module in self._modules(inner, shape):
                    modules.append((_unused(word, modules), module))
                names.append(modules[-1][0])
                shape, steps = after, steps[size:]
        return ComposedNetwork(spec, modules, names)

    def _sequence(self, steps: Sequence[Step], shape: Shape) -> nn.Sequential:
        found = nn.Sequential()
        for word, module in self._modules(steps, shape):
            found.add_module(_unused(word, list(found.named_children())), module)
        return found

    def _modules(self, steps: Sequence[Step], shape: Shape) -> Iterator[tuple[str, nn.Module]]:
        at = 0
        while at < len(steps):
            step = steps[at]
            follower = steps[at + 1] if at + 1 < len(steps) else None
            _, after = executed((step,), shape)
            if isinstance(step, Dense | Convolution):
                bias = follower if isinstance(follower, Bias) and follower.variance > 0 else None
                yield word_of(step), self._weighted(step, shape, bias)
                at += bias is not None
            else:
                yield word_of(step), self._plain(step, shape)
            at, shape = at + 1, after

    def _plain(self, step: Step, shape: Shape) -> nn.Module:
        axes = len(shape.axes)
        match step:
            case Bias():
                offset = Offset(shape.width, **self._where)
                self._draw_bias(offset.bias, step)
                return offset
            case Act():
                assert isinstance(step.gain, float)
                return step_activation(step.activation, step.gain)
            case Norm():
                return norm_module(step, shape.width, axes=axes, **self._where)
            case Scaling():
                assert isinstance(step.factor, float)
                return FixedScale(step.factor)
            case Residual():
                assert isinstance(step.scale, float)
                assert isinstance(step.skip, float)
                return ResidualBranch(self._sequence(step.branch, shape), scale=step.scale, skip=step.skip)
            case Join():
                return Branches([self._sequence(branch, shape) for branch in step.branches], by=step.by)
            case Pool():
                size = shape.axes if step.size is None else step.size
                kind = _POOLS[step.by, axes]
                pool = kind(kernel_size=size, stride=size if step.stride is None else step.stride)
                return nn.Sequential(pool, nn.Flatten()) if step.size is None else pool
            case Upsample():
                return nn.Upsample(scale_factor=tuple(map(float, step.repeats)))
            case Flatten():
                return nn.Flatten()
            case Dropout():
                return nn.Dropout(step.rate)
            case Noise():
                return AddedNoise(step.variance)
            case Attention():
                return self._attention(step, shape.width)
            case _:
                raise AssertionError(step)  # `check_covered` comes first

    # --- weights ------------------------------------------------------------------------------------------------------

    def _attention(self, step: Attention, width: int) -> SelfAttention:
        assert isinstance(step.value_gain, float)
        assert isinstance(step.output_gain, float)
        module, gain = SelfAttention(step, width, **self._where), query_gain(step)
        for linear, law, own in (
            (module.query, "gaussian", gain),
            (module.key, "gaussian", gain),
            (module.value, step.weights, step.value_gain),
            (module.output, step.weights, step.output_gain),
        ):
            fan_out, fan_in = linear.weight.shape
            linear.weight.copy_(self._matrix(Dense(fan_out, own, law), fan_in, fan_out, law))
        return module

    def _weighted(self, step: Dense | Convolution, shape: Shape, bias: Bias | None) -> nn.Module:
        """Weights with the bias that follows them: `Linear` without positions, a convolution with them."""
        if isinstance(step, Dense):
            assert step.width is not None
            if not shape.axes:
                linear = nn.Linear(
                    shape.width, step.width, bias=bias is not None, dtype=self._where["dtype"], device="meta"
                )
                linear = linear.to_empty(device=self._where["device"])
                linear.weight.copy_(self._matrix(step, shape.width, step.width, step.weights))
                self._draw_bias(linear.bias, bias)
                return linear
            ones = (1,) * len(shape.axes)
            pointwise = self._empty_convolution(shape, step.width, ones, bias is not None)
            pointwise.weight.copy_(self._matrix(step, shape.width, step.width, step.weights).view_as(pointwise.weight))
            self._draw_bias(pointwise.bias, bias)
            return pointwise
        return self._convolution(step, shape, bias)

    def _convolution(self, step: Convolution, shape: Shape, bias: Bias | None) -> nn.Module:
        assert step.channels is not None
        pads = _pads(step, shape)
        symmetric = all(before == after for before, after in pads)
        options: dict[str, Any] = {"stride": step.stride, "dilation": step.dilation, "groups": step.groups}
        if symmetric and any(before for before, _ in pads):
            options["padding"] = tuple(before for before, _ in pads)
            options["padding_mode"] = step.padding
        conv = self._empty_convolution(shape, step.channels, step.kernel, bias is not None, **options)
        conv.weight.copy_(self._kernel(step, shape.width))
        self._draw_bias(conv.bias, bias)
        if symmetric:
            return conv
        # torch pads evenly only: the last axis comes first there
        sizes = [size for pair in reversed(pads) for size in pair]
        pad = _PADS[step.padding, len(shape.axes)](tuple(sizes))
        both = nn.Sequential()
        both.add_module("pad", pad)
        both.add_module("conv", conv)
        return both

    def _empty_convolution(
        self, shape: Shape, channels: int, kernel: Any, bias: bool, **options: Any
    ) -> nn.Conv1d | nn.Conv2d:
        """Without torch's own initialisation, which draws from the global generator."""
        kind: Any = _CONVOLUTIONS[len(shape.axes)]
        found = kind(shape.width, channels, kernel, bias=bias, dtype=self._where["dtype"], device="meta", **options)
        made: nn.Conv1d | nn.Conv2d = found.to_empty(device=self._where["device"])
        return made

    def _matrix(self, step: Dense, fan_in: int, fan_out: int, law: str) -> Tensor:
        assert isinstance(step.gain, float)
        streams = self._streams.following("weights", stream_kind(law), fan_in * fan_out)
        drawn = draw_weights(law, streams, fan_out, fan_in)[0]
        return drawn * step_factor(law, fan_in, fan_out, step.gain, step.weight_scaling)

    def _kernel(self, step: Convolution, features: int) -> Tensor:
        """Offsets first as the simulation has them, channels first as torch does: `(channels, d/groups, *kernel)`."""
        assert step.channels is not None
        assert isinstance(step.gain, float)
        groups, offsets = step.groups, math.prod(step.kernel)
        delta = step.weights == "delta-orthogonal"
        law = "gaussian" if step.weights == "gaussian" else "orthogonal"
        fan_in, fan_out = features // groups * (1 if delta else offsets), step.channels // groups
        streams = self._streams.following("weights", "normal", groups * fan_in * fan_out)
        drawn = draw_weights(law, GroupedNumbers(streams, groups), fan_out, fan_in)  # (groups, fan_out, fan_in)
        drawn = drawn * step_factor(law, fan_in, fan_out, step.gain)
        if delta:
            whole = drawn.new_zeros(groups, fan_out, offsets, fan_in)
            whole[:, :, centre(step.kernel)] = drawn
            drawn = whole.flatten(2)
        found = drawn.reshape(step.channels, offsets, features // groups).mT
        return found.reshape(step.channels, features // groups, *step.kernel)

    def _draw_bias(self, bias: Tensor | None, step: Bias | None) -> None:
        if step is not None and bias is not None:
            numbers = self._streams.following("bias", "normal", len(bias)).take(1, len(bias))
            bias.copy_(math.sqrt(step.variance) * numbers[0, 0])


def _layer_length(steps: Sequence[Step]) -> int:
    """How many steps the first layer has that is no turn of a repeat; see `isometer.spec._program.layers`."""
    weighted = False
    for at, step in enumerate(steps):
        if isinstance(step, Repeat) and step.times > 1:
            return at
        heavy = has_weights((step,))
        if heavy and weighted:
            return at
        weighted = weighted or heavy
    return len(steps)


def _pads(step: Convolution, shape: Shape) -> list[tuple[int, int]]:
    """Before and after, along each axis."""
    found = []
    for axis, size, dilation in zip(shape.axes, step.kernel, step.dilation, strict=True):
        reach = 0 if step.padding == "valid" else dilation * (size - 1)
        before, after = reach // 2, reach - reach // 2
        if step.padding == "circular" and max(before, after) > axis:
            raise IsometerError(
                f"a circular kernel reaches {max(before, after)} positions beyond {axis}; torch wraps around at most "
                "once — use a smaller kernel or dilation"
            )
        found.append((before, after))
    return found


def _unused(word: str, taken: Sequence[tuple[str, nn.Module]]) -> str:
    """The word, or the word with the first number that no module has yet."""
    names = {name for name, _ in taken}
    if word not in names:
        return word
    number = 2
    while f"{word}{number}" in names:
        number += 1
    return f"{word}{number}"
