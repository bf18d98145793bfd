"""The instrument's site: tutorials run and print what they say, examples run, links resolve, every name is there."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import isometer
from isometer.data import find
from isometer.doctor.stress._plans import PLANS
from support import ROOT
from support.command import invoke
from support.site import (
    CHECKER,
    COMPANION,
    FLAGS,
    INSTRUMENT,
    blocks,
    check_links,
    check_tutorial,
    extension,
    missing_in_reference,
    pages,
    run_examples,
    tutorials,
    undocumented,
    unreachable,
    with_python,
)

TUTORIALS = {"add_your_own", "choose_an_activation", "diagnose_and_repair", "sweep_on_a_cluster"}
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages(INSTRUMENT), *tutorials(INSTRUMENT)]


def test_there_is_a_tutorial_for_every_task() -> None:
    assert {path.stem for path in tutorials(INSTRUMENT)} == TUTORIALS


@pytest.mark.parametrize("path", tutorials(INSTRUMENT), ids=lambda path: path.stem)
def test_tutorial_prints_what_it_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_tutorial(path, tmp_path, monkeypatch, capsys)


def test_page_of_a_tutorial() -> None:
    page = extension("tutorials").markdown("# # A\n#\n# Words.\n\nx = 1\n# → 1\n\n# More.\n")
    assert page.splitlines()[0] == "# A"
    assert "```python\nx = 1\n```" in page
    assert ":class: printed\n\n1\n```" in page
    assert page.rstrip().endswith("More.")


@pytest.mark.parametrize("path", with_python(INSTRUMENT), ids=lambda path: path.stem)
def test_examples_run(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_examples(path)
    capsys.readouterr()


def commands(page: Path = INSTRUMENT / "quickstart.md") -> list[tuple[str, str]]:
    """Commands of a page with what they print, in order."""
    found = []
    for block, _ in blocks(page.read_text(encoding="utf-8"), "console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            if command.startswith("isometer "):
                found.append((command.split("#")[0].strip(), printed))
    return found


def with_commands() -> list[Path]:
    """The how-to guides that show commands."""
    return [path for path in pages(INSTRUMENT) if path.parent.name == "howto" and commands(path)]


def test_guides_answer_their_questions() -> None:
    assert {path.stem for path in with_commands()} == {
        "choose-a-depth",
        "choose-an-initialisation",
        "does-a-theorem-hold",
    }


@pytest.mark.parametrize("path", with_commands(), ids=lambda path: path.stem)
def test_guide_prints_what_it_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for command, printed in commands(path):
        if "fashion-mnist" in command and find("fashion-mnist") is None:
            continue  # not on this computer
        got = invoke(*shlex.split(command)[1:]).stdout
        assert CHECKER.check_output(printed, got, FLAGS), f"{command}: expected\n{printed}\ngot\n{got}"


def test_no_page_opens_with_its_generator() -> None:
    for path in (*pages(INSTRUMENT), *pages(COMPANION)):
        opening = "\n".join(path.read_text(encoding="utf-8").splitlines()[:6])
        assert not re.search(r"[Gg]enerated by|do not edit", opening), path.name


def test_quick_start_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (INSTRUMENT / "quickstart.md").read_text(encoding="utf-8")
    (tmp_path / "my_model.py").write_text(next(blocks(text, "python"))[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("isometer.doctor.stress._plans.PLANS", PLANS[2:])  # the verdicts are the same after fewer steps
    seen = commands()
    assert [command.split()[1] for command, _ in seen] == ["--version", "doctor", "doctor"]
    for command, printed in seen:
        done = invoke(*command.split()[1:], code=None)
        assert done.exit_code in (0, 1), done.output
        got = done.stdout
        assert CHECKER.check_output(printed, got, FLAGS), f"{command}: expected\n{printed}\ngot\n{got}"
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_links_resolve(path: Path) -> None:
    check_links(path)


def test_broken_links_of_the_built_site_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">x</a><a href="#here">y</a></p>', encoding="utf-8"
    )
    (tmp_path / "b.html").write_text('<img src="gone.png"><a href="a.html#here">z</a>', encoding="utf-8")
    call = [sys.executable, str(ROOT / "tools" / "check_site.py"), str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["a.html: b.html#there has no such anchor", "b.html: gone.png leads nowhere"]


def test_every_page_can_be_reached() -> None:
    assert unreachable(INSTRUMENT) == []


def test_every_public_name_is_in_the_reference() -> None:
    assert missing_in_reference(INSTRUMENT, "isometer") == [], "add an automodule to a page of docs/reference"


def test_every_public_name_is_documented() -> None:
    assert undocumented("isometer") == []


def test_links_between_the_sites() -> None:
    address = extension("sites").address
    assert address(COMPANION / "ledger" / "index.md") == "papers/ledger/index.html"
    assert address(INSTRUMENT / "doctor.md") == "doctor.html"
    assert address(ROOT / "README.md") is None


def test_every_benchmark_is_on_its_page() -> None:
    page = (INSTRUMENT / "benchmarks.md").read_text(encoding="utf-8")
    there = {path.stem for path in (ROOT / "benchmarks" / "results").glob("*.json")}
    assert set(re.findall(r"```\{benchmarks\} (\w+)", page)) == there


def test_formulas_are_drawn() -> None:
    svg = extension("mathtext").svg
    drawn = svg(r"\frac{1}{d}\,H H^\top")
    assert drawn.startswith("<svg")
    assert 'aria-label="\\frac{1}{d}\\,H H^\\top"' in drawn
    assert "nan" not in drawn
    with pytest.raises(ValueError, match="nosuch"):
        svg(r"\nosuch{x}")
    formulas = [
        line
        for path in pages(INSTRUMENT)
        for found in re.findall(r"\$\$(.+?)\$\$|(?<!\$)\$([^$\n]+)\$", path.read_text(encoding="utf-8"), flags=re.S)
        for line in "".join(found).split("\\\\")
    ]
    assert len(formulas) > 50
    for formula in formulas:
        assert svg(formula)


@pytest.mark.parametrize("name", ["docstrings", "exports", "sites", "tables", "tutorials"])
def test_examples_of_the_extensions(name: str) -> None:
    result = doctest.testmod(extension(name), optionflags=FLAGS)
    assert result.attempted
    assert not result.failed


def test_the_map_of_the_code_shows_the_arrows() -> None:
    call = [sys.executable, str(ROOT / "tools" / "make_architecture.py"), "--check"]
    assert subprocess.run(call, check=False).returncode == 0, "run python tools/make_architecture.py"


def test_the_citation_has_no_version_of_its_own() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "version:" not in text.replace("cff-version:", "")
    assert isometer.__version__ not in text.replace("cff-version: 1.2.0", "")
