"""`python -m benchmarks.warnings [train|fit|open]`: train what is missing, and say what warnings are worth.

- `train` trains the runs that build/warnings does not have yet (about half an hour of one core for all of them).
- `fit` sets the limits in src/isometer/doctor/watch/_limits.py by the development half.
- `open` looks at the sealed half with those limits, once: later it only says whether the same numbers come out.

Without a word: all that is missing is trained, the numbers are calculated again and compared with those written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.environment import environment
from benchmarks.warnings._page import write_section
from benchmarks.warnings._records import ROOT, train_missing
from benchmarks.warnings._replay import replayed
from benchmarks.warnings._roster import is_sealed, roster
from benchmarks.warnings._verdict import fitted, record, verdict
from isometer.doctor.watch._limits import LIMITS
from isometer.files import write_whole

_LIMITS = ROOT / "src" / "isometer" / "doctor" / "watch" / "_limits.py"
_RESULT = ROOT / "docs" / "warnings.json"


def _half(sealed: bool) -> Any:
    return replayed([one for one in roster() if is_sealed(one.network) == sealed])


def fit() -> None:
    """Write the limits."""
    if _written().get("sealed"):
        sys.exit("the sealed half is open; limits fitted now would have seen it — draw another roster first")
    limits = fitted(_half(False))
    rows = "".join(f'    "{name}": {value},\n' for name, value in limits.items())
    head = _LIMITS.read_text(encoding="utf-8").split("LIMITS:")[0]
    write_whole(_LIMITS, f"{head}LIMITS: dict[str, float] = {{\n{rows}}}\n")
    print(f"wrote {_LIMITS.relative_to(ROOT)}")


def report(*, seal: bool) -> None:
    """Numbers of the halves that are open, written and shown in the documentation."""
    earlier = _written()
    opened = seal or bool(earlier.get("sealed"))
    halves = {"development": _half(False), **({"sealed": _half(True)} if opened else {})}
    found: dict[str, Any] = {name: verdict(runs, LIMITS) for name, runs in halves.items()}
    if earlier.get("sealed") and json.loads(json.dumps(found)) != {name: earlier[name] for name in found}:
        sys.exit("the numbers differ from those that were written when the seal was opened")
    rows = {one.run.name: record(one, LIMITS) for runs in halves.values() for one in runs}
    _write(_RESULT, {"environment": environment(), "limits": LIMITS, **found}, rows)
    write_section({"limits": LIMITS, **found})
    for name, numbers in found.items():
        for what in ("announced_in_time", "false_alarms"):
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
            print(f"{train_missing(roster(), workers=1)} runs trained")
        elif word == "fit":
            fit()
        elif word in ("report", "open"):
            report(seal=word == "open")
        else:
            sys.exit(f"unknown part {word!r}; choose from train, fit, report, open")


if __name__ == "__main__":
    main()
