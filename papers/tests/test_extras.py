"""What the companion needs of the extras is told by their names."""

from __future__ import annotations

from pathlib import Path

from isometer.extras import EXTRAS
from support.missing import commands, outcome


def test_without_any_extra_claims_and_studies_are_listed(tmp_path: Path) -> None:
    done = outcome(commands(["reproduce", "list"], ["claims", "list"]), tmp_path, *(set(EXTRAS) - {"isometer_papers"}))
    assert done.returncode == 0, done.stderr
