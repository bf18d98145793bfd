"""What came of all cases, counted, and how some that ran again take the place of earlier ones."""

from __future__ import annotations

import importlib.metadata
import platform
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import Any

import torch

from support import small_transformers
from support.probing.scope import OUT_OF_SCOPE

Row = dict[str, Any]
OUTCOMES = ("unchanged", "refused", "error", "beyond", "irreproducible", "changed", "hung", "crashed")
BAD = ("changed", "error", "hung", "crashed")
"""Outcomes that break the promise."""
_LISTED = (*BAD, "beyond", "irreproducible")
_PLACE = ("suite", "operation", "condition")
_CLASS = ("class", "operation")
_KEPT = ("suite", "model", "operation", "condition", "outcome", "ended", "where", "changed", "message", "unsteady")


def group_of(row: Row) -> str:
    """The line of the table that a row belongs to."""
    if row["suite"] != "difficult":
        return str(row["suite"])
    traits = row["model"].partition(":")[2]
    if not traits:
        return "plain"
    if "+" in traits:
        return "combined"
    from support.difficult import named

    return named(row["model"]).groups[0]


def table(rows: Iterable[Row], *columns: str) -> list[Row]:
    """Counts by class, operation and what else is asked for."""
    counts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    models: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for row in rows:
        place = _place(row, columns)
        counts[place][row["outcome"]] += 1
        models[place].add(row["model"])
    return [
        dict(zip(columns, place, strict=True))
        | {"models": len(models[place]), "cases": sum(counts[place].values())}
        | {outcome: counts[place][outcome] for outcome in OUTCOMES}
        for place in sorted(counts)
    ]


def _place(row: Row, columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(group_of(row) if column == "class" and column not in row else row[column] for column in columns)


def out_of_scope(rows: list[Row]) -> list[Row]:
    """How often a model did what no probe undoes, and why none does."""
    models = [row["model"].partition(":")[2].split("+") for row in rows if row["outcome"] == "beyond"]
    return [
        {"out of scope": trait, "cases": sum(trait in traits for traits in models), "reason": reason}
        for trait, (_, reason) in OUT_OF_SCOPE.items()
    ]


def summary(rows: list[Row]) -> Row:
    """What docs/probing.json holds."""
    said = Counter(row["message"] for row in rows if row["outcome"] == "refused")
    return {
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": importlib.metadata.version("transformers"),
        },
        "architectures": {
            "all": len(small_transformers.architectures()),
            "buildable": len(small_transformers.buildable()),
        },
        "totals": table(rows, *_PLACE),
        "by_class": table(rows, *_CLASS),
        "out_of_scope": out_of_scope(rows),
        "refusals": dict(said.most_common()),
        "not_as_promised": [{name: row.get(name, "") for name in _KEPT} for row in rows if row["outcome"] in _LISTED],
    }


def amended(old: Row, rows: list[Row], whole: Collection[tuple[str, ...]]) -> Row:
    """A summary in which cases that ran again take the place of earlier ones.

    Earlier cases are listed one by one only if something was wrong with them; of the others it is taken that they were
    refused if they are now, and unchanged if not.

    Args:
        old: the earlier summary.
        rows: of the cases that ran again.
        whole: triples of suite, operation and condition all cases of which are among them.

    Raises:
        ValueError: the two do not belong together.
    """
    new, found = summary(rows), dict(old)
    if any(new[name] != old[name] for name in ("versions", "architectures")):
        raise ValueError("the earlier cases ran with other versions; expected the same — run all cases")
    again, listed, places = {_case(row) for row in rows}, old["not_as_promised"], {_place(row, _PLACE) for row in rows}
    before: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in listed:
        before[_case(row)].append(row["outcome"])
    fresh = {place: line for line in new["totals"] if (place := _place(line, _PLACE)) in whole}
    found["totals"] = [
        fresh.get(_place(line, _PLACE)) or _adjusted(line, rows, _PLACE, before) for line in old["totals"]
    ]
    found["by_class"] = [
        _sum(line, found["totals"]) or _adjusted(line, rows, _CLASS, before) for line in old["by_class"]
    ]
    found["not_as_promised"] = [row for row in listed if _case(row) not in again] + new["not_as_promised"]
    found["out_of_scope"] = out_of_scope(found["not_as_promised"])
    found["refusals"] = new["refusals"] | old["refusals"]
    found["ran_again"] = [one for one in old.get("ran_again", []) if _place(one, _PLACE) not in places] + new["totals"]
    return found


def _case(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in ("suite", "model", "operation", "condition"))


def _sum(line: Row, totals: list[Row]) -> Row | None:
    """The line of a suite that is a class by itself."""
    parts = [one for one in totals if (one["suite"], one["operation"]) == (line["class"], line["operation"])]
    return line | {name: sum(one[name] for one in parts) for name in ("cases", *OUTCOMES)} if parts else None


def _adjusted(line: Row, rows: list[Row], columns: tuple[str, ...], before: dict[tuple[str, ...], list[str]]) -> Row:
    """A line of a table with single cases exchanged."""
    counts = Counter({outcome: line.get(outcome, 0) for outcome in OUTCOMES})
    cases: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in rows:
        if _place(row, columns) == _place(line, columns):
            cases[_case(row)].append(row["outcome"])
    for case, (now, *others) in cases.items():
        if others:
            raise ValueError(f"{' '.join(case)} has many results; expected one — run all cases of its condition")
        was = before[case] or ["refused" if now == "refused" else "unchanged"]
        counts.update([now])
        counts.subtract(was)
    if min(counts.values()) < 0 or counts.total() != line["cases"]:
        raise ValueError(f"{line} lacks cases that ran again; expected them among the earlier ones — run all cases")
    return line | counts
