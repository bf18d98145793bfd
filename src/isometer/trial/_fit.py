"""The few numbers of the doctor's verdict, fitted to the development half: a probability that a model trains.

A logistic regression with weights that are not negative (more progress never counts against a model), both optimizers
together. What the table shows is not the fit itself: the probability of each model comes from a fit without any model
of its group of kindred families.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from isometer.doctor.stress._outlook import Evidence

Floats = NDArray[np.float64]
KINDS = {"fresh batches": "fresh", "one batch": "one"}
"""What a fit is for, and which batches of the trial it is fitted to."""
_PENALTY = 0.02  # of squared weights, per model: keeps them finite where classes are separate
_BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0)


@dataclass(frozen=True)
class ReliabilityBin:
    """Models whose probability lies between two limits.

    Attributes:
        low: limit.
        high: limit.
        models: how many there are.
        expected: mean of their probabilities.
        trains: how many of them train.
        interval: 95 % interval of the share that trains (Wilson).
    """

    low: float
    high: float
    models: int
    expected: float
    trains: int
    interval: tuple[float, float]


def evidence(record: Mapping[str, Any], optimizer: str) -> Evidence | None:
    """What the stress test saw with one optimizer, `None` where it failed."""
    found = record.get(optimizer)
    if found is None:
        return None
    numbers = {key: math.nan if value is None else value for key, value in found.items()}
    return Evidence(**numbers)


def logistic(features: Floats, trains: NDArray[np.bool_]) -> Floats:
    """Constant and weights, none of the weights negative, by penalised maximum likelihood.

    Example:
        >>> x = np.linspace(0, 1, 50)[:, None]
        >>> constant, weight = logistic(x, x[:, 0] > 0.5)
        >>> weight > 1, abs(-constant / weight - 0.5) < 0.05
        (True, True)
    """
    signs = np.where(trains, 1.0, -1.0)
    rows = np.column_stack([np.ones(len(features)), features]) * signs[:, None]

    def loss(weights: Floats) -> tuple[float, Floats]:
        margins = rows @ weights
        value = np.logaddexp(0, -margins).mean() + _PENALTY / 2 * (weights[1:] @ weights[1:]) / _SCALE
        slope = -(rows * (1 / (1 + np.exp(np.clip(margins, -500, 500))))[:, None]).mean(axis=0)
        slope[1:] += _PENALTY * weights[1:] / _SCALE
        return float(value), slope

    bounds = [(None, None)] + [(0, None)] * features.shape[1]
    found = optimize.minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds)
    answer: Floats = found.x
    return answer


_SCALE = 10.0


def probability(weights: Floats, features: Floats) -> Floats:
    """That models with these features train."""
    found: Floats = 1 / (1 + np.exp(-np.clip(weights[0] + features @ weights[1:], -50, 50)))
    return found
