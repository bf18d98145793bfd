"""What paper 004 builds on kernels: gradient descent, interpolation, statistical queries, against exact dynamics."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import special

from isometer import activation
from isometer.errors import IsometerError
from isometer.theory import kernel_matrix
from isometer.theory.kernels import SphereKernel
from isometer_papers.theory.kernel_learning.interpolation import (
    covariance_norm_bound,
    excess_risk_bound,
    interpolate,
    interpolation_depth,
    pair_probability,
    sample_separation,
    sphere_covariance_spectrum,
    sphere_separation,
)
from isometer_papers.theory.kernel_learning.optimization import (
    conditioning_depth,
    descent,
    descent_losses,
    least_squares_bound,
    printed_rate,
    stochastic_losses,
    stochastic_lower_bound,
    stochastic_steps,
)
from isometer_papers.theory.kernel_learning.queries import (
    cosine_floor,
    decay_bound,
    half_cube,
    query_correlation,
    subgaussian_norm,
)


def sphere(n: int, d: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


# --- gradient descent -------------------------------------------------------------------------------------------------


def features(name: str, x: np.ndarray, width: int, depth: int, seed: int = 0) -> np.ndarray:
    """Φ of a random network, (n, m)."""
    rng, h, phi = np.random.default_rng(seed), x, activation(name)
    for _ in range(depth):
        h = phi(h @ rng.standard_normal((h.shape[1], width))) / math.sqrt(width)
    return np.asarray(h)


@pytest.mark.parametrize("loss", ["mean", "half-sum"])
def test_top_layer_descent_is_the_exact_linear_dynamics(loss: Any) -> None:
    """Gradient descent on v itself, step by step, for random features."""
    x = sphere(7, 5)
    phi = features("normalized(relu)", x, 60, 4)
    y = np.random.default_rng(1).standard_normal(7)
    kernel = phi @ phi.T
    plan = descent(kernel, loss=loss)
    scale = 2.0 / 7 if loss == "mean" else 1.0
    v, losses = np.zeros(60), []
    for _ in range(31):
        residual = phi @ v - y
        losses.append(residual @ residual)
        v = v - plan.learning_rate * scale * phi.T @ residual
    found = descent_losses(kernel, -y, np.arange(31), learning_rate=plan.learning_rate, loss=loss)
    np.testing.assert_allclose(found, np.array(losses) / losses[0], rtol=1e-9)
    kappa = plan.condition_number
    assert plan.factor == pytest.approx(((kappa - 1) / (kappa + 1)) ** 2)
    assert (found <= plan.factor ** np.arange(31) * (1 + 1e-12)).all()
    assert (found <= least_squares_bound(kappa, np.arange(31)) * (1 + 1e-12)).all()  # 004/thm-50
    after = plan.steps(1e-3)
    assert float(descent_losses(kernel, -y, after, learning_rate=plan.learning_rate, loss=loss)) <= 1e-3


def test_printed_step_sizes_belong_to_another_loss() -> None:
    """η = 1/λ_max with the paper's loss (1/n)Σ: steps grow with n though κ = 1; with ½Σ one step is enough."""
    counts = []
    for n in (10, 100, 1000):
        slow = descent(np.eye(n), learning_rate=printed_rate(np.eye(n), "004/thm-44"))
        counts.append(slow.steps(1e-6))
        assert slow.factor == pytest.approx((1 - 2 / n) ** 2)
        assert descent(np.eye(n), learning_rate=1.0, loss="half-sum").steps(1e-6) == 1.0
    assert counts[1] / counts[0] > 10
    assert counts[2] / counts[1] == pytest.approx(10, rel=0.02)


@pytest.mark.parametrize("name", ["normalized(relu)", "unit(tanh)"])
def test_conditioning_depth_makes_descent_fast(name: str) -> None:
    """004/thm-13: at a depth of order log(n/δ)/μ, κ ≤ 3 and a fixed number of steps for every n."""
    for n in (5, 40):
        x = sphere(n, 6)
        delta = 1.0 - float(np.max(np.abs(x @ x.T - np.eye(n))))
        depth = conditioning_depth(n, delta, activation(name).nonlinearity)
        plan = descent(kernel_matrix(name, x, depth).matrix)
        assert plan.condition_number <= 3
        assert plan.steps(1e-6) <= 10


def test_unstable_and_singular_kernels_have_answers() -> None:
    assert not descent(np.eye(3), learning_rate=10.0).stable
    assert descent(np.eye(3), learning_rate=10.0).steps(0.1) == math.inf
    singular = descent(np.ones((3, 3)))
    assert singular.condition_number == math.inf
    assert singular.exponent == pytest.approx(0.0, abs=1e-12)
    assert (descent_losses(np.eye(2), [0.0, 0.0], [0, 1], learning_rate=0.1) == 0).all()
    for bad in (lambda: descent(np.ones(3)), lambda: descent_losses(np.eye(2), [1.0], [1], learning_rate=0.1)):
        with pytest.raises(IsometerError):
            bad()


def test_stochastic_descent_in_expectation() -> None:
    """The recursion of second moments against 4000 runs of the algorithm, within 4.5 standard errors."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 9)) / 3
    y, eta, runs, steps = rng.standard_normal(5), 0.2, 4000, 25
    kernel = a @ a.T
    expected = stochastic_losses(kernel, -y, steps, learning_rate=eta)
    w = np.zeros((runs, 9))
    for _ in range(steps):
        i = rng.integers(5, size=runs)
        w -= 2 * eta * ((w * a[i]).sum(axis=1) - y[i])[:, None] * a[i]
    losses = ((w @ a.T - y) ** 2).sum(axis=1) / (y @ y)
    error = losses.std() / math.sqrt(runs)
    assert error < 0.05 * expected[-1]
    assert abs(losses.mean() - expected[-1]) < 4.5 * error


def test_single_samples_need_as_many_steps_as_samples() -> None:
    """004/thm-45 claims O(log 1/ε) steps at κ = 1. For K = I a step fits one sample: after t < n steps at least
    (1 − t/n) of the loss is left, whatever the step size; n(1 − ε) steps are needed."""
    n = 50
    for eta in (0.25, 0.5, 0.75):
        losses = stochastic_losses(np.eye(n), np.ones(n), n, learning_rate=eta)
        assert (losses >= 1 - np.arange(n + 1) / n).all()
    assert stochastic_lower_bound(n, 0.01) == 50
    steps = stochastic_steps(n, 1.0, 1.0, 0.01)
    enough = stochastic_losses(np.eye(n), np.ones(n), math.ceil(steps["printed"]), learning_rate=0.5)
    assert enough[-1] < 0.01


def trained(x: np.ndarray, width: int, depth: int, seed: int, rate: float, steps: int) -> tuple[Any, Any, Any]:
    """(losses over their start, own NTK, residual at the start) of a tanh network, all layers trained, loss ½Σ."""
    import torch

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(seed)
    sizes = [x.shape[1], *([width] * depth), 1]
    weights = [torch.randn(a, b, generator=generator, dtype=torch.float64) for a, b in pairwise(sizes)]
    weights = [w.requires_grad_() for w in weights]
    data, y = torch.tensor(x), torch.tensor(np.sign(x[:, 0]))

    def output() -> torch.Tensor:
        h = data @ weights[0]
        for w in weights[1:]:
            h = torch.tanh(h) @ w / math.sqrt(width)
        return h[:, 0]

    rows = torch.stack(
        [torch.cat([g.flatten() for g in torch.autograd.grad(output()[i], weights)]) for i in range(len(x))]
    )
    start = (output() - y).detach().numpy()
    losses = []
    for _ in range(steps + 1):
        residual = output() - y
        losses.append(float(residual.detach().square().sum()))
        grads = torch.autograd.grad(0.5 * residual.square().sum(), weights)
        with torch.no_grad():
            for w, g in zip(weights, grads, strict=True):
                w -= rate * g
    return np.array(losses) / losses[0], (rows @ rows.T).numpy(), start


@pytest.mark.slow
def test_training_approaches_the_kernel_with_width() -> None:
    """004/thm-14: tanh, depth 3, n = 6, gradient descent on all layers, half the step size of 004/thm-47, 25 steps.

    The largest distance of log 𝓛_t from the exact dynamics, mean of 6 networks, falls from width 64 to 256 to 1024 by
    more than 0.6 each time (1/√4 is expected at least): on the network's own NTK to below 0.15, on the infinite-width
    NTK, whose distance is that of the kernels at the start, to below 0.5.
    """
    x = sphere(6, 8, seed=3)
    limit = kernel_matrix("tanh", x, 3, "ntk")
    kernel = limit.matrix * np.exp(limit.log_diagonal.max())
    rate, steps = printed_rate(kernel, "004/thm-47") / 2, np.arange(26)
    own_distance, limit_distance = [], []
    for width in (64, 256, 1024):
        apart = []
        for seed in range(6):
            losses, own, start = trained(x, width, 3, seed, rate, 25)
            exact = [descent_losses(k, start, steps, learning_rate=rate, loss="half-sum") for k in (own, kernel)]
            apart.append([np.abs(np.log(losses / e)).max() for e in exact])
        own_distance.append(np.mean(apart, axis=0)[0])
        limit_distance.append(np.mean(apart, axis=0)[1])
    for distance, last in ((own_distance, 0.15), (limit_distance, 0.5)):
        assert distance[1] < 0.6 * distance[0]
        assert distance[2] < 0.6 * distance[1]
        assert distance[2] < last


@pytest.mark.slow
def test_training_obeys_the_printed_rate() -> None:
    """004/thm-47 with its own step size, tanh, depth 3, width 1024, n = 6: 𝓛_t ≤ e^{−t/κ}𝓛_0 (limit: e^{−4t/κ})."""
    x = sphere(6, 8, seed=3)
    limit = kernel_matrix("tanh", x, 3, "ntk")
    kernel = limit.matrix * np.exp(limit.log_diagonal.max())
    plan = descent(kernel, loss="half-sum")
    assert plan.learning_rate == pytest.approx(printed_rate(kernel, "004/thm-47"))
    for seed in range(4):
        losses, _, _ = trained(x, 1024, 3, seed, plan.learning_rate, 15)
        assert (losses <= np.exp(-np.arange(16) / plan.condition_number) * (1 + 1e-12)).all()


# --- interpolation ----------------------------------------------------------------------------------------------------


def test_separation_of_uniform_points() -> None:
    """On S² the cosine is uniform; on the circle the angle is."""
    assert pair_probability(3, 0.25) == pytest.approx(0.25)
    assert pair_probability(2, 0.1) == pytest.approx(2 / math.pi * math.acos(0.9))
    for d, m, gamma in ((3, 10, 0.1), (8, 40, 0.3)):
        delta = sphere_separation(d, m, gamma)
        assert m * (m - 1) / 2 * pair_probability(d, delta) == pytest.approx(gamma, rel=1e-9)
    # a union bound: the true quantile is larger, by little when γ is small
    population = sphere(20_000, 5, seed=1)
    found = sample_separation(population, 30, 0.1, runs=2000)
    assert found > 0.85 * sphere_separation(5, 30, 0.1)
    assert found < 1.6 * sphere_separation(5, 30, 0.1)
    assert interpolation_depth(10, 0.5, 0.6) == math.ceil(math.log(100) / -math.log(0.75))


def test_spectrum_of_the_covariance_on_the_sphere() -> None:
    """k(t) = e^{t − 1} on S²: λ_l = e⁻¹ i_l(1), i_l the modified spherical Bessel function (Funk–Hecke)."""
    found = sphere_covariance_spectrum(SphereKernel("unit(exp)", 1), 3, 6)
    # the kernel of exp after one layer, over its diagonal, is e^{t − 1}
    expected = math.exp(-1) * special.spherical_in(np.arange(7), 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(("name", "d", "count"), [("normalized(relu)", 5, 60), ("unit(tanh)", 10, 200)])
def test_covariance_norm_against_its_bound(name: str, d: int, count: int) -> None:
    """004/lem-54 with the depth it asks for; and the largest Funk–Hecke eigenvalue against a large Gram matrix."""
    mu = activation(name).nonlinearity
    delta = sphere_separation(d, count, 0.4)
    depth = interpolation_depth(math.ceil(math.sqrt(count)), mu, delta)
    spectrum = sphere_covariance_spectrum(SphereKernel(name, depth), d, 30)
    assert 0 < spectrum.max() <= covariance_norm_bound(count)
    shallow = sphere_covariance_spectrum(SphereKernel(name, 1), d, 10).max()
    gram = kernel_matrix(name, sphere(800, d), 1).largest_eigenvalue / 800
    assert shallow < gram < 1.25 * shallow  # the largest of d nearly equal eigenvalues of a sample lies above


@pytest.mark.parametrize("labels", ["noise", "linear", "mixed"])
def test_excess_risk_and_its_bounds(labels: str) -> None:
    x, rng = sphere(300, 10), np.random.default_rng(3)
    kernel = kernel_matrix("unit(tanh)", x, 25).matrix
    means = np.zeros(300) if labels == "noise" else 0.9 * x[:, 0]
    sample = rng.choice(300, size=30, replace=False)
    y = means[sample] if labels == "linear" else np.where(rng.random(30) < (1 + means[sample]) / 2, 1.0, -1.0)
    found = interpolate(kernel, means, sample, y)
    np.testing.assert_allclose(found.predictions[sample], y, atol=1e-10)
    # the same numbers from explicit features K_N^{1/2}
    values, vectors = np.linalg.eigh(kernel)
    phi = vectors * np.sqrt(values)
    v = np.linalg.pinv(phi[sample]) @ y
    best = np.linalg.solve(phi, means)
    sigma = phi.T @ phi / 300
    off = np.eye(300) - np.linalg.pinv(phi[sample]) @ phi[sample]
    assert found.excess_risk == pytest.approx((v - best) @ sigma @ (v - best), rel=1e-6)
    assert found.optimal_norm == pytest.approx(best @ best, rel=1e-6, abs=1e-12)
    assert found.norm == pytest.approx(v @ v, rel=1e-6)
    assert found.approximation == pytest.approx(best @ off @ sigma @ off @ best, rel=1e-6, abs=1e-12)
    assert found.excess_risk <= found.lemma * (1 + 1e-9)
    assert found.approximation <= found.approximation_bound * (1 + 1e-9)
    assert found.smallest_eigenvalue >= 0.5
    assert found.noise <= found.noise_bound
    if labels == "noise":  # 004/thm-16 as printed: bounded by a multiple of ‖v*‖² = 0
        assert found.optimal_norm == 0.0
        assert found.excess_risk > 0.01
        assert excess_risk_bound(30, 0.1, 0.0)["printed"] == 0.0
        assert excess_risk_bound(30, 0.1, 0.0)["proved"] > found.excess_risk


def test_interpolation_refuses() -> None:
    for arguments in (
        (np.ones((3, 3)), np.zeros(3), [0, 1], [1.0, 0.0]),
        (np.eye(3), np.zeros(3), [0, 0], [1.0, 0.0]),
        (np.eye(3), np.zeros(2), [0], [1.0]),
    ):
        with pytest.raises(IsometerError):
            interpolate(*arguments)


# --- statistical queries ----------------------------------------------------------------------------------------------


def test_subgaussian_norms() -> None:
    """Ends and closed forms: sign has log cosh t ≤ t²/2; ReLU's is its slope; identity is Gaussian itself."""
    assert subgaussian_norm("sign") == pytest.approx(1.0, abs=1e-9)
    assert subgaussian_norm("identity") == pytest.approx(1.0, abs=1e-9)
    assert subgaussian_norm("unit(tanh)") == pytest.approx(1.0, abs=1e-9)
    slope = 1 / math.sqrt(0.5 - 1 / (2 * math.pi))
    assert subgaussian_norm("normalized(relu)") == pytest.approx(slope, rel=1e-6)
    for name in ("normalized(exp)", "normalized(square)", "unit(cube)"):
        assert subgaussian_norm(name) == math.inf
    # skewed and bounded: the supremum lies inside; against a plain sum over two values
    p = 0.9  # 1{x > −1.2816} has mean 0.9
    t = np.linspace(-30, 30, 200_001)
    t = t[np.abs(t) > 1e-3]
    spread = math.sqrt(p * (1 - p))
    two = np.logaddexp(math.log(p) + t * (1 - p) / spread, math.log(1 - p) - t * p / spread) * 2 / t**2
    assert subgaussian_norm("normalized(step(x + 1.2815515655446004))") == pytest.approx(math.sqrt(two.max()), rel=1e-6)
    with pytest.raises(IsometerError, match="E σ = 0"):
        subgaussian_norm("relu")


def normalised_cosines(name: str, width: int, depth: int, runs: int, start: float, seed: int = 0) -> np.ndarray:
    """Cosines of two inputs in unit-normalised networks, exact in law: each layer sees the pair through ρ only."""
    phi, rng, rho = activation(name), np.random.default_rng(seed), np.full(runs, start)
    out = np.empty((depth, runs))
    for layer in range(depth):
        first, other = rng.standard_normal((2, runs, width))
        u, v = phi(first), phi(rho[:, None] * first + np.sqrt(1 - rho[:, None] ** 2) * other)
        rho = (u * v).sum(axis=1) / np.sqrt((u * u).sum(axis=1) * (v * v).sum(axis=1))
        out[layer] = rho
    return out


def test_mean_cosine_stops_falling() -> None:
    """004/thm-52 for normalised ReLU: the mean cosine rests at a floor of order 1/m, whatever the depth.

    Width 64, 3000 networks: at depths 25 and 50 the means are 25 standard errors above zero, equal within 4.5 of them,
    and within 45 % of the leading order (terms of relative order 1/m·const are left); e^{−Ω(h)} would have them differ
    by orders of magnitude. The proof's own rate is passed long before.
    """
    found = normalised_cosines("normalized(relu)", 64, 50, 3000, 0.5)
    error = found.std(axis=1) / math.sqrt(3000)
    floor = cosine_floor("normalized(relu)", 64)
    early, late = found[20:30].mean(), found[40:50].mean()
    spread = 4.5 * math.hypot(error[25], error[45])  # layers are correlated: no gain from averaging is claimed
    assert late > 8 * error[45]
    assert abs(early - late) < spread
    assert floor.mean < late < 1.45 * floor.mean
    assert 1.0 < (found[40:50] ** 2).mean() / floor.mean_square < 1.35
    mu = activation("normalized(relu)").nonlinearity
    start = int(np.argmax(np.abs(found.mean(axis=1)) < 0.25)) + 1
    assert decay_bound(start + 1, start, mu) < 0.25
    assert decay_bound(200, start, mu) < 1e-5 < late


def test_odd_activations_have_no_floor() -> None:
    """sign, width 64: the mean falls below its standard error, the mean square rests at 1/(m(1 − a₁⁴))."""
    found = normalised_cosines("sign", 64, 30, 3000, 0.5)
    floor = cosine_floor("sign", 64)
    assert floor.mean == 0.0
    assert abs(found[-1].mean()) < 4.5 * found[-1].std() / math.sqrt(3000)
    assert (found[-10:] ** 2).mean() == pytest.approx(floor.mean_square, rel=0.1)
    assert floor.mean_square == pytest.approx(1 / (64 * (1 - (2 / math.pi) ** 2)))


def test_correlation_with_a_query_falls_to_its_floor() -> None:
    """004/eq-24 at infinite width over half of {±1}^6, and by drawing Gaussian outputs at one depth."""
    x = half_cube(6)
    assert np.abs(x @ x.T - np.eye(32)).max() < 1
    query = np.sign(x[:, 1] + 0.3 * x[:, 2])
    by_depth = []
    for depth in (1, 10, 60, 300):
        kernel = kernel_matrix("normalized(relu)", x, depth)
        by_depth.append(query_correlation(kernel.matrix, query))
    assert by_depth[0] > by_depth[1] > by_depth[2] >= by_depth[3]
    assert by_depth[3] == pytest.approx(1 / 32, rel=1e-6)
    kernel = kernel_matrix("normalized(relu)", x, 2)
    root = np.linalg.cholesky(kernel.matrix)
    rng = np.random.default_rng(0)
    squares = (np.sign(root @ rng.standard_normal((32, 20_000))).T @ query / 32) ** 2
    error = squares.std() / math.sqrt(len(squares))
    assert abs(squares.mean() - query_correlation(kernel.matrix, query)) < 4.5 * error
