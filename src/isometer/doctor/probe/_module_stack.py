"""Modules while they run: hooks that know which one it is, and what a leaf module did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from isometer.activations._names import find_torch
from isometer.doctor.probe import _sites as room
from isometer.doctor.probe._attention import AttentionReading
from isometer.doctor.probe._tensor_tags import Tags, all_tensors

Tensor = torch.Tensor
ROOT = "(model)"
_REARRANGING = frozenset(
    {"reshape", "view", "flatten", "permute", "transpose", "unflatten", "squeeze", "unsqueeze"}
    | {"__get__", "size", "dim", "contiguous"}
)


def transforming() -> bool:
    """Whether vmap, grad or another transform of torch.func is at work: its tensors have no numbers to read."""
    return torch._C._functorch.peek_interpreter_stack() is not None


class Place:
    """A module of the model."""

    __slots__ = ("activation", "hidden", "leaf", "module", "name", "op", "torch_leaf")

    def __init__(self, name: str, module: nn.Module, leaf: bool, root: bool) -> None:
        self.name, self.module, self.leaf = name, module, leaf
        self.torch_leaf = leaf and type(module).__module__.startswith("torch.nn.")
        self.hidden = leaf and not self.torch_leaf and not module._parameters and not root
        named = self.torch_leaf or isinstance(module, nn.MultiheadAttention)
        self.op = type(module).__name__ if named else None  # what its functions are called
        found = None if type(module).__module__.startswith("torch.") else find_torch(module)
        self.activation = None if found is None else found.text  # of a class that the registry knows


class Frame:
    """A module that is running."""

    __slots__ = ("attention", "depth", "functions", "inputs", "module", "outer", "place")

    def __init__(self, place: Place, inputs: list[Tensor], depth: int, outer: bool) -> None:
        self.place, self.module = place, place.module
        self.inputs, self.depth = inputs, depth
        self.outer = outer  # whether it runs inside a module that is one step of the trace
        self.functions: set[str] = set()
        self.attention: AttentionReading | None = None

    @property
    def within(self) -> bool:
        """Whether what runs in it belongs to a module that is one step of the trace."""
        return self.outer or self.place.activation is not None

    def computed(self) -> bool:
        """Whether a leaf did more than hand on or rearrange its input."""
        if isinstance(self.module, (nn.Identity, nn.Flatten, nn.Unflatten, nn.PixelShuffle, nn.PixelUnshuffle)):
            return False
        return not self.functions or not self.functions <= _REARRANGING

    def kind(self) -> str:
        """What a leaf written out in elementary functions is."""
        functions = {name.removesuffix("_") for name in self.functions}
        if functions & room.ATTENTION:
            return "attention"
        if room.is_nonlinear(functions) and not functions & (room.PRODUCTS | room.WEIGHTS | {"mean", "var", "sum"}):
            return "activation"
        return "norm" if functions & {"rsqrt", "var", "std", "sqrt", "norm"} else "other"


class Frames:
    """The modules that are running, innermost last; `leave` is called with what each returned."""

    def __init__(self, model: nn.Module, tags: Tags, leave: Callable[[Frame, Any], None]) -> None:
        self.paused = False  # while a hook works, so that what it calls is not seen
        self._model, self._tags, self._leave = model, tags, leave
        self.called: set[int] = set()  # identities of modules
        self._running: list[Frame] = []
        self._handles: list[Any] = []

    @property
    def innermost(self) -> Frame | None:
        return self._running[-1] if self._running else None

    @staticmethod
    def name(path: str) -> str:
        """How a part of the model is called: as it was before torch.compile wrapped a submodule."""
        return path.replace("_orig_mod.", "").replace("._orig_mod", "") or ROOT

    def attach(self) -> None:
        """Hooks on every module; `detach` takes them off."""
        scripted: list[str] = []
        for path, module in self._model.named_modules():
            # Compiled code calls no Python hooks: a scripted module is one place.
            if scripted and any(path.startswith(parent) for parent in scripted):
                continue
            is_script = isinstance(module, torch.jit.ScriptModule)
            if is_script:
                scripted.append(f"{path}." if path else "")
            name = self.name(path)
            leaf = is_script or not any(child is not None for child in module._modules.values())
            before, after = self._hooks(Place(name, module, leaf, module is self._model))
            # Not by the module's own method: scripted modules refuse, though they call the hooks.
            register = nn.Module.register_forward_pre_hook, nn.Module.register_forward_hook
            self._handles.append(register[0](module, before, with_kwargs=True))
            # Also called where the module raises, so that its frame is taken off.
            self._handles.append(register[1](module, after, always_call=True))

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _hooks(self, place: Place) -> tuple[Callable[..., None], Callable[..., None]]:
        def before(module: nn.Module, args: Any, kwargs: Any) -> None:
            self.called.add(id(module))
            if self.paused or transforming():
                return
            self.paused = True
            try:
                inputs, depth = all_tensors(args, kwargs), 0
                for tensor in inputs:
                    tag = self._tags.of(tensor)
                    if tag is not None and tag.depth > depth:
                        depth = tag.depth
                outer = self.innermost
                self._running.append(Frame(place, inputs, depth, outer is not None and outer.within))
            finally:
                self.paused = False

        def after(module: nn.Module, args: Any, output: Any) -> None:
            running = self._running
            # A module entered while hooks were paused has no frame.
            if self.paused or transforming() or not any(frame.module is module for frame in reversed(running)):
                return
            self.paused = True
            try:
                while (left := running.pop()).module is not module:
                    pass  # modules that raised, and the model went on
                if output is not None:
                    self._leave(left, output)
            finally:
                self.paused = False

        return before, after
