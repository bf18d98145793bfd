"""`isometer claims` as a user runs it."""

from __future__ import annotations

import re
from pathlib import Path

from isometer_papers.claims import ledger
from isometer_papers.claims._ledger import parsed
from isometer_papers.claims._result import KEYS
from support.command import as_json, error, invoke, printed

# --- command and page ------------------------------------------------------------


def test_list_as_json() -> None:
    rows = as_json("claims", "list", "--paper", "002", "--verdict", "refuted")
    assert {"id", "paper", "kind", "statement", "verdict", "corrected"} == set(rows[0])
    assert {row["verdict"] for row in rows} == {"refuted"}
    assert {row["id"] for row in rows} == {row.id for row in ledger("002") if row.verdict == "refuted"}


def test_list_as_table() -> None:
    text = printed("claims", "list")
    assert "002/lem-1#corrected" in text
    assert re.search(r"\d+ holds, \d+ refuted, \d+ vacuous, \d+ inconclusive", text)


def test_show() -> None:
    text = printed("claims", "show", "002/lem-1")
    assert "refuted" in text
    assert "counterexample" in text
    assert "002/lem-1#corrected" in text
    assert "definition" in printed("claims", "show", "002/eq-2")
    assert as_json("claims", "show", "002/eq-2")[0]["checkable"] is False


def test_check_and_out(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    rows = as_json("claims", "check", "002/lem-1", "--out", str(target))
    assert [row["verdict"] for row in rows] == ["refuted", "holds"]
    assert all(tuple(row) == KEYS for row in rows)
    assert [row.id for row in parsed(target.read_text(encoding="utf-8"))] == ["002/lem-1", "002/lem-1#corrected"]


def test_check_needs_one_choice() -> None:
    for arguments in ([], ["002/lem-1", "--all"], ["--all", "--paper", "002"]):
        assert "either IDs" in error("claims", "check", *arguments)


def test_report(tmp_path: Path) -> None:
    html, markdown = tmp_path / "c.html", tmp_path / "c.md"
    invoke("claims", "report", "--html", str(html), "--markdown", str(markdown))
    page = html.read_text(encoding="utf-8")
    assert page.count("<tr id=") == len(ledger())
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "002/lem-1#corrected" in markdown.read_text(encoding="utf-8")
    assert "--html FILE" in error("claims", "report")
