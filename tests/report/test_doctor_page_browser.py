"""The doctor's page in a real browser, from disk, as a person uses it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isometer.doctor import PRESCRIPTIONS
from isometer.report import save_page
from support.browser import listen
from support.doctor_reports import HOSTILE, hostile_report, long_report, measured_report, outlook, stressed

TRACES = "document.getElementById('curve').data.map(t => t.name || '')"
TRACE = """name => { const t = document.getElementById('curve').data.find(t => t.name === name);
    return {x: [...t.x], y: [...t.y], layers: t.customdata.map(c => c[0]), symbols: t.marker && t.marker.symbol}; }"""


@dataclass
class Opened:
    """A page with everything it complained about or asked for."""

    page: Any
    path: Path
    seconds: float = 0.0
    trouble: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def trace(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(TRACE, name)
        return found

    def marked(self) -> list[float]:
        shapes = self.page.evaluate("document.getElementById('curve').layout.shapes")
        return [shape["x0"] for shape in shapes if shape.get("name") == "marked layer"]

    def rows(self) -> list[int]:
        return [
            int(layer)
            for layer in self.page.eval_on_selector_all("#table tbody tr", "r => r.map(t => t.dataset.layer)")
        ]

    def column(self, name: str) -> list[str]:
        at = self.page.eval_on_selector_all("#table th button", "b => b.map(e => e.dataset.sort)").index(name)
        cells: list[str] = self.page.eval_on_selector_all(
            "#table tbody tr", f"r => r.map(t => t.cells[{at}].textContent)"
        )
        return cells


@pytest.fixture(scope="module")
def show(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Opened]:
    folder = tmp_path_factory.mktemp("pages")

    def opened(report: dict[str, Any], name: str, **options: Any) -> Opened:
        path = folder / f"{name}.html"
        if not path.exists():
            save_page(report, path)
        page = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}).new_page()
        made = Opened(page, path)
        listen(page, made.trouble, made.requests)
        start = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_function(
            "document.querySelector('#table tbody') && document.querySelector('#curve').childElementCount"
        )
        made.seconds = time.perf_counter() - start
        return made

    return opened


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return measured_report()


@pytest.fixture(scope="module")
def measured(show: Callable[..., Opened], report: dict[str, Any]) -> Opened:
    return show(report, "measured")


@pytest.fixture(scope="module")
def long(show: Callable[..., Opened]) -> Opened:
    return show(long_report(1000), "long")


def test_opens_from_disk_alone(measured: Opened, report: dict[str, Any]) -> None:
    assert measured.trouble == []
    assert measured.requests == [measured.path.as_uri()]
    page = measured.page
    assert {"measured", "predicted", "95 % band"} <= set(page.evaluate(TRACES))
    assert page.input_value("#metric") == "mean_abs_cosine", "the curve of the worst finding comes first"
    assert page.input_value("#kind") == "activation", "one kind of site, that of the prediction"
    kinds = [row["kind"] for row in report["layers"]]
    drawn = measured.trace("measured")
    wanted = [v for v, kind in zip(report["metrics"]["mean_abs_cosine"], kinds, strict=True) if kind == "activation"]
    np.testing.assert_allclose(drawn["y"], wanted, rtol=6e-6)
    limits = page.evaluate("document.getElementById('curve').layout.shapes.filter(s => /limit/.test(s.name))")
    assert [line["y0"] for line in limits] == pytest.approx([0.975, 0.995])
    guilty = report["findings"][1]["layers"][0]
    assert measured.marked() == [guilty]
    assert page.text_content("#inspector-title") == f"Layer {guilty}"
    page.select_option("#kind", "")
    np.testing.assert_allclose(measured.trace("measured")["y"], report["metrics"]["mean_abs_cosine"], rtol=6e-6)
    assert page.locator("#curve .scatterlayer .trace").count() >= 4
    assert page.locator("#gram-first .heatmaplayer image, #gram-first .hm image").count() == 1
    titles = page.eval_on_selector_all("#curve .modebar-btn", "b => b.map(e => e.dataset.title)")
    assert titles
    assert not [title for title in titles if re.search("share|cloud|studio|plotly", title, re.IGNORECASE)]


def test_choosing_a_quantity_changes_the_curve(measured: Opened, report: dict[str, Any]) -> None:
    page = measured.page
    page.select_option("#metric", "output_gradient_log_norm")
    wanted = np.array(report["metrics"]["output_gradient_log_norm"]) / math.log(10)
    np.testing.assert_allclose(measured.trace("measured")["y"], wanted, rtol=1e-5)
    page.click("[data-vital=rms]")
    np.testing.assert_allclose(measured.trace("measured")["y"], report["metrics"]["rms"], rtol=1e-5)
    assert page.evaluate("document.getElementById('curve').layout.yaxis.type") == "log"
    assert "infinite width" in page.evaluate(TRACES)
    assert "leaves the predicted band: layers 10–14 (3 of them)" in page.text_content("#about")
    page.uncheck("#log")
    assert page.evaluate("document.getElementById('curve').layout.yaxis.type") == "linear"
    page.select_option("#metric", "weight_gain")
    assert "principled gain" in page.evaluate(TRACES)
    groups = page.eval_on_selector_all("#metric optgroup", "g => g.map(e => e.label)")
    assert groups == ["Signal", "Scale", "Gradients", "Weights", "Units"]


def test_axis_and_operations(measured: Opened, report: dict[str, Any]) -> None:
    page = measured.page
    page.select_option("#metric", "rms")
    page.select_option("#kind", "weight")
    page.check("input[name=axis][value=depth]")
    rows = [row for row in report["layers"] if row["kind"] == "weight"]
    drawn = measured.trace("measured")
    assert drawn["x"] == [row["depth"] for row in rows]
    assert drawn["layers"] == [row["layer"] for row in rows]
    page.select_option("#kind", "")
    page.check("input[name=axis][value=layer]")
    assert measured.trace("measured")["x"] == list(range(len(report["layers"])))


def test_finding_leads_to_its_layer(measured: Opened, report: dict[str, Any]) -> None:
    page = measured.page
    layers = report["findings"][1]["layers"]
    assert page.locator("#finding-0 a[href='#advice-0']").count() == 1
    page.click(f"#finding-0 a[data-layer='{layers[-1]}']")
    assert page.input_value("#metric") == "mean_abs_cosine"
    assert measured.marked() == [layers[-1]]
    assert page.evaluate("document.getElementById('curve').data.find(t => t.name === 'marked').x") == [layers[-1]]
    assert page.get_attribute("#table tr.marked", "data-layer") == str(layers[-1])
    assert page.text_content("#inspector-title") == f"Layer {layers[-1]}"
    assert "Rank collapse" in page.text_content("#inspected")
    shades = page.evaluate(
        "document.getElementById('curve').layout.shapes.filter(s => s.type === 'path').map(s => s.path)"
    )
    assert len(shades) == 1
    assert shades[0].startswith(f"M{layers[0] - 0.5},0")
    page.click("#previous")
    assert measured.marked() == [layers[-1] - 1]
    page.click("#finding-0 [data-finding-table]")
    assert measured.rows() == layers
    assert page.text_content("#table-status") == f"{len(layers)} of 81 layers match."
    page.select_option("#table-finding", "")


def test_table_is_searched_sorted_and_paged(measured: Opened, report: dict[str, Any]) -> None:
    page = measured.page
    page.fill("#search", "")  # the first page again
    page.select_option("#table-kind", "weight")
    page.select_option("#table-kind", "")
    assert measured.rows() == list(range(50))
    page.click("#page-next")
    assert measured.rows() == list(range(50, 81))
    page.fill("#search", "relu activation")
    assert measured.rows() == [row["layer"] for row in report["layers"] if row["op"] == "ReLU"]
    page.fill("#search", "no such layer")
    assert measured.rows() == []
    page.fill("#search", "")
    page.select_option("#table-kind", "weight")
    page.select_option("#columns", "Weights")
    page.click("[data-sort=weight_gain]")
    page.click("[data-sort=weight_gain]")
    gains = {i: v for i, v in enumerate(report["metrics"]["weight_gain"]) if v is not None}
    assert measured.rows() == sorted(gains, key=lambda i: (-float(f"{gains[i]:.6g}"), i))
    assert page.get_attribute("th:has([data-sort=weight_gain])", "aria-sort") == "descending"
    page.select_option("#table-kind", "")
    cells = measured.column("weight_gain")
    assert "–" not in cells[:40]
    assert set(cells[40:]) == {"–"}, "undefined values come last"
    page.select_option("#columns", "overview")
    page.click("[data-sort=layer]")


def test_table_by_keyboard(measured: Opened) -> None:
    page = measured.page
    page.focus("#table [data-row='3']")
    page.keyboard.press("Enter")
    assert measured.marked() == [3]
    assert page.evaluate("document.activeElement.dataset.row") == "3", "the focus stays where it was"
    page.focus("#gram")
    before = page.text_content("#gram-chosen-caption")
    page.keyboard.press("ArrowLeft")
    assert page.text_content("#gram-chosen-caption") != before


def test_hovering_names_the_layer(measured: Opened, report: dict[str, Any]) -> None:
    page = measured.page
    page.select_option("#metric", "rms")
    page.evaluate("document.getElementById('curves').scrollIntoView({behavior: 'instant'})")
    box = page.locator("#curve .nsewdrag").first.bounding_box()
    for step in range(2):  # the first move only enters
        page.mouse.move(box["x"] + box["width"] / 2 + step, box["y"] + box["height"] / 2)
    page.wait_for_selector("#curve .hovertext")
    texts = page.eval_on_selector_all("#curve .hovertext", "t => t.map(e => e.textContent)")
    found = re.search(r"layer (\d+) · ", " ".join(texts))
    assert found, texts
    row = report["layers"][int(found[1])]
    value = re.escape(f"{report['metrics']['rms'][row['layer']]:.4g}")
    wanted = rf"layer {row['layer']} · depth {row['depth']}{row['name']}{row['op']} · {row['kind']}measured: {value}"
    assert re.search(wanted, " ".join(texts)), texts


def test_heat_maps_show_cosines(measured: Opened, report: dict[str, Any]) -> None:
    page = measured.page
    for at in (0, 5, len(report["grams"]["layers"]) - 1):
        page.evaluate(
            "at => { const s = document.getElementById('gram'); s.value = at; s.dispatchEvent(new Event('input')); }",
            at,
        )
        z = np.array(page.evaluate("document.getElementById('gram-chosen').data[0].z"), dtype=float)
        gram = np.array(report["grams"]["matrices"][at])
        lengths = np.sqrt(np.diag(gram))
        np.testing.assert_allclose(z, gram / np.outer(lengths, lengths), atol=5.1e-5)
        assert f"Layer {report['grams']['layers'][at]} " in page.text_content("#gram-chosen-caption")


def test_nothing_went_wrong_on_the_way(measured: Opened) -> None:
    assert measured.trouble == []
    assert measured.requests == [measured.path.as_uri()]


def test_policy_forbids_scripts_and_requests(measured: Opened) -> None:
    """Last on this page: the violations it provokes are errors on the console."""
    found = measured.page.evaluate(
        """async () => {
            const broken = [];
            document.addEventListener('securitypolicyviolation', event => broken.push(event.effectiveDirective));
            const script = document.createElement('script');
            script.textContent = 'window.ran = true';
            document.body.append(script);
            const image = new Image();
            image.src = 'http://127.0.0.1:9/x.png';
            document.body.append(image);
            await fetch('http://127.0.0.1:9/').catch(() => null);
            await new Promise(done => setTimeout(done, 100));
            return [window.ran === true, broken.sort()];
        }"""
    )
    assert found[0] is False
    assert {"connect-src", "img-src", "script-src-elem"} <= set(found[1])


def test_hostile_names_do_nothing(show: Callable[..., Opened]) -> None:
    opened = show(hostile_report(), "hostile")
    page = opened.page
    page.click("a[data-layer]")
    page.select_option("#columns", "all")
    page.select_option("#metric", HOSTILE[0])
    page.select_option("#kind", HOSTILE[2])
    page.select_option("#kind", "")
    page.fill("#search", "</script>")
    assert opened.rows() == [i for i in range(60) if HOSTILE[0] in (HOSTILE[i % 7], HOSTILE[i % 2])]
    page.fill("#search", "")
    for layer in range(7):
        page.click(f"#table [data-row='{layer}']")
        assert page.text_content("#inspected .path") == HOSTILE[layer]
    page.evaluate("document.getElementById('curves').scrollIntoView({behavior: 'instant'})")
    box = page.locator("#curve .nsewdrag").first.bounding_box()
    for share in np.linspace(0.05, 0.95, 8):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
        page.wait_for_timeout(60)
    texts = page.eval_on_selector_all("#curve .hovertext", "t => t.map(e => e.textContent)")
    assert any(re.search("alert|markup|escape|aaa", text) for text in texts)
    assert page.locator("img, iframe, object, embed").count() == 0
    assert page.locator("script").count() == 3
    assert page.locator("[onerror], [onload], [href^='javascript'], #curve a[*|href]").count() == 0
    assert opened.trouble == []
    assert opened.requests == [opened.path.as_uri()]


def test_a_thousand_layers_stay_usable(long: Opened) -> None:
    page = long.page
    assert long.seconds < 15  # a few on an idle machine
    assert long.path.stat().st_size < 8e6
    assert len(long.rows()) == 50
    assert page.evaluate("document.querySelectorAll('*').length") < 5000
    for action in (
        lambda: page.select_option("#metric", "rms"),
        lambda: page.select_option("#metric", "isometry_gap"),
        lambda: page.click("[data-sort=rms]"),
        lambda: page.fill("#search", "blocks.77"),
        lambda: page.click("#finding-1 a[data-layer]"),
    ):
        start = time.perf_counter()
        action()
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert time.perf_counter() - start < 5
    page.fill("#search", "")
    page.click("#finding-1 a[data-layer='999']")
    assert 999 in long.rows(), "the table turns to the page of the marked layer"
    assert long.trouble == []


def test_infinite_values_sit_at_the_edge(long: Opened) -> None:
    long.page.select_option("#metric", "isometry_gap")
    long.page.select_option("#kind", "")
    edge = long.trace("off the scale")
    assert edge["layers"] == list(range(501, 1000))
    assert set(edge["symbols"]) == {"triangle-up"}
    assert max(long.trace("measured")["layers"]) == 500


@pytest.mark.slow
def test_dark_on_a_phone(show: Callable[..., Opened], report: dict[str, Any]) -> None:
    options = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
    opened = show(report, "measured", **options)
    page = opened.page
    dark = _luminance(_background(page))
    assert dark < 0.05
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert _luminance(_ink(page)) > 0.6, "axes are drawn in the colour of the text"
    page.emulate_media(color_scheme="light")
    page.wait_for_timeout(50)
    assert _luminance(_background(page)) > 0.8
    assert _luminance(_ink(page)) < 0.1, "the curves follow when the scheme changes"
    page.emulate_media(media="print")
    assert not page.is_visible("#curves .controls")
    assert page.is_visible("#finding-0")
    assert opened.trouble == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(measured: Opened, scheme: str) -> None:
    """Ratios of at least 4.5 as the accessibility guidelines ask of small text."""
    page = measured.page
    page.emulate_media(color_scheme=scheme)
    pairs = [
        (ink, paper)
        for ink in ("text", "soft", "accent", "severe", "moderate", "good")
        for paper in ("page", "surface")
    ]
    pairs += [(name, f"{name}-soft") for name in ("severe", "moderate", "good")] + [("text", "sunk")]
    for ink, paper in pairs:
        first, second = sorted((_luminance(_variable(page, name)) for name in (ink, paper)), reverse=True)
        assert (first + 0.05) / (second + 0.05) >= 4.5, (ink, paper)


def test_code_is_copied(show: Callable[..., Opened], report: dict[str, Any]) -> None:
    from playwright.sync_api import expect

    listed = [PRESCRIPTIONS["zero-bias"].to_dict()]
    opened = show({**report, "findings": [{**report["findings"][1], "prescriptions": listed}]}, "with-code")
    page = opened.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("header [data-copy]")
    expect(page.locator("header [data-copy]")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == (
        "from isometer.doctor.treatment import zero_biases_\n\nzero_biases_(model)"
    )
    assert opened.trouble == []


@pytest.mark.parametrize("layers", [0, 1])
@pytest.mark.slow
def test_almost_nothing_to_show(show: Callable[..., Opened], layers: int) -> None:
    small = long_report(1)
    if layers == 0:
        small.update(layers=[], metrics={}, grams=None)
    opened = show(small, f"layers-{layers}")
    assert opened.trouble == []
    assert opened.rows() == list(range(layers))
    assert "No stress test" in opened.page.text_content(".state")


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 390, "height": 844}}, {"color_scheme": "dark"}])
def test_short_trainings(show: Callable[..., Opened], options: dict[str, Any]) -> None:
    report = stressed(long_report(30), True, adam=outlook(fresh=0.7), sgd=outlook("sick", fresh=0.0))
    opened = show(report, "stressed", **options)
    page = opened.page
    assert opened.trouble == []
    assert "Trains with adam, does not train with sgd" in page.text_content(".state")
    assert page.locator(".runs figure").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing sticks out"
    assert not page.is_visible("#training details li")
    page.click("#training summary")
    assert page.is_visible("#training details li")


def _variable(page: Any, name: str) -> list[float]:
    text = page.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")
    return [int(text[at : at + 2], 16) for at in (1, 3, 5)]


def _background(page: Any) -> list[float]:
    return _channels(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def _ink(page: Any) -> list[float]:
    return _channels(page.evaluate("getComputedStyle(document.querySelector('#curve .xtick text')).fill"))


def _channels(text: str) -> list[float]:
    return [float(value) for value in re.findall(r"[\d.]+", text)[:3]]


def _luminance(channels: list[float]) -> float:
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))
