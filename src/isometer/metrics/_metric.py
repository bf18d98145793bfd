"""What a metric is: the number, what it reads, how it scales, and how people read it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from isometer.errors import IsometerError
from isometer.metrics._arrays import Array, namespace
from isometer.metrics._gram_matrix import gram as gram_of
from isometer.metrics._several import Shared

Reads = Literal["gram", "products", "representation", "gradient", "tokens", "sequence", "site"]
SIMULATED: tuple[Reads, ...] = ("gram", "products", "representation", "gradient")
"""What the metrics of a simulation read; the others need a model, or a network over sequences."""

Scaling = Literal["invariant", "linear", "quadratic", "logarithmic", "absolute"]
Axis = Literal["linear", "log", "auto"]
GROUPS = ("Signal", "Scale", "Gradients", "Weights", "Units", "Tokens", "Other")
GAIN_RATIO = "gain_ratio"
"""Derived by reports: the gain of the weights over the principled one."""

_WIDE = 50  # spread of positive values from which on a logarithmic axis is easier to read
_FACTORS = {"%": 100.0, "log₁₀": 1.0 / math.log(10.0)}  # from the number to what is shown


@dataclass(frozen=True)
class Metric:
    """One number per batch, layer or site.

    Functions take NumPy arrays and torch tensors `(…, n, d)` and return `(…)`.

    Attributes:
        name: an identifier; the key in datasets and JSON.
        function: computes the number; None for numbers that the doctor's hooks read.
        reads: what the number depends on:

            - `gram`: the Gram matrix `G = H Hᵀ / d`; the function takes `gram=G` and, to keep all digits, may take H;
            - `products`: `H Hᵀ`, so the width matters too; the function takes H;
            - `representation`: the entries of H; the function takes H;
            - `gradient`: the Gram matrix of the samples' gradients, of any scale; the function takes `gram=G`;
            - `tokens`: the Gram matrix of the tokens within a sample;
            - `sequence`: the tokens of all samples, or what attention reads, in predictions and simulations;
            - `site`: a number of one operation in a model.
        scaling: what `c H` has, c > 0, if H has v: `invariant` v, `linear` c v, `quadratic` c² v, `logarithmic`
            v + log c; `absolute`: none of these.
        title: a readable title; the name with spaces by default.
        heading: short, for columns and panels; the title by default.
        unit: `%`, `°`, `decades`, `log₁₀` or nothing. Reports show fractions as `%`, natural logarithms as `log₁₀`.
        axis: `linear`, `log`, or `auto`: logarithmic where positive values span a factor of 50.
        sentence: what a value means.
        group: one of `GROUPS`.
        lower: no value is below; None for no bound.
        upper: no value is above; None for no bound.
        probed: whether the doctor measures it at every site; of `gram`, `products` and `representation`.
        companion: a metric to draw beside it.
        reference: a value to mark by a line.
        shared: the same as `function` for Gram matrices known to be sound, from what metrics share.

    Example:
        >>> trace = Metric("mean_square", lambda gram: gram.trace() / len(gram), "gram", "quadratic", unit="")
        >>> trace.title, float(trace.of([[1.0, 1.0], [3.0, 1.0]]))
        ('mean square', 3.0)
    """

    name: str
    function: Callable[..., Array] | None
    reads: Reads
    scaling: Scaling = "invariant"
    title: str = ""
    heading: str = ""
    unit: str = ""
    axis: Axis = "auto"
    sentence: str = ""
    group: str = "Other"
    lower: float | None = None
    upper: float | None = None
    probed: bool = True
    companion: str | None = None
    reference: float | None = None
    shared: Callable[[Shared], Array] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name.replace("_", " "))
        object.__setattr__(self, "heading", self.heading or self.title)

    def of(self, representation: Array) -> Array:
        """The number of a representation `(…, n, d)`.

        Example:
            >>> from isometer.metrics import metric
            >>> int(metric("rank").of([[1.0, 0.0], [2.0, 0.0]]))
            1
        """
        function = self._function()
        if self.reads == "gram" and not _takes_representation(function):
            return function(gram=gram_of(representation))
        return function(representation)

    def of_gram(self, gram: Array) -> Array:
        """The number of a Gram matrix `(…, n, n)`.

        Example:
            >>> from isometer.metrics import metric
            >>> float(metric("stable_rank").of_gram([[3.0, 0.0], [0.0, 1.0]]))
            1.6
        """
        return self._function()(gram=gram)

    def at_scale(self, value: Array, log_scale: Array) -> Array:
        """The number of `exp(log_scale) H`, given that of H.

        Example:
            >>> from isometer.metrics import metric
            >>> float(metric("log_norm").at_scale(1.5, 2.0))
            3.5
        """
        if self.scaling == "invariant":
            return value
        if self.scaling == "logarithmic":
            return value + log_scale
        if self.scaling == "absolute":
            raise IsometerError(
                f"{self.name} cannot be converted between scales — evaluate it at the scale of the data"
            )
        xp = namespace(log_scale)
        with np.errstate(over="ignore"):
            factor = xp.exp(log_scale if self.scaling == "linear" else 2 * log_scale)
        return xp.where(value == 0, 0.0, value * factor)  # a zero stays one where the factor overflows

    def log_axis(self, values: Iterable[float]) -> bool:
        """Whether a logarithmic axis suits the values.

        Example:
            >>> from isometer.metrics import metric
            >>> metric("isometry_gap").log_axis([1e-6, 1.0]), metric("isometry_gap").log_axis([0.5, 1.0])
            (True, False)
        """
        positive = [value for value in values if value > 0]
        wide = len(positive) > 1 and max(positive) > _WIDE * min(positive)
        return self.axis == "log" or (self.axis == "auto" and wide)

    @property
    def factor(self) -> float:
        """From the number to what reports show in its unit."""
        return _FACTORS.get(self.unit, 1.0)

    @property
    def label(self) -> str:
        """Title and unit, for an axis."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def _function(self) -> Callable[..., Array]:
        if self.function is None:
            raise IsometerError(
                f"{self.name} cannot be computed from a batch; the doctor measures it in a model — use probe"
            )
        return self.function


def check_entry(metric: Metric) -> None:
    """Refuse an entry that its readers could not use."""
    if not metric.name.isidentifier():
        raise IsometerError(f"the name of a metric is {metric.name!r}; expected an identifier — rename it")
    for field, options in (("reads", Reads), ("scaling", Scaling), ("axis", Axis)):
        if getattr(metric, field) not in get_args(options):
            expected = ", ".join(get_args(options))
            raise IsometerError(f"{field} of {metric.name} is {getattr(metric, field)!r}; expected one of {expected}")
    if metric.group not in GROUPS:
        raise IsometerError(f"group of {metric.name} is {metric.group!r}; expected one of {', '.join(GROUPS)}")
    if metric.reads in ("site", "sequence"):
        return
    if metric.reads == "gradient" and metric.scaling != "invariant":
        raise IsometerError(
            f"{metric.name} reads gradients and its scaling is {metric.scaling!r}; expected 'invariant', as their "
            "scale is that of the loss — normalise it"
        )
    if (
        metric.reads in ("gram", "gradient", "tokens")
        and "gram" not in inspect.signature(metric._function()).parameters
    ):
        raise IsometerError(
            f"the function of {metric.name} has no parameter 'gram'; expected one, as the metric reads a Gram matrix — "
            "name the parameter so, or pass reads='representation'"
        )


@lru_cache
def _takes_representation(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name != "gram" and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
