"""Slopes and pictures of a sweep."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray

from isometer.report import sweep_picture
from isometer.report._sweeps import fit_slopes


def test_slopes_have_their_exponent_and_their_coverage() -> None:
    """y = 3 x^−½ e^(0.1 ε) on six points, 400 times: 95 % intervals hold the exponent in 374 to 392 of them
    (binomial, chance 4e-3 outside)."""
    rng = np.random.default_rng(5)
    x = np.array([1.0, 2, 4, 8, 16, 32])
    y = 3 * x[:, None] ** -0.5 * np.exp(0.1 * rng.standard_normal((6, 400)))
    data = np.repeat(y[:, :, None], 3, axis=2)
    coords = {"width": x, "case": [f"c{i}" for i in range(400)], "statistic": ["mean", "low", "high"]}
    summary = xarray.Dataset({"gap": (("width", "case", "statistic"), data)}, coords=coords)
    slopes = fit_slopes(summary)
    assert len(slopes) == 400
    inside = sum(s.low <= -0.5 <= s.high for s in slopes)
    assert 367 <= inside <= 392
    reference = np.polyfit(np.log(x), np.log(y[:, 7]), 1)[0]
    assert slopes[7].slope == pytest.approx(reference, abs=1e-12)


def test_slopes_leave_out_what_has_no_logarithm() -> None:
    """Means over the seeds are −1, 2, inf, nan, 5, 8: the three that can be used lie on y = x."""
    values = np.array([[-2.0, 1.0, math.inf, math.nan, 0.0, 16.0], [0.0, 3.0, 1.0, 1.0, 10.0, 0.0]])
    data = np.repeat(values[:, :, None], 3, axis=2)
    coords = {"seed": [1, 2], "width": [1, 2, 3, 4, 5, 8], "statistic": ["mean", "low", "high"]}
    dims = ("seed", "width", "statistic")
    summary = xarray.Dataset({"gap": (dims, data), "log_norm": (dims, data)}, coords=coords)
    (slope,) = fit_slopes(summary)
    assert (slope.variable, slope.axis, slope.points) == ("gap", "width", 3)
    assert slope.slope == pytest.approx(1.0, abs=1e-12)
    assert len(sweep_picture(summary, [slope], "odd").axes) == 2


def test_a_grid_of_words_is_drawn_too() -> None:
    data = np.repeat(np.array([[1.0, math.nan], [2.0, math.inf]])[..., None], 3, axis=2)
    coords = {"norm": ["none", "batch"], "activation": ["relu", "tanh"], "statistic": ["mean", "low", "high"]}
    summary = xarray.Dataset({"gap": (("norm", "activation", "statistic"), data)}, coords=coords)
    assert fit_slopes(summary) == []
    assert len(sweep_picture(summary, [], "words").axes) == 1
