"""Orthogonal and Haar weights: exact properties and laws."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional

from isometer.init import delta_orthogonal_, haar_orthogonal_, orthogonalized_xavier_, patches
from support.models import F32, F64, draw

TOLERANCE = {F32: 1e-6, F64: 1e-12}


def deviation(matrix: torch.Tensor) -> float:
    """Largest entry of M Mᵀ − I or Mᵀ M − I, the smaller one, in float64."""
    m = matrix.detach().double()
    gram = m @ m.mT if m.shape[-2] <= m.shape[-1] else m.mT @ m
    return float((gram - torch.eye(gram.shape[-1], dtype=F64)).abs().max())


# --- orthogonal -------------------------------------------------------------------------------------------------------

SHAPES = [(6, 6), (300, 40), (40, 300), (256, 256), (16, 8, 3, 3), (64, 4, 3), (8, 3, 2, 2, 2), (1, 5), (5, 1)]


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("shape", SHAPES)
def test_haar_matrices_are_orthogonal(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    weight = torch.empty(shape, dtype=dtype)
    outcome = haar_orthogonal_(weight, gain=1.0, seed=3)
    assert deviation(weight.flatten(1)) < TOLERANCE[dtype]
    assert outcome.layers[0].shape == shape
    again, other = torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)
    haar_orthogonal_(again, seed=3)
    haar_orthogonal_(other, seed=4, gain=2.5)
    assert torch.equal(weight, again)
    assert not torch.equal(weight, other)
    assert deviation(other.flatten(1) / 2.5) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("shape", SHAPES)
def test_delta_kernels_are_orthogonal_at_their_centre_only(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    weight = torch.empty(shape, dtype=dtype)
    delta_orthogonal_(weight)
    centre = weight[(..., *(size // 2 for size in shape[2:]))]
    assert deviation(centre) < TOLERANCE[dtype]
    assert float(weight.square().sum()) == pytest.approx(float(centre.square().sum()))


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("shape", SHAPES[:6])
def test_orthogonalized_xavier_has_equal_singular_values(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    weight = torch.empty(shape, dtype=dtype)
    size = orthogonalized_xavier_(weight).layers[0].numbers["singular_value"]
    assert deviation(weight.flatten(1) / size) < TOLERANCE[dtype] * 4


def test_orthogonalized_xavier_has_the_mean_singular_value_of_a_gaussian_matrix() -> None:
    """Of a square Gaussian matrix of variance 1/d the singular values have mean 8/(3π), up to O(1/d)."""
    weight = torch.empty(400, 400, dtype=F64)
    size = orthogonalized_xavier_(weight).layers[0].numbers["singular_value"]
    assert size == pytest.approx(8 / (3 * math.pi), rel=0.01)


def test_haar_weights_have_the_haar_law() -> None:
    """A squared entry of a Haar matrix has the law Beta(½, (d − 1)/2), and signs are even (QR alone fails in both)."""
    drawn = torch.stack([_haar(5, seed) for seed in range(600)])
    for entry in (drawn[:, 0, 0], drawn[:, 4, 4], drawn[:, 2, 3]):
        assert stats.kstest(entry.square().numpy(), stats.beta(0.5, 2.0).cdf).pvalue > 1e-4
        assert abs(float((entry > 0).double().mean()) - 0.5) < 5 * 0.5 / math.sqrt(600)
    plain = torch.stack([torch.linalg.qr(draw(5, 5, seed=seed)).Q for seed in range(600)])[:, 4, 4]
    assert abs(float((plain > 0).double().mean()) - 0.5) > 5 * 0.5 / math.sqrt(600)  # the test can fail


def _haar(width: int, seed: int) -> torch.Tensor:
    weight = torch.empty(width, width, dtype=F64)
    haar_orthogonal_(weight, seed=seed)
    return weight


@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2, "padding": 2}])
def test_convolutions_mean_dense_products_of_patches(options: dict) -> None:
    module = nn.Conv2d(4, 6, 3, bias=False, dtype=F64, **options)
    haar_orthogonal_(module)
    x = draw(2, 4, 9, 8)
    unfolded = functional.unfold(x, 3, **options)  # (samples, 4·9, positions)
    torch.testing.assert_close(patches(module, x), unfolded.mT.flatten(0, 1))
    product = (module.weight.flatten(1) @ unfolded).reshape(module(x).shape)
    torch.testing.assert_close(module(x), product)
    # orthonormal rows: the norm of an output is that of the patch within the span of the rows
    back = module.weight.flatten(1).mT @ module.weight.flatten(1) @ unfolded
    torch.testing.assert_close(product.norm(), back.norm())


@pytest.mark.parametrize(
    "module",
    [
        nn.Conv1d(3, 5, 4, stride=2, padding=2, bias=False, dtype=F64),
        nn.Conv2d(3, 5, (3, 2), stride=(1, 2), padding="valid", bias=False, dtype=F64),
        nn.Conv2d(3, 5, 3, padding="same", padding_mode="circular", bias=False, dtype=F64),
        nn.Conv2d(3, 5, 3, padding=2, padding_mode="reflect", dilation=2, bias=False, dtype=F64),
        nn.Conv3d(3, 5, 2, padding=(1, 0, 1), bias=False, dtype=F64),
    ],
    ids=repr,
)
def test_patches_times_weights_is_the_convolution(module: nn.Module) -> None:
    x = draw(2, 3, *([7, 6, 5][: module.weight.dim() - 2]))
    output = module(x)
    product = patches(module, x) @ module.weight.flatten(1).mT
    torch.testing.assert_close(product.reshape(2, -1, 5).mT.reshape(output.shape), output)


def test_delta_convolutions_keep_norms() -> None:
    module = nn.Conv2d(4, 7, 3, padding=1, padding_mode="circular", bias=False, dtype=F64)
    delta_orthogonal_(module)
    x = draw(3, 4, 6, 6)
    torch.testing.assert_close(module(x).flatten(1).norm(dim=1), x.flatten(1).norm(dim=1), rtol=1e-12, atol=0.0)


def test_grouped_convolutions_are_orthogonal_group_by_group() -> None:
    module = nn.Conv2d(8, 12, 3, groups=4, dtype=F64)
    bias = module.bias.detach().clone()
    haar_orthogonal_(module)
    for group in module.weight.flatten(1).split(3):
        assert deviation(group) < 1e-12
    assert torch.equal(bias, module.bias)


def test_whole_models_and_patterns() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 8), nn.Embedding(3, 3))
    kept = model[3].weight.detach().clone()
    state = torch.get_rng_state()
    outcome = haar_orthogonal_(model, layers="0")
    assert [layer.name for layer in outcome.layers] == ["0"]
    assert torch.equal(kept, model[3].weight)
    outcome = haar_orthogonal_(model)
    assert [layer.name for layer in outcome.layers] == ["0", "3"]
    assert outcome.skipped[0][0] == "4"
    assert torch.equal(state, torch.get_rng_state())
    half = nn.Linear(8, 8, dtype=torch.float16)
    haar_orthogonal_(half)
    assert deviation(half.weight) < 2e-3
