"""Multilayer perceptrons on images and tables."""

from __future__ import annotations

import itertools
import math

import numpy as np
from torch import nn

from isometer.trial._family import Blueprint, family, pick
from isometer.trial._tasks import Task


def _draw(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "fashion-mnist", "mnist", "cifar10", "teacher", "friedman"),
        width=512 if large else pick(rng, 48, 64, 96, 128),
        depth=24 if large else int(rng.integers(3, 14)),
        batch=pick(rng, 32, 64),
        options={"activation": pick(rng, "ReLU", "GELU", "LeakyReLU"), "norm": None},
    )


@family("mlp-relu", source="He et al. 2015, Delving deep into rectifiers", draw=_draw, structural={})
def mlp_relu(blueprint: Blueprint, task: Task) -> nn.Module:
    """Linear layers with a rectifier, He's initialisation, no normalisation."""
    sizes = [math.prod(task.shape), *[blueprint.width] * blueprint.depth]
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in itertools.pairwise(sizes):
        linear = nn.Linear(before, after)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        nn.init.zeros_(linear.bias)
        layers += [linear, getattr(nn, blueprint.options["activation"])()]
    return nn.Sequential(*layers, nn.Linear(blueprint.width, task.outputs))
