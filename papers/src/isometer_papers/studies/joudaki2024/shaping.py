"""Studies of paper 001, section 6.3 and Appendix C.5: activations, and gains that keep gradients from exploding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import xarray

from isometer.theory.batch_norm import GainFit, fit_gain, growth_exponent
from isometer_papers.studies._comparisons import surely_less
from isometer_papers.studies._drawing import Figure, new_figure, single_panel
from isometer_papers.studies._readings import jackknife, measured
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.first_gradient import first_gradient_cell, rate_cell
from isometer_papers.studies.cells.isometry import image_gap_cell
from isometer_papers.studies.joudaki2024.depths import (
    curve,
    depth_axis,
    draw_curve,
    draw_depths,
    explodes,
    flat,
    growth,
)
from isometer_papers.studies.joudaki2024.isometry import DEPTHS, IMAGES, LAYER, images_scale

CURVED = ("sin", "tanh")
_ALL = ["identity", "sin", "tanh"]
_STANDARD = Choice(
    "standard batch norm without ε, no biases", "standard modules; at the start biases do nothing before it"
)

# --- figure 6.5 ----------------------------------------------------------


def draw_gains(result: xarray.Dataset, settings: Settings) -> Figure:
    exponents = settings["exponent"]
    figure, axes = new_figure(len(exponents))
    for axis, exponent in zip(axes[0], exponents, strict=True):
        for i, name in enumerate(settings["activation"]):
            runs = curve(result, settings, activation=name, exponent=exponent)
            draw_curve(axis, settings["depth"], runs, name, i)
        depth_axis(axis, settings)
        axis.set_title("without gain" if exponent == 0 else f"with gain α_ℓ = ℓ^(−{exponent:g})", fontsize=10)
        axis.legend()
    return figure


def read_gains(result: xarray.Dataset, settings: Settings) -> Reading:
    without, gain = min(settings["exponent"]), max(settings["exponent"])
    found = {
        (name, exponent): growth(result, settings, activation=name, exponent=exponent)
        for name in settings["activation"]
        for exponent in (without, gain)
    }
    weaker = min((found[name, without] for name in CURVED), key=lambda one: one.value)
    words = {without: "without gain", gain: "with gain"}
    return Reading(
        {f"growth per layer, {name}, {words[exponent]}": one for (name, exponent), one in found.items()},
        {
            "without gain gradients explode with sin and tanh": all(
                explodes(result, settings, activation=name, exponent=without) for name in CURVED
            ),
            "with gain they do not": all(flat(found[name, gain], found[name, without]) for name in CURVED),
            "without an activation they never do": all(flat(found["identity", e], weaker) for e in (without, gain)),
        },
        f"Curves with gain fall by up to {gain:g} log L, since the last representation, which the loss is read off, "
        f"has the size L^(−{gain:g}).",
    )


FIGURE_6_5 = Study(
    "001/fig-6.5",
    "gradient of the first layer over depth, with gains that fall with the layer and without",
    "With sin and tanh gradients explode exponentially in depth; gains that fall with the layer avoid it. The identity "
    "needs none.",
    {"without gain": "sin and tanh grow exponentially", "with gain": "bounded"},
    first_gradient_cell,
    images_scale(2, 4, activation=_ALL, exponent=[0.0, 0.4], mean=True),
    images_scale(2, activation=_ALL, exponent=[0.0, 0.4], mean=True),
    draw_gains,
    read_gains,
    choices={
        "gains": Choice("α_ℓ = ℓ^(−0.4)", "public code", {"ℓ^(−0.2)": {"exponent": [0.0, 0.2]}}),
        "depths": Choice("5 to 1000", "public code"),
        "layer": LAYER,
        "batch norm": _STANDARD,
    },
    data="cifar10",
    seconds=(25, 200),
)

# --- figure C.9 ----------------------------------------------------------


def draw_activations(result: xarray.Dataset, settings: Settings) -> Figure:
    return draw_depths(result, settings, "activation", {name: name for name in settings["activation"]})


def read_activations(result: xarray.Dataset, settings: Settings) -> Reading:
    found = {name: growth(result, settings, activation=name) for name in settings["activation"]}
    weaker = min((found[name] for name in CURVED), key=lambda one: one.value)
    return Reading(
        {f"growth per layer, {name}": one for name, one in found.items()},
        {
            "with sin and tanh gradients explode exponentially": all(
                explodes(result, settings, activation=name) for name in CURVED
            ),
            "without an activation they do not": flat(found["identity"], weaker),
        },
    )


FIGURE_C_9_LEFT = Study(
    "001/fig-C.9-left",
    "gradient of the first layer over depth, by activation",
    "With standard modules and orthogonal weights gradients explode exponentially with sin and tanh, not with the "
    "identity.",
    {"sin, tanh": "grow exponentially", "identity": "does not grow"},
    first_gradient_cell,
    images_scale(2, 4, activation=_ALL, mean=True),
    images_scale(2, activation=_ALL, mean=True),
    draw_activations,
    read_activations,
    choices={
        "width and batch": Choice(
            "d = n = 100", "as in figure 6.5", {"d = n = 20": {"width": 20, "samples": 20, "distinct": 20}}
        ),
        "depths": Choice("5 to 1000", "as in figure 6.5"),
        "layer": LAYER,
        "batch norm": _STANDARD,
    },
    data="cifar10",
    seconds=(10, 100),
)


def _gaps(result: xarray.Dataset, name: str) -> np.ndarray[Any, Any]:
    values = result["isometry_gap"].sel(activation=name).stack(all_runs=("chunk", "run")).transpose("all_runs", "layer")
    found: np.ndarray[Any, Any] = values.values
    return found


def draw_image_gap(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel(width=5.4)
    for i, name in enumerate(settings["activation"]):
        draw_curve(axis, settings["at"], _gaps(result, name), name, i, log=True)
    axis.set(yscale="log", xlabel="depth L", ylabel="isometry gap of the last layer")
    axis.legend(loc="center right")
    return figure


def read_image_gap(result: xarray.Dataset, settings: Settings) -> Reading:
    """Stable: the last two depths differ by less than a tenth, or not beyond chance."""
    gaps = {name: _gaps(result, name) for name in settings["activation"]}
    stable = all(
        abs(runs[:, -1].mean() / runs[:, -2].mean() - 1) < 0.1 + measured(runs[:, -1] / runs[:, -2]).uncertainty
        for runs in (gaps[name] for name in CURVED)
    )
    last = {name: runs[:, -1] for name, runs in gaps.items()}
    return Reading(
        {f"gap at depth {settings['at'][-1]}, {name}": measured(runs) for name, runs in last.items()},
        {
            "with sin and tanh the gap becomes stable": stable,
            "at a large value, above that of the identity": all(surely_less(last["identity"], last[n]) for n in CURVED),
            "with the identity it falls towards 0": surely_less(10 * last["identity"], gaps["identity"][:, 0]),
        },
        "It does not vanish with the identity: after removal of the mean d features share n − 1 = d − 1 directions, "
        "which they cannot fill evenly in every layer.",
    )


def _image_gap(size: int, depth: int, runs: int, reduced: str = "") -> Scale:
    at = [one for one in DEPTHS if one <= depth]
    constants = {name: value for name, value in IMAGES.items() if name not in ("activation", "loss")}
    constants |= {"norm": "batch", "samples": size, "distinct": size, "width": size, "depth": depth, "runs": runs}
    return Scale({"activation": _ALL, "chunk": [0, 1]}, {**constants, "at": at, "gap": "centred"}, reduced)


FIGURE_C_9_RIGHT = Study(
    "001/fig-C.9-right",
    "isometry gap of the last layer over depth, by activation",
    "The isometry gap becomes stable at a large value with sin and tanh; the identity becomes orthogonal.",
    {"sin, tanh": "stable at a large value", "identity": "falls"},
    image_gap_cell,
    _image_gap(50, 500, 3, "width and batch 50 instead of 100, up to 500 layers, 6 runs"),
    _image_gap(100, 1000, 5),
    draw_image_gap,
    read_image_gap,
    choices={
        "what the gap is of": Choice(
            "of the n − 1 directions that centring leaves",
            "the whole gap is infinite for the identity; the public code measures after a layer with biases",
            {"after the next layer, with biases": {"gap": "biased"}},
        ),
        "one network": Choice("the layers of one deep network", "equal in law to the last layers of several"),
        "width and batch": Choice("d = n = 100", "as in figure 6.5"),
    },
    data="cifar10",
    seconds=(15, 80),
)

# --- figure C.1 ----------------------------------------------------------


def _rates(result: xarray.Dataset, **at: Any) -> np.ndarray[Any, Any]:
    values: np.ndarray[Any, Any] = result["rate"].sel(**at).transpose("run", ...).values
    return values


def _fit(result: xarray.Dataset, settings: Settings, name: str) -> tuple[GainFit, list[float], list[float]]:
    """The power law through the rates, means over layers and runs, that are surely above 0."""
    gains, rates = [], []
    for gain in settings["gain"]:
        one = measured(_rates(result, activation=name, gain=gain).mean(1))
        if one.value - one.uncertainty > 0:
            gains.append(float(gain))
            rates.append(one.value)
    return fit_gain(gains, rates), gains, rates


def draw_rates(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(len(settings["activation"]))
    gains = np.asarray(settings["gain"], dtype=float)
    for axis, name in zip(axes[0], settings["activation"], strict=True):
        for i, layer in enumerate(settings["layers"]):
            runs = result["rate"].sel(activation=name, layer=layer).transpose("run", "gain").values
            draw_curve(axis, gains, runs, f"ℓ = {layer}", i)
        fit, _, _ = _fit(result, settings, name)
        fine = np.linspace(gains.min(), gains.max(), 200)
        label = f"{fit.factor:.3f} α^{fit.exponent:.2f}"
        axis.plot(fine, fit.factor * fine**fit.exponent, color="black", linestyle="--", zorder=5, label=label)
        axis.set(xlabel="gain α", ylabel="growth of log ‖∂loss/∂W‖ per layer")
        axis.set_title(name, fontsize=10)
        axis.legend()
    return figure


def read_rates(result: xarray.Dataset, settings: Settings) -> Reading:
    numbers: dict[str, Measured] = {}
    power, rising, same = True, True, True
    ends = []
    for name in settings["activation"]:
        _, gains, rates = _fit(result, settings, name)
        x, y = np.log(gains), np.log(rates)
        runs = result["rate"].sel(activation=name, gain=gains).mean("layer").transpose("run", "gain").values
        numbers[f"c₂, {name}"] = jackknife(runs, lambda mean, at=gains: fit_gain(at, mean).exponent)  # type: ignore[misc]
        numbers[f"c₁, {name}"] = jackknife(runs, lambda mean, at=gains: fit_gain(at, mean).factor)  # type: ignore[misc]
        half = len(gains) // 2 + 1
        ends.append(
            f"{name} {np.polyfit(x[:half], y[:half], 1)[0]:.1f} and {np.polyfit(x[-half:], y[-half:], 1)[0]:.1f}"
        )
        power &= bool(np.corrcoef(x, y)[0, 1] ** 2 > 0.95 and len(gains) >= 3)
        low, high = (
            _rates(result, activation=name, gain=one).mean(1) for one in (settings["gain"][0], settings["gain"][-1])
        )
        rising &= surely_less(low, high)
        by_layer = _rates(result, activation=name, gain=settings["gain"][-1]).mean(0)
        numbers[f"spread over layers at gain {settings['gain'][-1]:g}, {name}"] = Measured(
            float(np.ptp(by_layer) / by_layer.mean())
        )
        same &= bool(np.ptp(by_layer) < 0.2 * by_layer.mean())
    theory = ", ".join(f"{growth_exponent(name):g} for {name}" for name in settings["activation"])
    return Reading(
        numbers,
        {
            "the rate rises with the gain": rising,
            "it is close to a power of the gain (R² above 0.95 in log–log)": power,
            "the same at all layers": same,
        },
        f"The exponent depends on the range of the fit; over smaller and larger gains it is {', '.join(ends)}. As "
        f"gains tend to 0 theory has {theory}.",
    )


def _rate_constants(size: int, depth: int, runs: int, layers: list[int]) -> dict[str, Any]:
    left = {name: value for name, value in IMAGES.items() if name not in ("activation", "gain", "exponent")}
    left |= {"norm": "batch", "samples": size, "distinct": size, "width": size}
    return {**left, "depth": depth, "runs": runs, "layers": layers, "lag": 10}


FIGURE_C_1 = Study(
    "001/fig-C.1",
    "explosion rate against a constant gain",
    "In a network of 1000 layers the explosion rate is c₁α^c₂ in the gain α, for sin and tanh.",
    {"rate": "c₁α^c₂"},
    rate_cell,
    Scale(
        {"activation": list(CURVED), "gain": [0.3, 0.5, 0.7, 1.0]},
        {**_rate_constants(50, 300, 6, [100, 150, 200]), "exponent": 0.0},
        "width and batch 50 instead of 100, 300 layers, 6 runs, fewer gains",
    ),
    Scale(
        {"activation": list(CURVED), "gain": [0.25, 0.4, 0.55, 0.7, 0.85, 1.0]},
        {**_rate_constants(100, 1000, 10, [200, 400, 600, 800]), "exponent": 0.0},
    ),
    draw_rates,
    read_rates,
    choices={
        "gains": Choice("0.25 to 1", "not stated", {"0.5 to 1": {"gain": [0.5, 0.7, 0.85, 1.0]}}),
        "layers": Choice(
            "200, 400, 600, 800",
            "not stated; near the input and the loss rates are not yet stationary",
            {"20, 50, 100": {"layers": [20, 50, 100]}},
        ),
        "sign": Choice("growth towards the input is positive", "as printed, C.155 is negative where gradients explode"),
        "width and batch": Choice("d = n = 100", "as in figure 6.5"),
    },
    data="cifar10",
    seconds=(20, 150),
)

# --- figure C.2 ----------------------------------------------------------


def draw_exponents(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(len(settings["activation"]))
    for axis, name in zip(axes[0], settings["activation"], strict=True):
        for i, depth in enumerate(settings["depth"]):
            runs = result["rate"].sel(activation=name, depth=depth).isel(layer=0).transpose("run", "exponent").values
            draw_curve(axis, settings["exponent"], runs, f"L = {depth}", i)
        axis.axhline(0, color="#666666", linewidth=0.8)
        axis.set(
            xlabel="gain exponent k/c₂", ylabel=f"growth of log ‖∂loss/∂W‖ per layer at ℓ = {settings['layers'][0]}"
        )
        axis.set_title(name, fontsize=10)
        axis.legend()
    return figure


def read_exponents(result: xarray.Dataset, settings: Settings) -> Reading:
    numbers: dict[str, Measured] = {}
    falls, several, apart, back = True, True, [], list[str]()
    exponents = settings["exponent"]
    for name in settings["activation"]:
        for depth in settings["depth"]:
            runs = {e: _rates(result, activation=name, depth=depth, exponent=e)[:, 0] for e in exponents}
            falls &= surely_less(runs[exponents[-1]], runs[exponents[0]])
            if any(surely_less(runs[a], runs[b]) for a, b in pairwise(exponents)):
                back.append(f"{name} at L = {depth}")
            several &= sum(surely_less(runs[e], runs[exponents[0]]) for e in exponents[1:]) >= 2
        pooled = result["rate"].sel(activation=name).isel(layer=0)
        for exponent in (exponents[0], exponents[-1]):
            values = pooled.sel(exponent=exponent)
            numbers[f"rate at exponent {exponent:g}, {name}"] = measured(values.values)
            apart.append(float(np.ptp(values.mean("run").values)))
    numbers["largest difference between depths"] = Measured(max(apart))
    return Reading(
        numbers,
        {
            "the largest exponent has a lower rate of explosion than none": falls,
            "several exponents reduce it": several,
        },
        f"It rises again at larger exponents with {', '.join(back) or 'none of the activations and depths'}. "
        "The rate does not come near 0 at these layers: gains of the first ones are near 1 whatever the exponent, and "
        "images that are brought close to isometry add about 0.014, which a linear network of width 100 shows too.",
    )


def _exponents(size: int, depths: list[int], exponents: list[float], runs: int, reduced: str = "") -> Scale:
    constants = _rate_constants(size, 0, runs, [12])
    del constants["depth"]
    axes: dict[str, Sequence[str | int | float]] = {"activation": list(CURVED), "depth": depths, "exponent": exponents}
    return Scale(axes, {**constants, "gain": 1.0}, reduced)


FIGURE_C_2 = Study(
    "001/fig-C.2",
    "explosion rate at the tenth layer against the gain exponent",
    "The gain exponent changes the explosion rate of the early layers, at depths from 100 to 1000, and several values "
    "of it reduce the rate.",
    {"rate": "reduced by several exponents"},
    rate_cell,
    _exponents(50, [100, 200], [0.0, 0.25, 0.5], 6, "width and batch 50 instead of 100, depths 100 and 200, 6 runs"),
    _exponents(100, [100, 200, 500, 1000], [0.0, 0.125, 0.25, 0.375, 0.5], 10),
    draw_exponents,
    read_exponents,
    choices={
        "which layers": Choice(
            "between layers 2 and 12, the first ten steps between square matrices",
            "ℓ = 10 counts from an unstated layer; the first matrix maps pixels",
            {"layers 1 and 11": {"layers": [11]}},
        ),
        "exponents": Choice("0 to 0.5", "not stated"),
        "width and batch": Choice("d = n = 100", "as in figure 6.5"),
        "sign": Choice("growth towards the input is positive", "as printed, C.155 is negative where gradients explode"),
    },
    data="cifar10",
    seconds=(15, 350),
)

STUDIES = (FIGURE_6_5, FIGURE_C_1, FIGURE_C_2, FIGURE_C_9_LEFT, FIGURE_C_9_RIGHT)
