"""The width check: exponents at initialisation and after training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor.diagnosis import width_check
from isometer.errors import IsometerError

# --- widths -----------------------------------------------------------------------------------------------------------


def scaled(power: float) -> Any:
    """Hidden weights of standard deviation width^power: outputs of size width^(power + ½)."""

    def factory(width: int) -> nn.Module:
        model = nn.Sequential(nn.Linear(8, width, bias=False), nn.Tanh(), nn.Linear(width, width, bias=False))
        nn.init.normal_(model[2].weight, std=width**power)
        return model

    return factory


@pytest.mark.parametrize("power", [-0.5, 0.0, -1.0])
def test_width_check_finds_the_exponent(power: float) -> None:
    check = width_check(
        scaled(power), [32, 64, 128, 256], torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    )
    slope = check.slopes[2]
    assert slope == pytest.approx(power + 0.5, abs=max(0.05, 4 * check.errors[2]))
    assert check.flat == (power == -0.5)
    if power != -0.5:
        assert check.worst[0] == "2"
    data = check.to_dataset()
    assert data["rms"].shape == (4, 3, 1, 3)


def test_width_check_after_training_shows_what_initialisation_hides() -> None:
    # with one Adam rate for all widths the readout of a standard parametrisation moves like width^1 per step
    def factory(width: int) -> nn.Module:
        model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        nn.init.zeros_(model[4].weight)
        nn.init.zeros_(model[4].bias)
        return model

    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))
    y = torch.ones(32, 1)
    check = width_check(
        factory, [32, 64, 128], x, target=y, loss=functional.mse_loss, steps=1, learning_rate=1e-4, optimizer="adam"
    )
    assert check.values.shape == (3, 3, 2, 5)
    moved = check.values[:, :, 1, 4].mean(1)
    slope = np.polyfit(np.log([32, 64, 128]), np.log(moved), 1)[0]
    # the first step of Adam moves every parameter by the rate: the output becomes rate · (1 + Σ h), h of constant size
    assert slope == pytest.approx(1.0, abs=0.2)
    assert not check.flat


def test_width_check_refuses(tmp_path: Path) -> None:
    x = torch.randn(4, 8)
    with pytest.raises(IsometerError, match="at least two"):
        width_check(scaled(0), [32], x)
    with pytest.raises(IsometerError, match="loss"):
        width_check(scaled(0), [8, 16], x, steps=1)
    with pytest.raises(IsometerError, match="unknown metric"):
        width_check(scaled(0), [8, 16], x, metric="rank")
    with pytest.raises(IsometerError, match="other sites"):
        width_check(lambda w: nn.Sequential(*[nn.Linear(8, 8) for _ in range(w)]), [1, 2], x)
    with pytest.raises(IsometerError, match="sgd or adam"):
        width_check(scaled(0), [8, 16], x, optimizer="lion")
