"""The documentation: tutorials run and print what they say, examples run, links resolve, formulas are drawn."""

from __future__ import annotations

import ast
import doctest
import re
from pathlib import Path

import pytest

from support import ROOT
from support.command import invoke
from support.site import (
    CHECKER,
    DOCS,
    FLAGS,
    PAGES,
    TUTORIALS,
    blocks,
    check_tutorial,
    extension,
    needs_companion,
    run_examples,
    with_python,
)

ADDRESSES: tuple[str, ...] = ()  # outside addresses that pages may name


# --- tutorials and examples ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [path for path in TUTORIALS if not needs_companion(path)], ids=lambda path: path.stem)
def test_tutorial_prints_what_it_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_tutorial(path, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("name", with_python(companion=False))
def test_examples_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_examples(name)
    capsys.readouterr()


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_asserts_and_explains(path: Path) -> None:
    script = path.read_text(encoding="utf-8")
    assert script.startswith("# # "), "a title first"
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(script)))
    assert max(map(len, script.splitlines())) <= 140


def test_page_of_a_tutorial() -> None:
    page = extension("tutorials").markdown("# # A\n#\n# Words.\n\nx = 1\n# → 1\n\n# More.\n")
    assert page.splitlines()[0] == "# A"
    assert "```python\nx = 1\n```" in page
    assert ":class: printed\n\n1\n```" in page
    assert page.rstrip().endswith("More.")


def commands() -> list[tuple[str, str]]:
    """Commands of the quick start with what they print, in order."""
    text = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    found = []
    for block, _ in blocks(text, "console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            if command.startswith("isometer "):
                found.append((command.split("#")[0].strip(), printed))
    return found


def test_quick_start_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    (tmp_path / "my_model.py").write_text(next(blocks(text, "python"))[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    seen = commands()
    assert [command.split()[1] for command, _ in seen] == ["--version", "doctor", "doctor"]
    for command, printed in seen:
        done = invoke(*command.split()[1:], code=None)
        assert done.exit_code in (0, 1), done.output
        got = done.stdout
        assert CHECKER.check_output(printed, got, FLAGS), f"{command}: expected\n{printed}\ngot\n{got}"
    assert (tmp_path / "report.html").is_file()


# --- links -----------------------------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"^#{1,3} (.+)$", path.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = extension("tutorials").markdown(text)
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = re.sub(r"`[^`\n]*`", "", text)
    return re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.mark.parametrize("path", [*PAGES, *TUTORIALS, ROOT / "README.md"], ids=lambda path: path.name)
def test_links_resolve(path: Path) -> None:
    for link in links(path):
        if "://" in link or link.startswith("mailto:"):
            pytest.fail(f"{path.name} links to {link}: the site needs no network")
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{path.name}: {link}"
        assert file.is_relative_to(ROOT), f"{path.name}: {link} leaves the repository"
        if anchor:
            assert anchor in anchors(file), f"{path.name}: {link}"


def test_every_page_can_be_reached() -> None:
    """By the tables of contents; those that `index.md` includes in others count too."""
    reached = {DOCS / "index.md"}
    for page in PAGES:
        for toctree, _ in blocks(page.read_text(encoding="utf-8"), r"\{toctree\}"):
            for line in toctree.splitlines():
                entry = re.sub(r".*<(.+)>", r"\1", line.strip())
                if entry and not entry.startswith(":"):
                    found = [*page.parent.glob(f"{entry}.md"), *page.parent.glob(f"{entry}.py")]
                    assert found, f"{page.name}: {entry}"
                    reached |= set(found)
    assert sorted({*PAGES, *TUTORIALS} - reached) == []


@pytest.mark.parametrize("path", [*PAGES, *TUTORIALS], ids=lambda path: path.name)
def test_no_outside_addresses(path: Path) -> None:
    for address in re.findall(r"https?://[^\s)`'\"]+", path.read_text(encoding="utf-8")):
        assert address in ADDRESSES, f"{path.name}: {address}"


# --- what pages are made of ------------------------------------------------------------------------------------------


def test_every_benchmark_is_on_its_page() -> None:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    there = {path.stem for path in (ROOT / "benchmarks" / "results").glob("*.json")}
    assert set(re.findall(r"```\{benchmarks\} (\w+)", page)) == there


def test_formulas_are_drawn() -> None:
    pytest.importorskip("sphinx", reason="needs sphinx: pip install 'isometer[docs]'")
    svg = extension("mathtext").svg
    drawn = svg(r"\frac{1}{d}\,H H^\top")
    assert drawn.startswith("<svg")
    assert 'aria-label="\\frac{1}{d}\\,H H^\\top"' in drawn
    assert "nan" not in drawn
    with pytest.raises(ValueError, match="nosuch"):
        svg(r"\nosuch{x}")
    formulas = [
        line
        for path in PAGES
        for found in re.findall(r"\$\$(.+?)\$\$|(?<!\$)\$([^$\n]+)\$", path.read_text(encoding="utf-8"), flags=re.S)
        for line in "".join(found).split("\\\\")
    ]
    assert len(formulas) > 50
    for formula in formulas:
        assert svg(formula)


@pytest.mark.parametrize("name", ["constants", "docstrings", "tables", "tutorials"])
def test_examples_of_the_extensions(name: str) -> None:
    pytest.importorskip("sphinx", reason="needs sphinx: pip install 'isometer[docs]'")
    result = doctest.testmod(extension(name), optionflags=FLAGS)
    assert result.attempted
    assert not result.failed
