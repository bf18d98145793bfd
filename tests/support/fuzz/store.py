"""What a store says about itself: its mark, jobs, failures, arrays, headers and checkpoints, spoilt one at a time."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from isometer.errors import IsometerError
from isometer.run import Cell, Checkpoint, Failure, Job, Store, clean_store, find_stores, inspect_store, run
from isometer.run._checkpoints import _MAGIC
from isometer.run._files import ATTRIBUTE, decoded, header_of, netcdf
from isometer.run.example import power
from support.fuzz.mutation import document
from support.fuzz.target import PromiseBroken, Target

_KEY = "ab" * 32


@cache
def _whole() -> dict[str, bytes]:
    """The files of a small store, by their place."""
    job = Job(power, {"base": [2, 3]}, tuple(Cell({"base": b}, {"base": b, "x": np.arange(3.0)}) for b in (2, 3)))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        store = Store.create(folder)
        run(job, store, executor=pool)
        key = job.keys[1]
        store.note_failure(Failure(key, "base=3", {"base": 3, "g": {"$number": "inf"}}, "ValueError: no", "…"))
        return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def draw(rng: np.random.Generator) -> list[str]:
    """Which file, and what it holds, bytes as Latin-1."""
    names = sorted(_whole())
    name = [*[one for one in names if one.endswith(".json")], "header", "checkpoint", "data"][int(rng.integers(6))]
    if name == "header":
        record = {"function": "m:f", "code": "1", "configuration": {"a": 1}, "seed": 7, "libraries": {"numpy": "2"}}
        return [name, document(rng, record)]
    if name == "checkpoint":
        tree = ["dict", [["epoch", 3], ["w", ["array", 0]], ["l", ["list", [1, ["tuple", [2.5, ["float", "nan"]]]]]]]]
        return [name, document(rng, tree)]
    if name == "data":
        name = next(one for one in names if one.startswith("data/"))
        raw = bytearray(_whole()[name])
        for _ in range(int(rng.integers(1, 5))):
            raw[int(rng.integers(len(raw)))] = int(rng.integers(256))
        return [name, bytes(raw[: int(rng.integers(len(raw)))] if rng.uniform() < 0.3 else raw).decode("latin-1")]
    return [name, document(rng, json.loads(_whole()[name]))]


def check(case: list[str]) -> None:
    """Everything that reads a store answers, or says in one line what is wrong."""
    name, text = case
    content = text.encode("latin-1")
    if name == "header":
        _check_header(content)
    elif name == "checkpoint":
        _check_checkpoint(content)
    else:
        with tempfile.TemporaryDirectory() as folder:
            for place, whole in _whole().items():
                path = Path(folder) / "store" / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if place == name else whole)
            _check_store(Path(folder) / "store")


def _check_store(folder: Path) -> None:
    list(find_stores(folder.parent))
    store = Store.open(folder)
    inspect_store(store)
    clean_store(store, dry=True)
    for key in list(store.keys()):
        failure = store.failure(key)
        if failure is not None and not isinstance(failure.error, str):
            raise PromiseBroken(f"a failure has the error {failure.error!r}")
    from isometer.cli.runs import _standing

    for name in store.job_names():
        json.dumps(_standing(store, name))
        job = store.load_job(name)
        assert len(job.keys) == len(job.cells)


def _check_header(record: bytes) -> None:
    """A file of netCDF that says it is a cell's, with any header."""
    text = record.decode("utf-8", "replace").replace("\x00", " ")[:60_000]  # what an attribute of HDF5 can hold
    mark = f"isometer-cell/1 sha256={'0' * 64} key={_KEY} {text}"
    content = netcdf(xarray.Dataset({"x": 1.5}, attrs={ATTRIBUTE: mark}))
    with suppress(IsometerError):
        header_of(content)
    header = decoded(content)[1]
    if not isinstance(header.code, str) or not isinstance(header.configuration, dict):
        raise PromiseBroken(f"a header that is none: {header}")


def _check_checkpoint(tree: bytes) -> None:
    """A checkpoint with a right checksum and any tree."""
    page = io.BytesIO()
    np.savez(page, tree=np.array(tree.decode("utf-8", "replace")), array0=np.arange(3))
    body = page.getvalue()
    Checkpoint(_MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body).load()


TARGETS: list[Any] = [Target("store", 2_000, 10, draw, check)]
