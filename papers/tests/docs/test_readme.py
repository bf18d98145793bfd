"""The README states the counts of the ledger."""

from __future__ import annotations

import subprocess
import sys

from support import ROOT


def test_readme_states_the_counts_of_the_ledger() -> None:
    call = [sys.executable, str(ROOT / "docs" / "make_readme.py"), "--check"]
    assert subprocess.run(call, check=False).returncode == 0, "run python docs/make_readme.py"
