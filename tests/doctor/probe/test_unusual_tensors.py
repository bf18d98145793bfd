"""Sparse, nested, quantised and empty tensors: examined without a trace, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from isometer.doctor import probe
from isometer.errors import IsometerError
from support.restoration import Forward, Index, check_probe_and_diagnosis


def _nested(m, x):
    ragged = torch.nested.nested_tensor([x[:2], x[2:]], layout=torch.jagged)
    return m.other(torch.cat(list(m.linear(ragged).unbind())))


DIFFICULT: dict[str, Callable[[], nn.Module]] = {
    "sparse embedding": lambda: nn.Sequential(Index(), nn.Embedding(10, 6, sparse=True), nn.Linear(6, 6)),
    "jagged": lambda: Forward(_nested),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("name", DIFFICULT)
def test_difficult_models_are_unchanged(name: str) -> None:
    check_probe_and_diagnosis(DIFFICULT[name], copied=True)


@pytest.mark.parametrize(
    ("model", "batch", "message"),
    [
        (nn.Linear(6, 6, device="meta"), torch.ones(2, 6), "meta device"),
        (nn.Linear(6, 6), torch.nested.nested_tensor([torch.ones(2, 6)], layout=torch.jagged), "nested"),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_what_has_no_numbers_is_refused(model, batch, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        probe(model, batch)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quantised_layers_are_read_without_gradients() -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(6, 6), nn.ReLU()), {nn.Linear})
    found = probe(model, torch.randn(5, 6))
    assert [site.kind for site in found.sites] == ["input", "activation"]  # its functions have no names
    assert np.isnan(found.values["gradient_log_norm"][1])
