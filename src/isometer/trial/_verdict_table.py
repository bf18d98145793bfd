"""How often the verdict of the stress test is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from isometer.doctor.stress._outlook import verdict_at
from isometer.trial._fit import judged_cases, limits_for
from isometer.trial._members import Member
from isometer.trial._records import OPTIMIZERS
from isometer.trial._shares import Share, share
from isometer.trial._table import STRESSED, clear_truth, distinct, failed_tests, verdicts

LIBRARY = "library-"
"""How names of families begin that `transformers` builds."""


@dataclass(frozen=True)
class VerdictCounts:
    """What the stress test says of models with a clear truth, by fits that did not see their own group.

    Attributes:
        optimizer: whose truth and whose verdict.
        batch: `fresh`, `one` or `gaussian`.
        sick: verdicts of the sick models, by name.
        trains: verdicts of those that train.
        found: the share of the sick that are called sick.
        alarms: the share of those that train that are called sick.
        library: the same of architectures of `transformers`, faults that do no harm included.
        library_sound: the same without a fault.
        alarmed: names of those that train and are called sick.
        missed: names of the sick that are not called sick.
    """

    optimizer: str
    batch: str
    sick: Mapping[str, int]
    trains: Mapping[str, int]
    found: Share
    alarms: Share
    library: Share
    library_sound: Share
    alarmed: tuple[str, ...]
    missed: tuple[str, ...]


def verdict_counts(folder: Path, members: Sequence[Member]) -> list[VerdictCounts]:
    """How often the doctor's verdict is right."""
    members = distinct(members)
    clear = clear_truth(verdicts(folder, members))
    sound = {member.name for member in members if member.fault is None}
    table = []
    for batch in STRESSED.values():
        found, chances = judged_cases(folder, members, clear, batch)
        limits = limits_for(folder, members, batch)
        failed = failed_tests(folder, members, clear, batch)
        for optimizer in OPTIMIZERS if found.names else ():
            said: dict[str, str] = dict.fromkeys(failed[optimizer], "unknown")
            for place, (name, own) in enumerate(found.names):
                if own == optimizer:
                    said[name] = verdict_at(float(chances[place]), found.seen[place], limits)
            table.append(_counts(optimizer, batch, said, clear[optimizer], sound))
    return table


def _counts(
    optimizer: str, batch: str, said: Mapping[str, str], is_sick: Mapping[str, bool], sound: set[str]
) -> VerdictCounts:
    ill, well = ([name for name in said if is_sick[name] is kind] for kind in (True, False))
    library = [name for name in well if name.startswith(LIBRARY)]

    def called_sick(names: Sequence[str]) -> Share:
        return share(said[name] == "sick" for name in names)

    return VerdictCounts(
        optimizer,
        batch,
        dict(Counter(said[name] for name in ill)),
        dict(Counter(said[name] for name in well)),
        called_sick(ill),
        called_sick(well),
        called_sick(library),
        called_sick([name for name in library if name in sound]),
        tuple(name for name in well if said[name] == "sick"),
        tuple(name for name in ill if said[name] != "sick"),
    )
