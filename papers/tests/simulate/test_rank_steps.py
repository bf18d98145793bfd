"""Steps of weak layers and plain chains (paper 002) against quadrature and known laws."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from scipy import stats

from isometer_papers.simulate.rank_steps import growth_exponents, plain_chain, uniform_weights

# --- one weak layer ------------------------------------------------------------


def test_uniform_weights_are_uniform() -> None:
    sample = uniform_weights(np.random.default_rng(0), 20_000)
    assert stats.kstest(sample, stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)).cdf).pvalue > 1e-4


# --- the chain ------------------------------------------------------------


def test_one_sample_has_the_uniform_law() -> None:
    """N = 1, d = 2, γ = 1: each sign flips with one probability whatever the state; χ² on the four states."""
    states = plain_chain(np.ones((1, 2)), 1.0, layers=20_000, rng=np.random.default_rng(0), every=20)[:, 0]
    codes = (states > 0) @ np.array([1, 2])
    assert stats.chisquare(np.bincount(codes, minlength=4)).pvalue > 1e-4


def test_growth_exponents_sum_to_the_log_determinant() -> None:
    """For d = 2 both exponents together are E log|det(I + γW)|, here by quadrature; within four standard errors."""
    gamma = 0.5
    nodes, weights = np.polynomial.legendre.leggauss(16)
    grid = np.array(list(product(nodes, repeat=4))).reshape(-1, 2, 2) * math.sqrt(3)
    weight = np.prod(np.array(list(product(weights, repeat=4))) / 2, axis=1)
    exact = weight @ np.log(np.abs(np.linalg.det(np.eye(2) + gamma * grid)))
    found = growth_exponents(2, gamma, layers=2000, chains=32, rng=np.random.default_rng(0)).sum(1)
    assert abs(found.mean() - exact) < 4 * found.std() / math.sqrt(31) + 2e-3


def test_chains_keep_their_features_at_unit_size() -> None:
    states = plain_chain(np.eye(4), 0.3, layers=5, rng=np.random.default_rng(0), function=np.tanh)
    assert np.allclose((states**2).mean(1), 1)
    vanilla = plain_chain(np.eye(4), 0.3, layers=5, rng=np.random.default_rng(0), normalize=False)
    assert np.allclose(np.linalg.norm(vanilla, axis=(1, 2)), 1)
