"""Watching a model run: a mode that sees every torch function, and the sites it makes of them.

Functions are seen as the model calls them, `F.relu` and `nn.ReLU` alike, and each call is a site of its own. What a
function is made of inside torch is not seen, so `nn.MultiheadAttention` is one site. Modules give the names. A leaf
module whose output no function accounts for (a normalisation or an activation written out in elementary operations) is
a site itself; where it has no parameters, what happens inside is not listed.

`depth` is tracked by tags on tensors: the output of a function has the largest depth of its tensor arguments, plus one
if it applies weights (two for `nn.MultiheadAttention`, the number of layers for recurrent ones; time steps do not
count). A tensor without a tag gets, at the end of the module that returns it, the depth of what was running.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from isometer.activations import Activation
from isometer.activations._names import Found, find_call, find_torch
from isometer.doctor.probe import _sites as room
from isometer.doctor.probe import _unseen as why
from isometer.doctor.probe._attention import (
    ATTENTION,
    AttentionReading,
    Unscored,
    follows_product,
    fused_reading,
    softmax_reading,
)
from isometer.doctor.probe._backward import Backward
from isometer.doctor.probe._call_sites import code_line
from isometer.doctor.probe._contractions import summed_axes
from isometer.doctor.probe._module_stack import ROOT, Frame, Frames, transforming
from isometer.doctor.probe._recorder import CUSTOM_FUNCTION, TraceRecorder
from isometer.doctor.probe._reductions import TOKEN_SAMPLES, every, measure, saturated_fraction
from isometer.doctor.probe._sites import Draft
from isometer.doctor.probe._tensor_tags import Operation, Tag, Tags, all_tensors, is_parameter, version
from isometer.doctor.probe._tensor_trees import dense, tensors
from isometer.doctor.probe._trace import TraceStep
from isometer.doctor.probe._unseen import Unseen, unseen
from isometer.doctor.probe._weights import Weights
from isometer.spec import Norm

Tensor = torch.Tensor
_MOST_EARLY, _LARGEST_EARLY = 16, 1 << 21  # representations near the input that are kept, and their entries
_REQUIRES_GRAD: Any = Tensor.requires_grad


class Capture(TorchFunctionMode):
    """Sites of one forward pass, in the order of execution."""

    def __init__(
        self,
        model: nn.Module,
        backward: Backward,
        *,
        samples: int,
        tokens_first: bool,
        layers: Sequence[str] | None,
        spectra: bool,
        whole: bool,
    ) -> None:
        super().__init__()
        self.sites: list[Draft] = []
        self.uses: dict[int, int] = {}  # of each parameter, by any function
        self.spared = False  # the gradients of some parameters are not formed
        self.loss = math.nan
        self.outputs: tuple[int, ...] = ()  # steps of the trace
        self.missed: tuple[Unseen, ...] = ()  # what `unseen` found, once the pass is over
        self.early: dict[int, Tensor] = {}  # representations that a prediction may start from, by step
        self.noted: dict[tuple[str, str], None] = {}  # what is not seen, in order, and why
        self._model, self._backward, self._whole = model, backward, whole
        self._samples, self._tokens_first, self._layers = samples, tokens_first, layers
        self._calls: dict[tuple[str, str], int] = {}
        self._tags = Tags()
        self._frames = Frames(model, self._tags, self._leave)
        self._recorder = TraceRecorder(model, self._tags, whole=whole)
        self._weights = Weights(self._tags, backward, samples=samples, tokens_first=tokens_first, spectra=spectra)

    @property
    def trace(self) -> list[TraceStep]:
        """What each operation read."""
        return self._recorder.steps

    def end(self, output: Any) -> None:
        """Remember which steps made what the model returned; to be called before `detach`."""
        for tensor in dense(output):
            tag = self._tags.of(tensor)
            step = None if tag is None else self._recorder.step_of(tensor, tag)
            self.outputs += () if step is None else (step,)

    def attach(self) -> None:
        """Hooks on every module; `detach` takes them off."""
        self._frames.attach()

    def detach(self) -> None:
        self._frames.detach()
        self._tags.clear()

    def factored(self) -> list[Any]:
        """Nodes of the graph behind sites with `factored` weights; forgotten here, since they hold the graph."""
        nodes, self._weights.factored = self._weights.factored, []
        return nodes

    def start(self, roots: Iterable[Tensor]) -> None:
        """Tag the inputs, and make the first of floating point the site of layer 0."""
        site = Draft("input", "input", "input", 0)
        for tensor in roots:
            # An input of four axes or more is taken for images, channels first.
            tag = self._tags.put(tensor, Tag(tensor, 0, True if tensor.dim() > 3 else None))
            first = tensor.is_floating_point() and not site.value.shape
            if first:
                self._measure(site, tensor, tag)
            tag.step = self._recorder.source("input", "input", tensor, 0 if first else None)
            self._keep(tensor, tag)
        self.sites.append(site)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if self._frames.paused:
            return func(*args, **kwargs)
        name: str = getattr(func, "__name__", "")
        if name == "__set__" and getattr(func, "__self__", None) is _REQUIRES_GRAD and not args[0].is_leaf:
            # The input has a history here and none outside: a model may ask for its gradient and need not.
            return None
        if transforming():
            self._count(args, kwargs)
            self._note(why.TRANSFORMED)
            self._recorder.gap = True
            return func(*args, **kwargs)
        output = func(*args, **kwargs)  # in here, and below, the mode is off
        if name == "__setitem__":
            self._recorder.write(args)
            return output
        if isinstance(output, Tensor):
            if output.is_nested:
                self._pass_on(name, args, kwargs, output)
                return output
            self._see(name, args, kwargs, output, output)
        elif isinstance(output, (tuple, list)):
            first = next(tensors(output), None)
            if first is not None:
                self._see(name, args, kwargs, output, first)
        return output

    def _pass_on(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], output: Tensor) -> None:
        """Tag a nested tensor: samples of different sizes have no Gram matrix, so it is no site."""
        self._count(args, kwargs)
        self._note(why.NESTED)
        tags = [tag for tensor in all_tensors(args, kwargs) if (tag := self._tags.of(tensor)) is not None]
        depth = max((tag.depth for tag in tags), default=0)
        step = self._recorder.module(name, "other", all_tensors(args, kwargs), output)
        self._tags.put(output, Tag(output, depth + (room.kind_of(name) == "weight"), step=step))

    def _note(self, reason: str, name: str = "") -> None:
        frame = self._frames.innermost
        self.noted[name or (ROOT if frame is None else frame.place.name), reason] = None

    def unseen(self, gradients: Collection[int]) -> list[Unseen]:
        """What the pass did not look at; `gradients` are identities of parameters that one came to."""
        for step in self.trace:
            if step.name.startswith(CUSTOM_FUNCTION):
                self._note(why.CUSTOM, step.name.removeprefix(CUSTOM_FUNCTION))
        for site in self.sites:
            if site.kind == "recurrent":
                self._note(why.RECURRENT, site.name)
        return unseen(self._model, self._frames, self.noted, {*self.uses, *gradients})

    def _count(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        for tensor in all_tensors(args, kwargs):
            if is_parameter(tensor):
                self.uses[id(tensor)] = self.uses.get(id(tensor), 0) + 1

    def _see(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, first: Tensor) -> None:
        """Tag what a function returned, and make a site of it if it is one."""
        name = name[1:] if name[:1] == "_" and name[:2] != "__" else name  # torch's inner spellings of the same
        frame = self._frames.innermost
        if frame is not None:
            frame.functions.add(name)
        call = Operation(name, args, kwargs, all_tensors(args, kwargs), first)
        tags: list[Tag] = []
        read: list[Tensor] = []  # those with a tag
        depth = 0
        for tensor in call.given:
            if is_parameter(tensor):
                self.uses[id(tensor)] = self.uses.get(id(tensor), 0) + 1
            tag = self._tags.of(tensor)
            if tag is not None:
                tags.append(tag)
                read.append(tensor)
                depth = max(depth, tag.depth)
        kind, weight = self._kind(call, depth)
        # Without a tag it is on no known way from the input (a mask, an initial state), unless it has the batch's size.
        if not tags and kind is not None and not (first.dim() and first.shape[0] == self._samples):
            kind = None
        if not tags and kind is None:
            return
        if kind == "weight":
            depth += 1
        elif kind == "recurrent":
            depth += int(getattr(frame.module, "num_layers", 1)) if frame is not None else 1
        elif name == "multi_head_attention_forward":
            depth += 2
        layout, behind = _layout(name, kind, tags), None
        if kind != "add" and kind != "weight":
            # Views and elementwise steps hand the weights on; where two layers of weights meet, neither is behind it.
            weights = [tag.weights for tag in tags if tag.weights is not None]
            behind = weights[0] if weights and all(w[0] is weights[0][0] for w in weights) else None
        floating = first.is_floating_point()
        found = find_call(name, args, kwargs) if kind == "activation" else None
        is_site = kind is not None and floating and (frame is None or not frame.place.hidden)
        layer = len(self.sites) if is_site and self._wanted(ROOT if frame is None else frame.place.name) else None
        # Before the outputs get their tags: what is written in place has that of what was read.
        inside = frame is not None and frame.within and bool(tags)
        self._recorder.place = ROOT if frame is None else frame.place.name
        step = (
            tags[0].step
            if inside
            else self._recorder.call(call, zip(read, tags, strict=True), kind, weight, found, layer)
        )
        attention = self._attention(call, tags) if floating and self._whole else None
        made = Tag(first, depth, layout, behind, step)
        if output is not first:
            for tensor in tensors(output):
                self._tags.put(tensor, Tag(tensor, depth, layout, behind, step))
        self._tags.put(first, made)
        self._keep(first, made)
        if kind is None or not floating:
            return
        self._tags.latest = depth
        if is_site:
            own = frame.place.op if frame is not None else None  # of a module of torch's: its functions have its name
            site = self._record(own or name, kind, first, made, frame, "" if own else str(code_line(sys._getframe(1))))
            site.attention = attention
            self._follow(site, call, made, tags[0].site if tags else None, weight, found)
        elif attention is not None and frame is not None:
            frame.attention = attention  # of the module, which will be a site

    def _keep(self, x: Tensor, tag: Tag) -> None:
        """Keep a representation near the input, once: blocks that a theory describes often begin there."""
        if not self._whole or tag.depth > 1 or tag.step is None or tag.step in self.early:
            return
        if not x.is_floating_point() or x.layout is not torch.strided or len(self.early) >= _MOST_EARLY:
            return
        if x.dim() == 3 and x.shape[0] == self._samples:  # samples of a sequence do not mix
            x = x[:: every(self._samples, TOKEN_SAMPLES)]
        elif x.dim() < 2 or (x.shape[0] != self._samples and x.shape[1] != self._samples):
            return
        if 0 < x.numel() <= _LARGEST_EARLY:
            self.early[tag.step] = x.detach().clone()

    def _attention(self, call: Operation, tags: Sequence[Tag]) -> AttentionReading | None:
        """How an attention spreads; none for a softmax over anything else than products of signals."""
        if call.name not in ATTENTION:
            return None
        with torch.no_grad(), torch.autocast(call.output.device.type, enabled=False):
            if call.name == "softmax":
                is_one = bool(tags) and follows_product(self.trace, tags[0].step)
                return softmax_reading(call, self._samples) if is_one else None
            try:
                return fused_reading(call)
            except Unscored:
                self._note(why.FUSED)
                return None

    def _kind(self, call: Operation, depth: int) -> tuple[str | None, Any]:
        """What a call is, `None` where it is no site, and the weight it applies."""
        name, kind = call.name, room.kind_of(call.name)
        if name in room.PRODUCTS:
            weight = self._weight_of_product(call)
            return ("weight" if weight is not None else None), weight
        if name in room.ADDITIONS:
            shape = call.output.shape
            # A bias or a scalar is no skip connection: two summands of full size are, once weights were applied.
            full = [t for t in call.given if t.shape == shape and self._tags.of(t) is not None]
            return ("add" if len(full) > 1 and depth > 0 else None), None
        if kind == "weight":
            return kind, call.argument(1, "weight")
        if kind == "dropout" and not call.argument(2, "training", True):
            return None, None
        return kind, None

    def _weight_of_product(self, call: Operation) -> Tensor | None:
        """The operand of a product that does not come from the input but is trained, or was made to be."""
        operands = call.given[-2:]  # addmm and its kin have the bias in front
        if len(operands) < 2:
            return None
        untagged = [t for t in operands if self._tags.of(t) is None]
        # `W.T` is no parameter but a view whose base is one, trained or frozen.
        free = [t for t in untagged if t.requires_grad or isinstance(t._base, nn.Parameter)]
        free = free or [t for t in operands if is_parameter(t)]
        weight = free[0] if len(free) == 1 else None
        return self._weight_of_einsum(call, weight) if call.name == "einsum" and free else weight

    def _weight_of_einsum(self, call: Operation, weight: Tensor | None) -> Tensor | None:
        """The weights of a contraction, if it is a product of a signal and a matrix; any other is noted."""
        equation = call.args[0]
        of_two = isinstance(equation, str) and len(call.given) == 2
        if weight is not None and of_two and summed_axes(equation, int(weight is call.given[1])) is not None:
            return weight
        text = f" {equation!r}" if isinstance(equation, str) else ""
        self._note(f"multiplies weights in einsum{text}, which is not a product of a signal and a matrix")
        return None

    def _follow(
        self, site: Draft, call: Operation, made: Tag, source: Draft | None, weight: Any, found: Found | None
    ) -> None:
        """What is read of a site of one kind only, and which weights stand behind its output."""
        name, kind, behind = call.name, site.kind, made.weights
        if kind == "activation":
            made.weights = None
            _read_activation(site, call, found)
            _join(site, source, behind)
        elif kind == "norm":
            site.statistics = _batch_statistics(call)
            made.weights = None if behind is None else (behind[0], True)
        elif kind in ("weight", "recurrent") or name == "multi_head_attention_forward":
            made.weights = (site, False) if kind == "weight" and "embedding" not in name else None
            self._weights.apply(site, call, weight)
        elif kind != "dropout" and kind != "pool":
            made.weights = None

    def _leave(self, frame: Frame, output: Any) -> None:
        """Tag what a module returned, and make it a site if it is a leaf whose output no function accounts for."""
        place, tag = frame.place, self._tags.of(output) if isinstance(output, Tensor) else None
        if tag is not None and tag.site is not None and place.activation is None:
            return  # the usual case, and the fast one: a function inside made the site
        outputs = [t for t in tensors(output) if t.is_floating_point() and not t.is_nested]
        applies_weights = place.leaf and not place.torch_leaf and next(place.module.parameters(), None) is not None
        for tensor in outputs:
            if self._tags.of(tensor) is None:
                step = self._recorder.untagged(type(place.module).__name__, frame, tensor)
                self._tags.put(tensor, Tag(tensor, frame.depth + applies_weights, step=step))
        site = self._module_site(frame, outputs)
        if outputs and (site is not None or (place.activation is not None and not frame.outer)):
            self._step_of_module(frame, outputs[0], site)

    def _module_site(self, frame: Frame, outputs: Sequence[Tensor]) -> Draft | None:
        place = frame.place
        # A model that is itself a leaf has its functions listed; it is a site only where none of them was one.
        accounted_for = place.module is self._model and len(self.sites) > 1
        if not place.leaf or accounted_for or not outputs or any(outputs[0] is tensor for tensor in frame.inputs):
            return None
        tag = self._tags.of(outputs[0])
        if tag is None or tag.site is not None or not frame.computed():
            return None
        kind = frame.kind() if find_torch(place.module) is None else "activation"
        site = self._record(type(place.module).__name__, kind, outputs[0], tag, frame)
        self._follow_module(site, place.module, tag, frame.inputs)
        site.attention = frame.attention
        return site

    def _step_of_module(self, frame: Frame, output: Tensor, site: Draft | None) -> None:
        """A module that is a site, or that the registry knows, is one step of the trace."""
        tag = self._tags.of(output)
        if tag is None:
            return
        own = site if site is not None else tag.site
        layer = len(self.sites) - 1 if own is not None and self.sites[-1] is own else None
        name, text = type(frame.module).__name__, frame.place.activation
        if text is not None and not frame.outer:
            tag.step = self._recorder.module(name, "activation", frame.inputs, output, layer, text)
        elif layer is not None:
            tag.step = self._recorder.give_layer(tag.step, layer, name, frame.inputs, output)

    def _follow_module(self, site: Draft, module: nn.Module, made: Tag, inputs: Sequence[Tensor]) -> None:
        """The same for an activation or a normalisation that is a module written out in elementary operations."""
        before = next((tag for tag in map(self._tags.of, inputs) if tag is not None), None)
        if before is None:
            return
        if site.kind == "activation":
            made.weights = None
            phi, found = getattr(module, "activation", None), find_torch(module)
            known = None if found is None else found.text
            site.activation = phi.name if isinstance(phi, Activation) else known
            _join(site, before.site, before.weights)
        elif site.kind == "norm":
            made.weights = None if before.weights is None else (before.weights[0], True)
            norm, shape = getattr(module, "norm", None), site.value.shape
            if isinstance(norm, Norm) and norm.over == "batch" and module.training and len(shape) > 1:
                site.statistics = math.prod(shape) // shape[1]

    def _record(self, op: str, kind: str, output: Tensor, tag: Tag, frame: Frame | None, where: str = "") -> Draft:
        name = frame.place.name if frame is not None else ROOT
        call = self._calls[name, op] = self._calls.get((name, op), -1) + 1
        site = Draft(name, op, kind, tag.depth, call, where)
        # A site that `layers` leaves out is not measured, but later sites still refer to it.
        if self._wanted(name):
            self.sites.append(site)
            self._measure(site, output, tag)
        return site

    def _wanted(self, name: str) -> bool:
        return self._layers is None or any(fnmatchcase(name, pattern) for pattern in self._layers)

    def _measure(self, site: Draft, output: Tensor, tag: Tag) -> None:
        """Read the output of a site, and its gradient when it comes."""
        channels_first = output.dim() > 3 if tag.channels_first is None else tag.channels_first
        tokens_first, device = self._tokens_first and not channels_first, output.device.type
        how: Any = {"units": site.kind == "activation", "channels_first": channels_first, "tokens_first": tokens_first}
        if torch.is_autocast_enabled(device):  # inner products in half precision would measure the precision
            with torch.autocast(device, enabled=False):
                site.value = measure(output, self._samples, **how)
        else:
            site.value = measure(output, self._samples, **how)
        tag.site, tag.version = site, version(output)  # written to later, the tensor is no longer what was measured
        self._backward.watch_output(site, output)


def _read_activation(site: Draft, call: Operation, found: Found | None) -> None:
    site.activation = None if found is None else found.text
    limits = room.saturation_limits(found)
    if limits is not None and site.value.finite:
        site.saturated = saturated_fraction(call.output.detach(), limits)


def _join(site: Draft, source: Draft | None, behind: tuple[Draft, bool] | None) -> None:
    """Tell an activation what it reads, and the weights behind it what follows them."""
    if source is not None:
        site.input_rms = source.value.rms
        source.pre_activation = source.kind != "input"
    if behind is not None:
        weights, normalized = behind
        weights.activation, weights.followed, weights.normalized = site.activation, True, normalized
        weights.pre_activation = weights.pre_activation or not normalized


def _layout(name: str, kind: str | None, tags: Sequence[Tag]) -> bool | None:
    """Whether channels come before positions in what a function returns."""
    if name in room.CONVOLUTIONS or kind == "pool" or name in ("group_norm", "instance_norm", "batch_norm"):
        return True
    if kind in ("weight", "attention", "recurrent") or name in ("layer_norm", "rms_norm"):
        return False
    if kind is not None or name in room.ELEMENTWISE or name in room.ADDITIONS:
        return next((tag.channels_first for tag in tags if tag.channels_first is not None), None)
    return None


def _batch_statistics(call: Operation) -> int:
    """How many values each statistic of a batch normalisation is taken over; 0 where running ones are used."""
    if call.name != "batch_norm" or not call.argument(5, "training", False) or call.output.dim() < 2:
        return 0
    return call.output.numel() // max(1, call.output.shape[1])
