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
from support import ROOT
from support.missing import commands, outcome

ASKED = """
import importlib
from isometer.cli import main
for arguments in {commands!r}:
    sys.argv = ["isometer", *arguments]
    try:
        main()
    except SystemExit as end:
        print("ended with", end.code)
for room, name in {names!r}:
    try:
        getattr(importlib.import_module(room), name)
    except ImportError as problem:
        print(problem)
    else:
        print("there is", room, name)
"""
SWEEP = ["sweep", "simulate", "--grid", "width=4,8", "--depth", "2", "--dask", "local", "--out", "runs"]


@pytest.mark.parametrize(
    ("package", "those", "names"),
    [
        (
            "torch",
            [["doctor", "mlp-relu-100"], ["simulate", "--depth", "3"]],
            [("isometer", "probe"), ("isometer.nn", "build"), ("isometer.simulate", "simulate")],
        ),
        ("dash", [["explore", "--no-browser"]], [("isometer.explore", "make_app")]),
        pytest.param("distributed", [SWEEP], [], marks=pytest.mark.torch),
        ("sklearn", [["data", "show", "digits"]], []),
        pytest.param("lightning", [], [("isometer.doctor.watch.lightning", "SignalCallback")], marks=pytest.mark.torch),
    ],
)
def test_commands_and_imports_name_the_extra(
    package: str, those: list[list[str]], names: list[tuple[str, str]], tmp_path: Path
) -> None:
    blocked = (package, "pytorch_lightning") if package == "lightning" else (package,)
    done = outcome(ASKED.format(commands=those, names=names), tmp_path, *blocked)
    told = f"pip install 'isometer[{EXTRAS[package]}]'"
    assert "Traceback" not in done.stderr
    assert done.stdout.count("ended with 2\n") == done.stderr.count(told) == len(those), done.stderr
    lines = done.stdout.splitlines()[len(those) :]
    assert len(lines) == len(names), done.stdout
    assert all(told in line for line in lines)


def test_without_any_extra_theory_works(tmp_path: Path) -> None:
    done = outcome(commands(["explain", "gelu"], ["predict", "--depth", "5"]), tmp_path, *EXTRAS)
    assert done.returncode == 0, done.stderr


def test_every_extra_is_offered_and_torch_is_a_range() -> None:
    offered = set(metadata.metadata("isometer").get_all("Provides-Extra") or [])
    assert {"torch", "explore", "dask", "lightning", "docs", "dev"} <= offered
    assert set(EXTRAS.values()) <= offered
    requirements = metadata.requires("isometer") or []
    torch = [one for one in requirements if re.match(r"torch\b", one)]
    assert torch == ['torch>=2.13; extra == "torch"']
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
