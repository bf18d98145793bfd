"""Gradients of layers, formed and multiplied in each of the ways, against those that autograd gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev, vmap

from isometer import empirical_kernel
from isometer.empirical import _contraction
from isometer.empirical._contraction import Convolved, GradientFactors
from isometer.empirical._taps import Window, patches

SAMPLES = 35  # more than a strip of a symmetric product has rows

LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "line_dilated": (nn.Conv1d(2, 3, 3, stride=2, dilation=2, padding=1), (2, 11)),
    "line_same_of_even_kernel": (nn.Conv1d(2, 3, 4, padding="same"), (2, 7)),
    "plane_oblong": (nn.Conv2d(3, 2, (2, 3), stride=(1, 2), padding=(0, 1)), (3, 4, 5)),
    "plane_that_leaves_a_rest": (nn.Conv2d(2, 4, 2, stride=3), (2, 6, 7)),
    "volume": (nn.Conv3d(1, 2, 2, padding=1), (1, 2, 3, 2)),
    "linear_with_positions": (nn.Linear(4, 3), (5, 4)),
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("way", ["_by_rows", "_by_grams"])
def test_each_way_gives_the_products_of_gradients(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer, shape = LAYERS[name]
    model = nn.Sequential(layer, nn.Flatten(), nn.Tanh(), nn.LazyLinear(3)).double()
    batch, other = torch.randn(SAMPLES, *shape).double(), torch.randn(4, *shape).double()
    model(batch)
    chosen = getattr(_contraction, way)
    ran: list[bool] = []

    def only(left: Any, right: Any, *, trace: bool) -> torch.Tensor:
        ran.append(isinstance(left.source, Convolved))
        found: torch.Tensor = chosen(left, right, trace=trace)
        return found

    for each in ("_by_rows", "_by_grams"):
        monkeypatch.setattr(_contraction, each, only)
    left, right = _rows(model, batch), _rows(model, other)
    for block in (200, 1 << 20):
        monkeypatch.setattr(_contraction, "_BLOCK", block)
        for second, rows in ((None, left), (other, right)):
            full = torch.einsum("icp,jdp->icjd", left, rows)
            found = empirical_kernel(model, batch, second, outputs="full", method="structured")
            torch.testing.assert_close(torch.from_numpy(found.matrix), full, rtol=0, atol=1e-12 * float(full.max()))
            trace = torch.from_numpy(empirical_kernel(model, batch, second, method="structured").matrix)
            expected = torch.einsum("icjc->ij", full)
            torch.testing.assert_close(trace, expected, rtol=0, atol=1e-12 * float(full.max()))
    assert any(ran) is name.startswith(("line_", "plane_", "volume"))


def _rows(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """(samples, outputs, parameters), by torch.func."""
    parameters = {name: one.detach() for name, one in model.named_parameters()}
    found = vmap(jacrev(lambda given, x: functional_call(model, given, (x[None],))[0]), (None, 0))(parameters, batch)
    return torch.cat([one.flatten(2) for one in found.values()], 2)


def test_patches_are_those_of_unfold_with_the_channels_last() -> None:
    x = torch.randn(3, 4, 7, 6)
    window = Window((3, 2), (2, 1), ((1, 1), (0, 0)), (1, 2), 1)
    expected = nn.functional.unfold(x, (3, 2), (1, 2), (1, 0), (2, 1))
    places = expected.shape[-1]
    expected = expected.reshape(3, 4, 6, places).permute(0, 3, 2, 1)
    assert torch.equal(patches(x, window).reshape(3, places, 6, 4), expected)


def test_zero_positions_are_left_out_of_a_convolution() -> None:
    """Only the first of many positions is read, so the factors are no longer those of a convolution."""
    x, signal = torch.randn(2, 1, 3, 40), torch.zeros(2, 2, 40, 4)
    signal[:, :, 0] = torch.randn(2, 2, 4)
    window = Window((3,), (1,), ((1, 1),), (1,), 1)
    factors = GradientFactors(signal, Convolved(x, window, (40,)))
    kept = _contraction._touched(factors)
    assert kept.signal.shape[2] == 1
    rows = _contraction._formed(kept, slice(None), convolved=False)
    torch.testing.assert_close(rows, _contraction._formed(factors, slice(None), convolved=False))
