"""Estimators: scikit-learn's own tools use them, and wide networks end where they say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError as TheirNotFittedError
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from isometer import Spec
from isometer.errors import IsometerError
from isometer.regression import NetworkKernelClassifier, NetworkKernelRegressor
from isometer.theory.networks import network_kernels

RNG = np.random.default_rng(2)
X = RNG.standard_normal((60, 4))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
TEXT = "dense(64, gain=1.3) > act('erf') > dense(1)"


def test_scikit_learn_takes_them_for_its_own() -> None:
    regressor, classifier = NetworkKernelRegressor(TEXT), NetworkKernelClassifier(TEXT)
    assert is_regressor(regressor)
    assert is_classifier(classifier)
    assert clone(regressor.set_params(kind="ntk", ridge=0.1)).get_params() == regressor.get_params()
    scores = cross_val_score(make_pipeline(StandardScaler(), regressor), X, Y, cv=3)
    expected = []
    for kept, left in KFold(3).split(X):
        scaled = (X - X[kept].mean(axis=0)) / X[kept].std(axis=0)
        expected.append(
            NetworkKernelRegressor(TEXT, "ntk", 0.1).fit(scaled[kept], Y[kept]).score(scaled[left], Y[left])
        )
    assert np.allclose(scores, expected)
    assert scores.mean() > 0.2  # 0 is the mean of the targets
    search = GridSearchCV(classifier, {"kind": ["nngp", "ntk"], "ridge": [1e-3, 1.0]}, cv=3).fit(X, X[:, 0] > 0)
    assert search.best_score_ > 0.9


def test_a_posterior_is_that_of_a_gaussian_process_with_this_kernel() -> None:
    """The kernel comes from the interpreter; `test_ridge` compares the algebra with scikit-learn."""
    spec, new = Spec(f"input(4) > {TEXT}"), RNG.standard_normal((5, 4))

    def kernel(first: np.ndarray, second: np.ndarray, **_: object) -> np.ndarray:
        both = network_kernels(spec, np.concatenate([np.atleast_2d(first), np.atleast_2d(second)]), kinds=("nngp",))
        whole = both["nngp"].matrix * np.exp(both["nngp"].log_diagonal.max())
        return whole[: len(np.atleast_2d(first)), len(np.atleast_2d(first)) :]

    model = NetworkKernelRegressor(TEXT, ridge=1e-3, normalize_y=False).fit(X, Y)
    grams = kernel(X, X)
    alpha = np.linalg.solve(grams + 1e-3 * np.trace(grams) / 60 * np.eye(60), Y)
    mean, std = model.predict(new, return_std=True)
    assert np.allclose(mean, kernel(new, X) @ alpha, atol=1e-8)
    assert (std > 0).all()
    assert (std < np.sqrt(np.diag(kernel(new, new)))).all()


def test_uncertainty_grows_away_from_the_data() -> None:
    for kind in ("nngp", "ntk"):
        model = NetworkKernelRegressor(TEXT, kind=kind, ridge=1e-6).fit(X, Y)  # type: ignore[arg-type]
        _, near = model.predict(X[:5], return_std=True)
        _, far = model.predict(8 * X[:5], return_std=True)
        assert (near < 0.02).all()
        assert (far > 5 * near).all()


def test_images_are_classified_with_convolutions() -> None:
    """Better than a linear classifier on the same pixels, and leave-one-out says how good."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x, y, z, expected = images[order[:200]], labels[order[:200]], images[order[200:600]], labels[order[200:600]]
    text = "input(1, [8, 8]) > conv(3, 64, padding='zeros', gain=2**0.5) > act('relu') > flatten > dense(1)"
    model = NetworkKernelClassifier(text, kind="ntk").fit(x, y)
    linear = RidgeClassifierCV(np.logspace(-3, 3, 7)).fit(x, y).score(z, expected)
    score = model.score(z, expected)
    assert score > linear
    assert abs((1 - min(model.loo_error_)) - score) < 0.08  # three standard deviations of 200 and 400 images
    assert model.classes_.tolist() == list(range(10))


def test_networks_without_a_formula_for_pairs_are_interpreted() -> None:
    model = NetworkKernelRegressor("dense(64) > act('hardtanh') > dense(1)", ridge=1e-3).fit(X[:20], Y[:20])
    mean, std = model.predict(X[20:22], return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_several_outputs_and_labels_of_any_kind() -> None:
    model = NetworkKernelRegressor(TEXT).fit(X, np.stack([Y, 2 * Y + 5], axis=1))
    mean, std = model.predict(X[:3], return_std=True)
    assert mean.shape == std.shape == (3, 2)
    assert np.allclose(mean[:, 1], 2 * mean[:, 0] + 5)
    assert np.allclose(std[:, 1], 2 * std[:, 0])
    named = NetworkKernelClassifier(TEXT).fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    assert set(named.predict(X)) == {"yes", "no"}
    assert named.decision_function(X).shape == (60,)


def test_errors_say_what_was_expected() -> None:
    with pytest.raises(IsometerError, match="not fitted"):
        NetworkKernelRegressor(TEXT).predict(X)
    assert issubclass(TheirNotFittedError, ValueError)
    with pytest.raises(IsometerError, match="batch norm"):
        NetworkKernelRegressor("dense(8) > norm('batch') > act('relu') > dense(1)").fit(X, Y)
    with pytest.raises(IsometerError, match="targets"):
        NetworkKernelRegressor(TEXT).fit(X, Y[:-1])
    with pytest.raises(IsometerError, match="takes"):
        NetworkKernelRegressor(TEXT).fit(X, Y).predict(X[:, :2])
    with pytest.raises(IsometerError, match="'gp'"):
        NetworkKernelRegressor(TEXT, kind="gp").fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(IsometerError, match="'width'"):
        NetworkKernelRegressor(TEXT).set_params(width=3)
    with pytest.raises(IsometerError, match="two classes"):
        NetworkKernelClassifier(TEXT).fit(X, np.ones(60))
