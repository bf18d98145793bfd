"""The companion's commands on a terminal of 80 columns: panels, examples, one next step, nothing that is cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from isometer_papers.claims import ledger
from isometer_papers.cli._claim_tables import print_checked
from support.command import printed

COLUMNS = 80
COMMANDS = [
    "claims list --paper 002 --class result",
    "claims show 002/lem-1",
    "claims causes --paper 002",
    "claims findings",
    "claims report --markdown ledger.md --paper 002",
    "reproduce list --paper 003",
]
HELP = [*(f"claims {name}" for name in ("list", "show", "causes", "findings", "cite", "check", "report")), "reproduce"]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_with_a_next_step(command: str) -> None:
    told = printed(*command.split())
    assert told.splitlines()[-1].startswith("next: ")
    prose = [line for line in told.splitlines() if not line.startswith("    ")]  # code to copy keeps its lines
    assert [line for line in prose if cell_len(line.rstrip()) > COLUMNS] == []


@pytest.mark.parametrize("command", HELP)
def test_help_is_in_panels_with_examples(command: str) -> None:
    told = printed(*command.split(), "-h")
    assert [line for line in told.splitlines() if cell_len(line) > COLUMNS] == []
    assert any(line.strip().startswith("isometer ") for line in told.splitlines())
    unsorted = re.findall(r"╭─ Options ─.*?╰", told, flags=re.S)[0]
    assert unsorted.count("│ --") == 1, "every option but --help has a panel"


def test_a_check_says_first_what_differs_from_the_shipped_ledger(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ledger("003")
    shipped = {row.id: row.verdict for row in rows}
    print_checked(rows, shipped)
    same = capsys.readouterr().out.splitlines()
    assert same[0].startswith(f"{len(rows)} checked: ")
    assert "all as in the shipped ledger" in "".join(same)
    changed = {**shipped, rows[3].id: "inconclusive"}
    print_checked(rows, changed)
    assert f"{rows[3].id}: {rows[3].verdict}, shipped inconclusive" in capsys.readouterr().out
    print_checked(rows[:2], shipped)
    assert all(row.id in capsys.readouterr().out for row in rows[:1])
