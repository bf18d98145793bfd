"""The machinery of studies: scales and settings, verdicts, resuming, shared cells, failures, gallery, command."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray
from matplotlib.figure import Figure
from scipy import stats
from typer.testing import CliRunner

from isometer.cli import app
from isometer.errors import IsometerError
from isometer.run.trial import power
from isometer_papers.cli import reproduce as command
from isometer_papers.report.gallery import gallery_html, gallery_markdown, number, order, read_records, study_html
from isometer_papers.studies import (
    Choice,
    Measured,
    Reading,
    Scale,
    Study,
    all_studies,
    find,
    overridden,
    parse_changes,
    read_again,
)
from isometer_papers.studies import reproduce as make
from isometer_papers.studies._drawing import band, new_figure, plain_logs
from isometer_papers.studies._readings import log_slope, mean_interval, measured, surely_less
from isometer_papers.studies._records import settings_of
from isometer_papers.studies._running import make_job
from isometer_papers.training.loop import augmented
from run_cells import walk

assert command


def draw(result: xarray.Dataset, settings: Mapping[str, Any]) -> Figure:
    figure, axes = new_figure(1)
    axes[0, 0].plot(settings["base"], result["value"].values)
    return figure


def read(result: xarray.Dataset, settings: Mapping[str, Any]) -> Reading:
    grows = bool((np.diff(result["value"].values) > 0).all())
    return Reading({"last": Measured(float(result["value"][-1]))}, {"powers grow": grows})


TOY = Study(
    "000/toy",
    "powers",
    "Powers of larger numbers are larger.",
    {"last": 9.0},
    power,
    Scale({"base": [1, 2, 3]}, {"exponent": 2}, "three bases instead of five"),
    Scale({"base": [1, 2, 3, 4, 5]}, {"exponent": 2}),
    draw,
    read,
    choices={"exponent": Choice("2", "none is given", {"−1": {"exponent": -1}})},
    because={"powers grow": "Negative powers fall."},
)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


def files(folder: Path) -> dict[str, bytes]:
    """Everything a reader sees, without the times."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "cells" not in path.parts and not path.name.startswith("."):
            text = path.read_bytes()
            if path.suffix in (".html", ".md", ".json"):
                text = b"\n".join(line for line in text.splitlines() if b'"seconds"' not in line)
                record = read_records(folder)
                for _, one in record:
                    text = text.replace(f"{one['seconds']:.0f} s".encode(), b"T").replace(
                        f"| {one['seconds']:.0f} |".encode(), b"| T |"
                    )
            found[str(path.relative_to(folder))] = text
    return found


# --- verdicts and numbers ------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        ([True, True], "agree"),
        ([True, False], "partly"),
        ([False, False], "disagree"),
        ([None, None], "unclear"),
        ([True, None], "partly"),
        ([False, None], "disagree"),
    ],
)
def test_verdict_follows_from_statements(seen: list[bool | None], verdict: str) -> None:
    assert Reading({}, {str(i): one for i, one in enumerate(seen)}).verdict == verdict


def test_readings_must_say_something() -> None:
    with pytest.raises(IsometerError, match="no statements"):
        Reading({}, {})
    with pytest.raises(IsometerError, match="'gap' is nan"):
        Reading({"gap": Measured(float("nan"))}, {"x": True})


def test_interval_covers_as_often_as_it_says() -> None:
    """10 000 samples of four normals: 95 % ± 0.9 % (four standard errors)."""
    data = np.random.default_rng(0).standard_normal((4, 10_000))
    mean, half = mean_interval(data)
    assert abs(np.mean(np.abs(mean) < half) - 0.95) < 0.009
    assert measured([2.0]).uncertainty == 0


def test_slopes() -> None:
    widths = np.array([10.0, 20.0, 40.0, 80.0])
    noise = np.random.default_rng(1).standard_normal((50, 4)) * 0.1
    slope = log_slope(widths, widths**-0.5 * np.exp(noise))
    assert abs(slope.value + 0.5) < 2 * slope.uncertainty < 0.1
    assert log_slope(widths, widths**2).value == pytest.approx(2)


def test_comparison_is_wrong_as_often_as_its_level_says() -> None:
    """Two equal samples, 4000 times at level 5 %: between 3.6 and 6.4 % (four standard errors)."""
    rng = np.random.default_rng(2)
    wrong = sum(surely_less(rng.standard_normal(5), rng.standard_normal(5), level=0.05) for _ in range(4000)) / 4000
    assert 0.036 < wrong < 0.064
    with pytest.raises(IsometerError, match="at least 2"):
        surely_less([1.0], [2.0, 3.0])
    assert surely_less([1.0, 1.0], [2.0, 2.0])


# --- settings ------------------------------------------------------------


def test_settings_can_be_changed() -> None:
    scale = overridden(TOY, "quick", {"base": "2:8:2", "exponent": "3"})
    assert (scale.axes["base"], scale.constants["exponent"]) == ([2, 4, 6, 8], 3)
    assert "changed by hand" in scale.reduced
    assert "three bases" in scale.reduced
    assert parse_changes(["a-b=1"]) == {"a_b": "1"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bas": "1"}, "did you mean 'base'"),
        ({"exponent": "two"}, "expected something like 2"),
        ({"zzz": "1"}, "expected one of base, exponent"),
    ],
)
def test_wrong_settings(changes: dict[str, str], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        overridden(TOY, "quick", changes)


def test_wrong_texts() -> None:
    for texts in (["runs"], ["runs="], ["a=1", "a=2"]):
        with pytest.raises(IsometerError, match="--set"):
            parse_changes(texts)
    with pytest.raises(IsometerError, match="no scale 'medium'"):
        TOY.scale("medium")
    with pytest.raises(IsometerError, match="an axis and a constant"):
        Scale({"a": [1]}, {"a": 1})


# --- running ------------------------------------------------------------


def test_what_is_written(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    (made,) = make([TOY], tmp_path, executor=pool)
    record = json.loads((made.folder / "study.json").read_text())
    keys = {"id", "scale", "published", "measured", "uncertainty", "verdict", "seconds", "cells"}
    assert keys <= set(record)
    assert (record["measured"], record["published"], record["verdict"]) == ({"last": 9.0}, {"last": 9.0}, "agree")
    assert {path.name for path in made.folder.iterdir() if not path.name.startswith(".")} == {
        "figure.png",
        "figure.pdf",
        "result.nc",
        "study.json",
        "index.html",
    }
    assert [row["verdict"] for row in record["variants"]] == ["agree", "disagree"]
    assert "Negative powers" in record["variants"][1]["why"]
    with xarray.open_dataset(made.folder / "result.nc") as data:
        assert data["value"].values.tolist() == [1, 4, 9]
    page = (made.folder / "index.html").read_text()
    assert "three bases instead of five" in page
    assert "The verdict depends on it" in page
    assert "000/toy" in (tmp_path / "index.html").read_text()


def test_scales_and_changes(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    (made,) = make([TOY], tmp_path, scale="paper", changes={"exponent": -2}, executor=pool)
    assert made.record["verdict"] == "disagree"
    assert made.record["why"] == "Negative powers fall."
    assert made.record["cells"] == 5
    (medium,) = make([TOY], tmp_path, scale="medium", executor=pool)  # none of its own: quick
    assert medium.record["scale"] == "quick"


def test_cells_are_shared_between_studies(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    twin = replace(TOY, id="001/toy", choices={})
    make([replace(TOY, choices={}), twin], tmp_path, executor=pool)
    assert len(list((tmp_path / "cells" / "cells").glob("*.nc"))) == 3


def test_same_gallery_again_and_after_a_loss(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    make([TOY], tmp_path / "a", executor=pool)
    make([TOY], tmp_path / "b", executor=pool)
    expected = files(tmp_path / "a")
    assert files(tmp_path / "b") == expected
    lost = sorted((tmp_path / "b" / "cells" / "cells").glob("*.nc"))[0]
    lost.write_bytes(lost.read_bytes()[:100])
    make([TOY], tmp_path / "b", executor=pool)
    assert files(tmp_path / "b") == expected


def test_read_again_without_cells(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """The same files come out where nothing has changed, infinite settings included; new words and rules are taken."""
    toy = replace(TOY, quick=Scale({"base": [1, 2, 3]}, {"exponent": 2}, reading={"limit": math.inf}), choices={})
    make([toy], tmp_path, executor=pool)
    before = files(tmp_path)
    shutil.rmtree(tmp_path / "cells")
    (made,) = read_again(tmp_path, [toy])
    assert files(tmp_path) == before
    asked: dict[str, Any] = {}

    def stricter(result: xarray.Dataset, settings: Mapping[str, Any]) -> Reading:
        asked.update(settings)
        return Reading({"last": Measured(float(result["value"][-1]))}, {"powers grow": False})

    later = Scale({"base": [1, 2]}, {"exponent": 3, "newer": 1})
    (made,) = read_again(tmp_path, [replace(toy, title="new words", read=stricter, quick=later)])
    assert asked == {"base": [1, 2, 3], "exponent": 2, "limit": math.inf, "newer": 1}  # as recorded; what is new, new
    assert (made.record["title"], made.record["verdict"]) == ("new words", "disagree")
    assert made.record["why"] == "Negative powers fall."
    assert "newer" not in made.record["settings"]
    assert "new words" in (tmp_path / "index.html").read_text()


def test_what_cannot_be_read_again_is_told_and_kept(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    with pytest.raises(IsometerError, match="no result of any study"):
        read_again(tmp_path)
    (made,) = make([TOY], tmp_path, executor=pool)
    with pytest.raises(IsometerError, match=r"no result of 003/fig-1;"):
        read_again(tmp_path, [TOY, find("003/fig-1")])
    before = files(tmp_path)

    def needs_more(result: xarray.Dataset, settings: Mapping[str, Any]) -> Reading:
        return Reading({"last": Measured(float(result["lacking"][-1]))}, {})

    with pytest.raises(IsometerError, match=r"lacking.*run the study again"):
        read_again(tmp_path, [replace(TOY, read=needs_more)])
    assert files(tmp_path) == before
    (made.folder / "result.nc").write_bytes(b"torn")
    with pytest.raises(IsometerError, match="damaged"):
        read_again(tmp_path, [TOY])
    (made.folder / "study.json").write_text("{")
    with pytest.raises(IsometerError, match="cannot be read"):
        read_again(tmp_path, [TOY])


def test_a_failed_cell_spares_the_other_studies(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    broken = replace(
        TOY, id="000/broken", cell=walk, quick=Scale({"i": [0, 1]}, {"steps": 3, "fail": "on purpose"}), choices={}
    )
    bad, good = make([broken, TOY], tmp_path, executor=pool)
    assert bad.record["verdict"] == "unclear"
    assert "2 of 2 cells failed" in bad.record["why"]
    assert len(bad.failures) == 2
    assert good.record["verdict"] == "agree"


def test_missing_data_are_named(tmp_path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOMETER_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    needs = replace(TOY, data="cifar100", quick=Scale({"base": [1]}, {"exponent": 1, "data": "cifar100"}), choices={})
    (made,) = make([needs], tmp_path / "out", executor=pool)
    assert made.record["verdict"] == "unclear"
    assert "isometer data" in made.record["why"]


def test_wrong_changes_stop_before_any_work(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    with pytest.raises(IsometerError, match="did you mean"):
        make([TOY], tmp_path / "out", changes={"exponen": 1}, executor=pool)
    assert not (tmp_path / "out").exists()
    with pytest.raises(IsometerError, match="no studies"):
        make([], tmp_path)


@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path) -> None:
    """kill -9 in the middle, then --resume: no finished cell is done again, and the gallery is the same."""
    call = [sys.executable, "-m", "isometer.cli", "reproduce"]
    chosen = ["003/fig-2b", "--set", "runs=4", "depth=150", "--workers", "1", "--out"]
    subprocess.run([*call, *chosen, str(tmp_path / "whole")], check=True, capture_output=True)
    process = subprocess.Popen([*call, *chosen, str(tmp_path / "killed")], start_new_session=True)
    cells = tmp_path / "killed" / "cells" / "cells"
    deadline = time.monotonic() + 120
    while len(list(cells.glob("*.nc"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in cells.glob("*.nc")}
    assert before
    assert not (tmp_path / "killed" / "index.html").exists()
    subprocess.run(
        [*call, "--resume", "--out", str(tmp_path / "killed"), "--workers", "1"], check=True, capture_output=True
    )
    assert all(path.stat().st_mtime_ns == moment for path, moment in before.items())
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


# --- every study ------------------------------------------------------------


@pytest.mark.parametrize("study", all_studies(), ids=lambda study: study.id)
def test_every_study_is_declared_fully(study: Study) -> None:
    assert study.published, "what the paper has"
    assert study.shows.endswith(".")
    assert len(study.title) < 100
    for name in ("quick", "medium", "paper"):
        scale = getattr(study, name)
        if scale is None:
            continue
        job = make_job(study, scale)
        assert job.cells
        assert ("data" in settings_of(scale)) == (study.data is not None)
    for choice in study.choices.values():
        for change in choice.instead.values():
            assert make_job(study, overridden(study, "quick", change)).cells
    assert study.seconds[0] <= 240


def test_scope() -> None:
    """Every figure and table of the papers has a study."""
    wanted = json.loads((Path(__file__).parent / "references" / "studies.json").read_text())
    there = {study.id for study in all_studies()}
    assert there == {*wanted["theory"], *wanted["training"]}


def test_studies_that_train_have_four_seeds_three_scales_and_a_device() -> None:
    instant = {"003/table-3", "004/tab-I3"}  # tables
    wanted = json.loads((Path(__file__).parent / "references" / "studies.json").read_text())
    for study in (find(name) for name in wanted["training"] if name not in instant):
        for scale in (study.quick, study.medium, study.paper):
            assert scale is not None, study.id
            assert scale.constants["device"] == "cpu", study.id
        assert len(study.quick.axes["run"]) >= 4, study.id
        assert study.quick.reduced, study.id
        assert study.medium is not None
        assert study.medium.reduced, study.id


# --- gallery ------------------------------------------------------------


def test_numbers_for_people() -> None:
    assert number(0.123456, 0.01) == "0.123 ± 0.010"
    assert number(1234.5, 30) == "1234 ± 30"
    assert number(1e-7, 1e-8) == "1e-07 ± 1e-08"
    assert sorted(["001/fig-10", "001/fig-2.1", "001/fig-C.1", "001/fig-2.10"], key=order)[0] == "001/fig-2.1"


def test_pages_escape_what_they_show(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    hostile = replace(TOY, title="<script>alert(1)</script> a | b", choices={})
    (made,) = make([hostile], tmp_path, executor=pool)
    for page in (study_html(made.record, True), gallery_html([("x", made.record)])):
        assert "<script" not in page
        assert "&lt;script&gt;" in page
    assert "a \\| b" in gallery_markdown([made.record])


def test_damaged_records_are_left_out(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    make([TOY], tmp_path, executor=pool)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "study.json").write_text("{")
    assert [record["id"] for _, record in read_records(tmp_path)] == ["000/toy"]


def test_drawing() -> None:
    figure, axes = new_figure(1)
    band(axes[0, 0], [1, 2], [[1.0, 10.0], [1.0, 1000.0]], label="runs", log=True)
    assert axes[0, 0].lines[0].get_ydata()[1] == pytest.approx(100)
    axes[0, 0].set(yscale="log", ylim=(0.5, 200))
    plain_logs(axes[0, 0].yaxis)
    figure.canvas.draw()
    assert "2" in [text.get_text() for text in axes[0, 0].get_yticklabels()]


# --- command ------------------------------------------------------------

RUNNER = CliRunner()


def test_list() -> None:
    rows = json.loads(RUNNER.invoke(app, ["reproduce", "list", "--json"]).stdout)
    assert {"id", "title", "published", "data", "seconds", "reduced"} <= set(rows[0])
    assert len(rows) == len(all_studies())
    assert "003/fig-2b" in RUNNER.invoke(app, ["reproduce", "list", "--paper", "003"]).stdout


def test_bad_requests(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "g")]
    for arguments, message in (
        ([], "give either IDs"),
        (["003/fig-1", "--all"], "give either IDs"),
        (["003/fig1"], "did you mean '003/fig-1'"),
        (["--resume"], "nothing to resume"),
        (["003/fig-1", "--set", "widht=3"], "did you mean 'width'"),
        (["--paper", "009"], "unknown paper"),
        (["--read-again"], "no result of any study"),
        (["--read-again", "003/fig-1", "--set", "width=3"], "computes nothing"),
    ):
        result = RUNNER.invoke(app, ["reproduce", *arguments, *out])
        assert message in str(result.exception)
    assert find("003/fig-1").scale("paper")


def test_the_comparison_of_runs_is_welchs_test() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = rng.normal(0, 1, 5), rng.normal(1, 2, 7)
        for level in (0.5, 0.05, 0.01):
            expected = stats.ttest_ind(a, b, equal_var=False, alternative="less").pvalue < level
            assert surely_less(a, b, level=level) == expected
    assert surely_less([1.0, 1.0], [2.0, 2.001])
    assert not surely_less([1.0, 1.0], [1.0, 1.0])


def test_single_channel_images_are_augmented_into_plain_memory() -> None:
    """Strides that `contiguous()` leaves alone make convolutions write out of bounds."""
    images = augmented(torch.rand(4, 1, 8, 8), np.random.default_rng(0))
    assert images.stride() == (64, 64, 8, 1)
