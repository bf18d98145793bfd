"""Runs: the same bytes whatever the workers, the order and the interruptions."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from isometer.errors import IsometerError
from isometer.run import Cell, Interrupted, Job, Status, Store, run
from isometer.run._progress import Meter
from isometer.run.example import power
from support import ROOT
from support.run_cells import busy, patient, walk
from support.run_client import walks


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a store."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def reference(folder: Path, cells: int, seconds: float) -> dict[str, bytes]:
    """The store of an uninterrupted run, computed in this process."""
    job = walks(cells, seconds)
    with ThreadPoolExecutor(8) as pool:
        assert run(job, folder, executor=pool).done == cells
    return contents(folder)


def client(folder: Path, workers: int, cells: int, seconds: float, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "support.run_client", str(folder), str(workers), str(cells), str(seconds), *more]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, start_new_session=True, cwd=ROOT / "tests", **pipes)


def group_is_gone(group: int, timeout: float = 30.0) -> bool:
    """Whether all processes of a session ended; a killed client must not leave workers behind."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def killed_and_resumed(folder: Path, kills: int, cells: int, seconds: float, seed: int) -> None:
    """`kill -9` the client at random moments, each time after the store grew; then let it finish."""
    moments = random.Random(seed)
    for threshold in sorted(moments.randrange(cells - 3) for _ in range(kills)):
        process = client(folder, 2, cells, seconds)
        while process.poll() is None and len(list(folder.glob("cells/*.nc"))) <= threshold:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 2 * seconds))
        assert process.poll() is None, process.stderr
        process.kill()
        process.communicate()
        assert group_is_gone(process.pid)
    process = client(folder, 2, cells, seconds)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out.split() == [str(cells), "0"]


def test_killed_runs_resume_to_the_same_bytes(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path / "killed", kills=1, cells=16, seconds=0.1, seed=0)
    assert contents(tmp_path / "killed") == reference(tmp_path / "whole", 16, 0.1)


@pytest.mark.slow
def test_ten_kills_of_64_cells(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path / "killed", kills=10, cells=64, seconds=0.2, seed=1)
    whole = tmp_path / "whole"
    assert run(walks(64, 0.2), whole, workers=1).done == 64
    assert contents(tmp_path / "killed") == contents(whole)


@pytest.mark.slow
def test_workers_and_dask_give_the_same_bytes(tmp_path: Path) -> None:
    expected = reference(tmp_path / "threads", 64, 0.01)
    for workers, dask in ((1, None), (2, None), (4, None), (2, "local")):
        folder = tmp_path / f"{workers}-{dask}"
        assert run(walks(64, 0.01), folder, workers=workers, dask=dask).done == 64
        assert contents(folder) == expected


@pytest.mark.slow
def test_two_clients_on_one_store(tmp_path: Path) -> None:
    """Both finish, and what is there is what one would have written."""
    folder = tmp_path / "shared"
    clients = [client(folder, 1, 12, 0.1) for _ in range(2)]
    for process in clients:
        out, err = process.communicate(timeout=120)
        assert out.split() == ["12", "0"], err
    assert contents(folder) == reference(tmp_path / "alone", 12, 0.1)


def test_each_cell_is_computed_by_one_of_two_clients(tmp_path: Path) -> None:
    """Two runs in two threads on one store: the cells count their computations in a file."""
    log = tmp_path / "log"
    axes = {"i": list(range(12))}
    cells = tuple(Cell({"i": i}, {"i": i, "steps": 1, "log": str(log), "seconds": 0.02}) for i in axes["i"])
    job = Job(patient, axes, cells)

    def one() -> None:
        with ThreadPoolExecutor(1) as pool:
            assert run(job, tmp_path / "store", executor=pool).done == 12

    Store.create(tmp_path / "store")
    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log.read_text().split()) == 12


def test_a_cell_of_two_jobs_is_computed_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        run(Job(power, {"base": [1, 2, 3]}), tmp_path, name="one", executor=pool)
        cells = tuple(Cell({"b": b, "kind": k}, {"base": b}) for b in (2, 3, 4) for k in ("x", "y"))
        second = run(Job(power, {"b": [2, 3, 4], "kind": ["x", "y"]}, cells), tmp_path, name="two", executor=pool)
    assert (second.done, second.reused) == (6, 4)
    assert len(list(Store.open(tmp_path).keys())) == 4
    assert second.result["value"].values.tolist() == [[2, 2], [3, 3], [4, 4]]


def test_failures_and_deaths_lose_nothing_else(tmp_path: Path) -> None:
    """One pool, many fates: cells that work, one that raises, one whose worker is killed once."""
    axes = {"i": list(range(8))}
    extra = {2: {"fail": "on purpose"}, 4: {"die": str(tmp_path / "died")}}
    cells = tuple(Cell({"i": i}, {"i": i, "steps": 3 + i, "seconds": 0.02, **extra.get(i, {})}) for i in axes["i"])
    outcome = run(Job(walk, axes, cells), tmp_path / "store", workers=2)
    assert (outcome.done, len(outcome.failures)) == (7, 1)
    (failure,) = outcome.failures
    assert failure.label == "i=2"
    assert failure.error == "ArithmeticError: told to fail: on purpose"
    assert failure.configuration["fail"] == "on purpose"
    assert "in walk" in failure.traceback
    assert any("a worker died" in note for note in outcome.notes)
    expected = [np.cumsum(np.random.default_rng(c.seed).standard_normal(c.configuration["steps"]))[-1] for c in cells]
    found = [float(outcome.result["place"].sel(i=i).dropna("step")[-1]) if i != 2 else expected[2] for i in axes["i"]]
    assert found == expected
    store = Store.open(tmp_path / "store")
    assert store.failure(failure.key) == failure
    assert not list((store.path / "locks").iterdir())


@pytest.mark.slow
def test_a_cell_that_always_kills_its_worker_is_named(tmp_path: Path) -> None:
    axes = {"i": list(range(3))}
    extra = {1: {"die": str(tmp_path / "died"), "always": 1}}
    cells = tuple(Cell({"i": i}, {"i": i, "steps": 3, **extra.get(i, {})}) for i in axes["i"])
    outcome = run(Job(walk, axes, cells), tmp_path / "store", workers=1)
    assert outcome.done == 2
    assert [f.label for f in outcome.failures] == ["i=1"]
    assert "the worker died" in outcome.failures[0].error


@pytest.mark.slow
def test_a_long_cell_goes_on_where_it_was(tmp_path: Path) -> None:
    log = tmp_path / "log"
    cells = (Cell({"i": 0}, {"steps": 6, "die_at": 3, "log": str(log)}),)
    outcome = run(Job(patient, {"i": [0]}, cells), tmp_path / "store", workers=1)
    assert [int(line) for line in log.read_text().split()] == [0, 1, 2, 3, 4, 5]
    draws = [np.random.default_rng([cells[0].seed, step]).standard_normal() for step in range(6)]
    assert outcome.result["total"].item() == pytest.approx(sum(draws), abs=1e-12)
    assert not list((tmp_path / "store" / "checkpoints").iterdir())


@pytest.mark.slow
def test_every_worker_has_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the client's environment says."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    outcome = run(Job(thread_counts, {"i": [0]}), tmp_path / "store", workers=1)
    assert not outcome.failures, outcome.failures
    assert outcome.result["torch"].item() == 1
    assert outcome.result["pools"].item() == 1
    assert os.environ["OMP_NUM_THREADS"] == "3"


def thread_counts(cell: object, seed: int):  # type: ignore[no-untyped-def]
    """Threads that torch and the linked BLAS and OpenMP would use."""
    import torch
    import xarray
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    np.ones((4, 4)) @ np.ones((4, 4))
    counts = [pool["num_threads"] for pool in threadpool_info()]
    return xarray.Dataset({"torch": torch.get_num_threads(), "pools": max(counts)})


def test_an_interrupted_run_keeps_what_is_done(tmp_path: Path) -> None:
    """Ctrl-C in the client while workers run: says how much is kept, leaves no lease, and resumes."""
    seen: list[Status] = []

    def interrupt(status: Status) -> None:
        seen.append(status)
        if status.done >= 3:
            raise KeyboardInterrupt

    job = walks(10, 0.01)
    with ThreadPoolExecutor(1) as pool, pytest.raises(Interrupted, match="3 of 10 cells are kept"):
        run(job, tmp_path / "store", executor=pool, observer=interrupt)
    assert not list((tmp_path / "store" / "locks").iterdir())
    assert len(list((tmp_path / "store" / "cells").iterdir())) == 3
    assert any(status.running for status in seen)
    with ThreadPoolExecutor(1) as pool:
        assert run(job, tmp_path / "store", executor=pool).reused == 3


def test_the_meter_knows_pace_and_time_remaining() -> None:
    now = [100.0]
    seen: list[Status] = []
    meter = Meter(10, seen.append, clock=lambda: now[0])
    meter.found(4)
    meter.handed_out("a", 1)
    meter.handed_out("b", 1)
    now[0] += 2.0
    meter.came_back("a")
    meter.finished(1)
    assert seen[-1].running == (("b", 0.0),)
    now[0] += 2.0
    meter.came_back("b")
    meter.broke(1)
    last = seen[-1]
    assert (last.done, last.failed, last.rate, last.remaining_seconds) == (5, 1, 0.5, 8.0)
    assert seen[0].remaining_seconds is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0}, "expected a whole number of at least 1"),
        ({"dask": "somewhere"}, "expected 'local' or tcp://"),
    ],
)
def test_bad_executors_are_explained(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        run(walks(2, 0), tmp_path / "store", **arguments)  # type: ignore[arg-type]


@pytest.mark.slow
def test_no_scheduler_is_explained(tmp_path: Path) -> None:
    from isometer.run import Dask

    with pytest.raises(IsometerError, match="no Dask scheduler answers"):
        Dask("tcp://127.0.0.1:9", timeout=2.0)


def test_dask_gives_the_same_bytes_and_checkpoints_come_back(tmp_path: Path) -> None:
    """A local cluster of one process; the other client of the same cluster is the address."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as cluster:
        outcome = run(walks(6, 0.0), tmp_path / "dask", dask=cluster.scheduler_address)
        assert outcome.done == 6
        kept: list[int] = []
        said: set[str] = set()

        def watch(status: Status) -> None:
            folder = tmp_path / "long" / "checkpoints"
            files = folder.iterdir() if folder.is_dir() else ()
            kept.append(len([path for path in files if not path.name.endswith((".note", ".tmp"))]))
            said.update(status.said.values())

        cells = (Cell({"i": 0}, {"steps": 8, "seconds": 0.15}),)
        run(Job(patient, {"i": [0]}, cells), tmp_path / "long", dask=cluster.scheduler_address, observer=watch)
    assert max(kept) == 1
    assert any(text.endswith(" of 8") for text in said)
    assert kept[-1] == 0 or not list((tmp_path / "long" / "checkpoints").iterdir())
    assert contents(tmp_path / "dask") == reference(tmp_path / "threads", 6, 0.0)


def test_a_busy_local_cluster_ends_at_once_and_silently(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    from isometer.run import Dask

    workers = Dask("local", 1)
    workers.executor.submit(busy, tmp_path / "begun")
    while not (tmp_path / "begun").exists():
        time.sleep(0.05)
    worker = int((tmp_path / "begun").read_text())
    workers.stop(now=True)
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    assert capfd.readouterr().err == ""  # Dask tells of every second that it waits


@pytest.mark.slow
def test_a_dask_worker_killed_in_a_cell_is_survived(tmp_path: Path) -> None:
    axes = {"i": list(range(8))}
    extra = {3: {"die": str(tmp_path / "died")}}
    cells = tuple(Cell({"i": i}, {"i": i, "steps": 3 + i, "seconds": 0.2, **extra.get(i, {})}) for i in axes["i"])
    outcome = run(Job(walk, axes, cells), tmp_path / "store", dask="local", workers=2)
    assert (tmp_path / "died").exists()
    assert (outcome.done, outcome.failures) == (8, ())


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_ends_client_and_workers(tmp_path: Path) -> None:
    """SIGINT to the whole session, as a terminal sends it."""
    process = client(tmp_path / "store", 2, 40, 0.2)
    while process.poll() is None and len(list((tmp_path / "store").glob("cells/*.nc"))) < 4:
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "Interrupted" in err
    assert "of 40 cells are kept" in err
    assert group_is_gone(process.pid)
    assert not list((tmp_path / "store" / "locks").iterdir())


def test_cells_say_how_they_are_doing(tmp_path: Path) -> None:
    seen: list[Status] = []
    cells = (Cell({"i": 0}, {"steps": 12, "seconds": 0.1}),)
    run(Job(patient, {"i": [0]}, cells), tmp_path / "store", workers=1, observer=seen.append)
    said = {text for status in seen for text in status.said.values()}
    assert any(text.startswith("step ") and text.endswith(" of 12") for text in said)
    assert seen[-1].said == {}
    assert list((tmp_path / "store" / "checkpoints").iterdir()) == []


def test_a_thread_waits_for_another_that_is_importing_torch(tmp_path: Path) -> None:
    """The first cells of a process import torch at the same time; none may see half of it."""
    slow = tmp_path / "torch"
    slow.mkdir()
    (slow / "__init__.py").write_text("import time\ntime.sleep(1)\ndef get_num_threads(): return 1\n")
    code = """
import sys, threading, time
from isometer.run import code_version
from isometer.run.example import power
from isometer.run._worker import Raised, WorkOrder, compute

task = WorkOrder("ab" * 32, "isometer.run.example:power", code_version(power), {"base": 2}, 0)
threading.Thread(target=__import__, args=("torch",)).start()
while "torch" not in sys.modules:
    time.sleep(0.01)
outcome = compute(task)
assert not isinstance(outcome, Raised), outcome.error
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
