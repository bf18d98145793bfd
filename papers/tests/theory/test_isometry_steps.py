"""The steps about isometry (001, chapter 4) against the metrics."""

from __future__ import annotations

import numpy as np
import pytest

from isometer.errors import IsometerError
from isometer.metrics import (
    batch_norm_gain_bound_as_printed,
    batch_normalize,
    isometry,
    isometry_gain,
    isometry_gain_bound,
    layer_normalize,
)
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
