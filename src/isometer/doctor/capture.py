"""Watching a model run: a mode that sees every torch function, and hooks that know which module is running.

Functions are seen as the model calls them, `F.relu` and `nn.ReLU` alike, and each call is a site of its own. What a
function is made of inside torch is not seen, so `nn.MultiheadAttention` is one site. Modules give the names. A leaf
module whose output no function accounts for (a normalisation or an activation written out in elementary operations) is
a site itself; where it has no parameters, what happens inside is not listed.

`depth` is tracked by tags on tensors: the output of a function has the largest depth of its tensor arguments, plus one
if it applies weights (two for `nn.MultiheadAttention`, the number of layers for recurrent ones; time steps do not
count). Tags are kept beside the tensors, by identity. Limits: a tensor that comes out of something torch does not
announce (a custom `autograd.Function`, NumPy, C++ extensions) has no tag; at the end of the module that returns it, or
when it is next used if it has a gradient, it gets the depth of what was running.
"""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from isometer.doctor import sites as room
from isometer.doctor.backward import Backward
from isometer.doctor.reduce import MAX_SAMPLES, measure, saturated_fraction, weight_moments, weight_spectrum
from isometer.doctor.restore import Preserved
from isometer.doctor.sites import Site
from isometer.doctor.trees import tensors

Tensor = torch.Tensor
ROOT = "(model)"
_BATCH_STATISTICS = {"batch_norm", "instance_norm"}


class _Tag:
    """What is known of a tensor."""

    __slots__ = ("channels_first", "depth", "reference", "site", "version", "weights")

    def __init__(
        self, tensor: Tensor, depth: int, site: Site | None, channels_first: bool | None, weights: Any
    ) -> None:
        self.reference = weakref.ref(tensor)
        self.depth = depth
        self.site = site  # the site whose output the tensor is
        self.version = _version(tensor)
        self.channels_first = channels_first
        self.weights: tuple[Site, bool] | None = weights  # the weights just behind it, and whether normalised since


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


class _Frame:
    """A module that is running."""

    __slots__ = ("depth", "functions", "hidden", "inputs", "leaf", "module", "name", "torch_leaf")

    def __init__(self, name: str, module: nn.Module, leaf: bool, root: bool) -> None:
        self.name, self.module, self.leaf = name, module, leaf
        self.torch_leaf = leaf and type(module).__module__.startswith("torch.nn.")
        self.hidden = leaf and not self.torch_leaf and not module._parameters and not root
        self.inputs: list[Tensor] = []
        self.depth = 0
        self.functions: set[str] = set()

    def entered(self, inputs: list[Tensor], depth: int) -> _Frame:
        """The frame of one call."""
        frame: _Frame = copy.copy(self)
        frame.inputs, frame.depth, frame.functions = inputs, depth, set()
        return frame


class Capture(TorchFunctionMode):
    """Sites of one forward pass, in the order of execution."""

    def __init__(
        self,
        model: nn.Module,
        state: Preserved,
        backward: Backward,
        *,
        samples: int,
        tokens_first: bool,
        layers: Sequence[str] | None,
        spectra: bool,
    ) -> None:
        super().__init__()
        self.sites: list[Site] = []
        self.backward = backward
        self._model, self._state, self._samples, self._layers, self._spectra = model, state, samples, layers, spectra
        self._tokens_first = tokens_first
        self._tags: dict[int, _Tag] = {}
        self._frames: list[_Frame] = []
        self._calls: dict[tuple[str, str], int] = {}
        self._weights: dict[tuple[int, int], tuple[float, ...]] = {}
        self._latest = 0
        self.uses: dict[int, int] = {}  # of each parameter, by any function
        self._pause = 0
        self._handles: list[Any] = []

    # --- modules ------------------------------------------------------------------------------------------------------

    def attach(self) -> None:
        """Hooks on every module; `detach` takes them off."""
        scripted: list[str] = []
        for path, module in self._model.named_modules():
            if any(path.startswith(parent) for parent in scripted):
                continue
            is_script = isinstance(module, torch.jit.ScriptModule)
            if is_script:
                scripted.append(f"{path}." if path else "")
            name = path.replace("_orig_mod.", "").replace("._orig_mod", "") or ROOT
            leaf = is_script or next(module.children(), None) is None
            before, after = self._hooks(_Frame(name, module, leaf, module is self._model))
            self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
            self._handles.append(module.register_forward_hook(after, always_call=True))

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._tags = {}

    def _hooks(self, frame: _Frame) -> tuple[Callable[..., None], Callable[..., None]]:
        def before(module: nn.Module, args: Any, kwargs: Any) -> None:
            if self._pause:
                return
            self._pause += 1
            try:
                inputs = [*tensors(args), *tensors(kwargs)]
                depth = max((tag.depth for tag in map(self._tag, inputs) if tag is not None), default=0)
                self._frames.append(frame.entered(inputs, depth))
            finally:
                self._pause -= 1

        def after(module: nn.Module, args: Any, output: Any) -> None:
            if self._pause or not any(frame.module is module for frame in self._frames):
                return
            self._pause += 1
            try:
                while (left := self._frames.pop()).module is not module:
                    pass  # modules that raised, and the model went on
                if output is not None:
                    self._leave(left, output)
            finally:
                self._pause -= 1

        return before, after

    def _leave(self, frame: _Frame, output: Any) -> None:
        outputs = [t for t in tensors(output) if t.is_floating_point()]
        applies_weights = frame.leaf and not frame.torch_leaf and next(frame.module.parameters(), None) is not None
        for tensor in outputs:
            if self._tag(tensor) is None:
                self._tags[id(tensor)] = _Tag(tensor, frame.depth + applies_weights, None, None, None)
        accounted_for = frame.module is self._model and len(self.sites) > 1
        if not frame.leaf or accounted_for or not outputs or any(outputs[0] is tensor for tensor in frame.inputs):
            return
        tag = self._tag(outputs[0])
        if (tag is not None and tag.site is not None) or not self._computed(frame, outputs[0]):
            return
        functions = {name.removesuffix("_") for name in frame.functions}
        if functions & room.ATTENTION:
            kind = "attention"
        elif functions & room.NONLINEAR and not functions & (room.PRODUCTS | room.WEIGHTS | {"mean", "var", "sum"}):
            kind = "activation"
        elif functions & {"rsqrt", "var", "std", "sqrt", "norm"}:
            kind = "norm"
        else:
            kind = "other"
        self._record(type(frame.module).__name__, kind, outputs[0], tag.depth if tag else frame.depth, tag, frame)

    def _computed(self, frame: _Frame, output: Tensor) -> bool:
        """Whether a leaf did more than hand on or rearrange its input."""
        if isinstance(frame.module, (nn.Identity, nn.Flatten, nn.Unflatten, nn.PixelShuffle, nn.PixelUnshuffle)):
            return False
        rearranging = {"reshape", "view", "flatten", "permute", "transpose", "unflatten", "squeeze", "unsqueeze"}
        return not frame.functions or not frame.functions <= (rearranging | {"__get__", "size", "dim", "contiguous"})

    # --- functions ----------------------------------------------------------------------------------------------------

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if self._pause:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        self._save_before_write(name, args, kwargs)
        output = func(*args, **kwargs)
        if isinstance(output, (Tensor, tuple, list)):
            self._pause += 1
            try:
                self._see(name.removeprefix("_") if name[:2] != "__" else name, args, kwargs, output)
            finally:
                self._pause -= 1
        return output

    def _save_before_write(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        in_place = name[-1:] == "_" and (name[-2:] != "__" or name in ("__setitem__",) or name[:3] == "__i")
        if in_place and args and isinstance(args[0], Tensor):
            self._state.before_write(args[0])
        if "out" in kwargs:
            for tensor in tensors(kwargs["out"]):
                self._state.before_write(tensor)
        if kwargs.get("inplace") and args and isinstance(args[0], Tensor):
            self._state.before_write(args[0])

    def _tag(self, tensor: Tensor) -> _Tag | None:
        tag = self._tags.get(id(tensor))
        if tag is not None and tag.reference() is tensor:
            return tag
        maker: Any = tensor.grad_fn
        if isinstance(maker, torch.autograd.function.BackwardCFunction):  # a custom function made it
            tag = self._tags[id(tensor)] = _Tag(tensor, self._latest, None, None, None)
            return tag
        return None

    def start(self, roots: Iterable[Tensor]) -> None:
        """Tag the inputs, and make the first of floating point the site of layer 0."""
        self._pause += 1
        try:
            site = Site("input", "input", "input", 0)
            for tensor in roots:
                tag = self._tags[id(tensor)] = _Tag(tensor, 0, None, True if tensor.dim() > 3 else None, None)
                if tensor.is_floating_point() and not site.shape:
                    self._measure(site, tensor, bool(tag.channels_first), units=False)
                    tag.site = site
                    self.backward.watch_output(site, tensor)
            self.sites.append(site)
        finally:
            self._pause -= 1

    def _see(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
        first = output if isinstance(output, Tensor) else next(tensors(output), None)
        if first is None:
            return
        frame = self._frames[-1] if self._frames else None
        if frame is not None:
            frame.functions.add(name)
        given = [*tensors(args), *tensors(kwargs)]
        for tensor in given:
            if isinstance(tensor, nn.Parameter):
                self.uses[id(tensor)] = self.uses.get(id(tensor), 0) + 1
        tags = [tag for tag in map(self._tag, given) if tag is not None]
        source = tags[0].site if tags else None
        depth = max((tag.depth for tag in tags), default=0)
        kind, weight = room.kind_of(name), None
        if name in room.PRODUCTS:
            weight = self._weight_of_product(name, given)
            kind = "weight" if weight is not None else None
        elif name in room.ADDITIONS:
            full = [tag for tag, t in ((self._tag(t), t) for t in given) if tag is not None and t.shape == first.shape]
            kind = "add" if len(full) > 1 and depth > 0 else None
        elif kind == "weight":
            weight = _argument(args, kwargs, 1, "weight")
        elif kind == "dropout" and not _argument(args, kwargs, 2, "training", True):
            kind = None
        if kind is not None and not tags and not (first.dim() and first.shape[0] == self._samples and depth == 0):
            kind = None
        if kind == "weight":
            depth += 1
        elif kind == "recurrent":
            depth += int(getattr(frame.module, "num_layers", 1)) if frame is not None else 1
        elif name == "multi_head_attention_forward":
            depth += 2
        if not tags and kind is None:
            return
        layout = self._layout(name, kind, tags)
        behind = None
        if len({id(tag.weights[0]) for tag in tags if tag.weights is not None}) == 1 and kind not in ("add", "weight"):
            behind = next(tag.weights for tag in tags if tag.weights is not None)
        made = _Tag(first, depth, None, layout, behind)
        for tensor in tensors(output):
            if tensor is not first:
                self._tags[id(tensor)] = _Tag(tensor, depth, None, layout, behind)
        self._tags[id(first)] = made
        if kind is None or not first.is_floating_point():
            return
        self._latest = depth
        if frame is not None and frame.hidden:
            return
        op = name
        if frame is not None and (frame.torch_leaf or isinstance(frame.module, nn.MultiheadAttention)):
            op = type(frame.module).__name__
        site = self._record(op, kind, first, depth, made, frame)
        if kind == "activation":
            self._activation(site, name, args, kwargs, first, source, behind)
        elif kind == "norm":
            made.weights = None if behind is None else (behind[0], True)
        elif kind in ("weight", "recurrent") or name == "multi_head_attention_forward":
            made.weights = (site, False) if kind == "weight" and "embedding" not in name else None
            self._apply_weights(site, name, args, kwargs, first, given, weight, frame)
        elif kind != "dropout" and kind != "pool":
            made.weights = None

    def _layout(self, name: str, kind: str | None, tags: list[_Tag]) -> bool | None:
        if name in room.CONVOLUTIONS or kind == "pool" or name in ("group_norm", "instance_norm", "batch_norm"):
            return True
        if kind in ("weight", "attention", "recurrent") or name in ("layer_norm", "rms_norm"):
            return False
        if kind is not None or name in room.ELEMENTWISE or name in room.ADDITIONS:
            return next((tag.channels_first for tag in tags if tag.channels_first is not None), None)
        return None

    def _weight_of_product(self, name: str, given: list[Tensor]) -> Tensor | None:
        """The operand of a product that does not come from the input but is trained, or was made to be."""
        operands = given[-2:]
        if len(operands) < 2 or name == "einsum":
            return None
        free = [t for t in operands if self._tag(t) is None and (t.requires_grad or isinstance(t._base, nn.Parameter))]
        free = free or [t for t in operands if isinstance(t, nn.Parameter)]
        return free[0] if len(free) == 1 else None

    # --- sites --------------------------------------------------------------------------------------------------------

    def _record(self, op: str, kind: str, output: Tensor, depth: int, tag: _Tag | None, frame: _Frame | None) -> Site:
        name = frame.name if frame is not None else ROOT
        call = self._calls[name, op] = self._calls.get((name, op), -1) + 1
        site = Site(name, op, kind, depth, call)
        if tag is None:
            tag = self._tags[id(output)] = _Tag(output, depth, None, None, None)
        if self._layers is not None and not any(fnmatchcase(name, pattern) for pattern in self._layers):
            return site
        self.sites.append(site)
        channels_first = output.dim() > 3 if tag.channels_first is None else tag.channels_first
        self._measure(site, output, channels_first, units=kind == "activation")
        tag.site, tag.version = site, _version(output)
        self.backward.watch_output(site, output)
        return site

    def _measure(self, site: Site, output: Tensor, channels_first: bool, *, units: bool) -> None:
        device = output.device.type
        if torch.is_autocast_enabled(device):
            with torch.autocast(device, enabled=False):
                self._measure_plainly(site, output, channels_first, units)
        else:
            self._measure_plainly(site, output, channels_first, units)

    def _measure_plainly(self, site: Site, output: Tensor, channels_first: bool, units: bool) -> None:
        tokens_first = self._tokens_first and not channels_first
        measure(site, output, self._samples, channels_first=channels_first, tokens_first=tokens_first, units=units)

    def _activation(
        self,
        site: Site,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        output: Tensor,
        source: Site | None,
        behind: tuple[Site, bool] | None,
    ) -> None:
        site.activation = room.activation_text(name, args, kwargs)
        limits = room.saturation_limits(name, args, kwargs)
        if limits is not None and site.finite:
            site.saturated = saturated_fraction(output.detach(), limits)
        if source is not None and source.kind != "input":
            source.pre_activation = True
        if behind is not None:
            weights, normalized = behind
            weights.activation, weights.followed, weights.normalized = site.activation, True, normalized
            weights.pre_activation = weights.pre_activation or not normalized
        made = self._tags[id(output)]
        made.weights = None

    def _apply_weights(
        self,
        site: Site,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        output: Tensor,
        given: list[Tensor],
        weight: Any,
        frame: _Frame | None,
    ) -> None:
        leaves = [t for t in given if isinstance(t, nn.Parameter) and t.dim() > 1]
        site.parameters = tuple(id(leaf) for leaf in leaves)
        if weight is None and leaves:
            weight = leaves[0]
        if not isinstance(weight, Tensor) or not weight.numel() or not weight.is_floating_point():
            return
        fan_in = weight.shape[-1] if name in room.RECURRENT or "attention" in name else _fan_in(name, weight, output)
        key = (id(weight), _version(weight))
        numbers = self._weights.get(key) if isinstance(weight, nn.Parameter) else None
        if numbers is None:
            numbers = weight_moments(weight, fan_in)
            if self._spectra:
                numbers = (*numbers, *weight_spectrum(weight))
            self._weights[key] = numbers
        site.weight_gain, site.weight_asymmetry = numbers[:2]
        if len(numbers) > 2:
            site.weight_spectral_norm, site.weight_isometry_gap = numbers[2:]
        if "embedding" in name:
            site.weight_gain = site.weight_asymmetry = math.nan
        if weight.requires_grad and not weight.is_leaf:
            self.backward.watch_weight(site, weight)
        if not (weight.requires_grad and output.requires_grad and site.finite):
            return
        data = next((t for t in given if t is not weight and self._tag(t) is not None and t.is_floating_point()), None)
        if data is None:
            return
        if name in room.CONVOLUTIONS:
            transposed = "transpose" in name
            arguments = {
                "stride": _argument(args, kwargs, 3, "stride", 1),
                "padding": _argument(args, kwargs, 4, "padding", 0),
                "dilation": _argument(args, kwargs, 7 if transposed else 5, "dilation", 1),
                "groups": _argument(args, kwargs, 6, "groups", 1),
            }
            self.backward.align_convolution(site, name, data, tuple(weight.shape[2:]), arguments)
        elif name == "linear" or name in room.PRODUCTS:
            self.backward.align_linear(site, data)
            plain = data.dim() == 2 and data.shape[0] == self._samples <= MAX_SAMPLES and data.requires_grad
            if plain and name == "linear" and isinstance(weight, nn.Parameter):
                site.factored = id(weight)


def _argument(args: Sequence[Any], kwargs: Mapping[str, Any], position: int, name: str, default: Any = None) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def _fan_in(name: str, weight: Tensor, output: Tensor) -> int:
    """Inputs per output: from the shape of the weights for layers, from that of the output for products `x @ W`."""
    if name in room.PRODUCTS:
        return max(1, weight.numel() // max(1, output.shape[-1]))
    if "transpose" in name:
        return max(1, weight.shape[0] * weight[0, 0].numel())
    return max(1, weight[0].numel())
