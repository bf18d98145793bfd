"""Papers 003 and 001 (chapter 2, Appendix A): the formulas behind their claims against references, and the verdicts."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from isometer.errors import IsometerError
from isometer.metrics import batch_normalize, lyapunov_gap, orthogonality_gap, wasserstein_to_isotropic
from isometer.theory.batch_norm import smallest_share_bound, spectrum_map
from isometer_papers.claims import check, claims_of, ledger
from isometer_papers.claims.joudaki2024 import orthogonality
from isometer_papers.simulate.orthogonality_steps import (
    dense_chain,
    feature_chain,
    gram_statistics,
    product_exponents_sample,
    singular_value_gap,
    smallest_singular_value,
)
from isometer_papers.theory.orthogonality.bounds import (
    gap_bound,
    gap_of,
    gaussian_distance,
    gaussian_distance_bound,
    gram_spread,
    lyapunov_of,
    orthogonal_spread,
    share_contraction,
    sharp_gap_factor,
    spectral_gap,
    survival_bound,
    unit_features,
)
from isometer_papers.theory.orthogonality.iterative_gap import gap_after, gap_before, key_inequality, sliced_output
from isometer_papers.theory.orthogonality.spectrum_shares import (
    first_order_rate,
    share_integrand,
    share_integrand_curvature,
    share_integrand_slope,
    slope_helper,
    slope_helper_slope,
    two_level_chain,
    two_level_share,
)
from isometer_papers.theory.rank.gaussian_products import (
    distance_from_rank_one,
    product_exponent,
    rank_one_bound,
    rank_one_rate,
)

SPECTRUM = np.array([0.5, 0.3, 0.15, 0.05])
THESIS = {claim.id: claim for claim in orthogonality.CLAIMS}
PAPER = {claim.id: claim for claim in claims_of("003")}


# --- spectra and gaps ---------------------------------------------------------------------------------------------


def test_spectral_forms_are_the_metrics() -> None:
    h = np.random.default_rng(0).standard_normal((4, 9))
    squares = np.linalg.svd(h, compute_uv=False) ** 2
    assert spectral_gap(squares) == pytest.approx(float(orthogonality_gap(h)))
    assert gap_of(h) == pytest.approx(float(orthogonality_gap(h)))
    assert lyapunov_of(squares) == pytest.approx(float(lyapunov_gap(h)))
    assert gaussian_distance(squares) == pytest.approx(float(wasserstein_to_isotropic(h)) ** 2)
    assert np.allclose(unit_features(h), batch_normalize(h, recenter=False) / 2)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_sharp_factor_is_attained_and_not_exceeded(n: int) -> None:
    small = 0.3 / n
    spike = [1 - (n - 1) * small] + [small] * (n - 1)
    assert spectral_gap(spike) == pytest.approx(sharp_gap_factor(n) * lyapunov_of(spike))
    others = np.random.default_rng(n).dirichlet(np.ones(n), 500)
    assert all(spectral_gap(s) <= sharp_gap_factor(n) * lyapunov_of(s) * (1 + 1e-12) for s in others)


def test_gram_spread_against_sampling() -> None:
    """Within four standard errors, for a general and for an orthogonal batch."""
    for squares, width in ((SPECTRUM, 6), (np.full(4, 0.25), 12)):
        shares = spectrum_map(squares).eigenvalues

        def distance(c: Any, shares: Any = shares) -> Any:
            return ((c - np.diag(shares)) ** 2).sum((-2, -1))

        sample = gram_statistics(squares, width, distance, draws=20_000, rng=np.random.default_rng(1))
        assert abs(sample.mean() - gram_spread(shares, width)) < 4 * sample.std() / math.sqrt(sample.size)
    assert orthogonal_spread(4, 12.0).total == pytest.approx(gram_spread(np.full(4, 0.25), 12))


def test_two_orthogonal_samples_in_closed_form() -> None:
    """d = 2: C = (uuᵀ + vvᵀ)/2 has eigenvalues (1 ± |cos θ|)/2, so E(λ_2 − ½)² = E cos²θ/4 = 1/8."""
    spread = orthogonal_spread(2, 2.0)
    assert float(spread.smallest) == pytest.approx(1 / 8)
    assert float(spread.total) == pytest.approx(1 / 4)
    assert float(spread.off_diagonal) == pytest.approx(1 / 8)  # Var of sin 2φ/2, twice, over two rows
    assert orthogonal_spread(3, 2.0).smallest is None


# --- shares ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 4, 16, 200])
@pytest.mark.parametrize("first", [1e-9, 1e-3, 0.3, 0.6, 0.999])
def test_two_level_share_against_quadrature(n: int, first: float) -> None:
    spectrum = [first] + [(1 - first) / (n - 1)] * (n - 1)
    assert two_level_share(n, first) == pytest.approx(float(spectrum_map(spectrum).eigenvalues[0]), rel=1e-9)
    with mpmath.workdps(30):
        assert two_level_share(n, first) == pytest.approx(float(two_level_share(n, mpmath.mpf(first))), rel=1e-9)


def test_two_level_share_refuses() -> None:
    with pytest.raises(IsometerError, match="between 0 and 1"):
        two_level_share(3, 1.0)


def test_chain_is_the_iterated_map_and_slows_down_to_its_rate() -> None:
    chain = two_level_chain(8, 0.5, 40)
    state = np.array([0.5] + [0.5 / 7] * 7)
    for layer in range(1, 6):
        state = spectrum_map(state).eigenvalues
        assert chain.gap[layer] == pytest.approx(float(spectral_gap(state)), rel=1e-10)
        assert chain.smallest[layer] == pytest.approx(math.sqrt(state.min()), rel=1e-10)
    assert chain.gap[40] / chain.gap[39] == pytest.approx(first_order_rate(8), rel=1e-3)


@pytest.mark.parametrize(("n", "theta", "delta"), [(2, 1.0, 0.25), (5, 30.0, 0.1), (9, 0.01, 0.05)])
def test_derivatives_by_mpmath(n: int, theta: float, delta: float) -> None:
    with mpmath.workdps(30):
        at = mpmath.mpf(delta)

        def g(x: Any) -> Any:
            return share_integrand(x, theta, n)

        assert share_integrand_slope(delta, theta, n) == pytest.approx(float(mpmath.diff(g, at)))
        assert share_integrand_curvature(delta, theta, n) == pytest.approx(float(mpmath.diff(g, at, 2)))
        h1 = mpmath.diff(lambda x: slope_helper(x, theta, n), at)
        assert slope_helper_slope(delta, theta, n) == pytest.approx(float(h1))
    whole, _ = integrate.quad(lambda t: share_integrand(delta, t, n), 0, math.inf, limit=200)
    assert smallest_share_bound(delta, n) == pytest.approx(whole, rel=1e-6)


def test_sharp_contraction_touches_at_orthogonality() -> None:
    """1/n − p_n and its bound agree to second order in δ: their ratio tends to 1."""
    for delta in (1e-2, 1e-3):
        squares = [0.25 + delta / 3] * 3 + [0.25 - delta]
        left = 0.25 - float(spectrum_map(squares).eigenvalues[-1])
        assert 0 < float(share_contraction(squares, sharp=True)) / left - 1 < 10 * delta


# --- depth --------------------------------------------------------------------------------------------------------


def test_bounds_by_hand() -> None:
    assert gap_bound(1, 0.5, 3, 36) == pytest.approx(2 * (2 / 3) + 9 / 3)
    assert gaussian_distance_bound(1, 0.5, 3, 36) == pytest.approx(6 * gap_bound(1, 0.5, 3, 36))
    assert gap_bound(1, 0.5, 3, math.inf, power=2) == pytest.approx(2 * (5 / 6))


def test_survival_bound_is_above_the_frequency() -> None:
    """Two samples, d = 2, α = ½: the share of 4000 chains with σ_2 ≥ α in layers 1 to 5, three standard errors."""
    least = feature_chain(
        np.eye(2), 2, layers=5, chains=4000, rng=np.random.default_rng(0), read=smallest_singular_value
    ).min(axis=1)
    share = float((least >= 0.5).mean())
    assert share + 3 * math.sqrt(share / 4000) < survival_bound(2, 0.5, 5)
    with pytest.raises(IsometerError, match="between 0 and √½"):
        survival_bound(2, 0.8, 5)


def test_layers_in_law_against_weights_written_out() -> None:
    """V at layer 3: two-sample Kolmogorov–Smirnov."""
    rng, start = np.random.default_rng(0), np.array([[1.0, 0.9], [0.0, 0.3], [0.0, 0.0], [0.0, 0.0]])
    fast = feature_chain(start, 4, layers=3, chains=1500, rng=rng, read=singular_value_gap, function=np.tanh)[:, -1]
    dense = [
        float(singular_value_gap(dense_chain(start, layers=3, rng=rng, function=np.tanh)[-1])) for _ in range(1500)
    ]
    assert stats.ks_2samp(fast, dense).pvalue > 1e-4


def test_norms_of_states() -> None:
    rng = np.random.default_rng(0)
    centred = dense_chain(rng.standard_normal((5, 3)), layers=2, rng=rng, norm="standard")[-1]
    assert np.allclose(centred.mean(axis=1), 0)
    assert np.allclose(centred.var(axis=1), 1)
    free = dense_chain(rng.standard_normal((5, 3)), layers=2, rng=rng, norm="none")[-1]
    assert np.linalg.norm(free) == pytest.approx(math.sqrt(15))
    with pytest.raises(IsometerError, match="expected"):
        feature_chain(np.ones(3), 4, layers=1, chains=1, rng=rng, read=singular_value_gap)
    with pytest.raises(IsometerError, match="draws is 1"):
        gram_statistics([1.0, 1.0], 4, singular_value_gap, draws=1, rng=rng)


# --- products of Gaussian matrices ---------------------------------------------------------------------------------


def test_exponents() -> None:
    """d = 1: E log w² by quadrature; d = 3: all exponents within four standard errors, and their sum."""
    value, _ = integrate.quad(lambda w: 2 * math.log(w * w) * stats.norm.pdf(w), 0, 40, points=[0.1, 1])
    assert product_exponent(1, 1) == pytest.approx(value, abs=1e-7)
    sample = product_exponents_sample(3, layers=500, chains=64, rng=np.random.default_rng(0))
    error = sample.std(axis=0) / 8
    exact = [product_exponent(3, k) for k in (1, 2, 3)]
    assert (abs(sample.mean(axis=0) - exact) < 4 * error + 2e-3).all()
    assert product_exponent(3, 1) - product_exponent(3, 2) == pytest.approx(rank_one_rate(3))
    with pytest.raises(IsometerError, match="1 to the width"):
        product_exponent(3, 4)


def test_distance_from_rank_one() -> None:
    squares = np.array([1.0, 0.2, 0.1])
    assert distance_from_rank_one(squares) == pytest.approx(math.sqrt(2 / 3) - spectral_gap(squares))
    assert float(distance_from_rank_one([1.0, 1e-200])) == pytest.approx(math.sqrt(2) * 1e-200)
    assert distance_from_rank_one(squares) <= rank_one_bound(squares)


# --- iterative orthogonalisation -----------------------------------------------------------------------------------


def test_iterative_weights_to_the_letter() -> None:
    """W from NumPy's SVD for n = d, where V′ = V: gaps before and after are the closed forms."""
    h = np.random.default_rng(0).standard_normal((4, 4))  # d × n, as in the papers
    u, sigma, vt = np.linalg.svd(h)
    w = vt.T @ np.diag(sigma**-0.5) @ u.T / math.sqrt(sigma.sum())
    assert gap_of((w @ h).T) == pytest.approx(gap_after(sigma, 4))
    assert gap_of(h.T) ** 2 == pytest.approx(gap_before(sigma, 4))
    assert np.linalg.norm(w @ h) == pytest.approx(1)
    assert key_inequality(sigma) > 1


def test_sliced_output_to_the_letter() -> None:
    v = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 2)))[0]
    sigma = np.array([2.0, 0.5])
    h = np.diag(sigma) @ v.T
    w = v[:2] @ np.diag(sigma**-0.5) / math.sqrt(sigma.sum())
    assert np.allclose(sliced_output(v, sigma), (w @ h).T)


# --- verdicts -------------------------------------------------------------------------------------------------------

REFUTED_003 = {
    "003/alg-iter-mlp:gap",
    "003/alg-iter-mlp:slice",
    "003/appB-induction:induction",
    "003/appB-induction:step",
    "003/appB1-average:input",
    "003/appE:after",
    "003/appE:cauchy-last",
    "003/appE:eq-17",
    "003/appE:eq-18",
    "003/claim-intro-rates:depth",
    "003/claim-rank-preserved:infinite-depth",
    "003/conj-F1",
    "003/cor-3",
    "003/eq-10:all-layers",
    "003/eq-12:average",
    "003/eq-12:standard",
    "003/fig-6:coincide",
    "003/lem-10:expansion",
    "003/lem-10:second-slope",
    "003/lem-6:last-line",
    "003/lem-6:off-diagonal",
    "003/lem-7:first-line",
    "003/p-map:index",
    "003/thm-1",
    "003/thm-1:last-line",
}
REFUTED_001 = {
    "001/alg-2.6:gap",
    "001/alg-2.6:slice",
    "001/ass-2.A1:infinite-depth",
    "001/claim-2.abstract:depth",
    "001/claim-2.drift",
    "001/claim-2.minsv",
    "001/claim-A.4:after",
    "001/claim-A.4:eq-A.19",
    "001/claim-A.4:eq-A.20",
    "001/claim-A.stab:input",
    "001/cor-2.3",
    "001/eq-A.10:index",
    "001/eq-A.6:induction",
    "001/eq-A.6:step",
    "001/eq-A.7:average",
    "001/eq-A.7:standard",
    "001/fig-2.3:curve",
    "001/init-orthxavier",
    "001/lem-A.3:last-line",
    "001/lem-A.4:second-line",
    "001/lem-A.7:second-slope",
    "001/lem-A.8:digamma",
    "001/lem-A.8:eq-A.13",
    "001/lem-A.8:eq-A.16",
    "001/lem-A.8:eq-A.18",
    "001/lem-A.8:rate",
    "001/rec-2.1:all-layers",
    "001/thm-2.1",
    "001/thm-2.1:last-line",
}


def test_shipped_verdicts() -> None:
    shipped = {row.id: row.verdict for row in ledger("003")}
    assert {i for i, verdict in shipped.items() if verdict != "holds"} == REFUTED_003
    assert {shipped[i] for i in REFUTED_003} == {"refuted"}


def test_statements_with_a_correction_are_the_refuted_ones() -> None:
    assert {i for i, claim in PAPER.items() if claim.corrected is not None} == REFUTED_003
    assert {i for i, claim in THESIS.items() if claim.corrected is not None} == REFUTED_001


def test_the_papers_differ_where_they_print_different_things() -> None:
    """Refuted in 003 and not in the thesis, or the other way round."""
    for ours, theirs in (
        ("003/lem-10:expansion", "001/lem-A.7:expansion"),
        ("003/appE:cauchy-last", "001/claim-A.4:cauchy-last"),
        ("003/lem-6:off-diagonal", "001/lem-A.3:off-diagonal"),
    ):
        assert check(PAPER[ours]).verdict == "refuted"
        assert check(THESIS[theirs]).verdict == "holds"
    assert check(THESIS["001/lem-A.4:second-line"]).verdict == "refuted"
    assert check(PAPER["003/lem-7:weyl"]).verdict == "holds"


def _instance(identifier: str) -> dict[str, Any]:
    found = {row.id: row.counterexample for row in ledger("003")}[identifier]
    assert found is not None
    return dict(found["instance"])


def test_the_rate_of_the_theorem_by_hand() -> None:
    """The shipped counterexample of Theorem 1, by Gauss–Jacobi quadrature over Beta(½, (n−1)/2) alone."""
    from scipy.special import roots_jacobi

    instance = _instance("003/thm-1")
    n, first, layers = instance["n"], instance["first"], instance["layers"]
    nodes, weights = roots_jacobi(200, (n - 3) / 2, -0.5)
    b, weights = (1 + nodes) / 2, weights / weights.sum()
    least, gap = math.inf, 0.0
    for layer in range(1, layers + 2):
        rest = (1 - first) / (n - 1)
        first = float(weights @ (first * b / (first * b + rest * (1 - b))))
        gap = abs(first - 1 / n) * math.sqrt(n / (n - 1))
        if layer <= layers:
            least = min(least, math.sqrt(min(first, (1 - first) / (n - 1))))
    assert gap > 1.1 * 2 * (1 - 2 * least / 3) ** layers
    assert gap < 2 * (1 - 2 * least**2 / 3) ** layers


def test_the_step_by_hand() -> None:
    """E V̂(H_{ℓ+1}) at n = 5, d = 2^17, σ_n² = 1/128: six standard errors above the printed right side."""
    n, small, width = 5, 1 / 128, 1 << 17
    sigma = np.sqrt([*[(1 - small) / 4] * 4, small])
    rng, found = np.random.default_rng(0), []
    for _ in range(12):
        rows = rng.standard_normal((width, n)) * sigma
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        found.append(1 / n - float(np.linalg.eigvalsh(rows.T @ rows / width)[0]))
    printed = (1 - 2 / 3 * math.sqrt(small)) * (1 / n - small) + 1 / math.sqrt(width)
    corrected = (1 - 2 / 3 * small) * (1 / n - small) + 1 / math.sqrt(width)
    error = float(np.std(found)) / math.sqrt(11)
    assert np.mean(found) > printed + 6 * error
    assert np.mean(found) < corrected - 6 * error


def test_counterexamples_by_hand() -> None:
    """The shipped ones, recomputed with nothing but NumPy."""
    slice_ = _instance("003/alg-iter-mlp:gap")
    v, sigma = np.array(slice_["V"]), np.array(slice_["sigma"])
    h = np.diag(sigma) @ v.T
    out = v[: len(sigma)] @ np.diag(sigma**-0.5) @ h

    def gap(x: Any) -> float:
        g = x.T @ x / (x**2).sum()
        return float(np.linalg.norm(g - np.eye(len(g)) / len(g)))

    assert gap(out) > gap(h)
    averaged = _instance("003/eq-12:average")
    sigma, v, w = (np.array(averaged[name]) for name in ("sigma", "V", "W"))
    state = w[:, : len(sigma)] @ np.diag(sigma) @ v.T
    state /= np.linalg.norm(state, axis=1, keepdims=True)
    plain = w[:, : len(sigma)] * sigma
    plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    assert abs(state.T @ state - plain.T @ plain).max() > 0.1
    assert np.allclose(state.T @ state, v @ plain.T @ plain @ v.T)
    steps = _instance("003/appE:cauchy-last")
    sigma = np.array(steps["sigma"]) / np.linalg.norm(steps["sigma"])
    assert (sigma**3).sum() > (sigma**4).sum()


def test_thesis_counterexamples_by_hand() -> None:
    same = np.ones((2, 3))  # two equal samples of ±1
    assert np.linalg.svd(same, compute_uv=False)[-1] < math.sqrt(3) - math.sqrt(2)
    after = math.sqrt(0.8) / (math.sqrt(0.8) + math.sqrt(0.2))  # λ_1 after one layer of infinite width
    assert abs((after - 0.5) * (after - 0.8)) > abs((0.8 - 0.5) * (0.8 - 0.8))
    ratio = math.exp(-20.0)  # σ_2²/σ_1² after ℓ = 10 layers, eq. A.16
    assert math.log(ratio / (1 + ratio)) / 20 > math.log(2 * ratio) / 10
