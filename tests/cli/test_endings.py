"""How commands end: failures of the user's own code, of the surroundings and of Isometer itself."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from isometer.cli import _endings, main
from isometer.doctor import diagnose

HEAD = """
import os, sys
import torch
from torch import nn

def inner(number):
    {fails}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        return self.layer(x)
"""
FAILURES = {
    "value": ('raise ValueError("no\\n  such [bold]thing[/]\\x1b[31m")', "ValueError: no such [bold]thing[/] [31m"),
    "key": ('return {}["gone"]', "KeyError: 'gone'"),
    "exit": ("sys.exit(0)", "SystemExit: 0"),
    "exit-1": ("sys.exit(1)", "SystemExit: 1"),
    "exit-text": ('sys.exit("usage: model.py")', "SystemExit: usage: model.py"),
    "keyboard": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "recursion": ("return inner(number + 1)", "RecursionError: maximum recursion depth exceeded"),
    "memory": ("return bytearray(1 << 60)", "MemoryError"),
    "input": ("return int(input())", "EOFError: EOF when reading a line"),
    "file": ('return open("nowhere.txt")', "FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.txt'"),
    "pipe": ("raise BrokenPipeError(32, 'gone')", "BrokenPipeError: [Errno 32] gone"),
    "import": ("import no_such_package_at_all", "ModuleNotFoundError: No module named 'no_such_package_at_all'"),
    "assertion": ("assert number < 0", "AssertionError"),
    "torch": ("return nn.Linear(2, 3)(torch.ones(5, 4))", "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
    "stop": ("raise StopIteration", "StopIteration"),
    "group": ("raise ExceptionGroup('two', [ValueError(1), KeyError(2)])", "ExceptionGroup: two (2 sub-exceptions)"),
    "silent": (
        "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()",
        "Odd: (without a message)",
    ),
}
PLACES = {
    "factory": "def make():\n    inner(0)\n    return Net()\n",
    "module": "inner(0)\ndef make():\n    return Net()\n",
    "constructor": "class Bad(Net):\n    def __init__(self):\n        inner(0)\nmake = Bad\n",
}


def ended(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, standard output and error of a command in this process."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    out, err = capsys.readouterr()
    return int(str(end.value.code)), out, err


def examined(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    return ended("doctor", f"{path}:make", "--no-stress", *more, capsys=capsys)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FAILURES)
def test_code_that_fails_is_told_by_its_own_lines(
    name: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fails, told = FAILURES[name]
    path = tmp_path / "model.py"
    path.write_text(HEAD.format(fails=fails) + PLACES[place])
    code, out, err = examined(path, capsys, "--json")
    assert (code, out) == (2, "")
    _, error, *frames = err.splitlines()  # the first says that code is executed
    assert error.startswith("error: model.py:7 in inner: ")
    assert told in error
    assert "Traceback" not in err
    assert any(line.strip() == fails.splitlines()[-1] for line in frames)
    assert all(line.startswith("  ") for line in frames)
    places = [line for line in frames if line.startswith("  model.py:")]
    assert len(places) <= 8
    assert len(places) == len([line for line in frames if not line.startswith("    ")])  # nobody else's frames
    assert "inner(0)" in err


def test_what_led_to_it_is_told_briefly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.py"
    path.write_text(
        "def look():\n    return {}['gone']\n"
        "def make():\n    try:\n        look()\n    except KeyError as e:\n        raise RuntimeError('no') from e\n"
    )
    code, _, err = examined(path, capsys)
    assert code == 2
    lines = err.splitlines()
    assert lines[1].endswith("model.py:7 in make: RuntimeError: no")
    assert lines[-1].startswith("  because of")
    assert lines[-1].endswith("model.py:2 in look: KeyError: 'gone'")
    assert len(lines) == 5


SYNTAX = {"target": "model.py", "neighbour": "other.py"}


@pytest.mark.parametrize("where", SYNTAX)
def test_a_file_that_is_no_python(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text("import other_one\ndef make(): pass\n")
    (tmp_path / "other_one.py").write_text("x = 1\n")
    (tmp_path / ("model.py" if where == "target" else "other_one.py")).write_text("def f():\n  return (\n")
    code, _, err = examined(tmp_path / "model.py", capsys)
    assert code == 2
    assert "'(' was never closed" in err
    assert "Traceback" not in err
    sys.modules.pop("other_one", None)


ODD_BATCHES = {
    "narrow": np.ones((4, 7)),
    "integers": np.arange(28).reshape(4, 7),
    "complex": np.ones((4, 784)) + 1j,
    "images": np.ones((2, 3, 5, 5)),
    "one": np.float64(1.0),
    "none": np.ones((0, 784)),
}
BUILT_IN = {
    "mlp": ["doctor", "mlp-relu-5", "--no-stress", "--json"],
    "transformer": ["doctor", "attention-only-24", "--no-stress", "--json"],
    "network": ["doctor", "--network", "input(784) > dense(3)", "--no-stress", "--json"],
    "kernel": ["kernel", "--model", "mlp-relu-5", "--json"],
}


@pytest.mark.parametrize("command", BUILT_IN)
def test_a_batch_that_a_built_in_model_does_not_take(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.npy"
    for name, batch in ODD_BATCHES.items():
        np.save(path, batch)
        code, out, err = ended(*BUILT_IN[command], "--input", str(path), capsys=capsys)
        assert (code, out) == (2, ""), name
        (error,) = err.splitlines()
        assert error.startswith("error: "), name
        if name == "narrow" and command in ("mlp", "kernel"):
            assert error.endswith("(4x7 and 784x100) — pass samples of shape (784,)")
        if name == "complex" and command != "transformer":
            assert "'x.npy' holds complex numbers" in error


class Raising(nn.Module):
    """Raises in one place."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.layer, self.where = nn.Linear(4, 4), where

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.where == "forward":
            raise LookupError("in forward")
        out: torch.Tensor = self.layer(x)
        if self.where == "backward":
            out.register_hook(self.fail)
        return out

    def fail(self, gradient: torch.Tensor) -> torch.Tensor:
        raise LookupError("in backward")


def broken_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    raise LookupError("in loss")


class Loader:
    def __iter__(self) -> Loader:
        return self

    def __next__(self) -> torch.Tensor:
        raise LookupError("in data")


PASSES: dict[str, Callable[[], object]] = {
    "forward": lambda: diagnose(Raising("forward"), torch.ones(8, 4), stress=False),
    "backward": lambda: diagnose(Raising("backward"), torch.randn(8, 4), stress=False),
    "loss": lambda: diagnose(Raising(""), torch.ones(8, 4), target=torch.ones(8), loss=broken_loss, stress=False),
    "data": lambda: diagnose(Raising(""), fresh=Loader()),
}


@pytest.mark.parametrize("where", PASSES)
def test_the_library_lets_the_users_exception_through(where: str) -> None:
    with pytest.raises(LookupError, match=f"in {where}"):
        PASSES[where]()


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_a_pass_that_fails(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.py"
    path.write_text(
        HEAD.format(fails="raise LookupError(number)")
        + "class Late(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x * 1\n"
        "    @staticmethod\n    def backward(ctx, g):\n        inner(5)\n"
        "class Bad(Net):\n    def forward(self, x):\n"
        + ("        inner(5)\n" if where == "forward" else "        return Late.apply(self.layer(x))\n")
        + "make = Bad\n"
    )
    code, _, err = examined(path, capsys)
    lines = err.splitlines()
    assert code == 2
    assert (
        "fails on the batch of shape (32, 4) (made for this model: 32 Gaussian inputs of shape (4,)): LookupError: 5 — "
        in lines[1]
    )
    assert "Traceback" not in err
    assert lines[-2].endswith("model.py:7 in inner")
    assert lines[-4].endswith(f"in {where}")


def test_a_backward_pass_that_fails_inside_of_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.py"
    path.write_text(
        HEAD.format(fails="pass") + "class Bad(Net):\n    def forward(self, x):\n"
        "        h = torch.sigmoid(self.layer(x))\n        h += 1\n        return h\nmake = Bad\n"
    )
    code, _, err = examined(path, capsys)
    assert code == 2
    assert "a backward pass through the model fails on the batch" in err
    assert "modified by an inplace operation" in err


def test_what_the_code_prints_does_not_reach_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    path = tmp_path / "model.py"
    path.write_text(
        "print('loaded')\n"
        + HEAD.format(fails="pass")
        + "class Loud(Net):\n    def forward(self, x):\n        print('called')\n        return self.layer(x)\n"
        "def make():\n    print('made')\n    return Loud()\n"
    )
    code, out, err = examined(path, capsys, "--json")
    assert code in (0, 1)
    assert json.loads(out)["model"].endswith("model.py:make")
    assert {"loaded", "made", "called"} <= set(err.split())


@pytest.mark.parametrize("text", ["..x:make", "a b:make", "1x.y:make", "os:getcwd", "builtins:dict", "math:sin"])
def test_targets_that_are_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ended("doctor", text, capsys=capsys)
    assert code == 2
    assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 1
    assert "Traceback" not in err


def boom(*_: object, **__: object) -> None:
    raise ArithmeticError("unexpected\nthing")


# Frames of this file count as the user's: what fails must be someone else's.
foreign = eval("lambda *_, **__: (_ for _ in ()).throw(ArithmeticError('unexpected'))")


def test_a_bug_is_told_as_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("isometer.theory.explain", foreign)
    code, out, err = ended("explain", "relu", capsys=capsys)
    assert (code, out) == (70, "")
    (line,) = err.splitlines()
    assert line.startswith("error: a bug in isometer, please report it with ")
    assert line.endswith(": ArithmeticError: unexpected")
    (written,) = tmp_path.iterdir()
    assert str(written) in line
    assert "Traceback (most recent call last)" in written.read_text()
    for way in (["--debug", "explain", "relu"], ["explain", "relu"]):
        code, _, err = ended(*way, capsys=capsys)
        assert (code, "Traceback" in err) == (70, "--debug" in way)
    monkeypatch.setenv(_endings.DEBUG, "1")
    code, _, err = ended("explain", "relu", capsys=capsys)
    assert (code, "Traceback" in err) == (70, True)


def test_debug_shows_the_traceback_of_any_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ended("--debug", "explain", "rleu", capsys=capsys)
    assert code == 2
    assert err.splitlines()[0].startswith("error: unknown activation")
    assert "Traceback" in err


@pytest.mark.parametrize(
    "arguments",
    [["explane"], ["explain", "relu", "--nrom"], ["explain", "relu", "--norm-position", "front"], ["data", "show"]],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ended(*arguments, capsys=capsys)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "--help`" in err


def test_nobody_reads_the_output(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "isometer.cli", "activations", "--json"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(call, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
    if Path("/dev/full").exists():
        with open("/dev/full", "w") as full:
            done = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("error: No space left on device")
        assert len(done.stderr.splitlines()) == 1


def test_standard_error_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    with pytest.raises(SystemExit) as end:
        main(["explain", "rleu"])
    assert end.value.code == 2
