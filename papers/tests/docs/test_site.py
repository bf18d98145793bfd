"""The companion's site, and what both sites share: commands that exist, a build without warnings."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import isometer
from isometer.spec import Chain
from isometer_papers import papers
from support import ROOT
from support.site import (
    COMPANION,
    INSTRUMENT,
    check_links,
    check_tutorial,
    extension,
    listed_in_pages,
    missing_in_reference,
    pages,
    run_examples,
    tutorials,
    undocumented,
    unreachable,
    with_python,
)

TEXTS = [ROOT / "papers" / "README.md", *pages(COMPANION), *tutorials(COMPANION)]


def test_there_is_a_tutorial_for_every_task() -> None:
    assert {path.stem for path in tutorials(COMPANION)} == {"add_a_claim_and_a_study", "read_a_verdict"}


@pytest.mark.parametrize("path", tutorials(COMPANION), ids=lambda path: path.stem)
def test_tutorial_prints_what_it_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_tutorial(path, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("path", with_python(COMPANION), ids=lambda path: path.stem)
def test_examples_run(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_examples(path)
    capsys.readouterr()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_links_resolve(path: Path) -> None:
    check_links(path)


def test_every_page_can_be_reached() -> None:
    assert unreachable(COMPANION) == []


def test_every_public_name_is_in_the_reference() -> None:
    assert missing_in_reference(COMPANION, "isometer_papers") == [], "add it to a page of papers/docs/reference"


def test_every_public_name_is_documented() -> None:
    assert undocumented("isometer_papers") == []


# --- commands --------------------------------------------------------------------------------------------------------


def test_every_command_is_on_its_page() -> None:
    commands = extension("commands")
    by_package = {path: commands.package_of(command) for path, command, _ in commands.all_commands() if command.help}
    assert by_package["isometer doctor"] == by_package["isometer data get"] == "isometer"
    assert by_package["isometer claims"] == by_package["isometer claims check"] == "isometer_papers"
    for site in (INSTRUMENT, COMPANION):
        assert "```{commands}" in (site / "commands.md").read_text(encoding="utf-8")
    for _, command, context in commands.all_commands():
        for name, text in commands.parameter_rows(command, context):
            assert text, f"{context.command_path} {name} has no help"


def mentioned_commands() -> list[tuple[str, str]]:
    """Every `isometer …` that a page, a tutorial or a README shows, in a block or between backticks."""
    found = []
    own = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages(INSTRUMENT), *tutorials(INSTRUMENT)]
    for path in [*own, *TEXTS]:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            text = re.sub(r"^# ?", "", text, flags=re.M)
        for line in re.findall(r"^(?:\$ )?(isometer .+)$|`(isometer [^`]+)`", text, flags=re.M):
            command = "".join(line).split("   ")[0].split(" #")[0].rstrip(" .,;:…")
            if command != f"isometer {isometer.__version__}":  # printed, not typed
                found.append((path.name, command))
    return found


def test_mentioned_commands_exist() -> None:
    known = {path: (command, context) for path, command, context in extension("commands").all_commands()}
    seen = mentioned_commands()
    assert len(seen) > 30
    for page, line in seen:
        words = shlex.split(line)
        path = "isometer"
        for word in words[1:]:
            if f"{path} {word}" not in known:
                break
            path = f"{path} {word}"
        command, context = known[path]
        if len(words) > 1 and not words[1].startswith("-"):
            assert path != "isometer", f"{page}: {line}"
        options = {name for parameter in command.get_params(context) for name in parameter.opts}
        for word in words:
            if word.startswith("--"):
                assert word.partition("=")[0] in options, f"{page}: {line}: {word}"


# --- notation and the sites themselves -------------------------------------------------------------------------------


def test_notation_names_exist() -> None:
    rows = tomllib.loads((COMPANION / "notation.toml").read_text(encoding="utf-8"))["row"]
    page = (COMPANION / "notation.md").read_text(encoding="utf-8")
    assert {row["topic"] for row in rows} == set(re.findall(r"```\{notation\} (.+)", page))
    for row in rows:
        assert row["ours"], row["what"]
        assert any(row.get(paper) for paper in papers()), f"{row['what']} is in no paper"
        assert set(row) <= {"topic", "what", "ours", "note", *papers()}
        for name in row["ours"]:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), f"{row['what']}: {name}"
        for owner, attribute in re.findall(r"`(Spec|Activation)\.(\w+)`", row.get("note", "")):
            kind = {"Spec": Chain, "Activation": isometer.Activation}[owner]  # the fields of `Spec(…)` are a chain's
            assert hasattr(kind, attribute) or attribute in kind.__dataclass_fields__, f"{owner}.{attribute}"


def test_every_paper_has_symbols() -> None:
    rows = tomllib.loads((COMPANION / "notation.toml").read_text(encoding="utf-8"))["row"]
    for paper, least in {"000": 10, "001": 30, "002": 15, "003": 15, "004": 15}.items():
        assert sum(1 for row in rows if row.get(paper)) >= least, paper


def built(site: Path, folder: Path) -> set[str]:
    """Build a site; warnings are errors. The Python names that it documents."""
    call = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(site), str(folder)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    from sphinx.util.inventory import InventoryFile

    with (folder / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, uri: uri)
    return {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}


@pytest.mark.slow
def test_sites_build_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="needs sphinx: pip install 'isometer[docs]'")
    root = tmp_path / "html"
    for site, folder in ((INSTRUMENT, root), (COMPANION, root / "papers")):
        assert listed_in_pages(site) - built(site, folder) == set(), "in the built reference"
    for path in root.rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?://[^\"]+)", html) == [], path.name
        assert str(ROOT) not in html, "no machine paths"
        for link in re.findall(r'href="([^"#:]+\.html)', html):
            assert (path.parent / link).resolve().is_file(), f"{path.relative_to(root)}: {link}"
