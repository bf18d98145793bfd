"""What the explorer needs to know of the ledger before anybody opens it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from isometer.explore import Lab, Reader, State, choice, line, whole
from isometer_papers import papers

VIEWS = {"claims": "claims", "findings": "the findings that matter", "studies": "figures and tables"}
"""What the ledger can show."""
VERDICTS = ("holds", "refuted", "vacuous", "inconclusive")
CLASSES = ("result", "minor", "proof", "misprint", "corner", "conflict", "contestable")
"""Words of the claims, here so that the page opens without loading them."""


@dataclass(frozen=True)
class LedgerState(State):
    """The ledger: claims, findings or studies, and what they are filtered by."""

    view: str = "claims"
    paper: str = ""
    verdict: str = ""
    intended: str = ""
    failure: str = ""
    chapter: str = ""
    find: str = ""
    page: int = 1
    chosen: str = ""

    readers: ClassVar[Mapping[str, Reader]] = {
        "view": choice("view", tuple(VIEWS)),
        "paper": choice("paper", ("", *papers())),
        "verdict": choice(
            "verdict",
            ("", *VERDICTS, "agree", "partly", "disagree", "unclear", "not run", "not made"),
        ),
        "intended": choice("intended", ("", *VERDICTS)),
        "failure": choice("failure", ("", *CLASSES)),
        "chapter": line("chapter"),
        "find": line("find"),
        "page": whole("page"),
        "chosen": line("chosen"),
    }


_CLAIMS, _STUDIES = ("isometer_papers.claims",), ("isometer_papers.studies",)
LAB = Lab(
    "ledger",
    "Ledger",
    LedgerState,
    "isometer_papers.explore._page",
    {
        "claims": ("isometer_papers.explore._jobs", "claims", _CLAIMS),
        "findings": ("isometer_papers.explore._jobs", "findings", _CLAIMS),
        "studies": ("isometer_papers.explore._jobs", "studies", _STUDIES),
    },
    "every claim of five papers with the verdict of its check, and every figure reproduced.",
)
"""Joined through the entry points of the group `isometer.labs`."""
