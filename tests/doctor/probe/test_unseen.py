"""What a probe says it did not look at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from isometer.doctor import diagnose, probe
from isometer.doctor.probe._contractions import summed_axes


class Forward(nn.Module):
    """A linear layer, a parameter and a function of both."""

    def __init__(self, forward: Callable[[Forward, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.weight, self.function = nn.Linear(6, 6), nn.Parameter(torch.randn(6, 6)), forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def missed(model: nn.Module, *shape: int) -> dict[str, str]:
    return {one.name: one.why for one in probe(model, torch.randn(*(shape or (4, 6)))).unseen}


def test_a_model_that_uses_all_it_has_leaves_nothing_unseen() -> None:
    assert missed(Forward(lambda m, x: torch.relu(m.linear(x)) @ m.weight)) == {}
    encoder = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
    assert missed(encoder, 4, 5, 6) == {}


def test_modules_that_were_not_called_and_parameters_that_were_not_used() -> None:
    model = Forward(lambda m, x: x @ m.weight.T)
    model.spare = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model.bias = nn.Parameter(torch.zeros(6))
    found = missed(model)
    assert found == {
        "linear": "was not called",
        "spare": "was not called",
        "bias": "is used by no operation that was seen",
    }


def ragged(m: Forward, x: torch.Tensor) -> torch.Tensor:
    rows = torch.nested.nested_tensor([x[:2], x[2:]], layout=torch.jagged)
    return torch.nested.to_padded_tensor(m.linear(rows), 0.0)


@pytest.mark.parametrize(
    ("model", "shape", "name", "why"),
    [
        (nn.Sequential(nn.LSTM(6, 6, batch_first=True)), (4, 5, 6), "0", "time steps"),
        (Forward(lambda m, x: torch.func.vmap(lambda row: m.weight @ m.linear(row))(x)), (4, 6), "(model)", "vmap"),
        (Forward(ragged), (4, 6), "linear", "nested"),
        (Forward(lambda m, x: torch.einsum("bi,bij->bj", m.linear(x), m.weight.expand(4, 6, 6))), (4, 6), "(model)",
         "'bi,bij->bj'"),
    ],
)  # fmt: skip
def test_what_happens_inside_an_operation_is_named(
    model: nn.Module, shape: tuple[int, ...], name: str, why: str
) -> None:
    assert why in missed(model, *shape)[name]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_module_is_named_and_what_is_inside_it_is_not() -> None:
    found = missed(nn.Sequential(torch.jit.trace(nn.Sequential(nn.Linear(6, 6), nn.ReLU()), torch.ones(2, 6))))
    assert list(found) == ["0"]
    assert "compiled" in found["0"]


def test_reports_have_it() -> None:
    model = Forward(lambda m, x: m.linear(x))
    report = diagnose(model, torch.randn(4, 6), stress=False)
    assert [one.name for one in report.unseen] == ["weight"]
    assert report.to_dict()["unseen"] == [{"name": "weight", "why": "is used by no operation that was seen"}]


@pytest.mark.parametrize(
    ("equation", "shape", "weight", "same"),
    [
        ("bi,oi->bo", (4, 6), (5, 6), lambda x, w: x @ w.T),
        ("...i,io->...o", (4, 3, 6), (6, 5), lambda x, w: x @ w),
        ("bthd,hdo->bto", (4, 3, 2, 3), (2, 3, 5), lambda x, w: x.flatten(2) @ w.flatten(0, 1)),
        ("btd,dhk->bthk", (4, 3, 6), (6, 2, 5), lambda x, w: (x @ w.flatten(1)).unflatten(2, (2, 5))),
    ],
)
def test_weights_in_einsum_are_weights(
    equation: str,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    same: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    """The same numbers as for the product written with `@`."""

    class Product(nn.Module):
        def __init__(self, einsum: bool) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(weight, generator=torch.Generator().manual_seed(1)))
            self.einsum = einsum

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.einsum(equation, x, self.weight) if self.einsum else same(x, self.weight)

    x = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    found, other = (probe(Product(einsum), x) for einsum in (True, False))
    site, twin = found.sites[-1], other.sites[-1]
    assert (site.kind, site.depth, site.weight_count) == ("weight", 1, twin.weight_count)
    assert site.fan_in == twin.fan_in == 6
    for name in ("weight_gain", "rms", "gradient_log_norm"):
        np.testing.assert_allclose(found.values[name][-1], other.values[name][-1], rtol=1e-5)
    if len(weight) == 2:
        np.testing.assert_allclose(site.gradient_gram, twin.gradient_gram, rtol=1e-4, atol=1e-5)
    assert found.unseen == ()


@pytest.mark.parametrize("equation", ["bi,io", "bi,bio->bo", "bi,i->b", "bii,io->bo", "ab,bc,cd->ad", "ib,io->bo"])
def test_other_contractions_are_no_layers(equation: str) -> None:
    assert summed_axes(equation, 1) is None
