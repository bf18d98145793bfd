"""Jacobians of models against autograd's whole ones, Lanczos quadratures against both, and theory against models."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
from torch import nn

from isometer import IsometerError, Spec, jacobian_spectrum, partial_jacobian_norms
from isometer.nn import build
from isometer.theory import jacobian_spectrum as law_of

Tensor = torch.Tensor


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.mix = nn.MultiheadAttention(6, 2, batch_first=True)
        self.head = nn.Linear(6, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.embed(tokens)
        return self.head(self.mix(h, h, h, need_weights=False)[0][:, -1])  # type: ignore[no-any-return]


def _models() -> dict[str, tuple[nn.Module, Tensor]]:
    torch.manual_seed(0)
    return {
        "mlp": (nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double(), torch.randn(4, 5).double()),
        "batch norm": (
            nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5)).double(),
            torch.randn(5, 4).double(),
        ),
        "convolution": (
            nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(48, 4)).double(),
            torch.randn(3, 2, 4, 4).double(),
        ),
    }


def _whole(model: nn.Module, batch: Tensor) -> Tensor:
    found = torch.autograd.functional.jacobian(model.train(), batch)
    assert isinstance(found, Tensor)
    n = len(batch)
    return found.reshape(n * (found.numel() // (n * batch.numel())), batch.numel())


@pytest.mark.parametrize("name", ["mlp", "batch norm", "convolution"])
def test_dense_jacobians_are_those_of_autograd(name: str) -> None:
    model, batch = _models()[name]
    found = jacobian_spectrum(model, batch)
    expected = torch.linalg.svdvals(_whole(model, batch)).numpy()
    values = np.sort(found.singular_values.ravel())[::-1]
    np.testing.assert_allclose(values, expected[: len(values)], rtol=1e-10, atol=1e-12)
    assert found.separate is (name != "batch norm")
    square = float((_whole(model, batch) ** 2).sum())
    assert found.partial_norm == pytest.approx(square / (len(batch) * model(batch)[0].numel()), rel=1e-10)


@pytest.mark.parametrize("name", ["mlp", "batch norm", "convolution"])
def test_quadratures_that_reach_every_dimension_are_exact_in_their_nodes(name: str) -> None:
    """With as many steps as dimensions the nodes are all eigenvalues; weights are those of random vectors."""
    model, batch = _models()[name]
    dense = jacobian_spectrum(model, batch)
    found = jacobian_spectrum(model, batch, method="lanczos", steps=60, vectors=40)
    squares = np.sort((dense.singular_values[: len(dense.singular_values)] ** 2).ravel())
    heavy = found.nodes[found.weights > 1e-6]
    assert np.abs(heavy[:, None] - squares).min(1).max() < 1e-8 * squares.max()
    assert found.mean_square == pytest.approx(dense.mean_square, rel=5 * found.error_estimate)
    assert 0 < found.error_estimate < 0.2
    middle = np.quantile(squares, [0.25, 0.5, 0.75]) + 1e-9
    error = found.cdf_error(middle)
    assert (np.abs(found.cdf(middle) - dense.cdf(middle)) <= 5 * error + 1e-12).all()


def test_standard_errors_cover_the_truth() -> None:
    """Of 40 seeds about two are beyond two standard errors; ten or more have a probability below 1e-3."""
    model, batch = _models()["mlp"]
    truth = jacobian_spectrum(model, batch).mean_square
    beyond = 0
    for seed in range(40):
        found = jacobian_spectrum(model, batch, method="lanczos", steps=3, vectors=8, seed=seed)
        beyond += abs(found.mean_square - truth) > 2 * found.error_estimate * found.mean_square
    assert beyond < 10


def test_between_modules_and_from_tokens() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    batch = torch.randn(2, 3).double()
    found = jacobian_spectrum(model, batch, start="0", end="2")
    slopes = 1 - torch.tanh(model[0](batch)) ** 2
    expected = torch.linalg.svdvals(model[2].weight[None] * slopes[:, None, :]).detach().numpy()
    np.testing.assert_allclose(found.singular_values, expected, rtol=1e-10)
    tokens = torch.randint(0, 7, (3, 4))
    attention = _Attention().double()
    with pytest.raises(IsometerError, match="no floating-point tensor with respect to which"):
        jacobian_spectrum(attention, tokens)
    whole = jacobian_spectrum(attention, tokens, start="embed", mode="eval")
    assert whole.shape == (2, 24)
    krylov = jacobian_spectrum(attention, tokens, start="embed", mode="eval", method="lanczos", vectors=60)
    assert krylov.mean_square == pytest.approx(whole.mean_square, rel=5 * krylov.error_estimate)


def test_partial_norms_of_every_module() -> None:
    """Random signs are unbiased: within five standard errors of the exact norms; a doubled layer is not."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    batch = torch.randn(5, 6).double()
    found = partial_jacobian_norms(model, batch, vectors=200)
    assert list(found) == ["0", "1", "2", "3", "4"]
    for name, one in found.items():
        if name == "4":
            assert one.value == 1.0
            continue
        exact = jacobian_spectrum(model, batch, start=name).partial_norm
        assert abs(one.value - exact) < 5 * one.error < 0.5 * exact


def test_a_wide_model_has_the_law_of_its_spec() -> None:
    """Width 200, four layers, two networks: the limit of the distance is 0.03; the law of depth 3 exceeds it."""
    text = "input(200) > repeat(dense(weights='orthogonal', gain=1.1) > act('tanh'), {})"
    squares = []
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(1, 200, generator=generator, dtype=torch.float64)
        x *= math.sqrt(200) / x.norm()
        network = build(Spec(text.format(4)), seed=seed, dtype=torch.float64)
        squares.append(jacobian_spectrum(network, x).nodes.ravel())
    place = np.sort(np.concatenate(squares))
    steps = (np.arange(len(place)) + 0.5) / len(place)
    assert np.abs(law_of(text.format(4), points=80).cdf(place) - steps).max() < 0.03
    assert np.abs(law_of(text.format(3), points=80).cdf(place) - steps).max() > 0.03


def test_nothing_changes_in_the_model() -> None:
    model, batch = _models()["batch norm"]
    before = {name: one.clone() for name, one in model.state_dict().items()}
    jacobian_spectrum(model, batch)
    partial_jacobian_norms(model, batch)
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
    assert not batch.requires_grad


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": "9"}, "unknown module '9'"),
        ({"end": "0", "start": "2"}, "does not depend on the start"),
        ({"method": "guess"}, "expected 'auto', 'dense' or 'lanczos'"),
        ({"steps": 1}, "steps is 1"),
    ],
)
def test_refusals(options: dict[str, object], words: str) -> None:
    model, batch = _models()["mlp"]
    with pytest.raises(IsometerError, match=words) as caught:
        jacobian_spectrum(model, batch, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_zero_jacobian_has_defined_numbers() -> None:
    found = jacobian_spectrum(nn.ReLU(), torch.full((2, 3), -1.0))
    assert (found.mean_square, found.isometry, found.zeros) == (0.0, 0.0, 1.0)
    assert np.isfinite(found.moments(3)).all()
    assert len(found.plot().axes) == 2
