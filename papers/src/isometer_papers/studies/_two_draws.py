"""The same study read twice, from disjoint halves of its runs: no verdict may hang on one draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import xarray

from isometer_papers.studies._comparisons import POWER, plain
from isometer_papers.studies._study import Reading, Scale, Settings, Study
from isometer_papers.studies._times import minutes_of_a_run

_LEAST = 4  # runs: two on each side


def read_twice(study: Study, result: xarray.Dataset, settings: Settings) -> tuple[Reading, dict[str, Any]]:
    """A reading, and what runs of even and of odd number say alone.

    A statement that one half decides against the whole, or against the other half, hangs on the draw: it counts as
    undecided. A half has fewer runs, so it may leave undecided what the whole decides.

    Args:
        study: which; those that do not train, or have fewer than four runs, are read once.
        result: of all runs.
        settings: of the scale.

    Returns:
        The reading, and `verdicts` and `statements` of the halves; the latter is empty where there are none.

    Example:
        >>> from isometer_papers.studies import find
        >>> study = replace(find("003/fig-1"), read=lambda *_: Reading({}, {"it falls": True}))
        >>> read_twice(study, xarray.Dataset(), {})[1]
        {}
    """
    whole = study.read(result, settings)
    if study.medium is None or result.sizes.get("run", 0) < _LEAST:
        return whole, {}
    numbers = list(range(result.sizes["run"]))
    halves = [_part(study, result, settings, numbers[start::2]) for start in (0, 1)]
    seen: dict[str, list[bool | None]] = {
        name: [plain(half.statements[name]) if name in half.statements else None for half in halves]
        for name in whole.statements
    }
    kept = {
        name: None if _hangs(plain(whole.statements[name]), seen[name]) else whole.statements[name] for name in seen
    }
    hanging = [name for name in kept if plain(kept[name]) is not plain(whole.statements[name])]
    told = [f"Undecided since it hangs on the draw: {'; '.join(hanging)}."] if hanging else []
    compared = {name: one if name not in hanging else replace(one, seen=None) for name, one in whole.compared.items()}
    reading = Reading(whole.measured, {**kept, **compared}, " ".join([*told, *filter(None, [whole.remark])]))
    return reading, {"verdicts": [half.verdict for half in halves], "statements": seen}


def _part(study: Study, result: xarray.Dataset, settings: Settings, places: list[int]) -> Reading:
    own: Mapping[str, Any] = {**settings, "run": [settings["run"][place] for place in places]}
    return study.read(result.isel(run=places), own)


def _hangs(whole: bool | None, halves: list[bool | None]) -> bool:
    decided = {one for one in (whole, *halves) if one is not None}
    return whole is not None and len(decided) > 1


def not_decidable(reading: Reading, minutes: float) -> str:
    """What would decide the statements that are undecided for want of power: runs, and minutes of each.

    Args:
        reading: of a result.
        minutes: that one run of all networks of the study takes, on one core.

    Example:
        >>> from isometer_papers.studies._comparisons import Compared
        >>> reading = Reading({}, {"a is ahead": Compared(None, 0.01, 0.02, 4, 0.1, 80)})
        >>> not_decidable(reading, 2.5)
        'Not decidable below 80 runs of 2.5 minutes: a is ahead (gap 0.01, deviation 0.02, power 0.10 with 4 runs).'
    """
    found = []
    for name, one in reading.compared.items():
        if one.seen is not None or one.gap is None or one.power is None or one.power >= POWER:
            continue
        runs = "10,000 runs" if one.needed is None else f"{one.needed} runs"
        found.append(
            f"Not decidable below {runs} of {minutes:.2g} minutes: {name} (gap {one.gap:.2g}, deviation "
            f"{one.deviation:.2g}, power {one.power:.2f} with {one.runs} runs)."
        )
    return " ".join(found)


def with_power(why: str, study: Study, scale: Scale, reading: Reading, seconds: float) -> str:
    """The remarks of a record, with what would decide what is undecided."""
    if study.medium is None:
        return why
    told = not_decidable(reading, minutes_of_a_run(study, scale, seconds))
    return " ".join(part for part in (why, told) if part)
