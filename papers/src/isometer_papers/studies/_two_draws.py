"""The same study read twice, from disjoint halves of its runs: no verdict may hang on one draw."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import xarray

from isometer_papers.studies._comparisons import POWER, Compared, plain
from isometer_papers.studies._study import Reading, Scale, Settings, Study
from isometer_papers.studies._times import longest_run, minutes_of_a_run

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


@dataclass(frozen=True)
class Effort:
    """What a run of a study takes.

    Args:
        minutes: of one run of all its networks, on one core.
        steps: of the longest of them.

    Example:
        >>> Effort(2.5, 600).words
        'of 2.5 minutes (600 steps)'
    """

    minutes: float
    steps: int

    @property
    def words(self) -> str:
        """In a sentence about runs."""
        return f"of {self.minutes:.2g} minutes ({self.steps} steps)"


def not_decidable(reading: Reading, effort: Effort) -> str:
    """What would decide the statements that are undecided for want of power: runs, and what each takes.

    Args:
        reading: of a result.
        effort: of a run.

    Example:
        >>> from isometer_papers.studies._comparisons import Compared
        >>> reading = Reading({}, {"a is ahead": Compared(None, 0.01, 0.02, 4, 0.1, 80)})
        >>> not_decidable(reading, Effort(2.5, 600))
        'Not decidable below 80 runs of 2.5 minutes (600 steps): a is ahead (the gap, 0.01, is 0.5 deviations ...'
    """
    found = []
    for name, one in _weak(reading).items():
        assert one.gap is not None
        away = f"the gap, {one.gap:.2g}, is {one.gap / one.deviation:.2g} deviations of a run"
        found.append(
            f"Not decidable below {_runs(one.needed)} {effort.words}: {name} ({away}; power {one.power:.2f} with "
            f"{one.runs} runs)."
        )
    return " ".join(found)


def _weak(reading: Reading) -> dict[str, Compared]:
    """What is undecided for want of power."""
    return {
        name: one
        for name, one in reading.compared.items()
        if one.seen is None and one.gap is not None and one.power is not None and one.power < POWER and one.deviation
    }


def _runs(needed: int | None) -> str:
    return "10,000 runs" if needed is None else f"{needed} runs"


def decided_by(reading: Reading, effort: Effort) -> str:
    """What would decide one of the statements of a reading that decides none; empty if power is not what is missing.

    Example:
        >>> from isometer_papers.studies._comparisons import Compared
        >>> decided_by(Reading({}, {"a is ahead": Compared(None, 0.01, 0.02, 4, 0.1, 80)}), Effort(2.5, 600))
        'not decidable below 80 runs of 2.5 minutes (600 steps)'
    """
    weak = list(_weak(reading).values())
    if reading.verdict != "unclear" or not weak:
        return ""
    least = min(weak, key=lambda one: math.inf if one.needed is None else one.needed)
    return f"not decidable below {_runs(least.needed)} {effort.words}"


def power_of(study: Study, scale: Scale, reading: Reading, seconds: float) -> dict[str, str]:
    """For the record of a study that trains: `undecided`, what would decide it, and `undecidable`, statement by
    statement; each only where there is something to tell.

    Args:
        study: which.
        scale: that was run.
        reading: of the result.
        seconds: that all runs took, where steps were not measured.

    Example:
        >>> from isometer_papers.studies import find
        >>> study = find("003/fig-1")
        >>> power_of(study, study.quick, Reading({}, {"it falls": True}), 1.0)
        {}
    """
    if study.medium is None:
        return {}
    effort = Effort(minutes_of_a_run(study, scale, seconds), longest_run(scale))
    told = {"undecided": decided_by(reading, effort), "undecidable": not_decidable(reading, effort)}
    return {name: text for name, text in told.items() if text}
