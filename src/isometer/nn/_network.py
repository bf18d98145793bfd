"""`build`: a network spec as a torch module."""

from __future__ import annotations

import math
from typing import overload

import numpy as np
import torch
from torch import nn

from isometer.errors import IsometerError
from isometer.nn._activation import activation_module
from isometer.nn._composition import ComposedNetwork, build_composition
from isometer.nn._normalization import norm_module
from isometer.simulate._streams import Streams
from isometer.simulate._weights import draw_weights, stream_kind, weight_factor
from isometer.spec import Chain, Composition, Spec

Tensor = torch.Tensor


class Layer(nn.Module):
    """One layer of a spec: `weights`, `norm` and `activation` in the spec's order, residual branch and final factor.

    Steps that do nothing have no submodule. `isometer.spec` says what each step is.

    Example:
        >>> layer = build(Spec(width=4, depth=2, norm="rms", residual=0.5)).layers[0]
        >>> [name for name, _ in layer.named_children()], layer.residual
        (['weights', 'norm', 'activation'], 0.5)
    """

    def __init__(self, spec: Chain, layer: int, *, dtype: torch.dtype, device: torch.device | str | None) -> None:
        super().__init__()
        fan_in, fan_out = spec.fan_in[layer - 1], spec.widths[layer - 1]
        self.steps = spec.steps
        self.residual = spec.at("residual", layer)
        self.scale = spec.output_scale(layer)
        for step in spec.steps:
            if step == "weights":
                self.weights = _empty_linear(fan_in, fan_out, spec.bias_variance > 0, dtype, device)
            elif step == "norm" and spec.norm is not None:
                # a normalisation before the weights sees what comes in
                width = fan_out if spec.steps.index("norm") > spec.steps.index("weights") else fan_in
                self.norm = norm_module(spec.norm, width, dtype=dtype, device=device)
            elif step == "activation" and not spec.is_linear:
                self.activation = activation_module(spec, layer)

    def extra_repr(self) -> str:
        parts = [] if math.isinf(self.residual) else [f"residual={self.residual:g}"]
        return ", ".join([*parts, *([] if self.scale == 1.0 else [f"scale={self.scale:g}"])])

    def forward(self, x: Tensor) -> Tensor:
        value = x
        for step in self.steps:
            if step == "residual":
                value = value if math.isinf(self.residual) else torch.add(x, value, alpha=self.residual)
            elif step in self._modules:
                value = self.get_submodule(step)(value)
        return value if self.scale == 1.0 else value * self.scale


class Network(nn.Module):
    """The network of a spec: an optional `readin`, the `layers`, an optional `readout`.

    `layers[ℓ − 1]` is layer ℓ of a trajectory. What has more than two axes is flattened to (samples, features) first.

    Example:
        >>> network = build(Spec(width=8, depth=2, norm="batch"), classes=3, inputs=5)
        >>> [name for name, _ in network.named_parameters()]
        ['readin.weight', 'layers.0.weights.weight', 'layers.1.weights.weight', 'readout.weight', 'readout.bias']
        >>> network(torch.randn(4, 5)).shape
        torch.Size([4, 3])
    """

    def __init__(
        self,
        spec: Chain,
        *,
        classes: int | None,
        inputs: int | None,
        dtype: torch.dtype,
        device: torch.device | str | None,
    ) -> None:
        super().__init__()
        self.spec = spec
        assert spec.input_width is not None
        self.readin = None if inputs is None else _empty_linear(inputs, spec.input_width, False, dtype, device)
        self.layers = nn.ModuleList(
            Layer(spec, layer, dtype=dtype, device=device) for layer in range(1, spec.layers + 1)
        )
        self.readout = None if classes is None else _empty_linear(spec.widths[-1], classes, True, dtype, device)

    def forward(self, x: Tensor) -> Tensor:
        value = x.flatten(1) if x.dim() > 2 else x
        expected = self.spec.input_width if self.readin is None else self.readin.in_features
        if value.dim() != 2 or value.shape[1] != expected:
            raise IsometerError(
                f"input has shape {tuple(x.shape)}; expected (samples, {expected}) — build(spec, "
                f"inputs={value.shape[-1] if value.dim() else 1}) projects it, Spec(…, input_width=…) takes it as it is"
            )
        if self.readin is not None:
            value = self.readin(value)
        for layer in self.layers:
            value = layer(value)
        return value if self.readout is None else self.readout(value)


@overload
def build(
    spec: Chain,
    *,
    classes: int | None = ...,
    inputs: int | None = ...,
    seed: int = ...,
    dtype: torch.dtype | str = ...,
    device: torch.device | str = ...,
) -> Network: ...
@overload
def build(
    spec: Spec,
    *,
    classes: int | None = ...,
    inputs: int | None = ...,
    seed: int = ...,
    dtype: torch.dtype | str = ...,
    device: torch.device | str = ...,
) -> Network | ComposedNetwork: ...
def build(
    spec: Spec,
    *,
    classes: int | None = None,
    inputs: int | None = None,
    seed: int = 0,
    dtype: torch.dtype | str = torch.float32,
    device: torch.device | str = "cpu",
) -> Network | ComposedNetwork:
    """A torch network of a spec, its weights drawn from the spec's law.

    The weights are those of run 0 of `simulate(spec, …, seed=seed, engine="dense")` with the same dtype, so that the
    network in training mode and the simulation go through the same representations (masks of dropout apart, which are
    torch's). No generator of torch's is touched. One layer repeated becomes a `Network` with `layers`, any other
    composition a `ComposedNetwork` whose modules are named as its steps.

    Args:
        spec: the network; with positions it takes `(samples, features, *positions)`.
        classes: outputs of a linear readout after the last layer (weights N(0, 1/width), bias 0); none by default.
        inputs: features of the batch, for a linear projection to the spec's input width (weights N(0, 1/inputs), no
            bias) before the first layer; none by default.
        seed: seed of all weights.
        dtype: float32 or float64.
        device: torch device; the weights are drawn on the CPU.

    Returns:
        The network, in training mode.

    Raises:
        IsometerError: `classes`, `inputs` or `dtype` is not what it should be, or a step has no module.

    Example:
        >>> network = build(Spec(width=16, depth=50, activation="tanh", norm="batch", weights="orthogonal"))
        >>> network.layers[3].weights.weight.shape, network.layers[3].activation
        (torch.Size([16, 16]), Tanh())
        >>> bool((network.layers[3].weights.weight == build(network.spec).layers[3].weights.weight).all())
        True

    Implements: the recurrences of all five papers, see `isometer.spec`.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in ("float32", "float64"):
        raise IsometerError(f"dtype is {name}; expected float32 or float64 — convert the network with .to() afterwards")
    for value, what in ((classes, "classes"), (inputs, "inputs")):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise IsometerError(f"{what} is {value!r}; expected a whole number of at least 1, or None — pass one")
    precision: torch.dtype = getattr(torch, name)
    if not isinstance(spec, Chain):
        if classes is not None or inputs is not None:
            raise IsometerError(
                f"classes={classes} and inputs={inputs} are for one layer repeated; got {spec} — write the projection "
                "as a step, dense(10) for a readout"
            )
        assert isinstance(spec, Composition)
        return build_composition(spec, seed=seed, dtype=precision, device=device)
    network = Network(spec, classes=classes, inputs=inputs, dtype=precision, device=device)
    _draw(network, seed, precision)
    return network


@torch.no_grad()
def _draw(network: Network, seed: int, dtype: torch.dtype) -> None:
    spec = network.spec
    like = torch.empty(0, dtype=dtype)
    # sizes as in `LayerChain`: the size of a block decides which numbers a layer gets
    counts = [a * b for a, b in zip(spec.fan_in, spec.widths, strict=True)]
    weights = Streams(seed, [0], 1, "weights", stream_kind(spec.weights), max(counts), like, total=sum(counts))
    widths = list(spec.widths)
    biases = Streams(seed, [0], 1, "bias", "normal", max(widths), like, total=sum(widths))
    for index, (fan_in, fan_out) in enumerate(zip(spec.fan_in, spec.widths, strict=True), start=1):
        linear = network.get_submodule(f"layers.{index - 1}.weights")
        assert isinstance(linear, nn.Linear)
        drawn = draw_weights(spec.weights, weights, fan_out, fan_in)[0]
        linear.weight.copy_(drawn * weight_factor(spec, index))
        if linear.bias is not None:
            linear.bias.copy_(math.sqrt(spec.bias_variance) * biases.take(1, fan_out)[0, 0])
    for position, end in enumerate((network.readin, network.readout)):
        if end is None:
            continue
        # a key that no role of `Streams` has
        state = np.random.SeedSequence(seed, spawn_key=(0, 1000 + position)).generate_state(1, np.uint64)[0]
        generator = torch.Generator().manual_seed(int(state >> np.uint64(1)))
        normals = torch.randn(end.weight.shape, generator=generator, dtype=dtype)
        end.weight.copy_(normals / math.sqrt(end.in_features))
        if end.bias is not None:
            end.bias.zero_()


def _empty_linear(
    fan_in: int, fan_out: int, bias: bool, dtype: torch.dtype, device: torch.device | str | None
) -> nn.Linear:
    """Without torch's own initialisation, which draws from the global generator."""
    return nn.Linear(fan_in, fan_out, bias=bias, dtype=dtype, device="meta").to_empty(device=device or "cpu")
