"""Steps written out: forward, backward and update of a sequence of dense layers, without autograd's graph.

In networks of a hundred units autograd spends as long on its graph, on memory for every value and on a pass over all
gradients afterwards as on arithmetic. Here a layer keeps what it needs in tensors that are made once, gradients go from
layer to layer through two buffers that stay in the processor's cache, and plain SGD adds −η ∂W to a matrix by the very
product that would compute ∂W. The kernels are torch's own: autograd gives the same numbers up to rounding, and each of
the two ways gives its own numbers every time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn

from isometer.activations import activation
from isometer.nn import Activation, NormReLU

Tensor = torch.Tensor
_aten = torch.ops.aten


# --- parameters ----------------------------------------------------------


class _Vectors:
    """Biases and factors, updated together at the end of a step: one by one, calls would cost more than sums."""

    def __init__(self) -> None:
        self.values: list[Tensor] = []
        self.gradients: list[Tensor] = []
        self.rate = 0.0

    def take(self, value: Tensor, gradient: Tensor, rate: float) -> None:
        self.values.append(value)
        self.gradients.append(gradient)
        self.rate = rate  # they are one group of the optimiser

    def update(self) -> None:
        if self.values:
            torch._foreach_add_(self.values, self.gradients, alpha=-self.rate)
            self.values, self.gradients = [], []


class _Trained:
    """A parameter with the three ways to treat its gradient: SGD, momentum, or keep it."""

    def __init__(
        self, parameter: nn.Parameter, group: dict[str, Any], stepper: torch.optim.Optimizer, vectors: _Vectors
    ) -> None:
        self.parameter, self.value, self.group, self.vectors = parameter, parameter.detach(), group, vectors
        self.momentum: float = group.get("momentum", 0.0)
        self.keep = False
        if self.momentum:
            state = stepper.state[parameter]
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = torch.zeros_like(self.value)  # where torch's own has the first gradient
            self.buffer: Tensor = state["momentum_buffer"]

    def take(self, gradient: Tensor) -> None:
        """A gradient of a vector, which is nobody else's."""
        if self.keep:
            self.parameter.grad = gradient
        elif self.momentum:
            self.value.add_(self.buffer.mul_(self.momentum).add_(gradient), alpha=-self.group["lr"])
        else:
            self.vectors.take(self.value, gradient, self.group["lr"])

    def take_product(self, left: Tensor, right: Tensor) -> None:
        """The gradient `left @ right`."""
        if self.keep:
            self.parameter.grad = left @ right
        elif self.momentum:
            self.value.add_(self.buffer.addmm_(left, right, beta=self.momentum), alpha=-self.group["lr"])
        else:
            self.value.addmm_(left, right, alpha=-self.group["lr"])


# --- layers --------------------------------------------------------------


class _WrittenLayer(Protocol):
    def forward(self, x: Tensor) -> Tensor:
        """What comes out; an activation may overwrite `x`."""

    def backward(self, g: Tensor) -> Tensor:
        """The gradient of what came in, after the layer's own parameters have theirs; `g` may be overwritten."""


class _Dense:
    """x ↦ x Wᵀ + b. The first layer has no use for the gradient of its inputs, and no buffer for it."""

    def __init__(self, weight: _Trained, bias: _Trained | None, out: Tensor, back: Tensor | None) -> None:
        self.weight, self.bias, self.out, self.back = weight, bias, out, back
        self.transposed = weight.value.t()

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        if self.bias is None:
            return torch.mm(x, self.transposed, out=self.out)
        return torch.addmm(self.bias.value, x, self.transposed, out=self.out)

    def backward(self, g: Tensor) -> Tensor:
        back = g if self.back is None else torch.mm(g, self.weight.value, out=self.back)  # before W changes
        self.weight.take_product(g.t(), self.x)
        if self.bias is not None:
            self.bias.take(g.sum(0))
        return back


class _BatchNorm:
    def __init__(self, layer: nn.BatchNorm1d, weight: _Trained, bias: _Trained) -> None:
        self.weight, self.bias = weight, bias
        self.running = layer.running_mean, layer.running_var
        self.momentum, self.eps = layer.momentum or 0.0, layer.eps

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        y, *self.statistics = torch.native_batch_norm(
            x, self.weight.value, self.bias.value, *self.running, True, self.momentum, self.eps
        )
        return y

    def backward(self, g: Tensor) -> Tensor:
        back: Tensor
        back, weight, bias = _aten.native_batch_norm_backward(
            g, self.x, self.weight.value, *self.running, *self.statistics, True, self.eps, [True, True, True]
        )
        self.weight.take(weight)
        self.bias.take(bias)
        return back


class _LayerNorm:
    def __init__(self, layer: nn.LayerNorm, weight: _Trained, bias: _Trained) -> None:
        self.weight, self.bias = weight, bias
        self.shape, self.eps = list(layer.normalized_shape), layer.eps

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        y, *self.statistics = torch.native_layer_norm(x, self.shape, self.weight.value, self.bias.value, self.eps)
        return y

    def backward(self, g: Tensor) -> Tensor:
        back: Tensor
        back, weight, bias = _aten.native_layer_norm_backward(
            g, self.x, self.shape, *self.statistics, self.weight.value, self.bias.value, [True, True, True]
        )
        self.weight.take(weight)
        self.bias.take(bias)
        return back


class _Relu:
    def forward(self, x: Tensor) -> Tensor:
        self.y = x.relu_()
        return self.y

    def backward(self, g: Tensor) -> Tensor:
        back: Tensor = _aten.threshold_backward.grad_input(g, self.y, 0, grad_input=g)
        return back


class _Selu:
    alpha, scale = 1.6732632423543772, 1.0507009873554805  # torch's

    def forward(self, x: Tensor) -> Tensor:
        self.y = torch.selu_(x)
        return self.y

    def backward(self, g: Tensor) -> Tensor:
        back: Tensor = _aten.elu_backward.grad_input(g, self.alpha, self.scale, 1.0, True, self.y, grad_input=g)
        return back


class _NormRelu:
    def __init__(self, layer: NormReLU) -> None:
        self.kink, self.shift, self.scale = layer.kink, layer.shift, layer.scale

    def forward(self, x: Tensor) -> Tensor:
        self.above = x.sub_(self.kink).relu_()
        return self.above.add(self.shift).mul_(self.scale)

    def backward(self, g: Tensor) -> Tensor:
        back: Tensor = _aten.threshold_backward.grad_input(g.mul_(self.scale), self.above, 0, grad_input=g)
        return back


class _Tanh:
    """x ↦ tanh(αx) = 2σ(2αx) − 1: a third of the time of torch's tanh, and within 2e-7 of it in float32."""

    def __init__(self, gain: float) -> None:
        self.gain = gain

    def forward(self, x: Tensor) -> Tensor:
        self.y = x.mul_(2 * self.gain).sigmoid_().mul_(2).sub_(1)
        return self.y

    def backward(self, g: Tensor) -> Tensor:
        back: Tensor = _aten.tanh_backward.grad_input(g, self.y, grad_input=g)
        return back.mul_(self.gain)


class _Sin:
    """x ↦ sin(αx)."""

    def __init__(self, gain: float) -> None:
        self.gain = gain

    def forward(self, x: Tensor) -> Tensor:
        self.x = x.mul_(self.gain)
        return self.x.sin()

    def backward(self, g: Tensor) -> Tensor:
        return g.mul_(self.x.cos_()).mul_(self.gain)


class _Gain:
    """x ↦ αx: the identity with a gain."""

    def __init__(self, gain: float) -> None:
        self.gain = gain

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(self.gain)

    def backward(self, g: Tensor) -> Tensor:
        return g.mul_(self.gain)


_WITH_GAIN: dict[str, Callable[[float], _WrittenLayer]] = {"tanh": _Tanh, "sin": _Sin, "identity": _Gain}


def _pointwise(module: nn.Module) -> _WrittenLayer | None:
    """The derivative of an activation; None where it is not written out."""
    if type(module) is nn.ReLU:
        return _Relu()
    if type(module) is nn.SELU:
        return _Selu()
    if type(module) is nn.Tanh:
        return _Tanh(1.0)
    if type(module) is NormReLU:
        return _NormRelu(module)
    if type(module) is Activation and not module.normalized:
        for name, make in _WITH_GAIN.items():
            # as text: copies of a model have expressions of their own
            if str(module.plain.expression) == str(activation(name).expression):
                return make(module.gain)
    return None


# --- networks ------------------------------------------------------------


def covers(model: nn.Module) -> bool:
    """Whether the steps of a network are written out here: dense layers in sequence, on a CPU, all of them trained.

    Between two dense layers there are at most one normalisation and one activation, in that order, which may then work
    in place.

    Example:
        >>> covers(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
        True
        >>> covers(nn.Sequential(nn.Linear(4, 3), nn.Dropout(), nn.Linear(3, 2))), covers(nn.Linear(4, 3))
        (False, False)
    """
    if not isinstance(model, nn.Sequential):
        return False
    if any(p.device.type != "cpu" or not p.requires_grad for p in model.parameters()):
        return False
    if any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules()):
        return False
    return re.fullmatch("(LN?A?)*L", "".join(map(_kind, _layers(model)))) is not None


def _kind(module: nn.Module) -> str:
    """L for a dense layer, N for a normalisation, A for an activation; a question mark for what is not written out."""
    if type(module) is nn.Linear:
        return "L"
    if type(module) is nn.BatchNorm1d:
        return "N" if module.affine and module.track_running_stats and module.momentum is not None else "?"
    if type(module) is nn.LayerNorm:
        return "N" if module.elementwise_affine and module.bias is not None else "?"
    return "A" if _pointwise(module) is not None else "?"


def _layers(model: nn.Sequential) -> list[nn.Module]:
    """Without the first module where that flattens images."""
    return [module for i, module in enumerate(model) if i or type(module) is not nn.Flatten]


class WrittenSteps:
    """Steps of a network that `covers` accepts, for batches of one size.

    Args:
        model: the network; its modules keep the parameters and running statistics, as ever.
        samples: of a batch.
        stepper: the optimiser. SGD without weight decay and without hooks is applied on the way back; any other takes
            its step afterwards.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU(), nn.Linear(3, 2))
        >>> x, labels, before = torch.ones(4, 2), torch.tensor([0, 1, 0, 1]), model[0].weight.detach().clone()
        >>> gradient = torch.autograd.grad(nn.functional.cross_entropy(model(x), labels), model[0].weight)[0]
        >>> outputs, loss = WrittenSteps(model, 4, torch.optim.SGD(model.parameters(), lr=0.5))(x, labels)
        >>> torch.allclose(model[0].weight, before - 0.5 * gradient), tuple(outputs.shape)
        (True, (4, 2))
    """

    def __init__(self, model: nn.Sequential, samples: int, stepper: torch.optim.Optimizer) -> None:
        self.samples, self.stepper = samples, stepper
        self.at_once = type(stepper) is torch.optim.SGD and not stepper._optimizer_step_pre_hooks
        self.at_once &= not any(group["weight_decay"] for group in stepper.param_groups)
        self.vectors = _Vectors()
        self.parameters = {
            parameter: _Trained(parameter, group if self.at_once else {}, stepper, self.vectors)
            for group in stepper.param_groups
            for parameter in group["params"]
        }
        self._backs: dict[int, list[Tensor]] = {}
        layers = _layers(model)
        self.layers = [self._written(layer, first=i == 0) for i, layer in enumerate(layers)]
        counters = (m.num_batches_tracked for m in layers if isinstance(m, nn.BatchNorm1d))
        self.counters = [counter for counter in counters if counter is not None]
        self.rows = torch.arange(samples)

    def _written(self, layer: Any, *, first: bool) -> _WrittenLayer:
        of = self.parameters
        if isinstance(layer, nn.Linear):
            bias = None if layer.bias is None else of[layer.bias]
            out = layer.weight.new_empty(self.samples, layer.out_features)
            return _Dense(of[layer.weight], bias, out.detach(), None if first else self._back(layer))
        if isinstance(layer, nn.BatchNorm1d):
            return _BatchNorm(layer, of[layer.weight], of[layer.bias])
        if isinstance(layer, nn.LayerNorm):
            return _LayerNorm(layer, of[layer.weight], of[layer.bias])
        found = _pointwise(layer)
        assert found is not None  # `covers` has looked
        return found

    def _back(self, layer: nn.Linear) -> Tensor:
        """One of two buffers of this width, in turn: a layer reads the one and writes the other."""
        two = self._backs.setdefault(
            layer.in_features, [layer.weight.new_empty(self.samples, layer.in_features).detach() for _ in range(2)]
        )
        two.reverse()
        return two[0]

    @torch.no_grad()
    def __call__(self, inputs: Tensor, labels: Tensor, *, keep: bool = False) -> tuple[Tensor, float]:
        """Outputs and the mean cross-entropy of a batch before the step; if that is not finite, nothing is updated.

        With `keep`, gradients stay in `grad` of the parameters.
        """
        signal = inputs.flatten(1)
        for layer in self.layers:
            signal = layer.forward(signal)
        if self.counters:
            torch._foreach_add_(self.counters, 1)
        logs = signal.log_softmax(1)
        loss = -float(logs[self.rows, labels].mean())
        if math.isfinite(loss):
            slope = logs.exp_()
            slope[self.rows, labels] -= 1
            self._descend(slope.div_(self.samples), keep or not self.at_once)
        return signal, loss

    def _descend(self, slope: Tensor, keep: bool) -> None:
        for parameter in self.parameters.values() if keep else ():
            parameter.keep = True
        for layer in reversed(self.layers):
            slope = layer.backward(slope)
        self.vectors.update()
        if keep:
            self.stepper.step()
            for parameter in self.parameters.values() if self.at_once else ():
                parameter.keep = False
