"""Arrays from a user's file: one reader for every command, with limits that are checked before memory is taken."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from isometer.data._numpy_files import MAGIC, Wanted, check_dtype, damaged, read_npy, read_npz
from isometer.data._tables import read_table
from isometer.data._user_file import check_memory, memory_limit, opened
from isometer.errors import IsometerError

Array = np.ndarray[Any, np.dtype[Any]]
TABLES = (".csv", ".tsv", ".txt")
SUFFIXES = (".npy", ".npz", ".safetensors", *TABLES)
"""How the names of files of arrays end."""
REAL = "fiub"
_TENSORS = 100_000  # in one file


def read_arrays(
    path: str | Path,
    *,
    kinds: str = REAL,
    copy: int = 0,
    names: Collection[str] | None = None,
    limit: int | None = None,
) -> dict[str, Array]:
    """The arrays of a `.npy`, `.npz`, `.safetensors` or `.csv` file by name, in the byte order of this computer.

    Nothing in a file is executed. What it will take in memory is known from its headers, and refused beyond a limit
    before anything is read; `isometer.work.allow` and the environment's `ISOMETER_MEMORY` set another than 2 GiB.

    Args:
        path: path of the file.
        kinds: of dtypes that are taken, as NumPy abbreviates them: real numbers, integers and truth values.
        copy: bytes per number that the caller will take in addition, which count.
        names: which arrays of an archive, if they are there; all by default.
        limit: bytes, instead of the usual limit.

    Returns:
        One array or more; that of a `.npy` file or a table is called `array`.

    Raises:
        IsometerError: the file cannot be read, is damaged or too large, or holds something else.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/x.npy", np.arange(3, dtype=">i2"))
        ...     read_arrays(f"{folder}/x.npy")
        {'array': array([0, 1, 2], dtype=int16)}
    """
    place = Path(path)
    wanted = Wanted(kinds, copy, memory_limit() if limit is None else limit, names)
    with opened(place) as file:
        try:
            arrays = _read(file, place, wanted)
        except OSError as problem:
            raise IsometerError(f"cannot read {str(place)!r}: {problem.strerror or problem} — check it") from None
    return {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in arrays.items()}


def read_numbers(path: str | Path, *, limit: int | None = None) -> NDArray[np.float64]:
    """The only array of a file, in float64, with no number changed by the conversion.

    Args:
        path: path of a file, as for `read_arrays`.
        limit: bytes, likewise.

    Raises:
        IsometerError: as `read_arrays`; there are several arrays; or a number has no equal in float64.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/x.npz", np.array([[True, False]]))
        ...     read_numbers(f"{folder}/x.npz")
        array([[1., 0.]])
    """
    name = repr(Path(path).name)
    arrays = read_arrays(path, copy=8, limit=limit)
    if len(arrays) != 1:
        raise IsometerError(f"{name} holds {len(arrays)} arrays; expected one — save the batch alone")
    (array,) = arrays.values()
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float64, copy=False)
    wide = array.dtype.kind == "f" and array.dtype.itemsize > 8
    if (wide or (array.dtype.kind in "iu" and array.dtype.itemsize == 8)) and not _equal(numbers, array):
        raise IsometerError(
            f"{name} holds {array.dtype} numbers that float64 would round; expected exact ones — save them as float64"
        )
    return numbers


def _equal(numbers: NDArray[np.float64], array: Array) -> bool:
    if array.dtype.kind == "f":
        return bool(((numbers == array) | np.isnan(array)).all())
    # 2^63 and 2^64 are what large integers round up to, and no integers of their own type.
    limits = np.iinfo(array.dtype)
    inside = numbers < float(limits.max)
    return bool(inside.all()) and bool((numbers.astype(array.dtype) == array).all())


def _read(file: BinaryIO, path: Path, wanted: Wanted) -> dict[str, Array]:
    """By how the file begins, and where that says nothing by how its name ends."""
    label, size, suffix = repr(path.name), os.fstat(file.fileno()).st_size, path.suffix.lower()
    start = file.read(len(MAGIC))
    file.seek(0)
    if start == MAGIC:
        return {"array": read_npy(file, size, label, wanted)}
    if suffix in TABLES:
        return {"array": read_table(file, size, label, wanted.limit)}
    if suffix == ".safetensors":
        return _read_safetensors(path, size, label, wanted)
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return read_npz(file, label, wanted)
    if suffix in (".npy", ".npz"):
        raise IsometerError(f"{label} is not a NumPy file of numbers, or damaged — save it with numpy.save")
    raise IsometerError(
        f"{label} is not a file of arrays; expected one that ends in {', '.join(SUFFIXES)} — save it as one of these"
    )


def _read_safetensors(path: Path, size: int, label: str, wanted: Wanted) -> dict[str, Array]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            names = tensor_names(file, label)
            if wanted.names is not None:
                names = [name for name in names if name in wanted.names]
            numbers = sum(_described(file.get_slice(name), label) for name in names)
            # The library refuses headers that do not describe the file exactly: its size is that of all tensors.
            check_memory(label, size + wanted.copy * numbers, wanted.limit, "save fewer tensors")
            arrays = {name: file.get_tensor(name) for name in names}
    except IsometerError:
        raise
    except (SafetensorError, OSError, TypeError, AttributeError, KeyError, ValueError, OverflowError) as problem:
        raise damaged(label, problem) from None
    for array in arrays.values():
        check_dtype(array.dtype, label, wanted.kinds)
    if not arrays:
        raise IsometerError(f"{label} holds no tensors; expected at least one — save it again")
    return arrays


def _described(tensor: Any, label: str) -> int:
    """How many numbers a tensor has; those that NumPy has no type for are refused."""
    kind = tensor.get_dtype()
    if kind.startswith(("BF", "F8", "F6", "F4")):
        raise IsometerError(f"{label} holds {kind}; expected numbers of NumPy's types — save them as float32")
    return math.prod(tensor.get_shape())


def tensor_names(file: Any, label: str) -> list[str]:
    """Names in an open safetensors file, if they are not absurdly many."""
    names = list(file.keys())
    if len(names) > _TENSORS:
        raise IsometerError(f"{label} holds {len(names)} tensors; expected at most {_TENSORS} — save it in parts")
    return names
