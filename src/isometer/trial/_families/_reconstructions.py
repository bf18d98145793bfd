"""Pictures out of noise: an algorithm for sparse codes, unrolled, and an autoencoder with noise in its code."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import ACTIVATION, GELU, NORM, activation, layer_norm, sizes
from isometer.trial._families._third import third
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "step-size": "a step towards the residual is next to nothing, or far too long",
    "threshold-high": "every code is below the threshold",
    "residual-sign": "the step goes away from the picture",
    "state-detached": "no gradient flows through the steps before the last",
    "code-noisy": "the noise of the code drowns its mean",
    "branch-detached": "the mean of the code is computed without gradients",
    "output-squashed": "the output passes a sigmoid, which no picture fits into",
}


class _Shrink(nn.Module):
    """A step towards the residual; what lies below the threshold becomes zero."""

    def __init__(self, pixels: int, width: int, o: Options) -> None:
        super().__init__()
        self.encode, self.o = nn.Linear(pixels, width, bias=False), o
        self.threshold = nn.Parameter(torch.full((width,), float(o["threshold"])))

    def forward(self, code: Tensor, residual: Tensor) -> Tensor:
        code = code + self.encode(residual)
        return code.sign() * (code.abs() - self.threshold).relu() if self.o["threshold"] else code


@third(
    "unrolled-shrinkage",
    source="Gregor and LeCun 2010, Learning fast approximations of sparse coding",
    draw=sizes(("denoise",), (64, 96, 128), (1, 2, 3, 4), batches=(16, 32), own=(True, False), threshold=(0.02, 0.1)),
    structural={
        "no-activation": {"threshold": 0.0},
        "step-size": drawn(step=(1e-4, 12.0)),
        "threshold-high": drawn(threshold=(5.0, 30.0)),
        "residual-sign": {"step": -1.0},
        "state-detached": {"detached": True},
    },
)
class _Unrolled(nn.Module):
    """Steps of the shrinkage algorithm, whose dictionary, steps and thresholds are learned."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, self.shape, width = blueprint.options, task.shape, blueprint.width
        self.rounds, kinds = blueprint.depth + 1, blueprint.depth + 1 if self.o["own"] else 1
        self.dictionary = nn.Linear(width, task.outputs, bias=False)
        nn.init.normal_(self.dictionary.weight, std=task.outputs**-0.5)
        self.steps = nn.ModuleList(_Shrink(task.outputs, width, self.o) for _ in range(kinds))
        with torch.no_grad():
            for step in self.steps:  # towards the picture
                step.get_parameter("encode.weight").copy_(0.3 * self.o.get("step", 1.0) * self.dictionary.weight.T)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        code = x.new_zeros(len(x), self.dictionary.in_features)
        for i in range(self.rounds):
            before = code.detach() if self.o.get("detached") else code
            code = self.steps[i if self.o["own"] else 0](before, x - self.dictionary(before))
        return torch.as_tensor(self.dictionary(code)).view(-1, *self.shape)


def _perceptron(sizes_: list[int], o: Options) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes_):
        layers += [nn.Linear(before, after), layer_norm(after, o), activation(o)]
    return layers


@third(
    "variational-autoencoder",
    source="Kingma and Welling 2014, Auto-encoding variational Bayes",
    draw=sizes(("denoise",), (64, 96, 128), (1, 2, 3), batches=(16, 32), code=(16, 24, 32), activation=GELU),
    structural={
        **NORM,
        **ACTIVATION,
        "bottleneck": {"code": 1},
        "code-noisy": drawn(deviation=(4.0, 8.0)),
        "branch-detached": {"detached": True},
        "output-squashed": {"squashed": True},
    },
)
class _Variational(nn.Module):
    """A mean and a deviation of the code, a sample of it while training, and a decoder."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, self.shape, width = blueprint.options, task.shape, blueprint.width
        inner, code = [width] * blueprint.depth, self.o["code"]
        self.encode = nn.Sequential(nn.Flatten(), *_perceptron([task.outputs, *inner], self.o))
        self.mean, self.log_deviation = nn.Linear(width, code), nn.Linear(width, code)
        nn.init.constant_(self.log_deviation.bias, self.o.get("deviation", -2.0))
        self.decode = nn.Sequential(*_perceptron([code, *inner], self.o), nn.Linear(width, task.outputs))

    def forward(self, x: Tensor) -> Tensor:
        h = self.encode(x)
        code = self.mean(h)
        code = code.detach() if self.o.get("detached") else code
        if self.training:
            code = code + self.log_deviation(h).exp() * torch.randn_like(code)
        picture: Tensor = self.decode(code).view(-1, *self.shape)
        return picture.sigmoid() if self.o.get("squashed") else picture
