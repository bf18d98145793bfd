"""The ledger lab of the explorer without a browser: its picture, and the gallery it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")

import plotly.graph_objects as go

from isometer.explore import Desk, make_app
from isometer_papers.claims._policy import CLASSES as POLICY
from isometer_papers.claims._result import VERDICTS as KNOWN
from isometer_papers.explore._claims import claim_card, claim_table, finding_list
from isometer_papers.explore._jobs import claims, findings
from isometer_papers.explore._lab import CLASSES, VERDICTS, LedgerState
from isometer_papers.explore._page import _wanted
from isometer_papers.explore._pictures import claim_picture
from support.command import error


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture_is_a_valid_figure(theme: str) -> None:
    figure = claim_picture([("random", 1.0, 2.0), ("search", "nan", 1.0)], "<=", theme)
    go.Figure(figure)  # refuses what Plotly does not know
    json.dumps(figure, allow_nan=False)


def test_gallery_serves_its_figures_and_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "000-fig-3a").mkdir()
    (tmp_path / "000-fig-3a" / "figure.png").write_bytes(b"\x89PNG made up")
    (tmp_path / "secret.png").write_bytes(b"secret")
    desk = Desk(workers=1)
    client = make_app(tmp_path, desk=desk).server.test_client()
    assert client.get("/gallery/000-fig-3a/figure.png").data == b"\x89PNG made up"
    for path in ("..", "%2e%2e", "..%2f..%2fetc", "secret.png", "nothing", "000-fig-3a%00"):
        answer = client.get(f"/gallery/{path}/figure.png")
        assert answer.status_code in (404, 308) or answer.text.startswith("<!DOCTYPE html>"), "the page, or nothing"
    assert b"secret" not in client.get("/gallery/../secret.png").data
    desk.close()


def test_command_refuses_a_missing_gallery() -> None:
    assert "the folder '/no/such/folder' does not exist" in error(
        "explore", "--no-browser", "--gallery", "/no/such/folder"
    )


def test_words_are_those_of_the_claims() -> None:
    assert tuple(POLICY) == CLASSES
    assert VERDICTS == KNOWN


def test_claims_are_filtered_by_class_chapter_and_both_verdicts() -> None:
    rows = claims()
    state, _ = LedgerState.read({"paper": "000", "failure": "corner", "chapter": "appendix f", "intended": "holds"})
    found = [row for row in rows if _wanted(row, state)]
    assert {row["id"] for row in found} == {"000/K-gt-ip", "000/eq-112-117:115", "000/eq-112-117:last"}
    assert "intended: holds" in str(claim_table(found, state))


def test_a_claim_is_shown_with_its_evidence() -> None:
    row = next(row for row in claims() if row["id"] == "000/lem-2:eq-19")
    shown = str(claim_card(row))
    for part in ("sufficiently small", "misprint", "000/unit-length", "In plain Python", "holds (slip"):
        assert part in shown


def test_findings_lead_to_their_statements() -> None:
    shown = str(finding_list(findings()))
    assert "/ledger?chosen=000/thm-14:scale" in shown
    assert "What replaces it" in shown
