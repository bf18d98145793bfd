"""Tables of figures: rows of old pages, records with keys, and what is of the present code."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from isometer_papers.studies import find
from isometer_papers.studies._records import provenance
from isometer_papers.studies._running import make_job

ROOT = Path(__file__).parents[3]
OLD = """# Figures and tables, scale quick

1 studies: 1 agree.

| study | what | scale | measured (published) | verdict | seconds |
|---|---|---|---|---|---|
| 003/fig-1 | \\|cos\\| over depth | quick | a: 1 (2) | partly | 3 |

## Where they do not agree

- 003/fig-1: too short.

## What was reduced

- 003/fig-1: 8 runs.
"""


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_figures", ROOT / "tools" / "make_figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_of_an_old_page_are_kept(tool: ModuleType) -> None:
    row = tool._rows("quick", OLD)["003/fig-1"]
    assert (row["title"], row["verdict"], row["seconds"]) == ("|cos| over depth", "partly", 3.0)
    assert (row["why"], row["reduced"], row["made"]) == ("too short.", "8 runs", "earlier code")
    assert not tool.current(row)


def test_keys_tell_the_present_code_from_another(tool: ModuleType) -> None:
    study = find("003/fig-1")
    record = {"id": study.id, "scale": "quick", **provenance(make_job(study, study.quick), "2024-05-01")}
    assert tool.current(record)
    assert not tool.current({**record, "key": "0" * 16})
    other = find("003/fig-2b")
    assert not tool.current({**record, "id": other.id})


def test_pages_are_written_from_the_results(tool: ModuleType) -> None:
    from isometer_papers.report.gallery import gallery_markdown

    for scale, page in tool.PAGES.items():
        path = tool.DOCS / "results" / f"{scale}.json"
        if path.is_file():
            records = list(json.loads(path.read_text("utf-8")).values())
            assert (tool.DOCS / page).read_text("utf-8") == gallery_markdown(records)
