"""Estimators with scikit-learn's interface. They do not import it: it finds what it asks for by name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError
from isometer.regression._kernels import Kind, as_inputs, diagonal_of, kernels_between, network_of
from isometer.regression._ridge import RIDGES, RidgeFit, ridge_fit
from isometer.spec import Spec

Floats = NDArray[np.float64]
Precision = Literal["float64", "float32"]


class KernelEstimator:
    """What regressor and classifier share: parameters by name, and the kernel of a network."""

    _estimator_type: ClassVar[str]

    def __init__(
        self,
        network: Spec | str = "repeat(dense(gain=2**0.5) > act('relu'), 3) > dense(1)",
        kind: Kind = "nngp",
        ridge: float | Sequence[float] = RIDGES,
        precision: Precision = "float64",
    ) -> None:
        self.network, self.kind, self.ridge, self.precision = network, kind, ridge, precision

    # --- what scikit-learn asks for -----------------------------------------------------------------------------------

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; `deep` is scikit-learn's, there are none within parameters."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name."""
        for name, value in parameters.items():
            if name not in self._names():
                raise IsometerError(f"unknown parameter {name!r}; expected one of {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        classifies = self._estimator_type == "classifier"
        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=True, multi_output=not classifies),
            classifier_tags=ClassifierTags() if classifies else None,
            regressor_tags=None if classifies else RegressorTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fit_")

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({given})"

    # --- the kernel ---------------------------------------------------------------------------------------------------

    def _prepare(self, samples: ArrayLike, targets: ArrayLike) -> tuple[Floats, NDArray[Any]]:
        if self.kind not in ("nngp", "ntk"):
            raise IsometerError(f"kind is {self.kind!r}; expected 'nngp' or 'ntk'")
        x, y = np.asarray(samples), np.asarray(targets)
        if x.ndim < 2 or len(x) != len(y) or len(x) < 2:
            raise IsometerError(
                f"samples have shape {x.shape} and targets {y.shape}; expected (n, features) or (n, channels, "
                "*positions) with a target each, n at least 2"
            )
        self.spec_ = network_of(self.network, x.shape[1:])
        self.n_features_in_ = int(np.prod(x.shape[1:]))
        self.samples_ = as_inputs(x, self.spec_.shape)
        return self.samples_, y

    def _kernel(self, kinds: Sequence[Kind], samples: Floats | None = None) -> dict[Kind, Floats]:
        """Among the samples of the fit, or of others (rows) with them."""
        if samples is None:
            return kernels_between(self.spec_, self.samples_, None, kinds, self.precision)
        return kernels_between(self.spec_, samples, self.samples_, kinds, self.precision)

    def _new(self, samples: ArrayLike) -> Floats:
        if not hasattr(self, "fit_"):
            raise NotFittedError(type(self).__name__)
        return as_inputs(samples, self.spec_.shape)

    fit_: RidgeFit


class NotFittedError(IsometerError, ValueError, AttributeError):
    """An estimator that has seen no data; scikit-learn's error of this name has the same base classes.

    Example:
        >>> print(NotFittedError("NetworkKernelRegressor"))
        this NetworkKernelRegressor is not fitted; expected fit before predictions — call fit(samples, targets)
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"this {name} is not fitted; expected fit before predictions — call fit(samples, targets)")


class NetworkKernelRegressor(KernelEstimator):
    """Regression with the NNGP or NTK kernel of an infinitely wide network.

    With `kind="nngp"` this is the posterior of the random network as a Gaussian process, given the data. With
    `kind="ntk"` it is the limit of wide networks that gradient descent trains from random weights. Targets are
    standardised, and predictions are returned in the original units.

    Args:
        network: a `Spec` or its text; without `input(…)` the samples decide on the features.
        kind: "nngp" or "ntk".
        ridge: in units of the mean of the kernel's diagonal. If there are several, leave-one-out chooses.
        precision: precision of kernels pair by pair, "float64" or "float32".
        normalize_y: subtract the mean of the targets and divide by their standard deviation.

    Attributes:
        ridge_: the chosen ridge.
        loo_error_: mean squared error of leave-one-out for every ridge, targets standardised.
        fit_: the `RidgeFit`.

    Example:
        >>> x = np.linspace(-2, 2, 20)[:, None] * [1, 0] + [0, 1]
        >>> model = NetworkKernelRegressor("dense(64) > act('erf') > dense(1)", ridge=1e-6).fit(x, np.sin(x[:, 0]))
        >>> mean, std = model.predict([[0.5, 1.0], [9.0, 1.0]], return_std=True)
        >>> bool(abs(mean[0] - np.sin(0.5)) < 0.01), bool(std[0] < 0.05 < std[1])
        (True, True)
    """

    _estimator_type = "regressor"

    def __init__(
        self,
        network: Spec | str = "repeat(dense(gain=2**0.5) > act('relu'), 3) > dense(1)",
        kind: Kind = "nngp",
        ridge: float | Sequence[float] = RIDGES,
        precision: Precision = "float64",
        normalize_y: bool = True,
    ) -> None:
        super().__init__(network, kind, ridge, precision)
        self.normalize_y = normalize_y

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Compute the kernel of the samples, choose the ridge, solve.

        Args:
            X: `(n, features)` or `(n, channels, *positions)`.
            y: `(n,)` or `(n, outputs)`.
        """
        _, targets = self._prepare(X, y)
        targets = targets.astype(np.float64)
        columns = targets[:, None] if targets.ndim == 1 else targets
        self._flat = targets.ndim == 1
        self._mean, self._size = np.zeros(columns.shape[1]), np.ones(columns.shape[1])
        if self.normalize_y:
            self._mean, spread = columns.mean(axis=0), columns.std(axis=0)
            self._size = np.where(spread > 0.0, spread, 1.0)
        both: tuple[Kind, ...] = ("nngp", "ntk") if self.kind == "ntk" else ("nngp",)
        kernels = self._kernel(both)
        self.fit_ = ridge_fit(kernels[self.kind], (columns - self._mean) / self._size, self.ridge)
        self._prior = kernels["nngp"]
        self.ridge_, self.loo_error_ = self.fit_.ridge, self.fit_.errors
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Predictions, `(m,)` or `(m, outputs)`, and with `return_std` their standard deviations.

        For "nngp" these are of the posterior; for "ntk" they are over networks trained from random weights.
        """
        x = self._new(X)
        both: tuple[Kind, ...] = ("nngp", "ntk") if self.kind == "ntk" and return_std else (self.kind,)
        cross = self._kernel(both, x)
        mean = self._shaped(self.fit_.predict(cross[self.kind]) * self._size + self._mean)
        if not return_std:
            return mean
        diagonal = diagonal_of(self.spec_, x, "nngp", self.precision)
        if self.kind == "nngp":
            variance = self.fit_.variance(cross["nngp"], diagonal)
        else:
            variance = self.fit_.trained_variance(cross["ntk"], self._prior, cross["nngp"], diagonal)
        return mean, self._shaped(np.sqrt(variance)[:, None] * self._size)

    def _shaped(self, columns: Floats) -> Floats:
        return columns[:, 0] if self._flat else columns

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The coefficient of determination R², the mean over outputs."""
        expected = np.asarray(y, dtype=np.float64)
        left = ((self.predict(X) - expected) ** 2).sum(axis=0)
        return float(np.mean(1.0 - left / ((expected - expected.mean(axis=0)) ** 2).sum(axis=0)))


class NetworkKernelClassifier(KernelEstimator):
    """Classification by regression on one-hot targets, with the NNGP or NTK kernel of an infinitely wide network.

    Args:
        network: a `Spec` or its text; without `input(…)` the samples decide on the features.
        kind: "nngp" or "ntk".
        ridge: in units of the mean of the kernel's diagonal. If there are several, leave-one-out accuracy chooses.
        precision: precision of kernels pair by pair, "float64" or "float32".

    Attributes:
        classes_: the labels.
        ridge_: the chosen ridge.
        loo_error_: share of wrong labels of leave-one-out for every ridge.
        fit_: the `RidgeFit`.

    Example:
        >>> x = np.random.default_rng(0).standard_normal((60, 2))
        >>> model = NetworkKernelClassifier(kind="ntk").fit(x, np.where(x[:, 0] * x[:, 1] > 0, "same", "other"))
        >>> model.predict([[1.0, 1.0], [-1.0, 1.0]]).tolist()
        ['same', 'other']
    """

    _estimator_type = "classifier"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Compute the kernel of the samples, choose the ridge, solve.

        Args:
            X: `(n, features)` or `(n, channels, *positions)`.
            y: `(n,)` labels of at least two classes.
        """
        _, labels = self._prepare(X, y)
        if labels.ndim != 1:
            raise IsometerError(f"labels have shape {labels.shape}; expected one per sample — pass (n,)")
        self.classes_, places = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise IsometerError("all samples have one label; expected at least two classes")
        self.fit_ = ridge_fit(self._kernel((self.kind,))[self.kind], one_hot(places), self.ridge, loss=wrong_share)
        self.ridge_, self.loo_error_ = self.fit_.ridge, self.fit_.errors
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Regressed targets, `(m, classes)`; `(m,)` of two classes, positive for the second."""
        cross = self._kernel((self.kind,), self._new(X))
        found = self.fit_.predict(cross[self.kind])
        return found if len(self.classes_) > 2 else found[:, 1] - found[:, 0]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels, `(m,)`."""
        found = self.decision_function(X)
        places = found.argmax(axis=1) if found.ndim == 2 else (found > 0).astype(np.intp)
        return np.asarray(self.classes_[places])

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The share of right labels."""
        return float((self.predict(X) == np.asarray(y)).mean())


def one_hot(places: NDArray[Any]) -> Floats:
    """Targets of classification: 1 − 1/classes for the class, −1/classes for the others.

    Example:
        >>> one_hot(np.array([1, 0])).tolist()
        [[-0.5, 0.5], [0.5, -0.5]]
    """
    classes = int(places.max()) + 1
    return np.asarray(np.eye(classes)[places] - 1.0 / classes)


def wrong_share(targets: Floats, predictions: Floats) -> float:
    """How often the largest prediction is not that of the class.

    Example:
        >>> wrong_share(np.eye(2), np.array([[1.0, 0.0], [0.6, 0.4]]))
        0.5
    """
    return float((targets.argmax(axis=1) != predictions.argmax(axis=1)).mean())
