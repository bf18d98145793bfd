"""Kernel regression on a named data set: draws of images, kernels in blocks, accuracies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import xarray
from numpy.typing import NDArray

from isometer.data import DataSet, load, source_from_text
from isometer.errors import IsometerError
from isometer.regression._blocks import kernel_job, kernels_of_job
from isometer.regression._estimators import one_hot, wrong_share
from isometer.regression._kernels import Kind, network_of
from isometer.regression._ridge import RIDGES, ridge_fit
from isometer.run import Job
from isometer.spec import Spec
from isometer.theory.networks import PairKernels
from isometer.work import Work

Floats = NDArray[np.float64]
_MOST = 20_000  # images of a draw: their kernel is solved in memory


@dataclass(frozen=True)
class DataSetRegression:
    """A network, a data set, and how much of it.

    Args:
        network: a `Spec` or its text; without `input(…)` it gets the images of the set.
        source: a data set as `--input` names one: `cifar10`, `digits:scale=norm`.
        train: images to fit, as many of each class as possible.
        test: images to predict.
        kinds: which of "nngp" and "ntk".
        ridges: to choose from by leave-one-out accuracy.
        precision: precision of kernels.
        block: samples along a side of a block.

    Example:
        >>> plan = DataSetRegression("dense(9) > act('relu') > dense(1)", "digits", train=20, test=10)
        >>> len(plan.job(seed=0).cells)
        2
    """

    network: Spec | str
    source: str
    train: int = 1000
    test: int = 1000
    kinds: tuple[Kind, ...] = ("nngp", "ntk")
    ridges: tuple[float, ...] = RIDGES
    precision: Literal["float64", "float32"] = "float64"
    block: int | None = None

    def __post_init__(self) -> None:
        data, options = source_from_text(self.source)
        test = load(data.name, split="test") if data.split == "train" else data
        for name, asked, least, most in (
            ("train", self.train, 2 * len(data.classes), min(_MOST, len(data))),
            ("test", self.test, 1, len(test)),
        ):
            if not least <= asked <= most:
                raise IsometerError(f"--{name} is {asked}; expected {least} to {most} images of {data.name}")
        object.__setattr__(self, "_data", (data, test, options))

    @property
    def spec(self) -> Spec:
        """The network for images of this set."""
        return network_of(self.network, self._sets[0].shape)

    @property
    def _sets(self) -> tuple[DataSet, DataSet, dict[str, Any]]:
        found: tuple[DataSet, DataSet, dict[str, Any]] = self._data  # type: ignore[attr-defined]
        return found

    def drawn(self, seed: int) -> tuple[Floats, NDArray[np.int64], Floats, NDArray[np.int64]]:
        """Images and labels to fit, and those to predict."""
        data, test, options = self._sets
        rng = np.random.default_rng(seed)
        chosen = balanced_draw(data.labels, self.train, rng)
        asked = rng.permutation(len(test))[: self.test]
        images = [data.prepare(own, **options).astype(np.float64) for own in (data.images[chosen], test.images[asked])]
        return images[0], data.labels[chosen], images[1], test.labels[asked]

    def job(self, seed: int) -> Job:
        """The kernels of a draw, as a job for `isometer.run`."""
        x, _, z, _ = self.drawn(seed)
        return kernel_job(self.spec, x, z, kinds=self.kinds, precision=self.precision, block=self.block)

    def work(self, draws: int) -> Work:
        """What the kernels of so many draws take on one core."""
        spec = self.spec
        engine = PairKernels(spec, np.ones((1, spec.shape.width, *spec.shape.axes)), kinds=self.kinds)
        needed = engine.work(draws * (self.train * (self.train + 1) // 2 + self.test * self.train))
        matrices = 8.0 * self.train * (4 * self.train + len(self.kinds) * (self.train + self.test))
        half = 0.6 if self.precision == "float32" else 1.0
        return Work(needed.memory + matrices, half * needed.seconds)

    def accuracies(self, seed: int, results: Mapping[str, xarray.Dataset]) -> dict[str, dict[str, Any]]:
        """Of each kind: accuracy on images to predict, of leave-one-out, and the ridge, from the blocks of a draw."""
        _, labels, _, expected = self.drawn(seed)
        found: dict[str, dict[str, Any]] = {}
        for kind, (among, beside) in kernels_of_job(results, self.train, self.test).items():
            fit = ridge_fit(among, one_hot(labels), self.ridges, loss=wrong_share)
            right = fit.predict(beside).argmax(axis=1) == expected
            found[kind] = {
                "accuracy": float(right.mean()),
                "left_out": 1.0 - min(fit.errors),
                "ridge": fit.ridge,
            }
        return found


def balanced_draw(labels: NDArray[Any], n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Different places, as many of every class as possible; the rest at random.

    Example:
        >>> labels = np.repeat([0, 1, 2], 10)
        >>> sorted(np.bincount(labels[balanced_draw(labels, 7, np.random.default_rng(0))]).tolist())
        [2, 2, 3]
    """
    order = rng.permutation(len(labels))
    classes = np.unique(labels)
    each = n // len(classes)
    first = [order[labels[order] == one][:each] for one in classes]
    rest = np.setdiff1d(order, np.concatenate(first), assume_unique=True)
    missing = n - sum(map(len, first))
    return np.asarray(np.concatenate([*first, rng.permutation(rest)[:missing]]), dtype=np.intp)


def summary(draws: Sequence[Mapping[str, Mapping[str, Any]]], kind: str, test: int) -> dict[str, float]:
    """Mean accuracy over draws, its spread over draws, and the error of one draw from the images that are predicted.

    Example:
        >>> summary([{"ntk": {"accuracy": 0.5}}, {"ntk": {"accuracy": 0.6}}], "ntk", 100)["accuracy"]
        0.55
    """
    own = np.array([draw[kind]["accuracy"] for draw in draws])
    mean = float(own.mean())
    return {
        "accuracy": mean,
        "spread": float(own.std(ddof=1)) if len(own) > 1 else math.nan,
        "error_of_a_draw": math.sqrt(mean * (1 - mean) / test),
    }
