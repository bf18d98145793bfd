"""Kernel maps: closed forms, cases, fixed points, rates, asymptotes, accurate iteration, and finite width."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from isometer import ActivationError, IsometerError, activation
from isometer.activations import registry
from isometer.theory import KNIFE_EDGE, KernelMap, kernel_map
from support.references import generate

RHO = np.linspace(-1, 1, 201)


# --- closed forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kappa", "slope"),
    [
        ("exp", lambda r: np.exp(r - 1), lambda r: np.exp(r - 1)),
        ("sign", lambda r: 2 / np.pi * np.arcsin(r), lambda r: 2 / np.pi / np.sqrt(1 - r * r)),
        ("sin", lambda r: np.sinh(r) / np.sinh(1), lambda r: np.cosh(r) / np.sinh(1)),
        ("cos", lambda r: np.cosh(r) / np.cosh(1), lambda r: np.sinh(r) / np.cosh(1)),
        ("square", lambda r: (1 + 2 * r * r) / 3, lambda r: 4 * r / 3),
        ("cube", lambda r: (9 * r + 6 * r**3) / 15, lambda r: (9 + 18 * r * r) / 15),
        ("identity", lambda r: r, lambda r: np.ones_like(r)),
        (
            "relu",
            lambda r: (np.sqrt(1 - r * r) + (np.pi - np.arccos(r)) * r) / np.pi,
            lambda r: 1 - np.arccos(r) / np.pi,
        ),
        ("abs", lambda r: (np.sqrt(1 - r * r) + r * np.arcsin(r)) * 2 / np.pi, lambda r: np.arcsin(r) * 2 / np.pi),
        ("erf", lambda r: np.arcsin(2 * r / 3) / np.arcsin(2 / 3), None),
        ("gaussian", lambda r: np.sqrt(5 / (9 - 4 * r * r)), None),
        ("step", lambda r: 0.5 + np.arcsin(r) / np.pi, None),
        ("gain(erf, 3)", lambda r: np.arcsin(18 * r / 19) / np.arcsin(18 / 19), None),
        ("exp(2*x + 1)", lambda r: np.exp(4 * (r - 1)), None),
        ("2*x + 1", lambda r: (1 + 4 * r) / 5, lambda r: np.full_like(r, 0.8)),
    ],
)
def test_closed_forms(name: str, kappa: object, slope: object) -> None:
    k = kernel_map(name)
    np.testing.assert_allclose(k(RHO), kappa(RHO), rtol=0, atol=4e-15)
    if slope is not None:
        inside = RHO[1:-1]
        np.testing.assert_allclose(k.slope(inside), slope(inside), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", registry())
def test_kernels_map_correlations_to_correlations(name: str) -> None:
    """001/claim-5.fix: what comes out can be put in again, rounding included."""
    k = kernel_map(name)
    values = k(RHO)
    assert k(1.0) == 1.0
    assert np.max(np.abs(values)) <= 1.0
    k(values)


def test_quadrature_agrees_with_closed_forms() -> None:
    """The same function, once recognised and once opaque."""
    for name, function in (("relu", lambda x: np.maximum(x, 0)), ("sign", np.sign), ("square", np.square)):
        known, opaque = kernel_map(name), kernel_map(function)
        np.testing.assert_allclose(opaque(RHO), known(RHO), rtol=0, atol=1e-10)
        gaps = np.geomspace(1e-15, 1, 16)
        np.testing.assert_allclose(opaque.gap_after(gaps), known.gap_after(gaps), rtol=1e-9)


# --- cases, fixed points, rates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "case", "fixed", "points"),
    [
        ("tanh", 1, 0.0, (-1.0, 0.0, 1.0)),
        ("sign", 1, 0.0, (-1.0, 0.0, 1.0)),
        ("normalized(relu)", 1, 0.0, (0.0, 1.0)),
        ("normalized(exp)", 1, 0.0, (0.0, 1.0)),
        ("softplus", 2, 1.0, (1.0,)),
        ("sigmoid", 2, 1.0, (1.0,)),
        ("gaussian", 2, 1.0, (1.0,)),
        ("2*x + 1", 2, 1.0, (1.0,)),
        ("relu", 3, 1.0, (1.0,)),
        ("leaky_relu(0.1)", 3, 1.0, (1.0,)),
        ("abs", 3, 1.0, (1.0,)),
        ("exp", 3, 1.0, (1.0,)),
        ("square", 4, 0.5, (0.5, 1.0)),
        ("gelu", 4, 0.760402, (0.760402, 1.0)),
        ("step", 4, 0.7898326, (0.7898326, 1.0)),
    ],
)
def test_cases_and_all_fixed_points(name: str, case: int, fixed: float, points: tuple[float, ...]) -> None:
    k = kernel_map(name)
    assert k.case == case
    assert k.fixed_point == pytest.approx(fixed, abs=5e-7)
    assert k.fixed_points == pytest.approx(points, abs=5e-7)
    for point in k.fixed_points:
        assert k(point) == pytest.approx(point, abs=2e-14)
    # and there is no other: κ(ρ) − ρ changes sign only there
    grid = np.linspace(-1, 1, 4001)[1:-1]
    crossings = np.flatnonzero(np.diff(np.sign(k(grid) - grid)) != 0)
    inner = [p for p in k.fixed_points if -1 < p < 1]
    assert all(min(abs(grid[i] - p) for p in inner) < 2e-3 for i in crossings)


def test_exact_values_of_rates() -> None:
    square = kernel_map("square")
    assert square.fixed_point == pytest.approx(0.5, abs=2e-16)
    assert square.slope_at_fixed_point == pytest.approx(2 / 3, rel=1e-14)
    assert square.rate_form == "exponential"
    assert square.depth_scale == pytest.approx(-1 / math.log(2 / 3), rel=1e-13)
    assert kernel_map("sin").rate == pytest.approx(1 / math.sinh(1), rel=1e-14)
    assert kernel_map("sign").rate == pytest.approx(2 / math.pi, rel=1e-14)
    assert kernel_map("cos").rate == pytest.approx(math.tanh(1), rel=1e-14)
    assert kernel_map("sign").slope_at_one == math.inf
    assert kernel_map("relu").depth_scale == math.inf
    assert kernel_map("relu").rate is None


def test_superexponential_rates() -> None:
    k = kernel_map("normalized(square)")  # κ = ρ²
    assert (k.rate_form, k.rate_exponent, k.depth_scale, k.rate) == ("superexponential", 2.0, 0.0, None)
    path = k.iterate(0.5, 6)
    np.testing.assert_allclose(path.cosine, 0.5 ** (2.0 ** np.arange(7)), rtol=1e-12)
    third = kernel_map("x**3 - 3*x")  # √6 he₃: κ = ρ³
    assert third.rate_exponent == 3.0
    assert third.iterate(0.5, 3).cosine[-1] == pytest.approx(0.5**27, rel=1e-12, abs=0)


@pytest.mark.parametrize("offset", [-1e-3, -1e-6, -1e-8, 1e-8, 1e-6, 1e-3])
def test_both_sides_of_the_knife_edge(offset: float) -> None:
    """exp(g x): κ = e^{g²(ρ−1)}, κ'(1) = g². Above one the fixed point solves ρ = e^{g²(ρ−1)}, 1 − ρ ≈ 2·offset."""
    k = kernel_map(activation("exp").gain(math.sqrt(1 + offset)))
    assert k.slope_at_one == pytest.approx(1 + offset, rel=1e-14)
    assert k.case == (4 if offset > 0 else 2)
    if offset > 0:
        with mp.workdps(40):
            q = mpf(k.slope_at_one)
            exact = 1 + mp.lambertw(-q * mp.exp(-q)) / q
        # κ'(1) − 1 is known to 1e-16 only, hence the gap to 1e-16/offset
        assert k.fixed_point_gap == pytest.approx(float(exact), rel=max(1e-12, 1e-14 / offset), abs=0)


def test_within_the_knife_edge_counts_as_on_it() -> None:
    k = kernel_map(activation("exp").gain(math.sqrt(1 + KNIFE_EDGE / 3)))
    assert k.case == 3
    assert k.fixed_point == 1.0


# --- normalisation and residual branches ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "gelu", "tanh", "softplus", "leaky_relu(0.1)"])
def test_norms_and_positions(name: str) -> None:
    """001/thm-5.15: post-activation layer norm centres, every other combination only scales."""
    unit, centred = kernel_map(name), kernel_map(f"normalized({name})")
    for norm in ("none", "layer", "rms"):
        for position in ("pre", "post"):
            k = kernel_map(name, norm=norm, norm_position=position)
            same = centred if (norm, position) == ("layer", "post") else unit
            np.testing.assert_allclose(k(RHO), same(RHO), rtol=0, atol=1e-14)
            assert k.case == same.case
            assert k.fixed_point == pytest.approx(same.fixed_point, abs=1e-13)
    raw = activation(name)
    expected = (raw.kernel(RHO) - raw.kernel(0.0)) / (raw.kernel(1.0) - raw.kernel(0.0))
    np.testing.assert_allclose(kernel_map(name, norm="layer", norm_position="post")(RHO), expected, rtol=0, atol=1e-12)


def test_normalised_maps_state_the_error_of_the_normalised_map() -> None:
    """Centring divides by a variance 4e4 times smaller than the second moment, and the error grows with it."""
    k = kernel_map("sigmoid(0.01*x)", norm="layer", norm_position="post")
    coefficients = generate.smooth_coefficients(lambda x: 1 / (1 + mp.exp(-mpf(0.01) * x)))
    squares = [c * c for c in coefficients[1:]]
    for rho in (-0.9, 0.3, 0.9):
        exact = mp.fsum(a * mpf(rho) ** (i + 1) for i, a in enumerate(squares)) / mp.fsum(squares)
        assert abs(k(rho) - float(exact)) <= max(3 * k.error, 1e-15)


@pytest.mark.parametrize("gamma", [0.1, 1.0, 3.0])
def test_residual_branches(gamma: float) -> None:
    weight = gamma**2 / (1 + gamma**2)
    for name in ("relu", "tanh", "gelu", "exp"):
        plain, k = kernel_map(name), kernel_map(name, residual=gamma)
        np.testing.assert_allclose(k(RHO), weight * plain(RHO) + (1 - weight) * RHO, rtol=0, atol=1e-14)
        assert k.case == plain.case
        assert k.fixed_point == pytest.approx(plain.fixed_point, abs=1e-12)
        assert k.slope_at_one == pytest.approx(weight * plain.slope_at_one + 1 - weight, rel=1e-13)
        assert k.slope_at_fixed_point == pytest.approx(weight * plain.slope_at_fixed_point + 1 - weight, rel=1e-12)
        gaps = np.array([1e-15, 1e-8, 0.3])
        np.testing.assert_allclose(k.gap_after(gaps), weight * plain.gap_after(gaps) + (1 - weight) * gaps, rtol=1e-13)


def test_residual_slows_the_algebraic_decay() -> None:
    plain, half = kernel_map("exp"), kernel_map("exp", residual=1.0)
    assert half.asymptote == pytest.approx((2 * plain.asymptote[0], 1.0))
    assert kernel_map("relu", residual=1.0).asymptote == pytest.approx((4 * kernel_map("relu").asymptote[0], 2.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"norm": "batch"}, "norm must be 'none', 'layer' or 'rms'; got 'batch'"),
        ({"norm_position": "middle"}, "norm_position must be 'pre' or 'post'; got 'middle'"),
        ({"residual": 0.0}, "residual strength must be positive"),
        ({"residual": -1.0}, "residual strength must be positive"),
        ({"residual": math.nan}, "residual strength must be positive"),
    ],
)
def test_bad_settings(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        kernel_map("relu", **arguments)


def test_bad_arguments_of_values_and_iterations() -> None:
    k = kernel_map("relu")
    for rho in (1.1, -2.0, math.nan):
        with pytest.raises(ActivationError, match=r"must lie in \[−1, 1\]"):
            k(rho)
        with pytest.raises(ActivationError, match=r"must lie in \[−1, 1\]"):
            k.slope(rho)
        with pytest.raises(ActivationError, match=r"must lie in \[−1, 1\]"):
            k.iterate(rho, 3)
    for gap in (-1e-3, 2.5, math.nan):
        with pytest.raises(IsometerError, match=r"must lie in \[0, 2\]"):
            k.gap_after(gap)
        with pytest.raises(IsometerError, match=r"must lie in \[0, 2\]"):
            k.iterate(gap=gap, depth=3)
    with pytest.raises(IsometerError, match="either the cosine rho or the gap"):
        k.iterate(0.5, 3, gap=0.5)
    with pytest.raises(IsometerError, match="either the cosine rho or the gap"):
        k.iterate(depth=3)
    for depth in (-1, 2.5):
        with pytest.raises(IsometerError, match="depth must be a whole number"):
            k.iterate(0.5, depth)


# --- affine edge cases ------------------------------------------------------------------------------------------------


def test_linear_layers_change_nothing() -> None:
    for text in ("identity", "-3*x", "relu(x) - relu(-x)"):
        k = kernel_map(text)
        assert (k.case, k.fixed_point, k.rate_form, k.depth_scale) == (None, None, "none", math.inf)
        np.testing.assert_allclose(k.iterate(0.3, 20).cosine, 0.3, rtol=1e-14)
        assert np.isnan(k.iterate(0.3, 2).distance).all()
        with pytest.raises(IsometerError, match="every cosine is a fixed point"):
            _ = k.fixed_points


def test_affine_layers_collapse() -> None:
    k = kernel_map("x + 1")  # κ = (1 + ρ)/2
    assert (k.case, k.fixed_point, k.rate) == (2, 1.0, pytest.approx(0.5, rel=1e-14))
    np.testing.assert_allclose(k.iterate(gap=1.0, depth=40).gap, 0.5 ** np.arange(41), rtol=1e-12)


def test_constants_have_no_centred_kernel() -> None:
    constant = activation(lambda x: 0 * x + 2.0)
    assert kernel_map(constant)(np.array([-0.5, 0.0, 1.0])) == pytest.approx([1, 1, 1])
    with pytest.raises(ActivationError, match="constant"):
        kernel_map(constant, norm="layer", norm_position="post")(0.5)


# --- iteration --------------------------------------------------------------------------------------------------------


def mp_gap_after(name: str) -> object:
    """gap ↦ 1 − κ(1 − gap) in high precision."""

    def relu(d: mpf) -> mpf:
        theta = 2 * mp.asin(mp.sqrt(d / 2))
        return 1 - (mp.sin(theta) + (mp.pi - theta) * (1 - d)) / mp.pi

    def square(d: mpf) -> mpf:
        return d * (4 - 2 * d) / 3

    return {
        "relu": relu,
        "exp": lambda d: -mp.expm1(-d),
        "sign": lambda d: 4 / mp.pi * mp.asin(mp.sqrt(d / 2)),
        "step": lambda d: 2 / mp.pi * mp.asin(mp.sqrt(d / 2)),
        "square": square,
    }[name]


@pytest.mark.parametrize(
    ("name", "tolerance"), [("exp", 1e-11), ("relu", 1e-11), ("sign", 1e-11), ("step", 1e-11), ("square", 1e-11)]
)
def test_a_thousand_layers_from_nearly_equal_inputs(name: str, tolerance: float) -> None:
    """From 1 − ρ = 1e-15, everything that is small stays accurate in relative terms."""
    depth, k = 1000, kernel_map(name)
    path, step = k.iterate(gap=1e-15, depth=depth), mp_gap_after(name)
    with mp.workdps(360):
        fixed = {"sign": mpf(0), "square": mpf(1) / 2}.get(name, mpf(1))
        if name == "step":
            fixed = mp.findroot(lambda r: step(1 - r) - (1 - r), mpf("0.79"))
        gap, exact_gap, exact_distance = mpf(1e-15), [], []
        for _ in range(depth + 1):
            exact_gap.append(float(gap))
            exact_distance.append(float(abs(1 - gap - fixed)))
            gap = step(gap)
    np.testing.assert_allclose(path.gap, exact_gap, rtol=tolerance)
    # ρ* itself is a double: what is below its rounding is relative to the rounded one
    exact = np.array(exact_distance)
    seen = exact > 1e-300
    np.testing.assert_allclose(path.distance[seen], exact[seen], rtol=1e-9)


def test_collapse_of_relu_and_exp_has_the_stated_asymptote() -> None:
    """1 − ρ_ℓ ~ C/ℓ^p: relu 9π²/2 · ℓ^−2, exp 2/ℓ; corrections are O(log ℓ/ℓ)."""
    relu, exp = kernel_map("relu"), kernel_map("exp")
    assert relu.asymptote == pytest.approx((4.5 * math.pi**2, 2.0), rel=1e-13)
    assert exp.asymptote == pytest.approx((2.0, 1.0), rel=1e-13)
    depth = 20_000
    for k in (relu, exp):
        constant, power = k.asymptote
        gap = k.iterate(0.0, depth).gap[[depth // 100, depth // 10, depth]]
        layers = np.array([depth // 100, depth // 10, depth], dtype=float)
        error = np.abs(gap * layers**power / constant - 1)
        assert np.all(np.diff(error) < 0)
        assert error[-1] < 20 * math.log(depth) / depth


def test_asymptote_of_a_kinked_function_with_smooth_parts() -> None:
    """A leaky relu bends by 1 − a: B = (1 − a)²/(π(1 + a²)), C = 9/2B²."""
    a = 0.3
    constant, power = kernel_map("leaky_relu(0.3)").asymptote
    assert power == 2.0
    assert constant == pytest.approx(4.5 / ((1 - a) ** 2 / (math.pi * (1 + a * a))) ** 2, rel=1e-8)


@pytest.mark.parametrize("name", ["tanh", "sign", "sin", "hardtanh"])
def test_odd_functions_mirror(name: str) -> None:
    """−1 + 2⁻⁴⁰ is exact in binary, so the two paths are mirror images to rounding."""
    k, gap = kernel_map(name), 2.0**-40
    up, down = k.iterate(gap=gap, depth=200), k.iterate(-1 + gap, depth=200)
    assert down.cosine[1] == pytest.approx(-up.cosine[1], rel=1e-15)
    assert 1 + down.cosine[1] == pytest.approx(up.gap[1], rel=5e-4, abs=0)
    assert down.cosine[-1] == pytest.approx(-up.cosine[-1], rel=1e-9, abs=0)
    assert down.distance[-1] == pytest.approx(up.distance[-1], rel=1e-9, abs=0)
    assert k.iterate(-1.0, 10).cosine[-1] == pytest.approx(-1.0, abs=1e-15)


@pytest.mark.parametrize("name", registry())
def test_every_activation_iterates_from_the_ends(name: str) -> None:
    k = kernel_map(name)
    for start in (-1.0, -1.0 + 2.3e-16, 0.0, 1.0):
        path = k.iterate(start, 30)
        assert np.all(np.abs(path.cosine) <= 1)
        assert np.all((path.gap >= 0) & (path.gap <= 2))
    assert k.iterate(1.0, 30).gap[-1] == 0.0


def test_iteration_agrees_with_repeated_application() -> None:
    for name in ("gelu", "tanh", "elu", "softplus"):
        k, rho = kernel_map(name), -0.35
        path = k.iterate(rho, 25)
        for layer in range(26):
            assert path.cosine[layer] == pytest.approx(rho, abs=1e-13)
            assert path.gap[layer] == pytest.approx(1 - rho, abs=1e-13)
            rho = k(rho)


def test_measured_rate_equals_the_stated_one() -> None:
    for name in ("gelu", "tanh", "elu", "softplus", "square", "hardtanh"):
        k = kernel_map(name)
        distance = k.iterate(0.31, 400).distance
        usable = np.flatnonzero(distance > 1e-250)[-1]
        assert distance[usable] / distance[usable - 1] == pytest.approx(k.rate, rel=1e-6), name


# --- finite width -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["gaussian", "rademacher"])
def test_finite_width_networks_follow_the_map(weights: str) -> None:
    """001/prop-5.1 and 001/prop-5.2: an MLP of width 2000 against κ∘κ∘κ.

    One layer averages d products φ(x)φ(y) of variance at most v; a layer passes an error on with factor κ' ≤ 1 here, so
    three layers deviate by at most √(3v/d) in standard deviation. With six networks the mean is known to √(v/2d) ≈ 0.02
    for v = 1.6; the threshold of four such deviations has a false alarm rate below 1e-4 and a power above 0.999 against
    a shift of 0.15, as a wrong gain or the map of another activation would give.
    """
    width, layers, networks = 2000, 3, 6
    rng = np.random.default_rng(20240)
    for name, wrong in (("unit(relu)", "normalized(relu)"), ("unit(tanh)", "unit(sign)")):
        phi, start = activation(name), 0.6
        measured = []
        for _ in range(networks):
            x = rng.standard_normal((width, 2))
            x, _ = np.linalg.qr(x)
            h = math.sqrt(width) * np.stack([x[:, 0], start * x[:, 0] + math.sqrt(1 - start**2) * x[:, 1]], axis=1)
            for _ in range(layers):
                if weights == "gaussian":
                    w = rng.standard_normal((width, width), dtype=np.float32)
                else:
                    w = rng.integers(0, 2, (width, width), dtype=np.int8).astype(np.float32) * 2 - 1
                h = phi((w @ h.astype(np.float32)).astype(float) / math.sqrt(width))
            measured.append(h[:, 0] @ h[:, 1] / width)
        expected, other = (kernel_map(n).iterate(start, layers).cosine[-1] for n in (name, wrong))
        deviation = math.sqrt(1.6 / (2 * width))
        assert abs(np.mean(measured) - expected) < 4 * deviation
        assert abs(np.mean(measured) - other) > 4 * deviation, "the test has no power"


def test_repr_says_what_the_map_is() -> None:
    assert repr(KernelMap("relu", norm="rms", residual=0.5)) == (
        "KernelMap('relu', norm='rms', norm_position='pre', residual=0.5)"
    )
