"""Deep networks with orthogonal weights, batch norm and shaped activations, trained: accuracy, weights, gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

if TYPE_CHECKING:
    import torch
    from torch import nn

    from isometer.run import Checkpoint

Array = np.ndarray[Any, Any]
UNGAINED = "identity without gain"  # the other reading of the papers' identity, whose layers have no gain
MEASURES = ("weight_gap", "gradient_norm", "moved")
_TOGETHER = 32  # matrices that fit a processor's cache at the papers' width


def isometry_training_cell(
    configuration: Mapping[str, Any], seed: int, checkpoint: Checkpoint | None = None
) -> xarray.Dataset:
    """Curves of one run, and by hidden layer what became of the weights.

    Keys: `activation` (sin, tanh, identity, all with gains, or `UNGAINED`), `exponent` (p of the gains ℓ^(−p)),
    `depth` (hidden layers), `width`,
    `data`, `train`, `test` (images; 0 for no tests), `shrink`, `every` (epochs between measurements), `device`, those
    of `Recipe`; `run`, one or several.

    Returns:
        What `fit` returns, with `classes`, and over `epoch` and `layer`, from 1: `weight_gap` (isometry gap of W_ℓ),
        `gradient_norm` (of the epoch's last step, so that it costs no pass of its own; missing before training) and
        `moved` (distance of W_ℓ from where it started, over its norm there).

    Example:
        >>> cell = {"activation": "tanh", "exponent": 0.4, "depth": 3, "width": 8, "data": "digits", "train": 100,
        ...     "test": 50, "shrink": 1, "every": 1, "learning_rate": 0.01, "batch": 20, "epochs": 2, "device": "cpu"}
        >>> curves = isometry_training_cell(cell, 0)
        >>> dict(curves["weight_gap"].sizes), bool((curves["weight_gap"][0] < 1e-12).all())
        ({'epoch': 3, 'layer': 3}, True)
    """
    from isometer_papers.architectures import mlp
    from isometer_papers.training import Recipe, fit_together, image_sets, joined_runs, run_seeds

    c, seeds = configuration, run_seeds(configuration, seed)
    sets = image_sets(c["data"], c["train"], max(c["test"], 1), shrink=c["shrink"])
    models = [
        mlp(
            sets.features,
            sets.classes,
            depth=c["depth"],
            width=c["width"],
            activation="identity" if c["activation"] == UNGAINED else c["activation"],
            norm="batch",
            init="orthogonal",
            gain_exponent=None if c["activation"] == UNGAINED else c["exponent"],
            seed=one,
        )
        for one in seeds
    ]
    found = fit_together(
        models,
        [sets] * len(seeds),
        Recipe.of(c),
        seeds=seeds,
        measures=[_by_layer(model, c["device"]) for model in models],
        every=c["every"],
        test=c["test"] > 0,
        checkpoint=checkpoint,
        device=c["device"],
    )
    layers = np.arange(1, c["depth"] + 1)
    return joined_runs(c, [_over_layers(one).assign(classes=sets.classes).assign_coords(layer=layers) for one in found])


def _by_layer(model: nn.Module, device: str) -> dict[str, Callable[[nn.Module], Array]]:
    """What is measured of every weight matrix; it moves from where it is now."""
    start = [weight.detach().clone().to(device) for weight in hidden_weights(model)]
    return {
        "weight_gap": lambda net: weight_gaps(hidden_weights(net)),
        "gradient_norm": lambda net: gradient_norms(hidden_weights(net)),
        "moved": lambda net: distances(hidden_weights(net), start),
    }


def _over_layers(curves: xarray.Dataset) -> xarray.Dataset:
    for name in MEASURES:
        curves = curves.assign({name: curves[name].rename({f"{name}_index": "layer"})})
    return curves


def hidden_weights(model: nn.Module) -> list[torch.Tensor]:
    """The weight matrices in order, without the readout's.

    Example:
        >>> from isometer_papers.architectures import mlp
        >>> [tuple(weight.shape) for weight in hidden_weights(mlp(6, 3, depth=2, width=4))]
        [(4, 6), (4, 4)]
    """
    from torch import nn

    return [layer.weight for layer in model.modules() if isinstance(layer, nn.Linear)][:-1]


def weight_gaps(weights: list[torch.Tensor]) -> Array:
    """log(tr G/d) − (log det G)/d of each matrix, G its Gram matrix over the shorter side of length d.

    Several of a shape at once, in double precision: absolute errors are near 1e-15, what single precision leaves of an
    orthogonal matrix is near 1e-13. A singular matrix has an infinite gap.

    Example:
        >>> import torch
        >>> weight_gaps([torch.nn.Parameter(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))]).round(6)  # log(5/2) − log(4)/2
        array([0.223144])
    """
    import torch

    gaps = np.empty(len(weights))
    shapes = [tuple(weight.shape) for weight in weights]
    with torch.no_grad():
        for shape in dict.fromkeys(shapes):
            same = [i for i, other in enumerate(shapes) if other == shape]
            side = min(shape)
            for first in range(0, len(same), _TOGETHER):
                chosen = same[first : first + _TOGETHER]
                # float64: near orthogonality the gap is the difference of two nearly equal logarithms
                stack = torch.stack([weights[i].detach() for i in chosen]).double()
                stack = stack.mT if shape[0] > shape[1] else stack
                size = torch.linalg.vector_norm(stack, dim=(-1, -2)) ** 2
                if shape[0] == shape[1]:
                    volume = 2 * torch.linalg.slogdet(stack).logabsdet  # det G = (det W)², without the product
                else:
                    volume = torch.linalg.slogdet(stack @ stack.mT).logabsdet
                values = (size / side).log() - volume / side
                gaps[chosen] = values.clamp(min=0).cpu().numpy()  # no gap is negative, rounding is
    return gaps


def gradient_norms(weights: list[torch.Tensor]) -> Array:
    """Frobenius norms of the gradients that the last step left behind; NaN where there was none.

    Example:
        >>> import torch
        >>> weight = torch.nn.Parameter(torch.ones(2, 2))
        >>> (3 * weight).sum().backward()
        >>> gradient_norms([weight, torch.nn.Parameter(torch.ones(1))])
        array([ 6., nan])
    """
    return np.array([math.nan if one.grad is None else float(one.grad.norm()) for one in weights])


def distances(weights: list[torch.Tensor], start: list[torch.Tensor]) -> Array:
    """‖W − W₀‖ / ‖W₀‖ of each matrix.

    Example:
        >>> import torch
        >>> distances([torch.nn.Parameter(torch.tensor([[0.0, 3.0]]))], [torch.tensor([[4.0, 0.0]])])
        array([1.25])
    """
    pairs = zip(weights, start, strict=True)
    return np.array([float((weight.detach() - old).norm() / old.norm()) for weight, old in pairs])
