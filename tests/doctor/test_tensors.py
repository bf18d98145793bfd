"""Weights and batches from files: good ones as torch reads them, all others refused before they take memory."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from isometer.doctor._loading import load_batch, load_weights
from isometer.doctor._tensors import read_batch, read_tensors
from isometer.errors import IsometerError
from support.fuzz import files

TYPES = [getattr(torch, name) for name in files.TENSORS]


@pytest.mark.parametrize("way", ["zip", "old", "no checksums", "safetensors"])
def test_tensors_of_every_type_are_the_same(way: str, tmp_path: Path) -> None:
    path = tmp_path / ("x.safetensors" if way == "safetensors" else "x.pt")
    for dtype in TYPES:
        tensor = (torch.arange(12.0) % 5).reshape(3, 4).to(dtype)
        held = {"x": tensor, "rows": tensor[1:], "turned": tensor.T, "none": tensor[:0], "one": tensor[0, 0].clone()}
        if way == "safetensors":
            save_file({name: one.contiguous().clone() for name, one in held.items()}, path)
        else:
            torch.serialization.set_crc32_options(way != "no checksums")
            torch.save(held, path, _use_new_zipfile_serialization=way != "old")
            torch.serialization.set_crc32_options(True)
        found = read_batch(path)
        path.write_bytes(b"")  # what was read does not depend on the file any more
        assert list(found) == (sorted(held) if way == "safetensors" else list(held)) or set(found) == set(held)
        for name, one in held.items():
            assert found[name].dtype == dtype
            assert torch.equal(found[name], one)


def test_nested_batches_with_plain_values_stay_as_they_are(tmp_path: Path) -> None:
    held = [torch.ones(2), {"cache": None, "n": 3, "more": (torch.zeros(1), "text", True)}]
    torch.save(held, tmp_path / "x.pt")
    found = read_batch(tmp_path / "x.pt")
    assert torch.equal(found[0], held[0])
    assert found[1]["more"][1:] == ("text", True)
    assert (found[1]["cache"], found[1]["n"]) == (None, 3)


@pytest.mark.parametrize(
    ("dtype", "becomes"),
    [
        ("f8", torch.float32),
        (">f4", torch.float32),
        ("f2", torch.float16),
        ("u2", torch.int32),
        ("u4", torch.int64),
        ("u8", torch.int64),
        (">i2", torch.int16),
        ("?", torch.bool),
        ("c8", torch.complex64),
    ],
)
def test_arrays_become_tensors(dtype: str, becomes: torch.dtype, tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6).reshape(2, 3).astype(dtype))
    np.save(tmp_path / "x.npy", array)
    found = read_batch(tmp_path / "x.npy")
    assert found.dtype == becomes
    assert np.array_equal(found.numpy(), array)


def test_names_of_arrays_say_how_the_model_is_called(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", np.ones((2, 3)), np.zeros(2))
    assert [tuple(one.shape) for one in read_batch(tmp_path / "x.npz")] == [(2, 3), (2,)]
    np.savez(tmp_path / "x.npz", x=np.ones((2, 3)), scale=np.float32(2))
    found = read_batch(tmp_path / "x.npz")
    assert {name: tuple(one.shape) for name, one in found.items()} == {"x": (2, 3), "scale": ()}
    (tmp_path / "x.csv").write_text("a;b\n1;2\n")
    assert read_batch(tmp_path / "x.csv").tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.array([1.0, np.nan]), r"NaN or infinite entries \(1 of 2\)"),
        (np.array([1.0, np.inf]), r"NaN or infinite entries \(1 of 2\)"),
        (np.array([1e300]), "beyond 3.4e38, the largest in float32"),
        (np.array([2**64 - 1], np.uint64), "expected integers below 2\\^63"),
        (np.array(["a"]), "holds text"),
    ],
)
def test_batches_that_are_refused(value: np.ndarray, told: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", value)
    with pytest.raises(IsometerError, match=rf"'x.npy' .*{told}"):
        read_batch(tmp_path / "x.npy")


def test_masks_are_no_fault(tmp_path: Path) -> None:
    torch.save({"x": torch.ones(2, 3), "mask": torch.tensor([0.0, -torch.inf])}, tmp_path / "x.pt")
    assert read_batch(tmp_path / "x.pt")["mask"].tolist() == [0.0, -torch.inf]


def archive(program: bytes, storage: bytes = bytes(12), method: int = 0) -> bytes:
    members = [(b"a/data.pkl", method, program, len(program)), (b"a/byteorder", 0, b"little", 6)]
    return files._zip([*members, (b"a/version", 0, b"3\n", 2), (b"a/data/0", 0, storage, len(storage))])


def rebuilt(numel: int, shape: int, stride: int = 1) -> bytes:
    """A pickle of a tensor as torch writes it, with these numbers."""
    number, length, step = (pickle.dumps(one, protocol=2)[2:-1] for one in (numel, shape, stride))
    return (
        b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpu"
        + number + b"tQK\0" + length + b"\x85" + step + b"\x85\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


def test_files_that_ask_for_more_than_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(archive(rebuilt(3, 3)))
    assert read_batch(path).tolist() == [0.0, 0.0, 0.0]
    number = pickle.dumps(2**33, protocol=2)[2:-1]
    for content, told in (
        (archive(rebuilt(4, 4)), "the size of a tensor is not the one in its header"),
        (archive(rebuilt(10**6, 10**6)), "cannot be loaded as data only"),
        (archive(rebuilt(2**40, 2**40)), "cannot be loaded as data only"),
        (archive(rebuilt(3, -1)), "cannot be loaded as data only"),
        (archive(rebuilt(3, 2**33, stride=0)), "would take 32 GiB of memory; the limit is 2 GiB"),
        (archive(b"\x80\2ctorch\nFloatTensor\n" + number + b"\x85R."), "needs torch.FloatTensor"),
        (archive(b"\x80\2cbuiltins\nbytearray\n" + number + b"\x85R."), "needs builtins.bytearray"),
        (archive(b"\x80\2cposix\nsystem\nX\1\0\0\0a\x85R."), "cannot be loaded as data only"),
        (archive(b"\x80\2" + b"]" * 2_000_010 + b"."), "holds more than tensors"),
        (archive(rebuilt(3, 3), method=8), "is packed"),
        (files._zip([(b"a/b", 0, b"", 0)]), "an archive without tensors"),
    ):
        path.write_bytes(content)
        with pytest.raises(IsometerError, match=told):
            read_batch(path)


def test_old_files_that_are_cut_short(tmp_path: Path) -> None:
    file = io.BytesIO()
    torch.save({"x": torch.ones(1000)}, file, _use_new_zipfile_serialization=False)
    for length in range(0, len(file.getvalue()), 97):
        (tmp_path / "x.pt").write_bytes(file.getvalue()[:length])
        with pytest.raises(IsometerError):
            read_tensors(tmp_path / "x.pt", limit=1 << 30)


def test_a_batch_comes_in_the_precision_that_the_model_takes(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(8, dtype=np.uint8).reshape(2, 4))
    assert torch.equal(load_batch(path, nn.Linear(4, 1)), torch.arange(8.0).reshape(2, 4))
    assert load_batch(path, nn.Linear(4, 1).double()).dtype == torch.float64
    np.save(path, np.array([[1, 2, 3, 2**24 + 1]]))
    with pytest.raises(
        IsometerError, match=r"'x.npy' holds int64 numbers; the model computes in float32, which rounds"
    ):
        load_batch(path, nn.Linear(4, 1))
    assert load_batch(path, nn.Identity()).dtype == torch.int64
    np.save(path, np.array([[1, 2], [3, 0]]))
    assert load_batch(path, nn.Embedding(4, 3)).dtype == torch.int64
    np.save(path, np.ones((2, 4), np.float16))
    assert load_batch(path, nn.Linear(4, 1)).dtype == torch.float32
    assert load_batch(path, nn.Linear(4, 1).half()).dtype == torch.float16


def test_complex_numbers_keep_both_parts(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((2, 4)) + 1j)
    assert load_batch(path, nn.Linear(4, 1, dtype=torch.complex64)).dtype == torch.complex64
    assert load_batch(path, nn.Identity()).dtype == torch.complex128
    with pytest.raises(IsometerError, match=r"'x.npy' holds complex numbers, the model takes real ones"):
        load_batch(path, nn.Linear(4, 1))
    assert load_batch(path, nn.Linear(3, 1)).is_complex()  # refused for another reason


def test_a_model_in_memory_may_have_weights_of_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, other = nn.Linear(100, 100), nn.Linear(100, 100)
    torch.save(model.state_dict(), tmp_path / "x.pt")
    monkeypatch.setenv("ISOMETER_MEMORY", "1KB")
    load_weights(other, tmp_path / "x.pt")
    assert torch.equal(model.weight, other.weight)
    with pytest.raises(IsometerError, match=r"'x.pt' would take .* or allow more with ISOMETER_MEMORY=1GiB"):
        load_weights(nn.Linear(1, 1), tmp_path / "x.pt")


@pytest.mark.parametrize("held", [{}, [], 3, {"a": 1}, None])
def test_weights_and_batches_without_tensors(held: Any, tmp_path: Path) -> None:
    torch.save(held, tmp_path / "x.pt")
    with pytest.raises(IsometerError):
        read_batch(tmp_path / "x.pt")
    with pytest.raises(IsometerError):
        load_weights(nn.Linear(1, 1), tmp_path / "x.pt")
