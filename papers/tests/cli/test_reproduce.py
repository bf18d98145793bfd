"""`isometer reproduce` as a user runs it, killed and resumed too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from isometer_papers.studies import all_studies, find, reproduce
from support.command import as_json, error, invoke, printed

# --- running ------------------------------------------------------------


@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path, files: Callable[[Path], dict[str, bytes]]) -> None:
    """kill -9 in the middle, then --resume: no finished cell is done again, and the gallery is the same."""
    call = [sys.executable, "-m", "isometer.cli", "reproduce"]
    chosen = ["003/fig-2b", "--set", "runs=4", "depth=150", "--workers", "1", "--out"]
    subprocess.run([*call, *chosen, str(tmp_path / "whole")], check=True, capture_output=True)
    process = subprocess.Popen([*call, *chosen, str(tmp_path / "killed")], start_new_session=True)
    cells = tmp_path / "killed" / "cells" / "cells"
    deadline = time.monotonic() + 120
    while len(list(cells.glob("*.nc"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in cells.glob("*.nc")}
    assert before
    assert not (tmp_path / "killed" / "index.html").exists()
    subprocess.run(
        [*call, "--resume", "--out", str(tmp_path / "killed"), "--workers", "1"], check=True, capture_output=True
    )
    assert all(path.stat().st_mtime_ns == moment for path, moment in before.items())
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


# --- command ------------------------------------------------------------


def test_list() -> None:
    rows = as_json("reproduce", "list")
    assert {"id", "title", "published", "data", "seconds", "reduced"} <= set(rows[0])
    assert len(rows) == len(all_studies())
    assert "003/fig-2b" in printed("reproduce", "list", "--paper", "003")


def test_bad_requests(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "g")]
    for arguments, message in (
        ([], "expected IDs, --paper P or --all"),
        (["003/fig-1", "--all"], "expected IDs, --paper P or --all"),
        (["003/fig1"], "did you mean '003/fig-1'"),
        (["--resume"], "nothing to resume"),
        (["003/fig-1", "--set", "widht=3"], "did you mean 'width'"),
        (["--paper", "099"], "unknown paper"),
        (["--read-again"], "no result of any study"),
        (["--read-again", "003/fig-1", "--set", "width=3"], "computes nothing"),
    ):
        assert message in error("reproduce", *arguments, *out)
    assert find("003/fig-1").scale("paper")


def test_a_damaged_record_is_told_in_one_line(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    reproduce([find("001/tab-5.1")], tmp_path, executor=pool)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "study.json").write_text("{")
    done = invoke("reproduce", "--read-again", "001/tab-5.1", "--out", str(tmp_path))
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("note: ")]
    assert line.startswith(f"note: left out of the gallery: the record '{tmp_path}/torn/study.json' is not JSON")
    assert "run the study again" in line
