"""Steps per second of the small networks that dominate the quick studies: autograd against the fast way of `fit`.

Both ways take turns in this process, on one thread, and the least processor time of a turn counts: other work on the
machine slows both alike. `products alone` is the time of the three matrix products of every dense layer and of nothing
else, which no loop can go below with these kernels.

Run with `python -m benchmarks training_steps`.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.environment import show
from isometer_papers.architectures import mlp
from isometer_papers.studies.cells import convolution_training, normrelu_training, vision_training
from isometer_papers.training import Recipe, Sets
from isometer_papers.training.loop import _wants_channels_last

TURNS = 4
SECONDS = 0.1  # of a turn


def noise(side: int, samples: int, channels: int = 3) -> Sets:
    """Images of noise: the time of a step does not depend on what they show."""
    made = torch.Generator().manual_seed(0)
    images = torch.randn(samples, channels, side, side, generator=made)
    return Sets(images, torch.arange(samples) % 10, images[:1], torch.zeros(1).long())


def networks() -> dict[str, tuple[nn.Module, Sets, str]]:
    """By name: a network of a study's quick scale, a batch of its images, the optimiser."""
    small, tiny, grey = noise(16, 100), noise(8, 100), noise(14, 32, 1)
    vgg, deep = noise(16, 50), noise(32, 30)
    found: dict[str, tuple[nn.Module, Sets, str]] = {}
    shaped: dict[str, Any] = {"width": 100, "norm": "batch", "init": "orthogonal", "gain_exponent": 0.4}
    for name in ("sin", "tanh", "identity"):
        found[f"001/fig-C.8, 30 layers, {name}"] = mlp(768, 10, depth=30, activation=name, **shaped), small, "sgd"
    for norm in ("none", "batch"):
        plain = mlp(196, 10, depth=16, width=128, norm=norm, init="default", bias=True)
        found[f"002/fig-5, 16 layers, norm {norm}"] = plain, grey, "sgd"
    found["003/fig-4, 45 layers"] = mlp(768, 10, depth=44, width=128, init="xavier"), small, "sgd"
    for method in ("batch norm", "NormReLU"):
        dense = normrelu_training.network("MLP", method, small, depth=32, width=128)
        found[f"004/fig-3, 32 layers, {method}"] = dense, small, "momentum"
        residual = normrelu_training.network("ResNet", method, tiny, depth=20, width=8)
        found[f"004/fig-4, ResNet-20, {method}"] = residual, tiny, "momentum"
    for name, channels in (("VGG19", 8), ("ResNet50", 4)):
        net = vision_training.network(vision_training.NETWORKS[name], channels, vgg, 0)
        found[f"002/fig-7, {name}"] = net, vgg, "sgd"
    cell = {"scheme": "Xavier", "convolutions": 24, "channels": [16, 24, 24], "hidden": 256, "gain": 1.4}
    found["003/fig-7, 24 convolutions"] = convolution_training.deep_convolutions(cell, deep, 0), deep, "sgd"
    return found


def one_step(model: nn.Module, sets: Sets, optimizer: str, *, fast: bool) -> Callable[[], Any]:
    """A step of `fit`, as it takes it."""
    samples = len(sets.inputs)
    recipe = Recipe(1e-4, 1, batch=samples, optimizer=optimizer, fast=fast)
    own = copy.deepcopy(model).train()
    last = fast and _wants_channels_last(own, sets, "cpu")
    if last:
        own.to(memory_format=torch.channels_last)
    step = _stepping(own, recipe.stepper(own), recipe, samples, last)
    return lambda: step(sets.inputs, sets.labels, False)


def products(model: nn.Module, samples: int) -> Callable[[], Any]:
    """The products of the dense layers: forward, back to the inputs (but for the first), to the weights."""
    layers = [layer.weight.detach() for layer in model.modules() if isinstance(layer, nn.Linear)]
    rows = [(w, torch.randn(samples, w.shape[1]), torch.randn(samples, w.shape[0])) for w in layers]

    def call() -> None:
        for i, (w, x, g) in enumerate(rows):
            torch.mm(x, w.t())
            torch.mm(g.t(), x)
            if i:
                torch.mm(g, w)

    return call


def milliseconds(functions: list[Callable[[], Any]]) -> list[float]:
    """Of a call of each, in turns."""
    least = [float("inf")] * len(functions)
    for _ in range(TURNS):
        for i, function in enumerate(functions):
            function()
            calls, start = 0, time.process_time()
            while (spent := time.process_time() - start) < SECONDS or calls < 2:
                function()
                calls += 1
            least[i] = min(least[i], spent / calls)
    return [1e3 * one for one in least]


def run() -> dict[str, dict[str, float]]:
    """Measure everything, print a table and return the numbers."""
    torch.set_num_threads(1)
    results: dict[str, dict[str, float]] = {}
    for name, (model, sets, optimizer) in networks().items():
        dense = not any(isinstance(module, nn.Conv2d) for module in model.modules())
        ways = [one_step(model, sets, optimizer, fast=fast) for fast in (False, True)]
        before, after, *floor = milliseconds([*ways, products(model, len(sets.inputs))] if dense else ways)
        results[name] = {
            "milliseconds per step, autograd": before,
            "milliseconds per step, fast": after,
            "steps per second, ratio": before / after,
            "images per second, autograd": 1e3 * len(sets.inputs) / before,
            "images per second, fast": 1e3 * len(sets.inputs) / after,
        }
        if floor:
            results[name] |= {"milliseconds, products alone": floor[0], "ratio if only products": before / floor[0]}
    show("training steps: autograd and the fast way", results)
    return results
