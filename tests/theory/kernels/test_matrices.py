"""Kernel matrices: diagonals, positivity, lengths, norms, bad input, bounds and diagnosis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from isometer.errors import IsometerError
from isometer.theory.kernels import (
    Batch,
    SignalFamily,
    SphereKernel,
    conditioning_bounds,
    diagnose_kernel,
    kernel_matrices,
    kernel_matrix,
)
from isometer.theory.kernels import _kernel_matrix as kernels
from isometer.theory.kernels._mixed_lengths import Architecture
from support.batches import sphere

# --- exact values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [0, 1, 2, 31, 32, 33, 1000, 10**6])
def test_tangent_diagonal_of_relu_is_depth_plus_one(depth: int) -> None:
    kernel = kernel_matrix("unit(relu)", sphere(3, 4), depth, "ntk")
    np.testing.assert_allclose(np.exp(kernel.log_diagonal), depth + 1, rtol=1e-13)
    assert (np.diag(kernel.matrix) == 1.0).all()


def test_tangent_diagonal_is_a_geometric_sum_that_may_overflow() -> None:
    kernel = SphereKernel("normalized(cube)", 3000)
    slope = SignalFamily("normalized(cube)").slope_second(1.0)  # 1.8
    assert kernel.log_diagonal("ntk") == pytest.approx(3001 * math.log(slope) - math.log(slope - 1), rel=1e-13)
    assert kernel.log_diagonal("ntk") > 1000


def test_linear_network_keeps_the_gram_matrix() -> None:
    x = np.random.default_rng(1).standard_normal((5, 7))
    for depth in (0, 1, 50, 10**6):
        both = kernel_matrices("identity", x, depth)
        gram = x @ x.T
        np.testing.assert_allclose(both["nngp"].matrix, gram / gram.max(), atol=1e-10)
        np.testing.assert_allclose(both["ntk"].log_diagonal, np.log((depth + 1) * np.diag(gram)), rtol=1e-12)


def test_depth_zero_ignores_the_activation_and_adds_the_bias() -> None:
    x = np.random.default_rng(1).standard_normal((3, 2))
    kernel = kernel_matrix("tanh", x, 0, "ntk", bias=0.5)
    gram = x @ x.T + 0.5
    np.testing.assert_allclose(kernel.matrix * np.exp(kernel.log_diagonal.max()), gram, rtol=1e-13)


def test_second_moment_below_one_shrinks_the_diagonal() -> None:
    kernel = kernel_matrices("relu", 3.0 * sphere(3, 4), 10)
    np.testing.assert_allclose(np.exp(kernel["nngp"].log_diagonal), 9 / 2**10)
    np.testing.assert_allclose(np.exp(kernel["ntk"].log_diagonal), 9 * 11 / 2**10)


@pytest.mark.parametrize(
    "name", ["unit(relu)", "normalized(gelu)", "unit(tanh)", "sign", "unit(exp)", "unit(elu)", "gelu"]
)
def test_positive_semidefinite_and_symmetric(name: str) -> None:
    x = sphere(90, 5)
    x[1] = x[0] + 1e-6 * x[2]
    x[1] /= np.linalg.norm(x[1])
    for depth in (1, 40, 1000):
        for kind in ("nngp",) if name == "sign" else ("nngp", "ntk"):
            kernel = kernel_matrix(name, x, depth, kind)
            assert (kernel.matrix == kernel.matrix.T).all()
            assert kernel.eigenvalues[0] > -1e-11 * kernel.eigenvalues[-1]


# --- lengths, biases, norms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tanh", "gelu", "softplus", "unit(relu)"])
@pytest.mark.parametrize(("norm", "position"), [("none", "pre"), ("rms", "pre"), ("rms", "post"), ("layer", "post")])
@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_layer_by_layer_agrees_with_the_sphere(name: str, norm: Any, position: Any, bias: float) -> None:
    """The general path on inputs of one length against the depth-free one."""
    x = 1.3 * sphere(6, 5)
    layout = {"bias": bias, "norm": norm, "norm_position": position}
    fast = kernel_matrices(name, x, 4, **layout)
    net = Architecture(bias, norm, position)
    slow = kernels._by_layers(SignalFamily(name), Batch.of(x), 4, ("nngp", "ntk"), net)
    for kind, kernel in fast.items():
        np.testing.assert_allclose(kernel.matrix, slow[kind][0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(kernel.log_diagonal, slow[kind][1], rtol=0, atol=1e-12)


def test_quadrature_for_kinks_and_several_lengths() -> None:
    """hardtanh has no fast series; on equal lengths quadrature pair by pair agrees with the angle series."""
    x = 1.2 * sphere(3, 4)
    fast = kernel_matrices("hardtanh", x, 1)
    slow = kernels._by_layers(SignalFamily("hardtanh"), Batch.of(x), 1, ("nngp", "ntk"), Architecture())
    for kind, kernel in fast.items():
        np.testing.assert_allclose(kernel.matrix, slow[kind][0], rtol=0, atol=1e-11)


def test_homogeneous_lengths_factor_out() -> None:
    x = sphere(4, 6)
    scale = np.array([0.1, 1.0, 5.0, 20.0])
    plain, scaled = kernel_matrices("relu", x, 30), kernel_matrices("relu", x * scale[:, None], 30)
    for kind in ("nngp", "ntk"):
        expected = plain[kind].matrix * np.outer(scale, scale) / 400
        np.testing.assert_allclose(scaled[kind].matrix, expected, rtol=1e-12)
        np.testing.assert_allclose(scaled[kind].log_diagonal, plain[kind].log_diagonal + 2 * np.log(scale))


def test_norm_before_the_activation_forgets_lengths() -> None:
    x = np.random.default_rng(0).standard_normal((5, 4))
    for kind in ("nngp", "ntk"):
        a = kernel_matrix("tanh", x, 6, kind, norm="rms")
        b = kernel_matrix("tanh", x / np.linalg.norm(x, axis=1, keepdims=True), 6, kind, norm="layer")
        np.testing.assert_allclose(a.matrix, b.matrix, atol=1e-13)


def test_several_lengths_against_monte_carlo_free_formula() -> None:
    """erf has E erf(u)erf(v) = (2/π) asin(2c/√((1 + 2p)(1 + 2q))) for any variances (Williams)."""
    x = np.random.default_rng(5).standard_normal((4, 3))
    kernel = kernel_matrix("erf", x, 1)
    gram = x @ x.T
    size = 1 + 2 * np.diag(gram)
    expected = 2 / np.pi * np.arcsin(2 * gram / np.sqrt(np.outer(size, size)))
    np.testing.assert_allclose(kernel.matrix * np.exp(kernel.log_diagonal.max()), expected, atol=1e-12)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (np.ones(3), "shape"),
        (np.ones((2, 3, 4)), "shape"),
        (np.ones((0, 3)), "shape"),
        (np.array([[1.0, np.nan]]), "NaN"),
        (np.array([[1.0, np.inf]]), "infinite"),
        (np.array([["a"]]), "real numbers"),
        (np.array([[1j]]), "real numbers"),
        ([[1.0], [1.0, 2.0]], "array of numbers"),
    ],
)
def test_bad_inputs_are_named(inputs: Any, words: str) -> None:
    with pytest.raises(IsometerError, match=words):
        kernel_matrix("relu", inputs, 2)


@pytest.mark.parametrize("depth", [-1, 1.5, True])
def test_bad_depths(depth: Any) -> None:
    with pytest.raises(IsometerError, match="whole number"):
        kernel_matrix("relu", np.eye(2), depth)


def test_bad_options() -> None:
    with pytest.raises(IsometerError, match="batch norm"):
        kernel_matrix("relu", np.eye(2), 1, norm="batch")  # type: ignore[arg-type]
    with pytest.raises(IsometerError, match="kind"):
        kernel_matrix("relu", np.eye(2), 1, "gp")  # type: ignore[arg-type]
    with pytest.raises(IsometerError, match="bias variance"):
        kernel_matrix("relu", np.eye(2), 1, bias=-1.0)
    with pytest.raises(IsometerError, match="jumps"):
        kernel_matrix("sign", np.eye(2), 1, "ntk")


def test_diverging_length_map_names_its_layer() -> None:
    with pytest.raises(IsometerError, match=r"diverges.*layer 3"):
        kernel_matrix("exp", np.eye(2), 10)
    with pytest.raises(IsometerError, match=r"cube diverges.*layer \d"):
        kernel_matrix("cube", 2 * np.eye(2), 30)
    with pytest.raises(IsometerError, match=r"diverges.*layer \d"):
        kernel_matrix("exp", np.array([[1.0, 0.0], [0.0, 0.5]]), 10)


def test_variance_that_never_settles_is_named() -> None:
    """tanh at unit gain is critical with q* = 0: the variance falls like 1/depth."""
    assert np.isfinite(kernel_matrix("tanh", np.eye(2), 300, "ntk").log_diagonal).all()
    layers = SphereKernel("tanh", 1).layers
    layers.patience = 50
    with pytest.raises(IsometerError, match="still changing at layer 51"):
        layers.stages(10**6)
    assert kernel_matrix("unit(tanh)", np.eye(2), 10**6, "ntk").condition_number == pytest.approx(1.0)


def test_duplicates_are_singular_and_said_so() -> None:
    x = sphere(5, 8)
    x[4] = x[1]
    kernel = kernel_matrix("normalized(relu)", x, 20)
    assert kernel.singular is not None
    assert "1 and 4 are the same" in kernel.singular
    assert kernel.condition_number == math.inf
    found = diagnose_kernel(kernel)
    assert found is not None
    assert "singular by construction" in found.text
    x[4] = 3 * x[1]
    assert "point the same way" in (kernel_matrix("relu", x, 3).singular or "")
    assert kernel_matrix("tanh", x, 3).singular is None  # another length is another input to tanh


def test_one_input_and_huge_inputs() -> None:
    assert kernel_matrix("tanh", [[0.5, 0.5]], 3).condition_number == 1.0
    assert kernel_matrix("relu", 1e150 * np.eye(2), 3).log_diagonal[0] > 600
    with pytest.raises(IsometerError, match="rescale"):
        kernel_matrix("relu", 1e200 * np.eye(2), 3)


def test_memory_stays_below_three_matrices() -> None:
    import tracemalloc

    x, n = sphere(1000, 16), 1000
    kernel_matrices("unit(relu)", x[:100], 100)
    tracemalloc.start()
    kernel_matrices("unit(relu)", x, 100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * n * n * 8 + 3e6  # and three megabytes of tables


# --- bounds and diagnosis ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["normalized(relu)", "unit(tanh)", "normalized(gelu)", "unit(sin)", "normalized(softplus)"]
)
@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_bounds_of_the_paper_hold_where_they_apply(name: str, kind: Any) -> None:
    x = sphere(8, 12)
    for depth in (1, 5, 30, 200, 1000):
        checks = conditioning_bounds(kernel_matrix(name, x, depth, kind))
        assert all(check.holds for check in checks if check.applies)
    assert sum(check.applies for check in checks) >= 4


def test_bounds_do_not_apply_without_their_hypotheses() -> None:
    checks = conditioning_bounds(kernel_matrix("unit(relu)", sphere(4, 5), 10))
    assert not any(check.applies for check in checks)
    assert "E σ = 0" in checks[0].reason
    uncentred = conditioning_bounds(kernel_matrix("unit(gelu)", sphere(4, 5), 2000))
    assert [check.holds for check in uncentred if check.reference == "004/thm-11"] == [True]


def test_diagnosis_finds_the_depths() -> None:
    x = sphere(6, 9)
    found = diagnose_kernel(kernel_matrix("unit(relu)", x, 3000))
    assert found is not None
    assert found.phase == "critical"
    for name, eps in (("float16", 2.0**-10), ("bfloat16", 2.0**-7)):
        at = found.passes[name]
        assert at is not None
        assert kernel_matrix("unit(relu)", x, at).condition_number >= 1 / eps
        assert kernel_matrix("unit(relu)", x, at - 1).condition_number < 1 / eps
    assert "normalized(relu)" in found.text
    x[1] = x[0] + 1e-7 * x[2]
    close = diagnose_kernel(kernel_matrix("normalized(relu)", x / np.linalg.norm(x, axis=1, keepdims=True), 3))
    assert close is not None
    assert close.phase == "chaotic"
    assert close.recovers["float32"] is not None
