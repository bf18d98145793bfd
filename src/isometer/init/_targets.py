"""Which weights an initialiser may write to, checked before anything is written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

from isometer.errors import IsometerError
from isometer.init._outcome import LayerOutcome

Tensor = torch.Tensor
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True, eq=False)
class WeightTarget:
    """A weight that may be written: `(out, in)` or a kernel `(out, in/groups, …)`."""

    name: str
    weight: Tensor
    bias: Tensor | None = None
    module: nn.Module | None = None
    groups: int = 1

    @property
    def fan_in(self) -> int:
        return math.prod(self.weight.shape[1:])

    @property
    def fan_out(self) -> int:
        return self.weight.shape[0] // self.groups * math.prod(self.weight.shape[2:])

    @property
    def matrices(self) -> tuple[int, int, int]:
        """Groups, rows and columns of the matrices that multiply unfolded patches."""
        return self.groups, self.weight.shape[0] // self.groups, self.fan_in

    def write(self, weight: Tensor) -> None:
        """Set the weights, converted to their own dtype and device."""
        with torch.no_grad():
            self.weight.copy_(weight.reshape(self.weight.shape))

    def outcome(self, **numbers: float) -> LayerOutcome:
        values = self.weight.detach().double()
        gain = float(values.std(correction=0)) * math.sqrt(self.fan_in)
        return LayerOutcome(self.name, tuple(self.weight.shape), gain, numbers)


def targets(
    target: Any, layers: Sequence[str] | str | None = None, *, order: Sequence[str] | None = None
) -> tuple[list[WeightTarget], tuple[tuple[str, str], ...]]:
    """The weights of a tensor, a layer or a whole model, and what is left alone and why.

    Args:
        target: a weight tensor, an `nn.Linear` or `nn.Conv…`, or a module that contains some.
        layers: patterns of module names to which a model is restricted.
        order: names in order of execution; those which are not in it were never run.

    Raises:
        IsometerError: there is nothing to write to, or it must not be written to.
    """
    if isinstance(target, Tensor):
        if target.dim() < 2:
            raise IsometerError(
                f"weight has shape {tuple(target.shape)}; expected (out, in) or (out, in, …) — pass a matrix or kernel"
            )
        # a plain tensor requires no grad and is not frozen for that
        _check(target, "the weight", allow_frozen=not isinstance(target, nn.Parameter))
        return [WeightTarget("", target)], ()
    if not isinstance(target, nn.Module):
        raise IsometerError(
            f"target is a {type(target).__name__}; expected a tensor, a layer or a model — pass a torch.nn.Module"
        )
    target = unwrapped(target)
    patterns = [layers] if isinstance(layers, str) else layers
    found: list[WeightTarget] = []
    skipped: list[tuple[str, str]] = []
    for name, module in target.named_modules():
        if patterns is not None and not any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        if type(module).__module__.startswith(("torch.ao.", "torch.nn.quantized", "torch.nn.qat")):
            raise IsometerError(
                f"module {name or type(module).__name__!r} is quantised; expected floating point weights — "
                "initialise the model before quantising it"
            )
        if isinstance(module, _LAYERS):
            found.append(_target(name, module))
        elif any(p is not None and not nn.parameter.is_lazy(p) and p.dim() > 1 for p in module._parameters.values()):
            skipped.append((name, f"{type(module).__name__} is neither a linear layer nor a convolution"))
    if order is not None:
        place = {name: index for index, name in enumerate(dict.fromkeys(order))}
        skipped += [(t.name, "the batch does not reach it") for t in found if t.name not in place]
        found = sorted((t for t in found if t.name in place), key=lambda t: place[t.name])
    if not found:
        where = "" if patterns is None else f" with a name like {', '.join(patterns)}"
        raise IsometerError(
            f"{type(target).__name__} has no linear layer or convolution{where}; expected one — pass a model that has"
        )
    _check_ties(target, found)
    return found, tuple(skipped)


def _target(name: str, module: nn.Module) -> WeightTarget:
    label = f"{name}.weight" if name else "weight"
    # the old weight_norm and spectral_norm are hooks that take the parameter away
    if parametrize.is_parametrized(module, "weight") or "weight" not in module._parameters:
        raise IsometerError(
            f"{label!r} is computed from other parameters; expected a parameter of its own — remove the "
            "parametrisation first and put it back afterwards"
        )
    weight = module._parameters["weight"]
    assert weight is not None
    bias = module._parameters.get("bias")
    _check(weight, repr(label))
    groups = int(getattr(module, "groups", 1))
    return WeightTarget(name, weight, bias, module, groups)


def _check(weight: Tensor, label: str, *, allow_frozen: bool = False) -> None:
    if nn.parameter.is_lazy(weight):
        raise IsometerError(f"{label} has no shape yet; expected an initialised model — run it on a batch once")
    if weight.is_meta:
        raise IsometerError(
            f"{label} is on the meta device and has no values; expected memory — call model.to_empty(device='cpu')"
        )
    if weight.is_quantized or not weight.is_floating_point():
        raise IsometerError(
            f"{label} has dtype {weight.dtype}; expected floating point — initialise the model before quantising it"
        )
    if weight.layout is not torch.strided:
        raise IsometerError(f"{label} has layout {weight.layout}; expected a dense tensor — convert it")
    if not weight.numel():
        raise IsometerError(f"{label} has shape {tuple(weight.shape)}; expected at least one entry — drop the layer")
    if not weight.requires_grad and not allow_frozen:
        raise IsometerError(
            f"{label} is frozen (requires_grad is False); expected trainable weights — unfreeze it, or name the "
            "layers to set with layers=[…]"
        )


def _check_ties(model: nn.Module, found: Sequence[WeightTarget]) -> None:
    owners: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.numel() and not parameter.is_meta and parameter.layout is torch.strided:
            # by memory: views of one storage are tied as much as one parameter under two names
            owners.setdefault(parameter.untyped_storage().data_ptr(), []).append(name)
    for target in found:
        names = owners.get(target.weight.untyped_storage().data_ptr(), [])
        if len(names) > 1:
            raise IsometerError(
                f"{names[0]!r} and {names[1]!r} share their memory; expected weights of their own — untie them, or "
                "name the layers to set with layers=[…]"
            )


@contextmanager
def all_or_nothing(found: Sequence[WeightTarget]) -> Iterator[None]:
    """Put weights and biases back if anything raises."""
    kept = [(tensor, tensor.detach().clone()) for t in found for tensor in (t.weight, t.bias) if tensor is not None]
    try:
        yield
    except BaseException:  # Ctrl-C too
        with torch.no_grad():
            for tensor, value in kept:
                tensor.copy_(value)
        raise


def normals(shape: Sequence[int], seed: int, index: int) -> Tensor:
    """Standard normal numbers in float64, a stream of their own for each layer; no global generator is touched."""
    return torch.randn(tuple(shape), generator=_generator(seed, index), dtype=torch.float64)


def uniforms(shape: Sequence[int], seed: int, index: int) -> Tensor:
    """Uniform numbers on [0, 1) in float64, likewise."""
    return torch.rand(tuple(shape), generator=_generator(seed, index), dtype=torch.float64)


def _generator(seed: int, index: int) -> torch.Generator:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise IsometerError(f"seed is {seed!r}; expected a whole number of at least 0 — pass one")
    state = np.random.SeedSequence(seed, spawn_key=(index,)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def finite(value: Any, name: str, *, positive: bool = True) -> float:
    """A finite number, positive unless told otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise IsometerError(f"{name} is {value!r}; expected a finite number — pass one")
    if positive and not value > 0:
        raise IsometerError(f"{name} is {value!r}; expected a number above 0 — pass one")
    return float(value)


def unwrapped(model: nn.Module) -> nn.Module:
    """Of a compiled model, the one it was made from."""
    inner = getattr(model, "_orig_mod", model)
    return inner if isinstance(inner, nn.Module) else model


def run(model: nn.Module, batch: Any) -> None:
    """Call a model on a batch the way `isometer.probe` does."""
    if isinstance(batch, Mapping):
        model(**batch)
    elif isinstance(batch, (tuple, list)) and not hasattr(batch, "_fields"):  # a named tuple is one argument
        model(*batch)
    else:
        model(batch)
