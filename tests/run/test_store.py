"""Files of cells and the store that holds them: damage is seen, writing is atomic, leases die with their process."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray

from isometer.run import CellFileError, Checkpoint, Job, Store, StoreError, clean_store, inspect_store, run
from isometer.run._files import Header, checked, decoded, encoded, header_of
from isometer.run._locks import Lease
from isometer.run.example import power
from support.run_cells import walk

GONE = 99_999_999  # no process has this number
KEY = "ab" * 32
HEADER = Header(KEY, "m:f", "1+2", {"width": 3, "text": "é"}, 7, {"numpy": "2"})
DATA = xarray.Dataset(
    {"a": (("run", "layer"), np.arange(6.0).reshape(2, 3)), "flag": ("layer", [True, False, True]), "n": 3, "t": "é"},
    coords={"layer": [0, 1, 2], "name": ("layer", np.array(["x", "yy", "z"], dtype=object))},
    attrs={"spec": "{}", "list": np.array([1, 2]), "number": 1.5},
)


def filled(folder: Path, bases: range = range(1, 7)) -> tuple[Job, Store]:
    job = Job(power, {"base": list(bases)})
    with ThreadPoolExecutor(1) as pool:
        run(job, folder, executor=pool)
    return job, Store.open(folder)


def test_a_file_is_netcdf_that_others_can_read(tmp_path: Path) -> None:
    """xarray reads what we wrote, with its own code."""
    path = tmp_path / "cell.nc"
    path.write_bytes(encoded(DATA, HEADER))
    with xarray.open_dataset(path, engine="h5netcdf") as read:
        mark = read.attrs.pop("isometer_cell")
        assert read.identical(DATA)
    assert json.loads(mark.split(" ", 3)[3])["configuration"] == {"width": 3, "text": "é"}
    again, header = decoded(encoded(DATA, HEADER))
    assert again.identical(DATA)
    assert header == HEADER == header_of(encoded(DATA, HEADER))


@pytest.mark.slow
def test_a_profiler_does_not_change_the_bytes() -> None:
    """A thread that holds frames, as the profiler of Dask workers does, delays the closing of HDF5 objects.

    One attempt in ten to a thousand comes out longer then; `encoded` must not.
    """
    expected = encoded(DATA, HEADER)
    stop = threading.Event()

    def sample() -> None:
        while not stop.is_set():
            frames = list(sys._current_frames().values())
            time.sleep(0.001)
            del frames

    thread = threading.Thread(target=sample)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        assert {encoded(DATA, HEADER) for _ in range(60)} == {expected}
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_every_cut_and_every_changed_byte_is_seen() -> None:
    content = encoded(DATA, HEADER)
    assert checked(content, KEY) is content
    for size in range(len(content)):
        with pytest.raises(CellFileError):
            checked(content[:size], KEY)
    for place in range(0, len(content), 7):
        altered = bytearray(content)
        altered[place] ^= 0x10
        with pytest.raises(CellFileError):
            checked(bytes(altered), KEY)


def test_foreign_files_are_seen() -> None:
    with pytest.raises(CellFileError, match="foreign: it is the result of cell ababab"):
        checked(encoded(DATA, HEADER), "cd" * 32)
    page = io.BytesIO(DATA.to_netcdf(engine="h5netcdf"))
    with pytest.raises(CellFileError, match="no mark of a cell"):
        checked(page.getvalue(), KEY)


@pytest.mark.parametrize(
    "data",
    [
        xarray.Dataset({"x": ("t", np.array(["2020-01-01"], dtype="datetime64[ns]"))}),
        xarray.Dataset(attrs={"spec": {"a": 1}}),
        xarray.Dataset({"x": ("t", np.array([None, {}], dtype=object))}),
        xarray.Dataset(attrs={"isometer_cell": "mine"}),
    ],
)
def test_results_that_cannot_be_kept_are_explained(data: xarray.Dataset) -> None:
    with pytest.raises(ValueError, match="—"):
        encoded(data, HEADER)


def test_damaged_cells_are_named_and_redone(tmp_path: Path) -> None:
    job, store = filled(tmp_path)
    before = {key: store.cell_path(key).read_bytes() for key in job.keys}
    cut, flipped, foreign, empty, swapped, good = (store.cell_path(key) for key in job.keys)
    cut.write_bytes(before[cut.stem][:-100])
    flipped.write_bytes(before[flipped.stem][:200] + b"?" + before[flipped.stem][201:])
    foreign.write_bytes(b"not even netCDF")
    empty.write_bytes(b"")
    swapped.write_bytes(before[good.stem])
    states = {report.path.removeprefix("cells/"): report.state for report in inspect_store(store)}
    assert [states[p.name] for p in (cut, flipped, foreign, empty, swapped, good)] == [
        "damaged", "damaged", "damaged", "damaged", "foreign", "whole",
    ]  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        outcome = run(job, store, executor=pool)
    assert (outcome.done, outcome.reused, len(outcome.notes)) == (6, 1, 5)
    assert all(any(path.name in note for note in outcome.notes) for path in (cut, flipped, foreign, empty, swapped))
    assert {key: store.cell_path(key).read_bytes() for key in job.keys} == before


def test_a_full_disk_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    """In a process whose files may not exceed 64 kB, cells of 80 kB cannot be written, smaller ones can."""
    code = f"""
import resource, sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from isometer.run import Job, run
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support.run_cells import walk
job = Job(walk, {{"steps": [10, 20, 30, 10000, 40]}})
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
with ThreadPoolExecutor(1) as pool:
    try:
        run(job, {str(tmp_path / "store")!r}, executor=pool)
    except ValueError as problem:
        print(type(problem).__name__, problem)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("StoreError cannot write ")
    assert "File too large" in done.stdout
    store = Store.open(tmp_path / "store")
    kept = list(store.keys())
    assert len(kept) == 3
    assert all(store.read(key) is not None for key in kept)
    assert not list(tmp_path.rglob("*.tmp"))
    assert not list((store.path / "locks").iterdir())
    with ThreadPoolExecutor(1) as pool:
        outcome = run(Job(walk, {"steps": [10, 20, 30, 10000, 40]}), store, executor=pool)
    assert (outcome.done, outcome.reused) == (5, 3)


def test_stores_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        Store.open(tmp_path / "none")
    (tmp_path / "mine.txt").touch()
    with pytest.raises(StoreError, match="holds other files"):
        Store.create(tmp_path)
    with pytest.raises(StoreError, match="cannot make a store"):
        Store.create(tmp_path / "mine.txt" / "below")
    store = Store.create(tmp_path / "store")
    with pytest.raises(StoreError, match="has no job 'sweep'; it has none"):
        store.load_job("sweep")
    (store.path / "jobs" / "sweep.json").write_text("{")
    with pytest.raises(StoreError, match=r"is not JSON \(it ends too early\) — run the sweep's command again"):
        store.load_job("sweep")
    (store.path / "store.json").write_text('{"format": "isometer-store", "version": 99}')
    with pytest.raises(StoreError, match="another format"):
        Store.create(store.path)


def test_altered_inputs_are_not_used(tmp_path: Path) -> None:
    from isometer.run import Cell

    store = Store.create(tmp_path / "store")
    job = Job(power, {"base": [2]}, (Cell({"base": 2}, {"base": 2, "x": np.arange(4.0)}),))
    store.save_job("job", job)
    assert store.load_job("job").keys == job.keys
    (digest,) = job.arrays
    np.save(store.path / "data" / f"{digest}.npy", np.arange(5.0))
    with pytest.raises(StoreError, match="altered"):
        store.load_job("job")


def test_results_of_other_code_are_recognised_and_kept_until_asked(tmp_path: Path) -> None:
    job, store = filled(tmp_path)
    foreign_key = job.cells[0].key(job.function_name, "0.0+old")
    store.put(foreign_key, encoded(xarray.Dataset(), Header(foreign_key, job.function_name, "0.0+old", {}, 1, {})))
    earlier = Job(power, {"base": [77]})
    with ThreadPoolExecutor(1) as pool:
        run(earlier, store, name="job", executor=pool)  # the job of that name now has another grid
    states = {report.path: (report.state, report.reason) for report in inspect_store(store)}
    assert states[f"cells/{foreign_key}.nc"] == ("other code", "made by version 0.0+old of the code")
    assert sum(state == "unused" for state, _ in states.values()) == 6
    assert clean_store(store) == []
    assert len(clean_store(store, unused=True, dry=True)) == 7 == len(clean_store(store, unused=True))
    assert list(store.keys()) == list(earlier.keys)


def test_clean_removes_debris_and_spares_strangers(tmp_path: Path) -> None:
    job, store = filled(tmp_path)
    (store.path / "cells" / "notes.txt").write_text("mine")
    (store.path / "cells" / f".{KEY}.nc.{GONE}.aa.tmp").touch()
    (store.path / f".result.nc.{GONE}.aa.tmp").touch()
    (store.path / "locks" / KEY).touch()
    store.cell_path(job.keys[0]).write_bytes(b"torn")
    held = store.lease("cd" * 32)
    assert held is not None
    gone = {report.path for report in clean_store(store)}
    held.release()
    assert gone == {
        f"cells/.{KEY}.nc.{GONE}.aa.tmp",
        f".result.nc.{GONE}.aa.tmp",
        f"locks/{KEY}",
        f"cells/{job.keys[0]}.nc",
    }
    assert (store.path / "cells" / "notes.txt").read_text() == "mine"
    assert len(list(store.keys())) == 5


def test_a_lease_is_exclusive_across_processes_and_dies_with_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "cell"
    code = f"""
import time
from pathlib import Path
from isometer.run._locks import Lease
lease = Lease.take(Path({str(path)!r}))
print(lease is not None, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert Lease.take(path) is None
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    mine = Lease.take(path)
    assert mine is not None
    mine.release()
    assert not path.exists()


def test_a_lease_taken_on_a_removed_file_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking, the holder removes the file: the lock must be on the file that is there."""
    path = tmp_path / "cell"
    first = Lease.take(path)
    assert first is not None
    opened = os.open

    def slow_open(*arguments: object, **more: object) -> int:
        descriptor = opened(*arguments, **more)  # type: ignore[arg-type]
        first.release()
        return descriptor

    monkeypatch.setattr(os, "open", slow_open)
    second = Lease.take(path)
    monkeypatch.undo()
    assert second is not None
    assert path.exists()
    assert Lease.take(path) is None
    second.release()


def test_checkpoints_keep_nested_state_and_tensors() -> None:
    import torch

    kept: list[bytes] = []
    model = torch.nn.Linear(2, 3)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    state = {"epoch": 3, "model": model.state_dict(), "optimiser": optimiser.state_dict(), "t": (1.5, None, "é")}
    Checkpoint(write=kept.append).save(state)
    again = Checkpoint(kept[0]).load()
    assert again["epoch"] == 3
    assert again["t"] == (1.5, None, "é")
    torch.testing.assert_close(again["model"]["weight"], model.weight.detach(), rtol=0, atol=0)
    fresh = torch.optim.Adam(torch.nn.Linear(2, 3).parameters())
    fresh.load_state_dict(again["optimiser"])
    torch.testing.assert_close(
        fresh.state_dict()["state"][0]["exp_avg"], optimiser.state_dict()["state"][0]["exp_avg"], rtol=0, atol=0
    )
    for size in (0, 50, len(kept[0]) - 1):
        assert Checkpoint(kept[0][:size]).load() is None
    with pytest.raises(ValueError, match="state_dict"):
        Checkpoint().save({"model": model})


def test_asking_what_would_go_takes_no_lease(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    key = "ab" * 32
    (store.path / "locks" / key).touch()  # of a process that is gone
    assert [report.path for report in clean_store(store, dry=True)] == [f"locks/{key}"]
    lease = store.lease(key)
    assert lease is not None, "the cell can be computed at once"
    lease.release()


@pytest.mark.parametrize("folder", ["cells", "checkpoints", "failures", "jobs", "data", "."])
def test_clean_spares_what_a_process_is_writing(tmp_path: Path, folder: str) -> None:
    """And removes it once the process is dead, whichever folder it is in."""
    store = Store.create(tmp_path / "store")
    code = f"""
import sys, time
from pathlib import Path
import isometer.files
isometer.files.os.replace = lambda *_: (print(flush=True), time.sleep(60))
isometer.files.write_whole(Path({str(store.path / folder / KEY)!r}), b"whole")
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        (partial,) = (store.path / folder).glob("*.tmp")
        os.utime(partial, (0, 0))  # however long it takes
        assert clean_store(store) == []
        assert [report.state for report in inspect_store(store)] == ["in use"]
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert partial.exists()
    assert [report.path for report in clean_store(store)] == [str(partial.relative_to(store.path))]
    assert not partial.exists()


def test_clean_spares_temporary_files_of_a_cell_that_is_leased(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    partial = store.path / "checkpoints" / f".{KEY}.{GONE}.aa.tmp"  # as a process elsewhere writes it
    partial.touch()
    lease = store.lease(KEY)
    assert lease is not None
    assert clean_store(store) == []
    lease.release()
    assert [report.path for report in clean_store(store)] == [f"checkpoints/{partial.name}"]


def odd_entries(folder: Path) -> Iterator[Path]:
    """Everything that is no regular file, at a path of its own."""
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "device").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / "socket"))
    yield from (folder / name for name in ("fifo", "folder", "loop", "device", "socket"))


@pytest.mark.parametrize("index", range(5))
def test_what_is_no_file_neither_hangs_nor_breaks(tmp_path: Path, index: int) -> None:
    """In the place of every file of a store; a process of its own, since what hangs cannot be stopped here."""
    job, store = filled(tmp_path)
    (tmp_path / "odd").mkdir()
    odd = list(odd_entries(tmp_path / "odd"))[index]
    key = job.keys[0]
    places = [store.cell_path(key), store.checkpoint_path(key), store.checkpoint_path(key + ".note"),
              store.path / "failures" / f"{key}.json", store.path / "locks" / key, store.path / "jobs" / "other.json",
              store.path / "data" / f"{KEY}.npy", store.path / "cells" / f".{KEY}.1.aa.tmp"]  # fmt: skip
    for place in places:
        place.unlink(missing_ok=True)
        place.symlink_to(odd)
    code = f"""
from isometer.errors import IsometerError
from isometer.run import Store, clean_store, inspect_store
store = Store.open({str(store.path)!r})
for act in (lambda: store.read({key!r}), lambda: store.lease({key!r}), lambda: store.load_job("other")):
    try:
        act()
    except IsometerError as problem:
        assert len(str(problem).splitlines()) == 1, problem
    else:
        raise AssertionError(act)
assert store.checkpoint({key!r}) is None and store.note({key!r}) is None and store.failure({key!r}) is None
states = {{report.path: report.state for report in inspect_store(store)}}
assert states["cells/{key}.nc"] == "foreign", states
assert clean_store(store) == []
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    with ThreadPoolExecutor(1) as pool:
        store.path.joinpath("locks", key).unlink()
        assert run(job, store, name="job", executor=pool).done == 6  # the cell is computed again
