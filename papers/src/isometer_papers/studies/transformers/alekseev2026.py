"""Growth of partial Jacobians with depth: Alekseev 2026."""

from __future__ import annotations

import math

import numpy as np
import xarray

from isometer_papers.studies._drawing import PALETTE, Figure, new_figure
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.transformers import last_block_cell

_NETWORK = (
    "gpt(blocks={blocks}, width=64, heads=8, tokens=32, norm='pre', norm_kind='{kind}', activation='relu', "
    "mlp_gain=1.41421356237, norm_gain={alpha}, causal=False)"
)
_TANH_LIKE = ("dyt", "derf")


def local_powers(blocks: list[int], log_jacobian: np.ndarray) -> np.ndarray:
    """Slopes of log J against log depth between neighbours.

    Example:
        >>> local_powers([1, 2, 4], 3.0 * np.log([1.0, 2.0, 4.0])).tolist()
        [3.0, 3.0]
    """
    return np.diff(log_jacobian) / np.diff(np.log(blocks))


def draw_growth(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(2, width=4.4, height=3.8)
    for i, kind in enumerate(settings["kind"]):
        row = result["log_jacobian"].sel(kind=kind).values
        style = {"color": PALETTE[i], "marker": ".", "label": kind}
        axes.flat[0].plot(settings["blocks"], row / math.log(10), **style)
        axes.flat[1].plot(settings["blocks"][1:], local_powers(settings["blocks"], row), **style)
    axes.flat[0].set(xscale="log", xlabel="blocks", ylabel="log₁₀ of the averaged partial Jacobian norm")
    axes.flat[1].set(xscale="log", xlabel="blocks", ylabel="power between two depths")
    axes.flat[0].legend(fontsize=8)
    return figure


def read_growth(result: xarray.Dataset, settings: Settings) -> Reading:
    """A power law: the power changes by less than 15 % over the last doubling.

    A stretched exponential exp(c √L): the power grows by √2 a doubling, here 1.2 to 1.7 over the last.
    """
    numbers: dict[str, Measured] = {}
    statements: dict[str, bool | None] = {}
    for kind in settings["kind"]:
        powers = local_powers(settings["blocks"], result["log_jacobian"].sel(kind=kind).values)
        growth = float(powers[-1] / powers[-2])
        numbers[f"power over the last doubling, {kind}"] = Measured(float(powers[-1]))
        numbers[f"that over the one before, {kind}"] = Measured(growth)
        if kind in _TANH_LIKE:
            statements[f"{kind}: stretched-exponential growth"] = 1.2 < growth < 1.7
            numbers[f"stretching exponent, {kind}"] = Measured(math.log2(growth) if growth > 0 else 0.0)
        else:
            statements[f"{kind} norm: power-law growth"] = abs(growth - 1) < 0.15
    return Reading(numbers, statements)


_QUICK = {"network": _NETWORK, "alpha": 0.5, "open_end": True}
GROWTH = Study(
    "009/growth",
    "averaged partial Jacobian norm from input to output against depth, norms and tanh-like functions",
    "With layer norm before each branch the averaged partial Jacobian norm grows like a power of depth; with tanh-like "
    "functions in its place it grows like a stretched exponential.",
    {"layer norm": "power law", "tanh-like": "stretched exponential"},
    last_block_cell,
    Scale({"kind": ["layer", "rms", "dyt", "derf"], "blocks": [8, 16, 32, 64, 128]}, _QUICK, "to 128 blocks"),
    Scale({"kind": ["layer", "rms", "dyt", "derf"], "blocks": [8, 16, 32, 64, 128, 256, 512]}, _QUICK),
    draw_growth,
    read_growth,
    choices={
        "alpha": Choice("α = 0.5", "the value of DyT", {"α = 1": {"alpha": 1.0}}),
        "block": Choice("attention and an MLP of ReLU with He's gain", "the paper has vision transformers"),
    },
    because={
        "dyt: stretched-exponential growth": "At these depths the local power grows faster or slower than √depth.",
        "derf: stretched-exponential growth": "At these depths the local power grows faster or slower than √depth.",
    },
    seconds=(60.0, 600.0),
)
STUDIES = (GROWTH,)
