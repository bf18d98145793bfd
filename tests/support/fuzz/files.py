"""Files of arrays and tensors, whole and damaged, read by the one loader and by the commands behind which it stands.

A case names a valid file by its seed, what is done to its bytes, what lies at its path, and who reads it; or it holds
the bytes themselves, in base64.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import os
import pickle
import re
import socket
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as save_safetensors

from isometer.data._arrays import read_arrays, read_numbers
from isometer.data._batches import make_batch
from isometer.doctor import diagnose
from isometer.doctor._loading import load_batch, load_weights
from isometer.doctor._tensors import tensors_in
from isometer.doctor.probe._made_up import refusal
from isometer.errors import IsometerError
from isometer.simulate import simulate
from isometer.spec import Spec
from isometer.theory.kernels import Batch
from support.fuzz.target import PromiseBroken, Target

Rng = np.random.Generator
SMALL = 400  # numbers of a batch that is also computed with
NUMBERS = ("f2", "f4", "f8", ">f4", ">f8", "i1", "<i2", ">i4", "i8", "u1", "u2", "u4", "u8", "?")
OTHERS = ("c8", "c16", ">c16", "g", "G", "U3", "S4", "M8[s]", "m8[D]", "V2", "V7", "O", "records", "subarray")
TENSORS = ("float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool", "complex64")
NAMES = ("x", "arr_0", "arr_1", "input", "../up", "a/b", "ä ö", "", "x.npy", "nul\n", "weight", "0.weight", "0.bias")
ABSURD = (-1, 0, 1, 7, 2**31 - 1, 2**31, 2**32, 10**12, 2**62, 2**63, 2**64, 10**30, -(10**12))
CELLS = (
    "x",
    "",
    "1,5",
    "1+2j",
    "3i",
    '"',
    "nan",
    "inf",
    "-inf",
    "1e400",
    "0x1p3",
    "1_0",
    "\0",
    "٣",
    "ﬀ",
    "1 2",
    "#",
    "--1",
)


# ------------------------------------------------------------------------------------------------ whole files


def _array(rng: Rng, dtype: str) -> np.ndarray:
    shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 5, 9], size=rng.choice([0, 1, 2, 2, 2, 2, 3, 4])))
    if rng.random() < 0.4:
        shape = (int(rng.integers(1, 9)), 4)
    values = rng.normal(size=shape) * 10.0 ** rng.choice([0, 0, 0, 1, 3, 30])
    if rng.random() < 0.15 and values.size:
        values.flat[rng.integers(values.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e300, 1e-300, -0.0])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dtype == "records":
            return np.zeros(shape, dtype=[("a", "f8"), (str(rng.choice(["b", "ü", "日"])), "i4", (2,))])
        if dtype == "subarray":
            return np.zeros(shape, dtype=np.dtype([("a", "f4", (3,))]))
        if dtype == "O":
            return np.full(shape, _Call(), dtype=object)
        if np.dtype(dtype).kind in "iu" or dtype.startswith(("M", "m")):
            return np.nan_to_num(values).astype(np.int64).astype(dtype)
        array = values.astype(dtype)
    return np.asfortranarray(array) if rng.random() < 0.3 else array


class _Call:
    """Unpickled, it would end the process."""

    def __reduce__(self) -> Any:
        return os._exit, (99,)


def _dtype(rng: Rng) -> str:
    return str(rng.choice(NUMBERS if rng.random() < 0.75 else OTHERS))


def _npy_bytes(array: np.ndarray, rng: Rng) -> bytes:
    file = io.BytesIO()
    version = (1, 0) if rng.random() < 0.8 else (2, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            np.lib.format.write_array(file, array, version=version)
        except ValueError:  # names of fields beyond Latin-1
            file = io.BytesIO()
            np.save(file, array)
    return file.getvalue()


def npy(rng: Rng) -> bytes:
    return _npy_bytes(_array(rng, _dtype(rng)), rng)


def npz(rng: Rng) -> bytes:
    way = rng.integers(12)
    if way == 0:
        return _bomb(rng)
    if way == 1:
        return _directory(int(rng.choice([10, 100, 1000, 1000, 1000, 1000, 1000, 110_000])))
    file = io.BytesIO()
    packing = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", int(packing)) as archive:
        warnings.simplefilter("ignore")  # two members of one name
        for _ in range(rng.choice([0, 1, 1, 1, 1, 2, 3])):
            name = str(rng.choice(NAMES)) + str(rng.choice([".npy", ".npy", ".npy", "_", ".txt"]))
            archive.writestr(name, npy(rng) if rng.random() < 0.9 else rng.bytes(50))
    return file.getvalue()


@functools.cache
def _zeros(mebibytes: int) -> bytes:
    """A raw deflate stream of many zeros, quickly: one block again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * mebibytes + zlib.compressobj(9, zlib.DEFLATED, -15).flush()


def _bomb(rng: Rng) -> bytes:
    """A small archive whose member unpacks to gibibytes, or says so, or says little."""
    mebibytes = int(rng.choice([1, 3000, 3900]))
    head = np.lib.format.magic(1, 0) + b"\x76\x00"
    rows = (mebibytes << 20) // 8
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 1), }}".ljust(117) + "\n"
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(head + text.encode()) + packer.flush(zlib.Z_FULL_FLUSH) + _zeros(mebibytes)
    size = int(rng.choice([128 + (mebibytes << 20), 128, 2**32 - 2]))
    return _zip([(b"x.npy", 8, packed, size)])


def _directory(count: int) -> bytes:
    return _zip([(b"%d.npy" % number, 0, b"", 0) for number in range(count)])


def _zip(members: list[tuple[bytes, int, bytes, int]]) -> bytes:
    """An archive as nobody writes it: name, method, packed content and the size that it claims to have."""
    body, listing = [], []
    at = 0
    for name, method, packed, size in members:
        fields = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 0, 0, len(packed), size, len(name), 0)
        body.append(b"PK\3\4" + fields + name + packed)
        listing.append(b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, at) + name)
        at += len(body[-1])
    whole = b"".join(listing)
    end = struct.pack("<HHHHIIH", 0, 0, len(members) % 65536, len(members) % 65536, len(whole), at, 0)
    return b"".join(body) + whole + b"PK\5\6" + end


def csv(rng: Rng) -> bytes:
    rows, columns = int(rng.choice([0, 1, 2, 5, 20])), int(rng.choice([1, 2, 3, 8]))
    form = str(rng.choice(["%.18e", "%g", "%d", "%.3f"]))
    cells = [[form % value for value in row] for row in rng.normal(size=(rows, columns)) * 10]
    if rng.random() < 0.4 and rows:
        cells[rng.integers(rows)][rng.integers(columns)] = str(rng.choice(CELLS))
    if rng.random() < 0.1 and rows:
        cells[rng.integers(rows)].append("4")
    if rng.random() < 0.3:
        cells.insert(0, [str(rng.choice(["a", "x1", '"b"', "", "2019", "# c"])) for _ in range(columns)])
    separator = str(rng.choice([",", ",", ";", "\t", " ", "  ", ", ", "|"]))
    ending = str(rng.choice(["\n", "\n", "\r\n", "\r", "\n\n", "\n# note, with; all\n"]))
    text = ending.join(separator.join(row) for row in cells) + str(rng.choice(["", ending, separator]))
    encoding = str(rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "utf-32"]))
    return text.encode(encoding, errors="replace")


def _tensor(rng: Rng, *, wide: bool = False) -> torch.Tensor:
    array = _array(rng, "f8")
    with np.errstate(all="ignore"):
        tensor = torch.from_numpy(np.ascontiguousarray(np.nan_to_num(array) if rng.random() < 0.8 else array))
    tensor = tensor.to(getattr(torch, str(rng.choice(TENSORS))))
    if wide and rng.random() < 0.3:
        # Few numbers that stand for many.
        tensor = tensor.sum().reshape(1, 1).expand(int(rng.choice([3, 10**5, 2**20])), int(rng.choice([2, 2**14])))
    return tensor


def _weights(rng: Rng) -> dict[str, torch.Tensor]:
    state = {name: value.clone() for name, value in _model(4).state_dict().items()}
    if rng.random() < 0.3:
        state[str(rng.choice(list(state)))] = _tensor(rng)
    return state


def pt(rng: Rng) -> bytes:
    way = rng.integers(10)
    if way == 0:
        return pickle.dumps(_Call(), protocol=int(rng.integers(6)))
    if way == 1:
        return _crafted_pt(rng)
    if way == 2:
        held: Any = _weights(rng)
        held = held if rng.random() < 0.5 else {str(rng.choice(["state_dict", "model", "other"])): held}
    elif way == 3:
        held = [torch.nn.Parameter(torch.ones(2, 4)), {"n": 3, "t": (1.5, None, "text")}, _tensor(rng)]
    elif way == 4:
        held = [torch.eye(3).to_sparse(), {"no": "tensors"}, [], None, 7][rng.integers(5)]
    else:
        held = _tensor(rng, wide=True)
        held = held if rng.random() < 0.5 else {str(rng.choice(NAMES)): held, "more": _tensor(rng)}
    file = io.BytesIO()
    torch.save(held, file, _use_new_zipfile_serialization=bool(rng.random() < 0.75))
    return file.getvalue()


def _crafted_pt(rng: Rng) -> bytes:
    """A checkpoint that asks torch for more than is there."""
    numel = int(rng.choice([1, 3, 4000, 2**20, 2**33]))
    number = pickle.dumps(numel, protocol=2)[2:-1]
    called = [
        b"ctorch\nFloatTensor\n" + number + b"\x85R",
        b"cbuiltins\nbytearray\n" + number + b"\x85R",
        b"ctorch.storage\nUntypedStorage\n" + number + b"\x85R",
        b"cposix\nsystem\n" + number + b"\x85R",
        b"]" * int(rng.choice([100, 3_000_000])),
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
        + b"0X\3\0\0\0cpu" + number + b"tQK\0" + number + b"\x85K\1\x85\x89ccollections\nOrderedDict\n)RtR",
    ][rng.integers(6)]  # fmt: skip
    method = int(rng.choice([0, 0, 0, 8]))
    content = b"\x80\2" + called + b"."
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(content) + packer.flush() if method else content
    members = [(b"a/data.pkl", method, packed, len(content)), (b"a/version", 0, b"3\n", 2)]
    return _zip([*members, (b"a/byteorder", 0, b"little", 6), (b"a/data/0", 0, bytes(12), 12)])


def safetensors(rng: Rng) -> bytes:
    if rng.random() < 0.2:
        return _crafted_safetensors(rng)
    held = _weights(rng) if rng.random() < 0.3 else {}
    for _ in range(rng.integers(3)):
        held[str(rng.choice(NAMES))] = _tensor(rng) if rng.random() < 0.5 else torch.ones(2, 4)
    return save_safetensors({name: tensor.contiguous() for name, tensor in held.items()})


def _crafted_safetensors(rng: Rng) -> bytes:
    """A header that does not describe what follows."""
    length, first = int(rng.choice(ABSURD)), int(rng.choice([0, 1, 8, -1]))
    kind = str(rng.choice(["F32", "F64", "BF16", "F8_E4M3", "F4", "I64", "BOOL", "C64", "X9", "U16", "F8_E8M0"]))
    shape, offsets = [length, int(rng.integers(4))], [first, int(rng.choice([0, 8, 24]))]
    one = json.dumps({"dtype": kind, "shape": shape, "data_offsets": offsets})
    count = int(rng.choice([1, 1, 2, 5000]))
    header = "{" + ",".join(f'"x{rng.integers(count + 1)}":{one}' for _ in range(count)) + "}"
    size = int(rng.choice([len(header), len(header), 2**63, 10**8, 0]))
    return struct.pack("<Q", size) + header.encode() + bytes(int(rng.choice([0, 8, 24])))


WHOLE: dict[str, Callable[[Rng], bytes]] = {"npy": npy, "npz": npz, "csv": csv, "pt": pt, "safetensors": safetensors}

# ------------------------------------------------------------------------------------------------ damage


def _place(rng: Rng, size: int) -> int:
    """Anywhere; often near the beginning or the end, where headers and directories are."""
    way, near = rng.integers(3), min(size, 200)
    return int(rng.integers(max(size, 1)) if way == 0 else rng.integers(max(near, 1)) + (size - near) * (way == 2))


def _flipped(content: bytes, rng: Rng) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        if changed:
            changed[_place(rng, len(changed))] ^= 1 << rng.integers(8)
    return bytes(changed)


def _cut(content: bytes, rng: Rng) -> bytes:
    return content[: _place(rng, len(content))]


def _spliced(content: bytes, rng: Rng) -> bytes:
    at, to, length = (_place(rng, len(content)) for _ in range(3))
    return content[:to] + content[at : at + length % 64] + content[to + (length if rng.random() < 0.5 else 0) % 64 :]


def _filled(content: bytes, rng: Rng) -> bytes:
    at = _place(rng, len(content))
    filling = [rng.bytes(int(rng.integers(1, 40))), b"\xff" * 8, bytes(8), b"(" * 300][rng.integers(4)]
    return content[:at] + filling + content[at + len(filling) * bool(rng.random() < 0.7) :]


def _renumbered(content: bytes, rng: Rng) -> bytes:
    """Numbers of a header that is text become absurd, in the same space where it is fixed."""
    head = content[: len(content) if len(content) < 4000 else 2000]
    found = [match.span() for match in re.finditer(rb"\d+", head)]
    if not found:
        return content
    first, last = found[rng.integers(len(found))]
    number = str(int(rng.choice(ABSURD))).encode()
    spare = re.search(rb" {4,}\n", content)
    if spare is None or spare.start() < last:
        return content[:first] + number + content[last:]
    kept = len(number) - (last - first)
    padding = b" " * max(0, len(spare.group()) - 1 - kept)
    return content[:first] + number + content[last : spare.start()] + padding + content[spare.end() - 1 :]


def _as_is(content: bytes, rng: Rng) -> bytes:
    return content


DAMAGE: dict[str, Callable[[bytes, Rng], bytes]] = {
    "none": _as_is,
    "flip": _flipped,
    "cut": _cut,
    "splice": _spliced,
    "fill": _filled,
    "renumber": _renumbered,
}

# ------------------------------------------------------------------------------------------------ places and readers


def _put(place: str, folder: Path, suffix: str, content: bytes) -> Path:
    path = folder / f"x.{suffix}"
    if place == "odd name":
        path = folder / f"a\nb {chr(0xDCFF)}'\"é.{suffix}"
    if place in ("file", "odd name"):
        path.write_bytes(content)
    elif place == "folder":
        path.mkdir()
    elif place == "pipe":
        os.mkfifo(path)
    elif place == "loop":
        path.symlink_to(path)
    elif place == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    elif place == "device":
        path.symlink_to("/dev/zero")
    elif place == "long":
        path = folder / ("x" * 300 + f".{suffix}")
    elif place == "zero":
        path = folder / f"a\0b.{suffix}"
    return path


PLACES = ("folder", "pipe", "loop", "socket", "device", "long", "zero", "missing", "odd name")


def _model(features: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(features, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def _arrays(path: Path) -> None:
    for array in read_arrays(path).values():
        if array.dtype.kind not in "fiub" or not array.dtype.isnative:
            raise PromiseBroken(f"{array.dtype} came through")


def _simulate(path: Path) -> None:
    batch = make_batch(str(path))
    if batch.ndim != 2 or not np.isfinite(batch).all():
        raise PromiseBroken("not a batch of finite numbers")
    if batch.size < SMALL and 1e-3 < np.abs(batch).max() < 1e3:
        simulate(Spec(width=6, depth=2, input_width=batch.shape[1]), batch, runs=1, metrics=["rank"])


def _kernel(path: Path) -> None:
    batch = read_numbers(path)
    if batch.size < SMALL:
        Batch.of(batch)


def _doctor(path: Path) -> None:
    model = _model(4)
    batch = load_batch(path, model)
    # What a model says about a batch of another shape is its own affair.
    if refusal(model, batch) is None and all(one.numel() < SMALL for one in tensors_in(batch)):
        diagnose(model, batch, stress=False, predict=False)


def _checkpoint(path: Path) -> None:
    load_weights(_model(4), path)


READERS: dict[str, Callable[[Path], None]] = {
    "arrays": _arrays,
    "simulate": _simulate,
    "kernel": _kernel,
    "doctor": _doctor,
    "checkpoint": _checkpoint,
}
_OWN = {"pt": ("doctor", "checkpoint"), "safetensors": ("arrays", "doctor", "checkpoint", "kernel")}
_USUAL = ("arrays", "arrays", "simulate", "kernel", "doctor")

# ------------------------------------------------------------------------------------------------ targets


def content_of(case: dict[str, Any]) -> bytes:
    """The bytes of a case's file."""
    if "content" in case:
        return base64.b64decode(case["content"])
    rng = np.random.default_rng(case["seed"])
    content = WHOLE[case["kind"]](rng)
    for damage in case["damage"]:
        content = DAMAGE[damage](content, rng)
    return content


def draw(kind: str, rng: Rng) -> dict[str, Any]:
    """A file of a kind, mostly damaged, mostly a file, mostly under a name that fits."""
    others = [one for one in WHOLE if one != kind]
    return {
        "kind": kind,
        "seed": int(rng.integers(2**32)),
        "damage": [str(one) for one in rng.choice(list(DAMAGE), size=rng.choice([0, 1, 1, 1, 2]))],
        "place": str(rng.choice(PLACES)) if rng.random() < 0.04 else "file",
        "suffix": str(rng.choice(others)) if rng.random() < 0.05 else kind,
        "reader": str(rng.choice(_OWN.get(kind, _USUAL))),
    }


def check(case: dict[str, Any]) -> None:
    """Arrays, or an error in one line."""
    with TemporaryDirectory() as folder:
        path = _put(case["place"], Path(folder), case["suffix"], content_of(case))
        try:
            READERS[case["reader"]](path)
        except IsometerError as problem:
            told = str(problem)
            if "\n" in told or not told.isprintable() or len(told) > 800:
                raise PromiseBroken(f"an error of several lines: {told[:200]!r}") from problem
            raise


TARGETS = [Target(f"files-{kind}", 2000, 30, functools.partial(draw, kind), check) for kind in WHOLE]
