"""Steps per second of the small networks that dominate the quick studies: one network by autograd, and as `fit` takes
them, one alone and several runs together.

All ways take turns in this process, on one thread, and the least processor time of a turn counts: other work on the
machine slows all alike. Numbers are of one network: those of runs together are divided by their number, which is that
of the study's quick scale. `products alone` is the time of the three matrix products of every dense layer and of
nothing else.

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
from isometer_papers.studies import find
from isometer_papers.studies.cells import convolution_training, normrelu_training, vision_training
from isometer_papers.training import Recipe, Sets
from isometer_papers.training._stack import Stack
from isometer_papers.training.loop import _wants_channels_last, optimizer, stepping

TURNS = 4
SECONDS = 0.1  # of a turn


def noise(side: int, samples: int, channels: int = 3) -> Sets:
    """Images of noise: the time of a step does not depend on what they show."""
    made = torch.Generator().manual_seed(0)
    images = torch.randn(samples, channels, side, side, generator=made)
    return Sets(images, torch.arange(samples) % 10, images[:1], torch.zeros(1).long())


def runs_of(name: str) -> int:
    """Of a study at its quick scale."""
    identifier = name.partition(",")[0]
    return len(find(identifier).quick.axes["run"])


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


def one_step(model: nn.Module, sets: Sets, how: str, *, fast: bool, runs: int = 1) -> Callable[[], Any]:
    """A step of `fit` by an optimiser, as it takes it; of several runs together."""
    samples = len(sets.inputs)
    recipe = Recipe(1e-4, 1, batch=samples, optimizer=how, fast=fast)
    models = [copy.deepcopy(model).train() for _ in range(runs)]
    last = fast and _wants_channels_last(model, sets, "cpu")
    for one in models if last else ():
        one.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    stack = Stack(models)
    step = stepping(stack, optimizer(stack, recipe), recipe, samples, last)
    inputs, labels = (torch.stack([of] * runs) for of in (sets.inputs, sets.labels))
    return lambda: step(inputs, labels, False)


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
    for name, (model, sets, how) in networks().items():
        dense = not any(isinstance(module, nn.Conv2d) for module in model.modules())
        runs = runs_of(name)
        ways = [one_step(model, sets, how, fast=fast) for fast in (False, True)]
        ways += [one_step(model, sets, how, fast=True, runs=runs)]
        before, alone, after, *floor = milliseconds([*ways, products(model, len(sets.inputs))] if dense else ways)
        after /= runs
        results[name] = {
            "milliseconds per step, autograd": before,
            "milliseconds per step, one alone": alone,
            "milliseconds per step, runs together": after,
            "runs together": runs,
            "steps per second, ratio, one alone": before / alone,
            "steps per second, ratio, runs together": before / after,
            "images per second, autograd": 1e3 * len(sets.inputs) / before,
            "images per second, runs together": 1e3 * len(sets.inputs) / after,
        }
        if floor:
            results[name] |= {"milliseconds, products alone": floor[0], "ratio if only products": before / floor[0]}
    show("training steps: one network by autograd, one alone, runs together", results)
    return results
