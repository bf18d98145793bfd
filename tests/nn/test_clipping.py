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
