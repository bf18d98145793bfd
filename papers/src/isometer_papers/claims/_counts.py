"""How many statements have which verdict and which class, for every place that tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from isometer_papers.claims._policy import CLASSES
from isometer_papers.claims._result import VERDICTS
from isometer_papers.claims._statement import Statement

UNCLASSIFIED = "not classified"


@dataclass(frozen=True)
class Counts:
    """How many.

    Attributes:
        statements: printed in the papers.
        as_printed: of these, by verdict.
        as_intended: of these, by verdict on the evident reading.
        classes: failures by class, and how many have none yet.
        causes: different reasons for failures; a failure without a group is its own, with its twins in other papers.
        additions: statements of ours beside the papers', by verdict.
        corrections: statements of ours in place of the papers', and intended readings, by verdict.

    Example:
        >>> from isometer_papers.claims import ledger
        >>> found = counted(ledger("002"))
        >>> found.statements == sum(found.as_printed.values())
        True
    """

    statements: int
    as_printed: Mapping[str, int]
    as_intended: Mapping[str, int]
    classes: Mapping[str, int]
    causes: int
    additions: Mapping[str, int]
    corrections: Mapping[str, int]

    @property
    def failures(self) -> int:
        """How many fail as printed or as intended."""
        return sum(self.classes.values())

    def lines(self) -> list[str]:
        """In words: verdicts, classes, and what is ours.

        Example:
            >>> counted([]).lines()
            ['0 statements.']
        """
        found = [f"{_many(self.statements, 'statement')}{_listed(' as printed: ', self.as_printed)}."]
        if self.as_intended != self.as_printed:
            found.append(f"As intended: {_listed('', self.as_intended)}.")
        if self.failures:
            told = f"{_many(self.failures, 'failure')} by class: {_listed('', self.classes)}"
            found.append(f"{told}; {_many(self.causes, 'cause')}.")
        for name, tally in (("correction", self.corrections), ("addition", self.additions)):
            if any(tally.values()):
                found.append(f"{_many(sum(tally.values()), name)} of ours: {_listed('', tally)}.")
        return found


def counted(statements: Iterable[Statement]) -> Counts:
    """Count statements; additions and corrections are apart.

    Example:
        >>> counted([]).as_printed
        {'holds': 0, 'refuted': 0, 'vacuous': 0, 'inconclusive': 0}
    """
    rows = list(statements)
    printed = [row for row in rows if row.origin == "paper"]
    broken = failing(printed)
    classes = Counter(row.failure or UNCLASSIFIED for row in broken)
    return Counts(
        statements=len(printed),
        as_printed=_tally(row.as_printed for row in printed),
        as_intended=_tally(row.as_intended for row in printed),
        classes={name: classes[name] for name in (*CLASSES, UNCLASSIFIED)},
        causes=len(by_cause(broken)),
        additions=_tally(row.verdict for row in rows if row.origin == "addition"),
        corrections=_tally(row.verdict for row in rows if row.origin == "correction"),
    )


def failing(statements: Iterable[Statement]) -> list[Statement]:
    """Those of the papers' statements that fail, as printed or as intended.

    Example:
        >>> failing([])
        []
    """
    return [row for row in statements if row.origin == "paper" and row.fails]


def by_cause(statements: Iterable[Statement]) -> dict[str, list[Statement]]:
    """Failing statements by the reason for which they fail; one without a group is its own, with its twins.

    Example:
        >>> by_cause([])
        {}
    """
    groups: dict[str, list[Statement]] = {}
    for row in failing(statements):
        groups.setdefault(row.cause or min((row.id, *row.twins)), []).append(row)
    return groups


def _tally(verdicts: Iterable[str | None]) -> dict[str, int]:
    counts = Counter(verdicts)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def _listed(lead: str, tally: Mapping[str, int]) -> str:
    told = ", ".join(f"{number} {name}" for name, number in tally.items() if number)
    return f"{lead}{told}" if told else ""


def _many(number: int, name: str) -> str:
    return f"{number} {name}" + ("" if number == 1 else "s")
