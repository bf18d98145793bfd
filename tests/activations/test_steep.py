"""Steep activations: kernel maps against sums that share nothing with them, at a small cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from isometer import activation
from isometer.activations import _angle_table
from isometer.activations._angle_table import AngleTable, PiecewiseFunction, SampleCount
from isometer.numerics import panel_nodes
from isometer.theory import KernelMap

STEEP = [
    ("tanh(40*x+3)", -0.075, 1 / 40),
    ("arctan(2000*x)", 0.0, 1 / 2000),
    ("silu(300*x)", 0.0, 1 / 300),
    ("sqrt(x**2+1e-6)", 0.0, 1e-3),
    ("arcsinh(1000*x - 500)", 0.5, 1e-3),
]


def common_part(text: str, place: float, width: float, sign: float) -> tuple[float, float]:
    """(E φ(X)φ(Y), E φ²) at the cosine ±½: X and Y share half of their variance, and are independent given it."""
    phi = activation(text)
    steps = width * 3.0 ** np.arange(math.ceil(math.log(20 / width, 3)))
    # E over the common part z of the product of two conditional means, each over a Gaussian of variance ½
    z, weight = (one.ravel() for one in panel_nodes(np.linspace(-9, 9, 41)[:-1], np.linspace(-9, 9, 41)[1:], 12))
    weight = weight * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)

    def means(centre: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        low, high = centre[:, None] - 6.5, centre[:, None] + 6.5
        inner = np.concatenate([place - steps[::-1], [place], place + steps])
        lines = centre[:, None] + np.linspace(-6.5, 6.5, 14)
        edges = np.sort(np.clip(np.concatenate([np.tile(inner, (len(centre), 1)), lines], axis=1), low, high), axis=1)
        x, w = panel_nodes(edges[:, :-1], edges[:, 1:], 16)
        density = np.exp(-((x - centre[:, None, None]) ** 2)) / math.sqrt(math.pi)
        return np.asarray((phi(x) * density * w).sum(axis=(1, 2)))

    root = math.sqrt(0.5)
    product = float(np.sum(means(root * z) * means(sign * root * z) * weight))
    edges = np.unique(np.concatenate([place - steps, [place], place + steps, np.linspace(-9, 9, 19)]))
    x, w = panel_nodes(edges[:-1], edges[1:], 16)
    return product, float(np.sum(phi(x) ** 2 * w * np.exp(-0.5 * x * x)) / math.sqrt(2 * math.pi))


@pytest.mark.parametrize(("text", "place", "width"), STEEP)
def test_kernels_of_steep_functions(text: str, place: float, width: float) -> None:
    kernel = KernelMap(text)
    assert kernel.error < 1e-11
    for sign in (1.0, -1.0):
        product, second = common_part(text, place, width, sign)
        assert abs(kernel(sign * 0.5) - product / second) < 1e-12


@pytest.mark.parametrize(("text", "place", "width"), STEEP)
def test_steep_functions_are_evaluated_a_few_million_times(
    text: str, place: float, width: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [0.0]
    monkeypatch.setattr(_angle_table.SampleCount, "take", lambda self, count: taken.__setitem__(0, taken[0] + count))
    KernelMap(text.replace("x", "(1.01*x)"))(0.5)  # not one that another test has analysed
    assert 1e4 < taken[0] < 8e6


@pytest.mark.parametrize("gain", [0.3, 50.0, 2e4, 1e9])
def test_erf_keeps_its_digits_at_any_gain(gain: float) -> None:
    dual = activation(f"erf({gain}*x)").dual
    with mp.workdps(60):
        r = 2 * mpf(gain) ** 2 / (1 + 2 * mpf(gain) ** 2)
        assert abs(mpf(dual.second_moment) / (2 / mp.pi * mp.asin(r)) - 1) < 1e-15
        for gap in (1e-14, 1e-6, 0.4, 1.7):
            rho = 1 - mpf(gap)
            deficit = 2 / mp.pi * (mp.asin(r) - mp.asin(r * rho))
            slope = 2 / mp.pi * r / mp.sqrt(1 - (r * rho) ** 2)
            assert abs(mpf(float(dual.deficit(np.array(gap)))) / deficit - 1) < 2e-15
            assert abs(mpf(float(dual.slope_at_gap(np.array(gap)))) / slope - 1) < 2e-15


@pytest.mark.parametrize("width", [1.0, 1e-3, 1e-6])
def test_a_table_of_bumps_has_a_closed_form(width: float) -> None:
    """E of exp(−(x/w)²/2) at X and Y, from acute to obtuse angles, relative to its value."""
    theta = np.array([1e-9, 1e-6, 1e-3, 0.1, 1.0, math.pi / 2])
    steps = width * 2.0 ** np.arange(math.ceil(math.log(9 / width, 2)) + 1)
    edges = np.unique(np.concatenate([-steps, [0.0], steps]))
    f = PiecewiseFunction(lambda x: np.exp(-0.5 * (x / width) ** 2), edges, (), (-9.0, 9.0), ((0.0, width),))
    # det(1 + Σ/w²)^−½ with Σ the covariance of (X, Y), in a form that does not cancel
    exact = 1 / np.sqrt(1 + 2 / width**2 + np.sin(theta) ** 2 / width**4)
    for sign in (1, -1):
        table = AngleTable(f.pruned(), sign, width**2, SampleCount(1e8))
        np.testing.assert_allclose(table(theta), exact, rtol=1e-13)


def test_a_function_that_is_zero_has_a_kernel() -> None:
    assert activation("log1p(x - x)").kernel([-1.0, 0.3, 1.0]).tolist() == [0.0, 0.0, 0.0]
