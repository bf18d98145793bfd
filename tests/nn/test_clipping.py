"""Adaptive clipping against its formula."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from isometer.errors import IsometerError
from isometer.nn import AdaptiveClipping
from support.models import F64

# --- clipping ---------------------------------------------------------------------------------------------------------


def one_weight(size: float, gradient: float) -> tuple[nn.Parameter, torch.optim.Optimizer]:
    weight = nn.Parameter(torch.full((2, 2), size / 2, dtype=F64))  # Frobenius norm `size`
    weight.grad = torch.full((2, 2), gradient / 2, dtype=F64)
    return weight, torch.optim.SGD([weight], lr=1.0)


@pytest.mark.parametrize(
    ("size", "gradient", "step"),
    [(1.0, 5.0, 0.1), (1.0, 0.0999, 0.0999), (1.0, 0.1, 0.1), (0.0, 5.0, 0.001), (4.0, 5.0, 0.4)],
)
def test_the_clipped_step_has_the_length_of_the_formula(size: float, gradient: float, step: float) -> None:
    weight, optimizer = one_weight(size, gradient)
    start = weight.detach().clone()
    AdaptiveClipping(optimizer, 0.1)
    optimizer.step()
    assert float((weight.detach() - start).norm()) == pytest.approx(step, rel=1e-12)


def test_vectors_infinities_and_closures() -> None:
    bias = nn.Parameter(torch.ones(4, dtype=F64))
    lost = nn.Parameter(torch.ones(2, 2, dtype=F64))
    unused = nn.Parameter(torch.ones(2, 2, dtype=F64))
    weight, _ = one_weight(1.0, 5.0)
    optimizer = torch.optim.SGD([bias, lost, unused, weight], lr=1.0)
    bias.grad, lost.grad = torch.full_like(bias, 9.0), torch.full_like(lost, math.inf)
    clipping = AdaptiveClipping(optimizer, 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)  # takes optimizers only
    optimizer.step()
    scheduler.step()
    assert clipping.clipped == 1
    assert float(bias.detach()[0]) == -8.0
    assert bool(torch.isinf(lost.detach()).all())

    weight, optimizer = one_weight(1.0, 0.0)
    AdaptiveClipping(optimizer, 0.1)

    def closure() -> float:
        weight.grad = torch.full_like(weight, 50.0)
        return 0.0

    start = weight.detach().clone()
    optimizer.step(closure)
    assert float((weight.detach() - start).norm()) == pytest.approx(0.1)
    optimizer.step(closure=closure)
    assert float((weight.detach() - start).norm()) == pytest.approx(0.19)


def test_clipping_can_be_removed_and_refuses() -> None:
    weight, optimizer = one_weight(1.0, 5.0)
    start = weight.detach().clone()
    AdaptiveClipping(optimizer).remove()
    optimizer.step()
    assert float((weight.detach() - start).norm()) == pytest.approx(5.0)
    with pytest.raises(IsometerError, match="clipping is 0"):
        AdaptiveClipping(optimizer, 0)
    with pytest.raises(IsometerError, match="optimizer is a Parameter"):
        AdaptiveClipping(weight)  # type: ignore[arg-type]


def test_units_are_clipped_one_by_one() -> None:
    """Rows of norm 2 with gradients of norm 10 and 0.1 and λ = 0.5: the first is cut to 1, the second is left alone."""
    weight = torch.nn.Parameter(torch.tensor([[2.0, 0.0], [0.0, 2.0]]))
    stepper = torch.optim.SGD([weight], lr=1.0)
    clipping = AdaptiveClipping(stepper, 0.5, units=True)
    weight.grad = torch.tensor([[6.0, 8.0], [0.1, 0.0]])
    assert clipping.clip() == 1
    assert torch.allclose(weight.grad, torch.tensor([[0.6, 0.8], [0.1, 0.0]]))
    whole = AdaptiveClipping(torch.optim.SGD([weight], lr=1.0), 0.5)
    weight.grad = torch.tensor([[6.0, 8.0], [0.1, 0.0]])
    assert whole.clip() == 1
    assert float(weight.grad.norm()) == pytest.approx(0.5 * 8**0.5)
    kernel = torch.nn.Parameter(torch.ones(3, 2, 2, 2))
    kernel.grad = torch.full_like(kernel, math.nan)
    assert AdaptiveClipping(torch.optim.SGD([kernel], lr=1.0), 0.5, units=True).clip() == 0
