"""The findings that matter: what a researcher who uses one of the papers must know. Their text is one file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from isometer.errors import IsometerError
from isometer_papers.claims._text import text_of


@dataclass(frozen=True)
class LedgerFinding:
    """One of them.

    Attributes:
        id: a short name, for links.
        title: in one sentence.
        breaks: what fails.
        holds: what still holds.
        instead: what replaces it.
        known: since when it is known, if that is published; empty where we know of no note.
        claims: IDs of the statements behind it.

    Example:
        >>> findings()[0].claims[0] in findings()[0].claims
        True
    """

    id: str
    title: str
    breaks: str
    holds: str
    instead: str
    claims: tuple[str, ...]
    known: str = ""

    def parts(self) -> dict[str, str]:
        """Its text by heading.

        Example:
            >>> list(findings()[0].parts())[:3]
            ['what breaks', 'what still holds', 'what replaces it']
        """
        told = {"what breaks": self.breaks, "what still holds": self.holds, "what replaces it": self.instead}
        return told | {"known since": self.known or "no published note of it is known to us."}


@cache
def findings() -> tuple[LedgerFinding, ...]:
    """All of them, in the order of `text/findings.toml`.

    Example:
        >>> len(findings()) >= 8
        True
    """
    text = (files("isometer_papers.claims") / "text" / "findings.toml").read_text(encoding="utf-8")
    found = []
    for row in tomllib.loads(text)["finding"]:
        try:
            one = LedgerFinding(**{**row, "claims": tuple(row["claims"])})
        except (TypeError, KeyError) as problem:
            name = row.get("id", "without an id")
            raise IsometerError(f"claims/text/findings.toml: the finding {name!r} is not complete: {problem}") from None
        for identifier in one.claims:
            text_of(identifier)  # raises where there is no such statement
        found.append(one)
    return tuple(found)
