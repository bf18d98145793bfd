"""The words of the ledger: classes of failures, and the slips that the intended reading repairs.

papers/docs/claims.md states the policy behind them.
"""

from __future__ import annotations

from typing import Literal

FailureClass = Literal["result", "minor", "proof", "misprint", "corner", "conflict", "contestable"]
Charity = Literal["slip", "corner", "expectation", "convention", "context"]
Origin = Literal["paper", "addition", "correction"]

CLASSES: dict[FailureClass, str] = {
    "result": "the statement fails as intended, and a reader would use it",
    "minor": "the statement fails as intended, and little depends on it",
    "proof": "a step of a proof fails as intended; what it proves has its own entry",
    "misprint": "a slip in print: it holds as intended",
    "corner": "only degenerate cases or a strict sign fail: it holds as intended",
    "conflict": "the paper states two things that exclude each other",
    "contestable": "whether it fails depends on a reading that a careful reader may reject",
}
"""What each class of failure means."""

CHARITY: dict[Charity, str] = {
    "slip": "a sign, index, exponent, factor or symbol that differs in the statement's own proof or use",
    "corner": "a set of measure zero, a size at which the statement has no content, or < for ≤",
    "expectation": "an expectation, or 'almost surely', that is left out where the proof takes it",
    "convention": "an orientation, norm or scaling that differs from the definition and is fixed by the use",
    "context": "a hypothesis that the section, the proof or the sentence before it states",
}
"""What makes another reading than the printed one evident."""

REPAIRED: frozenset[FailureClass] = frozenset({"misprint", "corner"})
"""Classes of statements that hold as intended."""
BROKEN: frozenset[FailureClass] = frozenset({"result", "minor", "proof"})
"""Classes of statements that fail as intended, too."""
