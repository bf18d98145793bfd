"""The explorer in a real browser, as a person uses it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")

from isometer.explore import LIMITS
from isometer.explore._server import Running
from support.doctor_reports import HOSTILE, hostile_report, measured_report
from support.explorer import PATIENCE, PHONE, Tab, fits_a_phone, seconds_until, slowdown

SIMULATED = """layers => { const g = document.querySelector('#depth-gap .js-plotly-plot');
    const t = g && g.data.find(t => t.name === 'simulated'); return !!t && t.x.length === layers; }"""
ATTACK = "__import__('os').system('touch MARK')"


@pytest.fixture(scope="module")
def activation(new_tab: Callable[..., Tab]) -> Tab:
    tab = new_tab("/activation?activations=relu,tanh")
    tab.drawn(
        "activation-kernel", "activation-function", "activation-hermite", "activation-distance", "activation-phase"
    )
    return tab


@pytest.fixture(scope="module")
def depth(new_tab: Callable[..., Tab]) -> Tab:
    tab = new_tab("/depth")
    tab.drawn("depth-gap", "depth-rank", "depth-isometry", "depth-gradient", "depth-gram")
    tab.until("() => !document.querySelector('#depth-told').textContent.includes('Computing')")
    return tab


# --- the activation lab -----------------------------------------------------------------------------------------------


def test_activation_lab_shows_what_theory_says(activation: Tab) -> None:
    rho = np.array(activation.trace("activation-kernel", "relu")["x"])
    kappa = (np.sqrt(1 - rho**2) + rho * (np.pi - np.arccos(rho))) / np.pi
    np.testing.assert_allclose(activation.trace("activation-kernel", "relu")["y"], kappa, atol=2e-8)
    table = activation.page.text_content("#activation-table")
    assert "slow collapse" in table
    assert "orthogonal" in table
    assert "Ordered" in activation.page.text_content(
        "#activation-point"
    ) or "unbounded" in activation.page.text_content("#activation-point")
    assert "explain(activation(name)" in activation.page.text_content("#activation-python")
    activation.fine()


def test_cobweb_starts_where_the_slider_says_and_ends_at_the_fixed_point(activation: Tab) -> None:
    activation.slide("rho", -0.5)
    activation.slide("layers", 200)
    end = "() => { const t = document.querySelector('#activation-kernel .js-plotly-plot').data.find("
    end += "t => t.name === 'path of tanh'); return t.x.length === 401 && t.x[0] === -0.5; }"
    activation.until(end)
    path = activation.trace("activation-kernel", "path of tanh")
    assert abs(path["x"][-1]) < 1e-4
    relu = activation.trace("activation-kernel", "path of relu")
    assert relu["y"][-1] > 0.99
    activation.until("() => location.search.includes('rho=-0.5') && location.search.includes('layers=200')")
    activation.until("() => document.querySelector('#activation-distance .js-plotly-plot').data[0].x.length === 201")


@pytest.mark.slow
def test_dragging_in_the_kernel_map_chooses_the_start(activation: Tab) -> None:
    page = activation.page
    page.eval_on_selector("#activation-kernel", "e => e.scrollIntoView({block: 'center'})")
    box = page.locator("#activation-kernel .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    wanted = -1.04 + 2.08 * 0.75
    assert abs(float(page.input_value("#control-rho")) - wanted) < 0.03
    activation.until("value => Math.abs(new URLSearchParams(location.search).get('rho') - value) < 0.03", wanted)
    activation.fine()


def test_typed_expressions_and_mistakes(activation: Tab) -> None:
    page = activation.page
    page.fill("#control-activations", "relu, x*sigmoid(x), relo")
    activation.until("() => document.querySelector('#activation-notice').textContent.includes('did you mean')")
    assert "relo: unknown activation or name 'relo'; did you mean 'relu'?" in page.text_content("#activation-notice")
    assert activation.trace("activation-kernel", "x*sigmoid(x)")["y"][-1] == pytest.approx(1.0)
    page.click('[aria-label="Remove x*sigmoid(x)"]')
    activation.until("() => document.querySelectorAll('.chip').length === 1")
    page.select_option("#add-activation", "gelu")
    activation.until("() => document.querySelectorAll('.chip').length === 2")
    page.fill("#control-activations", "relu, tanh")
    activation.until("() => !document.querySelector('#activation-notice').textContent")
    activation.fine()


def test_hostile_expression_does_nothing(activation: Tab, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    page = activation.page
    for attack in (ATTACK.replace("MARK", str(mark)), *HOSTILE[:3]):
        page.fill("#control-activations", attack)
        activation.until(
            "start => document.querySelector('#activation-notice').textContent.includes(start)",
            attack.split(",")[0][:20],
        )
    assert not mark.exists()
    assert page.locator("#main img, #main iframe, #main script").count() == 0
    page.fill("#control-activations", "relu, tanh")
    activation.until("() => document.querySelectorAll('.chip').length === 2")
    activation.fine()


def test_downloads(activation: Tab, tmp_path: Path) -> None:
    page = activation.page
    for label, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download(timeout=PATIENCE) as waiting:
            page.click(f"[data-graph=activation-kernel]:text('{label}')")
        waiting.value.save_as(tmp_path / label)
        assert (tmp_path / label).read_bytes().startswith(start)
    with page.expect_download(timeout=PATIENCE) as waiting:
        page.click("[data-csv='activation/path']")
    waiting.value.save_as(tmp_path / "path.csv")
    head, first = (tmp_path / "path.csv").read_text().splitlines()[:2]
    assert head == "layer,cosine of relu,distance of relu,cosine of tanh,distance of tanh"
    assert float(first.split(",")[1]) == float(page.input_value("#control-rho"))


@pytest.mark.slow
def test_back_and_forward(activation: Tab) -> None:
    page = activation.page
    time.sleep(1.6)  # a change of its own, not part of the last burst
    page.select_option("#control-norm", "layer")
    activation.until("() => location.search.includes('norm=layer')")
    time.sleep(1.6)
    page.select_option("#control-position", "post")
    activation.until("() => location.search.includes('position=post')")
    page.go_back()
    activation.until("() => (document.querySelector('#control-position') || {}).value === 'pre'")
    assert page.input_value("#control-norm") == "layer"
    page.go_forward()
    activation.until("() => (document.querySelector('#control-position') || {}).value === 'post'")
    page.reload()
    page.wait_for_selector(".lab", timeout=PATIENCE)
    assert page.input_value("#control-norm") == "layer"
    activation.drawn("activation-kernel")
    activation.fine()


# --- the depth lab ----------------------------------------------------------------------------------------------------


def test_depth_lab_lays_theory_over_simulation(depth: Tab) -> None:
    mean = depth.trace("depth-rank", "simulated")
    theory = depth.trace("depth-rank", "theory, ∞ width")
    assert len(mean["x"]) == len(theory["x"]) == 51
    assert mean["y"][0] == pytest.approx(theory["y"][0]), "the input is the same"
    assert mean["y"][-1] < 1.5 < 8 < mean["y"][0], "a deep ReLU network collapses"
    depth.fine()


def test_layer_slider_moves_the_gram_matrix(depth: Tab) -> None:
    z = "() => document.querySelector('#depth-gram .js-plotly-plot').data[0].z"
    depth.slide("layer", 0)
    depth.until("() => document.querySelector('#depth-gram .js-plotly-plot').layout.title.text === 'layer 0'")
    first = np.abs(np.array(depth.page.evaluate(z)) - np.eye(10)).max()
    depth.slide("layer", 50)
    depth.until("() => document.querySelector('#depth-gram .js-plotly-plot').layout.title.text === 'layer 50'")
    last = np.array(depth.page.evaluate(z)).min()
    assert first < 0.5 < 0.9 < last
    depth.until("() => location.search === '?layer=50'")
    depth.fine()


@pytest.mark.slow
def test_moving_a_slider_cancels_what_is_stale(depth: Tab, explorer: Running) -> None:
    depth.page.select_option("#control-norm", "batch")
    depth.until("() => location.search.includes('norm=batch')")
    before = explorer.desk.counts["cancelled"]
    for width in range(101, 106):
        depth.slide("width", width)
        time.sleep(0.4)  # longer than the pause after which values are sent
    depth.until("() => location.search.includes('width=105')")
    depth.page.select_option("#control-norm", "none")
    depth.until("() => !document.querySelector('#depth-told').textContent.includes('Computing')")
    assert explorer.desk.counts["cancelled"] > before
    assert depth.trace("depth-gap", "simulated")["y"][50] > 0.8
    depth.fine()


def test_limits_hold_and_are_told(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab("/depth?width=999999&depth=3&runs=2&weights=asymmetric&batch=4")
    tab.drawn("depth-gram")
    assert tab.page.input_value("#control-width") == str(int(LIMITS["width"].high))
    tab.until("() => document.querySelector('#depth-notice').textContent.includes('no theory covers')")
    assert "width 999999 is outside 2 … 500; 500 is used" in tab.page.text_content("#depth-notice")
    tab.fine()


@pytest.mark.slow
def test_two_tabs_do_not_disturb_each_other(new_tab: Callable[..., Tab], depth: Tab) -> None:
    other = new_tab("/depth?depth=7&width=30&batch=5&runs=3")
    other.drawn("depth-gap", "depth-gram")
    depth.slide("depth", 9)
    other.slide("runs", 4)
    other.until(SIMULATED, 8)
    depth.until(SIMULATED, 10)
    assert other.page.input_value("#control-depth") == "7"
    assert "runs=4" in other.page.evaluate("location.search")
    assert "runs" not in depth.page.evaluate("location.search")
    other.fine()
    depth.fine()


# --- the clinic -----------------------------------------------------------------------------------------------------


def test_clinic_loads_browses_and_compares(new_tab: Callable[..., Tab], tmp_path: Path) -> None:
    report = measured_report()
    (tmp_path / "before.json").write_text(json.dumps(report))
    (tmp_path / "after.json").write_text(json.dumps({**report, "findings": [], "healthy": True, "model": "repaired"}))
    tab = new_tab("/clinic")
    assert "isometer doctor" in tab.page.text_content("#main")
    tab.page.set_input_files("#clinic-upload input", tmp_path / "before.json")
    tab.until("() => document.querySelectorAll('.finding').length === 2")
    tab.drawn("clinic-curve")
    drawn = tab.trace("clinic-curve", report["model"])
    np.testing.assert_allclose(drawn["y"], report["metrics"]["mean_abs_cosine"])
    layer = report["findings"][1]["layers"][-1]
    tab.page.click(f".finding.severe button:text('layer {layer}')")
    tab.until("text => document.querySelector('#clinic-layer h3').textContent === text", f"Layer {layer}")
    tab.page.set_input_files("#clinic-upload input", [tmp_path / "after.json", tmp_path / "before.json"])
    tab.until("() => document.querySelector('#clinic-compared').textContent.includes('rank-collapse (severe) is gone')")
    tab.fine()


@pytest.mark.slow
def test_clinic_shows_hostile_and_broken_files_as_text(new_tab: Callable[..., Tab], tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "hostile.json").write_text(json.dumps(hostile_report()))
    tab = new_tab("/clinic")
    tab.page.set_input_files("#clinic-upload input", tmp_path / "broken.json")
    tab.until("() => document.querySelector('#clinic-notice').textContent.includes('broken.json: this is not JSON')")
    tab.page.set_input_files("#clinic-upload input", tmp_path / "hostile.json")
    tab.until("() => document.querySelectorAll('.finding').length === 3")
    tab.drawn("clinic-curve")
    assert HOSTILE[0] in tab.page.text_content("#clinic-verdict")
    assert tab.page.locator("#main img, #main iframe, #main script, #main [onerror], #main [onload]").count() == 0
    assert "report=" in tab.page.evaluate("location.search")
    tab.fine()


# --- for everyone -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_keyboard_alone(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab("/activation?activations=relu")
    page = tab.page
    tab.drawn("activation-kernel")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        if seen[-1] == "control-rho":
            break
    order = [one for one in seen if one.startswith("control-")]
    assert order == [
        "control-activations",
        "control-norm",
        "control-position",
        "control-gain",
        "control-residual",
        "control-shown",
        "control-rho",
    ]
    before = float(page.input_value("#control-rho"))
    page.keyboard.press("ArrowRight")
    tab.until("value => Math.abs(new URLSearchParams(location.search).get('rho') - value) < 1e-9", before + 0.01)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('input:not([type=hidden]):not([aria-hidden]), select, button, a')]
            .filter(e => !(e.labels && e.labels.length) && !e.ariaLabel && !e.textContent.trim())
            .map(e => e.outerHTML)"""
    )
    assert unnamed == []
    tab.fine()


@pytest.mark.parametrize(
    "path",
    [
        "/activation?activations=relu",
        "/depth?depth=5&width=20",
        "/clinic?report=patient:mlp-relu-5&other=patient:mlp-relu-default-10",
        "/start",
        "/start?experiment=dies&step=2",
        "/start?experiment=skip&step=2",
        "/transformer?blocks=2",
    ],
)
@pytest.mark.slow
def test_phone(path: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(path, **PHONE)
    if "other=" in path:
        tab.until("() => document.querySelector('#clinic-compared table')")
    fits_a_phone(tab)


@pytest.mark.slow
def test_dark_follows_the_system_and_the_button(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab("/activation?activations=relu", color_scheme="dark")
    tab.drawn("activation-function")
    paper = "colour => document.querySelector('#activation-function .js-plotly-plot').layout.paper_bgcolor === colour"
    tab.until(paper, "#191d24")
    tab.page.click("#theme-toggle")
    tab.until(paper, "#ffffff")
    tab.page.reload()
    tab.drawn("activation-function")
    tab.until(paper, "#ffffff")
    tab.fine()


@pytest.mark.slow
def test_reactions_take_less_than_two_seconds(activation: Tab, depth: Tab) -> None:
    """Two seconds of an idle machine: where others compute, as much longer as a plain loop takes here and now."""
    allowed = 2.0 * slowdown()
    activation.go("/activation")
    activation.drawn("activation-kernel", "activation-phase")
    for key, value in (("rho", 0.11), ("sigma_w", 2.2)):
        took = seconds_until(
            activation,
            lambda key=key, value=value: activation.slide(key, value),  # type: ignore[misc]
            "([k, v]) => Number(new URLSearchParams(location.search).get(k)) === v",
            [key, value],
        )
        assert took < allowed, (key, took, allowed)
    depth.go("/depth")
    depth.until(SIMULATED, 51)
    took = seconds_until(depth, lambda: depth.slide("depth", 40), SIMULATED, 41)
    assert took < allowed, ("depth", took, allowed)


def test_no_tab_complained(activation: Tab, depth: Tab) -> None:
    activation.fine()
    depth.fine()
    assert not re.search("localhost|127.0.0.1", " ".join(activation.trouble + depth.trouble))
