"""Threads: one for small work, all for large work, what the user says before both; as before afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info  # type: ignore[import-untyped,unused-ignore]
from torch import nn

from isometer.cli import main
from isometer.cli._plain_step import is_large
from isometer.cli._threads import few_at_the_start, threads
from isometer.threads import THREAD_VARIABLES

MODEL = """
import json, os, torch
from torch import nn
from threadpoolctl import threadpool_info
seen = []
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
    def forward(self, x):
        seen.append(torch.get_num_threads())
        return self.layer(x)
def told():
    pools = [pool["num_threads"] for pool in threadpool_info()]
    import atexit, sys
    atexit.register(lambda: print("threads", json.dumps([pools, seen]), file=sys.stderr))
def small():
    told()
    return Net(8)
def large():
    told()
    return Net(1100)
"""


def counted(folder: Path, *arguments: str, **variables: str) -> tuple[list[int], list[int]]:
    """Threads of the libraries as the factory runs, and of torch in each forward pass."""
    (folder / "model.py").write_text(MODEL)
    clean = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-m", "isometer.cli", "doctor", *arguments, "--no-stress", "--json", "--batch", "4"],
        cwd=folder,
        env={**clean, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    line = next(line for line in done.stderr.splitlines() if line.startswith("threads "))
    pools, seen = json.loads(line.removeprefix("threads "))
    return pools, seen


def test_small_work_has_one_thread(tmp_path: Path) -> None:
    pools, seen = counted(tmp_path, "model.py:small")
    assert set(pools) == {1}
    assert set(seen) == {1}


@pytest.mark.slow
def test_the_user_is_obeyed(tmp_path: Path) -> None:
    pools, seen = counted(tmp_path, "model.py:large", "--threads", "3")
    assert set(pools) == {3}
    assert set(seen) == {3}
    pools, seen = counted(tmp_path, "model.py:large", OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")
    assert set(pools) == {2}
    assert set(seen) == {2}


@pytest.mark.parametrize(("load", "expected"), [(0.0, 4), (0.9, 4), (1.5, 3), (9.0, 1)])
def test_large_work_has_all_idle_cores(load: float, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("isometer.cli._threads.available_cores", lambda: 4)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    with few_at_the_start(["doctor"]):
        with threads(large=True):
            assert torch.get_num_threads() == expected
        with threads(large=False):
            assert torch.get_num_threads() == 1


def test_a_context_puts_everything_back() -> None:
    torch_before = torch.get_num_threads()
    before = [pool["num_threads"] for pool in threadpool_info()]
    with threads(3):
        assert torch.get_num_threads() == 3
        assert {pool["num_threads"] for pool in threadpool_info()} == {3}
    assert torch.get_num_threads() == torch_before
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_the_command_leaves_the_threads_of_its_caller_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    np.save(tmp_path / "x.npy", np.eye(5))
    before = dict(os.environ), torch.get_num_threads(), [pool["num_threads"] for pool in threadpool_info()]
    for more in ([], ["--threads", "2"]):
        with pytest.raises(SystemExit) as end:
            main(["kernel", "--activation", "relu", "--input", str(tmp_path / "x.npy"), "--depth", "2", *more])
        assert end.value.code == 0
    after = dict(os.environ), torch.get_num_threads(), [pool["num_threads"] for pool in threadpool_info()]
    assert after == before


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", "99999999999999999999"])
def test_a_number_that_is_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["doctor", "mlp-relu-5", f"--threads={text}"])
    assert end.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_variables_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    with few_at_the_start(["predict"]):
        assert os.environ["OMP_NUM_THREADS"] == "5"
        assert "MKL_NUM_THREADS" not in os.environ
    with few_at_the_start(["predict", "--threads=7"]):
        assert {os.environ[name] for name in THREAD_VARIABLES} == {"7"}


def test_what_is_large() -> None:
    assert not is_large(nn.Linear(8, 8), torch.ones(4, 8))
    assert is_large(nn.Linear(1024, 1024), torch.ones(4, 1024))
    wide = nn.Sequential(nn.Conv2d(3, 64, 5, padding=2), nn.Conv2d(64, 64, 5, padding=2))
    assert is_large(wide, torch.ones(32, 3, 64, 64))
    assert not is_large(nn.Linear(8, 8), torch.ones(4, 9))  # what fails is told elsewhere
