"""When and from which revision a generated page was computed."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def made() -> dict[str, str]:
    """Date and revision; `+` where the code has changes that no revision has."""
    changed = _git("status", "--porcelain", "--", "*.py")
    revision = _git("rev-parse", "--short", "HEAD") + "+" * bool(changed)
    return {"date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(), "revision": revision}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def made_line(records: list[dict[str, str]]) -> str:
    """`Computed on 2026-11-18 at revision 0123abc.`, with every date and revision there is."""
    days = sorted({one["date"] for one in records})
    revisions = sorted({one["revision"] for one in records})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"Computed on {when} at revision{'s' * (len(revisions) > 1)} {', '.join(revisions)}."
