"""What the training studies of 004 share: the curves of a network at its best learning rate, comparisons, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray
from numpy.typing import NDArray

from isometer_papers.studies._comparisons import Compared, Decisive, above, ordered
from isometer_papers.studies._drawing import Figure, band, new_figure
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import TOGETHER, Choice, Measured, Scale, Settings
from isometer_papers.studies.agarwal2021.hyperparameters import (
    DROPS,
    EPOCHS,
    FACTOR,
    UNITS,
    printed_axes,
    printed_rates,
)
from isometer_papers.studies.cells.normrelu_training import rates_of

__all__ = [
    "CHANCE",
    "CHOICES",
    "COMMON",
    "KERNELS",
    "MARGIN",
    "OPTIMIZER",
    "SLIGHT",
    "VISIBLE",
    "Curves",
    "ahead",
    "best",
    "draw_accuracies",
    "edges_told",
    "numbers",
    "paper_scale",
    "rises",
    "scale",
    "speed",
]

CHANCE = 0.1  # accuracy of a run that diverged: ten classes
MARGIN = Decisive(
    0.03,
    "accuracy",
    "the paper says “similar” and prints no numbers; curves that are no further apart touch in its axes",
)
VISIBLE = Decisive(0.05, "accuracy", "the paper prints no numbers; a twentieth of its axis is what a reader sees")
SLIGHT = 0.01  # “slightly higher” and no number: one image in a hundred
_QUICK: dict[str, Any] = {
    "data": "cifar10",
    "device": "cpu",
    "watch": False,
    "mlp_width": 128,
    "mlp_shrink": 2,
    "mlp_train": 1500,
    "mlp_rates": [0.0005, 0.002, 0.02, 0.1],
    "resnet_width": 8,
    "resnet_shrink": 4,
    "resnet_train": 2000,
    "resnet_rates": [0.001, 0.004, 0.02, 0.1, 0.4],
    "test": 800,
    "validation": 300,
    "epochs": 8,
    "every": 4,
    "batch": 100,
    "optimizer": "momentum",
    "kernels": "fan out",
}
_MEDIUM: dict[str, Any] = {
    **_QUICK,
    "mlp_train": 4000,
    "mlp_rates": [0.001, 0.005, 0.025, 0.1],
    "resnet_train": 2500,
    "epochs": 12,
    "every": 2,
    "test": 1500,
    "validation": 500,
}
_PAPER: dict[str, Any] = {
    **_QUICK,
    "mlp_width": UNITS,
    "mlp_shrink": 1,
    "mlp_train": None,
    "resnet_width": 16,
    "resnet_shrink": 1,
    "resnet_train": None,
    "test": None,
    "validation": 0,
    "epochs": EPOCHS,
    "watch": True,
    "every": 5,
    "batch": 128,
    "milestones": list(DROPS),
    "factor": FACTOR,
}
_REDUCED = {
    "MLP": "MLPs of width 128 on {mlp_train} images of 16×16",
    "ResNet": "ResNets of 8, 16 and 32 channels on {resnet_train} images of 8×8",
}


def scale(
    name: str, architectures: Sequence[str], depths: Sequence[int], methods: Sequence[str], **changes: Any
) -> Scale:
    """A reduced scale: networks by candidates for the learning rate by runs; `reading` is for `read` alone.

    Example:
        >>> len(scale("quick", ["MLP"], [32], ["NormReLU"]).axes["run"])
        4
    """
    reading = changes.pop("reading", {})
    reduced = changes.pop("reduced", "")
    runs = changes.pop("runs", 4)
    constants = {**{"quick": _QUICK, "medium": _MEDIUM}[name], **changes}
    axes: dict[str, Any] = {"architecture": list(architectures), "depth": list(depths), "method": list(methods)}
    parts = [reduced] if reduced else [_REDUCED[one].format(**constants) for one in architectures]
    tried = len(constants["mlp_rates" if "MLP" in architectures else "resnet_rates"])
    text = f"{'; '.join(parts)}; {constants['epochs']} epochs at a constant rate, the best of {tried}; {runs} runs"
    axes |= {"candidate": list(range(tried)), "run": list(range(runs))}
    return Scale(axes, constants, text, reading, together=TOGETHER)


def paper_scale(figure: str, **changes: Any) -> Scale:
    """The paper's own scale of a figure, with the learning rates it prints.

    Example:
        >>> paper_scale("fig-3").constants["mlp_rates"]["NormReLU, 64"]
        [0.0009]
    """
    reading = changes.pop("reading", {})
    return Scale(printed_axes(figure), {**_PAPER, **printed_rates(figure), **changes}, reading=reading)


CHOICES = {
    "learning rate": Choice(
        "at reduced scales the best of a few for every network, by the accuracy on images set aside",
        "the paper's rates were found by cross-validation and belong to its width and length; all methods get the same "
        "rates; where a network took the smallest or the largest of them, the remark says so",
    ),
    "schedule": Choice(
        "×0.1 after epochs 100 and 200; none at reduced scales",
        "printed as every 100 iterations of 300 epochs, which would end training within the first epoch",
    ),
    "initial weights": Choice(
        "variance 1 over the fan-in for NormReLU and SeLU, of kernels 1 over k² times the channels that go out; He's "
        "with normalisation, which is before ReLU",
        "the paper has the law of kernels; a normalised activation keeps lengths with the others",
    ),
}
COMMON = {
    **CHOICES,
    "learning rate": Choice(
        "at reduced scales one for both activations, the best of a few by their mean accuracy on images set aside",
        "the paper keeps it the same for both; its own belong to its width and length",
        {"each activation its own": {"chosen": "each"}},
    ),
}
KERNELS = {
    "kernels": Choice(
        "variance 1 over k² times the channels that go out, in every figure",
        "the paper has it for the comparison with Fixup",
        {"the channels that come in, rate 0.02, 4 runs": {"kernels": "fan in", "candidate": [2], "run": [0, 1, 2, 3]}},
    )
}


OPTIMIZER = {
    "optimiser": Choice(
        "SGD with momentum 0.9, batches of 100 (128 at scale paper), no weight decay",
        "the paper does not say; the printed 0.1 for ResNets with batch norm is that of SGD with momentum",
        {
            "SGD without momentum, rates ×10, depth 32": {
                "optimizer": "sgd",
                "mlp_rates": [0.005, 0.02, 0.2, 1.0],
                "depth": [32],
            }
        },
    )
}


class Curves:
    """The runs of one network at one learning rate, over the epochs that were measured.

    A run that diverged counts from there on as guessing: accuracy 0.1, and dot product 1.

    Args:
        data: of one network and candidate: `run` by `epoch`.
        rate: the learning rate.
    """

    def __init__(self, data: xarray.Dataset, rate: float) -> None:
        self.rate = rate
        self.diverged = int((data["diverged_at"] >= 0).sum())
        fine = data["diverged_at"] < 0
        there = data["test_accuracy"].where(fine, drop=False).notnull().any("run")
        if not bool(fine.any()):
            there = data["epoch"] >= 0
        tested = data.isel(epoch=np.flatnonzero(there.values))
        self.tested: NDArray[Any] = tested["epoch"].values
        self.trained: NDArray[Any] = data["epoch"].values[1:]
        self._data, self._tested = data, tested

    def train(self) -> NDArray[Any]:
        """Training accuracy, runs by epochs from 1 on."""
        return _filled(self._data["train_accuracy"].isel(epoch=slice(1, None)), CHANCE)

    def held(self, name: str) -> NDArray[Any]:
        """`test_accuracy`, `validation_accuracy` (runs by `tested` epochs), `mean_cosine` or `dot_product`."""
        return _filled(self._tested[name], CHANCE if name.endswith("accuracy") else 1.0)

    def test(self) -> NDArray[Any]:
        """Test accuracy at the end, by run."""
        return np.asarray(self.held("test_accuracy")[:, -1])


def _filled(values: xarray.DataArray, instead: float) -> NDArray[Any]:
    return np.asarray(np.nan_to_num(values.transpose("run", "epoch").values, nan=instead))


def curves_of(result: xarray.Dataset, settings: Settings, architecture: str, depth: int, method: str) -> list[Curves]:
    """The curves of a network, one per candidate for the learning rate."""
    rates = rates_of(settings[f"{architecture.lower()}_rates"], method, depth)
    found = result.sel(
        {"architecture": architecture, "depth": depth, "method": method}
    )  # `method=` has a meaning of its own
    return [Curves(found.sel(candidate=one), rates[one]) for one in settings["candidate"]]


def best(result: xarray.Dataset, settings: Settings, architecture: str, depth: int, method: str) -> Curves:
    """The curves at the learning rate with the highest mean accuracy on the validation images at the end.

    If the setting `chosen` is `common`, the mean is over all methods of that architecture and depth.
    """
    methods = settings["method"] if settings.get("chosen") == "common" else [method]
    every = [curves_of(result, settings, architecture, depth, one) for one in methods]
    scores = [[float(one.held("validation_accuracy")[:, -1].mean()) for one in candidates] for candidates in every]
    place = int(np.mean(scores, axis=0).argmax())
    return curves_of(result, settings, architecture, depth, method)[place]


def edges_told(result: xarray.Dataset, settings: Settings) -> str:
    """Which networks took the smallest or largest rate that was tried; nothing if none did or only one was."""
    found = []
    for architecture in settings["architecture"]:
        for depth in settings["depth"]:
            for method in settings["method"]:
                rates = rates_of(settings[f"{architecture.lower()}_rates"], method, depth)
                tried = [rates[one] for one in settings["candidate"]]
                rate = best(result, settings, architecture, depth, method).rate
                if len(tried) > 1 and rate in (min(tried), max(tried)):
                    found.append(f"{architecture}-{depth} with {method} ({rate:g})")
    return f"The best rate is at the edge of those tried for {', '.join(found)}." if found else ""


def speed(curves: Curves) -> NDArray[Any]:
    """Training accuracy averaged over the epochs, by run: how fast a network is optimised."""
    return np.asarray(curves.train().mean(1))


def ahead(first: NDArray[Any], second: NDArray[Any], gap: float | None = None) -> Compared:
    """Whether the first sample is higher beyond chance; undecided if neither is.

    Example:
        >>> ahead(np.array([0.6, 0.61]), np.array([0.5, 0.505])).seen
        True
    """
    return ordered(second, first, gap=gap)


def rises(first: NDArray[Any], last: NDArray[Any], gap: float) -> Compared:
    """Whether runs rise from one epoch to another beyond chance: Student's test of their changes, one-sided at 1 %.

    Example:
        >>> rises(np.array([0.1, 0.5, 0.9]), np.array([0.2, 0.61, 1.0]), 0.05).seen
        True
    """
    return above(last - first, 0.0, gap=gap)


def numbers(label: str, curves: Curves) -> dict[str, Measured]:
    """Final accuracies and the chosen rate of a network.

    Example:
        >>> numbers.__name__
        'numbers'
    """
    return {
        f"test accuracy, {label}": measured(curves.test()),
        f"training accuracy, {label}": measured(curves.train()[:, -1]),
        f"learning rate, {label}": Measured(curves.rate),
    }


def draw_accuracies(result: xarray.Dataset, settings: Settings) -> Figure:
    """Training accuracy on the left, test accuracy on the right, a row per depth."""
    (architecture,) = settings["architecture"]
    figure, axes = new_figure(2, len(settings["depth"]), height=3.4)
    for row, depth in zip(axes, settings["depth"], strict=True):
        for i, method in enumerate(settings["method"]):
            curves = best(result, settings, architecture, depth, method)
            label = f"{method}, η = {curves.rate:g}"
            band(row[0], curves.trained, curves.train(), label=label, index=i)
            band(row[1], curves.tested, curves.held("test_accuracy"), label=label, index=i)
        for axis, kind in zip(row, ("train", "test"), strict=True):
            axis.set(xlabel="epoch", ylabel=f"{kind} accuracy", title=f"{architecture}, depth {depth}")
            axis.set_xlim(0, None)
        row[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return figure
