"""The documentation site: tutorials run and print what they say, examples run, links resolve, every name is there."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import isometer

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED_TREES = ("_build", "ext", "_static")
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in GENERATED_TREES)
TUTORIALS = sorted(path for path in (DOCS / "tutorials").glob("*.py") if path.name != "my_cells.py")
NAMES = [str(path.relative_to(DOCS)) for path in PAGES]
ADDRESSES: tuple[str, ...] = ()  # outside addresses that pages may name
ILLUSTRATIVE = "<!-- illustrative"
CHECKER = doctest.OutputChecker()
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


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


# --- tutorials -------------------------------------------------------------


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


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_prints_what_it_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a script, in an empty folder."""
    said = extension("tutorials").printed(path.read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(path.parent)
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert said
    assert CHECKER.check_output(said, printed, FLAGS), f"expected\n{said}\ngot\n{printed}"
    assert list(tmp_path.iterdir()) == [], "a tutorial leaves no files behind"


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


# --- examples in pages -------------------------------------------------------


def python_pages() -> list[str]:
    return [name for name, path in zip(NAMES, PAGES, strict=True) if "```python\n" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", python_pages())
def test_examples_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In order, in one namespace, as a reader would type them. A block with a line `...` for code left out, or with
    `<!-- illustrative` before it, is compiled only."""
    import torch

    torch.manual_seed(0)
    space: dict[str, Any] = {"__name__": "example"}
    for source, before in blocks((DOCS / name).read_text(encoding="utf-8"), "python"):
        code = compile(source, name, "exec")
        if not before.startswith(ILLUSTRATIVE) and not re.search(r"^\s*\.\.\.$", source, flags=re.M):
            exec(code, space)
    capsys.readouterr()


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
    from typer.testing import CliRunner

    from isometer.cli import app

    text = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    (tmp_path / "my_model.py").write_text(next(blocks(text, "python"))[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    seen = commands()
    assert [command.split()[1] for command, _ in seen] == ["--version", "doctor", "doctor"]
    for command, printed in seen:
        done = CliRunner().invoke(app, command.split()[1:])
        assert done.exit_code in (0, 1), done.output
        got = done.stdout
        assert CHECKER.check_output(printed, got, FLAGS), f"{command}: expected\n{printed}\ngot\n{got}"
    assert (tmp_path / "report.html").is_file()


# --- links -------------------------------------------------------------------


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


# --- reference ---------------------------------------------------------------


def public_packages() -> list[str]:
    """Packages with a list of public names; parts of a room that begin with an underscore are its own affair."""
    found = ["isometer"]
    for module in pkgutil.walk_packages(isometer.__path__, "isometer."):
        private = any(part.startswith("_") for part in module.name.split("."))
        inner = re.match(r"isometer\.(claims|studies)\.paper_|isometer\.(cli|explore|report)\.", module.name)
        if module.ispkg and not private and not inner and hasattr(importlib.import_module(module.name), "__all__"):
            found.append(module.name)
    return found


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
        for package in public_packages()
        for name in importlib.import_module(package).__all__
        if f"{package}.{name}" not in listed and id(named(f"{package}.{name}")) not in shown and name != "__version__"
    ]
    assert missing == [], "add it to a page of docs/reference: automodule for packages, autodata for constants"


def test_every_public_name_is_documented() -> None:
    constants = extension("constants")
    bare: list[str] = []
    for package in public_packages():
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
    import shlex

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


# --- tables --------------------------------------------------------------------


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


# --- the site itself --------------------------------------------------------------


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
