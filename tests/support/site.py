"""The two documentation sites: their pages, how examples are run, and what the reference must have."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support import ROOT

INSTRUMENT = ROOT / "docs"
COMPANION = ROOT / "papers" / "docs"
NO_PAGES = ("_build", "ext", "_static")
ILLUSTRATIVE = "<!-- illustrative"
CHECKER = doctest.OutputChecker()
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def pages(site: Path) -> list[Path]:
    """The Markdown pages of a site."""
    return sorted(path for path in site.rglob("*.md") if path.relative_to(site).parts[0] not in NO_PAGES)


def tutorials(site: Path) -> list[Path]:
    """The scripts of a site that are pages."""
    return sorted(path for path in (site / "tutorials").glob("*.py") if path.name != "my_cells.py")


def with_python(site: Path) -> list[Path]:
    """The pages that have Python examples."""
    return [path for path in pages(site) if "```python\n" in path.read_text(encoding="utf-8")]


def extension(name: str) -> ModuleType:
    """A module of docs/ext."""
    pytest.importorskip("sphinx", reason="needs sphinx: pip install 'isometer[docs]'")
    sys.path.insert(0, str(INSTRUMENT / "ext"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(INSTRUMENT / "ext"))


def blocks(text: str, language: str) -> Iterator[tuple[str, str]]:
    """Fenced blocks of a language, each with the line before it."""
    for found in re.finditer(rf"([^\n]*)\n*^```{language}\n(.*?)^```$", text, flags=re.M | re.S):
        yield found[2], found[1]


# --- examples --------------------------------------------------------------------------------------------------------


def check_tutorial(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a script, in an empty folder, it prints what it says, asserts something and leaves nothing behind."""
    script = path.read_text(encoding="utf-8")
    assert script.startswith("# # "), "a title first"
    assert re.search(r"^assert ", script, flags=re.M)
    assert max(map(len, script.splitlines())) <= 140
    said = extension("tutorials").printed(script)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(path.parent)
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert said
    assert CHECKER.check_output(said, printed, FLAGS), f"expected\n{said}\ngot\n{printed}"
    assert list(folder.iterdir()) == [], "a tutorial leaves no files behind"


def run_examples(path: Path) -> None:
    """In order, in one namespace, as a reader would type them. A block with a line `...` for code left out, or with
    `<!-- illustrative` before it, is compiled only."""
    import torch

    torch.manual_seed(0)
    space: dict[str, Any] = {"__name__": "example"}
    for source, before in blocks(path.read_text(encoding="utf-8"), "python"):
        code = compile(source, path.name, "exec")
        if not before.startswith(ILLUSTRATIVE) and not re.search(r"^\s*\.\.\.$", source, flags=re.M):
            exec(code, space)


# --- links -----------------------------------------------------------------------------------------------------------


CPU_BUILDS = "https://download.pytorch.org/whl/cpu"


def addresses() -> set[str]:
    """The outside addresses that pages may name: the papers, and PyTorch's CPU builds. Nothing is loaded from them."""
    table = ROOT / "papers" / "src" / "isometer_papers" / "papers.toml"
    known = tomllib.loads(table.read_text(encoding="utf-8"))
    return {paper["link"] for paper in (*known["paper"], *known["studied"])} | {CPU_BUILDS}


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"^#{1,3} (.+)$", path.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(path: Path) -> None:
    """Links lead to files of the repository, their anchors exist, and outside addresses are those of papers."""
    text = path.read_text(encoding="utf-8")
    for address in re.findall(r"https?://[^\s)`'\"]+", text):
        assert address in addresses(), f"{path.name}: {address}"
    if path.suffix == ".py":
        text = extension("tutorials").markdown(text)
    text = re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", text, flags=re.S))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        target, _, anchor = link.partition("#")
        if link in addresses():
            continue
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{path.name}: {link}"
        assert file.is_relative_to(ROOT), f"{path.name}: {link} leaves the repository"
        assert not anchor or anchor in anchors(file), f"{path.name}: {link}"


def unreachable(site: Path) -> list[Path]:
    """Pages that no table of contents has."""
    reached = {site / "index.md"}
    for page in pages(site):
        for toctree, _ in blocks(page.read_text(encoding="utf-8"), r"\{toctree\}"):
            for line in toctree.splitlines():
                entry = re.sub(r".*<(.+)>", r"\1", line.strip())
                if entry and not entry.startswith(":"):
                    found = [*page.parent.glob(f"{entry}.md"), *page.parent.glob(f"{entry}.py")]
                    assert found, f"{page.name}: {entry}"
                    reached |= set(found)
    return sorted({*pages(site), *tutorials(site)} - reached)


# --- reference -------------------------------------------------------------------------------------------------------


def public_packages(root: str) -> list[str]:
    """Packages with a list of public names; those inside commands, pages, claims and studies serve their own."""
    found = []
    for module in pkgutil.walk_packages(importlib.import_module(root).__path__, f"{root}."):
        private = any(part.startswith("_") for part in module.name.split("."))
        inner = re.match(rf"{root}\.(claims|studies|cli|explore|report|run)\.", module.name)
        if module.ispkg and not private and not inner and hasattr(importlib.import_module(module.name), "__all__"):
            found.append(module.name)
    return found


def listed_in_pages(site: Path) -> set[str]:
    """What the pages of the reference document; a name of two packages is documented under the shorter path."""
    exports = extension("exports")
    found: set[str] = set()
    for page in (site / "reference").glob("*.md"):
        for name in re.findall(r"\.\. automodule:: (\S+)", page.read_text(encoding="utf-8")):
            module = importlib.import_module(name)
            own = [one for one, value in vars(module).items() if getattr(value, "__module__", "") == name]
            names = [one for one in getattr(module, "__all__", own) if not one.startswith("_")]
            found |= {f"{name}.{one}" for one in names if not exports.documented_above(name, one)}
    return found


def missing_in_reference(site: Path, root: str) -> list[str]:
    """Public names that no page documents."""
    exports, listed = extension("exports"), listed_in_pages(site)
    return [
        f"{package}.{name}"
        for package in public_packages(root)
        for name in importlib.import_module(package).__all__
        if f"{package}.{name}" not in listed
        and f"{exports.documented_above(package, name)}.{name}" not in listed
        and not name.startswith("__")
    ]


def undocumented(root: str) -> list[str]:
    """Public names, and public methods of classes, without a docstring; constants without a string after them."""
    bare: list[str] = []
    for package in public_packages(root):
        module = importlib.import_module(package)
        bare += [] if module.__doc__ else [package]
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                words = (value.__doc__ or "").strip()
                if not words or words.startswith(f"{name}("):  # what a dataclass says by itself
                    bare.append(f"{package}.{name}")
                if inspect.isclass(value):
                    bare += [f"{package}.{name}.{one}" for one in undocumented_methods(value)]
            elif not name.startswith("__") and not extension("exports").constant_text(package, name):
                bare.append(f"{package}.{name}")
    return bare


def undocumented_methods(kind: type) -> list[str]:
    """Public methods and properties that a class defines itself and neither it nor a base class documents."""
    found = []
    for name, value in vars(kind).items():
        if name.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property | classmethod)):
            continue
        if not inspect.getdoc(getattr(kind, name)) and not (isinstance(value, property) and inspect.getdoc(value)):
            found.append(name)
    return found
