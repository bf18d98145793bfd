"""The guided experiments, A against B, play, explanations and live models, in a real browser: one server, few tabs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")

from isometer.explore._experiments import EXPERIMENTS
from isometer.metrics import METRICS
from isometer.metrics._theory_numbers import THEORY_NUMBERS, meaning
from support.explorer import Tab

TOLD = "text => document.querySelector('#start-told').textContent.includes(text)"


@pytest.fixture(scope="module")
def tab(new_tab: Callable[..., Tab]) -> Tab:
    return new_tab("/")


def follow(tab: Tab, label: str) -> None:
    """Click a link of the guide and wait for the next step."""
    before = tab.page.evaluate("location.href")
    tab.page.click(f".steps a:text-is('{label}')")
    tab.until("before => location.href !== before", before)


def step(tab: Tab, name: str, number: int) -> None:
    title = EXPERIMENTS[name].steps[number - 1].title
    tab.until("title => (document.querySelector('.words h2') || {}).textContent === title", title)


def test_the_address_without_a_lab_is_the_start_page(tab: Tab) -> None:
    assert tab.page.locator(".experiment").count() == 3
    tab.drawn(*(f"start-preview-{name}" for name in EXPERIMENTS))
    assert tab.page.get_attribute(".top nav [aria-current=page]", "href") == "/start"
    tab.fine()


def test_a_signal_dies(tab: Tab) -> None:
    tab.page.click("[data-experiment=dies] .primary")
    step(tab, "dies", 1)
    tab.until(TOLD, "The samples collapse.")
    rank = tab.trace("start-picture", "ReLU")["y"]
    assert rank[0] > 8
    assert rank[-1] < 1.5
    assert tab.trace("start-picture", "ReLU, theory")["y"][-1] == pytest.approx(rank[-1], abs=0.15)
    tab.slide("depth", 4)
    tab.until(TOLD, "after 4 layers. The samples stay distinct.")
    follow(tab, "Next")
    step(tab, "dies", 2)
    tab.until(TOLD, "Layer 0:")
    tab.slide("layer", 26)
    tab.until(TOLD, "Layer 26:")
    tab.page.click("[data-run=layer]")  # runs on to the end by itself
    tab.until(TOLD, "Layer 50:")
    cosines = tab.page.evaluate("document.querySelector('#start-picture .js-plotly-plot').data[0].z.flat()")
    assert min(cosines) > 0.85
    tab.until("() => document.querySelector('[data-run]').textContent === 'Play'")
    follow(tab, "Next")
    step(tab, "dies", 3)
    tab.until(TOLD, "B: gain 1")
    same, other = (tab.trace("start-picture", name)["y"] for name in ("A: gain √2", "B: gain 1"))
    assert same == pytest.approx(other, rel=1e-3), "collapse is not about size"
    tab.fine()


def test_a_norm_saves_it_and_gradients_explode(tab: Tab) -> None:
    follow(tab, f"Next: {EXPERIMENTS['norm'].title}")
    step(tab, "norm", 1)
    tab.until(TOLD, "B: batch norm")
    assert tab.trace("start-picture", "A: no norm")["y"][-1] < 1.5
    assert tab.trace("start-picture", "B: batch norm")["y"][-1] > 6
    follow(tab, "Next")
    step(tab, "norm", 2)
    tab.until(TOLD, "Gradients explode.")
    level, rising = (tab.trace("start-picture", name)["y"] for name in ("A: no norm", "B: batch norm"))
    assert abs(level[0] - level[-1]) < 1, "powers of ten"
    assert rising[0] - rising[-1] > 4
    follow(tab, "Next")
    step(tab, "norm", 3)
    tab.until(TOLD, "B: 50 layers")
    half, whole = (tab.trace("start-picture", name)["y"] for name in ("A: 25 layers", "B: 50 layers"))
    assert whole[0] - whole[-1] == pytest.approx(2 * (half[0] - half[-1]), rel=0.25)
    tab.fine()


def test_a_skip_heals_both(tab: Tab) -> None:
    follow(tab, f"Next: {EXPERIMENTS['skip'].title}")
    step(tab, "skip", 1)
    tab.until(TOLD, "B: batch norm and skip")
    assert tab.trace("start-picture", "B: batch norm and skip")["y"][-1] > 6
    follow(tab, "Next")
    step(tab, "skip", 2)
    tab.until(TOLD, "Gradients keep their size.")
    healed = tab.trace("start-picture", "B: batch norm and skip")["y"]
    assert healed[0] - healed[-1] < 1
    follow(tab, "Next")
    step(tab, "skip", 3)
    tab.until(TOLD, "A: skip alone")
    alone, both = (tab.trace("start-picture", name)["y"] for name in ("A: skip alone", "B: batch norm and skip"))
    assert alone[-1] < 5 < both[-1]
    tab.page.click("#start-more a")
    tab.drawn("depth-rank")
    tab.until("() => document.querySelector('#depth-against').textContent.includes('norm none')")
    assert tab.trace("depth-rank", "A")["y"] == pytest.approx(alone, rel=1e-9), "the depth lab shows the same"
    tab.fine()


def test_pinning_and_unpinning(tab: Tab) -> None:
    tab.page.click("#depth-against button:text-is('Unpin A')")
    tab.until("() => !location.search.includes('against')")
    tab.page.click("#depth-against button:text-is('Pin as A')")
    tab.until("() => document.querySelector('#depth-against').textContent.includes('the same network')")
    tab.slide("depth", 20)
    told = "A (pinned): depth 50. B (these controls): depth 20."
    tab.until("told => document.querySelector('#depth-against').textContent.includes(told)", told)
    tab.fine()


def test_quantities_are_explained_where_they_are_named(tab: Tab) -> None:
    tab.page.focus("#depth-gap-title .term")
    tab.until(
        "text => !document.querySelector('.tip').hidden && document.querySelector('.tip').textContent === text",
        meaning("orthogonality_gap"),
    )
    assert tab.page.locator("#main h3 .term").count() >= 5
    unexplained = "[...document.querySelectorAll('#main [data-control] .name:not(.term)')].map(e => e.textContent)"
    plain = {
        "Activation",
        "Position of the norm",
        "Or any network",
        "Rank",
        "Theory of this width",
    }  # hints explain these
    assert set(tab.page.evaluate(unexplained)) <= plain
    assert all(one.sentence for one in (*METRICS.values(), *THEORY_NUMBERS.values()))


def test_the_clinic_examines_a_network_that_is_written(new_tab: Callable[..., Tab], tmp_path: Path) -> None:
    from isometer.nn import build, save_network
    from isometer.spec import Spec

    tab = new_tab("/clinic")
    tab.page.fill("#control-network", "repeat(dense(16, gain=0.4) > act('relu'), 12) > dense(3)")
    tab.until("() => location.search.includes('network')")
    tab.page.click("button:text-is('Examine it')")
    tab.until("() => document.querySelectorAll('.finding').length > 0")
    assert "vanish" in tab.page.text_content("#clinic-findings").lower()
    network = build(Spec("input(6) > dense(9) > act('tanh') > dense(2)"))
    save_network(network, tmp_path / "mine.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{}")
    tab.page.set_input_files("#clinic-upload input", tmp_path / "mine.safetensors")
    tab.until("() => document.querySelector('#clinic-verdict h3').textContent === 'mine.safetensors'")
    tab.drawn("clinic-curve")
    tab.page.set_input_files("#clinic-upload input", tmp_path / "broken.safetensors")
    tab.until("() => document.querySelector('#clinic-notice').textContent.includes('is not a safetensors file')")
    tab.fine()
