"""How well each opinion separates the sick from those that train: areas under the curve with intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.run._cells import canonical
from isometer.trial._fit import evidence, fit, judged_cases
from isometer.trial._members import Member
from isometer.trial._records import (
    OPTIMIZERS,
    baselines,
    causes,
    opinions,
    sibling_name,
    stresses,
    treated,
    truths,
)
from isometer.trial._roster import family_named
from isometer.trial._seal import openings
from isometer.trial._truth import Verdict, compare

Floats = NDArray[np.float64]
DOCTOR = "doctor, stress test"
STRESSED = {
    DOCTOR: "fresh",
    "doctor, stress test on one batch": "one",
    "doctor, stress test without targets": "gaussian",
}
FINDINGS, MADE_UP = "doctor, findings alone", "doctor, findings on made-up batches"
_EXAMINED = (opinions, baselines, stresses, causes, treated)
_SAMPLES = 2000
_SEVERE, _MODERATE, _MORE = 100.0, 10.0, 1.0


@dataclass(frozen=True)
class OpinionRow:
    """One opinion and one optimizer.

    Attributes:
        opinion: who says it.
        optimizer: whose truth it is held against.
        auc: area under the curve: how often a sick model scores higher than one that trains.
        low: end of the 95 % interval, over groups of kindred families.
        high: the other end.
        difference: to the doctor, paired; `nan` for the doctor itself.
        difference_low: end of its 95 % interval.
        difference_high: the other end.
        models: how many count, sick and training.
    """

    opinion: str
    optimizer: str
    auc: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float
    models: tuple[int, int]


@dataclass(frozen=True)
class Agreement:
    """The doctor's verdict against the truth of one optimizer, or of whichever does better.

    Attributes:
        optimizer: whose truth it is; `either` for models that train with one of them, and that are sick with both.
        batch: `real` or `gaussian`.
        found: sick models with a severe finding, of all that are sick.
        alarms: models that train with a severe finding, of all that train.
        errors: models that count and that the doctor could not examine.
    """

    optimizer: str
    batch: str
    found: tuple[int, int]
    alarms: tuple[int, int]
    errors: int


def area(scores: Floats, sick: NDArray[np.bool_]) -> float:
    """Share of pairs of a sick model and one that trains in which the sick one scores higher; ties count half.

    Example:
        >>> area(np.array([3.0, 1.0, 2.0, 0.0]), np.array([True, True, False, False]))
        0.75
    """
    return float(areas(scores, sick, np.ones((1, len(scores))))[0])


def areas(scores: Floats, sick: NDArray[np.bool_], weights: Floats) -> Floats:
    """Areas under the curve with weights of the models, one per row; `nan` where one of the two kinds is missing.

    Example:
        >>> sick, weights = np.array([True, True, False]), np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
        >>> areas(np.array([3.0, 1.0, 2.0]), sick, weights)
        array([0.5, 1. ])
    """
    scores = np.where(np.isnan(scores), np.inf, scores)  # what is no number counts as sickest
    ill, well = scores[sick][:, None], scores[~sick][None, :]
    higher = (ill > well) + 0.5 * (ill == well)
    pairs = weights[:, sick].sum(axis=1) * weights[:, ~sick].sum(axis=1)
    won = ((weights[:, sick] @ higher) * weights[:, ~sick]).sum(axis=1)
    found: Floats = np.divide(won, pairs, out=np.full(len(weights), np.nan), where=pairs > 0)
    return found


def distinct(members: Sequence[Member]) -> list[Member]:
    """The members without those that are the same model as an earlier one.

    A family may draw a fault without severity twice for one architecture. Weights and batches follow from the model, so
    that everything said about the second is a copy. Sound models have weights of their own.
    """
    found: dict[str, Member] = {}
    for member in members:
        record = member.to_dict()
        same = {key: record[key] for key in ("family", "blueprint", "fault", "severity")}
        found.setdefault(canonical(same if member.fault is not None else {"name": member.name}), member)
    return list(found.values())


def verdicts(folder: Path, members: Sequence[Member]) -> dict[str, dict[str, Verdict]]:
    """The truth by optimizer and member, as far as it is computed."""
    records = truths(folder, members).records()
    found: dict[str, dict[str, Verdict]] = {optimizer: {} for optimizer in OPTIMIZERS}
    for member in members:
        for optimizer in OPTIMIZERS:
            own, sound = (records.get(f"{name} {optimizer}") for name in (member.name, sibling_name(member)))
            if own is not None and sound is not None:
                found[optimizer][member.name] = compare(own, sound)
    return found


def doctor_score(record: Mapping[str, Any]) -> float:
    """The findings as one number: severe ones first, then moderate ones, then how many."""
    severities = Counter(one["severity"] for one in record["findings"])
    if record["error"] is not None:
        return math.inf  # a model that cannot be run is not healthy
    return (
        _SEVERE * bool(severities["severe"])
        + _MODERATE * bool(severities["moderate"])
        + _MORE * min(9, sum(severities.values()))
    )


def scores(folder: Path, members: Sequence[Member]) -> dict[str, dict[str, dict[str, float]]]:
    """Opinion → optimizer → member → score, larger for sicker."""
    said, numbers = opinions(folder, members).records(), baselines(folder, members).records()
    table: dict[str, dict[str, dict[str, float]]] = {}
    clear = clear_truth(verdicts(folder, members))
    for opinion, batch in STRESSED.items():
        found = _stress_scores(folder, members, clear, batch)
        if found["adam"]:
            table[opinion] = found
    for opinion, batch in ((FINDINGS, "real"), (MADE_UP, "gaussian")):
        column = {m.name: doctor_score(r) for m in members if (r := said.get(f"{m.name} {batch}")) is not None}
        table[opinion] = dict.fromkeys(OPTIMIZERS, column)
    known = {m.name: numbers[m.name] for m in members if m.name in numbers}
    at_start = sorted({key for record in known.values() for key in record["initialization"]})
    for key in at_start:
        column = {name: _number(record["initialization"][key]) for name, record in known.items()}
        table[key] = dict.fromkeys(OPTIMIZERS, column)
    if "gradient norm" in table:
        table["gradient norm, both ways"] = dict.fromkeys(OPTIMIZERS, _both_ways(table["gradient norm"]["adam"]))
    for key in sorted({key for record in known.values() for key in record["adam"]}):
        table[f"plain training, {key}"] = {
            optimizer: {name: _number(record[optimizer][key]) for name, record in known.items()}
            for optimizer in OPTIMIZERS
        }
    return table


def _stress_scores(
    folder: Path, members: Sequence[Member], clear: Mapping[str, Mapping[str, bool]], batch: str
) -> dict[str, dict[str, float]]:
    """Probability of being sick; no number, which counts as sickest, where the test failed."""
    found, chances = judged_cases(folder, members, clear, batch)
    table = failed_tests(folder, members, clear, batch) if found.names else {optimizer: {} for optimizer in OPTIMIZERS}
    for (name, optimizer), value in zip(found.names, chances, strict=True):
        table[optimizer][name] = 1 - float(value)
    return table


def failed_tests(
    folder: Path, members: Sequence[Member], clear: Mapping[str, Mapping[str, bool]], batch: str
) -> dict[str, dict[str, float]]:
    """Models with a clear truth whose stress test failed, or could run nothing, by optimizer."""
    records = stresses(folder, members, [batch]).records()
    return {
        optimizer: {
            member.name: math.nan
            for member in members
            if member.name in clear[optimizer]
            and (record := records.get(f"{member.name} {batch}")) is not None
            and evidence(record, optimizer) is None
        }
        for optimizer in OPTIMIZERS
    }


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _both_ways(column: Mapping[str, float]) -> dict[str, float]:
    """Distance from the median of all: too small and too large are both bad."""
    middle = float(np.nanmedian(list(column.values()))) if column else 0.0
    return {name: abs(value - middle) for name, value in column.items()}


def rows(folder: Path, members: Sequence[Member], *, seed: int = 0) -> list[OpinionRow]:
    """The table, one row per opinion and optimizer.

    Intervals come from resampling groups of kindred families, whose models resemble each other; differences to the
    doctor are paired.
    Models whose truth is slow or unknown count in no row; a model that was drawn twice counts once.
    """
    members = distinct(members)
    truth, opinion = verdicts(folder, members), scores(folder, members)
    kin = {member.name: family_named(member.family).kin for member in members}
    main = DOCTOR if DOCTOR in opinion else FINDINGS
    everywhere = [column for key, column in opinion.items() if key == main or key not in STRESSED]
    table = []
    for optimizer in OPTIMIZERS:
        clear = clear_truth(truth)[optimizer]
        names = [name for name in clear if all(name in column[optimizer] for column in everywhere)]
        if not names:
            continue
        sick = np.array([clear[name] for name in names])
        draws = _resampled([kin[name] for name in names], seed)
        doctor = np.array([opinion[main][optimizer][name] for name in names])
        for key, column in opinion.items():
            known = np.array([name in column[optimizer] for name in names])  # some stress tests may not be run yet
            own = np.array([column[optimizer][name] for name, there in zip(names, known, strict=True) if there])
            table.append(_row(key, optimizer, own, doctor[known], sick[known], draws[:, known], itself=key == main))
    return table


def _row(
    opinion: str,
    optimizer: str,
    own: Floats,
    doctor: Floats,
    sick: NDArray[np.bool_],
    draws: Floats,
    *,
    itself: bool,
) -> OpinionRow:
    spread, other = areas(own, sick, draws), areas(doctor, sick, draws)
    difference, ends = area(own, sick) - area(doctor, sick), _interval(spread - other)
    if itself:
        difference, ends = math.nan, (math.nan, math.nan)
    counted = (int(sick.sum()), int((~sick).sum()))
    return OpinionRow(opinion, optimizer, area(own, sick), *_interval(spread), difference, *ends, counted)


def _resampled(groups: Sequence[str], seed: int, samples: int = _SAMPLES) -> Floats:
    """How often each model is in a draw of groups with replacement, one row per draw."""
    rng = np.random.default_rng(seed)
    names, place = np.unique(np.array(groups), return_inverse=True)
    chosen = rng.integers(len(names), size=(samples, len(names)))
    counts = np.stack([np.bincount(row, minlength=len(names)) for row in chosen])
    return counts[:, place].astype(np.float64)


def _interval(values: Floats) -> tuple[float, float]:
    values = values[np.isfinite(values)]
    if not len(values):
        return math.nan, math.nan
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def clear_truth(truth: Mapping[str, Mapping[str, Verdict]]) -> dict[str, dict[str, bool]]:
    """Which models are sick and which train, by optimizer and for either; what is neither is left out."""
    names = set.intersection(*(set(found) for found in truth.values()))
    clear = {
        optimizer: {name: v.verdict == "sick" for name, v in found.items() if v.verdict in ("sick", "trains")}
        for optimizer, found in truth.items()
    }
    both = {name: {found[name].verdict for found in truth.values()} for name in names}
    clear["either"] = {
        name: kinds == {"sick"} for name, kinds in both.items() if kinds == {"sick"} or "trains" in kinds
    }
    return clear


def agreements(folder: Path, members: Sequence[Member]) -> list[Agreement]:
    """What the doctor's verdict catches and what it wrongly alarms about."""
    members = distinct(members)
    said, found = opinions(folder, members).records(), []
    for optimizer, clear in clear_truth(verdicts(folder, members)).items():
        for batch in ("real", "gaussian"):
            counts: Counter[tuple[bool, bool]] = Counter()
            errors = 0
            for name, sick in clear.items():
                record = said.get(f"{name} {batch}")
                if record is None:
                    continue
                errors += record["error"] is not None
                severe = record["error"] is not None or any(one["severity"] == "severe" for one in record["findings"])
                counts[sick, severe] += 1
            ill, well = ((counts[kind, True], counts[kind, True] + counts[kind, False]) for kind in (True, False))
            found.append(Agreement(optimizer, batch, ill, well, errors))
    return found


def fitted_verdict(rounds: Mapping[Path, Sequence[Member]]) -> dict[str, Any]:
    """The numbers of the doctor's verdict, fitted to these members of these trials; see `fit`."""
    known = {folder: distinct(members) for folder, members in rounds.items()}
    return fit([(folder, members, clear_truth(verdicts(folder, members))) for folder, members in known.items()])


def summary(folder: Path, members: Sequence[Member], *, seed: int = 0) -> dict[str, Any]:
    """Everything the table has, ready for JSON; `outdated` counts opinions of other code than the present."""
    members = distinct(members)
    truth = verdicts(folder, members)
    return {
        "models": len(members),
        "families": len({member.family for member in members}),
        "truth": {optimizer: dict(Counter(v.verdict for v in found.values())) for optimizer, found in truth.items()},
        "rows": [vars(row) for row in rows(folder, members, seed=seed)],
        "findings": [vars(one) for one in agreements(folder, members)],
        "outdated": sum(len(stage(folder, members).outdated()) for stage in _EXAMINED),
        "openings": openings(folder),
    }
