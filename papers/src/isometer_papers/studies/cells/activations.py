"""What activations and their duals are, on grids: the figures and the table of 004 that need no training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

_SERIES = 6  # coefficients of the dual that are kept


def curve_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """An `activation` on `points` places from `low` to `high`.

    Example:
        >>> curve_cell({"activation": "relu", "low": -1.0, "high": 1.0, "points": 3}, 0)["value"].values.tolist()
        [0.0, 0.0, 1.0]
    """
    from isometer import activation

    c = configuration
    x = np.linspace(c["low"], c["high"], c["points"])
    return xarray.Dataset({"value": ("x", activation(c["activation"])(x))}, coords={"x": x})


def normrelu_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Length map, its slope and bias of NormReLU over the variance, by closed form (`how` = formula) or quadrature.

    Example:
        >>> cell = {"how": "formula", "kink": -1.5975, "low": 0.5, "high": 2.0, "points": 3}
        >>> round(float(normrelu_cell(cell, 0)["length"][2]), 3)
        1.755
    """
    from isometer.activations import activation
    from isometer.theory.kernels import NormReLUMoments

    c = configuration
    variances = np.linspace(c["low"], c["high"], c["points"])
    unit = NormReLUMoments(c["kink"])
    if c["how"] == "formula":
        rows = [(unit.second_moment(v), unit.mean(v)) for v in variances]
    else:
        text = f"{unit.scale!r} * (relu(x - ({unit.kink!r})) + ({unit.shift!r}))"
        # σ(√γ x): the only x of the text is the argument
        wide = [activation(text.replace("x", f"({float(np.sqrt(v))!r} * x)", 1)) for v in variances]
        rows = [(phi.second_moment, phi.mean) for phi in wide]
    length, mean = (np.array(column) for column in zip(*rows, strict=True))
    return xarray.Dataset(
        {"length": ("variance", length), "bias": ("variance", mean**2 / length)}, coords={"variance": variances}
    )


def nonlinearity_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """μ of the normalised `activation` and the first coefficients of its dual, by quadrature.

    Example:
        >>> round(float(nonlinearity_cell({"activation": "relu"}, 0)["nonlinearity"]), 6)
        0.266529
    """
    from isometer import activation

    phi = activation(configuration["activation"])
    data: dict[str, Any] = {
        "nonlinearity": phi.nonlinearity,
        "coefficient": ("power", phi.hermite(_SERIES - 1) ** 2),
        "dual_at_one": phi.second_moment,
    }
    return xarray.Dataset(data, coords={"power": np.arange(_SERIES)})
