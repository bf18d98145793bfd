"""What `study.json` in the folder of a study must look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from isometer.documents import parse_json
from isometer.errors import IsometerError
from isometer.files import read_regular

RECORD = "study.json"
_FIX = "run the study again"

_Verdict = Literal["agree", "partly", "disagree", "unclear", "not run"]
_Numbers = dict[str, float | str | bool | None]  # infinities are text
_Texts = dict[str, str]


class _Choice(TypedDict):
    value: str
    why: str


class _Variant(TypedDict):
    label: str
    verdict: _Verdict
    measured: _Numbers
    uncertainty: _Numbers


class _Diverged(TypedDict):
    network: str
    diverged: int
    runs: int
    steps: list[int | float | str]
    because: str


class _Monitored(TypedDict):
    network: str
    seen: dict[str, list[float | None]]


class _StudyRecord(TypedDict):
    """What pages and tables read of a record; it may hold more."""

    id: str
    scale: str
    title: NotRequired[str]
    shows: NotRequired[str]
    published: NotRequired[dict[str, Any]]
    choices: NotRequired[dict[str, _Choice]]
    measured: NotRequired[_Numbers]
    uncertainty: NotRequired[_Numbers]
    verdict: _Verdict
    why: NotRequired[str]
    statements: NotRequired[dict[str, bool | None]]
    reduced: NotRequired[str]
    settings: NotRequired[dict[str, Any]]
    variants: NotRequired[list[_Variant]]
    seconds: NotRequired[float]
    cells: NotRequired[int]
    versions: NotRequired[_Texts]
    decisive: NotRequired[dict[str, Any]]
    power: NotRequired[dict[str, dict[str, Any]]]
    halves: NotRequired[dict[str, Any]]
    undecided: NotRequired[str]
    undecidable: NotRequired[str]
    rules: NotRequired[str]
    code: NotRequired[str]
    key: NotRequired[str]
    seeds: NotRequired[dict[str, Any]]
    date: NotRequired[str]
    diverged: NotRequired[list[_Diverged]]
    monitor: NotRequired[list[_Monitored]]


_EMPTY: dict[str, Any] = {
    **dict.fromkeys(("title", "shows", "why", "reduced"), ""),
    **{name: {} for name in ("published", "choices", "measured", "uncertainty", "statements", "settings", "versions")},
    "variants": [],
    "seconds": 0.0,
    "cells": 0,
}


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a study; what an early version left out is empty.

    Args:
        folder: of the study.

    Raises:
        IsometerError: there is none, or it is damaged.

    Example:
        >>> read_record(Path("/no/such/folder"))
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: cannot read '/no/such/folder/study.json': No such file or directory — run the ...
    """
    path = folder / RECORD
    try:
        content = read_regular(path, 100_000_000)
    except OSError as problem:
        raise IsometerError(f"cannot read {str(path)!r}: {problem.strerror} — {_FIX}") from None
    parse_json(content, _StudyRecord, what=f"the record {str(path)!r}", fix=_FIX)
    whole: dict[str, Any] = parse_json(content, dict[str, Any], what=f"the record {str(path)!r}", fix=_FIX)
    return whole | {name: value for name, value in _EMPTY.items() if name not in whole}  # in the order of the file
