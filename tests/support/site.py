"""The pages of the documentation: where they are, which of them need the companion, and how their examples are run."""

from __future__ import annotations

import doctest
import importlib
import itertools
import pkgutil
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support import ROOT

DOCS = ROOT / "docs"
GENERATED_TREES = ("_build", "ext", "_static")
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in GENERATED_TREES)
TUTORIALS = sorted(path for path in (DOCS / "tutorials").glob("*.py") if path.name != "my_cells.py")
ILLUSTRATIVE = "<!-- illustrative"
CHECKER = doctest.OutputChecker()
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
COMPANION = re.compile(r"^(?:from|import) isometer(?:_papers|\.claims|\.studies)\b", flags=re.M)


def needs_companion(path: Path) -> bool:
    """Whether the code of a page or a tutorial imports the research companion."""
    return COMPANION.search(path.read_text(encoding="utf-8")) is not None


def with_python(companion: bool) -> list[str]:
    """Names of the pages whose Python examples do, or do not, need the companion."""
    there = [path for path in PAGES if "```python\n" in path.read_text(encoding="utf-8")]
    return [str(path.relative_to(DOCS)) for path in there if needs_companion(path) is companion]


def extension(name: str) -> ModuleType:
    """A module of docs/ext."""
    sys.path.insert(0, str(DOCS / "ext"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS / "ext"))


def blocks(text: str, language: str) -> Iterator[tuple[str, str]]:
    """Fenced blocks of a language, each with the line before it."""
    for found in re.finditer(rf"([^\n]*)\n*^```{language}\n(.*?)^```$", text, flags=re.M | re.S):
        yield found[2], found[1]


def check_tutorial(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a script, in an empty folder, it prints what it says and leaves nothing behind."""
    said = extension("tutorials").printed(path.read_text(encoding="utf-8"))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(path.parent)
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert said
    assert CHECKER.check_output(said, printed, FLAGS), f"expected\n{said}\ngot\n{printed}"
    assert list(folder.iterdir()) == [], "a tutorial leaves no files behind"


def run_examples(name: str) -> None:
    """In order, in one namespace, as a reader would type them. A block with a line `...` for code left out, or with
    `<!-- illustrative` before it, is compiled only."""
    import torch

    torch.manual_seed(0)
    space: dict[str, Any] = {"__name__": "example"}
    for source, before in blocks((DOCS / name).read_text(encoding="utf-8"), "python"):
        code = compile(source, name, "exec")
        if not before.startswith(ILLUSTRATIVE) and not re.search(r"^\s*\.\.\.$", source, flags=re.M):
            exec(code, space)


def public_packages(*roots: str) -> list[str]:
    """Packages with a list of public names; parts of a room that begin with an underscore are its own affair."""
    found = [*roots]
    walks = (pkgutil.walk_packages(importlib.import_module(root).__path__, f"{root}.") for root in roots)
    for module in itertools.chain.from_iterable(walks):
        private = any(part.startswith("_") for part in module.name.split("."))
        inner = re.match(r"isometer(_papers)?\.((claims|studies)\.paper_|(cli|explore|report)\.)", module.name)
        if module.ispkg and not private and not inner and hasattr(importlib.import_module(module.name), "__all__"):
            found.append(module.name)
    return found
