"""Normalisations and activations as modules, against torch's own and their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate
from torch import nn

from isometer import activation
from isometer.errors import IsometerError
from isometer.nn import Activation, BatchNormParts, NormReLU, SampleNorm, Whitening
from isometer.spec import Norm
from support.models import F64, draw

# --- normalisations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7, 5), (3, 5, 4, 2)])
def test_full_batch_norm_is_torch_s_own(shape: tuple[int, ...]) -> None:
    ours = BatchNormParts(5, Norm(eps=1e-5), affine=True, momentum=0.3, dtype=F64)
    theirs = (nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d)(5, momentum=0.3, dtype=F64)
    with torch.no_grad():
        for module in (ours, theirs):
            assert module.weight is not None
            assert module.bias is not None
            module.weight.copy_(draw(5, seed=1))
            module.bias.copy_(draw(5, seed=2))
    for seed in range(3):
        x, cotangent = 3 * draw(*shape, seed=seed) + 1, draw(*shape, seed=9)
        gradients = []
        for module in (ours, theirs):
            argument = x.clone().requires_grad_()
            y = module(argument)
            gradients.append([y, *torch.autograd.grad((y * cotangent).sum(), [argument, *module.parameters()])])
        for a, b in zip(*gradients, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_square, theirs.running_var)
    assert int(ours.num_batches_tracked) == 3
    x = draw(*shape, seed=20)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_the_parts_by_their_formulas() -> None:
    x = 2 * draw(6, 4) + 1
    mean = x.mean(0)
    expected = {
        "batch": (x - mean) / x.std(0, correction=0),
        "batch-recenter": x - mean,
        "batch-rescale": x / x.square().mean(0).sqrt(),
        "batch-rescale-std": x / x.std(0, correction=0),
        "batch-unit": x / x.norm(dim=0),
    }
    for name, value in expected.items():
        torch.testing.assert_close(BatchNormParts(4, name, dtype=F64)(x), value)


@pytest.mark.parametrize("name", ["batch", "batch-recenter", "batch-rescale", "batch-rescale-std", "batch-unit"])
def test_running_statistics_of_the_same_batch_converge_to_it(name: str) -> None:
    module, x = BatchNormParts(4, name, dtype=F64), 2 * draw(50, 4) + 1
    for _ in range(400):
        trained = module(x)
    factor = math.sqrt(49 / 50) if name in ("batch", "batch-rescale-std") else 1.0  # the variance without bias
    torch.testing.assert_close(module.eval()(x), trained * factor, rtol=1e-9, atol=1e-12)
    alone = module(x[:1])  # no batch needed
    torch.testing.assert_close(alone, (trained * factor)[:1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["batch", "batch-rescale", "batch-rescale-std", "batch-unit"])
def test_features_without_size_become_zero_and_pass_no_nan(name: str) -> None:
    x = draw(5, 3)
    x[:, 1] = 0.0
    x[:, 2] = 0.1
    x.requires_grad_()
    module = BatchNormParts(3, name, dtype=F64)
    y = module(x)
    (gradient,) = torch.autograd.grad(y.square().sum() + y.sum(), x)
    assert torch.isfinite(y).all()
    assert torch.isfinite(gradient).all()
    assert (y[:, 1] == 0).all()
    if name in ("batch", "batch-rescale-std"):
        assert (y[:, 2] == 0).all()


@pytest.mark.parametrize("module", [BatchNormParts(3, Norm(eps=1e-5)), SampleNorm(Norm(over="features", eps=1e-5))])
def test_statistics_of_half_precision_are_taken_in_single(module: nn.Module) -> None:
    """Squares of 400 overflow float16."""
    x = (400 * draw(64, 3)).half()
    y = module(x)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.float(), module(x.float()), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["batch", "batch-recenter", "batch-rescale", "batch-rescale-std", "batch-unit"])
def test_first_and_second_derivatives(name: str) -> None:
    module, x = BatchNormParts(3, name, dtype=F64), draw(4, 3).requires_grad_()
    assert torch.autograd.gradcheck(module, (x,))
    assert torch.autograd.gradgradcheck(module, (x,))


def test_sample_norms_are_torch_s_own() -> None:
    x = draw(5, 12) * 3 + 1
    torch.testing.assert_close(SampleNorm("layer")(x), nn.functional.layer_norm(x, (12,), eps=0.0))
    torch.testing.assert_close(SampleNorm("rms")(x), nn.functional.rms_norm(x, (12,), eps=1e-300))
    torch.testing.assert_close(SampleNorm("unit")(x), nn.functional.normalize(x))
    torch.testing.assert_close(SampleNorm("group:3")(x), nn.functional.group_norm(x, 3, eps=0.0))
    tokens = draw(2, 5, 12)
    torch.testing.assert_close(SampleNorm(Norm(over="features", eps=0.2))(tokens), nn.LayerNorm(12, 0.2, False)(tokens))
    assert torch.equal(SampleNorm("layer")(torch.full((1, 4), 3.0)), torch.zeros(1, 4))


def test_whitening_whitens_and_is_differentiable() -> None:
    x = (draw(8, 3) @ draw(3, 3, seed=1)).requires_grad_()
    y = Whitening()(x)
    torch.testing.assert_close(y.mT @ y / 8, torch.eye(3, dtype=F64))
    assert torch.autograd.gradcheck(Whitening(), (x,))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BatchNormParts(3, "layer"), "norm is one over the features; expected one over batch"),
        (lambda: BatchNormParts(3, "whiten"), "use Whitening"),
        (lambda: SampleNorm("batch"), "expected one over features or groups"),
        (lambda: Whitening("batch"), "use BatchNormParts"),
        (lambda: BatchNormParts(3)(torch.ones(4, 2)), r"expected \(samples, 3, …\)"),
        (lambda: BatchNormParts(3)(torch.ones(1, 3)), "batch statistics need at least 2"),
        (lambda: SampleNorm("group:5")(torch.ones(2, 12)), "does not split into 5 groups"),
    ],
)
def test_normalisations_refuse(make, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        make()


# --- activations ------------------------------------------------------------------------------------------------------


def test_activations_are_those_of_the_registry_and_differentiable() -> None:
    x = draw(50).requires_grad_()
    torch.testing.assert_close(Activation("silu")(x), nn.functional.silu(x))
    torch.testing.assert_close(Activation("tanh", gain=0.3)(x), torch.tanh(0.3 * x))
    assert torch.autograd.gradcheck(Activation("x * tanh(softplus(x))"), (x,))


def density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(
    "module",
    [
        Activation("relu", normalized=True),
        Activation("gelu", normalized=True),
        Activation("softplus", gain=2.0, normalized=True),
        NormReLU(),
        NormReLU(0.5),
    ],
    ids=repr,
)
def test_normalised_activations_have_mean_0_and_mean_square_1(module: nn.Module) -> None:
    def moment(power: int) -> float:
        def integrand(x: float) -> float:
            return float(module(torch.tensor(x, dtype=F64))) ** power * density(x)

        return integrate.quad(integrand, -12, 12, points=[-1.5975, 0.0, 0.5], limit=200, epsabs=1e-12)[0]

    assert moment(1) == pytest.approx(0.0, abs=1e-9)
    assert moment(2) == pytest.approx(1.0, abs=1e-9)


def test_normrelu_is_the_registry_s() -> None:
    x = draw(100)
    np.testing.assert_allclose(NormReLU()(x).numpy(), activation("normrelu")(x.numpy()), rtol=1e-12)
