"""The guilty parts of the members of a trial, kept in a file: to find one, two models are built and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isometer.trial._culprits import Culprits, culprits
from isometer.trial._members import Member
from isometer.trial._records import member_digest, read_records, write_records

GUILTY = "guilty.json"


def guilty(folder: Path, members: Sequence[Member]) -> dict[str, Culprits]:
    """The guilty part of each member, by name. What is not yet in the folder's file is found and added to it."""
    known = read_records(folder / GUILTY)
    wanted = {member.name: (member, member_digest(member)) for member in members}
    missing = {name: one for name, one in wanted.items() if known.get(name, {}).get("of") != one[1]}
    if missing:
        known |= {name: {"of": digest, **_record(culprits(member))} for name, (member, digest) in missing.items()}
        write_records(folder / GUILTY, dict(sorted(known.items())))
    return {name: _culprits(known[name]) for name in wanted}


def _record(found: Culprits) -> dict[str, Any]:
    return {"part": found.part, "modules": sorted(found.modules), "also": sorted(found.also)}


def _culprits(record: Mapping[str, Any]) -> Culprits:
    return Culprits(frozenset(record["modules"]), record["part"], frozenset(record["also"]))
