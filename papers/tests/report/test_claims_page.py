"""The ledger as a page: what it is given is escaped and drawn."""

from __future__ import annotations

from isometer_papers.claims import Claim, check
from isometer_papers.report.ledger_page import claims_html, claims_markdown

# --- command and page ------------------------------------------------------------


def test_pages_escape_and_draw_what_they_are_given() -> None:
    instances = {"random": lambda rng, count: ({"x": float(x)} for x in rng.uniform(0.5, 2, count))}
    claim = Claim(
        "000/t", "", "deterministic", "x² ≥ x", ">=", lambda i: i["x"], instances, quantity=lambda i: i["x"] ** 2
    )
    row = check(claim).to_dict() | {"statement": "<b>x</b> | y", "id": "000/t'"}
    page = claims_html([row])
    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert page.count("<circle") > 10
    assert "x\\</b" not in page
    assert "\\| y" in claims_markdown([row])
    flat = claims_html([row | {"points": [["a", 2.0, 2.0], ["a", "inf", 1.0]], "margin": None}])
    assert flat.count("<circle") == 1
    assert "<svg" not in claims_html([row | {"points": [["a", 1e-16, 0.0], ["a", 0.0, 0.0]]}])
    assert "nan" not in flat
