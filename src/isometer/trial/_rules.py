"""Opening the seal: the rules are final, and what they are is kept.

Who opens the seal says why; every opening is kept, with the version of the rules it was opened for.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isometer.doctor.stress._outlook import fitted
from isometer.errors import IsometerError
from isometer.run import code_version
from isometer.trial._causes_table import accused, naming_rows
from isometer.trial._doubtful import worth_treating
from isometer.trial._members import Member
from isometer.trial._named_causes import cause_cell
from isometer.trial._opinions import doctor_cell
from isometer.trial._records import SEAL, write_records
from isometer.trial._seal import openings
from isometer.trial._stressed import stress_cell
from isometer.trial._treated import treated_cell
from isometer.trial._treated_table import treatment_rows
from isometer.trial._verdict_table import verdict_counts

_SHORTEST = 12


def rules_version() -> str:
    """What the doctor says follows from, and how it is scored: the code of probe, stress test, verdict, causes,
    treatment and their tables, and the fitted numbers."""
    digest = hashlib.sha256(json.dumps(fitted(), sort_keys=True).encode())
    said = (doctor_cell, stress_cell, cause_cell, treated_cell)
    for function in (*said, verdict_counts, accused, naming_rows, worth_treating, treatment_rows):
        digest.update(code_version(function).encode())
    return digest.hexdigest()[:16]


def _numbers() -> dict[str, Any]:
    """What verdicts follow from, not what is said about it: later rules must not change what an opening found."""
    said = {"cases", "brier", "reliability"}
    return {kind: {name: one[name] for name in one if name not in said} for kind, one in fitted().items()}


def open_seal(folder: Path, members: Sequence[Member], reason: str) -> list[Member]:
    """Note an opening and return all members.

    Args:
        folder: of the trial.
        members: of the trial.
        reason: for whoever reads the table: which rules are final, and why now.

    Raises:
        IsometerError: no reason is given, or the seal was opened before for other rules.
    """
    if len(reason.strip()) < _SHORTEST:
        raise IsometerError(
            f"the reason for opening the seal is {reason!r}; expected a sentence that says which rules are final — "
            "the seal is opened once"
        )
    rules, past = rules_version(), openings(folder)
    if past and all(one["rules"] != rules for one in past.values()):
        last = max(past)
        raise IsometerError(
            f"the seal was opened on {last} for other rules; expected families that no rule has met — write new "
            "families and draw a new trial in another folder"
        )
    if not past:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        write_records(folder / SEAL, {today: {"reason": reason.strip(), "rules": rules, "fitted": _numbers()}})
    return list(members)
