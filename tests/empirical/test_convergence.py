"""Kernels of random networks against theory at several widths: a single draw like 1/√width, the mean like 1/width."""

from __future__ import annotations

import numpy as np
import pytest

from isometer import IsometerError
from isometer.empirical import width_convergence
from isometer.empirical._convergence import _distances


def test_bias_and_spread_of_known_deviations() -> None:
    """Deviations of mean 0.3 and variance 0.04 an entry, 3 × 3: a bias of 0.9, a mean square of 0.81 + 0.36.

    1000 draws: the mean of an entry is uncertain by 0.0063, the bias by the same. Four standard errors are allowed.
    """
    off = 0.3 + 0.2 * np.random.default_rng(0).standard_normal((1000, 3, 3))
    single, single_error, bias, bias_error = _distances(off)
    assert bias == pytest.approx(0.9, abs=4 * 0.0063)
    assert bias_error == pytest.approx(0.0063, rel=0.5)
    assert single == pytest.approx(np.sqrt(0.81 + 0.36), abs=4 * single_error)
    assert 0.002 < single_error < 0.02
    none = _distances(0.2 * np.random.default_rng(1).standard_normal((1000, 3, 3)))
    assert none[2] < 3 * none[3]  # without a bias, none is claimed


def test_too_few_widths_or_draws() -> None:
    with pytest.raises(IsometerError, match="at least two that differ"):
        width_convergence(lambda d: f"input(2) > dense({d}) > act('relu') > dense(1)", np.eye(2), widths=(8, 8))
    with pytest.raises(IsometerError, match="draws"):
        width_convergence(lambda d: f"input(2) > dense({d}) > act('relu') > dense(1)", np.eye(2), draws=3)


def _perceptron(width: int) -> str:
    return "input(4)" + f" > dense({width}, gain=1.2) > act('tanh')" * 2 + " > dense(2)"


def _normalised(width: int) -> str:
    return "input(4)" + f" > dense({width}) > norm('batch') > act('gelu')" * 2 + " > dense(1)"


def _attention(width: int) -> str:
    heads = f"attention(heads={width}, head_width={width})"
    return f"input(4, [3]) > dense({width}) > {heads} > dense({width}) > act('tanh') > pool('mean') > dense(1)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "kind", "shape"),
    [
        (_perceptron, "ntk", (4, 4)),
        (_normalised, "nngp", (6, 4)),
        (_attention, "nngp", (3, 4, 3)),
    ],
)
def test_single_draws_approach_the_limit_like_the_root_of_the_width(network, kind, shape) -> None:  # type: ignore[no-untyped-def]
    """From width 12 to 48 with 120 draws the power is known to 0.06 or better, so that −1/4 and −3/4 are four standard
    errors away; terms of the next order, 1/width, may move it by 0.06 more. The mean over all draws must be nearer to
    the limit than a quarter of a draw's distance: a wrong limit would not be.
    """
    batch = np.random.default_rng(0).standard_normal(shape)
    found = width_convergence(network, batch, kind=kind, widths=(12, 48), draws=120)
    slope, error = found.single_slope
    assert error < 0.06
    assert abs(slope + 0.5) < 3 * error + 0.06
    assert found.bias[1] < found.single[1] / 4
