"""The machinery of studies: scales and settings, verdicts, resuming, shared cells, failures and drawing."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray
from scipy import stats

from isometer.errors import IsometerError
from isometer_papers.studies import Measured, Reading, Scale, Study, find, overridden, parse_changes, read_again
from isometer_papers.studies import reproduce as make
from isometer_papers.studies._comparisons import surely_less
from isometer_papers.studies._drawing import band, new_figure, plain_logs
from isometer_papers.studies._readings import log_slope, mean_interval, measured
from isometer_papers.training.loop import augmented
from support.run_cells import walk

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


def test_settings_can_be_changed(toy: Study) -> None:
    scale = overridden(toy, "quick", {"base": "2:8:2", "exponent": "3"})
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
def test_wrong_settings(changes: dict[str, str], message: str, toy: Study) -> None:
    with pytest.raises(IsometerError, match=message):
        overridden(toy, "quick", changes)


def test_wrong_texts(toy: Study) -> None:
    for texts in (["runs"], ["runs="], ["a=1", "a=2"]):
        with pytest.raises(IsometerError, match="--set"):
            parse_changes(texts)
    with pytest.raises(IsometerError, match="no scale 'medium'"):
        toy.scale("medium")
    with pytest.raises(IsometerError, match="an axis and a constant"):
        Scale({"a": [1]}, {"a": 1})


# --- running ------------------------------------------------------------


def test_what_is_written(tmp_path: Path, pool: ThreadPoolExecutor, toy: Study) -> None:
    (made,) = make([toy], tmp_path, executor=pool)
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


def test_scales_and_changes(tmp_path: Path, pool: ThreadPoolExecutor, toy: Study) -> None:
    (made,) = make([toy], tmp_path, scale="paper", changes={"exponent": -2}, executor=pool)
    assert made.record["verdict"] == "disagree"
    assert made.record["why"] == "Negative powers fall."
    assert made.record["cells"] == 5
    (medium,) = make([toy], tmp_path, scale="medium", executor=pool)  # none of its own: quick
    assert medium.record["scale"] == "quick"


def test_cells_are_shared_between_studies(tmp_path: Path, pool: ThreadPoolExecutor, toy: Study) -> None:
    twin = replace(toy, id="001/toy", choices={})
    make([replace(toy, choices={}), twin], tmp_path, executor=pool)
    assert len(list((tmp_path / "cells" / "cells").glob("*.nc"))) == 3


def test_same_gallery_again_and_after_a_loss(
    tmp_path: Path, pool: ThreadPoolExecutor, toy: Study, files: Callable[[Path], dict[str, bytes]]
) -> None:
    make([toy], tmp_path / "a", executor=pool)
    make([toy], tmp_path / "b", executor=pool)
    expected = files(tmp_path / "a")
    assert files(tmp_path / "b") == expected
    lost = sorted((tmp_path / "b" / "cells" / "cells").glob("*.nc"))[0]
    lost.write_bytes(lost.read_bytes()[:100])
    make([toy], tmp_path / "b", executor=pool)
    assert files(tmp_path / "b") == expected


def test_read_again_without_cells(
    tmp_path: Path, pool: ThreadPoolExecutor, toy: Study, files: Callable[[Path], dict[str, bytes]]
) -> None:
    """The same files come out where nothing has changed, infinite settings included; new words and rules are taken."""
    toy = replace(toy, quick=Scale({"base": [1, 2, 3]}, {"exponent": 2}, reading={"limit": math.inf}), choices={})
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


def test_what_cannot_be_read_again_is_told_and_kept(
    tmp_path: Path, pool: ThreadPoolExecutor, toy: Study, files: Callable[[Path], dict[str, bytes]]
) -> None:
    with pytest.raises(IsometerError, match="no result of any study"):
        read_again(tmp_path)
    (made,) = make([toy], tmp_path, executor=pool)
    with pytest.raises(IsometerError, match=r"no result of 003/fig-1;"):
        read_again(tmp_path, [toy, find("003/fig-1")])
    before = files(tmp_path)

    def needs_more(result: xarray.Dataset, settings: Mapping[str, Any]) -> Reading:
        return Reading({"last": Measured(float(result["lacking"][-1]))}, {})

    with pytest.raises(IsometerError, match=r"lacking.*run the study again"):
        read_again(tmp_path, [replace(toy, read=needs_more)])
    assert files(tmp_path) == before
    (made.folder / "result.nc").write_bytes(b"torn")
    with pytest.raises(IsometerError, match="damaged"):
        read_again(tmp_path, [toy])
    (made.folder / "study.json").write_text("{")
    with pytest.raises(IsometerError, match=r"is not JSON .* — run the study again"):
        read_again(tmp_path, [toy])


def test_a_failed_cell_spares_the_other_studies(tmp_path: Path, pool: ThreadPoolExecutor, toy: Study) -> None:
    broken = replace(
        toy, id="000/broken", cell=walk, quick=Scale({"i": [0, 1]}, {"steps": 3, "fail": "on purpose"}), choices={}
    )
    bad, good = make([broken, toy], tmp_path, executor=pool)
    assert bad.record["verdict"] == "unclear"
    assert "2 of 2 cells failed" in bad.record["why"]
    assert len(bad.failures) == 2
    assert good.record["verdict"] == "agree"


def test_missing_data_are_named(
    tmp_path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, toy: Study
) -> None:
    monkeypatch.setenv("ISOMETER_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    needs = replace(toy, data="cifar100", quick=Scale({"base": [1]}, {"exponent": 1, "data": "cifar100"}), choices={})
    (made,) = make([needs], tmp_path / "out", executor=pool)
    assert made.record["verdict"] == "not run"
    assert "isometer data" in made.record["why"]


def test_wrong_changes_stop_before_any_work(tmp_path: Path, pool: ThreadPoolExecutor, toy: Study) -> None:
    with pytest.raises(IsometerError, match="did you mean"):
        make([toy], tmp_path / "out", changes={"exponen": 1}, executor=pool)
    assert not (tmp_path / "out").exists()
    with pytest.raises(IsometerError, match="no studies"):
        make([], tmp_path)


# --- gallery ------------------------------------------------------------


def test_drawing() -> None:
    figure, axes = new_figure(1)
    band(axes[0, 0], [1, 2], [[1.0, 10.0], [1.0, 1000.0]], label="runs", log=True)
    assert axes[0, 0].lines[0].get_ydata()[1] == pytest.approx(100)
    axes[0, 0].set(yscale="log", ylim=(0.5, 200))
    plain_logs(axes[0, 0].yaxis)
    figure.canvas.draw()
    assert "2" in [text.get_text() for text in axes[0, 0].get_yticklabels()]


# --- command ------------------------------------------------------------


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
