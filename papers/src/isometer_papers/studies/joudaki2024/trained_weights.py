"""Studies of paper 001: what training does to orthogonal weights, layer by layer, up to 1000 layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._comparisons import Decisive, Seen, ordered
from isometer_papers.studies._drawing import Figure, band, new_figure, plain_logs
from isometer_papers.studies._readings import epochs_measured, measured
from isometer_papers.studies._study import Choice, Measured, Reading, Settings, Study
from isometer_papers.studies.cells.isometry_training import isometry_training_cell
from isometer_papers.studies.joudaki2024.trained_isometry import (
    BRIEF,
    BRIEFLY,
    FULL,
    LONGER,
    MEDIUM,
    SHAPED,
    gain_choice,
    runs_told,
    surely_positive,
    training_scale,
)

Array = np.ndarray[Any, Any]
FACTOR = Decisive(float(np.log(2)), "the logarithm of the gap", "logarithmic axes and no numbers; a factor of two")


def by_layer(result: xarray.Dataset, name: str, **at: Any) -> Array:
    """Runs that did not diverge, by epochs, by the square matrices: layers 2 to L."""
    chosen = result.sel(at)
    kept = chosen[name].isel(run=np.flatnonzero(chosen["diverged_at"].values < 0))
    values: Array = kept.sel(layer=slice(2, at["depth"])).transpose("run", "epoch", "layer").values
    return values


def middle_and_ends(values: Array) -> tuple[Array, Array]:
    """Geometric means over the middle half of the layers, and over the first and last tenth; one each per run."""
    logs = np.log(np.maximum(values, 1e-300))
    count = logs.shape[-1]
    tenth = max(count // 10, 1)
    ends = np.concatenate([logs[..., :tenth], logs[..., -tenth:]], axis=-1)
    return np.exp(logs[..., count // 4 : count - count // 4].mean(-1)), np.exp(ends.mean(-1))


def _draw_layers(axis: Any, result: xarray.Dataset, settings: Settings, name: str, **at: Any) -> None:
    epochs = epochs_measured(settings)[1:]  # gaps are rounding before
    if len(epochs) > 5:
        epochs = [epochs[i] for i in np.unique(np.linspace(0, len(epochs) - 1, 5).round().astype(int))]
    values = by_layer(result, name, **at)
    for i, epoch in enumerate(epochs):
        if len(values):
            floor = np.maximum(values[:, epoch], 1e-16)
            band(axis, np.arange(2, at["depth"] + 1), floor, label=f"epoch {epoch}", index=i, log=True)
    words = {"weight_gap": "isometry gap of W_ℓ", "gradient_norm": "‖∂loss/∂W_ℓ‖"}
    axis.set(yscale="log", xlabel="layer ℓ", ylabel=words[name])
    plain_logs(axis.yaxis)


def draw_weights(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(2)
    at = {"activation": settings["activation"][0], "depth": settings["depth"][0]}
    for axis, name in zip(axes[0], ("weight_gap", "gradient_norm"), strict=True):
        _draw_layers(axis, result, settings, name, **at)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=max(len(labels), 1), fontsize=9)
    return figure


def _draw_all(result: xarray.Dataset, settings: Settings, name: str) -> Figure:
    names, depths = settings["activation"], settings["depth"]
    figure, axes = new_figure(len(names), len(depths), width=4.4, height=3.0)
    for row, depth in zip(axes, depths, strict=True):
        for axis, activation in zip(row, names, strict=True):
            _draw_layers(axis, result, settings, name, activation=activation, depth=depth)
            axis.set_title(f"shaped {activation}, {depth} layers", fontsize=10)
    for axis in axes.ravel():
        edges = [one.get_ylim() for one in axes.ravel()]
        axis.set_ylim(min(low for low, _ in edges), max(high for _, high in edges))
        plain_logs(axis.yaxis)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=max(len(labels), 1), fontsize=9)
    return figure


def draw_gaps(result: xarray.Dataset, settings: Settings) -> Figure:
    return _draw_all(result, settings, "weight_gap")


def draw_gradients(result: xarray.Dataset, settings: Settings) -> Figure:
    return _draw_all(result, settings, "gradient_norm")


def _runs_lost(result: xarray.Dataset, statements: Sequence[str]) -> Reading | None:
    """The reading of a result in which runs diverged: nothing stayed as it was."""
    lost = int((result["diverged_at"] >= 0).sum())
    if not lost:
        return None
    return Reading({"runs that diverged": Measured(float(lost))}, dict.fromkeys(statements, False), runs_told(result))


_SMALL = "the middle layers stay nearly orthogonal"
_LESS = "more so than the first and last layers"
_FELT = "though the gradients of these layers are not negligible"
_BIAS = "SGD leaves them nearer to orthogonal than a random move of the same length would"


def read_weights(result: xarray.Dataset, settings: Settings) -> Reading:
    """After the last epoch. Nearly orthogonal: a gap below the limit in every run; not negligible: a tenth of the ends.

    A random matrix Δ with ‖Δ‖ = m‖W‖, added to an orthogonal W, gives the gap m² to leading order.
    """
    if (lost := _runs_lost(result, [_SMALL, _LESS, _FELT, _BIAS])) is not None:
        return lost
    at = {"activation": settings["activation"][0], "depth": settings["depth"][0]}
    gap, norm, moved = (by_layer(result, name, **at)[:, -1] for name in ("weight_gap", "gradient_norm", "moved"))
    (middle, ends), (felt, felt_ends) = middle_and_ends(gap), middle_and_ends(norm)
    random = middle_and_ends(moved**2)[0]
    return Reading(
        {
            "isometry gap of the middle layers": measured(middle),
            "isometry gap of the first and last layers": measured(ends),
            "gradient norm of the middle layers": measured(felt),
            "gradient norm of the first and last layers": measured(felt_ends),
            "relative distance that the middle layers moved": measured(np.sqrt(random)),
            "gap over that of a random move": measured(middle / random),
        },
        {
            _SMALL: bool((middle < settings["limit"]).all()),
            _LESS: ordered(np.log(middle), np.log(ends), gap=FACTOR.gap),
            _FELT: bool((felt > 0.1 * felt_ends).all()),
            _BIAS: surely_positive(np.log(random / middle)),
        },
        f"The middle layers moved by {np.sqrt(random).mean():.2g} of their norm, and a random move of that length has "
        f"a gap of {random.mean():.2g}: a small gap says little by itself, its ratio to this shows a bias.",
    )


def read_gaps(result: xarray.Dataset, settings: Settings) -> Reading:
    """After the last epoch; small means below the limit, in all layers from the second on and all runs."""
    low = "the gap of every weight matrix remains small"
    depths = sorted(settings["depth"])
    deeper = {
        name: f"the middle layers of {depths[-1]} layers are nearer to orthogonal than those of {depths[0]}, {name}"
        for name in settings["activation"]
    }
    if (lost := _runs_lost(result, [low, *deeper.values()])) is not None:
        return lost
    numbers: dict[str, Measured] = {}
    statements: dict[str, Seen] = {low: True}
    for name in settings["activation"]:
        middles: list[Array] = []
        for depth in depths:
            gap = by_layer(result, "weight_gap", activation=name, depth=depth)[:, -1]
            middles.append(middle_and_ends(gap)[0])
            numbers[f"gap of the middle layers, {name}, {depth} layers"] = measured(middles[-1])
            numbers[f"largest gap, {name}, {depth} layers"] = measured(gap.max(-1))
            statements[low] = bool(statements[low] and (gap < settings["limit"]).all())
        if len(depths) > 1:
            statements[deeper[name]] = ordered(np.log(middles[-1]), np.log(middles[0]), gap=FACTOR.gap)
    return Reading(numbers, statements)


def read_gradients(result: xarray.Dataset, settings: Settings) -> Reading:
    """Not vanished: no norm, its mean over runs, is below a tenth of the mean over layers, at any measured epoch."""
    across = "gradients vanish in no layer"
    along = "nor during training"
    if (lost := _runs_lost(result, [across, along])) is not None:
        return lost
    at = [epoch for epoch in epochs_measured(settings) if epoch > 0]
    numbers: dict[str, Measured] = {}
    flat, steady = True, True
    for name in settings["activation"]:
        for depth in settings["depth"]:
            norms = by_layer(result, "gradient_norm", activation=name, depth=depth)[:, at]
            means = norms.mean(0)  # (epoch, layer)
            flat &= bool((means.min(-1) > 0.1 * means.mean(-1)).all())
            steady &= bool(means[-1].mean() > 0.1 * means[0].mean())
            numbers[f"mean gradient norm, {name}, {depth} layers"] = measured(norms[:, -1].mean(-1))
            numbers[f"smallest over the mean, {name}, {depth} layers"] = measured(
                norms[:, -1].min(-1) / norms[:, -1].mean(-1)
            )
    return Reading(numbers, {across: flat, along: steady})


FIGURE_6_6 = Study(
    "001/fig-6.6",
    "isometry gap of all weight matrices during training, and their gradients, 1000 layers",
    "The middle layers of a network with 1000 layers stay nearly orthogonal during training, though their gradients "
    "are not negligible: an implicit bias of SGD.",
    {"middle layers": "remain orthogonal", "gradients": "not negligible there"},
    isometry_training_cell,
    training_scale("cifar10", BRIEF, [1000], BRIEFLY.format(depths="1000"), ["tanh"], limit=0.01),
    training_scale("cifar10", FULL, [1000], names=["tanh"], limit=0.01),
    draw_weights,
    read_weights,
    medium=training_scale("cifar10", LONGER, [1000], MEDIUM.format(depths="1000"), ["tanh"], limit=0.01),
    choices={
        "gains": gain_choice([100]),
        "nearly orthogonal": Choice("an isometry gap below 0.01", "not stated: singular values spread by about 7 %"),
        "gradients": Choice(
            "of the last step of the epoch", "the paper takes a batch of its own, which would cost a pass"
        ),
    },
    data="cifar10",
    seconds=(45, 45_000),
    decisive=FACTOR,
)


def _layers(number: str, title: str, shows: str, published: Mapping[str, float | str], draw: Any, read: Any) -> Study:
    limit: dict[str, Any] = {"limit": 0.01}
    return Study(
        f"001/fig-C.{number}",
        title,
        shows,
        published,
        isometry_training_cell,
        training_scale("cifar10", BRIEF, [100, 1000], BRIEFLY.format(depths="100 and 1000"), SHAPED, **limit),
        training_scale("cifar10", FULL, [100, 500, 1000], names=SHAPED, **limit),
        draw,
        read,
        medium=training_scale("cifar10", LONGER, [100, 1000], MEDIUM.format(depths="100 and 1000"), SHAPED, **limit),
        choices={"gains": gain_choice([10, 100])},
        data="cifar10",
        seconds=(105, 145_000),
        decisive=FACTOR,
    )


FIGURE_C_3 = _layers(
    "3",
    "isometry gap of the weight matrices during training at several depths",
    "The middle layers become more orthogonal with depth, and the gaps remain low during training.",
    {"gap": "remains low", "middle layers": "more orthogonal with depth"},
    draw_gaps,
    read_gaps,
)
FIGURE_C_4 = _layers(
    "4",
    "norm of the gradients by layer during training at several depths",
    "Gradients vanish in no layer, at no depth, and not during training.",
    {"gradients": "do not vanish"},
    draw_gradients,
    read_gradients,
)

STUDIES = (FIGURE_6_6, FIGURE_C_3, FIGURE_C_4)
