"""Paper 001, chapters 3 to 5 and Appendix B: the formulas behind the claims against references of their own."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.polynomial import hermite_e
from scipy import stats

from isometer.activations import activation
from isometer.errors import IsometerError
from isometer.metrics import (
    batch_norm_gain_bound_as_printed,
    batch_normalize,
    isometry,
    isometry_gain,
    isometry_gain_bound,
    layer_normalize,
)
from isometer.theory import kernel_map
from isometer.theory.batch_norm import batch_norm_map, local_rates
from isometer_papers.claims import check, find, ledger
from isometer_papers.claims.joudaki2024.mean_field import CLAIMS
from isometer_papers.theory.duals.global_convergence import (
    case_of,
    centred_rate_of,
    fixed_point_rate,
    fixed_point_rate_as_printed,
    interior_bound,
    potential_of,
)
from isometer_papers.theory.duals.hermite_identities import (
    cosine_after_sparse_input,
    hermite_coefficients,
    hermite_pairing_of,
    hermite_polynomial,
    mehler_kernel,
    pair_moment,
    sine_kernel_at,
)
from isometer_papers.theory.duals.kernel_series import KernelSeries
from isometer_papers.theory.duals.precise_kernels import CLOSED, SAMPLED, PreciseKernel
from isometer_papers.theory.isometry.gap_steps import (
    batch_norm_bound,
    batch_norm_rows,
    column_lengths,
    determinant,
    isometry_of,
    layer_norm_columns,
    length_bound,
    length_gain,
)
from isometer_papers.theory.mean_field.covariance_concentration import (
    bernstein_bound,
    coin_tail,
    covariance_deviation,
    deviation_tail,
    rademacher_tail,
    sphere_distance,
    substituted_term,
)
from isometer_papers.theory.mean_field.power_rates import power_local_rate, sphere_moment
from isometer_papers.theory.mean_field.total_variation import contraction, correlation_tv_bound, mixture_tv, scale_tv
from isometer_papers.theory.mean_field.two_samples import (
    image_statistic,
    mean_distance,
    mixing_limit,
    two_sample_gram,
    two_sample_tail,
)

# --- kernels ------------------------------------------------------------


@pytest.mark.parametrize("polynomial", ["x**2", "x**3", "1 + x + x**2", "x**4 - x"])
def test_series_against_the_kernel_map(polynomial: str) -> None:
    """The weights are squared Hermite coefficients; κ, slopes and fixed point are those of `KernelMap`."""
    weights = activation(polynomial).hermite(8) ** 2
    weights[weights < 1e-20] = 0.0
    series, reference = KernelSeries(weights.tolist()), kernel_map(polynomial)
    for rho in (-0.9, -0.3, 0.0, 0.4, 0.99):
        assert series(rho) == pytest.approx(reference(rho), abs=1e-12)
        assert series.slope(rho) == pytest.approx(reference.slope(rho), abs=1e-11)
        assert series.gap_after(rho) == pytest.approx(1 - reference(rho), abs=1e-12)
    assert series.slope_at_one == pytest.approx(reference.slope_at_one)
    assert series.fixed_point == pytest.approx(reference.fixed_point, abs=1e-12)
    assert case_of(series) == reference.case


def test_series_around_a_point() -> None:
    series = KernelSeries([1.0, 2.0, 0.0, 3.0])
    expected = np.polynomial.Polynomial(series.coefficients)(np.polynomial.Polynomial([0.3, 1.0])).coef
    assert series.around(0.3) == pytest.approx(expected.tolist())
    with pytest.raises(IsometerError, match="not all 0"):
        KernelSeries([0.0])


def test_fixed_point_in_many_digits() -> None:
    with mpmath.workdps(50):
        root = KernelSeries([mpmath.mpf(1), mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(1)]).fixed_point
        assert abs(root - (mpmath.sqrt(5) - 1) / 2) < mpmath.mpf(10) ** -45  # (1 + ρ³)/2 = ρ


@pytest.mark.parametrize("name", [*CLOSED, "tanh", "softplus"])
def test_precise_kernels_against_quadrature(name: str) -> None:
    for centred in (False, True):
        if name == "identity" and centred:
            continue
        reference = kernel_map(name, norm="layer" if centred else "none", norm_position="post")
        kernel = PreciseKernel(name, math, centred)
        assert kernel(0.3) == pytest.approx(reference(0.3), abs=1e-13)
        assert kernel(-0.7) == pytest.approx(reference(-0.7), abs=1e-13)
        assert kernel.slope(0.4) == pytest.approx(reference.slope(0.4), abs=1e-12)
        assert kernel.at_zero == pytest.approx(reference.at_zero, abs=1e-13)
        assert kernel.slope_at_zero == pytest.approx(reference.slope_at_zero, abs=1e-13)
        assert kernel.slope_at_one == pytest.approx(reference.slope_at_one)


def test_precise_kernel_in_many_digits() -> None:
    """ReLU at ρ = 0 is 1/π; the moments of gelu by mpmath's own quadrature."""
    with mpmath.workdps(20):
        assert abs(PreciseKernel("relu", mpmath)(mpmath.mpf(0)) * mpmath.pi - 1) < mpmath.mpf(10) ** -18

        def mean(f: Any) -> Any:
            return mpmath.quad(lambda x: f(x) * mpmath.npdf(x), [-14, -4, 0, 4, 14])

        phi, slope = SAMPLED["gelu"](mpmath)
        second = mean(lambda x: phi(x) ** 2)
        kernel = PreciseKernel("gelu", mpmath)
        assert abs(kernel.at_zero - mean(phi) ** 2 / second) < mpmath.mpf(10) ** -15
        assert abs(kernel.slope_at_one - mean(lambda x: slope(x) ** 2) / second) < mpmath.mpf(10) ** -15
    with pytest.raises(IsometerError, match="unknown precise kernel"):
        PreciseKernel("nothing", math)


def test_corrected_rate_of_case_four_is_sharp() -> None:
    """For quadratic κ the one-step ratio tends to 1/(2 − κ′(ρ*)) = 1/κ′(1) at 1; the printed rate is smaller."""
    kernel = KernelSeries([1.0, 0.0, 2.0])
    rho = 1 - 1e-7
    left = (kernel(rho) - 0.5) / (1 - kernel(rho))
    assert left / ((rho - 0.5) / (1 - rho)) == pytest.approx(fixed_point_rate(kernel), rel=1e-6)
    assert fixed_point_rate(kernel) == pytest.approx(1 / kernel.slope_at_one)
    assert fixed_point_rate_as_printed(kernel) == pytest.approx(2 / 3)


# --- Hermite ------------------------------------------------------------


def test_hermite_against_numpy() -> None:
    for k in range(9):
        assert hermite_polynomial(k) == pytest.approx(hermite_e.herme2poly([0] * k + [1]).tolist())
    nodes, weights = hermite_e.hermegauss(30)
    weights = weights / weights.sum()
    for first, second, rho in product((0, 1, 2, 5), (0, 2, 3, 5), (-0.6, 0.25)):
        y = rho * nodes[:, None] + math.sqrt(1 - rho**2) * nodes
        joint = weights[:, None] * weights
        assert pair_moment(first, second, rho) == pytest.approx(
            float((joint * nodes[:, None] ** first * y**second).sum()), abs=1e-9
        )
        assert hermite_pairing_of(first, second, rho) == pytest.approx(rho**first if first == second else 0, abs=1e-10)
    values = np.polynomial.Polynomial([1.0, -2.0, 0.0, 0.5])(nodes)
    for k, c in enumerate(hermite_coefficients([1.0, -2.0, 0.0, 0.5], 1.0)):
        he = hermite_e.hermeval(nodes, [0] * k + [1]) / math.sqrt(math.factorial(k))
        assert c == pytest.approx(float(weights @ (values * he)), abs=1e-12)


def test_mehler_kernel_is_the_density_ratio() -> None:
    joint = stats.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]])
    for x, y in ((0.3, -1.2), (1.0, 2.0)):
        ratio = joint.pdf([x, y]) / (stats.norm.pdf(x) * stats.norm.pdf(y))
        assert mehler_kernel(x, y, 0.4) == pytest.approx(ratio)


# --- isometry ------------------------------------------------------------


def test_isometry_against_metrics() -> None:
    rng = np.random.default_rng(4)
    for n, d in ((2, 2), (3, 5), (4, 4)):
        x = rng.standard_normal((d, n)) * np.exp(rng.uniform(-1, 1, n))
        gram = x.T @ x
        assert determinant(gram) == pytest.approx(np.linalg.det(gram))
        assert isometry_of(gram) == pytest.approx(float(isometry(x.T)))
        lengths = column_lengths(x)
        assert length_gain(lengths) == pytest.approx(float(isometry_gain(x.T)))
        assert length_bound(lengths) == pytest.approx(float(isometry_gain_bound(x.T)))
        assert batch_norm_bound(column_lengths(x.T), n) == pytest.approx(float(batch_norm_gain_bound_as_printed(x.T)))
        np.testing.assert_allclose(layer_norm_columns(x).T, layer_normalize(x.T), atol=1e-12)
        for recentre in (True, False):
            np.testing.assert_allclose(
                batch_norm_rows(x, recentre).T, batch_normalize(x.T, recenter=recentre), atol=1e-12
            )
    with pytest.raises(IsometerError, match="equal features"):
        layer_norm_columns(np.ones((2, 1)))
    with pytest.raises(IsometerError, match="constant over the batch"):
        batch_norm_rows(np.ones((1, 2)), True)


# --- total variation ------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.3, 1.5, 4.0])
def test_scale_tv_against_quadrature(ratio: float) -> None:
    for dimension in (1, 7):
        scale = math.sqrt(ratio)
        radii = np.linspace(0, 40, 400_001)
        difference = stats.chi(dimension).pdf(radii) - stats.chi(dimension, scale=scale).pdf(radii)
        value = np.abs(difference).sum() * 1e-4 / 2
        assert scale_tv(dimension, ratio) == pytest.approx(value, abs=1e-4)
    assert float(scale_tv(1, mpmath.mpf(ratio), mpmath)) == pytest.approx(scale_tv(1, ratio), abs=1e-14)


def test_mixture_and_correlation() -> None:
    line = np.linspace(-20, 20, 40_001)
    mixed = (stats.norm.pdf(line, 0, 0.5**0.5) + stats.norm.pdf(line, 0, 2**0.5)) / 2 - stats.norm.pdf(line)
    assert mixture_tv([0.5, 2.0]) == pytest.approx(np.abs(mixed).sum() * 1e-3 / 2, abs=1e-4)
    grid = np.linspace(-7, 7, 701)
    x, y = np.meshgrid(grid, grid)
    ratio = np.exp(-(0.09 * (x * x + y * y) - 0.6 * x * y) / 1.82) / math.sqrt(0.91)
    exact = (abs(ratio - 1) * stats.norm.pdf(x) * stats.norm.pdf(y)).sum() * 4e-4
    assert exact / 2 <= correlation_tv_bound(0.3, 1) <= 0.8 * exact


def test_contraction_bounds_every_pair_of_laws() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 4)
    pairs = rng.dirichlet(np.full(4, 0.1), (200, 2))
    ratios = [abs((a - b) @ p).sum() / abs(a - b).sum() for a, b in pairs]
    assert 0.8 * contraction(p) < max(ratios) <= contraction(p) + 1e-12


# --- two samples ------------------------------------------------------------


def test_two_sample_chain_against_simulation() -> None:
    """Dense layers with ReLU: the Gram matrices are those of a Binomial number of signs, within four errors."""
    rng, width, draws = np.random.default_rng(1), 10, 4000

    def normalized(h: Any) -> Any:
        return np.maximum((h - h.mean(-1, keepdims=True)) / h.std(-1, keepdims=True), 0)

    h = rng.standard_normal((draws, width, 2)) + np.array([3.0, 0.0])  # inputs far from the invariant law
    for _ in range(2):
        h = rng.standard_normal((draws, width, width)) / math.sqrt(width) @ normalized(h)
    grams = np.swapaxes(normalized(h), 1, 2) @ normalized(h) / width
    found = np.linalg.norm(grams - two_sample_gram(0.5, 1.0, 0.0), axis=(1, 2))
    error = np.std(found) / math.sqrt(len(found))
    assert abs(np.mean(found) - mean_distance(width, 1.0, 0.0)) < 4 * error
    tail = two_sample_tail(width, 0.2, 1.0, 0.0)
    assert abs(np.mean(found > 0.2 - 1e-9) - tail) < 4 * math.sqrt(tail * (1 - tail) / len(found))


def test_image_of_the_gaussian_law_against_matrices() -> None:
    """Variance of Σ s t/√d for matrices drawn row by row, leaky ReLU: 1 before and 2 − 1/d after."""
    rng, width, high, low = np.random.default_rng(2), 40, 1.0, -0.2
    values: list[list[float]] = [[], []]
    for _ in range(3000):
        root = np.linalg.cholesky(two_sample_gram(0.5, high, low))
        h = rng.standard_normal((width, 2)) @ root.T
        y = np.where(h[:, :1] > h[:, 1:], [[high, low]], [[low, high]])
        image = rng.standard_normal((width, width)) / math.sqrt(width) @ y
        for kept, matrix in zip(values, (h, image), strict=True):
            s, t = (matrix[:, 0] + matrix[:, 1]) / (high + low), (matrix[:, 0] - matrix[:, 1]) / (high - low)
            kept.append(float(s @ t) / math.sqrt(width))
    for k, expected in enumerate(values):
        drawn = image_statistic(width, 3000, rng, bool(k))
        assert stats.ks_2samp(drawn, expected).pvalue > 1e-4
    assert np.var(values[1]) / np.var(values[0]) == pytest.approx(2, abs=0.25)


def test_mixing_limit_by_enumeration() -> None:
    """The invariant law gives the rank-one matrices of one direction the probability of all signs being equal."""
    signs = list(product((0, 1), repeat=5))
    assert mixing_limit(5) == sum(all(s) for s in signs) / len(signs)


# --- covariances ------------------------------------------------------------


def test_tails() -> None:
    for count, threshold in ((10, 0.4), (25, 0.2)):
        assert rademacher_tail(count, threshold, 1.0) == pytest.approx(
            stats.binom.sf(math.ceil(count * (1 + threshold) / 2 - 1e-9) - 1, count, 0.5)
        )
    for count, threshold in ((1, 0.3), (5, 0.2), (6, 0.1)):
        shares = np.array([sum(bits) / count for bits in product((0, 1), repeat=count)])
        assert coin_tail(count, threshold, 1.0) == pytest.approx(float(np.mean(abs(shares - 0.5) >= threshold - 1e-12)))
    assert bernstein_bound(30, 0.5, 1.0) == pytest.approx(math.exp(-3.75 / (1 + 1 / 6)))
    assert substituted_term(0.7, 9) == pytest.approx(0.7 * math.sqrt(8) * 2 * 3 / math.sqrt(9) / (6 * 3 * 2))


def test_deviation_by_loops() -> None:
    rng = np.random.default_rng(3)
    x, c = rng.standard_normal((4, 2)), np.array([1.0, 3.0])
    moments = sum(np.outer(row, row) for row in x) / 4
    assert covariance_deviation(x, c) == pytest.approx(np.linalg.norm(moments - np.diag(c)))
    assert covariance_deviation(x, c, True) == pytest.approx(
        np.linalg.norm(np.linalg.inv(np.diag(c)) @ moments - np.eye(2))
    )
    u = rng.standard_normal(5)
    u *= math.sqrt(5) / np.linalg.norm(u)
    assert sphere_distance(5, 1.0) == pytest.approx(np.linalg.norm(np.outer(u, u) - np.eye(5)))


def test_corrected_deviation_tail() -> None:
    """P(‖C_d − C‖ ≥ (1 + t)ε) for d = 1, where it is largest: vectors √n e_i or 0."""
    rng, n = np.random.default_rng(5), 2
    for t in (0.0, 0.3):
        x = np.zeros((20_000, 1, n))
        x[rng.random(20_000) < 0.1, 0, 0] = math.sqrt(n)
        hits = covariance_deviation(x, np.array([0.1 * n, 0.0])) >= (1 + t) * n
        assert hits.mean() <= deviation_tail(t)


# --- batch norm ------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 6, 10])
def test_power_rates(n: int) -> None:
    phi = activation("x**3")
    assert power_local_rate(3, n, 1.0) == pytest.approx(local_rates(phi, n).standard)
    pair = batch_norm_map(np.eye(n), phi).gram
    assert sphere_moment(6, 0, n, 1.0) == pytest.approx(pair[0, 0])
    assert sphere_moment(3, 3, n, 1.0) == pytest.approx(pair[0, 1])
    with pytest.raises(IsometerError, match="odd power"):
        power_local_rate(2, n, 1.0)


def test_cube_leaves_its_fixed_point() -> None:
    """φ(x) = x³, n = 8: one layer of the map by quadrature moves a small deviation away, at the exact rate."""
    n, step = 8, 0.02
    fixed = batch_norm_map(np.eye(n), "x**3").gram
    normal = np.random.default_rng(0).standard_normal((200_000, n))
    found = []
    for sign in (1, -1):  # the same draws on both sides
        moved = fixed.copy()
        moved[0, 0] += sign * step * fixed[0, 0]
        h = normal @ np.linalg.cholesky(moved).T
        h -= h.mean(axis=1, keepdims=True)
        y = (h * math.sqrt(n) / np.linalg.norm(h, axis=1, keepdims=True)) ** 3
        after = y.T @ y / len(y)
        others = np.arange(1, n)
        diagonal = after[0, 0] - after[others, others].mean()
        rest = (after[np.ix_(others, others)].sum() - after[others, others].sum()) / ((n - 1) * (n - 2))
        found.append(diagonal - 2 * (after[0, others].mean() - rest))
    rate = (found[0] - found[1]) / (2 * step * fixed[0, 0])
    assert rate > 1.2
    assert rate == pytest.approx(power_local_rate(3, n, 1.0), rel=0.05)


# --- verdicts ------------------------------------------------------------


REFUTED = {
    "001/ass-3.1:unique",
    "001/claim-3.global:nonlinear",
    "001/claim-4.deterministic:gram",
    "001/claim-4.deterministic:layer-norm",
    "001/claim-5.fix:series",
    "001/cor-4.4",
    "001/cor-4.5:mean",
    "001/cor-4.5:no-mean",
    "001/cor-5.10:bound",
    "001/cor-5.10:step",
    "001/cor-5.7:middle",
    "001/def-3.2:orientation",
    "001/eq-B.5",
    "001/eq-B.6-9:total",
    "001/eq-B.6-9:triangle",
    "001/fig-5.2:relu",
    "001/fix-G*:identity",
    "001/lem-3.3",
    "001/lem-4.2:one",
    "001/lem-5.6:mehler",
    "001/lem-B.1",
    "001/lem-B.1:eq-B.11",
    "001/lem-B.1:eq-B.14",
    "001/lem-B.2",
    "001/lem-B.2:whitening",
    "001/lem-B.3",
    "001/lem-B.3:eq-B.40",
    "001/lem-B.3:eq-B.43",
    "001/lem-B.3:rows",
    "001/lem-B.7",
    "001/lem-B.7:mixture",
    "001/prop-5.1:any-input",
    "001/prop-5.2:any-input",
    "001/rem-5.9:slope-at-one",
    "001/thm-3.2:joint",
    "001/thm-4.3:eq-4.6",
    "001/thm-4.3:eq-4.7",
    "001/thm-4.3:trace",
    "001/thm-5.11.steps:chord",
    "001/thm-5.11.steps:chord-terms",
    "001/thm-5.11.steps:combined",
    "001/thm-5.11.steps:no-knife-edge",
    "001/thm-5.11.steps:norm",
    "001/thm-5.11.steps:potential",
    "001/thm-5.11.steps:potential-first",
    "001/thm-5.11.steps:series",
    "001/thm-5.11.steps:sign",
    "001/thm-5.11:case-1",
    "001/thm-5.11:case-4",
    "001/thm-5.15:none",
    "001/thm-5.15:post-ln",
    "001/thm-5.15:post-rms",
    "001/thm-5.15:pre-ln",
    "001/thm-5.15:pre-rms",
    "001/thm-5.8:fixed-points",
}
VACUOUS = {
    "001/lem-B.4",
    "001/lem-B.5",
    "001/thm-3.2",
    "001/thm-B.6",
}


def test_shipped_verdicts() -> None:
    shipped = {row.id: row.verdict for row in ledger("001") if row.id in {claim.id for claim in CLAIMS}}
    assert {i for i, verdict in shipped.items() if verdict == "refuted"} == REFUTED
    assert {i for i, verdict in shipped.items() if verdict == "vacuous"} == VACUOUS
    assert "inconclusive" not in shipped.values()


@pytest.mark.slow
@pytest.mark.parametrize("identifier", sorted(REFUTED | VACUOUS))
def test_verdicts_again(identifier: str) -> None:
    claim = next(claim for claim in CLAIMS if claim.id == identifier)
    assert check(claim).verdict == ("refuted" if identifier in REFUTED else "vacuous")


def test_counterexamples_by_hand() -> None:
    """The kept instances, from NumPy alone."""
    # Corollaries 4.4 and 4.5, Lemma 4.2, §4.3: layer norm of e₁, e₂ gives ±(1, −1), dependent
    normed = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert np.linalg.det(normed.T @ normed) == 0
    assert 1 + (1 - 0.5) ** 2 / 0.5**2 == 2  # one feature, two samples, ā = 1/2, while I = 1 before and after
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.125, 0.125]])
    after = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    values = [np.sqrt(np.linalg.det(x.T @ x)) / (np.trace(x.T @ x) / 2) for x in (rows, after)]
    assert values[1] < 0.95 < 0.99 < values[0]
    # Theorem 5.11 case 1, sin: κ = sinh ρ/sinh 1
    one = math.sinh(0.1) / math.sinh(1)
    two = math.sinh(one) / math.sinh(1)
    assert two / (1 - two) > 0.1 / 0.9 * (math.sinh(1) / math.cosh(1)) ** 2
    # Theorem 5.11 case 4, x²: κ = (1 + 2ρ²)/3, ρ* = 1/2, printed rate 2/3
    rho = 0.9
    for _ in range(20):
        rho = (1 + 2 * rho**2) / 3
    assert abs(rho - 0.5) > 0.4 / 0.1 * (2 / 3) ** 20
    # Theorem 5.15, layer norm after ReLU: (κ − 1/π)/(1 − 1/π), printed rate (1 − 1/π)/1
    rho = 0.1
    for _ in range(2):
        raw = (math.sqrt(1 - rho**2) + rho * (math.pi - math.acos(rho))) / math.pi
        rho = (raw - 1 / math.pi) / (1 - 1 / math.pi)
    assert rho / (1 - rho) > 0.1 / 0.9 * (1 - 1 / math.pi) ** 2
    # Proposition 5.2: signs as weights, one-hot inputs, ReLU
    assert (0.5 * 1) ** 2 / 0.5 == 0.5 != pytest.approx(1 / math.pi)
    # Lemma B.7: G_* = diag(1, 1e-4), G with correlation 0.008
    scaled = np.diag([1, 1e4]) @ np.array([[1, 8e-5], [8e-5, 1e-4]]) - np.eye(2)
    assert (scaled**2).sum() / 100 > math.sqrt(-math.log(1 - 0.008**2) / 4)
    # Lemma B.1: one fair coin deviates from ½ by ½, always
    assert math.exp(-(0.1633**2)) < 1 and 3 * 0.1633 <= 0.5  # noqa: PT018
    # eq. B.11: d = 200 vectors on the circle of radius √2, t = 1
    assert math.exp(-100 / (16 + 4 / 3)) < 0.01 < 1 <= math.sqrt(2)


def test_two_identical_samples_stay_identical() -> None:
    """Assumption 3.1 for n ≥ 3, from NumPy alone."""
    rng = np.random.default_rng(0)
    h = rng.standard_normal((5, 3))
    h[:, 1] = h[:, 0]
    for _ in range(5):
        centred = h - h.mean(axis=1, keepdims=True)
        h = rng.standard_normal((5, 5)) @ np.tanh(centred / centred.std(axis=1, keepdims=True))
    assert (h[:, 0] == h[:, 1]).all()
    assert not np.allclose(h[:, 0], h[:, 2])


def test_bounds_of_the_ledger_are_the_printed_ones() -> None:
    """Numbers worked out by hand from the formulas in print."""
    kernel = KernelSeries([1.0, 1.0, 2.0])  # (1 + ρ + 2ρ²)/4, ρ* = 1/2, κ′(ρ*) = 3/4, κ(0) = 1/4
    assert fixed_point_rate_as_printed(kernel) == pytest.approx(max(0.75, 0.75, 0.5 / 1.25))
    assert interior_bound(kernel, 0.75, 2, 0.5) == pytest.approx(0.25 / 0.25 / 4)
    assert centred_rate_of(KernelSeries([0.0, 1.0, 1.0])) == pytest.approx(2 / 3)
    assert potential_of(-0.75) == 3
    assert sine_kernel_at(0.5, 4.0) == pytest.approx(math.sinh(2) / math.sinh(4))
    assert cosine_after_sparse_input(1.0, 0.0) == 0.5


def test_parts_are_found_together() -> None:
    assert {claim.id for claim in find("001/thm-5.11")} >= {"001/thm-5.11:case-1", "001/thm-5.11:case-1#corrected"}
