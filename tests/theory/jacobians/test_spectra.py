"""Jacobian spectra in theory: moments against closed forms, densities against closed forms and finite networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from mpmath import mp
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.spec import Spec
from isometer.theory import JacobianLaw, jacobian_moments, jacobian_spectrum

Floats = NDArray[np.float64]

# --- moments ----------------------------------------------------------------------------------------------------------


def _binomial(top: int, k: int) -> int:
    """The coefficient of z^k in (1 + z)^top, for negative powers too."""
    return comb(top, k) if top >= 0 else (-1) ** k * comb(k - top - 1, k)


def _product_moments(probability: Fraction, layers: int, gaussian: bool, order: int) -> Floats:
    """Of projections of rank p between weights, exactly, by Lagrange: m_k = [z^(k−1)] (z/χ)^k/k.

    z/χ = (1 + z)((p + z)/(1 + z))^L for Haar weights (Pennington et al. 2018), with (p + z)^L(1 + z) for Gaussian ones.
    """
    found = []
    for k in range(1, order + 1):
        outer = k if gaussian else k * (1 - layers)
        power = k * layers
        total = sum(
            _binomial(outer, k - 1 - j) * comb(power, j) * probability ** (power - j)
            for j in range(min(k - 1, power) + 1)
        )
        found.append(total / k)
    return np.array([float(m / found[0] ** (k + 1)) for k, m in enumerate(found)])


@pytest.mark.parametrize("layers", [1, 2, 5, 20])
def test_linear_gaussian_chains_have_fuss_catalan_moments(layers: int) -> None:
    law = jacobian_spectrum(Spec(width=8, depth=layers, activation="identity"))
    expected = [comb((layers + 1) * k, k) / (layers * k + 1) for k in range(1, 9)]
    np.testing.assert_allclose(law.moments(8), expected, rtol=1e-10)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("layers", [1, 3, 10])
def test_relu_chains(weights: str, layers: int) -> None:
    law = jacobian_spectrum(Spec(width=8, depth=layers, activation="relu", weights=weights))
    np.testing.assert_allclose(
        law.moments(8), _product_moments(Fraction(1, 2), layers, weights == "gaussian", 8), rtol=1e-9
    )
    assert law.log_mean_square == pytest.approx(-layers * math.log(2), rel=1e-14)
    assert law.zeros == 0.5


def test_hard_tanh_with_orthogonal_weights() -> None:
    """One layer slopes 1 with probability erf(1/√(2q)); the atom is what all layers leave."""
    law = jacobian_spectrum("input(8) > dense(weights='orthogonal', gain=1.3) > norm('rms') > act('hardtanh')")
    share = float(mp.erf(1 / mp.sqrt(2)))
    np.testing.assert_allclose(law.moments(6), (1 / share) ** np.arange(6), rtol=1e-12)
    deep = jacobian_spectrum("input(8) > repeat(dense(weights='orthogonal') > norm('rms') > act('hardtanh'), 3)")
    # the share is no fraction, but a double is
    np.testing.assert_allclose(deep.moments(6), _product_moments(Fraction(share), 3, False, 6), rtol=1e-9)
    assert deep.atom[1] == pytest.approx(1 - 3 * (1 - share), abs=1e-12)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("name", ["tanh", "gelu", "erf"])
def test_smooth_activations(name: str, weights: str) -> None:
    """Two moments against the sum rule, the third of one layer against mpmath: S by its first coefficients."""
    for depth in (1, 4):
        law = jacobian_spectrum(Spec(width=8, depth=depth, activation=name, weights=weights, gain=1.2))
        other = jacobian_moments(name, depth, weights=weights, weight_variance=1.44)  # type: ignore[arg-type]
        assert law.log_mean_square == pytest.approx(other.log_mean_square, abs=1e-11)
        assert law.moments(2)[1] - 1 == pytest.approx(other.relative_variance, rel=1e-10)
    slopes: dict[str, Callable[[mp.mpf], mp.mpf]] = {
        "tanh": lambda x: mp.sech(x) ** 2,
        "gelu": lambda x: mp.ncdf(x) + x * mp.npdf(x),
        "erf": lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x),
    }
    with mp.workdps(30):
        one, two, three = (
            mp.quad(lambda x, k=k: mp.npdf(x) * slopes[name](mp.mpf(1.2) * x) ** (2 * k), np.linspace(-12, 12, 13))
            for k in (1, 2, 3)
        )
        a, b = two / one**2, three / one**3
        # times Marchenko–Pastur (1, 2, 5): S-transforms multiply
        expected = b if weights == "orthogonal" else b + 3 * a + 1
    law = jacobian_spectrum(Spec(width=8, depth=1, activation=name, weights=weights, gain=1.2))
    assert law.moments(3)[2] == pytest.approx(float(expected), rel=1e-11)


def test_one_plus_a_gaussian_matrix() -> None:
    """|1 + W|²: w(1 + v)³ = v with ψ = 2v + v², so that E σ^2k = (2/k) C(3k + 1, k − 1)."""
    law = jacobian_spectrum("input(8) > residual(dense)")
    expected = [2 / k * comb(3 * k + 1, k - 1) / 2**k for k in range(1, 9)]
    np.testing.assert_allclose(law.moments(8), expected, rtol=1e-10)
    place = np.exp(law.log_squares)
    inside = (place > 1e-3) & (place < 6.7)
    for x, height in list(zip(place[inside], law.density[inside], strict=True))[::15]:
        w = 1 / x
        roots = np.roots([w, 3 * w, 3 * w - 1, w])
        assert height == pytest.approx(max((2 * roots + roots**2).imag) / math.pi, rel=1e-4)


def test_rectangular_chains_count_the_smaller_side() -> None:
    """A Gaussian 3 : 1 matrix: the Wishart moments 1 + c, 1 + 3c + c² of either side; zeros are those of the rank."""
    wide, narrow = (jacobian_spectrum(text) for text in ("input(30) > dense(10)", "input(10) > dense(30)"))
    for law in (wide, narrow):
        np.testing.assert_allclose(law.moments(3), [1.0, 1 + 1 / 3, 1 + 3 / 3 + 1 / 9], rtol=1e-12)
        assert law.zeros == 0.0
    assert narrow.mean_square == pytest.approx(3.0)
    assert [wide.partial_norm, narrow.partial_norm] == pytest.approx([1.0, 1.0])
    assert jacobian_spectrum("input(30) > dense(10) > dense(20)").zeros == pytest.approx(0.5)


def test_the_mass_and_the_mean_of_densities() -> None:
    for text in (
        "input(8) > repeat(dense > act('tanh'), 6)",
        "input(8) > repeat(dense(weights='orthogonal') > act('tanh'), 3)",
        "input(8) > repeat(residual(dense > act('relu') > dense, scale=0.5), 8)",
    ):
        law = jacobian_spectrum(text, points=150)
        assert law.error_estimate < 2e-4
        mean = np.trapezoid(law.density * np.exp(law.log_squares - law.log_mean_square), law.log_squares)
        assert mean == pytest.approx(1.0, abs=2e-3)


# --- against finite networks ------------------------------------------------------------------------------------------


def _distance(law: JacobianLaw, squares: Floats) -> float:
    """Kolmogorov's distance between the law and singular values, zeros apart."""
    place = np.sort(squares)
    found = np.abs(law.cdf(place) - (np.arange(len(place)) + 0.5) / len(place))
    return float(found[place > 1e-12].max())


def _haar(rng: np.random.Generator, width: int) -> Floats:
    q, r = np.linalg.qr(rng.standard_normal((width, width)))
    return np.asarray(q * np.sign(np.diag(r)))


def _tanh_chain(rng: np.random.Generator, width: int, h: Floats, blocks: int) -> Floats:
    jacobian = np.eye(width)
    for _ in range(blocks):
        w = _haar(rng, width) * 1.2
        z = w @ h
        h, jacobian = np.tanh(z), (1 - np.tanh(z) ** 2)[:, None] * (w @ jacobian)
    return jacobian


def _skips(rng: np.random.Generator, width: int, h: Floats, blocks: int) -> Floats:
    """x + W₂ tanh(W₁ x)."""
    jacobian = np.eye(width)
    for _ in range(blocks):
        first, second = rng.standard_normal((2, width, width)) / math.sqrt(width)
        z = first @ h
        h, jacobian = h + second @ np.tanh(z), jacobian + second @ ((1 - np.tanh(z) ** 2)[:, None] * first) @ jacobian
    return jacobian


def _open_skips(rng: np.random.Generator, width: int, h: Floats, blocks: int) -> Floats:
    """x + relu(W x): slopes of blocks commute."""
    jacobian = np.eye(width)
    for _ in range(blocks):
        z = rng.standard_normal((width, width)) / math.sqrt(width)
        on = (z @ h > 0).astype(float)
        jacobian, h = jacobian + on[:, None] * (z @ jacobian), h + on * (z @ h)
    return jacobian


def _layer_norm(rng: np.random.Generator, width: int, h: Floats, blocks: int) -> Floats:
    """x + W₂ relu(W₁ LN(x))/2, with the whole Jacobian of the norm."""
    jacobian = np.eye(width)
    for _ in range(blocks):
        first, second = rng.standard_normal((2, width, width)) / math.sqrt(width)
        centred = h - h.mean()
        size = math.sqrt((centred**2).mean())
        unit = centred / size
        norm = (np.eye(width) - 1 / width - np.outer(unit, unit) / width) / size
        z = first @ unit
        branch = 0.5 * second @ ((z > 0)[:, None] * (first @ norm))
        h, jacobian = h + 0.5 * second @ np.maximum(z, 0), jacobian + branch @ jacobian
    return jacobian


@pytest.mark.parametrize(
    ("text", "draw", "neighbour", "exact"),
    [
        (
            "dense(weights='orthogonal', gain=1.2) > act('tanh')",
            _tanh_chain,
            "dense(weights='orthogonal', gain=1.2) > act('erf')",
            True,
        ),
        ("residual(dense > act('tanh') > dense)", _skips, "residual(dense > act('tanh') > dense, scale=1.15)", True),
        ("residual(dense > act('relu'))", _open_skips, "residual(dense > act('relu'), scale=1.15)", False),
        (
            "residual(norm('layer') > dense > act('relu') > dense, scale=0.5)",
            _layer_norm,
            "residual(norm('layer') > dense > act('relu') > dense, scale=0.6)",
            True,
        ),
    ],
)
def test_densities_against_finite_networks(
    text: str, draw: Callable[[np.random.Generator, int, Floats, int], Floats], neighbour: str, exact: bool
) -> None:
    """Width 240, three blocks, three draws: eigenvalues are rigid, so the distance is a few over the width.

    The limit is 0.03. Power: the law of a network with branches larger by 15 % (20 %), or with erf in place of tanh, is
    further than that from the same draws.
    """
    width, rng = 240, np.random.default_rng(0)
    squares = []
    for _ in range(3):
        h = rng.standard_normal(width)
        h *= math.sqrt(width) / np.linalg.norm(h)
        squares.append(np.linalg.svd(draw(rng, width, h, 3), compute_uv=False) ** 2)
    law, other = (jacobian_spectrum(f"input({width}) > repeat({one}, 3)", points=80) for one in (text, neighbour))
    assert law.exact is exact
    assert _distance(law, np.concatenate(squares)) < 0.03
    assert _distance(other, np.concatenate(squares)) > 0.03


def test_batch_norm_of_a_large_batch() -> None:
    """The Jacobian of 36 samples by 36 samples, 28 features, two layers of batch norm and relu.

    Batch norm takes two directions of 36 from every feature of every layer, and the width is finite. The law of a
    network with its slopes left out (relu as half the identity) is much further away.
    """
    samples, width, rng = 36, 28, np.random.default_rng(1)
    h = rng.standard_normal((samples, width))
    jacobian = np.eye(samples * width)
    for _ in range(2):
        w = rng.standard_normal((width, width)) / math.sqrt(width)
        z = h @ w.T
        centred = z - z.mean(0)
        size = np.sqrt((centred**2).mean(0))
        unit = centred / size
        # (sample, feature) by (sample, feature): the norm of each feature, the weights of each sample
        norm = np.eye(samples)[:, None, :] - 1 / samples - np.einsum("if,jf->ifj", unit, unit) / samples
        norm = norm / size[None, :, None] * (unit > 0)[:, :, None]
        whole = np.einsum("ifj,fg->ifjg", norm, w).reshape(samples * width, samples * width)
        jacobian, h = whole @ jacobian, np.maximum(unit, 0)
    squares = np.linalg.svd(jacobian, compute_uv=False) ** 2
    law = jacobian_spectrum(f"input({width}) > repeat(dense > norm('batch') > act('relu'), 2)")
    assert law.batch_lost == 4
    assert _distance(law, squares) < 4 / samples
    half = jacobian_spectrum(f"input({width}) > repeat(dense > norm('batch') > act('0.5*x'), 2)")
    assert _distance(half, squares) > 3 * 4 / samples


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("input(8) > repeat(residual(act('relu') > dense), 2)", "relu after a skip"),
        ("input(8) > repeat(residual(dense) > act('relu'), 2)", "not Gaussian"),
        ("input(8) > residual(act('relu'))", "no weights separate it from its skip"),
        ("input(8) > dense(weights='asymmetric')", "entries have a mean"),
        ("input(8) > dense > norm('batch-rescale') > act('relu') > dense > norm('batch-rescale')", "part in common"),
        ("input(8) > dense > act('relu') > norm('batch')", "after an activation"),
        ("input(8) > dense > norm('whiten')", "mixes all features"),
        ("input(8, [4]) > conv(3)", "positions"),
        ("input(8) > dense > act('sign')", "jumps"),
        ("input(8) > dense(gain=0)", "gain 0"),
        ("input(8) > product(dense, dense > act('sigmoid'))", "join by product"),
    ],
)
def test_what_has_no_such_limit_is_refused_in_a_line(text: str, words: str) -> None:
    with pytest.raises(IsometerError, match=words) as caught:
        jacobian_spectrum(text)
    assert "\n" not in str(caught.value)


def test_equal_samples_have_no_batch_norm() -> None:
    with pytest.raises(IsometerError, match="cosine below 1"):
        jacobian_spectrum("input(8) > dense > norm('batch')", cosine=1.0)
