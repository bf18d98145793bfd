"""Activations on torch tensors, and torch modules and functions as activations."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer import Activation, ActivationError, activation
from isometer.activations import registry
from isometer.theory import KernelMap

POINTS = np.random.default_rng(7).normal(0, 2.5, (23, 5))


def tensor(requires_grad: bool = False) -> torch.Tensor:
    return torch.tensor(POINTS, dtype=torch.float64, requires_grad=requires_grad)


@pytest.mark.parametrize("name", [*registry(), "normalized(mish)", "gain(elu, 0.5)", "compose(tanh, relu)"])
def test_tensors_and_arrays_give_the_same(name: str) -> None:
    phi = activation(name)
    x = tensor(requires_grad=True)
    y = phi(x)
    assert isinstance(y, torch.Tensor)
    assert y.dtype == torch.float64
    assert y.shape == x.shape
    expected = phi(POINTS)
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-14, atol=1e-14)
    slope = phi.derivative(POINTS)
    if y.requires_grad:
        (gradient,) = torch.autograd.grad(y.sum(), x)
        np.testing.assert_allclose(gradient.numpy(), slope, rtol=1e-12, atol=1e-14)
    else:
        np.testing.assert_array_equal(slope, 0)
    np.testing.assert_allclose(phi.derivative(tensor()).detach().numpy(), slope, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", ["gelu", "hardtanh", "normalized(relu)"])
def test_dtype_shape_and_emptiness_are_kept(name: str) -> None:
    phi = activation(name)
    for dtype in (torch.float32, torch.float64):
        assert phi(torch.zeros(2, 3, dtype=dtype)).dtype == dtype
    assert phi(torch.zeros(0, 4)).shape == (0, 4)
    assert phi(torch.tensor(0.5)).shape == ()


@pytest.mark.parametrize("name", ["tanh", "gelu", "silu", "mish", "softplus", "sin", "erf"])
def test_gradients_of_gradients(name: str) -> None:
    x = torch.linspace(-2, 2, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(activation(name), (x,))
    assert torch.autograd.gradgradcheck(activation(name), (x,))


KNOWN = [
    (nn.ReLU(), "relu"),
    (nn.GELU(), "gelu"),
    (nn.GELU(approximate="tanh"), "gelu_tanh"),
    (nn.SiLU(), "silu"),
    (nn.Mish(), "mish"),
    (nn.ELU(0.7), "elu(0.7)"),
    (nn.CELU(1.3), "celu(1.3)"),
    (nn.SELU(), "selu"),
    (nn.LeakyReLU(0.2), "leaky_relu(0.2)"),
    (nn.Hardtanh(-0.5, 2.0), "hardtanh(-0.5, 2.0)"),
    (nn.ReLU6(), "hardtanh(0, 6)"),
    (nn.Hardswish(), "hardswish"),
    (nn.Hardsigmoid(), "hardsigmoid"),
    (nn.Softplus(), "softplus"),
    (nn.Softsign(), "softsign"),
    (nn.Sigmoid(), "sigmoid"),
    (nn.Tanh(), "tanh"),
    (nn.Identity(), "identity"),
    (torch.relu, "relu"),
    (torch.tanh, "tanh"),
    (torch.sin, "sin"),
    (torch.erf, "erf"),
    (functional.gelu, "gelu"),
    (functional.silu, "silu"),
    (functional.mish, "mish"),
    (functional.elu, "elu"),
    (functional.leaky_relu, "leaky_relu"),
    (functional.softplus, "softplus"),
    (functional.hardtanh, "hardtanh"),
]


@pytest.mark.parametrize(("source", "text"), KNOWN, ids=[f"{i}-{text}" for i, (_, text) in enumerate(KNOWN)])
def test_torch_activations_are_what_torch_computes(source: object, text: str) -> None:
    made, expected = activation(source), activation(text)
    with torch.no_grad():
        truth = source(tensor()).numpy()
    # softplus switches to x above its threshold of 20, which no point here reaches
    np.testing.assert_allclose(made(POINTS), truth, rtol=1e-13, atol=1e-14)
    assert made.mean == pytest.approx(expected.mean, abs=1e-12)
    assert made.second_moment == pytest.approx(expected.second_moment, rel=1e-12)
    assert made.moments["slope_second"].value == pytest.approx(expected.moments["slope_second"].value, rel=1e-11)


@pytest.mark.parametrize(("source", "text"), [pair for pair in KNOWN if not isinstance(pair[0], nn.ReLU6)])
def test_known_torch_activations_keep_their_formula(source: object, text: str) -> None:
    assert activation(source) == activation(text)


def test_softplus_with_beta() -> None:
    made = activation(nn.Softplus(beta=2.0, threshold=40.0))
    assert made.second_moment == pytest.approx(activation("softplus(2)").second_moment, rel=1e-11)
    np.testing.assert_allclose(made(POINTS), np.logaddexp(2 * POINTS, 0) / 2, rtol=1e-13, atol=1e-15)


@pytest.mark.slow
def test_unknown_modules() -> None:
    prelu = nn.PReLU(init=0.3)
    made = activation(prelu)
    # the slope is stored in float32
    slope = float(prelu.weight.detach())
    expected = activation(f"leaky_relu({slope!r})")
    assert made.kinks == pytest.approx([0], abs=1e-13)
    assert made.second_moment == pytest.approx(expected.second_moment, rel=1e-10)
    assert KernelMap(made)(0.3) == pytest.approx(KernelMap(expected)(0.3), abs=1e-10)

    chain = activation(nn.Sequential(nn.Tanh(), nn.ReLU()))
    rectified = activation("relu(tanh(x))")
    np.testing.assert_allclose(chain(POINTS), rectified(POINTS), atol=1e-14)
    assert chain.mean == pytest.approx(rectified.mean, abs=1e-10)
    assert chain.kernel(-0.4) == pytest.approx(rectified.kernel(-0.4), abs=1e-10)
    np.testing.assert_allclose(chain.derivative(POINTS), rectified.derivative(POINTS), atol=1e-13)


def test_user_functions_written_with_torch_calls() -> None:
    def swish(x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x)

    made, expected = activation(swish), activation("silu")
    assert made.name == "swish"
    assert made.second_moment == pytest.approx(expected.second_moment, rel=1e-12)
    assert made.kernel(0.5) == pytest.approx(expected.kernel(0.5), abs=1e-12)
    x = tensor(requires_grad=True)
    (gradient,) = torch.autograd.grad(made(x).sum(), x)
    np.testing.assert_allclose(gradient.numpy(), expected.derivative(POINTS), atol=1e-13)
    derived = made.normalized().gain(0.5)
    np.testing.assert_allclose(derived(tensor()).numpy(), expected.normalized().gain(0.5)(POINTS), atol=1e-12)


def test_modules_are_not_modified() -> None:
    module = nn.Sequential(nn.PReLU(), nn.Dropout(0.5)).train()
    before = copy.deepcopy(module.state_dict())
    made = activation(module)
    _ = made.second_moment, made.kernel(0.5), made.derivative(POINTS)
    assert module.training
    assert module[1].training
    assert next(module.parameters()).dtype == torch.float32
    assert next(module.parameters()).grad is None
    for key, value in module.state_dict().items():
        assert torch.equal(value, before[key])


def test_numpy_callables_are_differentiable_in_torch() -> None:
    for function in (np.tanh, lambda x: x / (1 + np.exp(-x)), lambda x: np.where(x > 0, x, 0.1 * np.sin(x))):
        made = activation(function)
        x = torch.tensor([-2.0, -0.7, 0.4, 1.3, 3.1], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(made, (x,), eps=1e-6, atol=1e-7)
    half = activation(np.tanh)(torch.zeros(3, requires_grad=True))
    assert half.dtype == torch.float32
    half.sum().backward()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (nn.Softmax(dim=-1), "not elementwise"),
        (nn.Linear(3, 3), "failed on an array"),
        (nn.LayerNorm(9), "elementwise|act on each element"),
        (nn.GLU(), "failed on an array"),
        (lambda x: torch.rand_like(x), "deterministic"),
        (lambda x: torch.cumsum(x, 0), "not elementwise"),
    ],
    ids=["softmax", "linear", "layer norm", "glu", "random", "cumsum"],
)
def test_what_is_not_an_activation(source: object, message: str) -> None:
    with pytest.raises(ActivationError, match=message):
        activation(source)


def test_a_tensor_is_not_an_activation() -> None:
    with pytest.raises(ActivationError, match="expected a name, an expression, a callable"):
        activation(torch.zeros(3))


def test_gradient_descent_through_a_gain() -> None:
    """The same object that is analysed trains: fit the gain of tanh(g x)."""
    phi: Activation = activation("tanh")
    x = tensor()
    gain = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    target = torch.tanh(1.1 * x)
    optimiser = torch.optim.Adam([gain], lr=0.05)
    for _ in range(300):
        optimiser.zero_grad()
        loss = (phi(gain * x) - target).square().mean()
        loss.backward()
        optimiser.step()
    assert math.isclose(gain.item(), 1.1, rel_tol=1e-3)
