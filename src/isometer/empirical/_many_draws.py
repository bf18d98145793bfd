"""Kernels of many random networks at once: all draws of the weights pass through one network together.

The kernel of one model is `empirical_kernel`'s; where a mean over a hundred thousand small networks is asked for, the
time of building and copying each would be all there is. Here weights have a leading axis of draws, and torch.func maps
the network over it. A test compares the kernels with `empirical_kernel` at the same weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, vmap

from isometer.empirical._result import Kind
from isometer.errors import IsometerError
from isometer.nn import build
from isometer.simulate._attention import query_gain
from isometer.spec import Attention, Bias, Convolution, Dense, Spec, Step
from isometer.spec._steps import walk

Tensor = torch.Tensor
Floats = NDArray[np.float64]
_NUMBERS = 1 << 23  # of derivatives, or of activations, at a time


def kernels_of_draws(spec: Spec, inputs: Floats, kind: Kind, draws: int, seed: int) -> Iterator[Floats]:
    """Kernels (some draws, n, n) of networks with independent Gaussian weights, block after block.

    Args:
        spec: Gaussian weights, a linear readout at the end.
        inputs: (n, …) as the spec has it.
        kind: "ntk" in the theory's units: ω in W = σω/√d is trained, and outputs are averaged; "nngp" of what the
            readout reads.
        draws: in all.
        seed: seed of the weights.

    Example:
        >>> spec = Spec("input(2) > dense(8) > act('relu') > dense(1)")
        >>> sum(len(block) for block in kernels_of_draws(spec, np.eye(2), "ntk", 30, 0))
        30
    """
    model = build(spec, seed=0, dtype=torch.float64).train()
    deviations = weight_deviations(spec, model)
    if kind == "nngp":
        readout = next(name for name, one in reversed(list(model.named_modules())) if isinstance(one, nn.Linear))
        parent, _, name = readout.rpartition(".")
        setattr(model.get_submodule(parent), name, nn.Identity())
    batch = torch.from_numpy(np.asarray(inputs, dtype=np.float64))
    generator = torch.Generator().manual_seed(seed)
    shapes = {name: one.shape for name, one in model.named_parameters()}
    rows = 1 if kind == "nngp" else len(batch)
    step = max(1, _NUMBERS // (rows * sum(shape.numel() for shape in shapes.values())))
    for at in range(0, draws, step):
        size = (min(step, draws - at),)
        weights = {
            name: deviations[name] * torch.randn(*size, *shape, generator=generator, dtype=torch.float64)
            for name, shape in shapes.items()
        }
        yield (_conjugate if kind == "nngp" else _tangent)(model, weights, batch, deviations)


def weight_deviations(spec: Spec, model: nn.Module) -> dict[str, float]:
    """The standard deviation of each parameter of a network built from a spec, in the order of execution.

    Example:
        >>> spec = Spec("input(4) > dense(9, gain=2.0) > bias(0.25) > act('relu') > dense(1)")
        >>> weight_deviations(spec, build(spec))
        {'dense.weight': 1.0, 'dense.bias': 0.5, 'dense2.weight': 0.3333333333333333}
    """
    steps = [step for layer, _ in spec.executed_layers() for step in walk(layer)]
    drawn = [one for step in steps for one in _gains(step)]
    named = dict(model.named_parameters())
    if len(drawn) != len(named):
        raise IsometerError(
            f"the network has {len(named)} parameters for {len(drawn)} random steps; expected only those of dense, "
            "convolution, attention and bias steps"
        )
    return {
        name: gain / float(one[0].numel()) ** 0.5 if scaled else gain
        for (name, one), (gain, scaled) in zip(named.items(), drawn, strict=True)
    }


def _gains(step: Step) -> list[tuple[float, bool]]:
    """Of each parameter of a step: its size, and whether the root of the fan-in divides it."""
    if isinstance(step, Bias):
        return [(float(step.variance) ** 0.5, False)]
    if not isinstance(step, Dense | Convolution | Attention):
        return []
    if step.weights != "gaussian" or getattr(step, "weight_scaling", "fan_in") != "fan_in":
        raise IsometerError(f"the network has {step.weights!r} weights; expected Gaussian ones, scaled by the fan-in")
    if isinstance(step, Attention):
        gains = [query_gain(step), query_gain(step), step.value_gain, step.output_gain]
    else:
        gains = [step.gain]
    return [(float(gain), True) for gain in gains]  # type: ignore[arg-type]


def _outputs(model: nn.Module, weights: dict[str, Tensor], batch: Tensor) -> Tensor:
    """(draws, n, …): every draw has its own copy of buffers, which training mode writes to."""
    draws = len(next(iter(weights.values())))
    buffers = {name: one.expand(draws, *one.shape).clone() for name, one in model.named_buffers()}
    with warnings.catch_warnings():
        # Running statistics are written one draw after the other inside torch, which says so.
        warnings.filterwarnings("ignore", message=".*batching rule.*")
        found: Tensor = vmap(lambda given: functional_call(model, given, (batch,)), randomness="different")(
            {**weights, **buffers}
        )
    return found


def _conjugate(model: nn.Module, weights: dict[str, Tensor], batch: Tensor, _: dict[str, float]) -> Floats:
    with torch.no_grad():
        read = _outputs(model, weights, batch).flatten(2)
        return np.asarray((read @ read.mT / read.shape[-1]).numpy())


def _tangent(model: nn.Module, weights: dict[str, Tensor], batch: Tensor, deviations: dict[str, float]) -> Floats:
    """Draws do not act on each other, so one backward pass gives a row of the Jacobian of all of them."""
    leaves = [one.requires_grad_() for one in weights.values()]
    outputs = _outputs(model, weights, batch).flatten(2)
    draws, n, width = outputs.shape
    total = outputs.new_zeros(draws, n, n)
    for place in range(width):
        rows = [torch.autograd.grad(outputs[:, sample, place].sum(), leaves, retain_graph=True) for sample in range(n)]
        for name, several in zip(weights, zip(*rows, strict=True), strict=True):
            jacobian = torch.stack([one.flatten(1) for one in several], 1)
            total += (deviations[name] ** 2 / width) * (jacobian @ jacobian.mT)
    return np.asarray(total.detach().numpy())
