"""Files of arrays: the same numbers as NumPy's for good ones, one line for all others, and little memory for both."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from isometer.data import make_batch
from isometer.data._arrays import read_arrays, read_numbers
from isometer.errors import IsometerError
from support.fuzz import files

NUMBERS = (*files.NUMBERS, "g")
SHAPES = [(), (0,), (3,), (2, 4), (0, 4), (3, 2, 2)]


def saved(path: Path, array: np.ndarray, way: str) -> Path:
    file = path / f"x.{way.removesuffix(' packed')}"
    if way == "npy":
        np.save(file, array)
    elif way == "npz":
        np.savez(file, array)
    else:
        np.savez_compressed(file.with_suffix(".npz"), name=array)
        return file.with_suffix(".npz")
    return file


@pytest.mark.parametrize("way", ["npy", "npz", "npz packed"])
def test_numbers_of_every_type_are_the_same(way: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for dtype, shape, order in itertools.product(NUMBERS, SHAPES, "CF"):
        array = np.asarray(rng.integers(0, 100, shape), order=order).astype(dtype)
        path = saved(tmp_path, array, way)
        (plain,) = read_arrays(path).values()
        assert plain.dtype == array.dtype.newbyteorder("=")
        assert plain.dtype.isnative
        found = read_numbers(path)
        assert found.dtype == np.float64
        assert np.array_equal(plain, array)
        assert np.array_equal(found, array.astype(float))
        assert found.shape == shape


def test_safetensors(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    save_file({"x": array}, tmp_path / "x.safetensors")
    assert np.array_equal(make_batch(str(tmp_path / "x.safetensors")), array.astype(float))
    save_file({"x": array, "y": array}, tmp_path / "x.safetensors")
    with pytest.raises(IsometerError, match="holds 2 arrays; expected one"):
        make_batch(str(tmp_path / "x.safetensors"))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.ones((2, 2), complex), r"holds complex numbers \(complex128\); expected real ones — save the real part"),
        (np.array([[{}]], object), "pickled Python objects, which are never unpickled"),
        (np.array([["1.5"]]), r"holds text \(<U3\); expected numbers — convert it"),
        (np.zeros((2, 2), [("a", "f8"), ("b", "i4")]), r"holds records \(a, b\); expected numbers"),
        (np.zeros((2, 2), "V2"), "raw bytes .*as bfloat16 is saved"),
        (np.zeros((2, 2), "M8[s]"), r"holds datetime64\[s\]; expected numbers"),
        (np.array([[2**53 + 1]]), "int64 numbers that float64 would round"),
        (np.array([[2**63 - 1]]), "int64 numbers that float64 would round"),
        (np.array([[2**64 - 1]], np.uint64), "uint64 numbers that float64 would round"),
        (np.array([["0.1"]]).astype(np.longdouble) / 3, "numbers that float64 would round"),
        (np.ones(3), r"has shape \(3,\); expected \(samples, features\)"),
        (np.ones(()), r"has shape \(\); expected"),
        (np.ones((0, 3)), r"has shape \(0, 3\); expected"),
        (np.ones((0, 3, 2)), r"has shape \(0, 3, 2\); expected"),
        (np.array([[1.0], [np.nan], [np.inf]]), r"NaN or infinite entries in sample 1 \(2 such of 3\)"),
    ],
)
def test_what_is_no_batch_is_refused(value: np.ndarray, told: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", value, allow_pickle=True)
    with pytest.raises(IsometerError, match=rf"^'x.npy' .*{told}"):
        make_batch(str(tmp_path / "x.npy"))


def test_large_integers_that_float64_holds_are_taken(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[2**53, -(2**63), 2**62]]))
    assert make_batch(str(tmp_path / "x.npy")).tolist() == [[2.0**53, -(2.0**63), 2.0**62]]


GOOD = [
    "1,2\n3,4",
    "1,2\n3,4\n",
    "1, 2\r\n3, 4\r\n",
    "1,2\r3,4",
    "# note; with, all\n1,2\n\n3,4 # more",
    "a,b\n1,2\n3,4",
    '"a, one",b\n1,2\n3,4',
    '"1","2"\n3,4',
    "1;2\n3;4",
    "x;y\n1;2\n3;4",
    "1\t2\n3\t4",
    "a b\tc d\n1\t2\n3\t4",
    "1 2\n3 4",
    "  1    2\n  3    4",
    " 1 \t2\n3\t 4",
    "x y\n1 2\n3 4",
    "1e0,.2e1\n+3,4.",
    "\n\n1,2\n3,4\n\n",
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("text", GOOD)
def test_tables_as_people_have_them(text: str, encoding: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(text.encode(encoding))
    assert make_batch(str(tmp_path / "x.csv")).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_numbers_of_a_table_are_exact(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(50, 4)) * 10.0 ** np.arange(-200, 200, 100)
    np.savetxt(tmp_path / "x.csv", array, delimiter=",", fmt="%.17g")
    assert np.array_equal(make_batch(str(tmp_path / "x.csv")), array)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"1,2\n3,x\n", "line 2, column 2: 'x' is not a number — correct it"),
        (b"1,2\n\n# c\n3,oops\n", "line 4, column 2: 'oops' is not a number"),
        (b"a,b\n1,2\nx,4\n", "line 3, column 1: 'x' is not a number"),
        (b"id,2019\n1,2\n", "line 1, column 1: 'id' is not a number"),
        (b"1,2\n3,\n", "line 2, column 2: no number between two separators"),
        (b"1,2,\n3,4,\n", "line 1, column 3: no number between two separators"),
        (b"1,2\n3,4,5\n", "line 2: 3 numbers; expected 2, as in the lines before"),
        (b"1;2\n1,5;2\n", "line 2, column 1: '1,5' has a decimal comma; expected a point"),
        (b"1,2\n3,1+2j\n", "line 2, column 2: '1\\+2j' is a complex number; expected a real one"),
        (b"1+2j,2\n", "line 1, column 1: '1\\+2j' is a complex number"),
        (b",a,b\n0,1,2\n", "names all columns but the first.*index=False"),
        (b"a,b\n", "holds no numbers"),
        (b"\n# nothing\n", "holds no numbers"),
        ("1,2\n3,4".encode("utf-16-le"), "line 1, column 1: .* is not text in UTF-8"),
        (b"1,2\n3,\xff\n", "line 2, column 2: .* is not text in UTF-8"),
        (b"1,2\nnan,4\n", r"NaN or infinite entries in sample 1 \(1 such of 2\)"),
    ],
)
def test_tables_with_a_fault_name_its_place(text: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(text)
    with pytest.raises(IsometerError, match=told):
        make_batch(str(tmp_path / "x.csv"))


def header(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".ljust(500) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (header("(1000000000000, 4)") + bytes(64), "damaged: its header says float64 of shape"),
        (header("(-2, -4)") + bytes(64), "its header says shape"),
        (header(f"(0, {10**30})"), "its header says shape"),
        (header("(4611686018427387904, 4, 4)") + bytes(64), "it holds 64"),
        (header("(2, 4)") + bytes(60), "64 bytes; it holds 60"),
        (header("(2, 4)") + bytes(70), "64 bytes; it holds 70"),
        (header("(1,)", "'(100000000,)f8'") + bytes(64), "holds records"),
        (header("(2, 4)", "'<f9'") + bytes(64), "damaged"),
        (header("-" * 400), "damaged"),
        (header("(2" + ",)" * 100), "damaged"),
        (b"\x93NUMPY\x09\x00" + header("(2, 4)")[8:] + bytes(64), "damaged"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "damaged"),
        (b"nothing of NumPy", "not a NumPy file of numbers"),
    ],
)
def test_headers_are_not_believed(content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(IsometerError, match=rf"^'x.npy' .*{told}"):
        read_arrays(tmp_path / "x.npy")


def test_archives_that_would_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    for content, told in (
        (files._zip([(b"x.npy", 8, b"", 2**32 - 2)]), "not a NumPy file"),
        (files._directory(110_000), "has a directory of"),
        *((files._bomb(np.random.default_rng(seed)), "would take|damaged") for seed in range(8)),
    ):
        path.write_bytes(content)
        tracemalloc.start()
        with pytest.raises(IsometerError, match=told):
            read_arrays(path, limit=1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 40 << 20


def test_the_limit_is_said_and_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", np.ones((1000, 4), np.float32))
    (tmp_path / "x.csv").write_text("1,2\n" * 2000)
    monkeypatch.setenv("ISOMETER_MEMORY", "10KiB")
    for name in ("x.npy", "x.csv"):
        with pytest.raises(
            IsometerError, match=rf"^'{name}' would take .* MiB.* or allow more with ISOMETER_MEMORY=1GiB$"
        ):
            make_batch(str(tmp_path / name))
    monkeypatch.setenv("ISOMETER_MEMORY", "1GiB")
    assert make_batch(str(tmp_path / "x.npy")).shape == (1000, 4)
    for wrong in ("much", "-1", "nan", "inf", ""):
        monkeypatch.setenv("ISOMETER_MEMORY", wrong)
        with pytest.raises(IsometerError, match=r"ISOMETER_MEMORY is .* expected a size"):
            make_batch(str(tmp_path / "x.npy"))


@pytest.mark.parametrize("place", [place for place in files.PLACES if place != "odd name"])
def test_what_is_no_file_is_not_waited_for(place: str, tmp_path: Path) -> None:
    path = files._put(place, tmp_path, "npy", b"")
    with pytest.raises(IsometerError, match=r"is a (folder|pipe|socket|device)|no file|cannot read"):
        read_arrays(path)


def test_archives_with_other_things(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.savez(file, a=np.ones(2), b=np.ones((2, 2)))
    (tmp_path / "x.npz").write_bytes(file.getvalue())
    with pytest.raises(IsometerError, match=r"'x.npz' holds 2 arrays; expected one — save the batch alone"):
        make_batch(str(tmp_path / "x.npz"))
    np.savez(tmp_path / "x.npz")
    with pytest.raises(IsometerError, match=r"'x.npz' holds nothing; expected arrays"):
        make_batch(str(tmp_path / "x.npz"))
    flipped = bytearray(file.getvalue())
    flipped[flipped.index(np.ones(1).tobytes())] ^= 1
    (tmp_path / "x.npz").write_bytes(bytes(flipped))
    with pytest.raises(IsometerError, match=r"'x.npz' is damaged.*CRC"):
        read_arrays(tmp_path / "x.npz")


@pytest.mark.parametrize("command", ["simulate --input", "kernel --activation relu --depth 1 --input"])
def test_one_line_and_exit_code_2(command: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 2), complex))
    call: list[Any] = [sys.executable, "-m", "isometer.cli", *command.split(), tmp_path / "x.npy"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "holds complex numbers" in done.stderr
    assert "Traceback" not in done.stderr
