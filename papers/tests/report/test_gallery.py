"""The gallery of studies: numbers for people, hostile titles, damaged records."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from isometer_papers.report.gallery import (
    damaged_records,
    gallery_html,
    gallery_markdown,
    number,
    order,
    read_records,
    study_html,
)
from isometer_papers.studies import Study, read_again
from isometer_papers.studies import reproduce as make

# --- gallery ------------------------------------------------------------


def test_numbers_for_people() -> None:
    assert number(0.123456, 0.01) == "0.123 ± 0.010"
    assert number(1234.5, 30) == "1234 ± 30"
    assert number(1e-7, 1e-8) == "1e-07 ± 1e-08"
    assert sorted(["001/fig-10", "001/fig-2.1", "001/fig-C.1", "001/fig-2.10"], key=order)[0] == "001/fig-2.1"


def test_pages_escape_what_they_show(tmp_path: Path, pool: ThreadPoolExecutor, toy: Study) -> None:
    hostile = replace(toy, title="<script>alert(1)</script> a | b", choices={})
    (made,) = make([hostile], tmp_path, executor=pool)
    for page in (study_html(made.record, True), gallery_html([("x", made.record)])):
        assert "<script" not in page
        assert "&lt;script&gt;" in page
    assert "a \\| b" in gallery_markdown([made.record])


def test_damaged_records_are_left_out_and_named(tmp_path: Path, pool: ThreadPoolExecutor, toy: Study) -> None:
    make([toy], tmp_path, executor=pool)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "study.json").write_text("{")
    assert [record["id"] for _, record in read_records(tmp_path)] == ["000/toy"]
    assert list(damaged_records(tmp_path)) == ["torn"]
    assert "is not JSON" in damaged_records(tmp_path)["torn"]
    for page in ("index.html", "summary.md"):
        assert "damaged" not in (tmp_path / page).read_text()
    read_again(tmp_path, [toy])
    for page in ("index.html", "summary.md"):
        assert "0 unclear, 0 not run. Left out, since the record is damaged: torn." in (tmp_path / page).read_text()
