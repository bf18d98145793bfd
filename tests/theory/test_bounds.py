"""Published bounds as functions: hand-computed values, where they hold, and where what is printed is contradicted."""

import math

import numpy as np
import pytest

from isometer import IsometerError
from isometer.activations import registry
from isometer.theory import KernelMap, kernel_map
from isometer.theory.kernels import _bounds as bounds

LAYERS = np.arange(81)
STARTS = (-0.99, -0.5, -0.1, 0.05, 0.3, 0.6, 0.9, 0.99, 0.9999)
SOURCES = [
    *(name for name in registry() if name not in ("identity", "celu", "gelu_tanh", "hardsigmoid")),
    "leaky_relu(0.1)",
    "normalized(relu)",
    "normalized(gelu)",
    "normalized(exp)",
    "normalized(abs)",
    "x**2 + 0.3*x",
    "x**3 + 0.1",
]
# 001/thm-5.11 case 1 prints the rate 1/κ'(1); these centred activations have κ'(0) > 1/κ'(1) or exceed it midway
CASE_1_CONTRADICTED = {
    "sign", "cube", "selu", "hardtanh", "softsign", "tanh", "arctan", "sin", "erf", "normrelu",
    "normalized(relu)", "normalized(abs)",
}  # fmt: skip
CENTRED = {*CASE_1_CONTRADICTED, "normalized(gelu)", "normalized(exp)"}
CASE_4_CONTRADICTED = {"square", "x**2 + 0.3*x"}
_KERNELS: dict[str, KernelMap] = {}


def kernel(name: str) -> KernelMap:
    return _KERNELS.setdefault(name, kernel_map(name))


def potential_path(k: KernelMap, start: float) -> np.ndarray:
    """Ψ(ρ_ℓ), with 1 − |ρ| taken from the gap where the cosine is close to one."""
    path = k.iterate(start, int(LAYERS[-1]))
    size = np.abs(path.cosine)
    return size / np.where(path.cosine > 0.5, path.gap, 1 - size)


# --- values by hand ---------------------------------------------------------------------------------------------------


def test_values_by_hand() -> None:
    assert bounds.potential(0.75) == 3.0
    assert bounds.potential(-0.75) == 3.0
    assert bounds.potential(1.0) == math.inf
    assert bounds.centred_rate(0.5) == pytest.approx(2 / 3)
    assert bounds.centred_potential_bound(0.75, 2, 0.5) == 0.75
    assert bounds.centred_cosine_bound(0.75, 2, 0.5) == 0.75
    np.testing.assert_allclose(bounds.centred_potential_bound([0.5, 0.75], 1, 0.5), [0.5, 1.5])
    # L₀(0.01) = ⌈log 50/log 1.5⌉ = ⌈9.648⌉, B = 1 − 0.01·1.5^L, then ½·½^{L − 10}
    assert bounds.separation_depth(0.01, 1.0) == 10
    assert bounds.correlation_bound(4, 0.01, 1.0) == pytest.approx(1 - 0.01 * 1.5**4)
    assert bounds.correlation_bound(13, 0.01, 1.0) == pytest.approx(0.0625)
    assert bounds.correlation_bound(2, 0.01, 1.0) == bounds.correlation_bound(2.0, 0.01, 1.0)
    np.testing.assert_allclose(bounds.one_layer_bound([0.0, 0.2, 0.5, 0.8, 1.0], 0.4), [1, 0.76, 0.4, 0.16, 0])
    assert bounds.one_layer_product_bound(0.2, 0.4) == pytest.approx(0.8 * 0.92)
    # ⌈log(0.5/0.02)/log(1.125)⌉ = ⌈27.33⌉, ⌈1/0.03⌉ = 34
    assert bounds.uncentred_depth(0.01, 0.5, 0.5, 0.25) == 28
    assert bounds.uncentred_depth(0.01, 0.5, 0.5, 0.03) == 34
    assert bounds.uncentred_depth(0.01, 0.5, 1.0, 0.03) == 34
    # ⌈log 20/−log 0.991⌉ = ⌈331.4⌉
    assert bounds.knife_edge_depth(0.1, 0.18, 0.318) == 332
    assert bounds.knife_edge_depth(0.4, 1.0, 0.01) == 100
    assert bounds.normalized_rate(3.0, 1.0, 4.0) == 0.5


def test_the_four_cases_as_printed() -> None:
    tanh = kernel("tanh")
    first = bounds.global_convergence_bound(tanh, -0.5, [0, 1, 2])
    assert (first.case, first.quantity, first.reference) == (1, "|ρ|/(1 − |ρ|)", "001/thm-5.11:case-1")
    np.testing.assert_allclose(first.values, tanh.slope_at_one ** -np.array([0.0, 1, 2]))
    second = bounds.global_convergence_bound(kernel("cos"), 0.5, [0, 3])
    np.testing.assert_allclose(second.values, [0.5, 0.5 * math.tanh(1) ** 3], rtol=1e-13)
    third = bounds.global_convergence_bound(kernel("exp"), -1 + 1e-9, [0, 10])
    np.testing.assert_allclose(third.values, [2, 2 / (20 * (1 - 2 / math.e) + 1)], rtol=1e-8)
    # square: κ(0) = 1/3, ρ* = 1/2, κ'(ρ*) = 2/3 → α = max{2/3, 2/3, (1/2)/(4/3)}
    fourth = bounds.global_convergence_bound(kernel("square"), 0.75, [0, 2])
    assert (fourth.case, fourth.quantity) == (4, "|ρ − ρ*|")
    assert fourth.rate == pytest.approx(2 / 3, rel=1e-14)
    np.testing.assert_allclose(fourth.values, [1, 4 / 9], rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.separation_depth(0.0, 0.5), "δ must lie in"),
        (lambda: bounds.separation_depth(1.5, 0.5), "δ must lie in"),
        (lambda: bounds.separation_depth(0.1, 0.0), "non-linearity must lie in"),
        (lambda: bounds.separation_depth(math.nan, 0.5), "δ must lie in"),
        (lambda: bounds.knife_edge_depth(0.6, 0.5, 0.5), "ε in"),
        (lambda: bounds.uncentred_depth(0.1, 0.5, 0.5, 0.0), "σ̂"),
        (lambda: bounds.uncentred_bound(kernel("tanh"), 0.1, 3), "uncentred"),
        (lambda: bounds.uncentred_bound(kernel("relu"), 0.1, 3), "knife_edge_depth"),
        (lambda: bounds.global_convergence_bound(kernel_map("identity"), 0.1, 3), "linear"),
        (lambda: bounds.global_convergence_bound(kernel("relu"), 1.0, 3), r"ρ₀ in \(−1, 1\)"),
    ],
)
def test_bounds_refuse_what_their_theorems_exclude(call: object, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        call()


# --- where they hold --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
def test_theorem_5_8_holds_for_centred_activations(name: str) -> None:
    """Ψ(ρ_ℓ) ≤ Ψ(ρ₀)/(2 − κ'(0))^ℓ; every activation is centred by layer norm after it."""
    k = kernel(name)
    if k.case != 1:
        k = kernel_map(name, norm="layer", norm_position="post")
    rate = bounds.centred_rate(k.slope_at_zero)
    assert k.one_step_supremum() <= rate + 1e-9
    for start in STARTS:
        limit = bounds.centred_potential_bound(start, LAYERS, rate)
        assert np.all(potential_path(k, start) <= limit * (1 + 1e-9))
        if start > 0:  # 001/cor-5.10
            cosine = np.abs(k.iterate(start, int(LAYERS[-1])).cosine)
            assert np.all(cosine <= bounds.centred_cosine_bound(start, LAYERS, rate) * (1 + 1e-9))


@pytest.mark.parametrize("name", SOURCES)
def test_one_layer_and_deep_correlation_bounds_hold(name: str) -> None:
    """004/lem-21, 004/lem-22 (004/thm-3 at infinite width) for the normalised activation."""
    k = kernel(name) if kernel(name).case == 1 else kernel_map(name, norm="layer", norm_position="post")
    mu = k.effective.nonlinearity
    delta = np.linspace(0, 1, 401)
    product = bounds.one_layer_product_bound(delta, mu)
    assert np.all(k(1 - delta) <= product + 1e-12)
    assert np.all(np.abs(k(delta - 1)) <= k(1 - delta) + 1e-12)
    assert np.all(product <= bounds.one_layer_bound(delta, mu) + 1e-15)
    for start in STARTS:
        limit = np.array([bounds.correlation_bound(float(depth), 1 - abs(start), mu) for depth in LAYERS])
        assert np.all(np.abs(k.iterate(start, int(LAYERS[-1])).cosine) <= limit * (1 + 1e-9) + 1e-15)


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in CENTRED])
def test_uncentred_bounds_hold(name: str) -> None:
    """004/lem-35 (004/thm-11) and, on the knife edge, 004/lem-36."""
    k = kernel(name)
    assert k.case != 1
    if k.case == 3:
        for epsilon in (0.3, 0.05):
            depth = bounds.knife_edge_depth(epsilon, k.effective.nonaffinity, k.at_zero)
            assert all(k.iterate(start, depth).gap[-1] <= epsilon for start in (-0.999999, *STARTS))
        return
    for start in STARTS:
        distance = k.iterate(start, int(LAYERS[-1])).distance
        limit = np.array([bounds.uncentred_bound(k, 1 - abs(start), int(depth)) for depth in LAYERS])
        assert np.all(distance <= limit * (1 + 1e-9) + 1e-14)
    assert (
        math.isfinite(limit[-1])
        or bounds.uncentred_depth(1 - abs(STARTS[-1]), k.effective.nonaffinity, k.fixed_point, k.at_zero) > LAYERS[-1]
    )


def excess(k: KernelMap, start: float) -> np.ndarray:
    """What happens over what 001/thm-5.11 prints, per layer; 0 where what happens is below rounding."""
    printed = bounds.global_convergence_bound(k, start, LAYERS)
    if k.case == 1:
        actual = potential_path(k, start)
    else:
        path = k.iterate(start, int(LAYERS[-1]))
        actual = path.distance if k.case == 4 else path.gap
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(actual > 1e-13, actual / printed.values, 0.0)


@pytest.mark.parametrize("name", SOURCES)
def test_theorem_5_11_holds_except_where_listed(name: str) -> None:
    k = kernel(name)
    violated = any(np.any(excess(k, start) > 1 + 1e-9) for start in STARTS)
    assert violated == (name in CASE_1_CONTRADICTED | CASE_4_CONTRADICTED)


# --- where what is printed is contradicted ----------------------------------------------------------------------------


def test_theorem_5_11_case_1_is_contradicted_by_tanh() -> None:
    """Printed rate 1/κ'(1) = 0.849, true rate κ'(0) = 0.9305: one layer from ρ₀ = ½ already breaks it."""
    k = kernel("tanh")
    assert k.case == 1
    assert 1 / k.slope_at_one < 0.85 < 0.93 < k.slope_at_zero
    assert bounds.potential(k(0.5)) == pytest.approx(0.89592, abs=1e-5)
    assert bounds.global_convergence_bound(k, 0.5, 1).values == pytest.approx(0.84904, abs=1e-5)


def test_theorem_5_11_case_1_prints_rate_zero_for_sign() -> None:
    k = kernel("sign")
    assert bounds.global_convergence_bound(k, 0.5, 1).values == 0.0
    assert k(0.5) == pytest.approx(1 / 3, rel=1e-14)


def test_theorem_5_11_case_1_by_hand_for_cube() -> None:
    """κ = (9ρ + 6ρ³)/15: κ'(1) = 9/5 prints 5/9, but κ'(0) = 3/5 is larger."""
    k = kernel("cube")
    assert 1 / k.slope_at_one == pytest.approx(5 / 9, rel=1e-13)
    assert k.rate == pytest.approx(3 / 5, rel=1e-13)
    assert excess(k, 0.5)[40] > 10


def test_theorem_5_15_is_contradicted_by_relu_with_layer_norm() -> None:
    """α = (κ(1) − κ(0))/κ'(1) = 0.6817 for relu, while cosines shrink by κ'(0)/(κ(1) − κ(0)) = 0.7335."""
    k = kernel_map("relu", norm="layer", norm_position="post")
    dual = k.activation.dual
    alpha = bounds.normalized_rate(dual.second_moment, dual.at_zero, dual.slope_at_one)
    assert alpha == pytest.approx(1 - 1 / math.pi, rel=1e-13)
    assert k.rate == pytest.approx(0.25 / (0.5 - 0.5 / math.pi), rel=1e-13)
    limit = bounds.centred_potential_bound(0.5, LAYERS, alpha)
    assert np.any(potential_path(k, 0.5) > 1.05 * limit)


def test_theorem_5_11_case_4_is_contradicted_by_square() -> None:
    """κ = (1 + 2ρ²)/3, ρ* = ½, α = 2/3. From ρ₀ = 0.99 the path first has to leave 1, where it moves by 4/3 only."""
    rho, layers = 0.99, 14
    for _ in range(layers):
        rho = (1 + 2 * rho * rho) / 3
    printed = (0.99 - 0.5) / (1 - 0.99) * (2 / 3) ** layers
    assert rho - 0.5 == pytest.approx(0.20515, abs=1e-5)
    assert printed == pytest.approx(0.16785, abs=1e-5)
    assert excess(kernel("square"), 0.99)[layers] == pytest.approx((rho - 0.5) / printed, rel=1e-9)


def test_corollary_5_10_is_negative_for_negative_cosines() -> None:
    k = kernel("tanh")
    printed = bounds.centred_cosine_bound(-0.5, 1, bounds.centred_rate(k.slope_at_zero))
    assert printed < 0 < abs(k(-0.5))


def test_theorem_5_11_case_3_is_not_sharp_for_relu() -> None:
    """The printed O(1/ℓ) holds, but the truth is O(1/ℓ²)."""
    k = kernel("relu")
    assert excess(k, 0.0)[80] < 0.15
    assert k.asymptote[1] == 2.0
