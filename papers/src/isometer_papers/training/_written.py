"""Steps written out: forward, backward and update of sequences of dense layers, without autograd's graph.

In networks of a hundred units autograd spends as long on its graph, on memory for every value and on a pass over all
gradients afterwards as on arithmetic. Here a layer keeps what it needs in tensors that are made once, gradients go from
layer to layer through two buffers that stay in the processor's cache, and plain SGD adds −η ∂W to a matrix by the very
product that would compute ∂W. The networks of a stack take their steps together. The kernels are torch's own: autograd
gives the same numbers up to rounding, and each of the two ways gives its own numbers every time.

Signals are `(networks, samples, units)`, or `(samples, networks, units)` where batch norm is: its kernel takes the
units of all networks as one row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn

from isometer.activations import activation
from isometer.nn import Activation, NormReLU
from isometer_papers.training._stack import Stack

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
    """A parameter of all networks, `(networks, …)`, and three ways to treat its gradient: SGD, momentum, keep it."""

    def __init__(
        self,
        parameter: nn.Parameter,
        networks: int,
        group: dict[str, Any],
        stepper: torch.optim.Optimizer,
        vectors: _Vectors,
    ) -> None:
        self.parameter, self.group, self.vectors = parameter, group, vectors
        self.value = self._apart(parameter.detach(), networks)
        self.momentum: float = group.get("momentum", 0.0)
        self.keep = False
        if self.momentum:
            state = stepper.state[parameter]
            if state.get("momentum_buffer") is None:
                # zeros, where torch's own has the first gradient
                state["momentum_buffer"] = torch.zeros_like(parameter.detach())
            self.buffer = self._apart(state["momentum_buffer"], networks)

    @staticmethod
    def _apart(joined: Tensor, networks: int) -> Tensor:
        return joined.view(networks, -1, *joined.shape[1:])

    def take(self, gradient: Tensor) -> None:
        """A gradient of a vector, which is nobody else's."""
        if self.keep:
            self.parameter.grad = gradient.reshape(self.parameter.shape)
        elif self.momentum:
            self.value.add_(self.buffer.mul_(self.momentum).add_(gradient), alpha=-self.group["lr"])
        else:
            self.vectors.take(self.value, gradient, self.group["lr"])

    def take_product(self, left: Tensor, right: Tensor) -> None:
        """The gradient `left @ right`, by network."""
        if self.keep:
            self.parameter.grad = torch.bmm(left, right).view(self.parameter.shape)
        elif self.momentum:
            self.value.add_(self.buffer.baddbmm_(left, right, beta=self.momentum), alpha=-self.group["lr"])
        else:
            self.value.baddbmm_(left, right, alpha=-self.group["lr"])


# --- layers --------------------------------------------------------------


class _WrittenLayer(Protocol):
    def forward(self, x: Tensor) -> Tensor:
        """What comes out; an activation may overwrite `x`."""

    def backward(self, g: Tensor) -> Tensor:
        """The gradient of what came in, after the layer's own parameters have theirs; `g` may be overwritten."""


class _Dense:
    """x ↦ x Wᵀ + b. The first layer has no use for the gradient of its inputs, and no buffer for it."""

    def __init__(
        self, weight: _Trained, bias: _Trained | None, out: Tensor, back: Tensor | None, *, samples_first: bool
    ) -> None:
        self.weight, self.bias, self.out, self.back = weight, bias, out, back
        self.samples_first = samples_first
        self.transposed = weight.value.mT
        self.out_runs = self._runs(out)
        self.back_runs = None if back is None else self._runs(back)
        self.offset = None if bias is None else bias.value[:, None, :]

    def _runs(self, x: Tensor) -> Tensor:
        """Networks first, as products have them."""
        return x.transpose(0, 1) if self.samples_first else x

    def forward(self, x: Tensor) -> Tensor:
        self.x = self._runs(x)
        if self.offset is None:
            torch.bmm(self.x, self.transposed, out=self.out_runs)
        else:
            torch.baddbmm(self.offset, self.x, self.transposed, out=self.out_runs)
        return self.out

    def backward(self, g: Tensor) -> Tensor:
        runs = self._runs(g)
        if self.back_runs is not None:
            torch.bmm(runs, self.weight.value, out=self.back_runs)  # before W changes
        self.weight.take_product(runs.mT, self.x)
        if self.bias is not None:
            self.bias.take(runs.sum(1))
        return g if self.back is None else self.back


class _BatchNorm:
    def __init__(self, layer: nn.BatchNorm1d, weight: _Trained, bias: _Trained, running: list[Tensor]) -> None:
        self.weight, self.bias, self.running = weight, bias, running
        self.momentum, self.eps = layer.momentum or 0.0, layer.eps
        self.factors, self.offsets = weight.value.view(-1), bias.value.view(-1)

    def forward(self, x: Tensor) -> Tensor:
        self.x = x.view(len(x), -1)
        y, *self.statistics = _aten.native_batch_norm(
            self.x, self.factors, self.offsets, *self.running, True, self.momentum, self.eps
        )
        normalised: Tensor = y
        return normalised.view(x.shape)

    def backward(self, g: Tensor) -> Tensor:
        back: Tensor
        back, weight, bias = _aten.native_batch_norm_backward(
            g.view(self.x.shape), self.x, self.factors, *self.running, *self.statistics, True, self.eps, [True] * 3
        )
        self.weight.take(weight.view(self.weight.value.shape))
        self.bias.take(bias.view(self.bias.value.shape))
        return back.view(g.shape)


class _LayerNorm:
    def __init__(self, layer: nn.LayerNorm, weight: _Trained, bias: _Trained) -> None:
        self.weight, self.bias = weight, bias
        self.factors, self.offsets = weight.value[:, None, :], bias.value[:, None, :]
        self.shape, self.eps = list(layer.normalized_shape), layer.eps

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        self.y, *self.statistics = torch.native_layer_norm(x, self.shape, None, None, self.eps)
        return torch.addcmul(self.offsets, self.y, self.factors)

    def backward(self, g: Tensor) -> Tensor:
        back: Tensor
        back, *_ = _aten.native_layer_norm_backward(
            g * self.factors, self.x, self.shape, *self.statistics, None, None, [True, False, False]
        )
        self.weight.take((g * self.y).sum(1))
        self.bias.take(g.sum(1))
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
    """Steps of the networks of a stack, each of which `covers` accepts, for batches of one size.

    Args:
        stack: the networks; their modules keep the parameters and running statistics, as ever.
        samples: of a batch.
        stepper: the optimiser of the stack's parameters. SGD without weight decay and without hooks is applied on the
            way back; any other takes its step afterwards.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU(), nn.Linear(3, 2))
        >>> x, labels, before = torch.ones(4, 2), torch.tensor([0, 1, 0, 1]), model[0].weight.detach().clone()
        >>> gradient = torch.autograd.grad(nn.functional.cross_entropy(model(x), labels), model[0].weight)[0]
        >>> steps = WrittenSteps(Stack([model]), 4, torch.optim.SGD(model.parameters(), lr=0.5))
        >>> outputs, losses = steps(x[None], labels[None])
        >>> torch.allclose(model[0].weight, before - 0.5 * gradient), tuple(outputs.shape), tuple(losses.shape)
        (True, (1, 4, 2), (1,))
    """

    def __init__(self, stack: Stack, samples: int, stepper: torch.optim.Optimizer) -> None:
        self.stack, self.samples, self.stepper = stack, samples, stepper
        self.at_once = type(stepper) is torch.optim.SGD and not stepper._optimizer_step_pre_hooks
        self.at_once &= not any(group["weight_decay"] for group in stepper.param_groups)
        self.vectors = _Vectors()
        self.parameters = {
            parameter: _Trained(parameter, len(stack), group if self.at_once else {}, stepper, self.vectors)
            for group in stepper.param_groups
            for parameter in group["params"]
        }
        self._backs: dict[int, list[Tensor]] = {}
        model = stack.models[0]
        assert isinstance(model, nn.Sequential)
        layers = [(str(i), layer) for i, layer in enumerate(model) if i or type(layer) is not nn.Flatten]
        self.samples_first = any(isinstance(layer, nn.BatchNorm1d) for _, layer in layers)
        self.layers = [self._written(name, layer, first=i == 0) for i, (name, layer) in enumerate(layers)]
        self.counters = [buffer for name, buffer in stack.buffers.items() if name.endswith("num_batches_tracked")]

    def _written(self, name: str, layer: Any, *, first: bool) -> _WrittenLayer:
        own = {
            inner: self.parameters[self.stack.parameters[f"{name}.{inner}"]] for inner, _ in layer.named_parameters()
        }
        if isinstance(layer, nn.Linear):
            out, back = self._room(layer, layer.out_features), None if first else self._back(layer)
            return _Dense(own["weight"], own.get("bias"), out, back, samples_first=self.samples_first)
        if isinstance(layer, nn.BatchNorm1d):
            running = [self.stack.buffers[f"{name}.{inner}"] for inner in ("running_mean", "running_var")]
            return _BatchNorm(layer, own["weight"], own["bias"], running)
        if isinstance(layer, nn.LayerNorm):
            return _LayerNorm(layer, own["weight"], own["bias"])
        found = _pointwise(layer)
        assert found is not None  # `covers` has looked
        return found

    def _room(self, layer: nn.Linear, units: int) -> Tensor:
        sizes = (self.samples, len(self.stack)) if self.samples_first else (len(self.stack), self.samples)
        return layer.weight.new_empty(*sizes, units).detach()

    def _back(self, layer: nn.Linear) -> Tensor:
        """One of two buffers of this width, in turn: a layer reads the one and writes the other."""
        width = layer.in_features
        two = self._backs.setdefault(width, [self._room(layer, width) for _ in range(2)])
        two.reverse()
        return two[0]

    @torch.no_grad()
    def __call__(self, inputs: Tensor, labels: Tensor, *, keep: bool = False) -> tuple[Tensor, Tensor]:
        """Outputs and the mean cross-entropy of every network's batch before the step.

        Inputs are `(networks, samples, …)`, labels `(networks, samples)`, outputs `(networks, samples, classes)`. If
        the loss of no network is finite, nothing is updated. With `keep`, gradients stay in `grad` of the parameters.
        """
        signal = inputs.flatten(2)
        if self.samples_first:
            signal, labels = signal.transpose(0, 1), labels.t()
        for layer in self.layers:
            signal = layer.forward(signal)
        if self.counters:
            torch._foreach_add_(self.counters, 1)
        logs = signal.log_softmax(-1)
        right = labels.unsqueeze(-1)
        losses = -logs.gather(-1, right).squeeze(-1).mean(0 if self.samples_first else 1)
        if bool(losses.isfinite().any()):
            slope = logs.exp_()
            slope.scatter_add_(-1, right, slope.new_full((1,), -1.0).expand(right.shape))
            self._descend(slope.div_(self.samples), keep or not self.at_once)
        return (signal.transpose(0, 1) if self.samples_first else signal), losses

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
