"""Dense networks of finite width for the tests of theory: a few lines of torch per step, written from the language's
own definitions and sharing no code with the library's simulators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from isometer.spec import Spec
from isometer.spec._activation import resolved

Tensor = torch.Tensor


class Wide:
    """One draw of a network; x is `(n, features, positions)`."""

    def __init__(self, spec: Spec, seed: int, dtype: torch.dtype = torch.float64) -> None:
        self.spec, self.dtype = spec, dtype
        self.generator = torch.Generator().manual_seed(seed)
        self.weights: list[tuple[int, Tensor, float]] = []  # layer, standard numbers, their factor
        self.biases: list[tuple[Tensor, float]] = []
        self.layer = 0

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=self.dtype)

    def frame(self, rows: int, columns: int) -> Tensor:
        """Orthonormal rows, or columns where there are more rows."""
        tall, upper = torch.linalg.qr(self.normal(max(rows, columns), min(rows, columns)))
        tall = tall * torch.sign(torch.diagonal(upper))
        return tall if rows >= columns else tall.T

    def weight(self, numbers: Tensor, factor: float) -> Tensor:
        numbers.requires_grad_(True)
        self.weights.append((self.layer, numbers, factor))
        return numbers * factor

    def matrix(self, law: str, rows: int, columns: int, gain: float, scaling: str = "fan_in") -> Tensor:
        if law == "orthogonal":
            return self.weight(self.frame(rows, columns), gain)
        deviation = {
            "gaussian": 1 / math.sqrt(columns),
            "he": math.sqrt(2 / columns),
            "xavier-normal": math.sqrt(2 / (rows + columns)),
        }[law]
        return self.weight(self.normal(rows, columns), gain * (1.0 if scaling == "unit" else deviation))

    # --- steps --------------------------------------------------------------------------------------------------------

    def run(self, steps: Sequence[Any], x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        for step in steps:
            x, axes = getattr(self, type(step).__name__.lower())(step, x, axes)
        return x, axes

    def dense(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        matrix = self.matrix(step.weights, step.width, x.shape[1], step.gain, step.weight_scaling)
        return torch.einsum("oi,nip->nop", matrix, x), axes

    def bias(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        numbers = self.normal(x.shape[1]).requires_grad_(True)
        self.biases.append((numbers, math.sqrt(step.variance)))
        return x + math.sqrt(step.variance) * numbers[None, :, None], axes

    def act(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        return resolved(step.activation)(step.gain * x), axes

    def scaling(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        return step.factor * x, axes

    def norm(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        n, d, p = x.shape
        if step.over == "batch":
            grouped, dim, count = x, (0, 2), n * p
        else:
            groups = step.groups if step.over == "groups" else 1
            grouped, dim, count = x.reshape(n, groups, d // groups, p), (2,), d // groups
        mean = grouped.mean(dim, keepdim=True)
        centred = grouped - mean if step.recenter else grouped
        size = (grouped - mean if step.divisor == "std" else grouped).square().mean(dim, keepdim=True)
        divisor = size + step.eps
        alive = divisor > 0  # what has no size stays without
        safe = torch.where(alive, divisor, 1.0).sqrt()
        out = torch.where(alive, centred / safe, 0.0) if step.rescale else centred
        unit = 1 / math.sqrt(count) if step.size == "length" else 1.0
        return (out * unit * step.scale + step.shift).reshape(n, d, p), axes

    def residual(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        inner, after = self.run(step.branch, x, axes)
        return (inner if math.isinf(step.scale) else step.skip * x + step.scale * inner), after

    def join(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        ran = [self.run(branch, x, axes) for branch in step.branches]
        parts, after = [one for one, _ in ran], ran[0][1]
        if step.by == "concat":
            return torch.cat(parts, 1), after
        out = parts[0]
        for other in parts[1:]:
            out = out + other if step.by == "sum" else out * other
        return out, after

    def convolution(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        fan_in, out, kernel = x.shape[1] // step.groups, step.channels, tuple(step.kernel)
        offsets = math.prod(kernel)
        if step.weights == "gaussian":
            drawn = self.weight(self.normal(out, fan_in, *kernel), step.gain / math.sqrt(fan_in * offsets))
        elif step.groups > 1:
            raise AssertionError("groups have Gaussian weights here")
        elif step.weights == "orthogonal":
            frame = self.frame(out, fan_in * offsets).reshape(out, fan_in, *kernel).contiguous()
            drawn = self.weight(frame, step.gain)
        else:
            centre = self.weight(self.frame(out, fan_in), step.gain)
            drawn = torch.zeros(out, fan_in, *kernel, dtype=x.dtype)
            drawn[(..., *((k - 1) // 2 for k in kernel))] = centre
        image = x.reshape(*x.shape[:2], *axes)
        if step.padding != "valid":
            reach = [d * (k - 1) for k, d in zip(kernel, step.dilation, strict=True)]
            pads = [side for r in reversed(reach) for side in (r // 2, r - r // 2)]
            image = functional.pad(image, pads, mode={"zeros": "constant"}.get(step.padding, step.padding))
        convolve = {1: functional.conv1d, 2: functional.conv2d}[len(kernel)]
        made = convolve(image, drawn, stride=tuple(step.stride), dilation=tuple(step.dilation), groups=step.groups)
        return made.flatten(2), tuple(made.shape[2:])

    def pool(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        if step.size is None:
            return (x.mean(2, keepdim=True) if step.by == "mean" else x.amax(2, keepdim=True)), ()
        image = x.reshape(*x.shape[:2], *axes)
        average = {
            ("mean", 1): functional.avg_pool1d,
            ("mean", 2): functional.avg_pool2d,
            ("max", 1): functional.max_pool1d,
            ("max", 2): functional.max_pool2d,
        }[step.by, len(axes)]
        made = average(image, tuple(step.size), tuple(step.stride))
        return made.flatten(2), tuple(made.shape[2:])

    def upsample(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        image = x.reshape(*x.shape[:2], *axes)
        for axis, times in enumerate(step.repeats):
            image = image.repeat_interleave(times, 2 + axis)
        return image.flatten(2), tuple(image.shape[2:])

    def dropout(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        kept = torch.rand(x.shape, generator=self.generator, dtype=self.dtype) >= step.rate
        return x * kept / (1 - step.rate), axes

    def noise(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        return x + math.sqrt(step.variance) * self.normal(*x.shape), axes

    def flatten(self, step: Any, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        return x.reshape(len(x), -1, 1), ()

    # --- whole networks -----------------------------------------------------------------------------------------------

    def outputs(self, inputs: np.ndarray) -> list[Tensor]:
        """What every layer hands on, `(n, features, positions)`, the input first."""
        x = torch.tensor(inputs, dtype=self.dtype).reshape(len(inputs), inputs.shape[1], -1)
        found, axes = [x.requires_grad_(True)], self.spec.shape.axes
        for number, (steps, _) in enumerate(self.spec.executed_layers(), start=1):
            self.layer = number
            x, axes = self.run(steps, x, axes)
            found.append(x)
        return found


def grams(found: Sequence[Tensor]) -> list[np.ndarray]:
    """Mean products over features and positions."""
    flat = [x.detach().flatten(1) for x in found]
    return [(x @ x.T / x.shape[1]).double().numpy() for x in flat]


def gradient_squares(network: Wide, found: Sequence[Tensor], layers: int) -> np.ndarray:
    """‖∂loss/∂W‖² over the weights of each layer together, the input's gradient first, for a Gaussian cotangent.

    By W itself, which is a factor times what was drawn.
    """
    cotangent = network.normal(*found[-1].shape)
    torch.autograd.backward(found[-1], cotangent)
    out = np.zeros(layers + 1)
    assert found[0].grad is not None
    out[0] = float(found[0].grad.square().sum())
    for layer, numbers, factor in network.weights:
        if numbers.grad is not None:
            out[layer] += float(numbers.grad.square().sum()) / factor**2
    return out
