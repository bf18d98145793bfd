"""The phase boundary of Cowsik et al. 2024, its two exponents, and the loss after training against them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import xarray
from scipy import stats

from isometer_papers.studies._comparisons import all_of, not_below
from isometer_papers.studies._drawing import PALETTE, Figure, new_figure, plain_logs
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.text_training import gap_filling_cell, unigram_entropy
from isometer_papers.studies.cells.transformers import exponents_cell
from isometer_papers.studies.transformers._text_grid import DECISIVE

_NETWORK = (
    "gpt(blocks=2, width=64, heads=8, tokens=32, hidden={hidden}, norm='post', activation='tanh', branch={branch}, "
    "mlp_gain={gain}, causal=False)"
)
LINE = "without MLPs tokens collapse to a line at any branch factor"
TRANSITION = "MLPs bring an order–chaos transition: the angle exponent changes sign once along the gain"
ORDERED = "a negative angle exponent means collapse, a positive one a simplex of distinct tokens"
GRADIENTS = "the gradient exponent changes sign too"
TOGETHER = "both exponents vanish at the same gain, to 5 %"


def crossing(x: np.ndarray, y: np.ndarray) -> float | None:
    """Where a curve passes through zero, by straight lines; None if it does not.

    Example:
        >>> crossing(np.array([1.0, 2.0]), np.array([-1.0, 1.0]))
        1.5
    """
    for (a, low), (b, high) in pairwise(zip(x.tolist(), y.tolist(), strict=True)):
        if low < 0.0 <= high or high < 0.0 <= low:
            return float(a + (b - a) * low / (low - high))
    return None


def draw_exponents(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(2, width=4.4, height=3.8)
    for i, branch in enumerate(settings["branch"]):
        rows = result.sel(branch=branch, hidden=256)
        for axis, name in zip(axes.flat, ("angle", "gradient"), strict=False):
            axis.plot(settings["gain"], rows[name], color=PALETTE[i], marker=".", label=f"branch factor {branch:g}")
            axis.axhline(0.0, color="#888888", linewidth=0.8)
            axis.set(xscale="log", xlabel="gain of the MLP", ylabel=f"{name} exponent per block")
    axes.flat[0].legend(fontsize=8)
    return figure


def read_exponents(result: xarray.Dataset, settings: Settings) -> Reading:
    """Signs and crossings along the gain; a collapse is a cosine above 1 − 1e-3 in the steady state."""
    gains = np.asarray(settings["gain"], dtype=float)
    numbers: dict[str, Measured] = {}
    seen: dict[str, list[bool]] = {LINE: [], TRANSITION: [], ORDERED: [], GRADIENTS: [], TOGETHER: []}
    for branch in settings["branch"]:
        bare, rows = (result.sel(branch=branch, hidden=hidden) for hidden in (0, 256))
        seen[LINE].append(bool((bare["angle"] < 0).all()) and bool((bare["cosine"] > 1 - 1e-3).all()))
        known = np.isfinite(rows["angle"].values)  # close to the transition no state is steady within 400 blocks
        at = gains[known]
        angle, gradient, cosine = (rows[name].values[known] for name in ("angle", "gradient", "cosine"))
        seen[TRANSITION].append(int((np.diff(np.sign(angle)) != 0).sum()) == 1)
        agree = (cosine > 1 - 1e-3) == (angle < 0)  # it is read off after 400 blocks at most
        seen[ORDERED].append(bool(agree.all()))
        forward, backward = crossing(at, angle), crossing(at, gradient)
        seen[GRADIENTS].append(backward is not None)
        if forward is not None:
            numbers[f"gain at which the angle exponent vanishes, branch {branch:g}"] = Measured(forward)
        if backward is not None:
            numbers[f"gain at which the gradient exponent vanishes, branch {branch:g}"] = Measured(backward)
        if forward is not None and backward is not None:
            seen[TOGETHER].append(abs(forward / backward - 1) < 0.05)
    return Reading(numbers, {name: all(found) if found else None for name, found in seen.items()})


_GAINS = [round(float(g), 3) for g in np.geomspace(0.5, 8.0, 17)]
EXPONENTS = Study(
    "007/exponents",
    "angle and gradient exponent against the gain of the MLP",
    "Without MLPs tokens collapse to a line. With MLPs there is an order–chaos transition; two exponents, of angles "
    "and of gradients, say on which side a network is, and training is best where both vanish.",
    {"transition": "one", "best training": "both exponents zero"},
    exponents_cell,
    Scale({"branch": [0.3, 0.7], "hidden": [0, 256], "gain": _GAINS}, {"network": _NETWORK}, "two branch factors"),
    Scale({"branch": [0.1, 0.3, 0.5, 0.7, 1.0], "hidden": [0, 256], "gain": _GAINS}, {"network": _NETWORK}),
    draw_exponents,
    read_exponents,
    choices={
        "norm": Choice("after each sum", "with the norm before the branch nothing grows exponentially with depth"),
        "activation": Choice("tanh", "ReLU has no chaotic phase: its angle exponent is never positive here"),
    },
    because={
        TOGETHER: "Both lines cross zero, but at different gains: along this axis alone no network has both. Two "
        "numbers must be tuned for that.",
        GRADIENTS: "Within these gains it keeps its sign.",
    },
    seconds=(60.0, 200.0),
)

# --- after training ------------------------------------------------------

_TRAINED = (
    "gpt(blocks={blocks}, width={width}, heads=4, tokens=32, hidden=64, norm='post', activation='tanh', "
    "branch={branch}, mlp_gain={gain}, causal=False)"
)
RISES = "the loss after training rises with the larger of the two exponents: rank correlation of at least 0.7"
BEST = "no network ends lower than the one whose exponents are smallest, by 0.05"


def sizes(result: xarray.Dataset) -> xarray.DataArray:
    """The larger size of the two exponents, of every network.

    Example:
        >>> made = xarray.Dataset({"angle": ("gain", [-0.1, 0.0]), "gradient": ("gain", [0.05, 0.2])})
        >>> sizes(made).values
        array([0.1, 0.2])
    """
    forward, backward = abs(result["angle"]), abs(result["gradient"])
    return forward.where(forward > backward, backward)


def draw_losses(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(2, width=4.4, height=3.8)
    size = sizes(result)
    for i, branch in enumerate(settings["branch"]):
        for gain in settings["gain"]:
            point = result.sel(branch=branch, gain=gain)
            place = np.full(point.sizes["run"], float(size.sel(branch=branch, gain=gain).isel(run=0)))
            axes.flat[0].plot(place, point["loss"], ".", color=PALETTE[i])
        mean = result["loss"].sel(branch=branch).mean("run")
        axes.flat[1].plot(settings["gain"], mean, marker=".", color=PALETTE[i], label=f"branch factor {branch:g}")
    for axis in axes.flat:
        axis.axhline(unigram_entropy(), color="#444444", linestyle=":", label="symbols alone")
        axis.set(xscale="log", ylabel="loss at the end, nats")
    axes.flat[0].set(xlabel="larger exponent per block")
    axes.flat[1].set(xlabel="gain of the MLP")
    plain_logs(axes.flat[1].xaxis)
    axes.flat[1].legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure


def rank_correlation(size: np.ndarray, runs: np.ndarray) -> Measured:
    """Of the sizes of networks and their mean losses, `(run, network)`, with twice its standard error by the bootstrap.

    Example:
        >>> found = rank_correlation(np.arange(5), np.arange(5) + 0.01 * np.arange(4)[:, None])
        >>> round(found.value, 6), round(found.uncertainty, 6)
        (1.0, 0.0)
    """
    rng = np.random.default_rng(0)
    # every network has runs of its own
    drawn = rng.integers(0, len(runs), (1000, *runs.shape))
    means = np.take_along_axis(runs[None], drawn, axis=1).mean(axis=1)
    spread = np.std([stats.spearmanr(size, one)[0] for one in means])
    return Measured(float(stats.spearmanr(size, runs.mean(axis=0))[0]), 2 * float(spread))


def read_losses(result: xarray.Dataset, settings: Settings) -> Reading:
    """Each network is one point."""
    points = result.stack(network=("branch", "gain"))
    size = sizes(points).isel(run=0).values
    runs = points["loss"].transpose("run", "network").values
    rank, steady, best = rank_correlation(size, runs), int(size.argmin()), int(runs.mean(axis=0).argmin())
    numbers = {
        "rank correlation of loss and larger exponent": rank,
        "loss of the network with the smallest exponents": measured(runs[:, steady]),
        "lowest loss": measured(runs[:, best]),
        "highest loss": measured(runs[:, int(runs.mean(axis=0).argmax())]),
        "loss of symbols alone": Measured(unigram_entropy()),
    }
    undecided = abs(rank.value - _RANK) < rank.uncertainty
    floors = [not_below(runs[:, steady] - DECISIVE.gap, one, gap=DECISIVE.gap) for one in np.delete(runs, steady, 1).T]
    return Reading(numbers, {RISES: None if undecided else rank.value >= _RANK, BEST: all_of(floors)})


_RANK = 0.7
_HOW = {"network": _TRAINED, "batch": 16, "rate": 2e-3, "device": "cpu"}
LOSSES = Study(
    "007/loss",
    "loss of small transformers after training against both exponents",
    "The final test loss is well predicted by the two exponents alone; both vanish where it is lowest.",
    {"lowest loss": "both exponents zero"},
    gap_filling_cell,
    Scale(
        {"branch": [0.3, 0.7], "gain": [0.5, 1.0, 2.0, 4.0, 8.0], "run": [0, 1, 2, 3]},
        {**_HOW, "blocks": 16, "width": 32, "steps": 150},
        "16 blocks of width 32, 150 steps, ten networks, help texts of Python",
    ),
    Scale(
        {"branch": [0.1, 0.3, 0.5, 0.7, 1.0], "gain": [0.5, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0], "run": list(range(4))},
        {**_HOW, "blocks": 24, "width": 64, "steps": 2000},
        "24 blocks of width 64, 2000 steps, help texts of Python",
    ),
    draw_losses,
    read_losses,
    decisive=DECISIVE,
    medium=Scale(
        {"branch": [0.15, 0.3, 0.7], "gain": [0.5, 1.0, 2.0, 4.0, 8.0], "run": [0, 1, 2, 3]},
        {**_HOW, "blocks": 16, "width": 32, "steps": 500},
        "16 blocks of width 32, 500 steps, 15 networks, help texts of Python",
    ),
    choices={
        "task": Choice("a quarter of 32 symbols is to be found", "small enough for a processor"),
        "optimizer": Choice("Adam, 0.002, no warm-up", "one rate for all", {"rate 0.0005": {"rate": 5e-4}}),
        "exponents": Choice("the larger of the two sizes", "the paper asks that both vanish, without weighing them"),
    },
    because={
        RISES: "The exponents are those at initialisation; how fast a network learns also depends on what its blocks "
        "can do.",
        BEST: "Among networks whose exponents are small, others learn faster.",
    },
    seconds=(240.0, 30000.0),
)
STUDIES = (EXPONENTS, LOSSES)
