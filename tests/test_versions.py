"""What is declared is what the sets of `make test`, `make test-lowest` and `make test-newest` have."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from support import ROOT
from support.torchless import file_needs_torch, loads_torch, text_needs_torch

DEVELOPMENT = {"docs", "dev"}  # which no user installs: the pinned versions and newer


def pinned(name: str) -> dict[str, Version]:
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    return {package: Version(version) for package, _, version in (line.partition("==") for line in lines)}


def bounds(*, development: bool) -> dict[str, Version]:
    """The lowest version of every direct dependency of both distributions."""
    found: dict[str, Version] = {}
    for path in (ROOT / "pyproject.toml", ROOT / "papers/pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        extras = project.get("optional-dependencies", {})
        texts = [text for name, those in extras.items() if (name in DEVELOPMENT) == development for text in those]
        for one in map(Requirement, texts if development else [*project["dependencies"], *texts]):
            if one.name not in ("isometer", "isometer-papers"):
                (bound,) = one.specifier
                assert bound.operator == ">=", one
                assert found.setdefault(one.name, Version(bound.version)) == Version(bound.version), one
    return found


def test_the_lowest_set_is_what_is_declared() -> None:
    assert pinned("constraints-lowest.txt") == bounds(development=False)


def test_the_pinned_set_is_allowed() -> None:
    known = pinned("constraints.txt")
    every = bounds(development=False) | bounds(development=True)
    assert set(known) | {"pillow"} == set(every)  # the newest of pillow that matplotlib takes
    assert {name: version for name, version in known.items() if version < every[name]} == {}


def test_every_set_has_the_same_torch() -> None:
    """Another one would be a CUDA build of gigabytes."""
    pins = [pinned(f"constraints{name}.txt")["torch"] for name in ("", "-lowest", "-newest")]
    assert len(set(pins)) == 1
    assert set(pinned("constraints-newest.txt")) == {"torch"}


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        ("import torch", True),
        ("def test():\n    from torch import nn", True),
        ("from isometer import probe", True),  # handed on lazily
        ("from isometer.nn import build", True),
        ("from isometer.simulate import simulate", True),
        ("from support.models import chain", True),
        ("from isometer_papers.training import loop", True),
        ("import isometer, isometer.theory", False),
        ("from isometer.theory.kernels import KernelMap", False),
        ("from isometer.cli import main", False),  # its commands load torch when they run
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch", False),
    ],
)
def test_what_needs_torch(code: str, needed: bool, tmp_path: Path) -> None:
    assert text_needs_torch(code) == needed
    (tmp_path / "test_one.py").write_text(code)
    assert file_needs_torch(tmp_path / "test_one.py") == needed


def test_the_rule_agrees_with_python() -> None:
    """Modules of every kind, imported where torch is refused."""
    names = [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in (ROOT / "src").rglob("_*.py")]
    names = sorted(name.removesuffix(".__init__") for name in names if "labs" not in name and "__main__" not in name)[
        ::9
    ]
    code = f"""
import importlib, sys
class NoTorch:  # not None in sys.modules, which libraries take for a module
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoTorch())
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ImportError:
        print(name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {name for name in names if loads_torch(name)}
    assert 20 < len(done.stdout.split()) < len(names) - 20
