"""Every command that a page shows: each is parsed, those that take seconds are run, the others are run elsewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import isometer
from isometer.cli import app
from support import ROOT
from support.command import invoke
from support.site import COMPANION, INSTRUMENT, pages, tutorials

PLACEHOLDERS = re.compile(r"…|\b(MODEL|COMMAND|FOLDER|NAME|NNN|ID|PAPER|SIBLING)\b|\s--url$|\s--workers N$")
TEXTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "papers" / "README.md",
    *pages(INSTRUMENT),
    *tutorials(INSTRUMENT),
    *pages(COMPANION),
]
ELSEWHERE = {  # commands that train, load data, open a page or need a folder of results, and the tests that run them
    "doctor": "tests/cli/test_doctor.py",
    "explore": "tests/explore",
    "trial": "tests/trial",
    "data get": "tests/data/test_obtain.py",
    "regress": "tests/regression",
    "scaling": "tests/cli/test_scaling.py",
    "sweep": "tests/cli/test_sweep.py",
    "demo": "tests/cli",
    "claims": "papers/tests/cli/test_claims.py",
    "reproduce": "papers/tests/cli/test_reproduce.py",
    "kernel --model": "tests/cli/test_model_kernel.py",
}
TESTED_BESIDES = {"README.md", "quickstart.md", "choose-a-depth.md", "choose-an-initialisation.md"}


def shown(path: Path) -> Iterator[str]:
    """The calls of a page: lines of blocks, and code inside sentences."""
    text = path.read_text(encoding="utf-8")
    lines = re.findall(r"^(?:# )?\$? ?(isometer .*)$", text, flags=re.M)
    inside = re.findall(r"`(isometer [^`]+)`", text.replace("\n", " "))
    for call in (*lines, *inside):
        call = re.split(r"\s+# |\s\\?\| |\s> \S+\.json", call)[0].strip()
        if not PLACEHOLDERS.search(call) and call != f"isometer {isometer.__version__}":
            yield call


def every() -> list[Any]:
    calls = {call: path for path in reversed(TEXTS) for call in shown(path)}
    return [pytest.param(call, id=f"{path.name}: {call}") for call, path in sorted(calls.items())]


def parsed(call: str) -> str:
    """The name of the command; an option or a value that it does not take is an error."""
    words = shlex.split(call)[1:]
    group: Any = typer.main.get_command(app)
    context = group.make_context("isometer", list(words), resilient_parsing=words in (["--help"], ["--version"]))
    name, rest = [], [*context._protected_args, *context.args]
    while rest and hasattr(group, "resolve_command"):
        own, group, rest = group.resolve_command(context, rest)
        name.append(own)
        if rest or not hasattr(group, "resolve_command"):
            bare = not rest  # the name of a command inside a sentence
            context = group.make_context(own, rest, parent=context, resilient_parsing=bare)
            rest = [*context._protected_args, *context.args] if hasattr(group, "resolve_command") else []
    return " ".join(name)


@pytest.mark.parametrize("call", every())
@pytest.mark.torch
def test_a_command_is_one(call: str) -> None:
    if re.match("isometer (claims|reproduce)", call):
        pytest.importorskip("isometer_papers")
    parsed(call)


def test_a_wrong_command_is_seen() -> None:
    with pytest.raises(Exception, match="No such option"):
        parsed("isometer simulate --widht 5")
    with pytest.raises(Exception, match="No such command"):
        parsed("isometer simulat")


def elsewhere(call: str) -> bool:
    return any(call.startswith(f"isometer {name}") for name in ELSEWHERE)


def runs() -> list[Any]:
    """Calls of blocks of pages that no other test of pages runs."""
    chosen = {}
    for path in (*pages(INSTRUMENT), *tutorials(INSTRUMENT)):
        blocks = re.findall(r"^isometer .*$", path.read_text(encoding="utf-8"), flags=re.M)
        for line in () if path.name in TESTED_BESIDES else blocks:
            call = re.split(r"\s+# ", line)[0].strip()
            if not elsewhere(call) and " --" in call:
                chosen[call] = path
    slow = re.compile("--check|gpt|phase")  # seconds each
    return [
        pytest.param(call, id=f"{path.name}: {call}", marks=pytest.mark.slow if slow.search(call) else ())
        for call, path in chosen.items()
    ]


@pytest.mark.parametrize("call", runs())
@pytest.mark.torch
def test_a_command_of_a_page_runs(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(6, 12)))
    arguments = shlex.split(call)[1:]
    assert invoke(*arguments).stdout
    written = [arguments[i + 1] for i, one in enumerate(arguments) if one == "--plot"]
    assert all((tmp_path / name).stat().st_size > 1000 for name in written)


def test_what_runs_elsewhere_is_there() -> None:
    assert all((ROOT / where).exists() for where in ELSEWHERE.values())
    assert len(runs()) >= 10
