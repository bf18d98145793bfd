"""Networks of 004's experiments in training: batch norm, layer norm, NormReLU, SeLU and Fixup."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from isometer.errors import IsometerError

if TYPE_CHECKING:
    from torch import nn

    from isometer.run import Checkpoint
    from isometer_papers.training import Sets

METHODS: dict[str, dict[str, Any]] = {
    "batch norm": {"norm": "batch", "activation": "relu", "init": "he"},
    "layer norm": {"norm": "layer", "activation": "relu", "init": "he"},
    "NormReLU": {"norm": "none", "activation": "normrelu", "init": "gaussian"},
    "SeLU": {"norm": "none", "activation": "selu", "init": "gaussian"},
    "Fixup": {"norm": "none", "activation": "relu", "init": "he"},
}
HELD = ("validation_accuracy", "test_accuracy", "mean_cosine", "dot_product")
KERNELS = ("fan out", "fan in")
_CHUNK = 1000


def training_cell(configuration: Mapping[str, Any], seed: int, checkpoint: Checkpoint | None = None) -> xarray.Dataset:
    """Networks trained: `architecture` (MLP, ResNet), `depth`, `method`, `candidate` (which learning rate), `run`, one
    or several.

    Settings that begin with `mlp_` or `resnet_` are those of one architecture: `width` (of the layers, or of the
    first stage), `shrink`, `train`, `rates`. Of the `test` images the first `validation` are for choosing the rate.

    Example:
        >>> cell = {"architecture": "MLP", "depth": 2, "method": "NormReLU", "candidate": 0, "data": "digits"}
        >>> sizes = {"mlp_width": 8, "mlp_shrink": 1, "mlp_train": 100, "mlp_rates": [0.01]}
        >>> how = {"epochs": 2, "batch": 50, "every": 1, "kernels": "fan out", "device": "cpu"}
        >>> how |= {"test": 40, "validation": 20}
        >>> curves = training_cell({**cell, **sizes, **how}, 0)
        >>> curves["test_accuracy"].sizes["epoch"], "mean_cosine" in curves
        (3, True)
    """
    from isometer_papers.training import Recipe, fit_together, image_sets, joined_runs, run_seeds

    c, seeds = configuration, run_seeds(configuration, seed)
    prefix = c["architecture"].lower() + "_"
    own = {name.removeprefix(prefix): value for name, value in c.items() if name.startswith(prefix)}
    sets = image_sets(c["data"], own["train"], c["test"], shrink=own["shrink"])
    shape = {"depth": c["depth"], "width": own["width"], "kernels": c["kernels"]}
    factor = c.get("bias_factor", 1.0) if c["method"] == "Fixup" else 1.0
    milestones = c.get("fixup_milestones" if c["method"] == "Fixup" else "milestones", ())
    rate = rates_of(own["rates"], c["method"], c["depth"])[c["candidate"]]
    found = fit_together(
        [network(c["architecture"], c["method"], sets, seed=one, **shape) for one in seeds],
        [sets] * len(seeds),
        Recipe.of(c, learning_rate=rate, milestones=milestones, bias_factor=factor),
        seeds=seeds,
        measures=[{"held": held_out(sets, c["validation"], c["device"])}] * len(seeds),
        every=c["every"],
        test=False,
        checkpoint=checkpoint,
        device=c["device"],
    )
    return joined_runs(c, [_named(one).assign(learning_rate=rate) for one in found])


def _named(curves: xarray.Dataset) -> xarray.Dataset:
    rows = curves["held"].transpose("held_index", "epoch")
    return curves.drop_vars("held").assign({name: rows[i] for i, name in enumerate(HELD)})


def printed_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The learning rate that a study has for a `row` of the paper's table, from `used`; −1 for none.

    Example:
        >>> float(printed_cell({"row": "a", "used": {"a": {"learning_rate": 0.5}}}, 0)["learning_rate"])
        0.5
    """
    rate = configuration["used"][configuration["row"]]["learning_rate"]
    return xarray.Dataset({"learning_rate": -1.0 if rate is None else float(rate)})


def rates_of(rates: Any, method: str, depth: int) -> list[float]:
    """The candidates for the learning rate: a list for all networks, or lists by `"method, depth"`.

    Example:
        >>> rates_of({"SeLU, 32": [0.1]}, "SeLU", 32)
        [0.1]
    """
    return list(rates[f"{method}, {depth}"] if isinstance(rates, Mapping) else rates)


def network(
    architecture: str,
    method: str,
    sets: Sets,
    *,
    depth: int,
    width: int,
    kernels: str = "fan out",
    seed: int = 0,
) -> nn.Sequential:
    """A network of the paper's experiments.

    Args:
        architecture: `MLP` or `ResNet`.
        method: one of `METHODS`.
        sets: the images, for their shape and classes.
        depth: hidden layers of an MLP, layers of a ResNet.
        width: of every hidden layer, or of a ResNet's first stage, doubled at each further one.
        kernels: what convolutions' variance is one over, without normalisation: `fan out` (the paper's) or `fan in`.
        seed: of the weights.

    Example:
        >>> from isometer_papers.training import image_sets
        >>> sets = image_sets("digits", 20, 10)
        >>> len(network("MLP", "batch norm", sets, depth=2, width=8))
        8
    """
    from isometer_papers.architectures import mlp, resnet

    if method not in METHODS or architecture not in ("MLP", "ResNet") or kernels not in KERNELS:
        raise IsometerError(
            f"the network is {architecture!r} with {method!r} and kernels {kernels!r}; expected MLP or ResNet, "
            f"one of {', '.join(METHODS)}, and {' or '.join(KERNELS)}"
        )
    if architecture == "MLP":
        if method == "Fixup":
            raise IsometerError("Fixup was requested for an MLP; expected a ResNet — Fixup is made for residual blocks")
        return mlp(sets.features, sets.classes, depth=depth, width=width, seed=seed, **METHODS[method])
    stages = (width, 2 * width, 4 * width)
    net = resnet(
        sets.shape,
        sets.classes,
        depth=depth,
        channels=stages,
        fixup=method == "Fixup",
        seed=seed,
        **METHODS[method],
    )
    if sets.shape[0] == 1:  # augmented images of one channel come with strides at which convolutions abort
        net.register_forward_pre_hook(lambda _, inputs: (inputs[0].flatten(1).view(inputs[0].shape),))
    if method in ("NormReLU", "SeLU") and kernels == "fan out":
        _rescale_kernels_(net)
    return net


def _rescale_kernels_(net: nn.Module) -> None:
    """From variance 1/(k² c_in) to 1/(k² c_out), as 004/init-normrelu-conv has it."""
    import torch

    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, torch.nn.Conv2d):
                layer.weight.mul_(math.sqrt(layer.in_channels / layer.out_channels))


def held_out(sets: Sets, validation: int, device: str = "cpu") -> Callable[[nn.Module], np.ndarray[Any, Any]]:
    """What is measured on images that are not trained on, from one forward pass: the numbers of `HELD`.

    Dot products are those of the last hidden layer for the images of the test: the mean cosine of pairs, and the mean
    product over the mean square. Without validation images, the validation is the test.

    Example:
        >>> from isometer_papers.training import image_sets
        >>> sets = image_sets("digits", 20, 10)
        >>> held_out(sets, 5)(network("MLP", "NormReLU", sets, depth=2, width=8)).shape
        (4,)
    """
    import torch

    from isometer.metrics import average_dot_product, mean_cosine

    inputs, labels = sets.test_inputs.to(device), sets.test_labels.to(device)

    @torch.no_grad()
    def measure(model: nn.Module) -> np.ndarray[Any, Any]:
        assert isinstance(model, torch.nn.Sequential)
        training = model.training
        model.eval()
        hidden = torch.cat([model[:-1](piece) for piece in torch.split(inputs, _CHUNK)])
        right = (model[-1](hidden).argmax(1) == labels).double().cpu()
        model.train(training)
        kept = hidden[validation:].double().cpu().numpy()
        chosen_by = right[:validation] if validation else right
        cosines = (
            (float(mean_cosine(kept)), float(average_dot_product(kept))) if np.isfinite(kept).all() else (1.0, 1.0)
        )
        return np.array([float(chosen_by.mean()), float(right[validation:].mean()), *cosines])

    return measure
