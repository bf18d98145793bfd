"""Initialisers: exact properties, laws against closed forms, and refusals that leave the model as it was.

Tests of laws use fixed seeds; a bound of five standard errors fails by chance once in two million.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from isometer import Spec
from isometer.errors import IsometerError
from isometer.init import (
    InitOutcome,
    asymmetric_,
    delta_orthogonal_,
    fixup_,
    haar_orthogonal_,
    invariance_variance,
    iterative_orthogonalization_,
    odd_point_,
    one_neuron_per_sample_,
    orthogonalized_xavier_,
    patches,
    principled_gain_,
    rank_pretraining_,
    stability_variance,
)
from isometer.metrics import orthogonality_gap, stable_rank
from isometer.nn import build

F32, F64 = torch.float32, torch.float64
TOLERANCE = {F32: 1e-6, F64: 1e-12}


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = F64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def mlp(depth: int, width: int, inputs: int | None = None, *, bias: bool = False, seed: int = 0) -> nn.Sequential:
    """ReLU layers with Xavier weights, torch's default biases."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        parts: list[nn.Module] = []
        for layer in range(depth):
            linear = nn.Linear(width if layer or inputs is None else inputs, width, bias=bias, dtype=F64)
            nn.init.xavier_uniform_(linear.weight)
            parts += [linear, nn.ReLU()]
        return nn.Sequential(*parts)


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


class Compiled(nn.Module):
    """As `torch.compile` wraps a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._orig_mod = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._orig_mod(x)
        return result


class Backwards(nn.Module):
    """Layers that run in another order than they are defined in, one that never runs and weights of another kind."""

    def __init__(self) -> None:
        super().__init__()
        self.second, self.first, self.idle = (nn.Linear(6, 6, dtype=F64) for _ in range(3))
        self.mixing = nn.ParameterDict({"weight": nn.Parameter(torch.eye(6, dtype=F64))})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.second(torch.relu(self.first(x)) @ self.mixing["weight"]))


@pytest.mark.parametrize("wrap", [lambda model: model, Compiled])
def test_the_order_of_execution_and_what_is_left_alone(wrap: Callable[[nn.Module], nn.Module]) -> None:
    x = draw(20, 6)
    for call in (
        lambda model: principled_gain_(model, x),
        lambda model: iterative_orthogonalization_(model, x),
        lambda model: rank_pretraining_(model, x, steps=2),
    ):
        model = Backwards()
        idle = model.idle.weight.detach().clone()
        outcome = call(wrap(model))
        assert [layer.name for layer in outcome.layers] == ["first", "second"]
        assert {name for name, _ in outcome.skipped} == {"idle", "mixing"}
        assert torch.equal(idle, model.idle.weight)
    gains = [layer.numbers["principled"] for layer in principled_gain_(wrap(Backwards()), x).layers]
    assert gains == pytest.approx([math.sqrt(2), 1.5925374], rel=1e-6)  # ReLU first, then tanh


# --- variances --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["gaussian", "uniform", "orthogonal", "keep"])
def test_principled_gains_keep_the_second_moment(law: str) -> None:
    """ReLU, width 400, six layers: E h² changes by a factor with relative deviation about √(5 · 6/400) = 0.27."""
    model, x = mlp(6, 400), draw(4, 400)
    outcome = principled_gain_(model, x, law=law)
    assert [layer.numbers["principled"] for layer in outcome.layers] == pytest.approx([math.sqrt(2)] * 6)
    assert all(layer.gain == pytest.approx(math.sqrt(2), rel=0.02) for layer in outcome.layers)
    ratio = model(x).detach().square().mean() / x.square().mean()
    assert 0.3 < float(ratio) < 3.3  # Xavier weights give 2^−6


def test_principled_gains_see_what_follows() -> None:
    model = nn.Sequential(
        nn.Linear(6, 6),
        nn.BatchNorm1d(6),
        nn.Tanh(),
        nn.Linear(6, 6),
        nn.Dropout(0.1),
        nn.GELU(),
        nn.Linear(6, 6),
        nn.Linear(6, 2),
    )
    numbers = [layer.numbers["principled"] for layer in principled_gain_(model, torch.ones(4, 6)).layers]
    # 1/√E tanh² and 1/√E gelu² by quadrature
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    tanh = 1 / math.sqrt(weights @ np.tanh(nodes) ** 2)
    gelu = 1 / math.sqrt(weights @ (nodes * stats.norm.cdf(nodes)) ** 2)
    assert numbers == pytest.approx([tanh, gelu, 1.0, 1.0], rel=1e-6)
    network = build(Spec(width=6, depth=2, norm="batch", activation="normalized(x * tanh(x))"), classes=3)
    found = principled_gain_(network, torch.randn(5, 6, generator=torch.Generator().manual_seed(0)))
    assert [layer.numbers["principled"] for layer in found.layers] == pytest.approx([1.0, 1.0, 1.0])
    network = build(Spec(width=6, depth=2, activation="x * tanh(x)"))
    found = principled_gain_(network, draw(5, 6).float())
    xtanh = 1 / math.sqrt(weights @ (nodes * np.tanh(nodes)) ** 2)
    assert [layer.numbers["principled"] for layer in found.layers] == pytest.approx([xtanh] * 2, rel=1e-6)
    assert principled_gain_(nn.Linear(4, 4), activation="relu").layers[0].numbers["principled"] == math.sqrt(2)


def test_principled_gains_refuse() -> None:
    linear = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for call, message in [
        (lambda: principled_gain_(linear, torch.ones(2, 4)), "no activation follows any weights"),
        (lambda: principled_gain_(linear), "either a batch"),
        (lambda: principled_gain_(linear, activation="relu", law="cauchy"), "law is 'cauchy'"),
        (lambda: principled_gain_(torch.zeros(3, 3), activation="relu", law="keep"), "are zero; expected"),
        (lambda: principled_gain_(nn.Sequential(nn.Linear(4, 4), nn.RReLU()), torch.ones(2, 4)), "not in the registry"),
    ]:
        _refused(linear, call, message)


def test_asymmetric_weights_have_the_moments_of_their_law() -> None:
    """Mean gain/√fan_in, variance gain²/(3 fan_in); kurtosis of a uniform 1.8."""
    weight = torch.empty(300, 10, 10, dtype=F64)
    asymmetric_(weight, gain=1.5)
    count, fan_in = weight.numel(), 100
    mean, variance = 1.5 / math.sqrt(fan_in), 1.5**2 / (3 * fan_in)
    assert abs(float(weight.mean()) - mean) < 5 * math.sqrt(variance / count)
    assert abs(float(weight.var()) / variance - 1) < 5 * math.sqrt(0.8 / count)
    assert float(weight.min()) >= 0
    assert float(weight.max()) <= 2 * mean


@pytest.mark.parametrize(("samples", "radius"), [(5, None), (10, None), (5, 1.6), (10, 3.0)])
def test_the_odd_point_keeps_its_length_in_mean_square(samples: int, radius: float | None) -> None:
    """relu(W(x − x̄)) of the invariant batch (000/def-12), or of an odd point at distance R: E‖x₁⁺‖² = 1."""
    n, width, runs = samples, 60, 600
    x = np.zeros((n, 3))
    x[1:, 1] = 1 / (n - 1)
    x[0, 0] = 1.0 if radius is None else math.sqrt(radius**2 - 1 / (n - 1) ** 2)
    centred = torch.tensor(x - x.mean(0))
    first, cluster = [], []
    for seed in range(runs):
        weight = torch.empty(width, 3, dtype=F64)
        odd_point_(weight, samples=n, radius=radius, seed=seed)
        after = torch.relu(centred @ weight.mT)
        first.append(float(after[0].square().sum()))
        cluster.append(float(after[1].square().sum()))
        assert float(after[0] @ after[1]) == pytest.approx(0.0, abs=1e-12)
    for values, expected in ((first, 1.0), (cluster, 1 / (n - 1) ** 2)):
        assert abs(np.mean(values) - expected) < 5 * np.std(values) / math.sqrt(runs)


def test_variances_of_the_theorems_refuse() -> None:
    assert invariance_variance(10, 100) == pytest.approx(2 * 100 / 82 / 100)
    with pytest.raises(IsometerError, match="samples is 1"):
        invariance_variance(1, 10)
    with pytest.raises(IsometerError, match=r"more than n/\(n − 1\) = 1.25"):
        stability_variance(5, 1.2, 10)


# --- iterative orthogonalisation --------------------------------------------------------------------------------------


def test_eq_6_literally_for_as_many_samples_as_features() -> None:
    """With n = d the whole of V is the slice: W = V Σ^{−1/2} Uᵀ / ‖Σ^{1/2}‖_F, computed here by NumPy's SVD."""
    x = draw(7, 7) + 0.5
    layer = nn.Sequential(nn.Linear(7, 7, dtype=F64))
    iterative_orthogonalization_(layer, x, frame="slice", output_norm=1.0)
    u, s, vt = np.linalg.svd(x.numpy().T)
    expected = vt.T @ np.diag(s**-0.5) @ u.T / np.sqrt(s.sum())
    np.testing.assert_allclose(layer[0].weight.detach().numpy(), expected, atol=1e-9)
    assert float(layer[0].bias.detach().abs().max()) == 0.0


@pytest.mark.parametrize("frame", ["polar", "qr", "haar"])
@pytest.mark.parametrize("exponent", [0.25, 0.5, 1.0])
def test_singular_values_norm_and_gap_of_one_layer(exponent: float, frame: str) -> None:
    """σ(WH) ∝ σ(H)^{1−e}, ‖WH‖_F = 1, and the gap falls: 003/appE for e = ½."""
    x = draw(30, 10) @ torch.diag(torch.linspace(0.1, 3, 10, dtype=F64)) + 1
    model = nn.Sequential(nn.Linear(10, 10, dtype=F64))
    outcome = iterative_orthogonalization_(model, x, exponent=exponent, frame=frame, output_norm=1.0)
    before, after = (np.linalg.svd(m, compute_uv=False) for m in (x.numpy(), model(x).detach().numpy()))
    expected = before ** (1 - exponent) / np.sqrt((before ** (2 - 2 * exponent)).sum())
    np.testing.assert_allclose(after, expected, rtol=1e-6)
    numbers = outcome.layers[0].numbers
    assert numbers["gap_before"] == pytest.approx(float(orthogonality_gap(x)), rel=1e-9)
    assert numbers["gap_after"] == pytest.approx(float(orthogonality_gap(model(x).detach())), rel=1e-6)
    assert numbers["gap_after"] < numbers["gap_before"]
    if exponent == 0.5:
        s = before / np.linalg.norm(before)
        assert numbers["gap_after"] == pytest.approx(math.sqrt(1 / s.sum() ** 2 - 1 / 30), rel=1e-6)


def test_a_slice_as_printed_is_not_orthogonal_and_may_raise_the_gap() -> None:
    """The paper calls a d×d slice of V (n×d) orthogonal; for n > d it is not, and V(WH) < V(H) can fail."""
    outcome = iterative_orthogonalization_(mlp(1, 64), draw(192, 64), frame="slice")
    numbers = outcome.layers[0].numbers
    assert numbers["gap_after"] > numbers["gap_before"]


@pytest.mark.parametrize("frame", ["polar", "qr", "haar"])
@pytest.mark.parametrize("depth", [10, 30, 100])
def test_deep_relu_networks_stay_apart(depth: int, frame: str) -> None:
    width, samples = 24, 72
    x = draw(samples, width) + 0.5
    model = mlp(depth, width)
    least = math.sqrt(1 / width - 1 / samples)
    assert float(orthogonality_gap(model[:-1](x).detach())) > 0.7  # Xavier: the batch collapses
    outcome = iterative_orthogonalization_(model, x, frame=frame)
    gaps = [(layer.numbers["gap_before"], layer.numbers["gap_after"]) for layer in outcome.layers]
    assert len(gaps) == depth
    assert all(after < before or before < least + 1e-6 for before, after in gaps)
    assert float(orthogonality_gap(model[:-1](x).detach())) == pytest.approx(gaps[-1][1], rel=1e-6)
    assert gaps[-1][1] < 2 * least
    fresh = float(orthogonality_gap(model[:-1](draw(16, width, seed=5) + 0.5).detach()))
    if frame == "polar":
        assert fresh < 0.35  # of at most √(15/16)
    elif depth == 100:
        assert fresh > 0.6  # what other frames do, they do to the batch they were made from only


def test_convolutions_are_orthogonalised_on_their_patches() -> None:
    parts: list[nn.Module] = [nn.Conv2d(3, 8, 3, padding=1, dtype=F64)]
    for _ in range(4):
        parts += [nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, dtype=F64)]
    parts += [nn.Conv2d(8, 8, 1, groups=2, dtype=F64), nn.Flatten(), nn.Linear(8 * 36, 4, dtype=F64)]
    model = nn.Sequential(*parts)
    x = draw(12, 3, 6, 6) + 0.5
    outcome = iterative_orthogonalization_(model, x, output_norm=1.0)
    assert [layer.name for layer in outcome.layers] == ["2", "4", "6", "8"]
    assert {name for name, _ in outcome.skipped} == {"0", "9", "11"}
    hidden = x
    for index, part in enumerate(model[:9]):
        if str(index) in ("2", "4", "6", "8"):
            weight = part.weight.detach().flatten(1)
            unfolded = functional.unfold(hidden, 3, padding=1).mT.flatten(0, 1)  # (patches, 72)
            produced = unfolded @ weight.mT
            assert float(produced.norm()) == pytest.approx(1.0, rel=1e-9)
            # W = V′ Σ^{−1/2} Uᵀ / c with orthonormal rows of V′: W C^{1/2} Wᵀ is a multiple of I
            values, vectors = torch.linalg.eigh(unfolded.mT @ unfolded)
            root = vectors @ torch.diag(values.clamp_min(0).sqrt()) @ vectors.mT
            middle = weight @ root @ weight.mT
            torch.testing.assert_close(middle / middle[0, 0], torch.eye(8, dtype=F64), atol=1e-6, rtol=0.0)
        hidden = part(hidden).detach()


def test_rectangular_layers_if_asked_for() -> None:
    model = nn.Sequential(nn.Linear(6, 9, dtype=F64), nn.ReLU(), nn.Linear(9, 4, dtype=F64))
    outcome = iterative_orthogonalization_(model, draw(30, 6), rectangular=True, exponent=1.0)
    assert [layer.shape for layer in outcome.layers] == [(9, 6), (4, 9)]
    hidden = model(draw(30, 6)).detach()
    torch.testing.assert_close(hidden.mT @ hidden / 30, torch.eye(4, dtype=F64), atol=1e-6, rtol=0.0)


def test_one_run_of_the_model_and_nothing_else_changes() -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.Dropout(0.5)).double()
    calls: list[int] = []
    model.register_forward_hook(lambda *_: calls.append(1))
    kept = {name: value.clone() for name, value in model.state_dict().items() if not name.startswith("3.")}
    state = torch.get_rng_state()
    outcome = iterative_orthogonalization_(model, draw(40, 5), seed=1)
    assert len(calls) == 1
    assert [layer.name for layer in outcome.layers] == ["3"]
    assert outcome.skipped == (("0", "not square: 5 inputs, 8 outputs"),)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in kept.items())
    assert torch.equal(state, torch.get_rng_state())
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert all(p.requires_grad and p.is_leaf for p in model.parameters())


@pytest.mark.parametrize(
    ("make", "batch", "options", "message"),
    [
        (lambda: mlp(3, 8), draw(7, 8), {}, "sees 7 samples of 8 features; expected at least as many"),
        (lambda: mlp(1, 8, 5), draw(20, 5), {}, "no layer is square"),
        (lambda: mlp(3, 8), torch.zeros(20, 8, dtype=F64), {}, "sees zeros"),
        (lambda: mlp(3, 8), draw(20, 8) * math.inf, {}, "not finite"),
        (lambda: mlp(3, 8), draw(20, 8), {"exponent": 1.5}, "exponent is 1.5"),
        (lambda: mlp(3, 8), draw(20, 8), {"frame": "svd"}, "frame is 'svd'"),
        (lambda: mlp(3, 8), draw(20, 8), {"output_norm": 0.0}, "output_norm is 0.0"),
        (lambda: _twice(), draw(20, 8), {}, "runs more than once"),
    ],
)
def test_iterative_orthogonalisation_refuses(
    make: Callable[[], nn.Module], batch: torch.Tensor, options: dict, message: str
) -> None:
    model = make()
    _refused(model, lambda: iterative_orthogonalization_(model, batch, **options), message)


def _twice() -> nn.Module:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(8, 8, dtype=F64)
            self.again = nn.Linear(8, 8, dtype=F64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.again(self.again(self.first(x)))
            return result

    return Twice()


# --- rank pre-training ------------------------------------------------------------------------------------------------


def test_more_steps_raise_the_rank_of_the_last_layer() -> None:
    """Means over three seeds rise with the number of steps by more than their spread."""
    x = draw(128, 20) + 0.5
    last: dict[int, list[float]] = {}
    for steps in (0, 8, 40):
        for seed in range(3):
            model = mlp(8, 24, 20, bias=True, seed=seed)
            outcome = rank_pretraining_(model, x, steps=steps, seed=seed)
            for layer in outcome.layers:
                slack = 0.0 if steps else 1e-9
                assert layer.numbers["rank_after"] >= layer.numbers["rank_before"] - slack
            value = float(stable_rank(model[:-1](x).detach()))
            assert value == pytest.approx(outcome.layers[-1].numbers["rank_after"], rel=1e-9)
            last.setdefault(steps, []).append(value)
    assert max(last[0]) < 2
    for few, many in ((0, 8), (8, 40)):
        assert min(last[many]) > max(last[few])
    assert min(last[40]) > 6


def test_rank_pretraining_keeps_norms_and_treats_convolutions() -> None:
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 6)
    ).double()
    norms = [float(p.detach().norm()) for p in model.parameters() if p.dim() > 1]
    x = draw(40, 2, 6, 6) + 1
    outcome = rank_pretraining_(model, x, steps=15)
    after = [float(p.detach().norm()) for p in model.parameters() if p.dim() > 1]
    assert after == pytest.approx(norms, rel=1e-9)
    assert all(layer.numbers["rank_after"] > 1.2 * layer.numbers["rank_before"] for layer in outcome.layers)
    again = copy.deepcopy(model)
    first, second = rank_pretraining_(model, x, steps=3, seed=2), rank_pretraining_(again, x, steps=3, seed=2)
    assert [a.numbers == b.numbers for a, b in zip(first.layers, second.layers, strict=True)] == [True] * 3


@pytest.mark.parametrize(
    ("batch", "options", "message"),
    [
        (draw(1, 8), {}, "sees 1 sample; a rank needs at least 2"),
        (draw(9, 8), {"steps": -1}, "steps is -1"),
        (draw(9, 8), {"learning_rate": 0.0}, "learning_rate is 0.0"),
        (draw(9, 8), {"batch_size": 1}, "batch_size is 1"),
    ],
)
def test_rank_pretraining_refuses(batch: torch.Tensor, options: dict, message: str) -> None:
    model = mlp(3, 8, bias=True)
    _refused(model, lambda: rank_pretraining_(model, batch, **options), message)


# --- one neuron per sample --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "width"),
    [
        (functional.normalize(draw(12, 5)), 12),
        (functional.normalize(draw(12, 5)), 31),
        (draw(6, 40), 6),
        (torch.diag(torch.tensor([1.0, 10.0, 100.0], dtype=F64)) + 5, 7),
        (torch.tensor([[0.0, 0], [10, 0], [10, 10], [0, 10], [2, -0.1]], dtype=F64), 5),  # a linear program
        (torch.zeros(1, 3, dtype=F64), 4),
    ],
    ids=["sphere", "wide", "few", "lengths", "linear program", "one sample"],
)
def test_each_neuron_answers_to_one_sample(batch: torch.Tensor, width: int) -> None:
    layer = nn.Linear(batch.shape[1], width, dtype=F64)
    one_neuron_per_sample_(layer, batch)
    hidden = torch.relu(layer(batch)).detach()
    samples = len(batch)
    torch.testing.assert_close(hidden @ hidden.mT, torch.eye(samples, dtype=F64), atol=1e-8, rtol=0.0)
    assert torch.equal((hidden > 1e-9).sum(0), torch.ones(width, dtype=torch.long))


def test_linear_programs_are_counted() -> None:
    batch = torch.tensor([[0.0, 0], [10, 0], [10, 10], [0, 10], [2, -0.1]], dtype=F64)
    assert one_neuron_per_sample_(nn.Linear(2, 5), batch).layers[0].numbers["solved"] >= 1


@pytest.mark.parametrize(
    ("batch", "options", "message"),
    [
        (draw(9, 2), {}, "9 samples for 8 neurons"),
        (torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], dtype=F64), {}, "sample 0 equals sample 2"),
        (torch.tensor([[1.0, 1], [-1, 1], [0, -1], [0, 0.1]], dtype=F64), {}, "sample 3 lies within the convex hull"),
        (draw(3, 5), {}, r"expected finite numbers \(samples, 2\)"),
        (draw(3, 2) * math.nan, {}, "expected finite numbers"),
        (draw(3, 2), {"margin": 1.0}, "margin is 1.0"),
    ],
)
def test_one_neuron_per_sample_refuses(batch: torch.Tensor, options: dict, message: str) -> None:
    layer = nn.Linear(2, 8)
    _refused(layer, lambda: one_neuron_per_sample_(layer, batch, **options), message)


def test_one_neuron_per_sample_needs_a_bias() -> None:
    with pytest.raises(IsometerError, match="Linear without a bias"):
        one_neuron_per_sample_(nn.Linear(2, 3, bias=False), draw(2, 2))


# --- Fixup ------------------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, blocks: int, layers: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList()
        for _ in range(blocks):
            block = nn.Module()
            block.body = nn.Sequential(
                *[p for i in range(layers) for p in ([nn.ReLU()] if i else []) + [nn.Conv2d(8, 8, 3, padding=1)]]
            )
            block.shortcut = nn.Conv2d(8, 8, 1)
            self.blocks.append(block)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block.shortcut(x) + block.body(x)
        result: torch.Tensor = self.head(x.mean((2, 3)))
        return result


@pytest.mark.parametrize(("blocks", "layers", "factor"), [(9, 2, 9**-0.5), (16, 3, 16**-0.25), (4, 1, None)])
def test_fixup_scales_branches_and_starts_them_at_zero(blocks: int, layers: int, factor: float | None) -> None:
    model = Residual(blocks, layers)
    outcome = fixup_(model, "blocks.?" if blocks < 10 else "blocks.*")
    factors = {layer.name: layer.numbers["factor"] for layer in outcome.layers}
    assert factors["stem"] == factors["blocks.0.shortcut"] == 1.0
    assert factors["head"] == 0.0
    for i in range(blocks):
        inner = [factors[f"blocks.{i}.body.{2 * j}"] for j in range(layers)]
        assert inner == pytest.approx([factor] * (layers - 1) + [0.0])
    x = draw(2, 3, 6, 6, dtype=F32)
    assert float(model.blocks[0].body(model.stem(x)).detach().abs().max()) == 0.0
    assert float(model(x).detach().abs().max()) == 0.0
    he = [layer.gain for layer in outcome.layers if layer.numbers["factor"] == 1.0]
    assert np.mean(he) == pytest.approx(math.sqrt(2), rel=0.15)


def test_fixup_refuses() -> None:
    model = Residual(2, 2)
    _refused(model, lambda: fixup_(model, "layers.*"), r"no module has a name like layers\.\*")
    _refused(model, lambda: fixup_(model, "blocks.?", classifier="out"), "classifier is 'out'")
    _refused(model, lambda: fixup_(model, ["blocks.*.shortcut"], shortcuts="*"), "holds no linear layer")


# --- what must not be written to --------------------------------------------------------------------------------------


def _frozen() -> nn.Module:
    model = mlp(3, 8)
    model[2].weight.requires_grad_(False)
    return model


def _tied() -> nn.Module:
    model = mlp(3, 8)
    model[4].weight = model[0].weight
    return model


def _views() -> nn.Module:
    model = mlp(2, 8)
    model[2].weight = nn.Parameter(model[0].weight.detach().mT)
    return model


def _int8() -> nn.Module:
    model = mlp(2, 8)
    model[2].weight = nn.Parameter(torch.ones(8, 8, dtype=torch.int8), requires_grad=False)
    return model


def _parametrised() -> nn.Module:
    model = mlp(2, 8)
    parametrizations.orthogonal(model[2])
    return model


def _lazy() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8, dtype=F64), nn.LazyLinear(8, dtype=F64))


BAD = {
    "frozen": (_frozen, "is frozen"),
    "tied": (_tied, "share their memory"),
    "views of one tensor": (_views, "share their memory"),
    "meta": (lambda: mlp(2, 8).to("meta"), "meta device"),
    "int8": (_int8, "dtype torch.int8; expected floating point"),
    "parametrised": (_parametrised, "computed from other parameters"),
    "lazy": (_lazy, "no shape yet"),
    "no weights": (lambda: nn.Sequential(nn.ReLU()), "no linear layer or convolution"),
    "not a module": (lambda: "model", "expected a"),
}
SCHEMES: dict[str, Callable[[nn.Module], InitOutcome]] = {
    "haar": haar_orthogonal_,
    "delta": delta_orthogonal_,
    "xavier": orthogonalized_xavier_,
    "gain": lambda model: principled_gain_(model, draw(16, 8)),
    "gain of relu": lambda model: principled_gain_(model, activation="relu"),
    "asymmetric": asymmetric_,
    "odd point": lambda model: odd_point_(model, samples=5),
    "iterative": lambda model: iterative_orthogonalization_(model, draw(16, 8)),
    "rank": lambda model: rank_pretraining_(model, draw(16, 8)),
    "fixup": lambda model: fixup_(model, "0"),
}


def _refused(model: object, call: Callable[[], object], message: str) -> None:
    """An error with that message, and the model as it was."""
    before = {}
    if isinstance(model, nn.Module):
        before = {k: v for k, v in model.state_dict().items() if not nn.parameter.is_lazy(v) and not v.is_meta}
        before = {k: v.clone() for k, v in before.items()}
    with pytest.raises(IsometerError, match=message):
        call()
    if isinstance(model, nn.Module):
        after = model.state_dict()
        assert all(torch.equal(after[k], v) for k, v in before.items())
        assert not any(module._forward_pre_hooks for module in model.modules() if type(module) is nn.Linear)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("case", BAD)
def test_weights_that_must_not_be_written_to(case: str, scheme: str) -> None:
    make, message = BAD[case]
    model = make()
    _refused(model, lambda: SCHEMES[scheme](model), message)


def test_patterns_leave_frozen_layers_out() -> None:
    assert [layer.name for layer in haar_orthogonal_(_frozen(), layers=["0", "4"]).layers] == ["0", "4"]


def test_quantised_modules_are_refused() -> None:
    quantised = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    fake = type("Linear", (nn.Module,), {"__module__": "torch.ao.nn.quantized.dynamic.modules.linear"})()
    quantised.append(fake)
    _refused(quantised, lambda: haar_orthogonal_(quantised), "is quantised")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: haar_orthogonal_(torch.ones(3)), r"shape \(3,\); expected \(out, in\)"),
        (lambda: haar_orthogonal_(torch.ones(3, 3), gain=0.0), "gain is 0.0; expected a number above 0"),
        (lambda: haar_orthogonal_(torch.ones(3, 3), gain=math.inf), "gain is inf; expected a finite number"),
        (lambda: haar_orthogonal_(torch.ones(3, 3), seed=-1), "seed is -1"),
        (lambda: haar_orthogonal_(torch.ones(3, 3, dtype=torch.long)), "expected floating point"),
        (lambda: haar_orthogonal_(torch.empty(0, 3)), "at least one entry"),
        (lambda: haar_orthogonal_(mlp(2, 4), layers="x*"), r"with a name like x\*"),
    ],
)
def test_tensors_and_numbers_that_make_no_sense(call: Callable[[], object], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        call()
