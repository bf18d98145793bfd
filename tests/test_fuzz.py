"""Random input of every kind: a slice of what `make fuzz` runs, and everything that went wrong once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from isometer.errors import IsometerError
from support.fuzz.target import Target, targets

pytest.importorskip("torch", reason="random files of tensors need torch: pip install 'isometer[torch]'")

TOOL = Path(__file__).parents[1] / "tools/fuzz.py"


@pytest.mark.parametrize("target", list(targets()), ids=lambda one: one.name)
def test_a_few(target: Target) -> None:
    for index in range(target.few):
        with suppress(IsometerError):
            target.check(target.case(index))


@pytest.mark.parametrize("target", list(targets()), ids=lambda one: one.name)
def test_what_went_wrong_once(target: Target) -> None:
    for case in target.corpus():
        with suppress(IsometerError):
            target.check(case)


def test_the_tool_notices_every_broken_promise(tmp_path: Path) -> None:
    """And goes on where it ended, with the same results."""
    call = [sys.executable, str(TOOL), "--package", "support.faulty", "--rows", str(tmp_path / "rows.jsonl")]
    (target,) = targets("support.faulty")
    ways = Counter(target.case(index) for index in range(target.total))
    assert len(ways) == 6
    done = subprocess.run([*call, "--out", str(tmp_path / "out.json")], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    (row,) = json.loads((tmp_path / "out.json").read_text())["targets"]
    named = {"answer": "answered", "refuse": "refused", "raise": "broken", "wait": "waited", "take": "memory"}
    assert row["outcomes"] == {named.get(way, "crashed"): count for way, count in ways.items()}
    rows = (tmp_path / "rows.jsonl").read_text()
    again = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (tmp_path / "rows.jsonl").read_text() == rows
    assert again.stdout == done.stdout

    def earlier(**changes: object) -> None:
        row = json.loads(rows)
        (tmp_path / "rows.jsonl").write_text(json.dumps(row | {"code": "of other code"} | changes) + "\n")

    earlier(bad=[])
    subprocess.run([*call, "--keep"], capture_output=True, text=True, check=False)
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1
    earlier(bad=[[1, "hung", "once"]], revision="a1")
    subprocess.run([*call, "--keep", "--out", str(tmp_path / "out.json")], capture_output=True, text=True, check=False)
    (row,) = json.loads((tmp_path / "out.json").read_text())["targets"]
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 2
    assert row["bad_before"] == [["a1", 1, "hung", "once"]]
    assert row["cases"] == target.total
    assert list(row["revisions"].values()) == [target.total]
