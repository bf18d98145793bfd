"""`isometer claims` as a user runs it."""

from __future__ import annotations

import re
from pathlib import Path

from isometer_papers.claims import ledger
from isometer_papers.claims._ledger import parsed
from isometer_papers.claims._statement import CHECKED
from support.command import as_json, error, invoke, printed

# --- command and page ------------------------------------------------------------


def test_list_as_json() -> None:
    rows = as_json("claims", "list", "--paper", "002", "--verdict", "refuted")
    keys = {"id", "paper", "kind", "statement", "verdict", "corrected"}  # as ever
    keys |= {"as_printed", "as_intended", "class", "quotation", "place", "reading", "cause", "snippet"}
    assert keys <= set(rows[0])
    assert {row["verdict"] for row in rows} == {"refuted"}
    assert {row["id"] for row in rows} == {row.id for row in ledger("002") if row.verdict == "refuted"}


def test_list_as_table() -> None:
    text = printed("claims", "list")
    assert "002/lem-1#corrected" in text
    assert re.search(r"\d+ statements as printed: \d+ holds, \d+ refuted", text)
    assert re.search(r"\d+ failures by class: \d+ \w+", text)
    assert re.search(r"\d+ corrections of ours: \d+ holds", text)


def test_list_filters() -> None:
    rows = as_json("claims", "list", "--paper", "000", "--class", "misprint")
    assert rows
    assert {(row["class"], row["as_intended"]) for row in rows} == {("misprint", "holds")}
    meant = as_json("claims", "list", "--paper", "000", "--verdict", "refuted", "--intended", "holds")
    assert {row["class"] for row in meant} == {"misprint", "corner", "contestable"}
    chapter = as_json("claims", "list", "--paper", "000", "--chapter", "appendix b")
    assert {row["chapter"] for row in chapter} == {"Appendix B. Proof of Theorem 3"}
    words = as_json("claims", "list", "--statement", "Layer norm never lowers")
    assert [row["id"] for row in words] == ["001/claim-4.deterministic:layer-norm"]


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
    assert [row["verdict"] for row in rows] == ["refuted", "holds"] * 2
    assert all(tuple(row) == CHECKED for row in rows)
    written = [row.id for row in parsed(target.read_text(encoding="utf-8"))]
    assert written == [f"002/lem-1{part}{mark}" for part in ("", ":eigenvalues") for mark in ("", "#corrected")]


def test_show_prints_the_evidence() -> None:
    text = printed("claims", "show", "000/lem-2:eq-19")
    for part in ("the paper: “", "as printed: refuted", "as intended: holds (slip", "class: misprint", "import numpy"):
        assert part in text


def test_causes_and_findings() -> None:
    assert "groups" in printed("claims", "causes", "--paper", "000")
    groups = as_json("claims", "causes", "--paper", "000")
    assert sorted(name for group in groups for name in group["claims"]) == sorted(
        row.id for row in ledger("000") if row.fails
    )
    assert "what replaces it" in printed("claims", "findings")
    assert {"id", "title", "breaks", "holds", "instead", "claims", "known"} == set(as_json("claims", "findings")[0])


def test_cite() -> None:
    text = printed("claims", "cite", "002/lem-1")
    assert "note = {Statement 002/lem-1}" in text
    assert "@misc{daneshmand2020," in text
    assert "did you mean" in error("claims", "cite", "002/lem1")


def test_check_needs_one_choice() -> None:
    for arguments in ([], ["002/lem-1", "--all"], ["--all", "--paper", "002"]):
        assert "expected IDs" in error("claims", "check", *arguments)


def test_report(tmp_path: Path) -> None:
    html, markdown = tmp_path / "c.html", tmp_path / "c.md"
    data = as_json("claims", "report", "--html", str(html), "--markdown", str(markdown))
    assert len(data["statements"]) == len(ledger())
    page = html.read_text(encoding="utf-8")
    assert page.count("<tr id=") == len(ledger())
    assert page.count("<script") == 1
    assert "http" not in page.replace("http-equiv", "")
    assert "002/lem-1#corrected" in markdown.read_text(encoding="utf-8")
    assert "--html FILE" in error("claims", "report")
    assert "drop one of them" in error("claims", "report", "--folder", str(tmp_path), "--paper", "002")
    invoke("claims", "report", "--html", str(html), "--paper", "002")
    assert html.read_text(encoding="utf-8").count("<tr id=") == len(ledger("002"))
