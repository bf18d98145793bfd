"""Models of the package `transformers`, built from small configurations; nothing is downloaded.

Options of a blueprint are entries of the configuration, except those in `PATCHES`: they change the finished model where
the configuration has no entry for the fault.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from isometer.extras import need
from isometer.trial._family import Blueprint, Options

PATCHES = ("norms", "skip", "scores", "turn", "places", "mask", "pool")
"""Options that are no entries of a configuration."""


def library() -> Any:
    """The package, told to keep quiet about missing kernels."""
    package = need("transformers", "this family")
    package.logging.set_verbosity_error()
    return package


def entries(options: Options) -> Options:
    """The options that the configuration reads."""
    return {name: value for name, value in options.items() if name not in PATCHES}


class SkipHook:
    """A hook on a layer that multiplies its skip, or leaves it out."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, layer: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
        entering = inputs[0] if inputs else next(iter(named.values()))
        first = output[0] if isinstance(output, tuple) else output
        changed = first + (self.factor - 1.0) * entering
        return (changed, *output[1:]) if isinstance(output, tuple) else changed


class NoNorm(nn.Module):
    """Nothing in the place of a norm; the weight is there because some models ask for its type."""

    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x


def _without_norms(model: nn.Module) -> None:
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if "Norm" in type(child).__name__:
                setattr(parent, name, NoNorm())


def patch(model: nn.Module, blueprint: Blueprint, layers: str, places: str = "") -> nn.Module:
    """Put the faults in that need a changed model.

    Args:
        model: from the library.
        blueprint: whose options say which.
        layers: path of the list of layers.
        places: path of the table of positions, if there is one.
    """
    o = blueprint.options
    if o.get("norms") == "none":
        _without_norms(model)
    if "skip" in o:
        stack = model.get_submodule(layers)
        for layer in stack if isinstance(stack, nn.ModuleList) else [stack]:
            layer.register_forward_hook(SkipHook(o["skip"]), with_kwargs=True)
    for module in model.modules():
        if "scores" in o:
            for name in ("scaling", "inv_norm_factor", "scale"):
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, getattr(module, name) * o["scores"])
        if "turn" in o:
            for name, buffer in module.named_buffers(recurse=False):
                if name.endswith("inv_freq"):
                    buffer.mul_(o["turn"])
    if o.get("places") == "none":
        table = model.get_submodule(places).weight
        assert isinstance(table, nn.Parameter)
        nn.init.zeros_(table)
        table.requires_grad_(False)
    return model


def _seen(steps: int, kind: str) -> Tensor:
    """What is added to the scores, as the library wants it: `[1, 1, steps, steps]`."""
    row, column = torch.arange(steps)[:, None], torch.arange(steps)[None]
    allowed = {"reversed": column >= row, "itself": column == row, "first": (column == 0) & (row >= 0)}[kind]
    return torch.zeros(1, 1, steps, steps).masked_fill(~allowed, torch.finfo(torch.float32).min)


class Logits(nn.Module):
    """A model of the library that returns its logits only."""

    def __init__(self, model: nn.Module, mask: str | None = None, **fixed: Any) -> None:
        super().__init__()
        self.model, self.mask, self.fixed = model, mask, fixed

    def forward(self, tokens: Tensor) -> Tensor:
        more = dict(self.fixed)
        if self.mask is not None:
            steps = tokens.shape[1]
            more["attention_mask"] = _seen(steps, self.mask).expand(len(tokens), 1, steps, steps)
        logits: Tensor = self.model(tokens, **more).logits
        return logits
