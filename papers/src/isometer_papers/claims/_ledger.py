"""The ledger that the package ships: the results of a thorough run, one file per paper, with the text of each claim."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypedDict

from isometer.documents import parse_json
from isometer.errors import IsometerError
from isometer.files import existing_folder, write_whole
from isometer.serialize import json_text
from isometer_papers._papers import paper, papers
from isometer_papers.claims._result import Result, ResultRecord, Verdict
from isometer_papers.claims._statement import Statement, joined
from isometer_papers.claims._text import ClaimText, text_of, texts_of


class _Ledger(TypedDict):
    results: list[ResultRecord]


def ledger(name: str | None = None) -> tuple[Statement, ...]:
    """The shipped statements, of one paper (by number or citation key) or of all.

    Example:
        >>> {row.id: row.verdict for row in ledger("002")}["002/lem-1"]
        'refuted'
    """
    numbers = tuple(papers()) if name is None else (paper(name).number,)
    return tuple(row for number in numbers for row in _statements(number))


@cache
def _statements(number: str) -> tuple[Statement, ...]:
    texts, found = texts_of(number), shipped(number)
    for identifier in found:
        if identifier not in texts:
            raise IsometerError(f"the ledger has {identifier}, which has no text — add an entry, or check again")
    return tuple(
        joined(
            texts[identifier], result, intended=_intended(texts[identifier], found), twins=_twins().get(identifier, ())
        )
        for identifier, result in found.items()
    )


def _intended(text: ClaimText, found: Mapping[str, Result]) -> Verdict | None:
    return None if text.intended is None or text.intended not in found else found[text.intended].verdict


@cache
def _twins() -> dict[str, tuple[str, ...]]:
    """The other members of each group of equal statements; one side names the other."""
    groups: dict[str, set[str]] = defaultdict(set)
    for number in papers():
        for text in texts_of(number).values():
            if text.twin is not None:
                text_of(text.twin)  # it exists
                whole = {text.id, text.twin} | groups[text.id] | groups[text.twin]
                for one in whole:
                    groups[one] = whole
    return {one: tuple(sorted(group - {one})) for one, group in groups.items()}


@cache
def shipped(number: str) -> Mapping[str, Result]:
    """What the checks of a paper returned, by ID, in the order of its claims.

    Example:
        >>> shipped("002")["002/lem-1"].certified_by
        'mpmath, 50 digits'
    """
    file = files("isometer_papers.claims") / "ledger" / f"{number}.json"
    rows = parsed(file.read_text(encoding="utf-8")) if file.is_file() else []
    return {row.id: row for row in rows}


def parsed(text: str) -> list[Result]:
    """Results from the JSON of a ledger.

    Example:
        >>> parsed('{"results": []}')
        []
    """
    found: _Ledger = parse_json(text, _Ledger, what="the ledger", fix="write it again with `isometer claims check`")
    return [Result.from_dict(row) for row in found["results"]]


def written(results: Iterable[Result]) -> str:
    """The JSON of a ledger: one result per line, so that a change of one verdict is a change of one line.

    Example:
        >>> print(written([]))
        {"results": [
        ]}
    """
    rows = [json_text(result.to_dict(), ensure_ascii=False) for result in results]
    return '{"results": [\n' + ",\n".join(rows) + ("\n" if rows else "") + "]}\n"


def save(results: Iterable[Result], path: Path) -> None:
    """Write results as a ledger, whole or not at all.

    Example:
        >>> save([], Path("/no/such/folder/x.json"))
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the folder '/no/such/folder' does not exist — create it first
    """
    existing_folder(path.parent)
    write_whole(path, written(results))
