"""The algebra of activations, derivatives, kinks, and the identities that every Hermite expansion obeys."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.polynomial import hermite_e
from scipy import special

from isometer import Activation, ActivationError, activation
from isometer.activations import expectation, normrelu_constants, registry

X = np.linspace(-5.3, 5.7, 1201)


def orthonormal(order: int, x: np.ndarray) -> np.ndarray:
    """he_k(x) = He_k(x)/√k!, rows k = 0 … order."""
    rows = np.empty((order + 1, x.size))
    rows[0], rows[1] = 1.0, x
    for k in range(1, order):
        rows[k + 1] = (x * rows[k] - math.sqrt(k) * rows[k - 1]) / math.sqrt(k + 1)
    return rows


# --- names and arithmetic ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry())
def test_centre_scale_normalise(name: str) -> None:
    phi = activation(name)
    root = math.sqrt(phi.second_moment)
    assert phi.unit().second_moment == pytest.approx(1, rel=1e-14)
    assert abs(phi.centered().mean) <= 1e-15 * root
    normal = phi.normalized()
    assert abs(normal.mean) <= 1e-15
    assert normal.second_moment == pytest.approx(1, rel=1e-13)
    assert normal.variance == pytest.approx(1, rel=1e-13)
    np.testing.assert_allclose(normal(X), (phi(X) - phi.mean) / math.sqrt(phi.variance), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(phi.unit()(X), phi(X) / root, rtol=1e-14)
    np.testing.assert_allclose(phi.centered()(X), phi(X) - phi.mean, rtol=1e-14, atol=1e-15)
    assert phi.variance == pytest.approx(phi.second_moment - phi.mean**2, rel=1e-11)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("normalized(relu)", lambda: activation("relu").normalized()),
        ("centered(gelu)", lambda: activation("gelu").centered()),
        ("unit(relu)", lambda: activation("relu").unit()),
        ("gain(tanh, 0.5)", lambda: activation("tanh").gain(0.5)),
        ("shifted(relu, -0.25)", lambda: activation("relu").shifted(-0.25)),
        ("scaled(sin, 3)", lambda: activation("sin").scaled(3)),
        ("compose(tanh, relu)", lambda: activation("tanh").compose(activation("relu"))),
        ("normalized(gain(softplus, 2))", lambda: activation("softplus").gain(2).normalized()),
        ("unit(centered(leaky_relu(0.1)))", lambda: activation("leaky_relu(0.1)").centered().unit()),
        ("gain(normalized(elu), 0.7)", lambda: activation("elu").normalized().gain(0.7)),
        ("derivative(gelu)", lambda: activation("gelu").derivative),
    ],
)
def test_text_and_methods_are_the_same_activation(text: str, made: object) -> None:
    by_text, by_method = activation(text), made()
    assert by_text.name == text
    assert by_method.name == text
    assert by_text == by_method
    assert hash(by_text) == hash(by_method)
    np.testing.assert_array_equal(by_text(X), by_method(X))
    assert by_text != activation("identity")


def test_values_of_the_algebra() -> None:
    np.testing.assert_array_equal(activation("gain(tanh, 0.5)")(X), np.tanh(0.5 * X))
    np.testing.assert_array_equal(activation("compose(tanh, relu)")(X), np.tanh(np.maximum(X, 0)))
    np.testing.assert_array_equal(activation("shifted(relu, 1)")(X), np.maximum(X + 1, 0))
    np.testing.assert_array_equal(activation("scaled(exp, 2)")(X), 2 * np.exp(X))
    assert activation("relu").unit()(1.0) == pytest.approx(math.sqrt(2), rel=1e-15)
    nested = activation("compose(normalized(relu), gain(sin, 2))")
    relu = activation("relu")
    np.testing.assert_allclose(
        nested(X), (np.maximum(np.sin(2 * X), 0) - relu.mean) / math.sqrt(relu.variance), rtol=1e-14, atol=1e-15
    )


def test_a_constant_and_zero_cannot_be_normalised() -> None:
    flat = activation(lambda x: 0 * x + 3.0)
    with pytest.raises(ActivationError, match="constant"):
        flat.normalized()
    with pytest.raises(ActivationError, match="zero almost everywhere"):
        activation(lambda x: 0 * x).unit()
    with pytest.raises(ActivationError, match="constant"):
        _ = flat.nonlinearity


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_the_algebra_takes_finite_numbers(bad: float) -> None:
    for method in ("scaled", "gain", "shifted"):
        with pytest.raises(ActivationError, match="finite number"):
            getattr(activation("relu"), method)(bad)


def test_evaluation_keeps_shape_and_dtype() -> None:
    gelu = activation("gelu")
    assert isinstance(gelu(1), float)
    assert gelu(np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert gelu(np.float32([[1, 2]])).dtype == np.float32
    assert gelu([1, 2]).dtype == np.float64
    with pytest.raises(ActivationError, match="real numbers"):
        gelu(np.array([1j]))


def test_normrelu_closed_forms() -> None:
    for c in (-1.5975, 0.0, 0.8):
        b, scale = normrelu_constants(c)
        phi = activation(f"normrelu({c})")
        np.testing.assert_allclose(phi(X), scale * (np.maximum(X - c, 0) + b), rtol=1e-14, atol=1e-15)
        assert phi.mean == pytest.approx(0, abs=1e-15)
        assert phi.second_moment == pytest.approx(1, rel=1e-14)
    assert activation("normrelu(0)").kernel(0.3) == pytest.approx(activation("normalized(relu)").kernel(0.3), rel=1e-13)


# --- derivatives, kinks and jumps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*registry(), "normalized(gelu)", "gain(mish, 1.7)", "compose(sin, relu)"])
def test_derivatives_equal_differences(name: str) -> None:
    phi = activation(name)
    away = np.array([x for x in X if all(abs(x - k) > 0.01 for k in phi.kinks)])
    h = 1e-3  # five-point formula: error h⁴/30 of the fifth derivative, and rounding/h
    stencil = (8 * (phi(away + h) - phi(away - h)) - (phi(away + 2 * h) - phi(away - 2 * h))) / (12 * h)
    scale = 1 + np.abs(phi(away)) + np.abs(stencil)
    assert np.max(np.abs(phi.derivative(away) - stencil) / scale) < 3e-11


def test_second_derivatives_follow() -> None:
    x = X[np.abs(X) > 0.05]
    np.testing.assert_allclose(
        activation("tanh").derivative.derivative(x), -2 * np.tanh(x) / np.cosh(x) ** 2, atol=1e-14
    )
    np.testing.assert_array_equal(activation("relu").derivative.derivative(x), 0)


@pytest.mark.parametrize(
    ("name", "kinks"),
    [
        ("relu", [0]),
        ("tanh", []),
        ("gelu", []),
        ("hardtanh", [-1, 1]),
        ("hardtanh(-0.3, 2)", [-0.3, 2]),
        ("hardswish", [-3, 3]),
        ("softsign", [0]),
        ("normrelu(-1.5975)", [-1.5975]),
        ("gain(hardtanh, 0.5)", [-2, 2]),
        ("shifted(relu, 1)", [-1]),
        ("compose(relu, x**2 - 2)", [-math.sqrt(2), math.sqrt(2)]),
        ("relu(x) * sign(x - 1)", [0, 1]),
        ("max(x, 1 - x, 0.25)", [0.5]),
    ],
)
def test_kinks_of_expressions(name: str, kinks: list[float]) -> None:
    found = activation(name).kinks
    missing = [k for k in kinks if not np.any(np.abs(np.array(found) - k) < 1e-13)]
    assert not missing
    if not name.startswith("max("):  # ties of branches below the maximum are no kinks, but harmless
        assert found == pytest.approx(kinks, abs=1e-13)


def test_maximum_of_equal_branches_counts_the_slope_once() -> None:
    """max(x, relu(x)) is relu(x): the two branches agree on a half-line."""
    phi = activation("max(x, relu(x))")
    np.testing.assert_array_equal(phi.derivative([-1.0, 2.0]), [0, 1])
    assert phi.gain_backward == pytest.approx(math.sqrt(2), rel=1e-12)
    assert len(phi.kinks) <= 2
    np.testing.assert_array_equal(activation("max(x, x)").derivative([-1.0, 2.0]), [1, 1])


def test_jumps_and_slope_jumps() -> None:
    assert activation("sign").jumps == ((0.0, 2.0),)
    assert activation("step").jumps == ((0.0, 1.0),)
    assert activation("relu").jumps == ()
    assert activation("relu").slope_jumps == ((0.0, 1.0),)
    assert activation("elu").slope_jumps == ()
    assert activation("selu").slope_jumps[0][1] == pytest.approx(
        1.0507009873554805 * (1 - 1.6732632423543772), rel=1e-9
    )
    assert activation("softsign").slope_jumps == ()
    places, sizes = zip(*activation("step(x - 1) - 3*step(x + 2)").jumps, strict=True)
    assert places == pytest.approx((-2, 1), abs=1e-13)
    assert sizes == pytest.approx((-3, 1), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "odd"), [("tanh", True), ("sin", True), ("cube", True), ("sign", True), ("relu", False), ("abs", False)]
)
def test_parity(name: str, odd: bool) -> None:
    assert activation(name).is_odd is odd


def test_affine_functions_are_recognised() -> None:
    for text in ("x", "2*x - 3", "-(x + 1)/4", "relu(x) - relu(-x)"):
        assert activation(text).is_affine, text
        assert activation(text).nonlinearity == pytest.approx(0, abs=1e-14)
    for text in ("x + 0.001*x**2", "relu", "leaky_relu(0.99)"):
        assert not activation(text).is_affine, text


def test_nonlinearity_closed_forms() -> None:
    """004/tab-mu."""
    assert activation("relu").nonlinearity == pytest.approx((math.pi - 2) / (2 * math.pi - 2), rel=1e-14)
    assert activation("sign").nonlinearity == pytest.approx(1 - 2 / math.pi, rel=1e-14)
    assert activation("square").nonlinearity == 1.0
    assert activation("exp").nonlinearity == pytest.approx(1 - 1 / (math.e - 1), rel=1e-14)
    assert activation("sin").nonlinearity == pytest.approx(1 - 1 / math.sinh(1), rel=1e-13)
    assert activation("identity").nonlinearity == 0.0
    r = 2 / 3
    assert activation("erf").nonlinearity == pytest.approx(1 - r / math.asin(r), rel=1e-13)


# --- Hermite expansions -----------------------------------------------------------------------------------------------


def test_hermite_polynomials_are_orthonormal() -> None:
    for n in range(1, 9):
        coefficients = np.zeros(n + 1)
        coefficients[n] = 1 / math.sqrt(math.factorial(n))
        phi = activation(lambda x, c=coefficients: hermite_e.hermeval(x, c), name=f"he{n}")
        expected = np.eye(13)[n]
        np.testing.assert_allclose(phi.hermite(12), expected, atol=2e-12)
        assert phi.second_moment == pytest.approx(1, rel=1e-12)


def relu_coefficient(k: int) -> float:
    """c_k = (−1)^{k/2+1} (k − 3)!!/√(2π k!) for even k, ½ for k = 1, else 0."""
    if k % 2:
        return 0.5 if k == 1 else 0.0
    if k == 0:
        return 1 / math.sqrt(2 * math.pi)
    m = k // 2 - 1  # (2m − 1)!! = 2^m Γ(m + ½)/√π
    log = m * math.log(2) + special.gammaln(m + 0.5) - 0.5 * math.log(math.pi)
    return (-1) ** m * math.exp(log - 0.5 * special.gammaln(k + 1)) / math.sqrt(2 * math.pi)


def sign_coefficient(k: int) -> float:
    """c_k = 2·(−1)^{(k−1)/2} (k − 2)!!/√(2π k!) for odd k."""
    if k % 2 == 0:
        return 0.0
    m = (k - 1) // 2
    log = m * math.log(2) + special.gammaln(m + 0.5) - 0.5 * math.log(math.pi)
    return (-1) ** m * 2 * math.exp(log - 0.5 * special.gammaln(k + 1)) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(("name", "exact"), [("relu", relu_coefficient), ("sign", sign_coefficient)])
def test_coefficients_up_to_order_500(name: str, exact: object) -> None:
    computed = activation(name).hermite(500)
    expected = np.array([exact(k) for k in range(501)])
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-13)


def test_coefficients_of_smooth_functions_by_formula() -> None:
    k = np.arange(31)
    factorial = special.factorial(k)
    np.testing.assert_allclose(activation("exp").hermite(30), math.exp(0.5) / np.sqrt(factorial), atol=2e-14)
    waves = np.where(k % 2, (-1.0) ** ((k - 1) // 2), 0) * math.exp(-0.5) / np.sqrt(factorial)
    np.testing.assert_allclose(activation("sin").hermite(30), waves, atol=2e-15)
    with pytest.raises(ActivationError, match="order must be a whole number"):
        activation("relu").hermite(-1)


polynomials = st.lists(st.floats(-2, 2).map(lambda c: round(c, 3)), min_size=2, max_size=7).filter(
    lambda c: any(abs(a) > 0.05 for a in c[1:])
)


def as_text(coefficients: list[float]) -> str:
    return " + ".join(f"({c})*x**{k}" if k else f"({c})" for k, c in enumerate(coefficients))


inner = st.builds(lambda a, b: f"({a:.2f}*x + {b:.2f})", st.floats(0.3, 1.5), st.floats(-1, 1))
unary = st.sampled_from(["tanh", "sin", "erf", "sigmoid", "relu", "softplus", "cos", "gelu", "arctan", "abs"])
terms = st.builds(lambda a, f, u: f"{a:.2f}*{f}{u}", st.floats(0.2, 2), unary, inner)
smooth_unary = st.sampled_from(["tanh", "sin", "erf", "sigmoid", "softplus", "cos", "gelu", "arctan"])
smooth_terms = st.builds(lambda a, f, u: f"{a:.2f}*{f}{u}", st.floats(0.2, 2), smooth_unary, inner)
expressions = st.lists(terms, min_size=1, max_size=2).map(" + ".join)
smooth_expressions = st.lists(smooth_terms, min_size=1, max_size=3).map(" - ".join)
GRID = np.linspace(-1, 1, 41)
quick = settings(max_examples=10, deadline=None, derandomize=True)


@given(polynomials)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_polynomials_have_an_exact_expansion(coefficients: list[float]) -> None:
    phi = activation(as_text(coefficients))
    series = hermite_e.poly2herme(coefficients)
    exact = series * np.sqrt(special.factorial(np.arange(len(series))))
    assume(np.sum(exact**2) > 1e-6)
    scale = max(1.0, float(np.abs(exact).max()))
    computed = phi.hermite(len(exact) + 2)
    np.testing.assert_allclose(computed, [*exact, *[0] * (len(computed) - len(exact))], rtol=0, atol=2e-13 * scale)
    assert phi.second_moment == pytest.approx(np.sum(exact**2), rel=1e-12)  # Parseval
    powers = GRID[:, None] ** np.arange(len(exact))
    np.testing.assert_allclose(phi.kernel(GRID), powers @ exact**2, rtol=0, atol=1e-12 * scale**2)
    np.testing.assert_allclose(
        phi.kernel_slope(GRID), powers[:, :-1] @ (exact**2 * np.arange(len(exact)))[1:], rtol=0, atol=1e-11 * scale**2
    )


@given(smooth_expressions)
@quick
def test_kernel_is_the_power_series_of_squared_coefficients(text: str) -> None:
    """001/cor-5.7 by two independent routes: series up to order 300 against the dual."""
    phi = activation(text)
    squares = phi.hermite(300) ** 2
    assert math.fsum(squares) == pytest.approx(phi.second_moment, rel=1e-10)
    rho = np.linspace(-0.9, 0.9, 19)
    series = rho[:, None] ** np.arange(301) @ squares
    np.testing.assert_allclose(phi.kernel(rho), series, rtol=0, atol=1e-12 * max(1.0, phi.second_moment))


@pytest.mark.slow
@given(expressions)
@quick
def test_shape_of_every_kernel(text: str) -> None:
    phi = activation(text)
    assume(phi.second_moment > 1e-3)
    values, slopes, top = phi.kernel(GRID), phi.kernel_slope(GRID), phi.second_moment
    slack = 1e-12 * max(1.0, top)
    positive = GRID >= 0
    assert values[-1] == pytest.approx(top, rel=1e-12)
    assert np.all(np.diff(values[positive]) >= -slack)  # monotone on [0, 1]
    assert np.all(np.diff(values[positive], 2) >= -slack)  # convex on [0, 1]
    assert np.all(np.abs(values[::-1][positive]) <= values[positive] + slack)  # |κ(−ρ)| ≤ κ(ρ)
    assert np.all(slopes[positive] >= -slack)
    assert phi.kernel(0.0) == pytest.approx(phi.mean**2, abs=slack)
    assert phi.kernel_slope(0.0) == pytest.approx(phi.expectation(lambda x, y: x * y).value ** 2, abs=10 * slack)
    both = sorted({*phi.kinks, *(-k for k in phi.kinks)})
    mirrored = expectation(lambda x: phi(x) * phi(-x), kinks=both).value
    assert values[0] == pytest.approx(mirrored, abs=10 * slack)


@given(terms, st.floats(-3, 3).filter(lambda s: abs(s) > 0.1), st.floats(-2, 2))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_scale_and_shift_covariance(text: str, scale: float, shift: float) -> None:
    phi = activation(text)
    moved = Activation(scale * phi.expression + shift)
    expected = scale**2 * (phi.kernel(GRID) - phi.mean**2) + (scale * phi.mean + shift) ** 2
    size = 1 + scale**2 * phi.second_moment + shift**2
    np.testing.assert_allclose(moved.kernel(GRID), expected, rtol=0, atol=1e-13 * size)
    assert moved.second_moment == pytest.approx(expected[-1], abs=1e-13 * size)
    assert moved.variance == pytest.approx(scale**2 * phi.variance, abs=1e-13 * size)
    gaps = np.array([1e-12, 1e-6])
    np.testing.assert_allclose(moved.dual.deficit(gaps), scale**2 * phi.dual.deficit(gaps), rtol=1e-12)


@given(st.floats(-0.89, 0.89), st.floats(-2.5, 2.5), st.floats(-2.5, 2.5))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_mehler_identity(rho: float, x: float, y: float) -> None:
    """001/lem-5.6: Σ ρ^k he_k(x) he_k(y) is the ratio of the correlated to the independent density."""
    order = 150
    rows = orthonormal(order, np.array([x, y]))
    series = math.fsum(rho**k * rows[k, 0] * rows[k, 1] for k in range(order + 1))
    rest = 1 - rho * rho
    ratio = math.exp(-(rho * rho * (x * x + y * y) - 2 * rho * x * y) / (2 * rest)) / math.sqrt(rest)
    tail = abs(rho) ** (order + 1) / (1 - abs(rho)) * math.exp((x * x + y * y) / 4) * 1.2
    assert abs(series - ratio) <= tail + 1e-12 * max(1.0, ratio)


@given(st.integers(0, 6), st.integers(0, 6), st.floats(-1, 1))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_correlated_hermite_polynomials(n: int, k: int, rho: float) -> None:
    """E he_n(X) he_k(Y) = ρⁿ δ_nk, through the dual of their sum and difference (polarisation)."""
    assume(n + k > 0)
    a, b = np.zeros(n + 1), np.zeros(k + 1)
    a[n], b[k] = 1 / math.sqrt(math.factorial(n)), 1 / math.sqrt(math.factorial(k))
    plus = np.polynomial.polynomial.polyadd(hermite_e.herme2poly(a), hermite_e.herme2poly(b))
    minus = np.polynomial.polynomial.polysub(hermite_e.herme2poly(a), hermite_e.herme2poly(b))
    pair = [activation(as_text(list(c))).kernel(rho) if np.any(c[1:]) else float(c[0] ** 2) for c in (plus, minus)]
    # κ of f ± g: κ_f + κ_g ± 2E f(X)g(Y)
    assert (pair[0] - pair[1]) / 4 == pytest.approx(rho**n if n == k else 0.0, abs=1e-12)
