"""The sealed half: families whose diagnoses are computed once, when the rules are declared final.

Which families are sealed follows from the hash of their name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isometer.trial._members import Member
from isometer.trial._records import SEAL, read_records


def development(members: Sequence[Member]) -> list[Member]:
    """The members whose diagnoses anyone may look at."""
    return [member for member in members if not member.sealed]


def fitted_to(folder: Path, members: Sequence[Member]) -> list[Member]:
    """The members that rules may be fitted to: the development half, and all once the seal was opened.

    A rule that is fitted after an opening is judged by a later round.
    """
    return list(members) if openings(folder) else development(members)


def openings(folder: Path) -> dict[str, Any]:
    """Every opening of the seal so far, by date."""
    return read_records(folder / SEAL)
