"""Gram maps and fixed points of batch norm against twenty-digit integrals, closed forms and sampling."""

import math
import time

import numpy as np
import pytest

from isometer import activation
from isometer.activations import registry
from isometer.errors import IsometerError
from isometer.spec import Norm
from isometer.theory.batch_norm import (
    batch_norm_chain,
    batch_norm_fixed_point,
    batch_norm_map,
    local_rates,
    spectrum_map,
)
from support.batches import simplex_directions
from support.references import generate_batch_norm, stored

FIXED = stored("batch_norm")


def wishart(n, seed=0, rank=None):
    batch = np.random.default_rng(seed).normal(size=(n, rank or n))
    return batch @ batch.T / batch.shape[1]


def sampled_map(gram, phi, kind, draws=150_000, seed=1, post=False):
    """E y yᵀ by plain Monte Carlo with its standard error, normalisation written out."""
    rng = np.random.default_rng(seed)
    h = rng.multivariate_normal(np.zeros(len(gram)), gram, size=draws, method="eigh")
    y = phi(h) if post else h
    centred = y - y.mean(1, keepdims=True)
    y = {
        "batch": lambda: centred / y.std(1, keepdims=True),
        "batch-recenter": lambda: centred,
        "batch-rescale": lambda: y / np.sqrt((y**2).mean(1, keepdims=True)),
        "batch-rescale-std": lambda: y / y.std(1, keepdims=True),
    }[kind]()
    y = y if post else phi(y)
    products = y[:, :, None] * y[:, None, :]
    return products.mean(0), products.std(0) / math.sqrt(draws)


@pytest.mark.parametrize("name", sorted(FIXED))
def test_fixed_points_match_twenty_digits(name):
    for size, (diagonal, off_diagonal) in FIXED[name].items():
        point = batch_norm_fixed_point(name, int(size))
        assert point.diagonal == pytest.approx(float(diagonal), rel=1e-12, abs=1e-13)
        assert point.off_diagonal == pytest.approx(float(off_diagonal), rel=1e-12, abs=1e-13)
        assert point.error < 1e-12


def test_references_are_what_their_generator_says():
    for name, n in (("relu", 5), ("sigmoid", 5)):
        live = [float(value) for value in generate_batch_norm.fixed_point(name, n)]
        assert live == pytest.approx([float(value) for value in FIXED[name][str(n)]], rel=1e-15)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 64, 1000])
def test_closed_forms(n):
    linear, relu = batch_norm_fixed_point("identity", n), batch_norm_fixed_point("relu", n)
    assert linear.gram[0, :2] == pytest.approx([1.0, -1 / (n - 1)], abs=1e-14)
    r = -1 / (n - 1)
    arc = (math.sqrt(1 - r * r) + r * (math.pi - math.acos(r))) / (2 * math.pi)
    assert relu.gram[0, :2] == pytest.approx([0.5, arc], abs=1e-14)
    # polynomials: moments of the sphere of n − 1 dimensions
    m = n - 1
    square = batch_norm_fixed_point("square", n)
    assert square.gram[0, :2] == pytest.approx([3 * m / (m + 2), (1 + 2 * r * r) * m / (m + 2)], rel=1e-13)


def test_three_samples_of_a_step():
    # v = √2 (sin β, sin(β + 2π/3), …): two samples are both positive for a sixth of the circle
    assert batch_norm_fixed_point("step", 3).off_diagonal == pytest.approx(1 / 6, abs=1e-14)
    # orthant probability for any n: 1/4 + arcsin(−1/(n−1))/(2π)
    for n in (4, 5, 6, 20):
        expected = 0.25 + math.asin(-1 / (n - 1)) / (2 * math.pi)
        assert batch_norm_fixed_point("step", n).off_diagonal == pytest.approx(expected, abs=1e-13)


def test_every_registry_activation_is_fast_and_a_fixed_point():
    for name in registry():
        start = time.perf_counter()
        point = batch_norm_fixed_point(name, 20)
        assert time.perf_counter() - start < 5.0  # 0.1 s on a free core
        assert point.diagonal >= abs(point.off_diagonal) * (1 - 1e-12)
        assert point.eigenvalues[1] >= 0
        again = batch_norm_map(point.gram, name)
        assert np.abs(again.gram - point.gram).max() <= 1e-12 * point.diagonal


def test_large_batches_tend_to_gaussian_moments():
    for name in ("relu", "gelu", "hardtanh"):
        phi = activation(name)
        point = batch_norm_fixed_point(name, 10**6)
        assert point.diagonal == pytest.approx(phi.second_moment, rel=1e-5)
        assert point.off_diagonal == pytest.approx(phi.mean**2, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    "kind", ["batch", "batch-recenter", "batch-rescale", pytest.param("batch-rescale-std", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.3)"])
def test_integrals_for_any_gram_agree_with_sampling(kind, name):
    gram = wishart(6, seed=3)
    result = batch_norm_map(gram, name, norm=kind)
    assert result.method == "integral"
    assert result.error.max() < 1e-11
    mean, error = sampled_map(gram, activation(name), kind)
    # 36 entries at five standard errors: false alarms below 1e-4; a bias of 1 % of an entry is seen
    assert (np.abs(result.gram - mean) < 5 * error).all()


@pytest.mark.parametrize(("kind", "name"), [("batch-rescale", "gelu"), ("batch-rescale-std", "tanh")])
def test_mixtures_agree_with_sampling(kind, name):
    gram = np.eye(8) * 0.7 + 0.4
    result = batch_norm_map(gram, name, norm=kind)
    assert result.method == "exchangeable"
    mean, error = sampled_map(gram, activation(name), kind)
    off = ~np.eye(8, dtype=bool)
    assert abs(mean[~off].mean() - result.gram[0, 0]) < 4 * error[~off].mean()
    assert abs(mean[off].mean() - result.gram[0, 1]) < 4 * error[off].mean()


def test_mixture_and_laplace_integral_agree():
    # relu's integral formula against the mixture's table, which shares no code with it
    from isometer.theory.batch_norm._exchangeable import mixture
    from isometer.theory.batch_norm._laplace import two_ray_gram

    for kind in ("rms", "std"):
        means = mixture(activation("relu"), 24, kind).means(3.0)
        gram = np.eye(24) + 2.0 / 24
        value, _ = two_ray_gram(gram, (1.0, 0.0), kind)
        assert means == pytest.approx([value[0, 0], value[0, 1]], rel=1e-10)


def test_linear_full_batch_norm_is_the_spectrum_map():
    gram = wishart(7, seed=5)
    centring = np.eye(7) - 1 / 7
    before = np.linalg.eigvalsh(centring @ gram @ centring)[1:]
    after = np.linalg.eigvalsh(batch_norm_map(gram, "identity").gram)[1:]
    assert after / 7 == pytest.approx(spectrum_map(before).eigenvalues, rel=1e-11)


@pytest.mark.parametrize("post", [False, True])
def test_quasi_monte_carlo_is_honest(post):
    gram = wishart(5, seed=7)
    result = batch_norm_map(gram, "tanh", position="post" if post else "pre", samples=1 << 14)
    assert result.method == "quasi-Monte Carlo"
    mean, error = sampled_map(gram, np.tanh, "batch", post=post)
    assert (np.abs(result.gram - mean) < 5 * error + result.error).all()
    exact = batch_norm_map(gram, "relu").gram
    rough = batch_norm_map(gram, lambda_relu(), samples=1 << 13)
    assert (np.abs(rough.gram - exact) <= 1.7 * rough.error).all()  # 5 standard errors of 25 entries
    assert np.abs(rough.gram - exact).max() > 1e-8


def lambda_relu():
    """ReLU in a form that no closed formula recognises."""
    phi = activation("relu(x) + 0*tanh(x)")
    from isometer.activations import as_two_rays

    return phi if as_two_rays(phi.expression) is None else activation("0.5*(x + sqrt(x*x))")


def test_after_the_activation_full_batch_norm_has_one_fixed_point():
    for name in ("tanh", "relu", "sigmoid"):
        point = batch_norm_fixed_point(name, 6, position="post")
        assert (point.diagonal, point.off_diagonal) == (1.0, -0.2)
        mean, error = sampled_map(point.gram, activation(name), "batch", post=True, draws=50_000)
        assert (np.abs(mean - point.gram) < 5 * error + 1e-12).all()


def test_after_the_activation_equal_activations_have_no_size():
    # independent samples: all four negative with chance 1/16, and then batch norm hands on 0
    result = batch_norm_map(np.eye(4), "relu", position="post")
    assert result.gram[0, :2] == pytest.approx([15 / 16, -15 / 48], abs=1e-12)
    # signs: all equal with chance 2/16
    assert batch_norm_map(np.eye(4), "sign", position="post").gram[0, 0] == pytest.approx(14 / 16, abs=1e-12)
    # with a common part, P(all negative) = E Φ(z)^4 = 1/5 at correlation ½
    common = batch_norm_map(0.5 * np.eye(4) + 0.5, "relu", position="post").gram
    assert common[0, 0] == pytest.approx(0.8, abs=1e-11)


@pytest.mark.parametrize(
    ("kind", "name", "off"),
    [
        ("batch-rescale", "relu", 0.3),
        ("batch-rescale", "tanh", 0.3),
        pytest.param("batch-rescale", "gelu", -0.08, marks=pytest.mark.slow),
        pytest.param("batch-rescale-std", "relu", 0.3, marks=pytest.mark.slow),
        pytest.param("batch-rescale-std", "gelu", -0.08, marks=pytest.mark.slow),
    ],
)
def test_rescaling_after_the_activation_agrees_with_sampling(kind, name, off):
    gram = np.eye(9) * (1 - off) + off
    result = batch_norm_map(gram, name, norm=kind, position="post")
    assert result.method == "exchangeable"
    assert result.error.max() < (1e-8 if off > 0 and kind == "batch-rescale" else 5e-3)
    mean, error = sampled_map(gram, activation(name), kind, post=True) if name != "relu" else sampled_relu(gram, kind)
    apart = ~np.eye(9, dtype=bool)
    for part in (apart, ~apart):
        slack = 5 * error[part].mean() / math.sqrt(part.sum() / 9) + result.error.max()
        assert abs(mean[part].mean() - result.gram[part].mean()) < slack


def sampled_relu(gram, kind, draws=150_000):
    """As `sampled_map`, what has no size being 0."""
    h = np.random.default_rng(5).multivariate_normal(np.zeros(len(gram)), gram, size=draws, method="eigh")
    y = np.maximum(h, 0)
    size = np.sqrt((y**2).mean(1, keepdims=True)) if kind == "batch-rescale" else y.std(1, keepdims=True)
    y = np.where(size > 0, y / np.where(size > 0, size, 1.0), 0.0)
    products = y[:, :, None] * y[:, None, :]
    return products.mean(0), products.std(0) / math.sqrt(draws)


@pytest.mark.parametrize(("name", "slopes"), [("identity", (1.0, 1.0)), ("2*x", (2.0, 2.0))])
def test_linear_rescaling_after_is_rescaling_before(name, slopes):
    # shares no code: a mixture over the common part against the Laplace integral over the spectrum
    gram = np.eye(12) * 0.6 + 0.4
    after = batch_norm_map(gram, name, norm="batch-rescale", position="post").gram
    before = batch_norm_map(gram, "identity", norm="batch-rescale").gram
    np.testing.assert_allclose(after, before, atol=1e-10)


@pytest.mark.parametrize("name", ["tanh", "gelu"])
def test_fixed_points_of_rescaling_after_the_activation_are_fixed(name):
    point = batch_norm_fixed_point(name, 8, norm="batch-rescale", position="post")
    again = batch_norm_map(point.gram, name, norm="batch-rescale", position="post").gram
    assert np.abs(again - point.gram).max() < 1e-8
    assert 0 <= point.rates.largest < 1


def test_rates_agree_with_differences_of_the_map():
    n = 6
    for name in ("relu", "leaky_relu(0.4)", "abs"):
        point = batch_norm_fixed_point(name, n)
        centring, standard, pair = simplex_directions(n)
        for direction, rate in ((standard, point.rates.standard), (pair, point.rates.pair)):
            step = 1e-4 * direction
            change = batch_norm_map(point.gram + step, name).gram - batch_norm_map(point.gram - step, name).gram
            change = centring @ change @ centring / 2e-4
            assert np.abs(change - rate * direction).max() < 1e-6
        trivial = batch_norm_map(point.gram * 1.1 + 0.3, name).gram - point.gram
        assert np.abs(trivial).max() < 1e-12


def test_linear_rates():
    for n in (4, 9, 50):
        rates = local_rates(activation("identity"), n)
        assert rates.standard == pytest.approx((n - 1) / (n + 1), rel=1e-12)
        assert rates.pair == pytest.approx((n - 1) / (n + 1), rel=1e-12)


def test_convergence_from_any_start_at_the_local_rate():
    for seed in range(3):
        chain = batch_norm_chain(wishart(5, seed=seed), 60, "relu")
        point = batch_norm_fixed_point("relu", 5)
        distances = [float(np.abs(layer.gram - point.gram).max()) for layer in chain]
        assert distances[-1] < 1e-9
        assert distances[30] / distances[29] == pytest.approx(point.rates.largest, rel=0.02)


def test_square_leaves_its_exchangeable_fixed_point():
    rates = local_rates(activation("square"), 10)
    assert rates.standard == pytest.approx(63 / 52, rel=1e-12)  # above 1: one sample leaves the others
    assert abs(rates.pair) < 1


@pytest.mark.parametrize("norm", ["batch-rescale", "batch-recenter", "batch-rescale-std"])
def test_fixed_points_of_parts_are_fixed(norm):
    point = batch_norm_fixed_point("sigmoid", 6, norm=norm)
    again = batch_norm_map(point.gram, "sigmoid", norm=norm)
    assert np.abs(again.gram - point.gram).max() < 1e-8


def test_rescaled_relu_fixed_point_is_that_of_the_integral():
    point = batch_norm_fixed_point("relu", 9, norm="batch-rescale")
    gram = np.eye(9)
    for _ in range(60):
        gram = batch_norm_map(gram + 1e-9 * np.diag(np.arange(9)), "relu", norm="batch-rescale").gram
    assert gram[0, 1] == pytest.approx(point.off_diagonal, abs=1e-7)  # the kicks keep it off the exchangeable formula
    assert 0 < point.rates.trivial < 1


def test_where_no_fixed_point_exists_it_says_so():
    with pytest.raises(IsometerError, match=r"multiplies the batch's variance by 0\.3"):
        batch_norm_fixed_point("relu", 20, norm="batch-recenter")
    with pytest.raises(IsometerError, match="keeps every scale"):
        batch_norm_fixed_point("identity", 20, norm="batch-recenter")
    with pytest.raises(IsometerError, match="outgrows the one across"):
        batch_norm_fixed_point("relu", 20, norm="batch-rescale-std")


def test_affine_part_is_folded_in():
    direct = batch_norm_fixed_point(activation("tanh").shifted(0.3).gain(0.5), 8)
    folded = batch_norm_fixed_point("tanh", 8, norm=Norm(scale=0.5, shift=0.3))
    assert folded == direct


def test_errors_name_the_fix():
    with pytest.raises(IsometerError, match="at least 2"):
        batch_norm_fixed_point("relu", 1)
    with pytest.raises(IsometerError, match="expected a batch norm"):
        batch_norm_fixed_point("relu", 5, norm="layer")
    with pytest.raises(IsometerError, match="eps"):
        batch_norm_fixed_point("relu", 5, norm=Norm(eps=1e-5))
    with pytest.raises(IsometerError, match="not symmetric"):
        batch_norm_map([[1.0, 0.5], [0.0, 1.0]], "relu")
    with pytest.raises(IsometerError, match="second moment"):
        batch_norm_fixed_point("identity", 3, norm="batch-rescale-std")


def test_degenerate_batches_have_an_answer():
    equal = np.ones((4, 4))
    assert (batch_norm_map(equal, "relu").gram == 0).all()
    assert batch_norm_map(equal, "sigmoid").gram == pytest.approx(np.full((4, 4), 0.25))
    rank_one = np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0])
    result = batch_norm_map(rank_one, "relu").gram
    assert np.isfinite(result).all()
    assert result.trace() == pytest.approx(1.5)


def test_rates_without_rescaling():
    n, name = 6, "2*tanh(x)"
    point = batch_norm_fixed_point(name, n, norm="batch-recenter")
    centring = np.eye(n) - 1 / n
    across = point.eigenvalues[0]
    assert across > 0.1
    corner, pair = np.zeros((n, n)), np.zeros((n, n))
    corner[0, 0] = 1.0
    standard = centring @ corner @ centring - centring / n
    pair[np.ix_([0, 1], [2, 3])] = [[1, -1], [-1, 1]]
    pair = pair + pair.T
    # the same draws up and down: sampling noise of the derivative is about 0.01
    for direction, rate in (
        (centring, point.rates.trivial),
        (standard, point.rates.standard),
        (pair, point.rates.pair),
    ):
        up, down = (
            batch_norm_map(across * centring + sign * 0.05 * direction + 1e-9 * corner, name, norm="batch-recenter")
            for sign in (1, -1)
        )
        change = centring @ (up.gram - down.gram) @ centring / 0.1
        assert (change * direction).sum() / (direction**2).sum() == pytest.approx(rate, abs=0.03)


def test_large_batches_of_gelu_leave_the_exchangeable_fixed_point():
    phi = activation("gelu")
    assert local_rates(phi, 30).largest < 1 < local_rates(phi, 60).largest
    # n → ∞: a sample of variance 1 + ε gets the variance of φ(√(1+ε) X): d log Var φ(σX) / d log σ² at 1
    step = 1e-4
    high, low = (math.log(phi.gain(math.sqrt(1 + s)).variance) for s in (step, -step))
    assert local_rates(phi, 10**6).standard == pytest.approx((high - low) / (2 * step), abs=1e-4)
