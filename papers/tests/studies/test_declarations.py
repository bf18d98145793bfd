"""Every study of the papers is there and declared fully."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isometer_papers.studies import Study, all_studies, find, overridden
from isometer_papers.studies._records import settings_of
from isometer_papers.studies._running import make_job

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
    wanted = json.loads((Path(__file__).parents[1] / "references" / "studies.json").read_text())
    there = {study.id for study in all_studies()}
    assert there == {*wanted["theory"], *wanted["training"]}


def test_studies_that_train_have_four_seeds_three_scales_and_a_device() -> None:
    instant = {"003/table-3", "004/tab-I3"}  # tables
    wanted = json.loads((Path(__file__).parents[1] / "references" / "studies.json").read_text())
    for study in (find(name) for name in wanted["training"] if name not in instant):
        for scale in (study.quick, study.medium, study.paper):
            assert scale is not None, study.id
            assert scale.constants["device"] == "cpu", study.id
        assert len(study.quick.axes["run"]) >= 4, study.id
        assert study.quick.reduced, study.id
        assert study.medium is not None
        assert study.medium.reduced, study.id
