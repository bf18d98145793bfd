"""Schedules of activations shaped for depth."""

from __future__ import annotations

import pytest
import torch

from isometer.data import make_batch
from isometer.errors import IsometerError
from isometer.nn import shaped_activations
from isometer.simulate import simulate
from isometer.spec import PowerLaw, Spec
from isometer.theory.batch_norm import fit_gain
from support.models import draw

# --- activations ------------------------------------------------------------------------------------------------------


def test_shaped_activations_follow_the_schedule() -> None:
    x = draw(10)
    modules = shaped_activations("sin", 4, PowerLaw(2.0, layer=-1.0))
    for layer, module in enumerate(modules, start=1):
        torch.testing.assert_close(module(x), torch.sin(2.0 / layer * x))
    assert len(shaped_activations("tanh", 3, (1.0, 0.5, 0.2))) == 3
    with pytest.raises(IsometerError, match="expected 3, one per layer"):
        shaped_activations("tanh", 3, (1.0, 0.5))


def test_a_fitted_schedule_bounds_the_growth_of_gradients() -> None:
    """Width 20, 120 layers: rates at two gains, and the growth of the gradient with the schedule made from them."""
    spec = Spec(width=20, depth=120, activation="tanh", norm="batch-rescale", weights="orthogonal")
    batch = make_batch("gaussian", 20, 20, seed=1)

    def growth(**changes) -> float:
        data = simulate(spec.replace(**changes), batch, runs=4, metrics=["gradient_log_norm"], seed=0)
        logs = data["gradient_log_norm"].values[:, 1:]
        return float((logs[:, 10] - logs[:, -10]).mean()) / 100

    floor = growth(activation="identity")
    rates = [growth(activation_gain=gain) for gain in (1.0, 0.5)]
    fit = fit_gain([1.0, 0.5], rates, floor=floor, k=1.5)
    assert 1.0 < fit.exponent < 5.0
    assert rates[0] > 0.05
    # what is left is bounded by the sum of the fitted rates
    shaped = growth(activation_gain=fit.schedule)
    bound = fit.factor * sum(layer**-1.5 for layer in range(11, 111)) / 100
    assert shaped - floor < 3 * bound < 0.3 * rates[0]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1.0], [0.1]), {}, "expected two different positive gains"),
        (([1.0, 0.5], [0.1, 0.01]), {"floor": 0.02}, "rates above the floor"),
        (([1.0, 0.5], [0.1, 0.2]), {}, "fall with the gain"),
        (([1.0, 0.5], [0.1, 0.01]), {"k": 1.0}, "k is 1.0"),
    ],
)
def test_fits_refuse(arguments: tuple, options: dict, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        fit_gain(*arguments, **options)
