"""The ledger that the package ships: the results of a thorough run, one file per paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import TypedDict

from isometer.documents import parse_json
from isometer.files import existing_folder, write_whole
from isometer.serialize import json_text
from isometer_papers._papers import paper, papers
from isometer_papers.claims._result import VERDICTS, Result, ResultRecord


class _Ledger(TypedDict):
    results: list[ResultRecord]


def ledger(name: str | None = None) -> tuple[Result, ...]:
    """The shipped results, of one paper (by number or citation key) or of all.

    Example:
        >>> {result.id: result.verdict for result in ledger("002")}["002/lem-1"]
        'refuted'
    """
    found: list[Result] = []
    for number in papers() if name is None else (paper(name).number,):
        file = files("isometer_papers.claims") / "ledger" / f"{number}.json"
        if file.is_file():
            found += parsed(file.read_text(encoding="utf-8"))
    return tuple(found)


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


def tally(results: Iterable[Result]) -> dict[str, int]:
    """How many results have each verdict.

    Example:
        >>> tally([])
        {'holds': 0, 'refuted': 0, 'vacuous': 0, 'inconclusive': 0}
    """
    counts = Counter(result.verdict for result in results)
    return {verdict: counts[verdict] for verdict in VERDICTS}
