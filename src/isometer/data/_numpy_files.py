"""NumPy's files: what `.npy` and `.npz` say about their arrays is checked before any memory is taken."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, cast

import numpy as np
from numpy.lib import format as npy_format

from isometer.data._user_file import check_memory
from isometer.errors import IsometerError

Array = np.ndarray[Any, np.dtype[Any]]
MAGIC = b"\x93NUMPY"
_HEADER = 1 << 16  # bytes; that of an array of numbers has 128
_DIRECTORY = 1 << 22  # bytes; some ten thousand members
_FAILURES = (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, RuntimeError, NotImplementedError)


@dataclass(frozen=True)
class Wanted:
    """What a caller can take.

    Attributes:
        kinds: of dtypes, as NumPy abbreviates them.
        copy: bytes per number that the caller takes in addition.
        limit: bytes of all arrays.
        names: which arrays of an archive to read, if they are there; all by default.
    """

    kinds: str
    copy: int
    limit: int
    names: Collection[str] | None = None


def read_npy(file: BinaryIO, size: int, label: str, wanted: Wanted) -> Array:
    """The array of an open `.npy` file.

    Args:
        file: at its beginning.
        size: bytes in it.
        label: its name, for messages.
        wanted: what is taken.

    Raises:
        IsometerError: it is damaged, not of numbers, or too large.

    Example:
        >>> data = io.BytesIO()
        >>> np.save(data, np.arange(3))
        >>> read_npy(io.BytesIO(data.getvalue()), len(data.getvalue()), "example", Wanted("i", 0, 1000))
        array([0, 1, 2])
    """
    head = file.read(_HEADER)
    needed = _needed(head, size, label, wanted)
    check_memory(label, needed, wanted.limit, "save fewer rows")
    file.seek(0)
    try:
        return _read(file)
    except (*_FAILURES, MemoryError) as problem:
        raise damaged(label, problem) from None


def read_npz(file: BinaryIO, label: str, wanted: Wanted) -> dict[str, Array]:
    """The arrays of an open `.npz` file, by name.

    Args:
        file: at its beginning.
        label: its name, for messages.
        wanted: what is taken.

    Raises:
        IsometerError: it is damaged, holds something else than arrays of numbers, or is too large.

    Example:
        >>> data = io.BytesIO()
        >>> np.savez(data, x=np.arange(3))
        >>> read_npz(io.BytesIO(data.getvalue()), "example", Wanted("i", 0, 1000))
        {'x': array([0, 1, 2])}
    """
    members = directory(file, label)
    names = {member.filename.removesuffix(".npy"): member for member in members}
    if len(names) < len(members):
        raise IsometerError(f"{label} holds two arrays with the same name; expected distinct names — save it again")
    chosen = [name for name in names if wanted.names is None or name in wanted.names]
    if not chosen:
        raise IsometerError(f"{label} holds {_listed(names)}; expected arrays — save it with numpy.savez")
    labels = {name: f"{label}, array {name[:60]!r}," if len(names) > 1 else label for name in chosen}
    try:
        with zipfile.ZipFile(file) as archive:
            needed = sum(_member_needs(archive, names[name], labels[name], wanted) for name in chosen)
            check_memory(label, needed, wanted.limit, "save fewer rows")
            arrays = {}
            for name in chosen:
                with archive.open(names[name]) as member:
                    arrays[name] = _read(member)
            return arrays
    except IsometerError:
        raise
    except (*_FAILURES, MemoryError) as problem:
        raise damaged(label, problem) from None


def directory(file: BinaryIO, label: str) -> list[zipfile.ZipInfo]:
    """What an archive says that it holds; only ways to pack whose cost is known from the sizes are let through.

    Raises:
        IsometerError: the directory is damaged, absurd or encrypted.
    """
    size = file.seek(0, io.SEEK_END)
    try:
        with zipfile.ZipFile(cast(IO[bytes], _Careful(file))) as archive:
            members = archive.infolist()
    except IsometerError as problem:
        raise IsometerError(f"{label} {problem}") from None
    except Exception as problem:  # zipfile checks little: anything may come of a damaged directory
        raise damaged(label, problem) from None
    for member in members:
        packed = member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1
        if packed or member.header_offset < 0 or member.header_offset + member.compress_size > size:
            what = "encrypted or packed in an unusual way" if packed else "not within the file"
            raise IsometerError(f"{label} is damaged: {member.filename[:60]!r} in it is {what} — save it again")
    file.seek(0)
    return members


def damaged(label: str, problem: BaseException) -> IsometerError:
    """The error about a file that cannot be read to its end."""
    told = " ".join(str(problem).split())[:160] or type(problem).__name__
    return IsometerError(f"{label} is damaged or another kind of file: {told} — save it again")


class _Careful:
    """A file that does not read a directory of any size that it claims to have."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell, self.seekable, self._read = file.seek, file.tell, file.seekable, file.read

    def read(self, size: int = -1) -> bytes:
        if size > _DIRECTORY:
            raise IsometerError(f"has a directory of {size} bytes; expected some arrays — save it again")
        return self._read(size)


def _member_needs(archive: zipfile.ZipFile, member: zipfile.ZipInfo, label: str, wanted: Wanted) -> int:
    with archive.open(member) as file:
        return _needed(file.read(_HEADER), member.file_size, label, wanted)


def _needed(head: bytes, size: int, label: str, wanted: Wanted) -> int:
    """Bytes that an array takes, by its header, which must agree with the size of the file."""
    start = io.BytesIO(head)
    shape, dtype = _header(start, label)
    check_dtype(dtype, label, wanted.kinds)
    if not all(0 <= length < 1 << 63 for length in shape) or len(shape) > 64:
        raise IsometerError(f"{label} is damaged: its header says shape {_shape(shape)} — save it again")
    count = math.prod(shape)
    announced, there = count * dtype.itemsize, size - start.tell()
    if announced != there:
        raise IsometerError(
            f"{label} is damaged: its header says {dtype} of shape {_shape(shape)}, {announced:.6g} bytes; it holds "
            f"{there} — save it again"
            if announced < 1 << 63
            else f"{label} is damaged: its header says shape {_shape(shape)}; it holds {there} bytes — save it again"
        )
    return count * (dtype.itemsize + wanted.copy)


def _header(start: IO[bytes], label: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if start.read(len(MAGIC)) != MAGIC:
        raise IsometerError(f"{label} is not a NumPy file of numbers — save it with numpy.save")
    start.seek(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files of Python 2, and about text in damaged ones
            version = npy_format.read_magic(start)
            if version == (1, 0):
                shape, _, dtype = npy_format.read_array_header_1_0(start)
            elif version == (2, 0):
                shape, _, dtype = npy_format.read_array_header_2_0(start)
            else:  # 3.0 is for names of fields beyond Latin-1, which numbers do not have
                raise ValueError(f"version {version[0]}.{version[1]} of the format is not that of an array of numbers")
    except Exception as problem:  # the header is a Python literal: it fails in all ways that Python's parser can
        raise damaged(label, problem) from None
    return shape, dtype


def _read(file: IO[bytes]) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as for the header
        array: Array = npy_format.read_array(file, allow_pickle=False)
    return array


def check_dtype(dtype: np.dtype[Any], label: str, kinds: str) -> None:
    """Refuse what are no numbers of the kinds wanted.

    Example:
        >>> check_dtype(np.dtype(complex), "'x.npy'", "fiub")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: 'x.npy' holds complex numbers (complex128); expected real ones — save ...
    """
    if dtype.hasobject:
        came, fix = "pickled Python objects, which are never unpickled", "save an array of numbers"
    elif dtype.names is not None or dtype.subdtype is not None:
        fields = ", ".join(dtype.names or ())[:60]
        came, fix = f"records ({fields or dtype})", "save an array of numbers, one field of it for instance"
    elif dtype.kind in kinds:
        return
    elif dtype.kind == "c":
        raise IsometerError(
            f"{label} holds complex numbers ({dtype}); expected real ones — save the real part, or real and imaginary "
            "parts as separate features"
        )
    elif dtype.kind in "SU":
        came, fix = f"text ({dtype})", "convert it with array.astype(float) and save it again"
    elif dtype.kind == "V":
        came, fix = f"raw bytes ({dtype}), as bfloat16 is saved", "convert it with array.astype('float32')"
    else:
        came, fix = str(dtype), "convert it with array.astype(float) and save it again"
    raise IsometerError(f"{label} holds {came}; expected numbers — {fix}")


def _shape(shape: tuple[int, ...]) -> str:
    text = str(shape) if all(abs(length) < 1 << 63 for length in shape) else "beyond any file"
    return text if len(text) <= 60 else f"{text[:60]}…"


def _listed(names: Collection[str]) -> str:
    some = ", ".join(repr(name[:40]) for name in list(names)[:8])
    return f"{some}{', …' if len(names) > 8 else ''}" if names else "nothing"
