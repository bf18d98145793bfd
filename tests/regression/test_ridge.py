"""Ridge regression with a kernel against scikit-learn and against fits that leave one sample out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge

from isometer.errors import IsometerError
from isometer.regression import ridge_fit

RNG = np.random.default_rng(5)
X, Z = RNG.standard_normal((40, 3)), RNG.standard_normal((7, 3))
Y = np.stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]], axis=1) + 0.1 * RNG.standard_normal((40, 2))
KERNEL = RBF(1.5)


def test_predictions_equal_those_of_scikit_learn() -> None:
    found = ridge_fit(KERNEL(X), Y, 0.03)
    expected = KernelRidge(alpha=0.03, kernel="precomputed").fit(KERNEL(X), Y)
    assert np.allclose(found.predict(KERNEL(Z, X)), expected.predict(KERNEL(Z, X)), rtol=1e-9, atol=1e-11)


def test_the_posterior_equals_that_of_scikit_learn() -> None:
    found = ridge_fit(KERNEL(X), Y[:, 0], 0.03)
    gp = GaussianProcessRegressor(KERNEL, alpha=0.03, optimizer=None).fit(X, Y[:, 0])
    mean, std = gp.predict(Z, return_std=True)
    assert np.allclose(found.predict(KERNEL(Z, X))[:, 0], mean, atol=1e-10)
    assert np.allclose(np.sqrt(found.variance(KERNEL(Z, X), np.ones(len(Z)))), std, atol=1e-9)


def test_leave_one_out_equals_fits_without_the_sample() -> None:
    k = KERNEL(X)
    found = ridge_fit(k, Y, [1e-3, 1e-2, 1.0])
    errors = []
    for ridge in found.ridges:
        predictions = []
        for i in range(len(X)):
            keep = np.delete(np.arange(len(X)), i)
            alpha = np.linalg.solve(k[np.ix_(keep, keep)] + ridge * np.eye(len(keep)), Y[keep])
            predictions.append(k[i, keep] @ alpha)
        errors.append(((np.array(predictions) - Y) ** 2).mean())
        if ridge == found.ridge:
            assert np.allclose(found.left_out, predictions, atol=1e-9)
    assert np.allclose(found.errors, errors, rtol=1e-8)
    assert found.ridge == found.ridges[int(np.argmin(errors))]


def test_the_variance_of_trained_networks_is_that_of_linear_training() -> None:
    """f(x) − A f(X) for Gaussian f of covariance K: sampled covariance within five standard errors."""
    prior, tangent = RBF(1.0), RBF(2.0)
    found = ridge_fit(tangent(X), Y, 0.1)
    variance = found.trained_variance(tangent(Z, X), prior(X), prior(Z, X), np.ones(len(Z)))
    joint = prior(np.concatenate([X, Z]))
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(47), joint, size=40_000, method="eigh")
    a = tangent(Z, X) @ np.linalg.inv(tangent(X) + 0.1 * np.eye(40))
    left = draws[:, 40:] - draws[:, :40] @ a.T
    assert np.abs(left.var(axis=0) / variance - 1).max() < 5 * np.sqrt(2 / 40_000)


@pytest.mark.parametrize("ridges", [[], -1.0, [1.0, np.nan]])
def test_ridges_that_are_none_are_refused(ridges: object) -> None:
    with pytest.raises(IsometerError, match="ridges are"):
        ridge_fit(np.eye(3), np.ones(3), ridges)  # type: ignore[arg-type]


def test_a_singular_kernel_has_an_answer() -> None:
    found = ridge_fit(np.ones((4, 4)), [1.0, 1.0, 1.0, 1.0], 0.0)
    assert np.allclose(found.predict(np.ones((1, 4))), 1.0)
