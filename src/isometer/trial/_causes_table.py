"""How often the doctor names the guilty part of a sick model, first or among the first two causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isometer.trial._culprits import Culprits, Part, named
from isometer.trial._guilty import guilty
from isometer.trial._members import Member
from isometer.trial._records import OPTIMIZERS, causes
from isometer.trial._shares import Share, share
from isometer.trial._table import distinct, verdicts

PARTS: tuple[Part, ...] = ("module", "modules", "input", "targets", "loss")
"""What a cause can name. Where the architecture is another, no single part is guilty."""
EITHER = "either"
"""Stands for the optimizer where every model counts once that is sick with one of them."""


@dataclass(frozen=True)
class Accused:
    """A sick model, its guilty part, and what the doctor blames.

    Attributes:
        name: of the model.
        fault: that it has.
        optimizers: with which it is sick.
        guilty: its guilty part.
        causes: names of modules, or `input`, `targets`, `loss`, cause by cause; none where the doctor failed.
    """

    name: str
    fault: str
    optimizers: tuple[str, ...]
    guilty: Culprits
    causes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class NamingRow:
    """How often the guilty part is named.

    Attributes:
        part: what is guilty.
        optimizer: with which the models are sick; `either` for one of them.
        first: models whose guilty part is the first cause.
        first_two: models whose guilty part is among the first two.
        missed: the others, each with its fault and what was blamed instead.
    """

    part: Part
    optimizer: str
    first: Share
    first_two: Share
    missed: tuple[str, ...]


def accused(folder: Path, members: Sequence[Member]) -> list[Accused]:
    """The sick models whose fault is at a part that can be named, as far as the doctor was asked about them."""
    members = distinct(members)
    truth, said = verdicts(folder, members), causes(folder, members).records()
    sick: dict[str, tuple[str, ...]] = {}
    for member in members:
        with_these = tuple(o for o in OPTIMIZERS if member.name in truth[o] and truth[o][member.name].verdict == "sick")
        if member.fault is not None and with_these and member.name in said:
            sick[member.name] = with_these
    faults = {member.name: str(member.fault) for member in members}
    parts = guilty(folder, [member for member in members if member.name in sick])
    return [
        Accused(name, faults[name], sick[name], part, blamed(said[name]))
        for name, part in parts.items()
        if part.part in PARTS
    ]


def blamed(record: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """The modules of the causes in a record.

    Example:
        >>> blamed({"causes": [{"modules": ["0", "2"]}, {"modules": ["input"]}]})
        (('0', '2'), ('input',))
    """
    return tuple(tuple(one["modules"]) for one in record["causes"])


def naming_rows(models: Sequence[Accused]) -> list[NamingRow]:
    """One row per part and optimizer that there are models for, and one per part for all its models.

    Example:
        >>> model = Accused("a/0", "one-zero", ("adam",), Culprits(frozenset({"2"}), "module"), (("0",), ("2",)))
        >>> [(row.optimizer, str(row.first_two)) for row in naming_rows([model])]
        [('adam', '1 of 1 (100%, 21% to 100%)'), ('either', '1 of 1 (100%, 21% to 100%)')]
    """
    table = []
    for part in PARTS:
        for optimizer in (*OPTIMIZERS, EITHER):
            chosen = [m for m in models if m.guilty.part == part and optimizer in (*m.optimizers, EITHER)]
            if chosen:
                table.append(_row(part, optimizer, chosen))
    return table


def _row(part: Part, optimizer: str, models: Sequence[Accused]) -> NamingRow:
    soon = [named(m.guilty, m.causes, first=2) for m in models]
    missed = tuple(_miss(m) for m, hit in zip(models, soon, strict=True) if not hit)
    return NamingRow(part, optimizer, share(named(m.guilty, m.causes, first=1) for m in models), share(soon), missed)


def _miss(model: Accused) -> str:
    guilty = ", ".join(sorted(model.guilty.modules)[:3]) if model.guilty.modules else model.guilty.part
    said = "; ".join(", ".join(names[:3]) or "nothing" for names in model.causes[:2]) or "nothing"
    return f"{model.name} ({model.fault}): guilty {guilty or 'the model'}, blamed {said}"
