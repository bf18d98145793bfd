"""NNGP and NTK of networks against neural-tangents, today's engines for chains, and wide networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from isometer import Spec
from isometer.errors import IsometerError
from isometer.theory import kernel_matrices
from isometer.theory.batch_norm import batch_norm_chain
from isometer.theory.networks import NotCovered, network_kernels
from isometer.theory.networks._kernels import kernels_by_steps
from support.references import stored
from support.wide_networks import Wide

REFERENCES = stored("networks")
CONVOLUTIONS = stored("convolutions")


@pytest.mark.parametrize("name", REFERENCES)
def test_kernels_equal_those_of_neural_tangents(name: str) -> None:
    """NNGP to rounding; the NTK of gelu to that library's own error, 5e-10, of the others to rounding."""
    reference = REFERENCES[name]
    found = network_kernels(Spec(reference["network"]), np.array(reference["inputs"]))
    for kind, tolerance in (("nngp", 1e-13), ("ntk", 2e-9 if "gelu" in reference["network"] else 1e-13)):
        expected = np.array(reference[kind])
        matrix = found[kind].matrix * np.exp(found[kind].log_diagonal.max())
        assert np.abs(matrix - expected).max() < tolerance * np.diag(expected).max()
        assert np.abs(np.exp(found[kind].log_diagonal) / np.diag(expected) - 1).max() < tolerance


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_kernels_of_convolutions_equal_those_of_neural_tangents(name: str) -> None:
    """30 of its architectures: NNGP to rounding, NTK to 1e-9, how accurate its own is where pairs are equal."""
    reference = CONVOLUTIONS[name]
    found = network_kernels(Spec(reference["network"]), np.array(reference["inputs"]))
    for kind, tolerance in (("nngp", 1e-13), ("ntk", 1e-9)):
        expected = np.array(reference[kind])
        matrix = found[kind].matrix * np.exp(found[kind].log_diagonal.max())
        assert np.abs(matrix - expected).max() < tolerance * np.diag(expected).max()
        assert np.abs(np.exp(found[kind].log_diagonal) / np.diag(expected) - 1).max() < tolerance


@pytest.mark.parametrize(
    "fields",
    [
        {"gain": 2**0.5},
        {"activation": "gelu", "bias_variance": 0.2, "gain": 1.3},
        {"activation": "tanh", "norm": "layer", "bias_variance": 0.1},
        {"activation": "softplus", "norm": "rms"},
        {"activation": "hardtanh"},
        {"activation": "selu", "gain": 0.9, "activation_gain": 1.2},
    ],
    ids=str,
)
@pytest.mark.parametrize("lengths", ["equal", "mixed"])
def test_kernels_of_chains_equal_those_of_their_own_engine(fields: dict[str, object], lengths: str) -> None:
    inputs = np.random.default_rng(5).standard_normal((6, 4))
    if lengths == "equal":
        inputs /= np.sqrt((inputs**2).mean(axis=1, keepdims=True))
    spec = Spec(width=4, depth=5, **fields)
    quick, general = network_kernels(spec, inputs), kernels_by_steps(spec, inputs, ("nngp", "ntk"))
    for kind, (matrix, logs, _) in general.items():
        assert np.abs(quick[kind].matrix - matrix).max() < 1e-10
        assert np.abs(quick[kind].log_diagonal - logs).max() < 1e-10


@pytest.mark.parametrize(("name", "least"), [("gelu", 1e-8), ("tanh", 1e-8), ("relu", 0.0)])
def test_the_error_of_sampled_kernels_is_stated(name: str, least: float) -> None:
    """Against other points, whose own errors add up over layers; the kernel of relu is an integral."""
    inputs = np.random.default_rng(3).standard_normal((6, 9))
    kernel = network_kernels(Spec(width=9, depth=3, activation=name, norm="batch"), inputs, kinds=("nngp",))["nngp"]
    steps = batch_norm_chain(inputs @ inputs.T / 9, 3, name, samples=1 << 17)
    size = float(np.diag(steps[-1].gram).max())
    apart = np.abs(kernel.matrix - steps[-1].gram / size).max()
    assert least < kernel.error < 0.01
    assert apart < kernel.error + sum(float(np.max(step.error)) for step in steps) / size
    assert bool(kernel.warnings) == (least > 0.0)
    assert not least or "sampled" in kernel.warnings[0]


def test_a_spec_and_the_documented_network_are_one_kernel() -> None:
    """The network of `kernel_matrices("relu", x, 3)` spelled as a spec: x sees no 1/d there, so features are √d·x."""
    inputs = np.random.default_rng(0).standard_normal((5, 7))
    documented = kernel_matrices("gelu", inputs, 3, bias=0.1)
    steps = " > ".join(["dense > bias(0.1) > act('gelu')"] * 3)
    spelled = kernel_matrices(Spec(f"input(7) > {steps} > dense(1) > bias(0.1)"), np.sqrt(7) * inputs)
    for kind in ("nngp", "ntk"):
        assert np.abs(documented[kind].matrix - spelled[kind].matrix).max() < 1e-12
        assert np.abs(documented[kind].log_diagonal - spelled[kind].log_diagonal).max() < 1e-12


def test_a_spec_with_options_of_an_activation_is_refused() -> None:
    with pytest.raises(IsometerError, match="bias"):
        kernel_matrices(Spec("input(2) > dense(3) > act('relu') > dense"), np.eye(2), bias=0.5)
    with pytest.raises(IsometerError, match="depth"):
        kernel_matrices("relu", np.eye(2))


def tangent_kernel(spec: Spec, inputs: np.ndarray, seed: int, features: int) -> np.ndarray:
    """The mean tangent kernel of a few outputs of one wide network."""
    network = Wide(spec, seed)
    out = network.outputs(inputs)[-1].flatten(1)  # (n, d)
    parameters = [*(one for _, one, _ in network.weights), *(one for one, _ in network.biases)]
    rows = []
    for sample in range(len(inputs)):
        for feature in range(features):
            grads = torch.autograd.grad(out[sample, feature], parameters, retain_graph=True, allow_unused=True)
            rows.append(torch.cat([g.flatten() for g in grads if g is not None]))
    jacobian = torch.stack(rows).reshape(len(inputs), features, -1)
    return np.asarray(torch.einsum("ica,jca->ij", jacobian, jacobian).numpy() / features)


@pytest.mark.parametrize(
    "text",
    [
        "input(20) > dense(256) > residual(residual(act('tanh') > dense) > dense(gain=0.5)) > dense(64)",
        "input(20) > dense(256) > norm('batch') > act('tanh') > dense(64)",
        "input(20) > dense(256) > product(dense > act('sigmoid'), dense) > residual(norm('layer') > dense) > dense(64)",
        "input(20, [3, 2]) > conv(2, 256) > norm('batch') > act('relu') > conv(2, 64) > pool",
        "input(20, [5]) > conv(3, 256, stride=2, dilation=2, padding='zeros') > norm('batch') > act('relu') > "
        "conv(2, 64) > flatten",
        "input(20, [4, 3]) > conv(3, 256) > norm('group:4') > act('relu') > conv(2, 64) > pool",
        "input(20, [6]) > conv(3, 256) > act('tanh') > pool('max', 2) > conv(2, 64) > pool",
        "input(20, [5]) > conv(3, 256, dilation=2, padding='reflect') > act('relu') > "
        "conv(3, groups=256) > conv(1, 64) > pool",
    ],
)
def test_tangent_kernels_describe_wide_networks(text: str) -> None:
    """What neural-tangents has not: skips inside skips, batch norm over samples and positions, gates, maxima, dilation,
    group norm, depthwise convolutions. Eight networks of width 256.

    Six standard errors and a bias of three weights over the width; so a theory that is 30 % off is found in every one
    of these networks, and one that is 10 % off in most.
    """
    spec = Spec(text)
    inputs = np.random.default_rng(2).standard_normal((5, 20, *spec.shape.axes))
    found = network_kernels(spec, inputs)["ntk"]
    matrix = found.matrix * np.exp(found.log_diagonal.max())
    drawn = np.stack([tangent_kernel(spec, inputs, seed, 12) for seed in range(8)])
    error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
    allowed = 6 * error + 3 / 256 * np.diag(matrix).max()
    assert (np.abs(drawn.mean(axis=0) - matrix) < allowed).all()
    for wrong in (0.7, 1.3):
        assert (np.abs(drawn.mean(axis=0) - wrong * matrix) > allowed).any()


def test_tangent_kernels_of_jumps_are_refused() -> None:
    spec = Spec("input(4) > dense(8) > act('sign') > dense(3)")
    with pytest.raises(NotCovered, match="jumps"):
        network_kernels(spec, np.eye(4))
    assert network_kernels(spec, np.eye(4), kinds=("nngp",))["nngp"].condition_number == pytest.approx(1.0)


def test_duplicates_and_zeros_are_named() -> None:
    spec = Spec("input(2) > dense(8) > act('relu') > dense(3)")
    same = network_kernels(spec, [[1.0, 2.0], [1.0, 2.0]], kinds=("nngp",))["nngp"]
    assert same.condition_number == np.inf
    assert "0 and 1 are the same" in str(same.singular)
    zero = network_kernels(spec, [[1.0, 2.0], [0.0, 0.0]], kinds=("nngp",))["nngp"]
    assert "input 1 is the zero vector" in str(zero.singular)
