"""Ctrl-C: at once, with exit code 130 and one line, whatever the command is doing."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from isometer.cli import main
from isometer.cli._interruption import Interruption, what_is_kept

PATIENCE = 40.0  # seconds on a busy machine from the signal to the end; 5 on an idle one
LONG = {
    "predict": ["predict", "--norm", "batch", "--depth", "2000", "--metric", "mean_cosine"],
    "simulate": ["simulate", "--width", "3000", "--depth", "400", "--engine", "dense"],
    "kernel": ["kernel", "--activation", "gelu", "--norm", "rms", "--input", "x.npy", "--depths", "1,2,3,4,5,6,7,8"],
    "explain": ["explain", "x * tanh(exp(x) - cos(7*x))"],
    "compare": ["compare", "relu", "tanh", "gelu", "silu", "sin", "erf", "x*tanh(x)", "normalized(relu)"],
    "phase": ["phase", "--activation", "x * tanh(2*x)"],
    "activations": ["activations"],
    "doctor": ["doctor", "resnet-20", "--budget", "300"],
    "doctor-code": ["doctor", "model.py:make"],
    "doctor-catches": ["doctor", "model.py:deaf"],
    "gallery": ["doctor"],
    "treat": ["doctor", "mlp-relu-100", "--treat", "--budget", "300"],
    "patients": ["patients"],
    "demo": ["demo"],
    "data": ["data", "list"],
    "runs": ["runs", "list"],
    "sweep": ["sweep", "simulate", "--grid", "width=400,500,600,700", "--depth", "900", "--workers", "2", "--out", "s"],
    "sweep-kept": ["sweep", "simulate", "--grid", "depth=2,4,6,9000", "--width", "400", "--workers", "1", "--out", "s"],
    "sweep-dask": ["sweep", "simulate", "--grid", "width=400,500,600", "--depth", "900", "--dask", "local"],
    "trial": ["trial", "run", "t", "--per-family", "2", "--workers", "2"],
    "claims": ["claims", "check", "--all", "--workers", "2"],
    "claims-here": ["claims", "check", "002/lem-1"],
    "reproduce": ["reproduce", "--paper", "003", "--workers", "2"],
    "explore": ["explore", "--no-browser", "--port", "0"],
}
CODE = """
import time
from torch import nn

def make():
    while True:
        time.sleep(0.01)

def deaf():
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            pass
"""


def start(name: str, folder: Path) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(1500, 1600)))
    (folder / "model.py").write_text(CODE)
    return subprocess.Popen(
        [sys.executable, "-m", "isometer.cli", *LONG[name]],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, float]:
    """Exit code and standard error of a command that its terminal interrupts now, and how long it took to end."""
    begun = time.monotonic()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE + 60)
    return process.returncode, err, time.monotonic() - begun


def check(name: str, seconds: float, folder: Path) -> None:
    process = start(name, folder)
    time.sleep(seconds)
    code, err, took = end(process)
    lines = [line for line in err.splitlines() if not line.startswith(("note: ", "Traceback"))]
    if code == -signal.SIGINT or (code == 1 and "isometer/cli" not in err):
        return  # Python itself was still starting
    assert "Traceback" not in err, err
    assert took < PATIENCE
    if code == 130:
        told = [line for line in lines if line.startswith("interrupted: ")]
        assert len(told) == 1, err
    else:  # it was done already, or, the explorer, is meant to end so
        assert code == 0, err


@pytest.mark.torch
@pytest.mark.parametrize(("name", "seconds"), [("sweep", 4.0), ("doctor-catches", 3.0)])
def test_a_few(name: str, seconds: float, tmp_path: Path) -> None:
    check(name, seconds, tmp_path / "here")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("name", LONG)
def test_any_command_at_any_moment(name: str, number: int, tmp_path: Path) -> None:
    check(name, random.Random(f"{name} {number}").uniform(0.8, 15.0), tmp_path / "here")


@pytest.mark.torch
def test_the_line_says_what_is_kept(tmp_path: Path) -> None:
    process = start("sweep-kept", tmp_path / "here")
    while process.poll() is None and not list((tmp_path / "here/s/cells").glob("*.nc")):
        time.sleep(0.05)
    code, err, _ = end(process)
    assert code == 130
    *notes, line = err.splitlines()
    # on a busy machine it also says how far it is
    assert all(re.match(r"note: the simulation takes about|\d of 4 cells", one) for one in notes), notes
    assert line.startswith("interrupted: ")
    assert line.endswith("are kept; resume with: isometer runs resume s")


def test_inside_of_another_program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers are as before; the program goes on."""

    def explain(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("isometer.theory.explain", explain)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as end:
        main(["explain", "relu"])
    assert end.value.code == 130
    assert capsys.readouterr().err == "interrupted: nothing is kept — run the command again\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_that_an_interruption_causes_is_an_interruption(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import that is interrupted fails in ways of its own."""

    def explain(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("numpy failed to import") from None

    monkeypatch.setattr("isometer.theory.explain", explain)
    with pytest.raises(SystemExit) as end:
        main(["explain", "relu"])
    assert end.value.code == 130
    assert capsys.readouterr().err.startswith("interrupted: ")


def test_a_process_that_ignores_it_goes_on_ignoring_it() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption(whole_process=False) as one:
            signal.raise_signal(signal.SIGINT)
        assert not one.arrived
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert what_is_kept().startswith("nothing")
