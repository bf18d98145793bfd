"""Kernels of random networks against theory at several widths: a single draw like 1/√width, the mean like 1/width."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from isometer import IsometerError, empirical_kernel
from isometer.empirical import width_convergence
from isometer.empirical._convergence import _distances
from isometer.empirical._many_draws import kernels_of_draws, weight_deviations
from isometer.empirical._result import Kind
from isometer.nn import build
from isometer.spec import Spec


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


@pytest.mark.parametrize("kind", ["ntk", "nngp"])
@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("input(4) > dense(6, gain=1.2) > bias(0.3) > act('tanh') > dense(5) > act('gelu') > dense(2)", (3, 4)),
        ("input(4) > dense(6) > norm('batch') > act('gelu') > dense(1)", (5, 4)),
        (
            "input(4, [3]) > dense(4) > attention(heads=2, head_width=3) > act('tanh') > pool('mean') > dense(1)",
            (3, 4, 3),
        ),
        ("input(2, [4, 4]) > conv(3, 4, padding='zeros') > act('relu') > flatten > dense(2)", (3, 2, 4, 4)),
    ],
)
def test_many_draws_are_the_kernels_of_models(text: str, shape: tuple[int, ...], kind: Kind) -> None:
    """The same weights in a model of its own, whose kernel `empirical_kernel` finds."""
    spec, batch = Spec(text), np.random.default_rng(0).standard_normal(shape)
    (found,) = kernels_of_draws(spec, batch, kind, 2, seed=5)
    model = build(spec, dtype=torch.float64)
    deviations = weight_deviations(spec, model)
    random = torch.Generator().manual_seed(5)
    left = set(deviations)
    if kind == "nngp":  # the readout is not drawn
        left -= {name for name in deviations if name.startswith(list(deviations)[-1].rpartition(".")[0])}
    drawn = {
        n: torch.randn(2, *p.shape, generator=random, dtype=p.dtype) for n, p in model.named_parameters() if n in left
    }
    for at in range(2):
        with torch.no_grad():
            for name, numbers in drawn.items():
                model.get_parameter(name).copy_(deviations[name] * numbers[at])
        expected = empirical_kernel(model, torch.from_numpy(batch), kind=kind, by="parameter")
        whole = expected.matrix
        if kind == "ntk":
            outputs = model(torch.from_numpy(batch)).shape[1]
            whole = sum(deviations[name] ** 2 * part / outputs for name, part in expected.parts.items())
        np.testing.assert_allclose(found[at], whole, atol=1e-12 * np.abs(whole).max(), rtol=0)


def test_many_draws_have_the_laws_of_built_networks() -> None:
    """Mean squares of 40 built networks against the variances: 4 standard errors of a mean of χ² of so many numbers."""
    spec = Spec(
        "input(4, [3]) > dense(8, gain=1.3) > attention(heads=2, head_width=8, qk_gain=1.5) > bias(0.3) > dense(8)"
    )
    models = [dict(build(spec, seed=seed).named_parameters()) for seed in range(40)]
    for name, deviation in weight_deviations(spec, build(spec)).items():
        numbers = torch.cat([one[name].detach().flatten() for one in models]).double()
        ratio = float(numbers.square().mean()) / deviation**2
        assert abs(ratio - 1.0) < 4 * np.sqrt(2 / len(numbers)), name


def test_weights_that_are_not_gaussian_are_refused() -> None:
    with pytest.raises(IsometerError, match="expected Gaussian"):
        width_convergence(lambda d: f"input(2) > dense({d}, weights='uniform') > act('relu') > dense(1)", np.eye(2))


def test_the_bias_falls_like_one_over_the_width() -> None:
    """30,000 draws know the power between widths 4 and 16 to 0.05 or better: −1/2 is ten standard errors away. Terms of
    the next order, 1/width², may move it by 0.05.
    """
    network = lambda d: "input(3)" + f" > dense({d}, gain=1.5) > act('relu')" * 2 + " > dense(1)"  # noqa: E731
    batch = np.array([[1.0, 0.0, 0.0], [-0.8, 0.6, 0.0]])
    found = width_convergence(network, batch, kind="nngp", widths=(4, 8, 16), draws=30_000)
    slope, error = found.bias_slope
    assert error < 0.05
    assert abs(slope + 1.0) < 3 * error + 0.05


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
