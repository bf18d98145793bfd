"""`python -m benchmarks.warnings [train|fit|open|report]`: train what is missing, and say what warnings are worth.

- `train` trains the runs of the first roster that build/warnings does not have yet (ten minutes of one core for all).
- `fit` sets the limits in src/isometer/doctor/watch/_limits.py by the first roster.
- `open` trains the second roster (about six minutes) and looks at it with those limits, once.
- `report` calculates the numbers again, of the second roster only if it is open, and compares them with those written.

Without a word: train and report.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.environment import environment
from benchmarks.warnings._page import write_section
from benchmarks.warnings._records import ROOT, raw_path, train_missing
from benchmarks.warnings._replay import replayed
from benchmarks.warnings._roster import FIRST, SECOND
from benchmarks.warnings._verdict import cross_validated, fitted, record, verdict
from isometer.doctor.watch._limits import LIMITS
from isometer.files import write_whole

_LIMITS = ROOT / "src" / "isometer" / "doctor" / "watch" / "_limits.py"
_RESULT = ROOT / "docs" / "warnings.json"


def fit() -> None:
    """Write the limits."""
    if _written().get("sealed"):
        sys.exit("the seal is open; limits fitted now would have seen it — draw another roster first")
    limits = fitted(replayed(FIRST.runs()))
    rows = "".join(f'    "{name}": {value},\n' for name, value in limits.items())
    head = _LIMITS.read_text(encoding="utf-8").split("LIMITS:")[0]
    write_whole(_LIMITS, f"{head}LIMITS: dict[str, float] = {{\n{rows}}}\n")
    print(f"wrote {_LIMITS.relative_to(ROOT)}")


def report(*, seal: bool) -> None:
    """Numbers of what is open, written and shown in the documentation."""
    earlier = _written()
    found: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    here = [one for one in FIRST.runs() if raw_path(one).exists()]
    if here:
        first = replayed(here)
        found["development"] = verdict(first, lambda _: LIMITS)
        found["cross_validated"] = cross_validated(first)
        if len(here) < len(FIRST.runs()):  # which runs are missing is no accident, so that these shares say nothing
            for numbers in found.values():
                numbers |= {"all_failures_in_time": None, "all_failures_before_the_loss": None}
        rows |= {one.run.name: record(one, LIMITS) for one in first}
    if seal or earlier.get("sealed"):
        second = replayed(SECOND.runs())
        found["sealed"] = verdict(second, lambda _: LIMITS)
        rows |= {one.run.name: record(one, LIMITS) for one in second}
        if earlier.get("sealed") and json.loads(json.dumps(found["sealed"])) != earlier["sealed"]:
            sys.exit("the numbers differ from those that were written when the seal was opened")
    head = {"environment": environment(), "limits": LIMITS, **found, "first_seal": earlier["first_seal"]}
    _write(_RESULT, head, rows)
    write_section(head)
    for name, numbers in found.items():
        for what in ("announced_in_time", "all_failures_in_time", "false_alarms"):
            print(f"{name}: {what.replace('_', ' ')}: {numbers[what]}")


def _written() -> dict[str, Any]:
    return json.loads(_RESULT.read_text(encoding="utf-8")) if _RESULT.exists() else {}


def _write(path: Path, head: dict[str, Any], rows: dict[str, Any]) -> None:
    """JSON with one run per line."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    records = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items())
    write_whole(path, "{\n" + ",\n".join([*lines, '"runs": {\n' + records + "\n}"]) + "\n}\n")


def main() -> None:
    words = sys.argv[1:] or ["train", "report"]
    for word in words:
        if word == "train":
            print(f"{train_missing(FIRST.runs(), workers=1)} runs trained")
        elif word == "fit":
            fit()
        elif word == "open":
            print(f"{train_missing(SECOND.runs(), workers=1)} runs trained")
            report(seal=True)
        elif word == "report":
            report(seal=False)
        else:
            sys.exit(f"unknown part {word!r}; choose from train, fit, report, open")


if __name__ == "__main__":
    main()
