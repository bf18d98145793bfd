"""What a paper says, as text files: one entry per claim with place, quotation, reading, class and cause.

`text/KEY/` has a file per chapter, `causes.toml`, `paper.toml` with the order of the chapters, and `snippets/`.
papers/docs/entries.md says how to fill in an entry. Verdicts are not here: they are what the checks return.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, cast, get_args

from isometer.errors import IsometerError, unknown_name
from isometer_papers._papers import paper, papers
from isometer_papers.claims._policy import CHARITY, CLASSES, Charity, FailureClass, Origin

CORRECTED, INTENDED = "#corrected", "#intended"


@dataclass(frozen=True)
class ClaimText:
    """The text of one claim.

    Args:
        id: ID of the claim.
        chapter: title of the chapter or section.
        place: section, equation, page.
        reading: the statement in formulas, in one line.
        quotation: the words of the paper, verbatim; `…` stands for what is left out.
        hypotheses: what the statement supposes, where the reading does not say it.
        scope: box of parameters, and for limits which finite consequence is tested.
        excludes: of a statistical check, what it would have told apart from the statement.
        remark: what a reader of the verdict should know; no verdicts here.
        failure: class of the failure (`class` in the file), where the statement fails.
        charity: why another reading than the printed one is the evident one.
        cause: group of statements that fail for one reason.
        twin: the same statement in another place or paper.
        snippet: name of a file in `snippets/`, without `.py`.
        source_note: what the source may have lost.
        corrected: ID of the corrected version.
        intended: ID of the check of the evident reading, where that is not the printed one.
        origin: `paper`, `addition` (a statement of ours beside the paper's) or `correction`.
        columns: names of arrays whose columns are samples in the paper; our instances have samples in rows.

    Example:
        >>> text_of("002/lem-1").place
        'Lemma 1, the sign as printed'
    """

    id: str
    chapter: str
    place: str
    reading: str
    quotation: str = ""
    hypotheses: str = ""
    scope: str = ""
    excludes: str = ""
    remark: str = ""
    failure: FailureClass | None = None
    charity: Charity | None = None
    cause: str | None = None
    twin: str | None = None
    snippet: str | None = None
    source_note: str = ""
    corrected: str | None = None
    intended: str | None = None
    origin: Origin = "paper"
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class FailureCause:
    """One reason for which several statements fail.

    Args:
        id: such as `000/not-squared`; it begins with the paper in which the slip is.
        title: in a few words.
        text: what goes wrong, in a sentence or two.

    Example:
        >>> FailureCause("000/x", "a square is missing", "").title
        'a square is missing'
    """

    id: str
    title: str
    text: str


_KEYS = tuple("class" if one.name == "failure" else one.name for one in fields(ClaimText))[2:-1]
_CHOICES: dict[str, Iterable[str]] = {"class": CLASSES, "charity": CHARITY, "origin": get_args(Origin)[:2]}


def folder(name: str) -> Traversable:
    """Where the texts of a paper are, by its number or citation key.

    Example:
        >>> folder("000").name
        'nachum2024'
    """
    return files("isometer_papers.claims") / "text" / paper(name).key


@cache
def texts_of(name: str) -> Mapping[str, ClaimText]:
    """The entries of a paper by ID, in the order of its chapters.

    Example:
        >>> texts_of("002")["002/lem-1#corrected"].origin
        'correction'
    """
    raw: dict[str, dict[str, Any]] = {}
    for stem in order(name)["chapters"]:
        file = f"{stem}.toml"
        table = _read(name, file)
        title, columns = table.pop("chapter", None), tuple(table.pop("columns", ()))
        if not isinstance(title, str):
            raise IsometerError(
                f"{_named(name, file)} has no `chapter` in its first line — give it the chapter's title"
            )
        for identifier, entry in table.items():
            if identifier in raw:
                raise IsometerError(f"{_named(name, file)} has {identifier} again — keep one of the two entries")
            _check(identifier, entry, _named(name, file))
            raw[identifier] = {"chapter": title, "columns": columns, **entry}
    return {identifier: _header(identifier, raw) for identifier in raw}


def text_of(identifier: str) -> ClaimText:
    """The entry of one claim.

    Example:
        >>> text_of("000/nothing")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: unknown entry '000/nothing'; ...
    """
    number = identifier.partition("/")[0]
    known = texts_of(number) if number in papers() else {}
    if identifier not in known:
        where = f"a file in claims/text/{paper(number).key}" if number in papers() else "the text of its paper"
        raise unknown_name("entry", identifier, known, fix=f"add it to {where}")
    return known[identifier]


@cache
def causes(name: str | None = None) -> Mapping[str, FailureCause]:
    """Why groups of statements fail, by ID; of one paper or of all.

    Example:
        >>> all(one.id == name for name, one in causes().items())
        True
    """
    if name is None:
        return {key: one for number in papers() for key, one in causes(number).items()}
    if not (folder(name) / "causes.toml").is_file():
        return {}
    found = {}
    for identifier, entry in _read(name, "causes.toml").items():
        if not isinstance(entry, dict) or set(entry) != {"title", "text"}:
            raise IsometerError(f"{_named(name, 'causes.toml')}: {identifier} needs `title` and `text`, nothing else")
        found[identifier] = FailureCause(identifier, **entry)
    return found


def order(name: str) -> dict[str, Any]:
    """`paper.toml`: `chapters`, the files in their order, and `complete`, whether every failure has its evidence.

    Example:
        >>> order("000")["chapters"][0]
        'introduction'
    """
    found = _read(name, "paper.toml")
    there = {one.name.removesuffix(".toml") for one in folder(name).iterdir() if one.name.endswith(".toml")}
    listed = found.get("chapters")
    if not isinstance(listed, list) or set(listed) != there - {"paper", "causes"}:
        raise IsometerError(f"{_named(name, 'paper.toml')}: `chapters` has to list every file of a chapter once")
    return found


def snippet(name: str, stem: str) -> str:
    """The code of a snippet.

    Example:
        >>> snippet("000", "nothing")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: there is no snippet 'nothing.py' in claims/text/nachum2024/snippets — write it
    """
    file = folder(name) / "snippets" / f"{stem}.py"
    if not file.is_file():
        place = f"claims/text/{paper(name).key}/snippets"
        raise IsometerError(f"there is no snippet {file.name!r} in {place} — write it")
    return file.read_text(encoding="utf-8")


def _read(name: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads((folder(name) / file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise IsometerError(f"there is no {_named(name, file)} — paper.toml lists it, so write it") from None
    except tomllib.TOMLDecodeError as problem:
        raise IsometerError(f"{_named(name, file)} is not TOML: {problem}") from None


def _named(name: str, file: str) -> str:
    return f"claims/text/{paper(name).key}/{file}"


def _check(identifier: str, entry: Any, file: str) -> None:
    """Raise where an entry has an unknown key, a value that is no text, or an unknown word."""
    if not isinstance(entry, dict):
        raise IsometerError(f'{file}: {identifier} is not an entry — write ["ID"] on a line and its keys below')
    for key, value in entry.items():
        if key not in _KEYS:
            raise unknown_name(f"key of {identifier} in {file}:", key, _KEYS)
        if not isinstance(value, str):
            raise IsometerError(f"{file}: `{key}` of {identifier} is {value!r}; expected text — put it in quotes")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise unknown_name(f"{key} of {identifier} in {file}:", value, _CHOICES[key])
    if "reading" not in entry:
        raise IsometerError(f"{file}: {identifier} has no `reading` — give the statement in formulas")


def _header(identifier: str, raw: Mapping[str, Mapping[str, Any]]) -> ClaimText:
    """An entry with what follows from its ID: a correction has the place of what it corrects."""
    entry = dict(raw[identifier])
    base, mark, _ = identifier.partition("#")
    if mark:
        entry["origin"] = "correction"
        entry.setdefault("place", raw.get(base, {}).get("place"))
        entry.setdefault("quotation", raw.get(base, {}).get("quotation", ""))
    elif "corrected" not in entry and identifier + CORRECTED in raw:
        entry["corrected"] = identifier + CORRECTED
    entry["corrected"] = entry.get("corrected") or None  # an empty text: the correction beside it is another's
    if entry.get("place") is None:
        raise IsometerError(f"{identifier} has no `place` — say where the paper has it")
    if not mark and "intended" not in entry:
        if identifier + INTENDED in raw:
            entry["intended"] = identifier + INTENDED
        elif "charity" in entry:
            entry["intended"] = entry["corrected"]
    if ("charity" in entry) != (entry.get("intended") is not None):
        fix = f"give the reason as `charity` ({', '.join(CHARITY)}) and a check of the intended reading"
        raise IsometerError(f"{identifier} has only one of `charity` and an intended reading — {fix}")
    return ClaimText(identifier, failure=cast("FailureClass | None", entry.pop("class", None)), **entry)
