"""Studies of paper 001, chapter 6: batch norm with orthogonal weights, without gradient explosion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray

from isometer.theory.batch_norm import gradient_growth, isometry_gap_rate
from isometer_papers.studies._comparisons import surely_less
from isometer_papers.studies._drawing import LINES, PALETTE, Figure, band, single_panel
from isometer_papers.studies._readings import line_slope, measured, straightness
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.first_gradient import first_gradient_cell
from isometer_papers.studies.cells.isometry import isometry_gap_cell
from isometer_papers.studies.joudaki2024.depths import curve, draw_depths, explodes, flat, growth
from isometer_papers.theory.isometry import gap_bound, printed_decay_time

# --- figure 6.1 ----------------------------------------------------------


def _gaps(result: xarray.Dataset, width: int) -> np.ndarray[Any, Any]:
    values: np.ndarray[Any, Any] = result["isometry_gap"].sel(width=width).transpose("run", "layer").values
    return values


def _bound(gaps: np.ndarray[Any, Any], width: int, constant: float) -> np.ndarray[Any, Any]:
    """Theorem 6.1 at every layer, the mean over runs; layer ℓ + 1 has e^{−ℓ/k}."""
    layers = range(gaps.shape[1])
    bounds = [[gap_bound(float(gap), width, max(layer - 1, 0), constant) for layer in layers] for gap in gaps[:, 0]]
    return np.asarray(np.mean(bounds, axis=0))


def draw_gap(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel()
    for i, width in enumerate(settings["width"]):
        gaps = _gaps(result, width)
        layers = np.arange(gaps.shape[1])
        band(axis, layers, gaps, label=f"d = {width}", index=i, log=True)
        line = _bound(gaps, width, settings["constant"])
        axis.plot(layers, line, LINES[1], color=PALETTE[i], label=f"d = {width}, Theorem 6.1")
    axis.set(yscale="log", xlabel="layer ℓ", ylabel="isometry gap ψ(X_ℓ)")
    axis.legend(title=f"dashed: C = {settings['constant']:g}", loc="lower left", fontsize=8)
    return figure


def read_gap(result: xarray.Dataset, settings: Settings) -> Reading:
    """Rates are slopes of log ψ over all layers, run by run."""
    numbers: dict[str, Measured] = {}
    rates, straight, under, exact = [], True, True, True
    for width in settings["width"]:
        gaps = _gaps(result, width)
        layers = np.arange(gaps.shape[1])
        rate = np.array([line_slope(layers, np.log(run)).value for run in gaps])
        rates.append(rate)
        numbers[f"d log ψ / d layer, d = {width}"] = measured(rate)
        unit = printed_decay_time(float(gaps[:, 0].mean()), width, 1.0)
        numbers[f"C that matches the rate, d = {width}"] = measured(-1 / (unit * rate))
        straight &= straightness(layers, np.log(gaps)) > 0.99 and surely_less(rate, np.zeros_like(rate))
        under &= bool((gaps.mean(0) <= _bound(gaps, width, settings["constant"]) * (1 + 1e-9)).all())
        late = np.array([line_slope(layers[len(layers) // 2 :], np.log(run[len(layers) // 2 :])).value for run in gaps])
        found, local = measured(late), float(np.log(isometry_gap_rate(width)))
        numbers[f"the same from the middle on, d = {width}"] = found
        exact &= abs(found.value - local) <= max(3 * found.uncertainty, 0.1 * abs(local))
    ratio = rates[0].mean() / rates[-1].mean()
    widths = settings["width"]
    rule = " and ".join(f"{np.log(isometry_gap_rate(width)):.4f}" for width in widths)
    also = "it is seen here" if exact else "it is not seen here"
    return Reading(
        numbers,
        {
            "the gap vanishes at an exponential rate": straight,
            "the rate depends on the width: wider networks are slower": surely_less(rates[0], rates[-1]),
            f"it stays under Theorem 6.1 with C = {settings['constant']:g}": under,
        },
        f"The rate falls like 1/d, not like the theorem's 1/d²: from d = {widths[0]} to {widths[-1]} by a factor "
        f"{ratio:.2f}. Near isometry it is log(d/(d + 2)) exactly, {rule}; {also}.",
    )


_ISOMETRY = Scale(
    {"width": [50, 100]},
    {"depth": 100, "mixing": 0.005, "weights": "orthogonal", "runs": 10},
    reading={"constant": 0.015},
)
FIGURE_6_1 = Study(
    "001/fig-6.1",
    "isometry gap over depth with orthogonal weights",
    "The isometry gap vanishes at an exponential rate, slower for wider networks, as Theorem 6.1 predicts.",
    {"gap": "a straight line in log scale", "rate": "depends on the width"},
    isometry_gap_cell,
    _ISOMETRY,
    _ISOMETRY,
    draw_gap,
    read_gap,
    choices={
        "widths and depth": Choice(
            "d = n = 50 and 100, 100 layers", "public code", {"d = 20 and 50": {"width": [20, 50]}}
        ),
        "inputs": Choice(
            "0.995 I + 0.005 uvᵀ, u and v uniform in [0, 1], new in every run",
            "random data in the text; the public code has these",
            {"0.9 I + 0.1 uvᵀ": {"mixing": 0.1}},
        ),
        "C of Theorem 6.1": Choice(
            "0.015", "an absolute constant in the text; public code", {"32, as proved": {"constant": 32.0}}
        ),
    },
    seconds=(5, 5),
)

# --- figure 6.2 ----------------------------------------------------------

IMAGES = {
    "data": "cifar10",
    "weights": "orthogonal",
    "norm": "batch-rescale",
    "activation": "identity",
    "gain": 1.0,
    "exponent": 0.0,
    "loss": "cross-entropy",
}
DEPTHS = [5, 10, 20, 50, 100, 200, 500, 1000]
LAYER = Choice(
    "the second weight matrix, the first that is square",
    "the public code takes it; the first one maps pixels to features",
    {"the first weight matrix": {"layer": 1}},
)
LOSS = Choice(
    "cross-entropy of the last representation, random labels",
    "Theorem 6.5 asks for any Lipschitz loss; the public code adds a linear readout of ten classes",
    {"a Gaussian cotangent": {"loss": "gaussian"}},
)


def draw_degenerate(result: xarray.Dataset, settings: Settings) -> Figure:
    n = settings["samples"]
    labels = {
        count: f"{count} different of {n}" if count < n else f"all {n} different" for count in settings["distinct"]
    }
    return draw_depths(result, settings, "distinct", labels)


def read_degenerate(result: xarray.Dataset, settings: Settings) -> Reading:
    n = settings["samples"]
    repeated, different = (growth(result, settings, distinct=k) for k in (min(settings["distinct"]), n))
    return Reading(
        {"growth per layer, degenerate": repeated, "growth per layer, not degenerate": different},
        {
            "gradients explode for degenerate inputs": explodes(result, settings, distinct=min(settings["distinct"])),
            "there is no explosion for the others": flat(different, repeated),
        },
        "The parts of the gradient in which equal samples differ cancel in that of the weights but grow about three "
        "times as fast. What rounding leaves of them takes over beyond some 350 layers, in float32 beyond 150, so that "
        "deeper networks seem to explode faster than they do.",
    )


def _degenerate(runs: int, reduced: str = "") -> Scale:
    constants = {**IMAGES, "samples": 10, "width": 10, "runs": runs}
    return Scale({"distinct": [10, 5], "depth": [5, 10, 20, 50, 100, 200, 300]}, constants, reduced, {"layer": 2})


FIGURE_6_2 = Study(
    "001/fig-6.2",
    "gradient of the first layer over depth, degenerate inputs and others",
    "Gradients of the first layer explode with depth if samples are repeated in the batch, and stay bounded if not.",
    {"degenerate": "grows exponentially", "not degenerate": "does not grow"},
    first_gradient_cell,
    _degenerate(10),
    _degenerate(10),
    draw_degenerate,
    read_degenerate,
    choices={
        "width": Choice(
            "d = 10, as many as samples", "the theory has d = n; n = 10 is stated", {"d = 20": {"width": 20}}
        ),
        "repeats": Choice(
            "five images twice", "not stated", {"nine images, one of them twice": {"distinct": [10, 9], "runs": 40}}
        ),
        "depths": Choice(
            "5 to 300",
            "not stated; rounding takes over beyond some 350 layers (150 in float32)",
        ),
        "layer": LAYER,
        "loss": LOSS,
    },
    data="cifar10",
    seconds=(10, 10),
)

# --- figure 6.3 ----------------------------------------------------------

_LAWS = {"orthogonal": "orthogonal weights", "gaussian": "Gaussian weights"}


def draw_laws(result: xarray.Dataset, settings: Settings) -> Figure:
    return draw_depths(result, settings, "weights", {law: _LAWS[law] for law in settings["weights"]})


def read_laws(result: xarray.Dataset, settings: Settings) -> Reading:
    gaussian, orthogonal = (growth(result, settings, weights=law) for law in ("gaussian", "orthogonal"))
    theory = gradient_growth(settings["activation"], settings["samples"], norm=settings["norm"])
    return Reading(
        {
            "growth per layer, Gaussian weights": gaussian,
            "growth per layer, orthogonal weights": orthogonal,
            "the same at infinite width, Gaussian weights": Measured(theory),
        },
        {
            "with Gaussian weights the gradient grows at an exponential rate": explodes(
                result, settings, weights="gaussian"
            ),
            "with orthogonal weights it remains bounded": flat(orthogonal, gaussian),
        },
        f"The mean-field rate for Gaussian weights, of widths far above the batch, is {theory:.5f} per layer; measured "
        f"{gaussian.value:.5f} ± {gaussian.uncertainty:.5f} with a width equal to it.",
    )


def images_scale(layer: int, runs: int = 0, *, deepest: int = 500, mean: bool = False, **axes: Sequence[Any]) -> Scale:
    """Networks on images as wide as the batch, of all depths.

    Args:
        layer: whose gradient is read.
        runs: how many at the quick scale, which has width 50; 0 for the paper's.
        deepest: depth of the deepest networks of the quick scale.
        mean: batch norm removes it.
        axes: further axes of `first_gradient_cell`.
    """
    size = 50 if runs else 100
    constants: dict[str, Any] = {**IMAGES, "samples": size, "distinct": size, "width": size, "runs": runs or 10}
    if mean:
        constants["norm"] = "batch"
    kept = {name: value for name, value in constants.items() if name not in axes}
    depths = [depth for depth in DEPTHS if not runs or depth <= deepest]
    reduced = f"width and batch 50 instead of 100, up to {deepest} layers, {runs} runs" if runs else ""
    return Scale({**axes, "depth": depths}, kept, reduced, {"layer": layer})


FIGURE_6_3 = Study(
    "001/fig-6.3",
    "gradient of the first layer over depth, Gaussian and orthogonal weights",
    "With Gaussian weights the gradient of the first layer grows exponentially with depth, as mean-field theory says; "
    "with orthogonal weights it stays bounded.",
    {"Gaussian": "grows exponentially", "orthogonal": "bounded"},
    first_gradient_cell,
    images_scale(2, 6, weights=["orthogonal", "gaussian"]),
    images_scale(2, weights=["orthogonal", "gaussian"]),
    draw_laws,
    read_laws,
    choices={
        "width and batch": Choice(
            "d = n = 100", "public code", {"d = n = 20": {"width": 20, "samples": 20, "distinct": 20}}
        ),
        "depths": Choice("5 to 1000", "public code"),
        "layer": LAYER,
        "loss": LOSS,
    },
    data="cifar10",
    seconds=(10, 50),
)

# --- figure C.10 ---------------------------------------------------------

_NORMS = {"batch": "standard batch norm", "batch-rescale": "simplified, no mean removed"}


def draw_norms(result: xarray.Dataset, settings: Settings) -> Figure:
    return draw_depths(result, settings, "norm", {norm: _NORMS[norm] for norm in settings["norm"]})


def read_norms(result: xarray.Dataset, settings: Settings) -> Reading:
    """A growth counts as none if it is below a tenth of the one with Gaussian weights at infinite width."""
    standard, simplified = (growth(result, settings, norm=norm) for norm in ("batch", "batch-rescale"))
    gaussian = Measured(gradient_growth("identity", settings["samples"], norm="batch"))
    apart = curve(result, settings, norm="batch").mean() - curve(result, settings, norm="batch-rescale").mean()
    return Reading(
        {
            "growth per layer, standard": standard,
            "growth per layer, simplified": simplified,
            "mean distance of the curves": Measured(float(apart)),
            "growth with Gaussian weights at infinite width": gaussian,
        },
        {
            "gradients do not explode with standard batch norm": flat(standard, gaussian),
            "nor with the simplified one": flat(simplified, gaussian),
            "the two are similar in growth": flat(Measured(abs(standard.value - simplified.value)), gaussian),
        },
        "Growth counts as none below a tenth of that with Gaussian weights at infinite width.",
    )


FIGURE_C_10 = Study(
    "001/fig-C.10",
    "gradient of the first layer over depth, standard and simplified batch norm",
    "Removing the mean and dividing by the root of n make no difference: gradients do not explode either way.",
    {"standard": "does not grow", "simplified": "does not grow"},
    first_gradient_cell,
    images_scale(1, 6, deepest=1000, norm=["batch", "batch-rescale"]),
    images_scale(1, norm=["batch", "batch-rescale"]),
    draw_norms,
    read_norms,
    choices={
        "width and batch": Choice(
            "d = n = 100",
            "public code",
            {
                "d = n = 10": {"width": 10, "samples": 10, "distinct": 10},
                "d = n = 20": {"width": 20, "samples": 20, "distinct": 20},
                "d = 20, n = d + 1": {"width": 20, "samples": 21, "distinct": 21},
                "d = 20, n = 10": {"width": 20, "samples": 10, "distinct": 10},
            },
        ),
        "depths": Choice("5 to 1000", "public code"),
        "layer": Choice("the first weight matrix", "public code", {"the second": {"layer": 2}}),
    },
    because={
        "gradients do not explode with standard batch norm": "The gradient of the first matrix keeps growing at a "
        "small rate, which is larger in narrower networks (d = n = 10 and 20 below). Centring leaves n − 1 directions "
        "for d = n features, so that orthogonality is out of reach; one sample more brings it back: with d = 20 the "
        "growth per layer is 0.0021 ± 0.0010 at n = 20, 0.0003 ± 0.0002 at n = 21 and 0.0000 ± 0.0001 at n = 40, and "
        "at n = 20 without removal of the mean 0.0003 ± 0.0003 (10 runs, 200 to 1000 layers). Fewer samples than "
        "features make both explode: with d = 20 and n = 10 the growth is 0.0384 ± 0.0014 with and 0.0308 ± 0.0021 "
        "without removal of the mean."
    },
    data="cifar10",
    seconds=(15, 60),
)

STUDIES = (FIGURE_6_1, FIGURE_6_2, FIGURE_6_3, FIGURE_C_10)
