"""Readers of the file formats in which the data sets are kept: from files by name to images and labels."""

from __future__ import annotations

import io
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from isometer.data._arrays import read_arrays
from isometer.data._catalog import Facts
from isometer.data._files import Files
from isometer.data._unpickle import read_pickle
from isometer.errors import IsometerError

Bytes = NDArray[np.uint8]
Pair = tuple[Bytes, Bytes]
Reader = Callable[[Files, Facts, str], Pair | None]
"""Images (N, C, H, W) and labels (N,) of a split; None when the files are not there."""


def read_idx(content: bytes, label: str, *, dimensions: int) -> Bytes:
    """An array of bytes in the IDX format of MNIST.

    Args:
        content: the file.
        label: its name, for messages.
        dimensions: 3 for images, 1 for labels.

    Raises:
        IsometerError: if the magic number is another or the file is too short or too long.

    Example:
        >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]), "example", dimensions=1)
        array([7, 8, 9], dtype=uint8)
    """
    magic = bytes([0, 0, 8, dimensions])
    if content[:4] != magic:
        raise IsometerError(
            f"{label} starts with {content[:4].hex() or 'nothing'}; an IDX file of {dimensions} dimensions starts with "
            f"{magic.hex()} — it is another kind of file; obtain it again"
        )
    start = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    # a header that is cut short does not say how long the file should be
    _check_length(content, start + math.prod(shape) if len(content) >= start else start, label)
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def idx_split(files: Files, facts: Facts, split: str) -> Pair | None:
    """The two IDX files of a split."""
    part = "train" if split == "train" else "t10k"
    spellings = [(f"{part}-images{sep}idx3-ubyte", f"{part}-labels{sep}idx1-ubyte") for sep in "-."]
    found = files.read([name for pair in spellings for name in pair])
    for images, labels in spellings:
        if images in found and labels in found:
            pixels = read_idx(found[images], f"{files.place}/{images}", dimensions=3)
            return pixels[:, None], read_idx(found[labels], f"{files.place}/{labels}", dimensions=1)
    return None


def read_cifar_binary(content: bytes, label: str, *, labels: int = 1, images: int = 10_000) -> Pair:
    """Records of `labels` label bytes (the last one counts) and 3072 pixels.

    Raises:
        IsometerError: if the length is not that of `images` records.

    Example:
        >>> pixels, classes = read_cifar_binary(bytes([6]) + bytes(3072), "example", images=1)
        >>> pixels.shape, classes.tolist()
        ((1, 3, 32, 32), [6])
    """
    _check_length(content, images * (labels + 3072), label)
    records = np.frombuffer(content, dtype=np.uint8).reshape(images, labels + 3072)
    return records[:, labels:].reshape(images, 3, 32, 32), records[:, labels - 1]


def read_cifar_pickle(content: bytes, label: str) -> Pair:
    """The pickled dict of CIFAR's Python version, without running it (`isometer.data._unpickle`).

    Raises:
        IsometerError: if it is damaged, hostile or holds other arrays.

    Example:
        >>> import pickle
        >>> batch = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [3, 8]}
        >>> read_cifar_pickle(pickle.dumps(batch), "example")[1].tolist()
        [3, 8]
    """
    record = read_pickle(content, label)
    if not isinstance(record, dict):
        raise IsometerError(f"{label} holds a {type(record).__name__}; expected a dict — obtain it again")
    record = {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in record.items()}
    pixels, classes = record.get("data"), record.get("fine_labels", record.get("labels"))
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != 3072:
        raise IsometerError(f"{label} has no array 'data' of 3072 pixels per image — obtain it again")
    if not _are_labels(classes) or len(classes) != len(pixels):
        raise IsometerError(f"{label} has no 'labels' of 0 to 255, one per image — obtain it again")
    return pixels.reshape(-1, 3, 32, 32), np.array(classes, dtype=np.uint8)


def cifar10_split(files: Files, facts: Facts, split: str) -> Pair | None:
    """The batches of CIFAR-10, binary or pickled."""
    stems = [f"data_batch_{i}" for i in range(1, 6)] if split == "train" else ["test_batch"]
    each = facts.split(split).images // len(stems)
    found = files.read([*stems, *(f"{stem}.bin" for stem in stems)])
    if all(f"{stem}.bin" in found for stem in stems):
        names = [f"{stem}.bin" for stem in stems]
        return _joined([read_cifar_binary(found[n], f"{files.place}/{n}", images=each) for n in names])
    if all(stem in found for stem in stems):
        return _joined([read_cifar_pickle(found[stem], f"{files.place}/{stem}") for stem in stems])
    return None


def cifar100_split(files: Files, facts: Facts, split: str) -> Pair | None:
    """The one file of a split of CIFAR-100, binary or pickled; the fine labels."""
    found = files.read([split, f"{split}.bin"])
    name = f"{split}.bin"
    if name in found:
        images = facts.split(split).images
        return read_cifar_binary(found[name], f"{files.place}/{name}", labels=2, images=images)
    if split in found:
        return read_cifar_pickle(found[split], f"{files.place}/{split}")
    return None


def read_sheet(content: bytes, label: str, *, shape: tuple[int, int, int], images: int) -> Bytes:
    """A PNG sheet of which each row is one image, its pixels from left to right and top to bottom.

    The size is checked before anything is decoded, so a sheet that would fill the memory is refused.

    Args:
        content: the PNG file.
        label: its name, for messages.
        shape: (3, H, W) of one image.
        images: how many rows.

    Raises:
        IsometerError: if it is no whole PNG of that size.
    """
    from PIL import Image, UnidentifiedImageError

    channels, height, width = shape
    try:
        with warnings.catch_warnings():
            # Pillow only warns up to twice its limit
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            sheet = Image.open(io.BytesIO(content), formats=["PNG"])  # the file reaches no other decoder
        if sheet.size != (height * width, images) or sheet.mode != "RGB":
            size, wanted = f"{sheet.size[0]}×{sheet.size[1]}", f"{height * width}×{images}"
            raise IsometerError(
                f"{label} is {sheet.mode} of {size}; expected RGB of {wanted} — it is another file; obtain it again"
            )
        pixels = np.asarray(sheet, dtype=np.uint8)
    except IsometerError:
        raise
    except (
        UnidentifiedImageError,
        OSError,
        SyntaxError,
        ValueError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as problem:
        raise IsometerError(f"{label} is not a complete PNG sheet: {problem} — obtain it again") from None
    return pixels.reshape(images, height, width, channels).transpose(0, 3, 1, 2)


def sheet_split(files: Files, facts: Facts, split: str) -> Pair | None:
    """The PNG sheets and label JSON of the npm package of CIFAR-10; the package spells its labels so."""
    stems = [f"data_batch_{i}.png" for i in range(1, 6)] if split == "train" else ["test_batch.png"]
    labels = f"{split}_lables.json"
    found = files.read([*stems, labels])
    if len(found) < len(stems) + 1:
        return None
    try:
        classes = json.loads(found[labels])
    except ValueError:
        classes = None
    if not _are_labels(classes):
        raise IsometerError(f"{files.place}/{labels} is not a list of labels from 0 to 255 — obtain it again")
    each = facts.split(split).images // len(stems)
    sheets = [read_sheet(found[s], f"{files.place}/{s}", shape=facts.shape, images=each) for s in stems]
    return np.concatenate(sheets), np.array(classes, dtype=np.uint8)


def read_npz(path: Path, facts: Facts, split: str) -> Pair:
    """A `.npz` file of this cache (`train_images`, …) or of Keras (`x_train`, …); pickles inside are refused.

    Raises:
        IsometerError: if it is damaged or holds other arrays.
    """
    label = str(path)
    names, keras = (f"{split}_images", f"{split}_labels"), (f"x_{split}", f"y_{split}")
    try:
        arrays = read_arrays(path, names=(*names, *keras))
        ours = names[0] in arrays
        if missing := [name for name in (names if ours else keras) if name not in arrays]:
            raise IsometerError(f"it holds no array {missing[0]!r} — it is another file")
    except IsometerError as problem:
        raise IsometerError(
            f"cannot read {label!r} as images and labels: {problem}; remove it and run `isometer data get {facts.name}`"
        ) from None
    images, labels = (arrays[name] for name in (names if ours else keras))
    channels, height, width = facts.shape
    if not ours and channels > 1 and images.shape[1:] == (height, width, channels):
        images = images.transpose(0, 3, 1, 2)  # Keras keeps channels last
    whole = images.dtype == np.uint8 and np.issubdtype(labels.dtype, np.integer)
    if not whole or images.size == 0 or images.ndim == 0:
        raise IsometerError(f"{label!r} holds {images.dtype} images; expected uint8 — remove it and obtain it again")
    if images.size != len(images) * math.prod(facts.shape) or not ((labels >= 0) & (labels < 256)).all():
        raise IsometerError(f"{label!r} holds images of shape {images.shape[1:]}; expected {facts.shape} — remove it")
    return images.reshape(-1, *facts.shape), labels.reshape(-1).astype(np.uint8)


READERS: dict[str, tuple[Reader, ...]] = {
    "idx": (idx_split,),
    "cifar10": (cifar10_split, sheet_split),
    "cifar100": (cifar100_split,),
}


def _joined(parts: list[Pair]) -> Pair:
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _are_labels(value: Any) -> TypeGuard[list[int] | Bytes]:
    if isinstance(value, np.ndarray):
        return value.dtype == np.uint8 and value.ndim == 1
    return isinstance(value, list) and all(isinstance(v, int) and 0 <= v < 256 for v in value)


def _check_length(content: bytes, expected: int, label: str) -> None:
    if len(content) != expected:
        what = "truncated" if len(content) < expected else "too long"
        raise IsometerError(f"{label} has {len(content)} bytes; expected {expected} — it is {what}; obtain it again")
