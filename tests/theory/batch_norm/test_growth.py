"""Gradient growth under batch norm against closed forms, the chain rule on sampled batches, and simulation."""

import math

import numpy as np
import pytest

from isometer import activation
from isometer.activations import registry
from isometer.errors import IsometerError
from isometer.theory.batch_norm import batch_norm_fixed_point, gradient_growth


def squared(*arguments, **options):
    return math.exp(2 * gradient_growth(*arguments, **options))


@pytest.mark.parametrize("n", [4, 5, 10, 100, 10**5])
def test_linear_closed_forms(n):
    assert squared("identity", n) == pytest.approx((n - 2) / (n - 3), rel=1e-12)
    if n <= 10:
        assert squared("identity", n, position="post") == pytest.approx((n - 2) / (n - 3), rel=1e-10)
    assert squared("identity", n, norm="batch-recenter") == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("n", [4, 12])
def test_linear_without_recentring(n):
    assert squared("identity", n, norm="batch-rescale") == pytest.approx((n - 1) / (n - 2), rel=1e-9)


def test_limit_of_large_batches():
    assert squared("relu", math.inf) == pytest.approx(math.pi / (math.pi - 1), rel=1e-13)
    for name in ("relu", "tanh", "gelu", "hardswish"):
        phi = activation(name)
        limit = phi.moments["slope_second"].value / phi.variance
        assert squared(name, 10**6) == pytest.approx(limit, rel=1e-5)
        # the distance falls like 1/n
        first, second = (squared(name, n) - limit for n in (2000, 4000))
        assert first / second == pytest.approx(2.0, rel=0.01)


def test_square_by_moments_of_the_sphere():
    # φ′ = 2v: with m = n − 1, c = −1/m: E v⁴ = 3m/(m+2), E v_i v_j = c, E v_i² v_j² = (1 + 2c²) m/(m+2)
    for n in (4, 7, 30):
        m, c = n - 1, -1 / (n - 1)
        fourth, mixed = 3 * m / (m + 2), (1 + 2 * c * c) * m / (m + 2)
        backward = 4 * (m * 1.0 + c - fourth + mixed)
        assert squared("square", n) == pytest.approx(backward / ((fourth - mixed) * (n - 3)), rel=1e-12)


def test_small_batches_and_steps():
    for name in ("relu", "tanh", "identity"):
        assert gradient_growth(name, 2) == -math.inf
        assert gradient_growth(name, 3) == math.inf
        assert gradient_growth(name, 3, position="post") == math.inf
    assert gradient_growth("step", 3) == gradient_growth("sign", 50) == gradient_growth("sign", math.inf) == -math.inf
    assert gradient_growth("sign(x)*sqrt(abs(x))", 20) == math.inf  # a cusp
    with pytest.raises(IsometerError, match="at least 2"):
        gradient_growth("relu", 1)
    with pytest.raises(IsometerError, match="whole number"):
        gradient_growth("relu", 4.5)
    # a dead zone in front of a rescaling norm: infinite unless recentring makes what enters it sum to 0
    assert gradient_growth("relu", 8, norm="batch-rescale", position="post") == math.inf
    assert gradient_growth("sign(x)*relu(abs(x) - 0.5)", 8, position="post") == math.inf
    assert math.isfinite(gradient_growth("relu", 8, position="post"))


def test_every_registry_activation_decreases_towards_its_limit_or_is_flat():
    for name in registry():
        values = [gradient_growth(name, n) for n in (8, 10**5)]
        assert not any(math.isnan(v) for v in values)
        assert values[0] >= values[1] or name == "exp"


def chain_rule(name, n, norm, position, draws=200_000, seed=0):
    """Perron factor of Γ ↦ E Jᵀ Γ J on exchangeable matrices, J = ∂(layer)/∂h by its formula per sampled batch."""
    rng, phi = np.random.default_rng(seed), activation(name)
    gram = batch_norm_fixed_point(name, n, norm=norm, position=position).gram
    h = rng.multivariate_normal(np.zeros(n), gram, size=draws, method="eigh")
    inside = phi(h) if position == "post" else h
    mean = np.full((n, n), 1 / n)
    centring = np.eye(n) - mean
    base = inside if norm == "batch-rescale" else inside - inside.mean(1, keepdims=True)
    size = np.sqrt((base**2).mean(1))[:, None, None]
    top = inside if norm.startswith("batch-rescale") else base
    left = np.eye(n) if norm.startswith("batch-rescale") else centring
    # y = top/size: ∂y = left/size − top (base · ∂h)/(n size³)
    jacobian = left / size - top[:, :, None] * base[:, None, :] / (n * size**3)
    point = h if position == "post" else top / size[:, :, 0]
    slope = phi.derivative(point)
    jacobian = jacobian * slope[:, None, :] if position == "post" else slope[:, :, None] * jacobian
    images = []
    for gamma in (centring, mean):
        image = np.einsum("kai,ab,kbj->kij", jacobian, gamma, jacobian, optimize=True)
        across = (np.trace(image, axis1=1, axis2=2) - image.mean((1, 2)) * n) / (n - 1)
        images.append(np.stack([across, image.mean((1, 2)) * n], 1))
    table = np.array([image.mean(0) for image in images]).T
    value = np.linalg.eigvals(table).real.max()
    spread = max(image.std(0).max() for image in images) / math.sqrt(draws)
    return value, spread


@pytest.mark.parametrize(
    ("name", "n", "norm", "position"),
    [
        ("relu", 9, "batch", "pre"),
        ("gelu", 12, "batch", "pre"),
        ("relu", 9, "batch", "post"),
        ("tanh", 12, "batch", "post"),
        pytest.param("gelu", 20, "batch", "post", marks=pytest.mark.slow),
        ("tanh", 12, "batch-rescale", "post"),
        pytest.param("gelu", 10, "batch-rescale", "post", marks=pytest.mark.slow),
        ("leaky_relu(0.2)", 14, "batch-rescale", "post"),
        pytest.param("gelu", 24, "batch-rescale", "pre", marks=pytest.mark.slow),
        pytest.param("tanh", 16, "batch-rescale-std", "pre", marks=pytest.mark.slow),
    ],
)
def test_agrees_with_the_chain_rule_on_sampled_batches(name, n, norm, position):
    value, error = chain_rule(name, n, norm, position, draws=40_000)
    theory = squared(name, n, norm=norm, position=position)
    # five standard errors, which are below 2 % of the factor
    assert error < 0.02 * value
    assert abs(value - theory) < 5 * error


def simulated(name, n, widths, runs, depth=36, skip=12):
    """Log-growth per layer extrapolated to infinite width by least squares in 1/d, and its standard error."""
    from isometer.data import make_batch
    from isometer.simulate import simulate
    from isometer.spec import Spec

    rows = []
    for width in widths:
        spec = Spec(width=width, depth=depth, activation=name, norm="batch")
        batch = make_batch("gaussian", n, width, seed=n)
        data = simulate(spec, batch, metrics=["gradient_log_norm"], runs=runs, seed=width)
        log_norm = data["gradient_log_norm"].values
        slope = (log_norm[:, skip] - log_norm[:, depth - skip]) / (depth - 2 * skip)
        rows.append((slope.mean(), slope.std(ddof=1) / math.sqrt(runs), 1 / width))
    mean, error, inverse = np.array(rows).T
    design = np.stack([np.ones_like(inverse), inverse], 1) / error[:, None]
    covariance = np.linalg.inv(design.T @ design)
    return float((covariance @ design.T @ (mean / error))[0]), math.sqrt(covariance[0, 0])


def dense(name, n, norm, width, depth=30, skip=10, seed=0):
    """Log-growth per layer of one dense network, norm after the activation, by torch autograd alone."""
    import torch

    torch.manual_seed(seed)
    act = {"relu": torch.relu, "tanh": torch.tanh, "gelu": torch.nn.functional.gelu, "sin": torch.sin}[name]
    x = torch.randn(n, width, dtype=torch.float64, requires_grad=True)
    layers = []
    for _ in range(depth):
        layers.append(x)
        y = act(x @ torch.randn(width, width, dtype=torch.float64) / math.sqrt(width))
        y = y - y.mean(0) if norm == "batch" else y
        size = y.square().mean(0).sqrt()
        x = torch.where(size > 0, y / torch.where(size > 0, size, 1.0), 0.0)
    gradients = torch.autograd.grad((x * torch.randn_like(x)).sum(), layers)
    return float((gradients[skip].norm() / gradients[depth - skip].norm()).log()) / (depth - 2 * skip)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "norm"),
    [
        ("relu", 12, "batch"),
        ("tanh", 8, "batch"),
        ("gelu", 20, "batch"),
        ("tanh", 12, "batch-rescale"),
        ("sin", 20, "batch-rescale"),
    ],
)
def test_norms_after_the_activation_agree_with_dense_networks(name, n, norm):
    # five cases at 3.5 standard errors: a false alarm in 0.3 % of seeds
    rows = []
    for width in (100, 200, 400):
        values = [dense(name, n, norm, width, seed=seed) for seed in range(8)]
        rows.append((np.mean(values), np.std(values, ddof=1) / math.sqrt(8), 1 / width))
    mean, error, inverse = np.array(rows).T
    design = np.stack([np.ones_like(inverse), inverse], 1) / error[:, None]
    covariance = np.linalg.inv(design.T @ design)
    value, spread = float((covariance @ design.T @ (mean / error))[0]), math.sqrt(covariance[0, 0])
    assert spread < 0.012
    assert abs(value - gradient_growth(name, n, norm=norm, position="post")) < 3.5 * spread


@pytest.mark.slow
def test_infinite_growth_shows_as_growth_that_rises_with_width():
    # the mean square diverges like the log of the width: about 0.05 per doubling, seen at 3 standard errors
    narrow, wide = ([dense("relu", 12, "batch-rescale", width, seed=s) for s in range(16)] for width in (50, 400))
    error = math.sqrt((np.var(narrow, ddof=1) + np.var(wide, ddof=1)) / 16)
    assert np.mean(wide) - np.mean(narrow) > 3 * error


def test_agrees_with_simulation():
    value, error = simulated("relu", 12, (100, 200), runs=8)
    assert error < 0.01
    assert abs(value - gradient_growth("relu", 12)) < 4 * error


@pytest.mark.slow
@pytest.mark.parametrize("name", ["identity", "relu", "tanh", "gelu"])
@pytest.mark.parametrize("n", [6, 10, 30, 100])
def test_agrees_with_simulation_for_many_sizes(name, n):
    # 16 cases at 3.5 standard errors: a false alarm in 1 % of seeds; errors of about 0.003 per layer
    value, error = simulated(name, n, (2 * n + 100, 4 * n + 200, 8 * n + 400), runs=16)
    assert error < 0.01
    assert abs(value - gradient_growth(name, n)) < 3.5 * error
