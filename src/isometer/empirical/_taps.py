"""One forward pass in which every use of a parameter becomes a tap: a place where its derivative is read.

A linear layer z = x Wᵀ has ∂f/∂W = Σ ∂f/∂z ⊗ x over samples and positions. So the pass applies W without its history,
remembers x, and asks autograd for ∂f/∂z only; convolutions, embeddings, sums and products work alike. What the model
does with a parameter in any other way keeps its history, and autograd gives that part of the derivative: taps and the
rest add up to the whole, whatever the model is.

A *constant* is a parameter or a tensor calculated from parameters alone (a slice of position embeddings, a normalised
weight). A tap reads the derivative by the constant; autograd takes it from there to the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from unittest import mock

import torch
from torch import nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional
from torch.overrides import TorchFunctionMode

Tensor = torch.Tensor
Rule = Literal["linear", "transposed", "convolution", "embedding", "sum"]

_ADD = {"add", "add_", "__add__", "__radd__", "__iadd__"}
_SUBTRACT = {"sub", "sub_", "__sub__", "__isub__"}
_MULTIPLY = {"mul", "mul_", "__mul__", "__rmul__", "__imul__"}
_MATMUL = {"matmul", "__matmul__", "mm"}
_NORMS = {"layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm"}
_CONVOLUTIONS = {"conv1d": 1, "conv2d": 2, "conv3d": 3}


@dataclass(frozen=True, eq=False)
class TapSite:
    """A tensor inside the pass whose derivative is requested."""

    edge: GradientEdge
    shape: torch.Size


@dataclass(frozen=True)
class Window:
    """How a convolution reads its input."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]  # before and after, per axis
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True, eq=False)
class Tap:
    """One use of a constant.

    Attributes:
        constant: what was applied.
        site: whose derivative is read.
        rule: how the derivative by the constant follows from that by z.
            "linear": z = x Wᵀ; "transposed": z = x W; "sum": z = … ± c ⊙ read.
        read: x, or the indices of an embedding, or the factor of a product; None where it is 1.
        aligned: the constant's shape with as many axes as z, for "sum".
        window: of a convolution.
        sign: of a "sum".
        padding_index: of an embedding: the row without a derivative.
    """

    constant: Tensor
    site: TapSite
    rule: Rule
    read: Tensor | None = None
    aligned: tuple[int, ...] = ()
    window: Window | None = None
    sign: float = 1.0
    padding_index: int | None = None

    @property
    def width(self) -> int:
        """Numbers that one entry of z reads."""
        if self.rule in ("linear", "transposed") and self.read is not None:
            return int(self.read.shape[-1])
        return self.constant[0].numel() if self.rule == "convolution" else 1


class Tapping(TorchFunctionMode):
    """Puts taps on all uses of some parameters while it is entered."""

    def __init__(self, parameters: Sequence[nn.Parameter], inputs: Iterable[Tensor]) -> None:
        super().__init__()
        self.taps: list[Tap] = []
        # Held, so that no other tensor gets the identity of one that is gone.
        self._constants: dict[int, Tensor] = {id(one): one for one in parameters}
        self._given: dict[int, Tensor] = {id(one): one for one in inputs if not one.requires_grad}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        name: str = getattr(func, "__name__", "")
        if name == "multi_head_attention_forward":
            # Written in Python: its own layers are tapped. The function would hand itself to this mode again.
            with mock.patch.object(functional, "has_torch_function", _never), self:
                return func(*args, **kwargs)
        rule = getattr(self, f"_on_{_family(name)}", None)
        result = rule(func, name, args, kwargs) if rule is not None else None
        if result is not None:
            return result
        result = func(*args, **kwargs)
        self._follow(args, kwargs, result)
        return result

    # --- what is constant ---------------------------------------------------------------------------------------------

    def _is_constant(self, value: Any) -> bool:
        return isinstance(value, Tensor) and id(value) in self._constants

    def _is_signal(self, value: Any) -> bool:
        # The inputs have a history too, so that what comes of them is told from what does not.
        return isinstance(value, Tensor) and value.requires_grad and not self._is_constant(value)

    def _follow(self, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """What is calculated from constants alone is one; a mark too many costs time, and no digits."""
        given = _tensors((*args, *kwargs.values()))
        trained = [one for one in given if one.requires_grad]
        constant = bool(trained) and all(map(self._is_constant, trained))
        from_inputs = any(self._is_signal(one) or id(one) in self._given for one in given)
        for one in _tensors((result,)):
            if one.requires_grad and constant:
                self._constants[id(one)] = one
            elif from_inputs and not one.requires_grad:
                self._given[id(one)] = one

    # --- rules --------------------------------------------------------------------------------------------------------

    def _tap(self, constant: Tensor, site: TapSite, rule: Rule, **more: Any) -> None:
        self.taps.append(Tap(constant, site, rule, **more))

    def _on_linear(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
        x, weight, bias = _named(args, kwargs, ("input", "weight", "bias"))
        if not (self._is_signal(x) and self._is_constant(weight)) or not self._fixed(bias):
            return None
        z, site = _site(functional.linear(x, weight.detach(), None if bias is None else bias.detach()))
        self._tap(weight, site, "linear", read=x.detach())
        self._add_bias(bias, site)
        return z

    def _on_matmul(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
        if len(args) != 2:
            return None
        x, weight = args
        if not (self._is_signal(x) and self._is_constant(weight)) or weight.dim() != 2 or x.dim() < 2:
            return None
        z, site = _site(torch.matmul(x, weight.detach()))
        self._tap(weight, site, "transposed", read=x.detach())
        return z

    def _on_addmm(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
        if kwargs or len(args) != 3:
            return None
        bias, x, weight = args
        if not (self._is_signal(x) and self._is_constant(weight) and self._is_constant(bias)):
            return None
        z, site = _site(torch.addmm(bias.detach(), x, weight.detach()))
        self._tap(weight, site, "transposed", read=x.detach())
        self._add_bias(bias, site)
        return z

    def _on_convolution(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
        axes = _CONVOLUTIONS[name]
        x, weight, bias, stride, padding, dilation, groups = _named(
            args, kwargs, ("input", "weight", "bias", "stride", "padding", "dilation", "groups"), (1, 0, 1, 1)
        )
        if not (self._is_signal(x) and self._is_constant(weight)) or not self._fixed(bias) or x.dim() != axes + 2:
            return None
        window = _window(weight, stride, padding, dilation, groups)
        z, site = _site(
            func(x, weight.detach(), None if bias is None else bias.detach(), stride, padding, dilation, groups)
        )
        self._tap(weight, site, "convolution", read=x.detach(), window=window)
        self._add_bias(bias, site, channel=1)
        return z

    def _on_embedding(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
        index, weight, padding_index, max_norm, _, by_frequency, sparse = _named(
            args,
            kwargs,
            ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
            (None, None, 2.0, False, False),
        )
        if not self._is_constant(weight) or max_norm is not None or by_frequency or sparse:
            return None
        if id(index) not in self._given:
            return None  # positions, the same for all samples
        z, site = _site(functional.embedding(index, weight.detach(), padding_index))
        empty = None if padding_index is None else int(padding_index) % len(weight)
        self._tap(weight, site, "embedding", read=index, padding_index=empty)
        return z

    def _on_addition(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
        if kwargs or len(args) != 2:
            return None
        first, second = args
        if self._is_signal(first) and self._is_constant(second) and first.dim() >= max(1, second.dim()):
            constant, sign = second, -1.0 if name in _SUBTRACT else 1.0
            result = func(first, second.detach())
        elif self._is_constant(first) and self._is_signal(second) and second.dim() >= max(1, first.dim()):
            if _in_place(name) or name in _SUBTRACT:
                return None
            constant, sign = first, 1.0
            result = func(first.detach(), second)
        else:
            return None
        z, site = _site(result)
        self._tap(constant, site, "sum", aligned=_aligned(constant.shape, z.dim()), sign=sign)
        return z

    def _on_product(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
        if kwargs or len(args) != 2 or _in_place(name):
            return None
        first, second = args
        if self._is_signal(first) and self._is_constant(second):
            signal, constant = first, second
        elif self._is_constant(first) and self._is_signal(second):
            signal, constant = second, first
        else:
            return None
        if signal.dim() < max(1, constant.dim()):
            return None
        z, site = _site(torch.mul(signal, constant.detach()))
        self._tap(constant, site, "sum", read=signal.detach(), aligned=_aligned(constant.shape, z.dim()))
        return z

    def _on_norm(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
        places = {
            "layer_norm": ("input", "normalized_shape", "weight", "bias", "eps"),
            "rms_norm": ("input", "normalized_shape", "weight", "eps"),
            "group_norm": ("input", "num_groups", "weight", "bias", "eps"),
            "batch_norm": ("input", "running_mean", "running_var", "weight", "bias"),
            "instance_norm": ("input", "running_mean", "running_var", "weight", "bias"),
        }[name]
        given = dict(zip(places, args, strict=False)) | dict(kwargs)
        x, weight, bias = given.get("input"), given.get("weight"), given.get("bias")
        if not self._is_signal(x) or not self._fixed(weight) or not self._fixed(bias) or weight is bias:
            return None
        plain = [None if place in ("weight", "bias") else one for place, one in zip(places, args, strict=False)]
        rest = {key: None if key in ("weight", "bias") else one for key, one in kwargs.items()}
        y = func(*plain, *args[len(places) :], **rest)
        channels = name in ("group_norm", "batch_norm", "instance_norm")
        shapes = [None if one is None else _over(one, y.dim(), channels) for one in (weight, bias)]
        z = y
        if weight is not None and shapes[0] is not None:
            z = z * weight.detach().reshape(shapes[0])
        if bias is not None and shapes[1] is not None:
            z = z + bias.detach().reshape(shapes[1])
        z, site = _site(z)
        for constant, aligned, read in ((weight, shapes[0], y.detach()), (bias, shapes[1], None)):
            if constant is not None:
                self._tap(constant, site, "sum", read=read, aligned=aligned)
        return z

    # --- parts of rules -----------------------------------------------------------------------------------------------

    def _fixed(self, value: Any) -> bool:
        return value is None or self._is_constant(value) or (isinstance(value, Tensor) and not value.requires_grad)

    def _add_bias(self, bias: Tensor | None, site: TapSite, channel: int = -1) -> None:
        if bias is None or not self._is_constant(bias):
            return
        aligned = [1] * len(site.shape)
        aligned[channel] = bias.numel()
        self._tap(bias, site, "sum", aligned=tuple(aligned))


def _never(*_: Any) -> bool:
    return False


def _family(name: str) -> str:
    if name in ("linear", "addmm", "embedding"):
        return name
    for names, family in (
        (_CONVOLUTIONS, "convolution"),
        (_NORMS, "norm"),
        (_MATMUL, "matmul"),
        (_ADD | _SUBTRACT, "addition"),
        (_MULTIPLY, "product"),
    ):
        if name in names:
            return family
    return "nothing"


def _in_place(name: str) -> bool:
    return (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")


def _named(
    args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str], defaults: Sequence[Any] = ()
) -> list[Any]:
    """Arguments by position or name; defaults are those of the last names."""
    usual = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    return [given.get(name, usual.get(name)) for name in names]


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, (tuple, list)):
        return [one for part in tree for one in _tensors(part)]
    return []


def _site(z: Tensor) -> tuple[Tensor, TapSite]:
    """A tensor with a history, and its place in the graph as it is now: in-place operations may follow."""
    if not z.requires_grad:
        z = z.requires_grad_().clone()
    return z, TapSite(get_gradient_edge(z), z.shape)


def _aligned(shape: Sequence[int], axes: int) -> tuple[int, ...]:
    return (1,) * (axes - len(shape)) + tuple(shape)


def _over(constant: Tensor, axes: int, channels: bool) -> tuple[int, ...]:
    """The shape with which a gain or bias of a norm meets z."""
    return (1, constant.numel()) + (1,) * (axes - 2) if channels else _aligned(constant.shape, axes)


def _window(weight: Tensor, stride: Any, padding: Any, dilation: Any, groups: int) -> Window:
    kernel = tuple(weight.shape[2:])
    strides, dilations = _each(stride, len(kernel)), _each(dilation, len(kernel))
    if padding == "same":
        whole = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
        paddings = tuple((one // 2, one - one // 2) for one in whole)
    else:
        paddings = tuple((one, one) for one in _each(0 if padding == "valid" else padding, len(kernel)))
    return Window(kernel, strides, paddings, dilations, groups)


def _each(value: Any, axes: int) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * axes
    values = tuple(int(one) for one in value)
    return values * axes if len(values) == 1 else values


def padded(x: Tensor, window: Window) -> Tensor:
    """The input of a convolution with its margin of zeros."""
    return functional.pad(x, [size for pair in reversed(window.padding) for size in pair])


def patches(x: Tensor, window: Window) -> Tensor:
    """What each position of a convolution reads: (N, positions, groups, kernel × channels of a group).

    Channels are last, so that runs of them are copied at once: several times as fast as `functional.unfold`.

    Example:
        >>> window = Window((2,), (1,), ((0, 0),), (1,), 1)
        >>> patches(torch.tensor([[[1.0, 2.0, 3.0]]]), window).squeeze().tolist()
        [[1.0, 2.0], [2.0, 3.0]]
    """
    axes = len(window.kernel)
    x = padded(x, window).movedim(1, -1).contiguous()
    for axis, (size, step, gap) in enumerate(zip(window.kernel, window.stride, window.dilation, strict=True)):
        # Each turn appends one axis of the kernel at the end.
        x = x.unfold(axis + 1, gap * (size - 1) + 1, step)[..., ::gap]
    # (N, *positions, C, *kernel)
    x = x.reshape(*x.shape[: 1 + axes], window.groups, -1, *window.kernel).movedim(2 + axes, -1)
    return x.reshape(len(x), math.prod(x.shape[1 : 1 + axes]), window.groups, -1)
