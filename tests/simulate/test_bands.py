"""Bands by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from isometer.data import make_batch
from isometer.errors import IsometerError
from isometer.simulate import simulate, simulated_band
from isometer.spec import Spec

SKIPS = Spec("input(24) > repeat(residual(norm('layer') > dense > act('gelu') > dense, scale=0.5), 4)")


def test_a_simulated_band_covers_other_networks() -> None:
    """The share of 200 other networks inside a band of 100 is 95 % less the error of its ends.

    The share at one layer has the standard deviation 0.035 (ends from 100 draws, 200 networks), so that below 0.8 is
    more than four of them away; half a band has less than 0.8 in all layers.
    """
    batch = make_batch("gaussian", 5, 24, seed=1)
    names = ["mean_cosine", "log_norm", "gradient_log_norm"]
    band = simulated_band(SKIPS, batch, metrics=names)
    others = simulate(SKIPS, batch, runs=200, metrics=names, seed=3)
    for name in names:
        low, high = (band[name].sel(statistic=s).values[1:] for s in ("low", "high"))
        values = others[name].values[:, 1:]
        inside = ((values >= low) & (values <= high)).mean(axis=0)
        assert (inside > 0.8).all(), name
        middle, half = (low + high) / 2, (high - low) / 4
        assert ((np.abs(values - middle) < half).mean(axis=0) < 0.8).all(), name


def test_a_band_says_what_it_is_made_of() -> None:
    band = simulated_band(SKIPS, make_batch("gaussian", 4, 24), metrics=["rank"])
    assert band.attrs["band_from"] == "simulation"
    assert band.attrs["draws"] == 100


def test_what_takes_long_has_fewer_draws_or_none() -> None:
    batch = make_batch("gaussian", 300, 2000)
    with pytest.raises(IsometerError, match="40 networks take about"):
        simulated_band(Spec(width=2000, depth=300, residual=0.5), batch, metrics=["effective_rank"])
