"""The few numbers of the doctor's verdict, fitted to models of the trial: a probability that a model trains.

A logistic regression with weights that are not negative (more progress never counts against a model), both optimizers
together. What the table shows is not the fit itself: the probability of each model comes from a fit without any model
of its group of related families.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from isometer.doctor.stress._outlook import Evidence, fitted
from isometer.trial._members import Member
from isometer.trial._records import OPTIMIZERS, later_stresses, stresses
from isometer.trial._roster import family_named
from isometer.trial._seal import openings

Floats = NDArray[np.float64]
KINDS = {"fresh batches": "fresh", "one batch": "one"}
"""What a fit is for, and which batches of the trial it is fitted to."""
THRESHOLDS: Mapping[str, Mapping[str, Any]] = {
    "fresh batches": {"trains": 0.8, "sick": 0.7, "keeps_up": [0.6, 0.25]},
    "one batch": {"trains": 0.8, "sick": 0.65},
}
"""Probabilities from which on a model is said to train, and below which it is said to be sick; and the shares of its
reference and of what can be learned from which on one that starts late is not (`verdict_at`).

Five models of the trial train for one that is sick. Among models that people bring since they do not seem to train it
may be one for one, and 0.7 then means 0.3.
"""
_NUMBERS = ("fresh", "fit", "reference_fresh", "reference_fit", "early", "repaired", "yardstick")
_PENALTY = 1e-3  # of squared weights, against the mean of the log likelihood: keeps them finite
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
    """What the stress test saw with one optimizer, `None` where it failed or nothing could be run."""
    found = record.get(optimizer)
    if found is None or found["fit"] is None:
        return None
    numbers = {key: math.nan if found.get(key) is None else float(found[key]) for key in _NUMBERS}
    return Evidence(**numbers, broken=bool(found["broken"]))


def logistic(features: Floats, trains: NDArray[np.bool_]) -> Floats:
    """Constant and weights, none of the weights negative, by penalised maximum likelihood.

    Example:
        >>> x = np.linspace(0, 1, 50)[:, None]
        >>> constant, weight = logistic(x, x[:, 0] > 0.5)
        >>> bool(weight > 1), bool(abs(-constant / weight - 0.5) < 0.05)
        (True, True)
    """
    signs = np.where(trains, 1.0, -1.0)
    rows = np.column_stack([np.ones(len(features)), features]) * signs[:, None]

    def loss(weights: Floats) -> tuple[float, Floats]:
        margins = rows @ weights
        value = np.logaddexp(0, -margins).mean() + _PENALTY / 2 * (weights[1:] @ weights[1:])
        slope = -(rows * (1 / (1 + np.exp(np.clip(margins, -500, 500))))[:, None]).mean(axis=0)
        slope[1:] += _PENALTY * weights[1:]
        return float(value), slope

    bounds = [(None, None)] + [(0, None)] * features.shape[1]
    found = optimize.minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds)
    answer: Floats = found.x
    return answer


def probability(weights: Floats, features: Floats) -> Floats:
    """That models with these features train."""
    found: Floats = 1 / (1 + np.exp(-np.clip(weights[0] + features @ weights[1:], -50, 50)))
    return found


@dataclass(frozen=True, eq=False)
class Cases:
    """Models with a clear truth and what the stress test saw of them, both optimizers together.

    Attributes:
        names: model and optimizer.
        features: one row per case.
        trains: the truth.
        kin: group of related families.
        seen: what the features are made of.
    """

    names: tuple[tuple[str, str], ...]
    features: Floats
    trains: NDArray[np.bool_]
    kin: tuple[str, ...]
    seen: tuple[Evidence, ...] = ()


def cases(
    folder: Path,
    members: Sequence[Member],
    clear: Mapping[str, Mapping[str, bool]],
    batch: str,
    *,
    at_opening: bool = False,
) -> Cases:
    """Gather them; `clear` says which models are sick, by optimizer.

    Where a later stress test saw more of a model than the one that its seal was opened for, the later one counts,
    unless what was known `at_opening` is wanted.
    """
    records = stresses(folder, members).records() | ({} if at_opening else later_stresses(folder, members).records())
    rows = []
    for member in members:
        record = records.get(f"{member.name} {batch}")
        for optimizer in OPTIMIZERS if record is not None else ():
            seen = evidence(record or {}, optimizer)
            if seen is not None and member.name in clear[optimizer]:
                sick = clear[optimizer][member.name]
                rows.append(((member.name, optimizer), seen, not sick, family_named(member.family).kin))
    return Cases(
        tuple(row[0] for row in rows),
        np.array([row[1].features() for row in rows]),
        np.array([row[2] for row in rows], dtype=np.bool_),
        tuple(row[3] for row in rows),
        tuple(row[1] for row in rows),
    )


def together(found: Sequence[Cases]) -> Cases:
    """The cases of several rounds as one; rounds without cases do not count."""
    known = [one for one in found if one.names]
    if not known:
        return Cases((), np.zeros((0, 0)), np.zeros(0, np.bool_), ())
    return Cases(
        tuple(name for one in known for name in one.names),
        np.concatenate([one.features for one in known]),
        np.concatenate([one.trains for one in known]),
        tuple(kin for one in known for kin in one.kin),
        tuple(seen for one in known for seen in one.seen),
    )


def held_out(found: Cases, fitted_to: Cases | None = None) -> Floats:
    """The probability of each case by a fit without its group of related families; to other cases, if given."""
    source = fitted_to or found
    answer = np.full(len(found.names), np.nan)
    groups, others = np.array(found.kin), np.array(source.kin)
    for group in sorted(set(found.kin)):
        weights = logistic(source.features[others != group], source.trains[others != group])
        answer[groups == group] = probability(weights, found.features[groups == group])
    return answer


def judged_cases(
    folder: Path, members: Sequence[Member], clear: Mapping[str, Mapping[str, bool]], batch: str
) -> tuple[Cases, Floats]:
    """Cases with the probability that each trains; none where nothing can be said yet.

    Sealed models get it from the numbers that their seal was opened for, models of the development half, to which those
    were fitted, from a fit without their own group. Without targets there is no fit of its own: that with targets
    serves.
    """
    sealed = any(member.sealed for member in members)
    found = cases(folder, members, clear, batch, at_opening=sealed)
    if sealed:
        numbers = numbers_at_opening(folder)[_kind(batch)]
        weights = np.array([numbers["constant"], *numbers["weights"]])
        return found, probability(weights, found.features) if found.names else np.zeros(0)
    source = cases(folder, members, clear, "fresh") if batch == "gaussian" else found
    if len(set(source.trains.tolist())) < 2:
        return Cases((), np.zeros((0, 0)), np.zeros(0, np.bool_), ()), np.zeros(0)
    return found, held_out(found, source)


def numbers_at_opening(folder: Path) -> Mapping[str, Any]:
    """The fitted numbers that the seal was opened for; those that the doctor ships if it was not opened yet."""
    past = openings(folder)
    found: Mapping[str, Any] = past[max(past)]["fitted"] if past else fitted()
    return found


def limits_for(folder: Path, members: Sequence[Member], batch: str) -> Mapping[str, Any]:
    """The limits of verdicts: those that the seal was opened for if the members are sealed, else those of now."""
    sealed = any(member.sealed for member in members)
    found: Mapping[str, Any] = (numbers_at_opening(folder) if sealed else THRESHOLDS)[_kind(batch)]
    return found


def _kind(batch: str) -> str:
    """Which fit is for what the stress test was given; a teacher gives fresh batches, too."""
    return "one batch" if batch == "one" else "fresh batches"


def reliability_curve(probabilities: Floats, trains: NDArray[np.bool_]) -> list[ReliabilityBin]:
    """How many of the models with a probability train.

    Example:
        >>> bins = reliability_curve(np.array([0.05, 0.95, 0.95]), np.array([False, True, True]))
        >>> [(one.models, one.trains) for one in bins]
        [(1, 0), (2, 2)]
    """
    found = []
    for low, high in itertools.pairwise(_BINS):
        inside = (probabilities >= low) & ((probabilities < high) | (high == 1.0))
        count, well = int(inside.sum()), int(trains[inside].sum())
        if count:
            ends = stats.binomtest(well, count).proportion_ci(0.95, method="wilson")
            expected = float(probabilities[inside].mean())
            interval = (round(float(ends.low), 6), round(float(ends.high), 6))
            found.append(ReliabilityBin(low, high, count, round(expected, 6), well, interval))
    return found


def fit(rounds: Sequence[tuple[Path, Sequence[Member], Mapping[str, Mapping[str, bool]]]]) -> dict[str, Any]:
    """The fitted numbers for each kind of batches, and how reliable they are on models they were not fitted to.

    Args:
        rounds: folder, members and, by optimizer, which of them are sick, of each round of the trial to fit to.
    """
    answer: dict[str, Any] = {}
    for kind, batch in KINDS.items():
        found = together([cases(folder, members, clear, batch) for folder, members, clear in rounds])
        if len(set(found.trains.tolist())) < 2:
            continue  # nothing to fit yet
        weights = logistic(found.features, found.trains)
        tested = held_out(found)
        answer[kind] = {
            "constant": round(float(weights[0]), 3),
            "weights": [round(float(one), 3) for one in weights[1:]],
            **THRESHOLDS[kind],
            "cases": [int((~found.trains).sum()), int(found.trains.sum())],
            "brier": round(float(np.mean((tested - found.trains) ** 2)), 4),
            "reliability": [asdict(one) for one in reliability_curve(tested, found.trains)],
        }
    return answer
