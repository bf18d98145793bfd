"""What a statement still lacks before a reader can judge it, and where text and verdicts contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from isometer_papers.claims._ledger import ledger
from isometer_papers.claims._policy import BROKEN, REPAIRED
from isometer_papers.claims._statement import FAILING, Statement
from isometer_papers.claims._text import causes, folder, texts_of
from isometer_papers.claims._verdict import TOO_LITTLE


def missing(number: str) -> Iterator[str]:
    """What the statements of a paper lack, a line each.

    Example:
        >>> all(line.startswith("000/") for line in missing("000"))
        True
    """
    for row in ledger(number):
        if row.origin == "paper" and row.fails:
            for name, value in (("class", row.failure), ("quotation", row.quotation), ("snippet", row.snippet)):
                if not value:
                    yield f"{row.id}: no {name}"
            if not certified_twice(row):
                yield f"{row.id}: not certified by a second formula or an independent estimator"
        if row.id in without_power(number):
            yield f"{row.id}: no power (resolution {row.resolution:g}, power {row.power:.4g})"


def certified_twice(row: Statement) -> bool:
    """Whether the refutation of a result rests on more than one formula; other statements need no second one.

    Example:
        >>> from isometer_papers.claims import ledger
        >>> all(certified_twice(row) for row in ledger("000"))
        True
    """
    if row.failure != "result" or row.verdict != "refuted":
        return True
    return any(words in (row.certified_by or "") for words in ("second formula", "independent estimator"))


def without_power(number: str) -> set[str]:
    """Claims that found no violation and would have missed a telling one.

    Example:
        >>> without_power("000")
        set()
    """
    return {row.id for row in ledger(number) if row.verdict == "inconclusive" and row.note.startswith(TOO_LITTLE)}


def contradictions(number: str) -> Iterator[str]:
    """Where class, charity and cause do not fit the verdicts, a line each.

    Example:
        >>> list(contradictions("000"))
        []
    """
    for row in ledger(number):
        yield from (f"{row.id}: {text}" for text in _contradictions(row))


def _contradictions(row: Statement) -> Iterator[str]:
    if row.origin != "paper":
        for name, value in (("class", row.failure), ("charity", row.charity), ("cause", row.cause)):
            if value is not None:
                yield f"{name} is for statements of the paper, and this is a {row.origin}"
        return
    if row.failure is not None and not row.fails:
        yield f"class is {row.failure}, but nothing fails"
    if row.failure in REPAIRED and row.as_intended != "holds":
        yield f"class is {row.failure}, but as intended it is {row.as_intended}; expected holds"
    if row.failure in BROKEN and row.as_intended not in FAILING:
        yield f"class is {row.failure}, but as intended it is {row.as_intended}; expected refuted or vacuous"
    if row.cause is not None and row.cause not in causes():
        yield f"there is no cause {row.cause!r} — add it to causes.toml"
    if row.cause is not None and not row.fails:
        yield f"it has the cause {row.cause!r}, but nothing fails"


def unequal_twins() -> Iterator[str]:
    """Twins whose verdicts or classes differ, a line each.

    Example:
        >>> list(unequal_twins())
        []
    """
    rows = {row.id: row for row in ledger()}
    for row in rows.values():
        for other in (rows[name] for name in row.twins if name > row.id):
            if (row.as_printed, row.as_intended, row.failure) != (other.as_printed, other.as_intended, other.failure):
                yield (
                    f"{row.id} is {row.as_printed} (as intended {row.as_intended}, class {row.failure}), "
                    f"its twin {other.id} {other.as_printed} ({other.as_intended}, {other.failure})"
                )


def unused_snippets(number: str) -> set[str]:
    """Snippets that no entry names.

    Example:
        >>> unused_snippets("000")
        set()
    """
    place = folder(number) / "snippets"
    there = (
        {one.name.removesuffix(".py") for one in place.iterdir() if one.name.endswith(".py")}
        if place.is_dir()
        else set()
    )
    return there - {text.snippet for text in texts_of(number).values()}
