"""Chains of features and Gram matrices (paper 003) against weights written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from isometer.errors import IsometerError
from isometer_papers.simulate.orthogonality_steps import (
    dense_chain,
    feature_chain,
    gram_statistics,
    singular_value_gap,
)

# --- depth --------------------------------------------------------------------------------------------------------


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
