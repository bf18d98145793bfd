"""The style sheet: no text that people read has a turn that it forbids, and the tool would see one."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import lru_cache
from types import ModuleType
from typing import Any

import pytest

from support import ROOT


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("list_strings", ROOT / "tools" / "list_strings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["list_strings"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


TOOL = tool()


@lru_cache
def texts(area: str) -> list[Any]:
    """All texts of an area."""
    return list(TOOL.texts([area]))


def rows() -> list[list[str]]:
    """The table of turns: the turn, an example of it, and what to write."""
    text = (ROOT / "docs" / "style.md").read_text(encoding="utf-8")
    table = text[text.index("<!-- turns -->") : text.index("<!-- end -->")].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("| ")][1:]


def test_the_sheet_and_the_tool_name_the_same_turns() -> None:
    assert [row[0] for row in rows()] == list(TOOL.TURNS)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_turn_is_seen_where_it_is_and_not_where_it_is_not(row: list[str]) -> None:
    turn, before, after = row
    assert turn in TOOL.Text("docs", "x", 1, before).turns, before
    assert TOOL.Text("docs", "x", 1, after).turns == [], after


@pytest.mark.parametrize("area", list(TOOL.AREAS))
def test_no_text_has_a_forbidden_turn(area: str) -> None:
    found = texts(area)
    assert len(found) > 15, "texts are found at all"
    flagged = [f"{one.path}:{one.line}: {one.turns}" for one in found if one.turns]
    assert flagged == [], "see docs/style.md"


def test_texts_of_every_kind_are_read() -> None:
    page = ROOT / "docs" / "why.md"
    assert any("A deep network can be broken" in one.words for one in TOOL.paragraphs("docs", page))
    said = " ".join(one.words for one in texts("doctor"))
    assert "Start the biases at zero." in said
    assert "needs" in said
    assert any(re.search("is not known|expected", one.words) for one in texts("errors"))
    assert any("Diagnose whether a model trains" in one.words for one in texts("docstrings"))
    assert any("Does a PyTorch model train?" in one.words for one in texts("help"))
