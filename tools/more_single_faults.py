"""Further sick models of the development half with one fault at one place, for work on the causes the doctor names.

`python tools/more_single_faults.py OUT.json` draws faults in architectures of its own and keeps what is clearly sick
by a cheap truth: at no rate does it reach three tenths of what its sound sibling reaches. It touches no sealed family.
The file is written after every model that is kept, and the next run goes on where the last one was stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from isometer.files import write_whole
from isometer.trial._culprits import Culprits, culprits
from isometer.trial._family import Family
from isometer.trial._faults import FAULTS
from isometer.trial._members import Member, _base, _number, _works
from isometer.trial._roster import families
from isometer.trial._rounds import ROUNDS
from isometer.trial._truth import LEARNABLE, RATES, SICK, final_score

SEED = 7_001
"""Of the draw; the trial has 0."""
SLOWEST, STEPS, PER_BASE = 0.015, 60, 14
NEAR, FAR = (0, 1, -1), (2, -2, 3, -3, 4, -4)
"""Places of the rates that decide at first, and of those at which a model that fails there must fail too."""
PARTS = ("module", "input", "targets", "loss")
SAME_FAULT = {"module": 7, "input": 3, "targets": 4, "loss": 4}
SAME_FAMILY, OUTSIDE = 4, 28
"""At most so many models of one family with a guilty module, and as many others; no two of a family with one fault; and
at most so many whose fault is outside the model."""


@dataclass
class Found:
    """What was kept so far."""

    records: list[dict[str, Any]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    families: Counter[tuple[str, bool]] = field(default_factory=Counter)
    pairs: set[tuple[str, str]] = field(default_factory=set)
    parts: Counter[str] = field(default_factory=Counter)
    done: list[str] = field(default_factory=list)
    tried: int = 0

    @classmethod
    def read(cls, path: Path) -> Found:
        """What an earlier run wrote, to go on from there."""
        found = cls()
        if path.exists():
            data = json.loads(path.read_text(encoding="utf-8"))
            found.done, found.tried = data["done"], data["tried"]
            for record in data["models"]:
                found.keep(record)
        return found

    def write(self, path: Path) -> None:
        """Everything, whole."""
        head = {"seed": SEED, "steps": STEPS, "tried": self.tried, "parts": dict(self.parts), "done": self.done}
        write_whole(path, json.dumps({**head, "models": self.records}, indent=1) + "\n")

    def full(self, member: Member, part: str) -> bool:
        """Whether there are enough models like this one."""
        outside = sum(self.parts.values()) - self.parts["module"]
        return (
            (member.family, str(member.fault)) in self.pairs
            or self.faults[str(member.fault)] >= SAME_FAULT[part]
            or self.families[member.family, part == "module"] >= SAME_FAMILY
            or (part != "module" and outside >= OUTSIDE)
        )

    def add(self, member: Member, guilty: Culprits, numbers: dict[str, Any]) -> None:
        """Keep a model."""
        names = {"part": guilty.part, "modules": sorted(guilty.modules), "also": sorted(guilty.also)}
        self.keep({**member.to_dict(), **names, **numbers})

    def keep(self, record: dict[str, Any]) -> None:
        """Keep a record."""
        self.records.append(record)
        self.faults[record["fault"]] += 1
        self.families[record["family"], record["part"] == "module"] += 1
        self.pairs.add((record["family"], record["fault"]))
        self.parts[record["part"]] += 1


def read_models(path: Path) -> list[tuple[Member, dict[str, Any]]]:
    """The models of a file that this tool wrote, each with what is known about it."""
    names = Member.__dataclass_fields__
    records = json.loads(path.read_text(encoding="utf-8"))["models"]
    return [(Member.from_dict({key: one[key] for key in names}), one) for one in records]


def bases(done: Collection[str]) -> Iterator[tuple[Family, int, Any, float]]:
    """Architectures, one of every family of the development half, then the next, without those that are done."""
    chosen = [family for family in families().values() if not family.sealed]
    for turn in range(100):
        for family in sorted(chosen, key=lambda one: _number("turn", one.name, turn, SEED)):
            drawn = (
                None if f"{family.name} {turn}" in done else _base(family, turn, SEED, ROUNDS[1].slowest, large=False)
            )
            if drawn is not None and drawn[1] <= SLOWEST:
                yield family, turn, *drawn


def improvement(member: Member, optimizer: str, place: int, *, sound: bool) -> float:
    """Over chance, after the steps at one rate."""
    record = member.to_dict()
    cell = {"family": member.family, "blueprint": record["blueprint"], "fault": member.fault}
    cell["severity"] = member.severity
    if sound:
        cell |= {"blueprint": asdict(member.sound), "fault": None, "severity": {}}
    middle, factor = RATES[optimizer]
    score = final_score(cell, optimizer, middle * factor**place, seed=0, steps=STEPS)
    return 1 - min(1.0, score)


def sibling_improvements(member: Member) -> dict[str, float]:
    """By optimizer, at the best of three rates; only where it surely learns."""
    found = {}
    for optimizer in RATES:
        best = max(improvement(member, optimizer, place, sound=True) for place in NEAR)
        if best >= 1.5 * LEARNABLE:
            found[optimizer] = round(best, 4)
    return found


def sick_with(member: Member, sibling: dict[str, float]) -> dict[str, float]:
    """The optimizers with which it stays below the limit at every rate, and the most that it reaches."""
    found = {}
    for optimizer, reference in sibling.items():
        best = 0.0
        for place in NEAR + FAR:
            best = max(best, improvement(member, optimizer, place, sound=False))
            if best >= SICK * reference:
                break
        else:
            found[optimizer] = round(best, 4)
    return found


def drawn_faults(family: Family, turn: int, sound: Any, step: float) -> Iterator[tuple[Member, Culprits]]:
    """Faults at one place in one architecture."""
    rng = np.random.default_rng(_number("single", family.name, turn, SEED))
    places = iter(range(PER_BASE * turn, PER_BASE * (turn + 1)))
    for _ in range(6 * PER_BASE):
        name = str(rng.choice(sorted(FAULTS)))
        severity = FAULTS[name].draw(rng)
        if not _works(family, sound, name, severity):
            continue
        member = Member("", family.name, f"single-{turn}", sound, sound, name, severity, False, round(step, 5))
        guilty = culprits(member)
        if guilty.part not in PARTS:
            continue
        place = next(places, None)
        if place is None:
            return
        yield replace(member, name=f"{family.name}/{1000 + place}"), guilty


def search(out: Path, wanted: int, seconds: float) -> Found:
    """Draw, train and keep until there are enough or the time is over."""
    found, begun = Found.read(out), time.monotonic()
    for family, turn, sound, step in bases(found.done):
        sibling: dict[str, float] | None = None
        for member, guilty in drawn_faults(family, turn, sound, step):
            if len(found.records) >= wanted or time.monotonic() - begun > seconds:
                return found
            if found.full(member, guilty.part):
                continue
            sibling = sibling_improvements(member) if sibling is None else sibling
            if not sibling:
                break
            found.tried += 1
            sick = sick_with(member, sibling)
            if sick:
                numbers = {"sick_with": sorted(sick), "improvement": sick, "sibling_improvement": sibling}
                found.add(member, guilty, numbers)
                found.write(out)
                told = f"{member.name} {member.fault} {guilty.part} {sorted(sick)}"
                minutes = (time.monotonic() - begun) / 60
                print(f"{minutes:5.1f} min {len(found.records)} of {found.tried}: {told}", flush=True)
        found.done.append(f"{family.name} {turn}")
        found.write(out)
    return found


def main() -> None:
    """Run the search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=int, default=80)
    parser.add_argument("--minutes", type=float, default=30.0)
    given = parser.parse_args()
    found = search(given.out, given.models, 60 * given.minutes)
    print(f"{len(found.records)} models: {dict(found.parts)}; {dict(found.faults)}")


if __name__ == "__main__":
    main()
