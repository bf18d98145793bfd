"""Small data sets: networks that start with one neuron per sample, with He's weights, or with batch norm, trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from isometer.errors import unknown_name

if TYPE_CHECKING:
    import torch
    from torch import nn

    from isometer.run import Checkpoint
    from isometer_papers.training import Sets

NEURONS = "one neuron per sample"
SCHEMES = (NEURONS, "He", "batch norm")
POOL = 10_000  # images from which the training set of a run is drawn


def neuron_training_cell(
    configuration: Mapping[str, Any], seed: int, checkpoint: Checkpoint | None = None
) -> xarray.Dataset:
    """Curves of runs, each on a small training set of its own.

    Keys: `scheme` (of `SCHEMES`), `depth` (hidden layers), `width` (at least `train` for one neuron per sample),
    `margin` (of its thresholds), `answer` (length of a sample's answer in its last hidden layer), `data`, `train`,
    `test` (images), `shrink`, `every` (epochs between tests), `device`, those of `Recipe`; `run`, one or several.

    Returns:
        What `fit` returns, with `gap`, the orthogonality gap of the last hidden layer on the training set.

    Example:
        >>> cell = {"scheme": NEURONS, "depth": 2, "width": 32, "margin": 0.5, "answer": 1.0, "data": "digits"}
        >>> cell |= {"train": 20, "test": 50, "shrink": 1, "every": 1, "device": "cpu"}
        >>> cell |= {"learning_rate": 0.1, "batch": 10, "epochs": 2}
        >>> round(float(neuron_training_cell(cell, 0)["gap"][0]), 6)
        0.0
    """
    from isometer_papers.studies.cells.depth_training import mean_gaps
    from isometer_papers.training import Recipe, fit_together, image_sets, joined_runs, run_seeds

    c, seeds = configuration, run_seeds(configuration, seed)
    if c["scheme"] not in SCHEMES:
        raise unknown_name("scheme", c["scheme"], SCHEMES)
    pool = min(POOL, 1000) if c["data"] == "digits" else POOL
    images = image_sets(c["data"], pool, c["test"], shrink=c["shrink"])
    sets = [drawn(images, c["train"], one) for one in seeds]

    def gap_on(inputs: torch.Tensor) -> Callable[[nn.Module], float]:
        inputs = inputs.to(c["device"])
        return lambda model: float(mean_gaps([model[:-1]], [inputs])[0])  # type: ignore[index]

    found = fit_together(
        [started(c, own, one) for own, one in zip(sets, seeds, strict=True)],
        sets,
        Recipe.of(c),
        seeds=seeds,
        measures=[{"gap": gap_on(own.inputs)} for own in sets],
        every=c["every"],
        checkpoint=checkpoint,
        device=c["device"],
    )
    return joined_runs(c, found)


def drawn(sets: Sets, count: int, seed: int) -> Sets:
    """A training set of that many of the images, drawn at random; the test images stay.

    Example:
        >>> from isometer_papers.training import image_sets
        >>> len(drawn(image_sets("digits", 100, 10), 20, 0).inputs)
        20
    """
    import torch

    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
    chosen = torch.from_numpy(rng.permutation(len(sets.inputs))[:count])
    return replace(sets, inputs=sets.inputs[chosen], labels=sets.labels[chosen])


def started(c: Mapping[str, Any], sets: Sets, seed: int) -> nn.Sequential:
    """The network before training. One neuron per sample is set layer by layer; the readout has He's weights."""
    import torch
    from torch import nn

    from isometer.init import one_neuron_per_sample_
    from isometer_papers.architectures import mlp

    norm = "batch" if c["scheme"] == "batch norm" else "none"
    shape = {"depth": c["depth"], "width": c["width"]}
    model = mlp(sets.features, sets.classes, norm=norm, init="he", bias=True, seed=seed, **shape)
    if c["scheme"] != NEURONS:
        return model
    with torch.no_grad():
        signal = sets.inputs
        hidden = list(model)[:-1]
        for layer in hidden:
            if isinstance(layer, nn.Linear):
                one_neuron_per_sample_(layer, signal, margin=c["margin"])
            signal = layer(signal)
        last = [layer for layer in hidden if isinstance(layer, nn.Linear)][-1]
        for parameter in last.parameters():
            parameter.mul_(c["answer"])
    return model
