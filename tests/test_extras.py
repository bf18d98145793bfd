"""What is missing without an extra is told by the extra's name; the wheel asks for ranges and holds its data."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from isometer.extras import EXTRAS

ROOT = Path(__file__).parents[1]
WITHOUT = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def find(name, path=None, target=None):
    return None if name.partition(".")[0] in {blocked!r} else found(name, path, target)
PathFinder.find_spec = find
"""
COMMAND = "from isometer.cli import main\nsys.argv = ['isometer', *{arguments!r}]\nmain()"


def outcome(code: str, folder: Path, *blocked: str) -> subprocess.CompletedProcess[str]:
    whole = WITHOUT.format(blocked=set(blocked)) + code
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, cwd=folder, timeout=120)


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("torch", ["doctor", "mlp-relu-100"]),
        ("torch", ["simulate", "--depth", "3"]),
        ("torch", ["claims", "check", "003/lem-1"]),
        ("dash", ["explore", "--no-browser"]),
        (
            "distributed",
            ["sweep", "simulate", "--grid", "width=4,8", "--depth", "2", "--dask", "local", "--out", "runs"],
        ),
        ("sklearn", ["data", "show", "digits"]),
    ],
)
def test_commands_name_the_extra(package: str, arguments: list[str], tmp_path: Path) -> None:
    done = outcome(COMMAND.format(arguments=arguments), tmp_path, package)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert f"pip install 'isometer[{EXTRAS[package]}]'" in done.stderr


NAMES = """
import importlib
for room, name in {wanted!r}:
    try:
        getattr(importlib.import_module(room), name)
    except ImportError as problem:
        print(problem)
    else:
        print("there is", room, name)
"""


@pytest.mark.parametrize(
    ("package", "wanted"),
    [
        ("torch", [("isometer", "probe"), ("isometer.nn", "build"), ("isometer.simulate", "simulate")]),
        ("lightning", [("isometer.doctor.watch.lightning", "SignalCallback")]),
        ("dash", [("isometer.explore", "make_app")]),
    ],
)
def test_imports_name_the_extra(package: str, wanted: list[tuple[str, str]], tmp_path: Path) -> None:
    blocked = (package, "pytorch_lightning") if package == "lightning" else (package,)
    done = outcome(NAMES.format(wanted=wanted), tmp_path, *blocked)
    lines = done.stdout.splitlines()
    assert len(lines) == len(wanted), done.stderr
    assert all(f"pip install 'isometer[{EXTRAS[package]}]'" in line for line in lines)


def test_without_any_extra_theory_works(tmp_path: Path) -> None:
    commands = [["explain", "gelu"], ["predict", "--depth", "5"], ["reproduce", "list"], ["claims", "list"]]
    code = f"""
from isometer.cli import main
for arguments in {commands!r}:
    sys.argv = ["isometer", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, arguments
"""
    done = outcome(code, tmp_path, *EXTRAS)
    assert done.returncode == 0, done.stderr


def test_every_extra_is_offered_and_torch_is_a_range() -> None:
    offered = set(metadata.metadata("isometer").get_all("Provides-Extra") or [])
    assert {"torch", "explore", "dask", "lightning", "docs", "dev"} <= offered
    assert set(EXTRAS.values()) <= offered
    requirements = metadata.requires("isometer") or []
    torch = [one for one in requirements if re.match(r"torch\b", one)]
    assert torch == ['torch>=2.6; extra == "torch"']
    assert not [one for one in requirements if "==" in one.partition(";")[0]]


@pytest.mark.slow
def test_the_wheel_holds_what_the_package_reads(tmp_path: Path) -> None:
    """Every file of the package that git knows is in the wheel."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    known = subprocess.run(["git", "ls-files", "src/isometer"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert {name.removeprefix("src/") for name in known.stdout.split()} <= inside
