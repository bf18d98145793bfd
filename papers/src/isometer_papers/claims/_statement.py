"""A statement of the ledger: what the paper says, beside what its checks returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from isometer.serialize import json_data
from isometer_papers._papers import papers
from isometer_papers.claims._policy import Charity, FailureClass, Origin
from isometer_papers.claims._result import Result, Verdict
from isometer_papers.claims._text import ClaimText, snippet

FAILING: frozenset[Verdict] = frozenset({"refuted", "vacuous"})
"""Verdicts that say that a statement fails."""


@dataclass(frozen=True)
class Statement:
    """A statement with its text, its verdicts and the evidence.

    Attributes:
        id: ID of the claim.
        paper: number of the paper.
        chapter: title of the chapter or section.
        place: section, equation, page.
        origin: `paper`, `addition` (ours, beside the paper's) or `correction` (ours, in place of it).
        kind: deterministic, expectation, probability, asymptotic or empirical.
        quotation: the words of the paper.
        reading: the statement in formulas.
        hypotheses: what it assumes, if the reading does not say it.
        verdict: what the check of this reading returned.
        as_printed: the verdict on what is printed; None for additions and corrections, which nobody printed.
        as_intended: the verdict on the evident reading.
        failure: class of the failure; None where nothing fails. In JSON it is `class`.
        charity: why another reading than the printed one is evident.
        cause: group of statements that fail for one reason.
        twins: the same statement in other places.
        corrected: ID of the corrected version.
        intended: ID of the check of the evident reading, if it has its own.
        snippet: a few lines of Python that show the failure without this package.
        source_note: what the source may have lost.
        scope: box of parameters that was tried.
        excludes: of a statistical check, what it would have told apart from the statement.
        remark: what a reader should know.
        note: what the check tells, and remark and scope.
        margin: see `Result`, like all that follows.
        instances: how many of each family were tried.
        counterexample: instance, value and bound of a refutation, arrays as the paper writes them.
        certified_by: how the refutation was certified.
        power: of a statistical check.
        resolution: the violation that a statistical check has to see.
        sees: the violation that it sees with a chance of 0.99.
        seconds: how long the check took.
        relation: of quantity to bound.
        points: a sample of (family, value, bound).

    Example:
        >>> from isometer_papers.claims import ledger
        >>> row = next(row for row in ledger("002") if row.id == "002/lem-1")
        >>> row.as_printed, row.corrected
        ('refuted', '002/lem-1#corrected')
    """

    id: str
    paper: str
    chapter: str
    place: str
    origin: Origin
    kind: str
    quotation: str
    reading: str
    hypotheses: str
    verdict: Verdict
    as_printed: Verdict | None
    as_intended: Verdict | None
    failure: FailureClass | None
    charity: Charity | None
    cause: str | None
    twins: tuple[str, ...]
    corrected: str | None
    intended: str | None
    snippet: str | None
    source_note: str
    scope: str
    excludes: str
    remark: str
    note: str
    margin: float | None
    instances: Mapping[str, int]
    counterexample: Mapping[str, Any] | None
    certified_by: str | None
    power: float | None
    resolution: float | None
    sees: float | None
    seconds: float
    relation: str
    points: tuple[tuple[str, float, float], ...]

    @property
    def fails(self) -> bool:
        """Whether it fails as printed or as intended."""
        return self.as_printed in FAILING or self.as_intended in FAILING

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON data.

        Example:
            >>> from isometer_papers.claims import ledger
            >>> ledger("000")[0].to_dict()["class"] is None
            True
        """
        names = {"failure": "class"}
        data = {names.get(one.name, one.name): getattr(self, one.name) for one in fields(self)}
        found: dict[str, Any] = json_data({**data, "statement": self.reading}, nonfinite="text")
        return found

    def chosen(self, keys: tuple[str, ...]) -> dict[str, Any]:
        """Some keys of `to_dict`, in their order.

        Example:
            >>> from isometer_papers.claims import ledger
            >>> ledger("002")[0].chosen(("paper",))
            {'paper': '002'}
        """
        data = self.to_dict()
        return {key: data[key] for key in keys}


LISTED = (
    "id",
    "paper",
    "kind",
    "statement",
    "verdict",
    "corrected",
    "as_printed",
    "as_intended",
    "class",
    "chapter",
    "place",
    "quotation",
    "reading",
    "charity",
    "cause",
    "twins",
    "origin",
    "snippet",
)
"""Keys of `isometer claims list --json`."""
CHECKED = (
    "id",
    "verdict",
    "kind",
    "statement",
    "margin",
    "instances",
    "counterexample",
    "certified_by",
    "corrected",
    "note",
    "seconds",
    "power",
    "resolution",
    "sees",
)
"""Keys of `isometer claims check --json`."""


def joined(
    text: ClaimText, result: Result, *, intended: Verdict | None = None, twins: tuple[str, ...] = ()
) -> Statement:
    """Text and result of one claim.

    Args:
        text: what the paper says.
        result: of the check.
        intended: verdict on the evident reading, where that is not the printed one.
        twins: the same statement in other places.

    Example:
        >>> from isometer_papers.claims._text import text_of
        >>> joined(text_of("002/lem-1"), Result("002/lem-1", "refuted", "deterministic")).as_intended
        'refuted'
    """
    printed = result.verdict if text.origin == "paper" else None
    notes = (result.note, text.remark, f"scope: {text.scope}" if text.scope else "")
    return Statement(
        id=text.id,
        paper=text.id.partition("/")[0],
        chapter=text.chapter,
        place=text.place,
        origin=text.origin,
        kind=result.kind,
        quotation=text.quotation,
        reading=text.reading,
        hypotheses=text.hypotheses,
        verdict=result.verdict,
        as_printed=printed,
        as_intended=printed and (intended or printed),
        failure=text.failure,
        charity=text.charity,
        cause=text.cause,
        twins=twins,
        corrected=text.corrected,
        intended=text.intended,
        snippet=None if text.snippet is None else snippet(text.id.partition("/")[0], text.snippet),
        source_note=text.source_note,
        scope=text.scope,
        excludes=text.excludes or _excluded(result),
        remark=text.remark,
        note=". ".join(note for note in notes if note),
        margin=result.margin,
        instances=result.instances,
        counterexample=_turned(result.counterexample, text.columns),
        certified_by=result.certified_by,
        power=result.power,
        resolution=result.resolution,
        sees=result.sees,
        seconds=result.seconds,
        relation=result.relation,
        points=result.points,
    )


def _excluded(result: Result) -> str:
    """The alternative that a statistical check excludes, where the text names none."""
    if result.resolution is None:
        return ""
    size = f"{result.resolution * 100:g} %"
    if result.relation == "==":
        return f"values off by {size} of the larger side"
    if all(bound == 0 for _, _, bound in result.points):
        return f"no effect, or one of the other sign and {size} of the size"
    return f"values beyond the bound by {size} of the larger side"


def _turned(found: Mapping[str, Any] | None, columns: tuple[str, ...]) -> Mapping[str, Any] | None:
    """A counterexample with its arrays as the paper writes them: samples in columns where it has them there."""
    if found is None:
        return None
    return {
        **found,
        "instance": {
            name: _transposed(value) if name in columns else value for name, value in found["instance"].items()
        },
    }


def _transposed(value: Any) -> Any:
    """Rows and columns of a matrix swapped; anything else as it is."""
    if not isinstance(value, list) or not value or not all(isinstance(row, list) for row in value):
        return value
    return [list(column) for column in zip(*value, strict=True)]


def cited(statement: Statement) -> str:
    """How a sentence cites a statement.

    Example:
        >>> from isometer_papers.claims import ledger
        >>> cited(ledger("002")[0])[:24]
        'Daneshmand et al. 2020, '
    """
    return f"{papers()[statement.paper].cited}, {statement.place}"
