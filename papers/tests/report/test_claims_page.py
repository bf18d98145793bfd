"""The ledger as a page: what it is given is escaped and drawn."""

from __future__ import annotations

from dataclasses import replace

from isometer_papers.claims import LedgerFinding, ledger
from isometer_papers.report.ledger_markdown import claims_markdown
from isometer_papers.report.ledger_page import claims_html

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


def test_rows_can_be_filtered_without_a_script() -> None:
    page = claims_html([MADE_UP, replace(MADE_UP, id="002/u", failure=None)])
    assert page.count("<tr id='002/t&#x27;' data-class='corner'") == 1
    assert page.count("<tr id='002/u' data-class=''") == 1
    assert "body:has(#class-corner:checked) tr[data-class]:not([data-class='corner'])" in page
    assert "<script" not in page
