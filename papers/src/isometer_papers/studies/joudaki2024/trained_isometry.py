"""Studies of paper 001 that train with orthogonal weights, batch norm and shaped activations, up to 1000 layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._comparisons import Decisive, Seen, above, all_of, by_reading, not_below, ordered
from isometer_papers.studies._drawing import Figure, band, new_figure
from isometer_papers.studies._readings import epochs_measured, mean_interval, measured
from isometer_papers.studies._study import (
    TOGETHER,
    Choice,
    Coordinate,
    Measured,
    Reading,
    Scale,
    Settings,
    Study,
)
from isometer_papers.studies.cells.isometry_training import UNGAINED, isometry_training_cell

Array = np.ndarray[Any, Any]

SHAPED = ["sin", "tanh"]
READINGS = {  # of the identity: what statements call it
    "identity": "the identity with the gain",
    UNGAINED: "the identity without gain",
}
ALL = [*SHAPED, *READINGS]
VISIBLE = Decisive(0.05, "accuracy", "“much worse” and no numbers; a twentieth of the axis is what a reader sees")


def surely_positive(runs: Array) -> bool:
    """Whether a mean over runs is above 0 beyond chance: Student's test at 1 %, one-sided."""
    mean, half = mean_interval(runs, level=0.98)
    return bool(mean > half)


# --- accuracies ----------------------------------------------------------


def accuracies(result: xarray.Dataset, name: str, **at: Any) -> Array:
    """Runs by epochs; from the step on at which a run diverged, its accuracy is that of chance."""
    chosen = result.sel(at)
    gone = (chosen["diverged_at"] >= 0) & chosen[name].isnull() & (chosen["epoch"] > 0)
    values: Array = chosen[name].where(~gone, 1 / chosen["classes"]).transpose("run", "epoch").values
    return values


def draw_accuracies(result: xarray.Dataset, settings: Settings, names: Sequence[str]) -> Figure:
    figure, axes = new_figure(len(settings["activation"]), len(names), width=3.9, height=3.3)
    for row, name in zip(axes, names, strict=True):
        at = np.asarray(epochs_measured(settings)) if name == "test_accuracy" else np.arange(1, settings["epochs"] + 1)
        for axis, activation in zip(row, settings["activation"], strict=True):
            for i, depth in enumerate(settings["depth"]):
                values = accuracies(result, name, activation=activation, depth=depth)[:, at]
                band(axis, at, values, label=f"{depth} layers", index=i)
            axis.axhline(1 / _classes(result), color="#999999", linewidth=0.8, linestyle=":")
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.set_title(READINGS.get(activation, f"shaped {activation}"), fontsize=10)
            axis.set(xlabel="epoch", ylabel=name.replace("_", "ing ", 1) if name[:2] == "tr" else "test accuracy")
        low, high = (f(axis.get_ylim()[k] for axis in row) for k, f in ((0, min), (1, max)))
        for axis in row:
            axis.set_ylim(low, high)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=9)
    return figure


def draw_training(result: xarray.Dataset, settings: Settings) -> Figure:
    return draw_accuracies(result, settings, ["train_accuracy"])


def draw_both(result: xarray.Dataset, settings: Settings) -> Figure:
    return draw_accuracies(result, settings, ["train_accuracy", "test_accuracy"])


def _classes(result: xarray.Dataset) -> int:
    return int(result["classes"].values.flat[0])


def _last(result: xarray.Dataset, settings: Settings, name: str) -> dict[tuple[str, int], Array]:
    """Accuracies of the last epoch, by activation and depth."""
    places = [(activation, depth) for activation in settings["activation"] for depth in settings["depth"]]
    return {(a, d): accuracies(result, name, activation=a, depth=d)[:, -1] for a, d in places}


def _compared(last: Mapping[tuple[str, int], Array], settings: Settings, kind: str) -> dict[str, Seen]:
    """Each reading of the identity against sin and tanh, by depth; undecided where chance explains a difference."""
    found: dict[str, Seen] = {}
    shaped = [name for name in settings["activation"] if name in SHAPED]
    for name in [name for name in settings["activation"] if name in READINGS] if shaped else []:
        for depth in settings["depth"]:
            found[f"{READINGS[name]} ends below sin and tanh in {kind} accuracy, {depth} layers"] = all_of(
                ordered(last[name, depth], last[other, depth], gap=VISIBLE.gap) for other in shaped
            )
    return found


def _readings_told(statements: Mapping[str, Seen], settings: Settings) -> str:
    return by_reading(statements, {name: READINGS[name] for name in settings["activation"] if name in READINGS})


def _stable(result: xarray.Dataset, last: Mapping[tuple[str, int], Array], settings: Settings) -> dict[str, Seen]:
    """Whether what was learnt above chance differs by at most the tolerance, or by more, beyond chance."""
    chance = 1 / _classes(result)
    depths = settings["depth"]
    found: dict[str, Seen] = {}
    for name in settings["activation"] if len(depths) > 1 else []:
        learnt = sorted((last[name, depth] - chance for depth in depths), key=lambda runs: float(runs.mean()))
        asked = (1 - settings["tolerance"]) * learnt[-1]
        found[f"with {READINGS.get(name, name)} accuracy is nearly the same at all depths"] = not_below(
            asked, learnt[0], gap=settings["tolerance"] * float(learnt[-1].mean())
        )
    deepest = max(depths)
    found[f"networks of {deepest} layers learn"] = all_of(
        above(last[name, deepest], chance, gap=VISIBLE.gap) for name in settings["activation"]
    )
    return found


def read_training(result: xarray.Dataset, settings: Settings) -> Reading:
    """Accuracies are of the last epoch; “nearly the same” means what was learnt above chance, up to the tolerance."""
    last = _last(result, settings, "train_accuracy")
    statements = _stable(result, last, settings) | _compared(last, settings, "training")
    return Reading(
        {f"training accuracy, {name}, {depth} layers": measured(runs) for (name, depth), runs in last.items()},
        statements,
        " ".join(part for part in (_readings_told(statements, settings), runs_told(result)) if part),
    )


def read_both(result: xarray.Dataset, settings: Settings) -> Reading:
    """Accuracies are of the last epoch, the identity against each of the others by Welch's test."""
    numbers: dict[str, Measured] = {}
    statements: dict[str, Seen] = {}
    for kind, name in (("training", "train_accuracy"), ("test", "test_accuracy")):
        last = _last(result, settings, name)
        numbers |= {f"{kind} accuracy, {a}, {depth} layers": measured(runs) for (a, depth), runs in last.items()}
        statements |= _compared(last, settings, kind)
    told = (_readings_told(statements, settings), runs_told(result))
    return Reading(numbers, statements, " ".join(part for part in told if part))


def runs_told(result: xarray.Dataset) -> str:
    """How many runs diverged, if any did."""
    lost = int((result["diverged_at"] >= 0).sum())
    return f"{lost} of {result['diverged_at'].size} runs diverged and count as chance." if lost else ""


# --- settings ------------------------------------------------------------

_ALWAYS = {"exponent": 0.4, "width": 100, "batch": 100, "optimizer": "sgd", "device": "cpu", "watch": False}
BRIEF = {"train": 1100, "test": 0, "shrink": 2, "learning_rate": 0.01, "epochs": 5, "every": 3}
LONGER = {"train": 5000, "test": 1000, "shrink": 2, "learning_rate": 0.01, "epochs": 6, "every": 3}
_SHALLOW = {"train": 10000, "test": 2000, "shrink": 2, "learning_rate": 0.03, "epochs": 8, "every": 4}
_LONG = {"train": 10000, "test": 2000, "shrink": 2, "learning_rate": 0.01, "epochs": 20, "every": 5}
FULL = {"train": 50000, "test": 10000, "shrink": 1, "learning_rate": 0.001, "epochs": 100, "every": 5, "watch": True}


def training_scale(
    data: str,
    how: Mapping[str, Any],
    depths: Sequence[int],
    reduced: str = "",
    names: Sequence[str] = ALL,
    runs: int = 4,
    **reading: Any,
) -> Scale:
    """A grid of activations, depths and runs; `how` has the images and the recipe, watched at full size alone."""
    axes: dict[str, Sequence[Coordinate]] = {"activation": list(names), "depth": list(depths), "run": list(range(runs))}
    constants = {**_ALWAYS, "data": data, **how}
    return Scale(axes, constants, reduced, reading, together=1 if constants["watch"] else TOGETHER)


BRIEFLY = (
    "1100 images of half the side, 55 steps with the learning rate 0.01 instead of 0.001, depths {depths}; width and "
    "batch size are the paper's"
)
MEDIUM = "5000 images of half the side, 300 steps with the learning rate 0.01 instead of 0.001, depths {depths}"
_EPOCHS = Choice(
    "5 epochs at quick, 6 at medium, 100 at paper",
    "not stated",
    {"320 steps at the learning rate 0.03, 10 layers only": {**_SHALLOW, "train": 4000, "test": 1000, "depth": [10]}},
)
_GAIN = Choice("α_ℓ = ℓ^(−0.4)", "not stated for training; the public code has it for 001/fig-6.5")
_IDENTITY = Choice(
    "both: with the gain, x ↦ α_ℓ x, and without",
    "the public code multiplies the input of every activation by the gain, and the captions of C.5 to C.8 speak of a "
    "gained identity; the caption of 6.4 leaves it open. After batch norm the gain only scales what the next matrix "
    "reads, and its gradient: without it they are 2.5 times larger at layer 10 and 16 times at layer 1000",
)


def gain_choice(depths: Sequence[int]) -> Choice:
    """The gains, with others tried at these depths."""
    words = " and ".join(str(depth) for depth in depths)
    return Choice(_GAIN.value, _GAIN.why, {f"ℓ^(−0.2), {words} layers only": {"exponent": 0.2, "depth": list(depths)}})


_DEPTHS = Choice("10, 100, 500 and 1000 layers at paper", "not stated; those of 001/fig-C.3, and a shallow one")
_NEAR = Choice("a quarter of what was learnt above chance", "“largely similar” is all that the text says")
_LEVEL = (
    "Too early to tell: after 55 steps of 10 layers the identity with the gain is level with sin (0.300 and 0.303, "
    "four runs each); after 320 at the rate 0.03 it is behind, 0.424 against 0.507."
)
_LARGER_STEPS = (
    "Without the gain logits and gradients are larger, so that the same rate takes larger steps: after 55 steps of 10 "
    "layers it is ahead, 0.383 against 0.303 with sin and 0.300 for the identity with the gain (four runs each); after "
    "320 at the rate 0.03 it is behind sin as well, 0.428 against 0.507."
)
_TOO_FAST = (
    "The raised learning rate is too large for the identity at 1000 layers if no gain damps its gradients: at the "
    "paper's 0.001 it learns as much there in 40 steps (32 and 34 % in two runs) as with fewer layers."
)
_LAGGING = (
    "After 55 steps there is no difference between 10 and 1000 layers; after 300, at ten times the paper's rate, "
    "networks of 1000 layers have learnt about 30 % less above chance (medium). About half of that is the rate: where "
    "rate × steps is 2, sin has learnt 22 % less with 0.01 (four runs), 12 % less with 0.002 and with the paper's "
    "0.001 (two runs each). The rest stays and grows, to 21 % with 0.002 after 1500 steps; 100 layers do not lag."
)
FIGURE_6_4 = Study(
    "001/fig-6.4",
    "training accuracy over epochs at several depths: shaped sin, shaped tanh, identity",
    "With orthogonal weights, batch norm and shaped activations training depends little on depth, up to 1000 layers; "
    "the identity performs much worse than sin and tanh.",
    {"depth": "largely similar curves", "identity": "much worse than sin and tanh"},
    isometry_training_cell,
    training_scale("cifar10", BRIEF, [10, 100, 1000], BRIEFLY.format(depths="10, 100 and 1000"), tolerance=0.25),
    training_scale("cifar10", FULL, [10, 100, 500, 1000], tolerance=0.25),
    draw_training,
    read_training,
    medium=training_scale("cifar10", LONGER, [10, 100, 1000], MEDIUM.format(depths="10, 100 and 1000"), tolerance=0.25),
    choices={
        "epochs": _EPOCHS,
        "gains": gain_choice([10, 100]),
        "gain of the identity": _IDENTITY,
        "depths": _DEPTHS,
        "nearly depth-independent": _NEAR,
    },
    because={
        **{
            f"{READINGS[name]} ends below sin and tanh in training accuracy, {depth} layers": why
            for name, why in (("identity", _LEVEL), (UNGAINED, _LARGER_STEPS))
            for depth in (10, 100)
        },
        f"with {READINGS[UNGAINED]} accuracy is nearly the same at all depths": _TOO_FAST,
        **{f"with {name} accuracy is nearly the same at all depths": _LAGGING for name in SHAPED},
    },
    data="cifar10",
    seconds=(220, 220_000),
    decisive=VISIBLE,
)


_SHALLOWER = (
    "10000 images of half the side, 800 steps with the learning rate 0.03 instead of 0.001, depths 10 and 30; width "
    "and batch size are the paper's"
)
_LONG_WORDS = (
    "10000 images of half the side, 2000 steps with the learning rate 0.01 instead of 0.001, depths 10 and 100"
)
_SUBSTITUTE = Choice(
    "CIFAR-100",
    "the paper's; `isometer data get cifar100` says how to obtain it; `--data cifar10`, fashion-mnist, mnist "
    "or digits takes other images instead, and the statements then are about those",
)


def _images(number: str, title: str, data: str, train: int, runs: int = 4, **choices: Choice) -> Study:
    """Few layers at quick, where there is time to train for longer than 001/fig-6.4 does with 1000; there, `runs`."""
    return Study(
        f"001/fig-C.{number}",
        f"training and test accuracy on {title}: shaped sin, shaped tanh, identity",
        "The identity performs much worse than sin and tanh, which therefore do not work in their linear regime.",
        {"identity": "much worse than sin and tanh"},
        isometry_training_cell,
        training_scale(data, _SHALLOW, [10, 30], _SHALLOWER, runs=runs),
        training_scale(data, {**FULL, "train": train}, [10, 100, 500, 1000]),
        draw_both,
        read_both,
        medium=training_scale(data, _LONG, [10, 100], _LONG_WORDS),
        choices={
            **choices,
            "epochs": Choice("8 at quick, 100 at paper", "not stated"),
            "gains": Choice(_GAIN.value, f"{_GAIN.why}; varied in 001/fig-6.4"),
            "gain of the identity": _IDENTITY,
            "depths": _DEPTHS,
        },
        data=data,
        seconds=(100, 220_000),
        decisive=VISIBLE,
    )


FIGURE_C_5 = _images("5", "MNIST", "mnist", 60000)
FIGURE_C_6 = _images("6", "Fashion-MNIST", "fashion-mnist", 60000)
FIGURE_C_7 = _images("7", "CIFAR-100", "cifar100", 50000, 8, images=_SUBSTITUTE)
FIGURE_C_8 = _images("8", "CIFAR-10", "cifar10", 50000, 8)  # of colour images too little is learnt for 4 to tell

STUDIES = (
    FIGURE_6_4,
    FIGURE_C_5,
    FIGURE_C_6,
    FIGURE_C_7,
    FIGURE_C_8,
)
