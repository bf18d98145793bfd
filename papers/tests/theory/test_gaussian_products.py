"""Products of Gaussian matrices (001, Appendix A): exponents and the distance from rank one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from isometer.errors import IsometerError
from isometer_papers.simulate.orthogonality_steps import product_exponents_sample
from isometer_papers.theory.orthogonality.bounds import spectral_gap
from isometer_papers.theory.rank.gaussian_products import (
    distance_from_rank_one,
    product_exponent,
    rank_one_bound,
    rank_one_rate,
)

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
