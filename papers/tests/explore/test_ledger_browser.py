"""The ledger lab of the explorer in a real browser, as a person uses it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")

from isometer.explore._server import running
from support.explorer import PHONE, Tab, fits_a_phone, seconds_until, slowdown, tabs_of

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def new_tab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Tab]]:
    gallery = tmp_path_factory.mktemp("gallery")
    study = gallery / "003-fig-1"
    study.mkdir()
    (study / "figure.png").write_bytes(PIXEL)
    record = {"id": "003/fig-1", "scale": "quick", "title": "made up", "measured": {"slope": 0.5}}
    (study / "study.json").write_text(json.dumps({**record, "verdict": "agree"}))
    with running(port=0, gallery=gallery) as found:
        yield tabs_of(browser, found.url)


def test_ledger_filters_claims_and_shows_figures(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab("/ledger?paper=002&verdict=refuted")
    tab.until("() => document.querySelectorAll('.claims tbody tr').length > 3")
    verdicts = tab.page.eval_on_selector_all(".claims tbody .badge", "b => b.map(e => e.textContent)")
    assert set(verdicts) == {"refuted"}
    tab.page.fill("#control-find", "lem-1")
    tab.until(
        "() => [...document.querySelectorAll('.claims tbody button')].every(b => b.textContent.includes('lem-1'))"
    )
    tab.page.click(".claims button:text-is('002/lem-1')")
    tab.until("() => document.querySelector('#ledger-chosen').textContent.includes('Counterexample')")
    tab.drawn("ledger-points")
    tab.page.fill("#control-find", "")
    tab.page.select_option("#control-paper", "003")
    tab.page.select_option("#control-verdict", "agree")
    tab.page.select_option("#control-view", "studies")
    tab.until("() => document.querySelectorAll('.study img').length === 1")
    tab.until("() => document.querySelector('.study img').naturalWidth === 1")
    assert "003/fig-1" in tab.page.text_content("#ledger-list")
    tab.fine()


@pytest.mark.slow
def test_phone(new_tab: Callable[..., Tab]) -> None:
    fits_a_phone(new_tab("/ledger?paper=003", **PHONE))


@pytest.mark.slow
def test_reactions_take_less_than_two_seconds(new_tab: Callable[..., Tab]) -> None:
    """Two seconds of an idle machine: where others compute, as much longer as a plain loop takes here and now."""
    allowed = 2.0 * slowdown()
    tab = new_tab("/ledger")
    tab.until("() => document.querySelectorAll('.claims tbody tr').length > 3")
    took = seconds_until(
        tab,
        lambda: tab.page.select_option("#control-verdict", "vacuous"),
        "() => [...document.querySelectorAll('.claims .badge')].every(b => b.textContent === 'vacuous')",
    )
    assert took < allowed
