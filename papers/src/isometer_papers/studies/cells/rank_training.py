"""Fully connected ReLU networks trained on images: accuracy, and the rank of the last hidden layer."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray

from isometer.errors import unknown_name

if TYPE_CHECKING:
    import torch
    from torch import nn

    from isometer.run import Checkpoint
    from isometer_papers.training import Sets

Measure = Callable[["nn.Module"], np.ndarray[Any, Any]]
NETWORKS: dict[str, tuple[str, str, int]] = {  # normalisation, initial weights, steps of pre-training per layer
    "ReLU": ("none", "default", 0),
    "ReLU, He": ("none", "he", 0),
    "ReLU, pre-trained 25": ("none", "start", 25),
    "ReLU, pre-trained 75": ("none", "start", 75),
    "BN": ("batch", "default", 0),
    "BN, asymmetric": ("batch", "positive", 0),
}
SAMPLES = 128  # of the batch whose rank is taken, as many as there are units in the papers' layers
TOLERANCE = 1e-9  # below which a singular value, over the largest, counts as zero
RANKS = ("stable_rank", "numerical_rank")


def mlp_cell(configuration: Mapping[str, Any], seed: int, checkpoint: Checkpoint | None = None) -> xarray.Dataset:
    """Curves of a run, or of several: training accuracy and loss, and ranks of the last hidden layer, by epoch.

    Keys: `network` (of `NETWORKS`), `depth`, `width`, `start` (weights before pre-training, whose norms it keeps),
    `ascent` (its first step over the norm of the weights), `plain_ascent` (steps of `ascent` times the gradient
    instead, norms not kept), `data`, `train`, `shrink`, `device`, and those of `Recipe`.
    `stable_rank` and `numerical_rank` are of the pre-activations of 128 training images.

    Example:
        >>> cell = {"network": "BN", "depth": 2, "width": 8, "start": "he", "ascent": 0.1, "data": "digits"}
        >>> cell |= {"plain_ascent": False, "train": 100, "shrink": 1, "device": "cpu"}
        >>> cell |= {"learning_rate": 0.1, "epochs": 2, "batch": 20, "optimizer": "sgd"}
        >>> mlp_cell(cell, 0)["stable_rank"].shape
        (3,)
    """
    from isometer_papers.training import Recipe, fit_together, image_sets, joined_runs, run_seeds

    c, seeds = configuration, run_seeds(configuration, seed)
    sets = image_sets(c["data"], c["train"], 1, shrink=c["shrink"])
    found = fit_together(
        [started(c, sets, one) for one in seeds],
        [sets] * len(seeds),
        Recipe.of(c),
        seeds=seeds,
        measures=[{"ranks": ranks_on(sets.inputs[:SAMPLES])}] * len(seeds),
        test=False,
        checkpoint=checkpoint,
        device=c["device"],
    )
    return joined_runs(c, [named(one, "ranks", RANKS) for one in found])


def started(c: Mapping[str, Any], sets: Sets, seed: int) -> nn.Sequential:
    """The network before training, pre-trained for rank where it is to be.

    Example:
        >>> from isometer_papers.training import image_sets
        >>> cell = {"network": "ReLU, He", "depth": 2, "width": 8}
        >>> len(started(cell, image_sets("digits", 20, 1), 0))
        6
    """
    from isometer.init import rank_pretraining_
    from isometer_papers.architectures import mlp

    if c["network"] not in NETWORKS:
        raise unknown_name("network", c["network"], NETWORKS)
    norm, init, steps = NETWORKS[c["network"]]
    init = c["start"] if init == "start" else init
    shape = {"depth": c["depth"], "width": c["width"]}
    model = mlp(sets.features, sets.classes, norm=norm, init=init, bias=True, seed=seed, **shape)
    if steps:
        hidden = [name for name, _ in model.named_modules() if name][:-1]  # all but the readout
        how = {"learning_rate": c["ascent"], "plain": c["plain_ascent"]}
        rank_pretraining_(model, sets.inputs[:2000], steps=steps, seed=seed, layers=hidden, **how)
    return model


def ranks_on(inputs: torch.Tensor) -> Measure:
    """A measure for `fit`: the two ranks of the last hidden layer on these samples; missing if they are not finite.

    Example:
        >>> import torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.ReLU(), torch.nn.Linear(2, 1))
        >>> ranks_on(torch.tensor([[1.0, 0.0], [2.0, 0.0]]))(net).round(6).tolist()
        [1.0, 1.0]
    """

    def measure(model: nn.Module) -> np.ndarray[Any, Any]:
        h = last_layers(model, inputs).pre_activations
        return ranks(h) if bool(h.isfinite().all()) else np.full(2, math.nan)

    return measure


def ranks(h: torch.Tensor) -> np.ndarray[Any, Any]:
    """Stable rank, and the number of singular values above 1e-9 of the largest.

    Example:
        >>> import torch
        >>> ranks(torch.eye(4)).tolist()
        [4.0, 4.0]
    """
    from isometer.metrics import rank, stable_rank

    return np.array([float(stable_rank(h)), float(rank(h, tolerance=TOLERANCE))])


class LastLayers(NamedTuple):
    """What enters the last ReLU, `(n, features)`; what enters the readout; the outputs."""

    pre_activations: torch.Tensor
    features: torch.Tensor
    outputs: torch.Tensor


def last_layers(model: nn.Module, inputs: torch.Tensor) -> LastLayers:
    """The end of a network on a batch, whose own statistics batch norm takes.

    A copy in double precision is run; the model is left as it is.

    Example:
        >>> import torch
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        >>> last_layers(net, -torch.ones(3, 1, 2, 2)).features.sum().item()
        0.0
    """
    import torch

    # a copy, since training mode moves running statistics; float64, since TOLERANCE is below float32's rounding
    twin = copy.deepcopy(model).double().train()
    activation = [module for module in twin.modules() if isinstance(module, torch.nn.ReLU)][-1]
    readout = [module for module in twin.modules() if isinstance(module, torch.nn.Linear)][-1]
    caught: dict[str, torch.Tensor] = {}
    for name, module in (("h", activation), ("x", readout)):
        module.register_forward_pre_hook(lambda _, passed, name=name: caught.update({name: passed[0]}))
    with torch.no_grad():
        outputs = twin(inputs.to(readout.weight.device).double())
    return LastLayers(caught["h"].flatten(1), caught["x"], outputs)


def named(curves: xarray.Dataset, measure: str, names: Sequence[str]) -> xarray.Dataset:
    """A measure of several numbers as variables by name.

    Example:
        >>> curves = xarray.Dataset({"ranks": (("epoch", "ranks_index"), [[1.5, 3.0]])})
        >>> sorted(named(curves, "ranks", RANKS))
        ['numerical_rank', 'stable_rank']
    """
    return curves.drop_vars(measure).assign({name: curves[measure][:, i] for i, name in enumerate(names)})
