"""What puts causes right, each a function on a model: weights, norms, what is frozen, activations, inputs, outputs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isometer.doctor.causes._data import InUnits, input_repairs
from isometer.doctor.probe._calling import call
from isometer.doctor.probe._subject import all_or_nothing
from isometer.doctor.probe._tensor_trees import owned
from isometer.doctor.probe._world import World
from isometer.doctor.stress._reference import by_the_book_
from isometer.doctor.treatment._surgery import put
from isometer.errors import IsometerError, unknown_name

Tensor = torch.Tensor
_EPS = 1e-5


def redraw_(model: nn.Module, batch: Any, modules: Sequence[str] | None = None, *, seed: int = 0) -> tuple[str, ...]:
    """Redraw the weights of modules by the book, in place.

    Matrices are Gaussian, scaled in one pass over the batch so that what each layer returns has mean square 1, or,
    where modules are named, is as large as what it is given; biases are zero, norms have gain 1. Tied weights stay
    tied.

    Args:
        model: the model.
        batch: what it is called with.
        modules: names of the modules; they are trained from then on, even if they were frozen. By default, all that
            are not frozen.
        seed: seed of the weights.

    Returns:
        Names of the modules that were redrawn.

    Raises:
        IsometerError: a name is not known, or nothing can be redrawn. The model is then as it was.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> model[0].weight.data.mul_(1e4).std().item() > 1000
        True
        >>> redraw_(model, torch.randn(16, 4), modules=["0"])
        ('0',)
        >>> 0.1 < model[0].weight.std().item() < 2
        True
    """
    names = _named(model, modules) if modules is not None else _drawable(model)
    if not names:
        raise IsometerError("no module has weights that are trained; expected some to redraw — call unfreeze_ first")

    # Calls for different modules with one seed must not draw the same numbers.
    own = seed if modules is None else seed + zlib.crc32(",".join(names).encode())

    def work() -> None:
        with _as_it_was(model):
            by_the_book_(
                model, lambda one: call(one, owned(batch)), seed=own, only=set(names), alone=modules is not None
            )

    all_or_nothing(model, work)
    return names


def _drawable(model: nn.Module) -> tuple[str, ...]:
    found = []
    for name, module in model.named_modules():
        own = [p for p in module.parameters(recurse=False) if p.is_floating_point()]
        if own and all(p.requires_grad for p in own):
            found.append(name)
    return tuple(found)


def reset_norms_(model: nn.Module, modules: Sequence[str]) -> tuple[str, ...]:
    """Reset normalisations to their initial state, in place: gain 1, shift 0, a small eps, statistics of the batch.

    Args:
        model: the model.
        modules: names of the normalisations.

    Returns:
        Their names.

    Raises:
        IsometerError: a name is not known.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4, eps=100.0))
        >>> reset_norms_(model, modules=["1"]), model[1].eps
        (('1',), 1e-05)
    """
    names = _named(model, modules)
    for name in names:
        norm: Any = model.get_submodule(name)
        for key in ("eps", "variance_epsilon"):
            if isinstance(getattr(norm, key, None), float) and getattr(norm, key) > _EPS:
                setattr(norm, key, _EPS)
        for key, value in (("weight", 1.0), ("bias", 0.0)):
            if isinstance(getattr(norm, key, None), Tensor):
                getattr(norm, key).data.fill_(value)
                getattr(norm, key).requires_grad_()
        norm.train(model.training)
    return names


def unfreeze_(model: nn.Module, modules: Sequence[str] | None = None) -> tuple[str, ...]:
    """Unfreeze the parameters of modules, in place.

    Args:
        model: the model.
        modules: names of the modules; everything by default.

    Returns:
        Names of the parameters that were frozen.

    Raises:
        IsometerError: a name is not known, or nothing is frozen.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).requires_grad_(False)
        >>> unfreeze_(model, modules=["1"])
        ('1.weight', '1.bias')
    """
    names = None if modules is None else set(_named(model, modules))
    frozen = {
        f"{path}.{name}" if path else name: parameter
        for path, module in model.named_modules()
        if names is None or path in names
        for name, parameter in module.named_parameters(recurse=False)
        if parameter.is_floating_point() and not parameter.requires_grad
    }
    if not frozen:
        raise IsometerError("no parameter is frozen; expected at least one — there is nothing to do")
    for parameter in frozen.values():
        parameter.requires_grad_()
    return tuple(frozen)


def standardise_inputs_(model: nn.Module, batch: Any) -> tuple[str, ...]:
    """Standardise a model's inputs with the mean and size of a batch, in place.

    A hook of the model subtracts the mean, divides by the standard deviation, and replaces what is not finite. If you
    can, do the same where the data are prepared instead.

    Args:
        model: the model.
        batch: what it is called with.

    Returns:
        What is unusual about the inputs.

    Raises:
        IsometerError: nothing is unusual.

    Example:
        >>> model = nn.Identity()
        >>> x = 100 + torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
        >>> standardise_inputs_(model, x)
        ('the inputs have mean 1e+02 and standard deviation 0.92',)
        >>> abs(model(x).mean().item()) < 1e-4
        True
    """
    found = input_repairs([batch])
    if not found:
        raise IsometerError(
            "the inputs of the batch have a usual scale; expected an offset or unusual units — there is nothing to do"
        )
    for repair in found:
        repair.change(model)
    return tuple(repair.evidence for repair in found)


def output_units_(model: nn.Module, *, mean: float, scale: float, loss: float = 1.0) -> None:
    """Make a model return `mean + scale · output`, in place: the units of targets that are not standardised.

    Args:
        model: the model.
        mean: mean of the targets.
        scale: their standard deviation.
        loss: factor of the gradients: how much larger the loss would be if the targets were standardised, for a mean
            squared error 1 / scale².

    Raises:
        IsometerError: a number is not positive.

    Example:
        >>> model = nn.Identity()
        >>> output_units_(model, mean=1000.0, scale=20.0)
        >>> model(torch.ones(1)).item()
        1020.0
    """
    if not scale > 0:
        raise IsometerError(f"scale is {scale}; expected a positive number — pass the standard deviation of targets")
    if not loss > 0:
        raise IsometerError(f"loss is {loss}; expected a positive number — pass 1 / scale² for a mean squared error")
    InUnits(mean, scale, loss)(model)


def exchange_activations_(model: nn.Module, modules: Sequence[str]) -> tuple[str, ...]:
    """Replace activations by ReLU, in place.

    Args:
        model: the model.
        modules: names of the activations.

    Returns:
        Their names.

    Raises:
        IsometerError: a name is not known, or is the model itself.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.Softmax(-1))
        >>> exchange_activations_(model, modules=["1"]), model[1]
        (('1',), ReLU())
    """
    names = _named(model, modules)
    if "" in names:
        raise IsometerError("modules names the model itself; expected activations inside it — pass their names")
    for name in names:
        put(model, name, nn.ReLU())
    return names


def insert_activations_(model: nn.Module, modules: Sequence[str]) -> tuple[str, ...]:
    """Put a ReLU after layers, in place, by hooks of these modules, so that all names stay.

    Args:
        model: the model.
        modules: names of the layers.

    Returns:
        Their names.

    Raises:
        IsometerError: a name is not known.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        >>> insert_activations_(model, modules=["0"]), bool((model[0](torch.randn(9, 2)) >= 0).all())
        (('0',), True)
    """
    names = _named(model, modules)
    for name in names:
        model.get_submodule(name).register_forward_hook(_relu)
    return names


def _relu(module: nn.Module, args: Any, output: Any) -> Any:
    return output.relu() if isinstance(output, Tensor) else output


def _named(model: nn.Module, modules: Sequence[str]) -> tuple[str, ...]:
    known = dict(model.named_modules(remove_duplicate=False))
    for name in modules:
        if name not in known:
            raise unknown_name("module", name, list(known))
    return tuple(dict.fromkeys(modules))


@contextmanager
def _as_it_was(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in training mode; afterwards modes, buffers and generators are what they were."""
    world = World()
    modes = [(module, module.training) for module in model.modules()]
    buffers = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    model.train()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for module, name, buffer, value in buffers:
                module._buffers[name] = buffer
                if buffer.shape == value.shape:
                    buffer.copy_(value)
                else:  # the model resizes it when it runs
                    buffer.data = value
        world.restore()


Change = Callable[[nn.Module], object]


@dataclass(frozen=True, eq=False)
class ByHand:
    """A change that no function on the model expresses: carried out by hooks, and told as a line to change.

    Example:
        >>> ByHand("Leave out the division at model.py:42.", lambda model: model.eval()).line(0)
        '# Leave out the division at model.py:42.'

    Attributes:
        advice: what to change in the code, one sentence.
        change: does the same to a model.
    """

    advice: str
    change: Change

    @property
    def imported(self) -> str:
        """Nothing is imported."""
        return ""

    def make(self, model: nn.Module, batch: Any, seed: int) -> Any:
        """Make the change."""
        return self.change(model)

    def line(self, seed: int) -> str:
        """A comment."""
        return f"# {self.advice}"
