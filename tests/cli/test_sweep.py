"""`isometer sweep` and `isometer runs` as a user runs them."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from rich.console import Console

from isometer import Spec
from isometer.cli import cells_bar, describe
from isometer.data import make_batch
from isometer.errors import IsometerError
from isometer.run import Given, Status, Store
from isometer.run import _driver as driver
from isometer.simulate import simulate
from isometer.spec import chain_from_options
from isometer.theory import kernel_matrix
from isometer.trajectory import summarize
from support.command import as_json, invoke

SMALL = ["sweep", "simulate", "--depth", "3", "--batch", "4", "--runs", "3", "--metric", "orthogonality_gap"]
GRID = ["--grid", "width=16,32,64", "activation=relu,leaky_relu(0.1)"]


@pytest.fixture(autouse=True)
def _threads_instead_of_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command is what is tested here; processes have tests of their own."""
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(driver, "Processes", lambda count: Given(pool, 1))
        yield


def test_a_sweep_of_simulations(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    record = as_json(*SMALL, *GRID, "--out", str(folder))
    assert set(record) >= {"cells", "done", "failed", "seconds", "result", "slopes"}
    assert (record["cells"], record["done"], record["failed"]) == (6, 6, 0)
    with xarray.open_dataset(record["result"], engine="h5netcdf") as result:
        assert result["orthogonality_gap"].dims == ("width", "activation", "run", "layer")
        found = result["orthogonality_gap"].sel(width=32, activation="leaky_relu(0.1)").values
    store = Store.open(folder)
    job = store.load_job("sweep")
    cell = next(c for c in job.cells if c.coordinates == {"width": 32, "activation": "leaky_relu(0.1)"})
    spec = chain_from_options(width=32, depth=3, activation="leaky_relu(0.1)")
    batch = make_batch("gaussian", 4, 32, seed=cell.seed)
    alone = simulate(spec, batch, runs=3, metrics=["orthogonality_gap"], seed=cell.seed)
    np.testing.assert_array_equal(found, alone["orthogonality_gap"].values)
    rows = list(csv.DictReader((folder / "summary.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 6
    row = next(r for r in rows if (r["width"], r["activation"]) == ("32", "leaky_relu(0.1)"))
    expected = summarize(alone)["orthogonality_gap"].isel(layer=-1).values
    assert [float(row[f"orthogonality_gap{end}"]) for end in ("", "_low", "_high")] == expected.tolist()
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert {(s["variable"], s["axis"], s["at"]["activation"]) for s in record["slopes"]} == {
        ("orthogonality_gap", "width", "relu"), ("orthogonality_gap", "width", "leaky_relu(0.1)"),
    }  # fmt: skip


def test_the_same_folder_grows_with_the_grid_and_refuses_another_job(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "out")]
    as_json(*SMALL, "--grid", "width=8,16", *out)
    record = as_json(*SMALL, "--grid", "width=8,16,24", *out)
    assert (record["cells"], record["reused"]) == (3, 2)
    with pytest.raises(IsometerError, match=r"holds another job: its runs is 3, not 4 — pass another --out"):
        invoke(*SMALL, "--runs", "4", "--grid", "width=8,16", *out)
    np.save(tmp_path / "x.npy", np.eye(3))
    with pytest.raises(IsometerError, match="holds another job: a sweep of simulate"):
        invoke("sweep", "kernel", "--grid", "activation=relu", "--depth", "1", "--input", str(tmp_path / "x.npy"), *out)


@pytest.mark.slow
def test_a_sweep_of_kernels_carries_its_inputs(tmp_path: Path) -> None:
    """The inputs are part of the job: the file may go, and resuming still works."""
    inputs = np.random.default_rng(0).standard_normal((5, 8))
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    np.save(tmp_path / "x.npy", inputs)
    folder = tmp_path / "out"
    command = ["sweep", "kernel", "--grid", "depth=1:9:4", "activation=relu,normalized(relu)"]
    record = as_json(*command, "--input", str(tmp_path / "x.npy"), "--out", str(folder))
    with xarray.open_dataset(record["result"], engine="h5netcdf") as result:
        for depth in (1, 5, 9):
            for name in ("relu", "normalized(relu)"):
                found = result["condition_number"].sel(depth=depth, activation=name).item()
                assert found == pytest.approx(kernel_matrix(name, inputs / 8**0.5, depth).condition_number, rel=1e-9)
    before = {path.name: path.read_bytes() for path in (folder / "cells").iterdir()}
    (tmp_path / "x.npy").unlink()
    for path in list((folder / "cells").iterdir())[:4]:
        path.unlink()
    again = as_json("runs", "resume", str(folder))
    assert (again["done"], again["reused"]) == (6, 2)
    assert {path.name: path.read_bytes() for path in (folder / "cells").iterdir()} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--grid", "widht=1,2"], "unknown key of the grid 'widht'; did you mean 'width'"),
        ([], "the grid is empty"),
        (["--grid", "width="], "no values for 'width'"),
        (["--grid", "width=8,0"], "the cell width=0: width is 0; expected a whole number"),
        (["--grid", "width=8", "activation=relu,rleu"], "the cell width=8 activation=rleu: unknown activation"),
        (["--grid", "width=1.5"], "width=1.5; expected a whole number"),
        (["--grid", "engine=fast"], "expected one of auto, gram, dense"),
        (["--grid", "weights=gaussian,uniform", "--engine", "gram"], "the cell weights=uniform: engine='gram'"),
        (["--grid", "batch=1,4", "--norm", "batch"], "the cell batch=1: batch has 1 sample"),
        (["--grid", "input=gaussian,correlated:2"], "the cell input=correlated:2: .*cosine is 2"),
        (["--grid", "metric=rank"], "unknown key of the grid 'metric'"),
        (["--grid", "width=8", "--metric", "nonsense"], "the cell width=8: .*nonsense"),
    ],
)
def test_bad_sweeps_are_explained_before_any_cell_runs(tmp_path: Path, options: list[str], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        invoke(*SMALL, *options, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_bad_folders_are_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IsometerError, match="cannot make a store"):
        invoke(*SMALL, "--grid", "width=8", "--out", str(tmp_path / "file" / "out"))
    with pytest.raises(IsometerError, match="holds other files"):
        invoke(*SMALL, "--grid", "width=8", "--out", str(tmp_path))
    with pytest.raises(IsometerError, match="there is no store"):
        invoke("runs", "resume", str(tmp_path))
    (tmp_path / "net.json").write_text(Spec(width=8, depth=2).to_json())
    with pytest.raises(IsometerError, match="which --network fixes"):
        invoke(*SMALL, "--grid", "width=8", "--network", str(tmp_path / "net.json"))
    with pytest.raises(IsometerError, match="which --network fixes"):
        invoke(*SMALL[:2], "--grid", "norm=batch", "--network", "repeat(dense, 2)")
    with pytest.raises(IsometerError, match="which --network fixes"):
        invoke(*SMALL[:2], "--grid", "width=8", "--network", "input(4) > repeat(dense, 2)")


def test_a_failing_cell_is_reported_and_the_rest_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from isometer.run.targets import simulation

    real = simulation._simulation

    def sometimes(cell: Any, seed: int) -> Any:
        if seed and cell["spec"]["width"] == 16:
            raise RuntimeError("out of luck")
        return real(cell, seed)

    monkeypatch.setattr(simulation, "_simulation", sometimes)
    folder = tmp_path / "out"
    result = invoke(*SMALL, "--grid", "width=8,16,24", "--out", str(folder), code=1)
    assert "2 of 3 cells" in result.stdout
    assert "failed: width=16: RuntimeError: out of luck" in result.stderr
    assert "configuration:" in result.stderr
    assert "Traceback" in result.stderr
    shown = as_json("runs", "show", str(folder))
    assert shown["jobs"][0]["missing"] == 1
    assert shown["failures"][0]["error"] == "RuntimeError: out of luck"
    monkeypatch.undo()
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(driver, "Processes", lambda count: Given(pool, 1))
        assert as_json("runs", "resume", str(folder))["failed"] == 0
    assert as_json("runs", "show", str(folder))["failures"] == []


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Store.put

    def put(self: Store, key: str, content: bytes) -> None:
        real(self, key, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "put", put)
    folder = tmp_path / "out"
    result = invoke(*SMALL, "--grid", "width=8,16,24", "--out", str(folder), code=130)
    text = " ".join(result.stderr.split())
    assert f"resume with: isometer runs resume {folder}" in text
    assert len(list((folder / "cells").iterdir())) == 1


def test_list_verify_and_clean(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    invoke(*SMALL, "--grid", "width=8,16", "--out", str(folder))
    (row,) = as_json("runs", "list", str(tmp_path / "runs"))
    assert (row["target"], row["done"], row["missing"], row["current"]) == ("simulate", 2, 0, True)
    assert "complete" in invoke("runs", "list", str(tmp_path / "runs")).stdout
    assert "no runs" in invoke("runs", "list", str(tmp_path / "none")).stdout
    assert "width = 8, 16" in invoke("runs", "show", str(folder)).stdout
    assert as_json("runs", "verify", str(folder)) == {"folder": str(folder), "whole": 2, "files": []}
    victim = next((folder / "cells").iterdir())
    victim.write_bytes(victim.read_bytes()[:-1])
    files = as_json("runs", "verify", str(folder), code=1)["files"]
    assert [(f["path"], f["state"]) for f in files] == [(f"cells/{victim.name}", "damaged")]
    assert victim.name in " ".join(invoke("runs", "verify", str(folder), code=1).stdout.split())
    assert as_json("runs", "clean", str(folder), "--dry-run")["removed"] == files
    assert victim.exists()
    assert as_json("runs", "clean", str(folder))["removed"] == files
    assert not victim.exists()
    assert as_json("runs", "resume", str(folder))["reused"] == 1


def test_the_progress_line_names_pace_remaining_time_and_cells() -> None:
    status = Status(10, 4, 0, 1, (("width=8 activation=f(x)[2]", 3.0),), 2, 5.0, ())
    text = describe(status)
    assert text.startswith("1/s · 5.0 s left · ")
    assert "1 failed" in text
    assert "2 elsewhere" in text
    assert "width=8" in text
    told = dataclasses.replace(status, said={"width=8 activation=f(x)[2]": "900 images/s"})
    assert "now: 900 images/s (width=8" in describe(told)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_bar_is_whole_on_narrow_terminals(columns: int) -> None:
    page = io.StringIO()
    screen = Console(file=page, force_terminal=True, width=columns, emoji=False, color_system=None)
    with cells_bar(screen) as bar:
        words = "now: epoch 4 of 50, 900 images/s (scheme=Xavier depth=20 run=0, 3 min)"
        bar.add_task(words, total=8, completed=4, what="003/fig-3b")
    lines = [line for line in page.getvalue().replace("\r", "\n").splitlines() if "003/fig-3b" in line]
    assert lines
    assert all("━" in line and "4/8" in line for line in lines)
    assert ("3 min" in lines[-1]) == (columns == 200)
