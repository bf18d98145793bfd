"""VGG- and ResNet-shaped networks trained on images: accuracy, rank and alignment of gradients in the last layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from numpy.typing import NDArray

from isometer.errors import unknown_name
from isometer_papers.studies.cells.rank_training import RANKS, SAMPLES, Measure, last_layers, named, ranks

if TYPE_CHECKING:
    import torch
    from torch import nn

    from isometer.run import Checkpoint
    from isometer_papers.training import Sets


@dataclass(frozen=True)
class VisionSetting:
    """What tells the networks of 002's figures 7, 8 and 11 apart.

    Example:
        >>> VisionSetting().norm
        'batch'
    """

    architecture: str = "VGG19"
    norm: str = "batch"
    init: str = "default"
    factor: float = 1.0  # of the learning rate
    random: bool = False  # images of noise


NETWORKS = {
    "VGG19": VisionSetting(),
    "VGG19, positive": VisionSetting(init="positive"),
    "ResNet50": VisionSetting("ResNet50"),
    "ResNet50, positive": VisionSetting("ResNet50", init="positive"),
    "VGG19 without BN": VisionSetting(norm="none"),
    "VGG19 without BN, 100 × rate": VisionSetting(norm="none", factor=100.0),
    "VGG19 without BN, random images": VisionSetting(norm="none", random=True),
    "VGG19, BN without mean": VisionSetting(norm="batch-rescale"),
    "VGG19, BN without mean, by deviation": VisionSetting(norm="batch-rescale-std"),
}
LAST = (*RANKS, "neuron_alignment", "gradient_alignment")


def vision_cell(configuration: Mapping[str, Any], seed: int, checkpoint: Checkpoint | None = None) -> xarray.Dataset:
    """Curves by epoch of a run, or of several: training accuracy and loss, ranks, alignment of gradients.

    Keys: `network` (of `NETWORKS`), `channels` and `bottleneck` (of the first convolution of VGG19 and of ResNet50; the
    others follow), `data`, `train`, `shrink`, `every` (epochs between measurements), `device`, and those of `Recipe`.
    The numbers of `LAST` are of 128 training images.

    Example:
        >>> cell = {"network": "VGG19", "channels": 1, "bottleneck": 1, "data": "digits", "train": 40, "shrink": 1}
        >>> cell |= {"device": "cpu", "learning_rate": 0.1, "epochs": 1, "batch": 20, "optimizer": "sgd", "every": 1}
        >>> vision_cell(cell, 0)["neuron_alignment"].shape
        (2,)
    """
    from isometer_papers.training import Recipe, fit_together, image_sets, joined_runs, run_seeds

    c, seeds = configuration, run_seeds(configuration, seed)
    if c["network"] not in NETWORKS:
        raise unknown_name("network", c["network"], NETWORKS)
    setting = NETWORKS[c["network"]]
    images = image_sets(c["data"], c["train"], 1, shrink=c["shrink"])
    sets = [with_noise(images, c["data"], one) if setting.random else images for one in seeds]
    channels = c["bottleneck" if setting.architecture == "ResNet50" else "channels"]
    found = fit_together(
        [network(setting, channels, images, one) for one in seeds],
        sets,
        Recipe.of(c, learning_rate=c["learning_rate"] * setting.factor),
        seeds=seeds,
        measures=[{"last": last_on(own.inputs[:SAMPLES], own.labels[:SAMPLES])} for own in sets],
        every=c["every"],
        test=False,
        checkpoint=checkpoint,
        device=c["device"],
    )
    return joined_runs(c, [named(one, "last", LAST) for one in found])


def network(setting: VisionSetting, channels: int, sets: Sets, seed: int) -> nn.Module:
    """A network with the depth of the one it is named after, and channels in the same proportions.

    Example:
        >>> from isometer_papers.training import image_sets
        >>> net = network(VisionSetting(), 2, image_sets("digits", 20, 1), 0)
        >>> net[-1].in_features
        16
    """
    from isometer_papers.architectures import resnet, vgg
    from isometer_papers.architectures.vgg import VGG19

    options: dict[str, Any] = {"norm": setting.norm, "init": setting.init, "seed": seed}
    if setting.architecture == "ResNet50":
        return resnet(sets.shape, sets.classes, depth=50, channels=[channels * k for k in (1, 2, 4, 8)], **options)
    plan = [entry if isinstance(entry, str) else entry * channels // 64 for entry in VGG19]
    return vgg(sets.shape, sets.classes, plan=plan, **options)


def with_noise(sets: Sets, data: str, seed: int) -> Sets:
    """The labels with other images: grey levels uniform on all that there are, prepared as the images were.

    Where those were shrunk, noise is drawn at the small size: averages of noise would have less contrast.

    Example:
        >>> from isometer_papers.training import image_sets
        >>> with_noise(image_sets("digits", 20, 10), "digits", 0).inputs.shape
        torch.Size([20, 1, 8, 8])
    """
    import torch

    values = prepared_levels(data)
    channels = len(values)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    noise = rng.integers(0, values.shape[1], sets.inputs.shape)
    return replace(sets, inputs=torch.from_numpy(values[np.arange(channels)[:, None, None], noise]))


@lru_cache(maxsize=4)
def prepared_levels(data: str) -> NDArray[np.float32]:
    """What preparation makes of every grey level in every channel of a data set, `(channels, levels)`.

    Example:
        >>> prepared_levels("digits").shape
        (1, 17)
    """
    from isometer.data import load

    page = load(data)
    levels = np.arange(page.levels + 1, dtype=np.uint8)
    plain = np.broadcast_to(levels[:, None, None, None], (len(levels), *page.shape))
    return np.ascontiguousarray(page.prepare(plain)[:, :, 0, 0].T)


def last_on(images: torch.Tensor, labels: torch.Tensor) -> Measure:
    """A measure for `fit`: the numbers of `LAST`; missing if outputs are not finite.

    Example:
        >>> import torch
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.ReLU(), torch.nn.Linear(2, 2))
        >>> x = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
        >>> last_on(x, torch.tensor([0, 1]))(net).round(6).tolist()
        [1.0, 1.0, 1.0, 1.0]
    """

    def measure(model: nn.Module) -> np.ndarray[Any, Any]:
        found = last_layers(model, images)
        if not bool(found.outputs.isfinite().all()):
            return np.full(len(LAST), math.nan)
        aligned = alignments(found.features, found.outputs, labels.to(found.outputs.device))
        return np.concatenate([ranks(found.pre_activations), aligned])

    return measure


def alignments(features: torch.Tensor, outputs: torch.Tensor, labels: torch.Tensor) -> np.ndarray[Any, Any]:
    """Mean |cos| over pairs of samples of their gradients in the readout: of one neuron, and of all its weights.

    The gradients of one neuron are multiples of what enters the readout, so their |cos| are those of its inputs.

    Example:
        >>> import torch
        >>> alignments(torch.eye(2), torch.zeros(2, 2), torch.tensor([0, 1])).tolist()
        [0.0, 0.0]
    """
    from torch.nn.functional import one_hot

    from isometer.metrics import gradient_alignment, linear_gradient_gram

    cotangents = outputs.softmax(1) - one_hot(labels, outputs.shape[1])
    of_all = gradient_alignment(gram=linear_gradient_gram(features, cotangents))
    return np.array([float(gradient_alignment(features).mean_abs_cosine), float(of_all.mean_abs_cosine)])
