"""Small data sets written as files in every format, and a catalogue that expects them."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isometer.data import CATALOG, load
from isometer.data._catalog import SplitFacts

Pair = tuple[np.ndarray, np.ndarray]
Sets = dict[str, Pair]


def small(name: str, monkeypatch: pytest.MonkeyPatch, *, checksums: bool = True) -> Sets:
    """Random images of the right shape, 20 for training, 10 for testing, which the catalogue now takes for `name`."""
    facts = CATALOG[name]
    rng = np.random.default_rng(len(name))
    sets, splits = {}, {}
    for split, count in (("train", 20), ("test", 10)):
        images = rng.integers(0, 256, (count, *facts.shape), dtype=np.uint8)
        labels = rng.permutation(np.arange(count, dtype=np.uint8) % 10)
        sets[split] = images, labels
        counts = tuple(int((labels == c).sum()) for c in range(len(facts.classes)))
        sums = [hashlib.sha256(array.tobytes()).hexdigest() if checksums else None for array in (images, labels)]
        means = None if checksums else tuple(float(images[:, c].mean() / 255) for c in range(facts.shape[0]))
        splits[split] = SplitFacts(counts, sums[0], sums[1], means)
    monkeypatch.setitem(CATALOG, name, dataclasses.replace(facts, **splits))
    return sets


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder: Path, sets: Sets, *, packed: bool = False, dot: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, part in (("train", "train"), ("test", "t10k")):
        images, labels = sets[split]
        for kind, rank, array in (("images", 3, images[:, 0]), ("labels", 1, labels)):
            name = f"{part}-{kind}{'.' if dot else '-'}idx{rank}-ubyte"
            content = idx_bytes(array)
            (folder / (name + (".gz" if packed else ""))).write_bytes(gzip.compress(content) if packed else content)


def _files_of(sets: Sets, split: str) -> list[tuple[str, np.ndarray, np.ndarray]]:
    images, labels = sets[split]
    if split == "test":
        return [("test_batch", images, labels)]
    pairs = zip(np.split(images, 5), np.split(labels, 5), strict=True)
    return [(f"data_batch_{i}", x, y) for i, (x, y) in enumerate(pairs, 1)]


def cifar10_files(sets: Sets, form: str) -> dict[str, bytes]:
    """`bin`, `py` (pickles of the present NumPy) or `png` (the sheets of the npm package)."""
    files = {}
    for split in ("train", "test"):
        for stem, images, labels in _files_of(sets, split):
            if form == "bin":
                rows = [bytes([label]) + image.tobytes() for image, label in zip(images, labels, strict=True)]
                files[f"{stem}.bin"] = b"".join(rows)
            elif form == "py":
                record = {b"data": images.reshape(len(images), 3072), b"labels": labels.tolist(), b"batch_label": b"x"}
                files[stem] = pickle.dumps(record, protocol=2)
            else:
                sheet = Image.fromarray(images.transpose(0, 2, 3, 1).reshape(len(images), 1024, 3))
                file = io.BytesIO()
                sheet.save(file, "PNG")
                files[f"{stem}.png"] = file.getvalue()
        if form == "png":
            files[f"{split}_lables.json"] = json.dumps(sets[split][1].tolist()).encode()
    return files


def cifar100_files(sets: Sets, form: str) -> dict[str, bytes]:
    files = {}
    for split in ("train", "test"):
        images, labels = sets[split]
        if form == "bin":
            rows = [bytes([99, label]) + image.tobytes() for image, label in zip(images, labels, strict=True)]
            files[f"{split}.bin"] = b"".join(rows)
        else:
            record = {
                b"data": images.reshape(len(images), 3072),
                b"fine_labels": labels.tolist(),
                b"coarse_labels": [0],
            }
            files[split] = pickle.dumps(record, protocol=4)
    return files


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def write_archive(path: Path, files: dict[str, bytes], *, prefix: str = "package/") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(prefix + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def python2_pickle(images: np.ndarray, labels: list[int]) -> bytes:
    """The dict as Python 2 with an old NumPy wrote it, opcode by opcode: the form of the published files."""
    data = images.tobytes()
    assert all(value < 256 for value in (len(images), *labels))
    return b"".join(
        (
            b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04",
            b"K\x00\x85q\x05U\x01bq\x06\x87q\x07Rq\x08(K\x01K" + bytes([len(images)]) + b"M\x00\x0c\x86q\x09",
            b"cnumpy\ndtype\nq\x0aU\x02u1q\x0bK\x00K\x01\x87q\x0cRq\x0d(K\x03U\x01|q\x0eNNNJ\xff\xff\xff\xff",
            b"J\xff\xff\xff\xffK\x00tq\x0fb\x89T" + struct.pack("<i", len(data)) + data + b"q\x10tq\x11b",
            b"U\x06labelsq\x12]q\x13(" + b"".join(b"K" + bytes([label]) for label in labels) + b"eu.",
        )
    )


def holds(root: Path, name: str, sets: Sets) -> None:
    """The file is there, nothing else is, and it has the right content."""
    assert [path.name for path in root.iterdir()] == [f"{name}.npz"]
    for split, (images, labels) in sets.items():
        found = load(name, split=split, root=root)
        assert np.array_equal(found.images, images)
        assert np.array_equal(found.labels, labels)
