"""The doctor's report as a page, as a fragment for notebooks and on a terminal."""

from __future__ import annotations

import base64
import errno
import hashlib
import io
import json
import math
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from isometer.doctor import probe
from isometer.errors import IsometerError
from isometer.metrics import METRICS
from isometer.metrics._catalogue import describe
from isometer.report import doctor_page, print_report, save_page
from isometer.report._citations import PAPERS
from isometer.report._doctor_fragments import notebook_html, setting, sparkline
from isometer.report._doctor_metrics import columns, evidence_rows, layer_runs, reading, where
from isometer.report._offline_page import embedded
from support.doctor_reports import HOSTILE, finding, hostile_report, long_report, measured_report

VOID = {"meta", "input", "br", "img", "link", "hr", "base"}


class Outline(HTMLParser):
    """Elements, attributes, texts and scripts of a document, by the parser of the standard library."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def data_of(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Outline(page).scripts[0])
    return found


def printed(report: dict[str, Any], width: int = 80, **options: Any) -> str:
    file = io.StringIO()
    print_report(Console(width=width, file=file), report, **options)
    return file.getvalue()


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return measured_report()


def test_page_is_closed_to_the_world(measured: dict[str, Any]) -> None:
    page = Outline(doctor_page(measured))
    assert page.open == []
    policies = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    policy = dict(part.strip().split(" ", 1) for part in str(policies[0]).split(";"))
    assert policy["default-src"] == policy["connect-src"] == policy["form-action"] == policy["base-uri"] == "'none'"
    hashes = {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in page.scripts[1:]}
    assert set(policy["script-src"].split()) == {f"'sha256-{value}'" for value in hashes}
    assert page.count("script") == 3
    links = {paper.link for paper in PAPERS.values()}
    outside = [a for _, a in page.elements if "src" in a or "srcset" in a]
    outside += [a for _, a in page.elements if not str(a.get("href", "#")).startswith("#") and a["href"] not in links]
    assert outside == [], "nothing is loaded, and links lead to papers only"
    assert page.count("link") == page.count("iframe") == page.count("img") == page.count("base") == 0


def test_page_tells_verdict_findings_and_prescriptions(measured: dict[str, Any]) -> None:
    page = Outline(doctor_page(measured, title="my title"))
    text = " ".join(page.texts)
    for expected in (
        "my title",
        "No stress test",
        "1 severe, 1 moderate findings",
        "The samples of the batch become nearly parallel, so that later layers see one input.",
        "First step: Replace ReLU by its normalised form.",
        "On a Mathematical Understanding of Deep Neural Networks",
        "severe: rank collapse",
        "within its limits",
        "97",
        "4.2°",
        "∞",
    ):
        assert expected in text
    assert text.index("Rank collapse") < text.index("Wrong gain"), "severe findings come first"
    advice = text[text.index("What to change") : text.index("Evidence")]
    assert advice.index("Replace ReLU by") < advice.index("Put batch norm before") < advice.index("Draw the weights as")
    assert advice.count("Replace ReLU by its normalised form.") == 1, "two findings recommend it"
    links = [int(str(a["data-layer"])) for tag, a in page.elements if tag == "a" and "data-layer" in a]
    assert links[-2:] == measured["findings"][0]["layers"]
    assert set(links) <= {*measured["findings"][0]["layers"], *measured["findings"][1]["layers"]}
    clean = " ".join(Outline(doctor_page({**measured, "healthy": True, "findings": []})).texts)
    assert "nothing found" in clean
    assert "The probe found nothing that harms training at this depth." in clean


def test_numbers_survive_in_the_units_shown(measured: dict[str, Any]) -> None:
    data = data_of(doctor_page(measured))
    metrics = {metric["name"]: metric for metric in data["metrics"]}
    for name, factor in (("rms", 1.0), ("gradient_log_norm", 1 / math.log(10)), ("dead_fraction", 100.0)):
        given_values = [math.nan if v is None else v * factor for v in measured["metrics"][name]]
        kept = [math.nan if v is None else v for v in metrics[name]["values"]]
        np.testing.assert_allclose(kept, given_values, rtol=6e-6)
    gains = np.array(measured["metrics"]["weight_gain"], dtype=float)
    kept = np.array(metrics["gain_ratio"]["values"], dtype=float)
    np.testing.assert_allclose(kept, gains / math.sqrt(2), rtol=6e-6)
    predicted = data["prediction"]["metrics"]["output_gradient_log_norm"]["mean"]
    wanted = measured["prediction"]["metrics"]["output_gradient_log_norm"]["mean"]
    np.testing.assert_allclose(predicted, np.array(wanted) / math.log(10), rtol=6e-6)
    assert "token_stable_rank" not in metrics, "what is defined nowhere is not offered"


def test_infinities_and_undefined_numbers() -> None:
    report = long_report(5)
    report["metrics"]["rms"] = ["inf", "-inf", None, 0.0, float("nan")]
    data = data_of(doctor_page(report))
    values = next(metric["values"] for metric in data["metrics"] if metric["name"] == "rms")
    assert values == ["inf", "-inf", None, 0.0, None]


def test_cosines_of_gram_matrices() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6, 4)) * np.array([1e-8, 1.0, 1e8, 3.0, 0.0, 2.0])[:, None]
    report = long_report(3)
    report["grams"] = {"layers": [2], "matrices": [(rows @ rows.T / 4).tolist()]}
    grams = data_of(doctor_page(report))["grams"]
    packed = iter(grams["cosines"][0])
    for i in range(6):
        for j in range(i, 6):
            entry = next(packed)
            if 4 in (i, j):
                assert entry == grams["missing"], "a zero vector has no direction"
            else:
                cosine = rows[i] @ rows[j] / np.linalg.norm(rows[i]) / np.linalg.norm(rows[j])
                assert entry / grams["steps"] == pytest.approx(cosine, abs=0.5001e-4)


def test_long_pages_stay_small() -> None:
    report = long_report(1000)
    matrix = (np.eye(64) * 0.123456789 + 0.87654321).tolist()
    report["grams"] = {"layers": list(range(1000)), "matrices": [matrix] * 1000}
    page = doctor_page(report)
    assert len(page.encode()) < 8e6
    kept = data_of(page)["grams"]
    assert kept["stored"] == 1000
    assert 50 < len(kept["layers"]) < 200
    assert kept["layers"][0] == 0
    assert kept["layers"][-1] == 999
    steps = np.diff(kept["layers"])
    assert steps.max() - steps.min() <= 1


@pytest.mark.parametrize("draw", [doctor_page, notebook_html])
def test_hostile_texts_stay_texts(draw: Any) -> None:
    page = Outline(draw(hostile_report()))
    assert page.open == []
    assert page.count("img") == page.count("iframe") == 0
    assert page.count("script") == (3 if draw is doctor_page else 0)
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]
    assert not [a for _, a in page.elements if "javascript:" in str(a.get("href"))]
    text = " ".join(page.texts)
    assert HOSTILE[0] in text
    assert HOSTILE[1] in text
    if draw is doctor_page:
        raw = draw(hostile_report())
        assert not set("\u2028\u2029\x00\x1b") & set(raw.split("<script>")[0])
        assert json.loads(page.scripts[0])["name"][: len(HOSTILE)] == list(HOSTILE)


@given(st.text())
def test_embedded_json_cannot_leave_its_element(text: str) -> None:
    inside = embedded({text: [text]})
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside) == {text: [text]}


def test_reports_that_cannot_be_drawn_are_refused(measured: dict[str, Any]) -> None:
    for draw in (doctor_page, notebook_html, printed):
        with pytest.raises(IsometerError, match="the report is of schema 2; expected 1"):
            draw({**measured, "schema": 2})
        with pytest.raises(IsometerError, match=r"metric 'rms' has 2 numbers for 81 layers; expected one per layer"):
            draw({**measured, "metrics": {"rms": [1.0, 2.0]}})


def test_saving_replaces_or_leaves_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    report = long_report(3)
    assert save_page(report, path) == path
    first = path.read_bytes()
    assert first.decode() == doctor_page(report)
    save_page(report, path, title="second")
    assert path.read_bytes() != first
    second = path.read_bytes()

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(IsometerError, match=r"cannot write .*No space left on device — name a file"):
        save_page(report, path)
    monkeypatch.undo()
    assert path.read_bytes() == second
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"], "no parts stay behind"


def test_saving_where_one_cannot(tmp_path: Path) -> None:
    report = long_report(3)
    with pytest.raises(IsometerError, match=r"folder .*nowhere.* does not exist — create it"):
        save_page(report, tmp_path / "nowhere" / "report.html")
    with pytest.raises(IsometerError, match=r"expected the name of a file for the report, got the folder"):
        save_page(report, tmp_path)
    unwritable = Path("/proc/self")
    if unwritable.is_dir():  # not even root writes there
        with pytest.raises(IsometerError, match=r"cannot write '/proc/self/report.html': .*writable folder"):
            save_page(report, unwritable / "report.html")


def test_saved_page_has_ordinary_permissions(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    page = save_page(long_report(1), tmp_path / "page.html")
    assert page.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_notebook_fragment_is_small_and_complete(measured: dict[str, Any]) -> None:
    fragment = notebook_html(measured)
    outline = Outline(fragment)
    assert outline.open == []
    assert outline.count("svg") == 3
    assert len(fragment) < 12_000
    assert len(notebook_html(long_report(5000))) < 16_000
    for expected in ("No stress test", "Rank collapse", "Replace ReLU by its normalised form."):
        assert expected in " ".join(outline.texts)


@given(st.lists(st.floats(), max_size=300), st.booleans())
def test_small_curves_stay_in_their_box(values: list[float], log: bool) -> None:
    drawn = sparkline(values, log=log, width=100, height=40)
    line = re.search(r'points="([^"]*)"', drawn)
    usable = [v for v in values if math.isfinite(v) and not (log and v <= 0)]
    assert (line is not None) == bool(usable)
    if line is not None:
        points = [tuple(map(float, pair.split(","))) for pair in line[1].split()]
        assert len(points) <= 201
        assert all(3 <= x <= 97 and 3 <= y <= 37 for x, y in points)
        assert points == sorted(points, key=lambda point: point[0])


def test_small_curve_is_to_scale() -> None:
    drawn = sparkline([1.0, 10.0, 1000.0, 1e4], log=True, width=106, height=46)
    line = re.search(r'points="([^"]*)"', drawn)
    assert line is not None
    assert line[1] == "3.0,43.0 36.3,33.0 69.7,13.0 103.0,3.0"


def test_every_metric_of_the_probe_has_a_name() -> None:
    found = probe(torch.nn.Linear(3, 3), torch.randn(4, 3), spectra=True)
    assert set(found.values) <= set(METRICS)
    assert describe("brand_new").group == "Other"
    assert list(columns(long_report(3)))[-1] == "wave 21"


@given(st.lists(st.integers(0, 200), min_size=1, unique=True))
def test_runs_hold_their_layers(layers: list[int]) -> None:
    runs = layer_runs(layers)
    assert all(any(a <= layer <= b for a, b in runs) for layer in layers)
    assert {a for a, _ in runs} | {b for _, b in runs} <= set(layers)
    assert all(later[0] - earlier[1] > 3 for earlier, later in pairwise(runs))


def test_wording() -> None:
    assert where(list(range(3, 9))) == "layers 3–8"
    assert where([1, 10, 20, 30, 40]) == "layers 1, 10, 20, 30, … (5 of them)"
    assert reading(-350.25, "log₁₀") == "5.62e−351"
    assert reading(-math.inf, "log₁₀") == "0"
    assert reading(math.inf, "decades") == "∞ decades"
    rows = dict(evidence_rows({"gradient_log_norm": 0.0, "n": 4, "ok": True, "gone": None, "limits": {"low": "inf"}}))
    assert rows == {"‖∂loss/∂weights‖": "1", "n": "4", "ok": "yes", "limits": "low: ∞"}
    assert dict(evidence_rows({"many": list(range(20))}))["many"].endswith("7, … (20 in all)")
    assert setting(long_report(1)) == "train mode · 32 samples · standard Gaussian · 1 layer · depth 0"


def test_terminal_tells_it_in_a_few_lines(measured: dict[str, Any]) -> None:
    text = printed(measured)
    lines = text.splitlines()
    assert lines[0] == "No stress test · a ReLU network of depth 40 · 1 severe, 1 moderate findings"
    assert max(map(len, lines)) <= 80
    assert "1 SEVERE rank-collapse · layers 21–79 (30 of them) · 20 … 78" in text
    assert "1. Replace ReLU by its normalised form. (wrong-gain, rank-collapse)" in text
    assert "▼ worse: mean |cos| at the output" in text
    assert "… 57 more layers: --layers" in text
    table = [line.split() for line in lines if re.match(r" *\d+ +\S+ +(input|Linear|ReLU) ", line)]
    assert [int(row[0]) for row in table] == [*range(12), *range(69, 81)]
    first = dict(zip(("layer", "name", "op", "depth", "rms", "cos", "rank", "grad", "gain"), table[1], strict=False))
    assert float(first["rms"]) == pytest.approx(measured["metrics"]["rms"][1], rel=5e-3)
    assert float(first["grad"]) == pytest.approx(measured["metrics"]["gradient_log_norm"][1] / math.log(10), abs=6e-3)
    assert float(first["gain"]) == pytest.approx(measured["metrics"]["weight_gain"][1] / math.sqrt(2), abs=6e-3)
    assert table[-2][-1] == "1", "the flag of the collapse"


@pytest.mark.parametrize(
    ("layers", "limit", "rows"), [(1, 24, 1), (2, 24, 2), (1000, 24, 24), (1000, 1, 1), (60, None, 60)]
)
def test_terminal_at_any_length(layers: int, limit: int | None, rows: int) -> None:
    text = printed(long_report(layers), width=100, layers=limit)
    assert len(re.findall(r"^ *\d+ +\S+ +(?:input|Linear|ReLU) ", text, flags=re.MULTILINE)) == rows
    assert max(map(len, text.splitlines())) <= 100
    assert (f"… {layers - rows} more layers: --layers {layers} shows all" in text) == (rows < layers)


def test_findings_about_tokens_show_tokens() -> None:
    report = long_report(30)
    report["metrics"]["token_mean_abs_cosine"] = [0.25 + i / 100 for i in range(30)]
    assert "tokens" not in printed(report)
    report["findings"] = [finding("rank-collapse", "severe", [5], of="tokens", factor_per_layer=0.5)]
    text = printed(report)
    assert re.search(r"^ *7 .* 0\.320 ", text, flags=re.MULTILINE)
    assert "rms per layer ×0.5" in text
    assert data_of(doctor_page(report))["findings"][0]["metric"] == "token_mean_abs_cosine"


def test_comparison_and_notes(measured: dict[str, Any]) -> None:
    text = " ".join(Outline(doctor_page(measured)).texts)
    for expected in ("Against before.json", "gradient-vanishing is gone", "gradient at the input", "1 → 0"):
        assert expected in text
    assert "gradient at the input: 1 → 0" in printed(measured)
    nothing = {**measured, "comparison": {"baseline": "b", "better": [], "worse": [], "unchanged": []}}
    assert "Nothing changed." in doctor_page(nothing)
    assert "= no change" in printed(nothing)
    silent = {**measured, "prediction": None, "no_prediction": "no chain of three layers"}
    assert data_of(doctor_page(silent))["no_prediction"] == "no chain of three layers"


def test_terminal_without_layers() -> None:
    report = long_report(30)
    assert "layer  name" not in printed(report, layers=0)
    bare = {**report, "layers": [], "metrics": {}, "findings": [finding("dead-units", "severe", [])]}
    assert "the whole model" in printed(bare)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_terminal_with_hostile_texts(width: int) -> None:
    text = printed(hostile_report(), width=width)
    assert not set("\x1b\x00\u2028\u2029") & set(text)
    assert max(map(len, text.splitlines())) <= width
    if width == 200:
        assert "[bold red]markup[/] %{y} ${title} {{x}}" in text
        assert "</script><img src=x onerror=alert(1)>" in text


def test_reports_are_drawn_without_torch() -> None:
    program = (
        "import sys; import isometer.report._doctor_page, isometer.report._doctor_terminal;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
