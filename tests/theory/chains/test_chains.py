"""Chains at infinite width: two inputs, gradients, kernels and where they settle, against independent recursions."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from isometer import IsometerError, KernelMap, Spec, explain
from isometer.spec import chain_from_options, recurrence
from isometer.theory.chains import ChainLayer, chain_kernels, chain_path, phase_of, settled
from isometer.theory.kernels import kernel_matrix
from isometer.theory.prediction import predict

CASES = [
    {"activation": phi, "norm": norm, "norm_position": place, "gamma": gamma, "gain": gain, "bias_variance": bias}
    for phi, norm, place, gamma, gain, bias in itertools.product(
        ("tanh", "relu", "gelu", "softplus"), ("none", "layer", "rms"), ("pre", "post", "sum"), (None, 0.5),
        (None, 1.1), (0.0, 0.2),
    )
    if not (place == "sum" and gamma is None) and not (norm == "none" and place != "pre")
]  # fmt: skip


@pytest.mark.parametrize("case", random.Random(1).sample(CASES, 14))
def test_paths_gradients_and_kernels_are_those_of_predict(case: dict[str, object]) -> None:
    depth, square, cosine = 5, 1.3, 0.4
    spec = chain_from_options(width=50, depth=depth, **case)  # type: ignore[arg-type]
    gram = square * np.array([[1.0, cosine], [cosine, 1.0]])
    found = predict(spec, gram=gram, metrics=["mean_cosine", "gradient_log_norm"])
    cosines, gradients = (found[name].values[0] for name in ("mean_cosine", "gradient_log_norm"))
    path = chain_path(spec, cosine=cosine, mean_square=square)
    np.testing.assert_allclose(path.cosine, cosines, atol=1e-12)
    np.testing.assert_allclose(path.gap, 1 - cosines, atol=1e-12)
    # the gradient by the input, of a cotangent of unit variance: √(samples · features) where nothing changes its size
    assert path.log_gradient[depth] / 2 == pytest.approx(gradients[0] - math.log(100) / 2, abs=1e-9)
    inputs = np.linalg.cholesky(gram) * math.sqrt(2)
    kernel = chain_kernels(spec, inputs, kinds=("nngp",)).matrices["nngp"]
    assert kernel.matrix[0, 1] / kernel.matrix[0, 0] == pytest.approx(cosines[depth], abs=1e-12)


@pytest.mark.parametrize("place", ["pre", "post", "sum"])
def test_kernels_have_the_size_of_what_layers_hand_on(place: str) -> None:
    """The diagonal of the NNGP is the mean square that `predict` gives, inputs of several lengths included."""
    inputs = np.random.default_rng(0).standard_normal((4, 7)) * np.array([[1.0], [0.5], [2.0], [1.0]])
    for gamma in (None, 0.7):
        if place == "sum" and gamma is None:
            continue
        spec = chain_from_options(
            width=40, depth=3, activation="tanh", norm="rms", norm_position=place, gamma=gamma, gain=1.3,  # type: ignore[arg-type]
            bias_variance=0.1, input_width=None if gamma else 7,
        )  # fmt: skip
        kernel = chain_kernels(spec, inputs, kinds=("nngp",)).matrices["nngp"]
        whole = kernel.matrix * math.exp(float(kernel.log_diagonal.max()))
        from isometer.theory.prediction._forward import Forward

        gram = Forward(spec).path(inputs @ inputs.T / 7).layers[-1].output
        np.testing.assert_allclose(whole, gram, atol=1e-11)


def test_kernels_of_the_papers_network() -> None:
    """004/eq-1 keeps the inputs as they are: the network that `kernel_matrix` documents."""
    inputs = np.random.default_rng(1).standard_normal((5, 6))
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    spec = recurrence("004/eq-1", width=30, depth=9, activation="normalized(gelu)", input_width=6)
    for kind in ("nngp", "ntk"):
        own = chain_kernels(spec, inputs, kinds=(kind,)).matrices[kind]
        old = kernel_matrix("normalized(gelu)", inputs, 9, kind)  # type: ignore[arg-type]
        np.testing.assert_allclose(own.matrix, old.matrix, atol=1e-13)


def test_a_tangent_kernel_by_its_definition() -> None:
    """Θ of dense > repeat(residual(act > dense > bias)) > norm-free readout, summed over the weights by hand."""
    gamma, gain, bias, depth = 0.6, 1.2, 0.3, 3
    inputs = np.array([[1.0, 0.2], [0.4, 1.1]])
    spec = chain_from_options(
        width=20, depth=depth, activation="relu", gamma=gamma, gain=gain, bias_variance=bias, norm="rms",
        norm_position="sum",
    )  # fmt: skip
    found = chain_kernels(spec, inputs, kinds=("ntk",)).matrices["ntk"]
    kernel = inputs @ inputs.T / 2
    tangent = kernel.copy()
    for _ in range(depth):
        size = np.sqrt(np.outer(np.diag(kernel), np.diag(kernel)))
        angle = np.arccos(np.clip(kernel / size, -1, 1))
        both = size * (np.sin(angle) + (math.pi - angle) * np.cos(angle)) / (2 * math.pi)
        slopes = (math.pi - angle) / (2 * math.pi)
        branch = gain**2 * both + bias
        kernel, tangent = kernel + gamma**2 * branch, tangent * (1 + gamma**2 * gain**2 * slopes) + gamma**2 * branch
        root = np.sqrt(np.outer(np.diag(kernel), np.diag(kernel)))
        kernel, tangent = kernel / root, tangent / root
    whole = found.matrix * math.exp(float(found.log_diagonal.max()))
    np.testing.assert_allclose(whole, kernel + tangent, rtol=1e-10)


@pytest.mark.parametrize(
    ("activation", "place"), [("tanh", "pre"), ("gelu", "pre"), ("softplus", "pre"), ("relu", "post")]
)
def test_a_norm_inside_the_branch_makes_the_approach_algebraic(activation: str, place: str) -> None:
    """|ρ − ρ*| ~ depth^−(1 − κ′(ρ*)) near ρ*: the slope in a doubly logarithmic plot, between 250 and 1,000 layers.

    In log depth cosines follow dρ/d(log ℓ) = κ(ρ) − ρ, so that the exponent is reached only near ρ*: from cosine 0.5 a
    million layers would not do for the small ones.
    """
    card = explain(activation, norm="layer", norm_position=place, residual=0.7)  # type: ignore[arg-type]
    way = card.approach
    assert way.form == "algebraic"
    assert way.fixed_point is not None
    assert way.exponent is not None
    cosine = card.path(way.fixed_point - 1e-3, 1000).cosine
    distance = np.abs(cosine - way.fixed_point)
    slope = math.log(distance[1000] / distance[250]) / math.log(4)
    assert slope == pytest.approx(-way.exponent, rel=0.01)


def test_where_the_edge_makes_it_logarithmic() -> None:
    """ReLU has κ′(1) = 1: 1 − ρ ≈ 9π²/2/(log depth)², approached from above by terms of lower order."""
    card = explain("relu", norm="rms", residual=1.0)
    assert (card.approach.form, card.approach.exponent) == ("logarithmic", 2.0)
    gap = card.path(0.0, 4000).gap
    # 1/√gap grows by √2/(3π) for every unit of log depth
    growth = (gap[4000] ** -0.5 - gap[500] ** -0.5) / math.log(8)
    assert growth == pytest.approx(math.sqrt(2) / (3 * math.pi), rel=0.05)


def test_a_norm_after_the_sum_is_the_kernel_map_with_a_residual() -> None:
    for activation in ("tanh", "gelu", "relu"):
        card = explain(activation, norm="layer", norm_position="sum", residual=0.5)
        kernel = KernelMap(activation, residual=0.5)
        assert card.approach.by_kernel_map
        np.testing.assert_allclose(card.path(0.5, 30).cosine, kernel.iterate(0.5, 30).cosine, atol=1e-13)
        assert settled(card.layer).chi == pytest.approx(kernel.slope_at_one, rel=1e-12)


def test_signals_that_grow_have_no_last_layer() -> None:
    layer = ChainLayer.of(chain_from_options(activation="tanh", norm="layer", gamma=0.5))
    with pytest.raises(IsometerError, match="lets the signal grow with depth"):
        settled(layer)
    assert phase_of(layer).growing
    # a homogeneous activation without a norm keeps its map, however large the signal
    assert settled(ChainLayer.of(chain_from_options(gamma=0.5))).chi == pytest.approx(1.0)


def test_where_chains_with_biases_settle() -> None:
    for options in (
        {"activation": "gelu", "norm": "rms", "bias_variance": 0.1},
        {"activation": "tanh", "norm": "layer", "norm_position": "post", "bias_variance": 0.2, "gain": 1.4},
        {"activation": "tanh", "gain": 1.5, "bias_variance": 0.05},
    ):
        spec = chain_from_options(depth=400, **options)  # type: ignore[arg-type]
        found = settled(ChainLayer.of(spec))
        reached = float(chain_path(spec, cosine=0.3).cosine[-1])
        assert found.cosine == pytest.approx(reached, abs=max(1e-8, 2 * found.rate**400))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (Spec(width=8, depth=2, norm="batch"), "a norm over samples has no map of two inputs"),
        (Spec(width=8, depth=2, gain=(1.0, 2.0)), "gain changes from layer to layer"),
        (Spec(width=8, depth=2, norm="layer", order=("norm", "activation", "weights")), "has no short name"),
        (Spec(width=8, depth=2, weights="asymmetric"), "have a mean"),
        (Spec(width=8, depth=2, gain=0.0), "the gain is 0"),
    ],
)
def test_what_has_no_map_of_two_inputs(spec: Spec, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        ChainLayer.of(spec)  # type: ignore[arg-type]
