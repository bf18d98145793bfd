"""Study of paper 001, Appendix C.4: ranks of batches of images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._drawing import PALETTE, Figure, new_figure
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.data_ranks import rank_cell
from isometer_papers.studies.joudaki2024.depths import MARKERS

SIZES = [16, 32, 64, 128, 256, 512]
BATCHES = 100  # of the paper
NAMES = {"cifar10": "CIFAR-10", "mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar100": "CIFAR-100"}
FULL = {16: (16.0, 0.0), 32: (32.0, 0.0), 64: (64.0, 0.0)}
RANKS: dict[str, dict[int, tuple[float, float]]] = {
    "cifar10": {**FULL, 128: (127.99, 0.09), 256: (221.06, 2.89), 512: (203.70, 3.58)},
    "mnist": {**FULL, 128: (128.0, 0.0), 256: (250.48, 1.53), 512: (318.04, 2.82)},
    "fashion-mnist": {**FULL, 128: (128.0, 0.0), 256: (238.19, 3.27), 512: (275.37, 4.20)},
    "cifar100": {**FULL, 128: (127.92, 0.27), 256: (218.11, 3.69), 512: (201.51, 3.95)},
}
COSINES = {"cifar10": 0.81, "mnist": 0.40, "fashion-mnist": 0.58, "cifar100": 0.81}


def _called(data: str) -> str:
    return NAMES.get(data, data)


def _published() -> dict[str, float | str]:
    largest: list[tuple[str, int]] = [(data, n) for n in (512, 256, 128) for data in RANKS]
    ranks = {f"rank at n = {n}, {NAMES[data]}": RANKS[data][n][0] for data, n in largest}
    return {**ranks, **{f"mean cosine, {NAMES[data]}": value for data, value in COSINES.items()}}


def draw_ranks(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(2)
    left, right = axes[0]
    sizes = np.asarray(settings["samples"], dtype=float)
    for i, data in enumerate(settings["data"]):
        ranks = result["rank"].sel(data=data).transpose("batch", "samples").values
        mean, spread = ranks.mean(0), ranks.std(0)
        left.errorbar(
            sizes, mean, spread, color=PALETTE[i], marker=MARKERS[i], markersize=4, capsize=3, label=_called(data)
        )
        known = [n for n in settings["samples"] if n in RANKS.get(data, {})]
        published, deviation = np.array([RANKS[data][n] for n in known]).reshape(-1, 2).T
        left.plot(known, published, "x", color="black", markersize=9, zorder=5, label="_")
        places = [settings["samples"].index(n) for n in known]
        shift = 1.0 + 0.05 * (i - (len(settings["data"]) - 1) / 2)
        error = np.hypot(spread[places] / math.sqrt(len(ranks)), deviation / math.sqrt(BATCHES))
        right.errorbar(
            np.array(known) * shift, mean[places] - published, error,
            color=PALETTE[i], marker=MARKERS[i], markersize=4, capsize=3, linestyle="none", label=_called(data),
        )  # fmt: skip
    left.plot(sizes, sizes, ":", color="#666666", label="full rank")
    left.plot([], [], "x", color="black", markersize=9, linestyle="none", label="published")
    left.set(ylabel="rank, ± standard deviation over batches", yscale="log")
    left.set_yticks(SIZES, [str(n) for n in SIZES])
    right.axhline(0, color="#666666", linewidth=0.8)
    right.set(ylabel="mean rank − published, ± standard error")
    for axis in (left, right):
        axis.set(xscale="log", xlabel="batch size n")
        axis.set_xticks(sizes, [f"{n:g}" for n in sizes])
        axis.minorticks_off()
    left.legend(loc="upper left")
    return figure


def _agrees(ranks: np.ndarray[Any, Any], printed: tuple[float, float]) -> bool:
    """Whether two means of batches differ by no more than three standard errors, and rounding."""
    error = math.hypot(float(ranks.std(ddof=1)) / math.sqrt(len(ranks)), printed[1] / math.sqrt(BATCHES))
    return abs(float(ranks.mean()) - printed[0]) <= 3 * error + 0.005


def read_ranks(result: xarray.Dataset, settings: Settings) -> Reading:
    numbers: dict[str, Measured] = {}
    statements: dict[str, bool | None] = {}
    largest = max(settings["samples"])
    for data in settings["data"]:
        own = {n: result["rank"].sel(data=data, samples=n).values for n in settings["samples"]}
        for n in sorted(own, reverse=True)[:3]:
            numbers[f"rank at n = {n}, {_called(data)}"] = measured(own[n])
        known = RANKS.get(data, {})
        shared = [n for n in own if n in known]
        statements[f"ranks of {_called(data)} as printed"] = (
            all(_agrees(own[n], known[n]) for n in shared) if shared else None
        )
        cosines = result["cosine"].sel(data=data, samples=largest).values
        numbers[f"mean cosine, {_called(data)}"] = measured(cosines)
    numbers |= {
        f"standard deviation of the rank at n = {largest}, {_called(data)}": Measured(
            float(result["rank"].sel(data=data, samples=largest).values.std(ddof=1))
        )
        for data in settings["data"]
    }
    small = [n for n in settings["samples"] if n <= 64]
    full = [(result["rank"].sel(samples=n).values == n).all() for n in small]
    statements["batches of up to 64 samples are never degenerate"] = all(bool(one) for one in full) if full else None
    cosines_agree = [
        abs(float(values.mean()) - COSINES[data]) <= 0.005 + 3 * float(values.std(ddof=1))
        for data in settings["data"]
        if data in COSINES and largest == max(SIZES)
        for values in [result["cosine"].sel(data=data, samples=largest).values]
    ]
    statements["mean cosines as printed, to what one batch tells"] = all(cosines_agree) if cosines_agree else None
    return Reading(
        numbers,
        statements,
        "Ranks below n are those of rounding to float32; how they change in float64 is below. The printed cosine of "
        "Fashion-MNIST is lower than ours by about one standard deviation of a batch.",
    )


def _scale(batches: int, reduced: str = "") -> Scale:
    constants = {"batches": batches, "centre": "none", "scale": "unit", "precision": "float32", "of": "gram"}
    return Scale({"data": ["cifar10", "mnist", "fashion-mnist"], "samples": SIZES}, constants, reduced)


_NO_CIFAR100 = "CIFAR-100 is left out unless requested by --set data=cifar10,mnist,fashion-mnist,cifar100"
TABLE_C_1 = Study(
    "001/tab-C.1",
    "rank of the Gram matrix of batches of images",
    "Batches of up to 128 images have linearly independent samples; larger ones have a numerical rank below n, which "
    "at n = 512 is smaller than at 256 for CIFAR.",
    _published(),
    rank_cell,
    _scale(20, f"20 batches instead of 100; {_NO_CIFAR100}"),
    _scale(100, _NO_CIFAR100),
    draw_ranks,
    read_ranks,
    choices={
        "pixels": Choice(
            "from 0 to 1, not centred",
            "the printed cosines are those of uncentred images",
            {"standardised by channel": {"centre": "channel", "scale": "standard"}},
        ),
        "precision": Choice("float32", "the default of PyTorch", {"float64": {"precision": "float64"}}),
        "tolerance": Choice("n ε times the largest eigenvalue", "the default of `matrix_rank` in PyTorch"),
        "whose rank": Choice("of the Gram matrix", "stated", {"of the batch itself": {"of": "batch"}}),
    },
    data="cifar10",
    seconds=(30, 40),
)

STUDIES = (TABLE_C_1,)
