"""Orthogonality gaps and their bounds (paper 003) against the metrics, quadrature and sampling."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import integrate

from isometer.errors import IsometerError
from isometer.metrics import batch_normalize, lyapunov_gap, orthogonality_gap, wasserstein_to_isotropic
from isometer.theory.batch_norm import smallest_share_bound, spectrum_map
from isometer_papers.simulate.orthogonality_steps import feature_chain, gram_statistics, smallest_singular_value
from isometer_papers.theory.orthogonality.bounds import (
    gap_bound,
    gap_of,
    gaussian_distance,
    gaussian_distance_bound,
    gram_spread,
    lyapunov_of,
    orthogonal_spread,
    share_contraction,
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

SPECTRUM = np.array([0.5, 0.3, 0.15, 0.05])


# --- spectra and gaps ---------------------------------------------------------------------------------------------


def test_spectral_forms_are_the_metrics() -> None:
    h = np.random.default_rng(0).standard_normal((4, 9))
    squares = np.linalg.svd(h, compute_uv=False) ** 2
    assert spectral_gap(squares) == pytest.approx(float(orthogonality_gap(h)))
    assert gap_of(h) == pytest.approx(float(orthogonality_gap(h)))
    assert lyapunov_of(squares) == pytest.approx(float(lyapunov_gap(h)))
    assert gaussian_distance(squares) == pytest.approx(float(wasserstein_to_isotropic(h)) ** 2)
    assert np.allclose(unit_features(h), batch_normalize(h, recenter=False) / 2)


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
