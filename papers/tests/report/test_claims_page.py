"""The ledger as a page: what it is given is escaped and drawn."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

from isometer_papers.claims import LedgerFinding, ledger
from isometer_papers.report.ledger_files import write_ledger
from isometer_papers.report.ledger_markdown import claims_markdown
from isometer_papers.report.ledger_page import claims_html, front_html
from isometer_papers.report.ledger_power import power_markdown

ROW = next(row for row in ledger("002") if row.id == "002/lem-1")
MADE_UP = replace(
    ROW,
    id="002/t'",
    reading="<b>x</b> | y",
    quotation="<i>so</i>",
    snippet="assert 1 < 2",
    failure="corner",
    points=tuple(("a", 1.0 + k, 2.0) for k in range(20)),
)
FINDING = LedgerFinding("f", "<u>first</u>", "this", "that", "other", ("002/lem-1",))


def test_pages_escape_and_draw_what_they_are_given() -> None:
    page = claims_html([MADE_UP], [FINDING])
    for tag in ("<b>x</b>", "<i>so</i>", "<u>first</u>"):
        assert tag not in page
        assert tag.replace("<", "&lt;").replace(">", "&gt;") in page
    assert page.count("<circle") == 20
    assert "id='002/t&#x27;'" in page
    assert "assert 1 &lt; 2" in page
    text = claims_markdown([MADE_UP], [FINDING])
    assert "\\| y" in text
    assert "<u>first</u>" in text


def test_points_without_numbers_are_left_out() -> None:
    infinite = replace(MADE_UP, points=(("a", 2.0, 2.0), ("a", "inf", 1.0)), margin=None)  # type: ignore[arg-type]
    flat = claims_html([infinite])
    assert flat.count("<circle") == 1
    assert "nan" not in flat
    assert "<svg" not in claims_html([replace(MADE_UP, points=(("a", 1e-16, 0.0), ("a", 0.0, 0.0)))])


def test_rows_can_be_filtered() -> None:
    page = claims_html([MADE_UP, replace(MADE_UP, id="002/u", failure=None)])
    assert page.count("<tr id='002/t&#x27;' data-class='corner'") == 1
    assert page.count("<tr id='002/u' data-class=''") == 1
    assert "body:has(#class-corner:checked) tr[data-class]:not([data-class='corner'])" in page
    assert "body:has(#chapter option[value='002-" in page
    assert page.count("<section data-chapter='002-") == 1


def test_the_only_script_is_the_one_that_the_policy_names() -> None:
    page = claims_html([MADE_UP])
    [script] = re.findall(r"<script>(.*?)</script>", page, flags=re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_findings_link_to_rows_that_are_there() -> None:
    here, elsewhere = (f"<a href='{file}#002/lem-1'>" for file in ("", "daneshmand2020.html"))
    assert here in claims_html([ROW], [FINDING])
    assert here not in claims_html([MADE_UP], [FINDING])
    assert elsewhere in claims_html([MADE_UP], [FINDING], pages=True)
    assert elsewhere in front_html([ROW], [FINDING])


def test_a_folder_has_a_page_per_paper(tmp_path: Path) -> None:
    write_ledger(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"index.html", "ledger.json", "ledger.md", "ledger.bib", "joudaki2024.html"}
    data = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))
    assert len(data["statements"]) == len(ledger())
    assert data["counts"]["classes"]["result"] == sum(row["class"] == "result" for row in data["statements"])
    front = (tmp_path / "index.html").read_text(encoding="utf-8")
    for file, place in re.findall(r"href='([^'#]*)#?([^']*)'", front):
        assert file in names
        assert not place or f"id='{place}'" in (tmp_path / file).read_text(encoding="utf-8"), place


def test_the_table_of_power_has_every_statistical_check_that_holds() -> None:
    table = power_markdown(ledger("002")).splitlines()
    assert len(table) == 2 + sum(row.verdict == "holds" and row.power is not None for row in ledger("002"))
    assert all(line.rstrip("| ").count(" | ") == 5 for line in table[2:])
