"""The whole site, with the pages and the reference of the companion: every name and every command is there."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import isometer
from support import ROOT
from support.site import (
    DOCS,
    PAGES,
    TUTORIALS,
    check_tutorial,
    extension,
    needs_companion,
    public_packages,
    run_examples,
    with_python,
)

# both packages, as far as they are installed
PACKAGES = [name for name in ("isometer", "isometer_papers") if importlib.util.find_spec(name)]


# --- tutorials and examples ------------------------------------------------------------------------------------------


def test_there_is_a_tutorial_for_every_task() -> None:
    assert {path.stem for path in TUTORIALS} == {
        "diagnose_and_repair",
        "choose_an_activation",
        "read_a_verdict",
        "sweep_on_a_cluster",
        "add_your_own",
    }
    listed = (DOCS / "tutorials" / "index.md").read_text(encoding="utf-8")
    assert all(path.stem in listed for path in TUTORIALS)


@pytest.mark.parametrize("path", [path for path in TUTORIALS if needs_companion(path)], ids=lambda path: path.stem)
def test_tutorial_prints_what_it_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_tutorial(path, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("name", with_python(companion=True))
def test_examples_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_examples(name)
    capsys.readouterr()


# --- reference -------------------------------------------------------------------------------------------------------


def listed_in_pages() -> set[str]:
    """What the pages of the reference document: public names of modules and, one by one, constants."""
    constants = extension("constants")
    found: set[str] = set()
    for page in (DOCS / "reference").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        found |= set(re.findall(r"\.\. autodata:: (\S+)", text))
        for name, left_out in re.findall(r"\.\. automodule:: (\S+)\n(?:   :exclude-members: (.+)\n)?", text):
            module = importlib.import_module(name)
            own = [one for one, value in vars(module).items() if getattr(value, "__module__", "") == name]
            for one in set(getattr(module, "__all__", own)) - set(left_out.split(", ")):
                if not constants.is_constant(name, one, getattr(module, one)):
                    found.add(f"{name}.{one}")
    return found


def named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_every_public_name_is_in_the_reference() -> None:
    listed = listed_in_pages()
    shown = {id(named(path)) for path in listed}
    missing = [
        f"{package}.{name}"
        for package in public_packages(*PACKAGES)
        for name in importlib.import_module(package).__all__
        if f"{package}.{name}" not in listed and id(named(f"{package}.{name}")) not in shown and name != "__version__"
    ]
    assert missing == [], "add it to a page of docs/reference: automodule for packages, autodata for constants"


def test_every_public_name_is_documented() -> None:
    constants = extension("constants")
    bare: list[str] = []
    for package in public_packages(*PACKAGES):
        module = importlib.import_module(package)
        assert module.__doc__, package
        for name in module.__all__:
            value = getattr(module, name)
            if constants.is_constant(package, name, value) and name != "__version__":
                bare += [] if constants.description(package, name) else [f"{package}.{name}"]
            elif inspect.isclass(value) or inspect.isroutine(value):
                words = (value.__doc__ or "").strip()
                if not words or words.startswith(f"{name}("):  # what a dataclass says by itself
                    bare.append(f"{package}.{name}")
                if inspect.isclass(value):
                    bare += [f"{package}.{name}.{one}" for one in undocumented_methods(value)]
    assert bare == []


def undocumented_methods(kind: type) -> list[str]:
    """Public methods and properties that a class defines itself and neither it nor a base class documents."""
    found = []
    for name, value in vars(kind).items():
        if name.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property | classmethod)):
            continue
        if not inspect.getdoc(getattr(kind, name)) and not (isinstance(value, property) and inspect.getdoc(value)):
            found.append(name)
    return found


def test_every_command_is_on_its_page() -> None:
    paths = [path for path, command, _ in extension("commands").all_commands() if command.help]
    assert {"isometer doctor", "isometer claims check", "isometer data get"} <= set(paths)
    for _, command, context in extension("commands").all_commands():
        for name, text in extension("commands").parameter_rows(command, context):
            assert text, f"{context.command_path} {name} has no help"


def mentioned_commands() -> list[tuple[str, str]]:
    """Every `isometer …` that a page, a tutorial or the README shows, in a block or between backticks."""
    found = []
    for path in [*PAGES, *TUTORIALS, ROOT / "README.md"]:
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


# --- tables and the site itself --------------------------------------------------------------------------------------


def test_notation_names_exist() -> None:
    rows = tomllib.loads((DOCS / "notation.toml").read_text(encoding="utf-8"))["row"]
    page = (DOCS / "notation.md").read_text(encoding="utf-8")
    papers = ("000", "001", "002", "003", "004")
    assert {row["topic"] for row in rows} == set(re.findall(r"```\{notation\} (.+)", page))
    for row in rows:
        assert row["ours"], row["what"]
        assert any(row.get(paper) for paper in papers), f"{row['what']} is in no paper"
        assert set(row) <= {"topic", "what", "ours", "note", *papers}
        for name in row["ours"]:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), f"{row['what']}: {name}"
        for owner, attribute in re.findall(r"`(Spec|Activation)\.(\w+)`", row.get("note", "")):
            kind = getattr(isometer, owner)
            assert hasattr(kind, attribute) or attribute in kind.__dataclass_fields__, f"{owner}.{attribute}"


def test_every_paper_has_symbols() -> None:
    rows = tomllib.loads((DOCS / "notation.toml").read_text(encoding="utf-8"))["row"]
    for paper, least in {"000": 10, "001": 30, "002": 15, "003": 15, "004": 15}.items():
        assert sum(1 for row in rows if row.get(paper)) >= least, paper


@pytest.mark.slow
def test_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="needs sphinx: pip install 'isometer[docs]'")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees"),
         str(DOCS), str(tmp_path / "html")],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    html = "\n".join(path.read_text(encoding="utf-8") for path in (tmp_path / "html").rglob("*.html"))
    outside = set(re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?://[^\"]+)", html))
    assert outside == set(), "nothing is loaded from a network"
    assert str(ROOT) not in html, "no machine paths"
    from sphinx.util.inventory import InventoryFile

    with (tmp_path / "html" / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, uri: uri)
    listed = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    assert listed_in_pages() - listed == set(), "in the built reference"
