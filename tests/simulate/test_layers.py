"""Layers against automatic differentiation and against the formulas of the papers, with weights held fixed."""

import math

import numpy as np
import pytest
import torch

from isometer.errors import IsometerError
from isometer.simulate._chain import LayerChain
from isometer.simulate._layers import activate_backward, normalize, normalize_backward
from isometer.simulate._measure import Recorder
from isometer.spec import POST_NORM, Norm, PowerLaw, Spec, recurrence

NORMS = {
    "batch": Norm(),
    "batch-rescale": Norm.named("batch-rescale"),
    "batch-rescale-std": Norm.named("batch-rescale-std"),
    "batch-recenter": Norm.named("batch-recenter"),
    "batch-unit": Norm.named("batch-unit"),
    "002 as printed": Norm(recenter=True, divisor="rms"),
    "layer": Norm.named("layer"),
    "rms": Norm.named("rms"),
    "unit": Norm.named("unit"),
    "group": Norm.named("group:3"),
    "affine": Norm(eps=1e-2, scale=1.5, shift=0.3),
    "group affine": Norm(over="groups", groups=2, recenter=False, divisor="std", size="length", eps=0.1, scale=-2.0),
    "whiten": Norm.named("whiten"),
    "whiten centred": Norm(whiten=True),
}


def reference(norm: Norm, x: torch.Tensor) -> torch.Tensor:
    """The definition, written once more without any care for degenerate input."""
    if norm.over == "groups":
        shaped = x.reshape(*x.shape[:-1], norm.groups, -1)
        inner = Norm(**{**norm.__dict__, "over": "features", "groups": 1})
        return reference(inner, shaped).reshape(x.shape)
    if norm.whiten:
        x = x - x.mean(-2, keepdim=True) if norm.recenter else x
        values, vectors = torch.linalg.eigh(x @ x.mT / x.shape[-2])
        good = values > 1e-9 * values.amax(-1, keepdim=True)
        root = torch.where(good, torch.where(good, values, 1.0) ** -0.5, 0.0)
        return vectors * root[..., None, :] @ vectors.mT @ x
    dim = -2 if norm.over == "batch" else -1
    mean = x.mean(dim, keepdim=True)
    top = x - mean if norm.recenter else x
    if not norm.rescale:
        return top
    base = x if norm.divisor == "rms" else x - mean
    total = (base**2).mean(dim, keepdim=True) + norm.eps
    if norm.size == "length":
        total = total * x.shape[dim]
    return top / total.sqrt() * norm.scale + norm.shift


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("shape", [(5, 12), (12, 6)])
def test_normalisation_and_its_backward_pass_agree_with_automatic_differentiation(
    name: str, shape: tuple[int, int]
) -> None:
    norm = NORMS[name]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, *shape, dtype=torch.float64, generator=generator) + 0.7
    cotangent = torch.randn(2, 3, *shape, dtype=torch.float64, generator=generator)
    torch.testing.assert_close(normalize(norm, x), reference(norm, x), rtol=1e-9, atol=1e-9)
    if norm.whiten and norm.recenter:
        # a vanishing eigenvalue has no derivative by automatic differentiation: compare with finite differences
        step = 1e-6
        direction = torch.randn(2, *shape, dtype=torch.float64, generator=generator)
        difference = (normalize(norm, x + step * direction) - normalize(norm, x - step * direction)) / (2 * step)
        expected = (difference[:, None] * cotangent).sum((-2, -1))
        got = (normalize_backward(norm, x[:, None], cotangent) * direction[:, None]).sum((-2, -1))
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
        return
    argument = x.clone().requires_grad_()
    value = reference(norm, argument)
    expected = torch.stack(
        [torch.autograd.grad(value, argument, cotangent[:, i], retain_graph=True)[0] for i in range(3)], 1
    )
    got = normalize_backward(norm, x[:, None], cotangent)
    torch.testing.assert_close(got, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", [n for n in NORMS if "whiten" not in n])
def test_what_has_no_size_becomes_zero(name: str) -> None:
    norm = NORMS[name]
    x = torch.full((4, 6), 0.1, dtype=torch.float32) if norm.recenter or norm.divisor == "std" else torch.zeros(4, 6)
    if not (norm.rescale and norm.eps == 0):
        return
    assert torch.equal(normalize(norm, x), torch.full((4, 6), norm.shift))
    assert torch.equal(normalize_backward(norm, x, torch.ones(4, 6)), torch.zeros(4, 6))


def test_the_slope_of_an_activation_is_that_of_automatic_differentiation() -> None:
    from isometer import activation

    x = torch.tensor([-1.0, 0.0, 2.0])
    assert activate_backward(activation("relu"), x, torch.ones(3)).tolist() == [0.0, 0.0, 1.0]
    assert activate_backward(activation("sign"), x, torch.ones(3)).tolist() == [0.0, 0.0, 0.0]


CASES = {
    "pre-norm": Spec(width=7, depth=3, activation="tanh", norm="batch", input_width=5),
    "post-norm": Spec(width=(7, 9, 4), activation="gelu", norm="layer", order=POST_NORM, input_width=5),
    "norm first": recurrence("001/rec-3.1", width=6, depth=3, activation="tanh"),
    "residual": recurrence("002/eq-5", width=6, depth=3, activation="tanh", residual=0.3),
    "residual later": Spec(
        width=6, depth=3, activation="tanh", norm="rms", residual=PowerLaw(depth=-0.5), bias_variance=0.1,
        order=("norm", "activation", "weights", "residual"),
    ),
    "some skips": Spec(width=6, depth=3, activation="sin", residual=(0.5, math.inf, 2.0), scale=0.7),
    "shaped": recurrence("001/rec-6.11", width=6, depth=3),
    "unit length": recurrence("004/eq-3", width=6, depth=3, activation="tanh"),
    "vanilla relu": Spec(width=6, depth=3, weights="he"),
    "asymmetric": Spec(width=6, depth=3, activation="tanh", weights="asymmetric"),
    "orthogonalised": Spec(width=(8, 4), activation="tanh", weights="orthogonalized-xavier"),
}  # fmt: skip


def torch_network(spec: Spec, x: torch.Tensor, weights: list[torch.Tensor], biases: list[torch.Tensor]) -> torch.Tensor:
    """The spec's own words, with automatic differentiation."""
    for layer, (w, b) in enumerate(zip(weights, biases, strict=True), 1):
        value = x
        for step in spec.steps:
            if step == "weights":
                value = value @ w.mT + b
            elif step == "residual" and math.isfinite(spec.at("residual", layer)):
                value = x + spec.at("residual", layer) * value
            elif step == "norm" and spec.norm is not None:
                value = reference(spec.norm, value)
            elif step == "activation":
                value = spec.phi(spec.at("activation_gain", layer) * value)
        x = value * spec.output_scale(layer)
    return x


@pytest.mark.parametrize("name", CASES)
def test_a_chain_is_the_network_of_its_spec_forward_and_backward(name: str) -> None:
    spec = CASES[name]
    generator = torch.Generator().manual_seed(1)
    batch = torch.randn(2, 4, spec.fan_in[0], dtype=torch.float64, generator=generator)
    chain = LayerChain(spec, "dense", batch, seed=0, runs=[0, 1], rows=4)
    for layer in range(1, spec.layers + 1):
        chain.step(layer)
    weights, biases = [], []
    draws = LayerChain(spec, "dense", batch, seed=0, runs=[0, 1], rows=4)
    for (tape, _), width in zip(chain._tape, spec.widths, strict=True):
        product = dict(tape)["weights"]
        weights.append((product.weights * product.scale).clone().requires_grad_())
        bias = draws._bias.take(1, width) * math.sqrt(spec.bias_variance) if draws._bias is not None else torch.zeros(1)
        biases.append(bias)
    x = batch.clone().requires_grad_()
    output = torch_network(spec, x, weights, biases)
    own = chain.value * chain.log_scale.exp()[:, None, None]
    torch.testing.assert_close(own, output.detach(), rtol=1e-10, atol=1e-12)

    cotangent = torch.randn(output.shape, dtype=torch.float64, generator=generator)
    gradients = torch.autograd.grad(output, [x, *weights], cotangent)
    recorder = Recorder(["gradient_log_norm", "gradient_alignment"], 2, spec.layers, "post")
    chain.backward(cotangent, torch.zeros(2, dtype=torch.float64), recorder.visit)
    expected = torch.stack([g.flatten(1).norm(dim=1).log() for g in gradients], 1)
    np.testing.assert_allclose(recorder.values["gradient_log_norm"], expected, rtol=1e-9, atol=1e-9)


def test_several_cotangents_see_one_network() -> None:
    spec = Spec(width=40, depth=3, activation="tanh", norm="batch")
    batch = torch.randn(2, 4, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    cotangent = torch.randn(2, 3, 4, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    cotangent[:, 2] = cotangent[:, 0] - 2 * cotangent[:, 1]
    for law in ("gaussian", "orthogonal"):
        chain = LayerChain(spec.replace(weights=law), "gram", batch, seed=0, runs=[0, 1], rows=12)
        for layer in range(1, 4):
            chain.step(layer)
        back = chain.backward(cotangent, torch.zeros(2, dtype=torch.float64), lambda *_: None)
        first, second, third = back.unbind(1)
        torch.testing.assert_close(third, first - 2 * second, rtol=1e-9, atol=1e-10)


def test_the_eight_combinations_of_000_and_both_readings_of_rescaling() -> None:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((6, 5)) + 0.5  # samples × neurons
    mean, deviation, size = z.mean(0), z.std(0), np.sqrt((z**2).mean(0))
    expected = {
        (True, True, "std"): (z - mean) / deviation,
        (True, False, "std"): z - mean,
        (False, True, "rms"): z / size,
        (False, True, "std"): z / deviation,
    }
    for (recenter, rescale, divisor), value in expected.items():
        norm = Norm(recenter=recenter, rescale=rescale, divisor=divisor)
        np.testing.assert_allclose(normalize(norm, torch.as_tensor(z)), value, rtol=1e-12)
    # 001/op-6.4: rows of length one; 001/eq-5.13
    np.testing.assert_allclose(
        normalize(Norm.named("batch-unit"), torch.as_tensor(z)), z / np.linalg.norm(z, axis=0), rtol=1e-12
    )
    centred = z - z.mean(1, keepdims=True)
    np.testing.assert_allclose(
        normalize(Norm.named("layer"), torch.as_tensor(z)), centred / centred.std(1, keepdims=True), rtol=1e-12
    )


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal", "uniform"])
def test_the_jacobian_is_that_of_automatic_differentiation(weights: str) -> None:
    from isometer.simulate import jacobian_spectrum

    spec = Spec(width=(6, 5), activation="tanh", norm="batch", weights=weights, input_width=4)
    batch = np.random.default_rng(0).standard_normal((3, 4))
    found = jacobian_spectrum(spec, batch, runs=2, seed=3, engine="dense")
    for run in range(2):
        chain = LayerChain(spec, "dense", torch.as_tensor(batch)[None], seed=3, runs=[run], rows=45)
        for layer in (1, 2):
            chain.step(layer)
        products = [dict(tape)["weights"] for tape, _ in chain._tape]
        w = [p.weights[0] * p.scale for p in products]
        zero = [torch.zeros(1)] * 2
        jacobian = torch.autograd.functional.jacobian(
            lambda x, w=w, b=zero: torch_network(spec, x, w, b), torch.as_tensor(batch)
        )
        expected = np.linalg.svd(jacobian.reshape(15, 12).numpy(), compute_uv=False)
        got = np.exp(found["log_singular_value"].values[run])
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
        assert float(found["log_mean_square"][run]) == pytest.approx(math.log(np.mean(expected**2)))


def test_the_jacobian_of_a_composition_is_its_derivative() -> None:
    """Against central differences of the same draw: their error is about 1e-9 here."""
    from isometer.simulate import jacobian_spectrum, representations

    text = (
        "input(6) > dense(5) > norm('batch') > act('tanh') > "
        "repeat(residual(dense > act('gelu') > dense, scale=0.5), 2) > dense(4)"
    )
    spec, batch = Spec(text), np.random.default_rng(0).standard_normal((3, 6))
    found = np.exp(jacobian_spectrum(spec, batch, runs=2, seed=5)["log_singular_value"].values)

    def output(x: np.ndarray) -> np.ndarray:
        data = representations(spec, x, layers=[spec.depth], runs=2, seed=5, engine="dense")
        scale = np.exp(data["log_scale"].values)[:, 0, None]
        return np.asarray(data["state"].values[:, 0].reshape(2, -1) * scale)

    steps = 1e-6 * np.eye(18).reshape(18, 3, 6)
    columns = [(output(batch + step) - output(batch - step)) / 2e-6 for step in steps]
    expected = np.linalg.svd(np.stack(columns, axis=2), compute_uv=False)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_the_jacobian_of_a_composition_needs_the_weights() -> None:
    from isometer.simulate import jacobian_spectrum

    with pytest.raises(IsometerError, match="pass engine='dense'"):
        jacobian_spectrum(Spec("input(4) > dense(3) > act('relu') > dense"), np.eye(4), engine="gram")
