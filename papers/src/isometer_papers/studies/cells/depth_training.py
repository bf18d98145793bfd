"""Deep ReLU networks without normalisation, trained from several initial weights: loss and orthogonality gap."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from isometer.errors import unknown_name
from isometer_papers.studies.cells.rank_training import named

if TYPE_CHECKING:
    from torch import Tensor, nn

    from isometer.run import Checkpoint
    from isometer_papers.training import Sets

CLIPPING: dict[str, dict[str, Any]] = {  # adaptive gradient clipping, on top of Xavier weights
    "AGC, λ = 0.1": {"clip": 0.1},
    "AGC, λ = 1": {"clip": 1.0},
    "AGC by unit, λ = 0.1": {"clip": 0.1, "clip_units": True},
    "AGC by unit, λ = 1": {"clip": 1.0, "clip_units": True},
}
SCHEMES = ("Xavier", "iterative", "orthogonal Xavier", *CLIPPING)


def depth_training_cell(
    configuration: Mapping[str, Any], seed: int, checkpoint: Checkpoint | None = None
) -> xarray.Dataset:
    """Train a network of `depth` linear layers, the readout included, and measure the gap of its last layers.

    Keys: `scheme` (one of `SCHEMES`), `depth`, `width`, `gain` (on Xavier weights), `exponent`, `frame`, `output_norm`
    (of iterative orthogonalisation; 0 for mean square 1), `data`, `train` (images), `shrink`, `gap_batches`, `every`,
    `device`, those of a recipe; `run`, one or several.

    Returns:
        What `fit` returns, with `output_gap` (of the readout's outputs) and `hidden_gap` (of the last hidden layer),
        means over the first training batches.

    Example:
        >>> cell = {"scheme": "Xavier", "depth": 3, "width": 8, "gain": 1.4, "exponent": 0.5, "frame": "polar",
        ...     "output_norm": 1.0, "data": "digits", "train": 60, "shrink": 1, "gap_batches": 2, "every": 1,
        ...     "learning_rate": 0.1, "batch": 20, "epochs": 2, "device": "cpu"}
        >>> depth_training_cell(cell, 0)["output_gap"].sizes["epoch"]
        3
    """
    import torch

    from isometer_papers.training import Recipe, fit_together, joined_runs, run_seeds

    c, seeds = configuration, run_seeds(configuration, seed)
    if c["scheme"] not in SCHEMES:
        raise unknown_name("scheme", c["scheme"], SCHEMES)
    sets = signed_sets(c["data"], c["train"], c["shrink"])
    models = [deep_network(c, sets, one) for one in seeds]
    batches = torch.split(sets.inputs[: c["gap_batches"] * c["batch"]].to(c["device"]), c["batch"])

    def gaps(model: nn.Module) -> np.ndarray[Any, Any]:
        assert isinstance(model, torch.nn.Sequential)
        return mean_gaps((model[:-1], model[-1]), batches)  # all hidden layers, the readout

    found = fit_together(
        models,
        [sets] * len(seeds),
        Recipe.of(c, **CLIPPING.get(c["scheme"], {})),
        seeds=seeds,
        measures=[{"gaps": gaps}] * len(seeds),
        every=c["every"],
        test=False,
        checkpoint=checkpoint,
        device=c["device"],
    )
    return joined_runs(c, [named(one, "gaps", ("hidden_gap", "output_gap")) for one in found])


def signed_sets(data: str, train: int | None, shrink: int) -> Sets:
    """Training images with values from −1 to 1, and one test image, which nobody asks for.

    Example:
        >>> sets = signed_sets("digits", 5, 1)
        >>> sets.inputs.min().item(), sets.inputs.max().item()
        (-1.0, 1.0)
    """
    from isometer_papers.training import image_sets

    sets = image_sets(data, train, 1, shrink=shrink, centre="none", scale="unit")
    return dataclasses.replace(sets, inputs=2 * sets.inputs - 1, test_inputs=2 * sets.test_inputs - 1)


def deep_network(c: Mapping[str, Any], sets: Sets, seed: int) -> nn.Sequential:
    """The network before training, without biases.

    Example:
        >>> cell = {"scheme": "Xavier", "depth": 3, "width": 8, "gain": 1.0}
        >>> len([p for p in deep_network(cell, signed_sets("digits", 5, 1), 0).parameters()])
        3
    """
    import torch

    from isometer.init import iterative_orthogonalization_, orthogonalized_xavier_
    from isometer_papers.architectures import mlp

    model = mlp(sets.features, sets.classes, depth=c["depth"] - 1, width=c["width"], init="xavier", seed=seed)
    model[-1].register_parameter("bias", None)
    if c["scheme"] == "orthogonal Xavier":
        orthogonalized_xavier_(model, seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(c["gain"])
    if c["scheme"] == "iterative":
        chosen = np.random.default_rng(seed).permutation(len(sets.inputs))[: 3 * c["width"]]
        iterative_orthogonalization_(
            model,
            sets.inputs[torch.from_numpy(chosen)],
            exponent=c["exponent"],
            frame=c["frame"],
            output_norm=c["output_norm"] or None,
            seed=seed,
        )
    return model


def mean_gaps(parts: Sequence[nn.Module], batches: Sequence[Tensor]) -> np.ndarray[Any, Any]:
    """The orthogonality gap after each part of a model, one after the other, the mean over batches.

    Example:
        >>> import torch
        >>> mean_gaps((torch.nn.Identity(), torch.nn.Identity()), (torch.eye(3), 2 * torch.eye(3))).tolist()
        [0.0, 0.0]
    """
    import torch

    from isometer.metrics import orthogonality_gap

    found = np.empty((len(batches), len(parts)))
    with torch.no_grad():
        for row, batch in zip(found, batches, strict=True):
            signal = batch
            for i, part in enumerate(parts):
                signal = part(signal)
                row[i] = float(orthogonality_gap(signal.flatten(1).double()))
    return np.asarray(found.mean(0))
