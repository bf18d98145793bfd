"""One cell, one netCDF file whose bytes depend on its content alone and carry their own checksum.

The attribute `isometer_cell` begins with a SHA-256 of the whole file, taken with zeros in its own place. A file
that was cut, altered or made by something else is recognised without parsing it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypedDict

import h5netcdf
import h5py
import numpy as np
import xarray

from isometer.documents import parse_json
from isometer.errors import IsometerError

ATTRIBUTE = "isometer_cell"
_ZEROS = b"0" * 64
_AGAIN = "remove the file"
_MARK = re.compile(rb"isometer-cell/1 sha256=([0-9a-f]{64}) key=([0-9a-f]{64})")


class CellFileError(IsometerError):
    """A file is not the whole, unaltered result of the cell it is named after.

    Example:
        >>> checked(b"", "0" * 64)
        Traceback (most recent call last):
        ...
        isometer.run._files.CellFileError: empty
    """


@dataclass(frozen=True)
class Header:
    """What a file says about its cell.

    Args:
        key: content key.
        function: `module:name`.
        code: version of the code.
        configuration: JSON data.
        seed: seed of the cell.
        libraries: versions of the libraries.

    Example:
        >>> Header("ab", "m:f", "1", {"width": 3}, 7, {}).function
        'm:f'
    """

    key: str
    function: str
    code: str
    configuration: dict[str, Any]
    seed: int
    libraries: dict[str, str]


def encoded(dataset: xarray.Dataset, header: Header) -> bytes:
    """A dataset as the bytes of a cell's file.

    Example:
        >>> header = Header("ab" * 32, "m:f", "1", {}, 7, {})
        >>> content = encoded(xarray.Dataset({"x": 1.5}), header)
        >>> decoded(checked(content, "ab" * 32))[0]["x"].item()
        1.5
    """
    record = {
        "function": header.function,
        "code": header.code,
        "configuration": header.configuration,
        "seed": header.seed,
        "libraries": header.libraries,
    }
    mark = f"isometer-cell/1 sha256={_ZEROS.decode()} key={header.key} {json.dumps(record, sort_keys=True)}"
    if ATTRIBUTE in dataset.attrs:
        raise IsometerError(f"the result has an attribute {ATTRIBUTE!r}, which the store needs — drop it")
    content = netcdf(dataset.assign_attrs({ATTRIBUTE: mark}))
    found = list(_MARK.finditer(content))
    if len(found) != 1:
        raise IsometerError(f"the result holds {len(found)} marks of a cell; expected one — do not nest results")
    start, end = found[0].span(1)
    digest = hashlib.sha256(content).hexdigest().encode()  # zeros still stand in the digest's place
    return content[:start] + digest + content[end:]


def netcdf(dataset: xarray.Dataset) -> bytes:
    """A dataset as the bytes of a netCDF file; the same dataset gives the same bytes.

    Example:
        >>> netcdf(xarray.Dataset({"x": 1})) == netcdf(xarray.Dataset({"x": 1}))
        True
    """
    with _lifetimes_fixed():
        return _written(dataset)


@contextlib.contextmanager
def _lifetimes_fixed() -> Iterator[None]:
    """Let nothing that a function of this thread holds die before the end.

    HDF5 lays a file out by when its objects are closed. A profiler that holds the frames of this thread, as the one of
    Dask's workers does, closes them late now and then, and the bytes change. So all frames are held here, always.
    """
    frames: list[FrameType] = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: frames.append(frame) if event == "return" else None)
    try:
        yield
    finally:
        sys.setprofile(before)


def _written(dataset: xarray.Dataset) -> bytes:
    page = io.BytesIO()
    with h5netcdf.File(page, "w") as file:
        try:
            file.dimensions = {str(name): size for name, size in dataset.sizes.items()}
            for name in sorted(map(str, dataset.variables)):  # the dataset's own order must not show in the bytes
                _write_variable(file, name, dataset.variables[name])
            file.attrs.update({str(key): value for key, value in dataset.attrs.items()})
            beside = sorted(str(name) for name in dataset.coords if name not in dataset.dims)
            if beside:
                file.attrs["coordinates"] = " ".join(beside)
        except (TypeError, ValueError) as problem:
            raise IsometerError(
                f"the result cannot be written as netCDF: {problem} — keep variables and attributes to numbers and text"
            ) from problem
    return page.getvalue()


def _write_variable(file: h5netcdf.File, name: str, variable: xarray.Variable) -> None:
    """As xarray writes it, but without its locks, which a Dask worker does not know."""
    data, attributes = np.asarray(variable.values), dict(variable.attrs)
    if data.dtype.kind == "b":
        data, attributes["dtype"] = data.astype(np.int8), "bool"
    elif data.dtype.kind in "OU":
        if not all(isinstance(item, str) for item in data.ravel().tolist()):
            raise ValueError(f"{name!r} holds objects")
        data = data.astype(object)
    elif data.dtype.kind not in "iuf":
        raise ValueError(f"{name!r} has type {data.dtype}")
    kind = h5py.string_dtype() if data.dtype == object else data.dtype
    written = file.create_variable(name, tuple(map(str, variable.dims)), dtype=kind, data=data)
    written.attrs.update(attributes)


def checked(content: bytes, key: str) -> bytes:
    """The content, if it is the whole file of the cell with that key; otherwise a `CellFileError` that says why.

    Example:
        >>> content = encoded(xarray.Dataset(), Header("ab" * 32, "m:f", "1", {}, 7, {}))
        >>> checked(content[:-1], "ab" * 32)
        Traceback (most recent call last):
        ...
        isometer.run._files.CellFileError: truncated or altered: its checksum does not match
    """
    if not content:
        raise CellFileError("empty")
    found = _MARK.search(content)
    if found is None:
        raise CellFileError("foreign or truncated: no mark of a cell")
    start, end = found.span(1)
    digest = hashlib.sha256(content[:start])
    digest.update(_ZEROS)
    digest.update(memoryview(content)[end:])
    if digest.hexdigest().encode() != found.group(1):
        raise CellFileError("truncated or altered: its checksum does not match")
    if found.group(2).decode() != key:
        raise CellFileError(f"foreign: it is the result of cell {found.group(2).decode()[:12]}…")
    return content


def decoded(content: bytes) -> tuple[xarray.Dataset, Header]:
    """Dataset and header of a file that `checked` let through.

    Example:
        >>> content = encoded(xarray.Dataset(), Header("ab" * 32, "m:f", "1", {}, 7, {}))
        >>> decoded(content)[1].seed
        7
    """
    with _readable(), h5netcdf.File(io.BytesIO(content), "r") as file:
        variables = {str(name): _read_variable(variable) for name, variable in file.variables.items()}
        attributes = dict(file.attrs)
        beside = attributes.pop("coordinates", "").split()
        mark = attributes.pop(ATTRIBUTE)
        dataset = xarray.Dataset(variables, attrs=attributes).set_coords(beside)
    return dataset, _header(mark)


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """A checksum says that a file is as it was written, not who wrote it."""
    try:
        yield
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as problem:
        raise CellFileError(f"foreign: not a result of this program ({problem})") from None


def _read_variable(variable: h5netcdf.Variable) -> xarray.Variable:
    data, attributes = np.asarray(variable[...]), dict(variable.attrs)
    if attributes.get("dtype") == "bool":
        del attributes["dtype"]
        data = data.astype(bool)
    elif data.dtype == object:  # text: decoded here and as wide as the widest
        texts = [item.decode() if isinstance(item, bytes) else item for item in data.ravel().tolist()]
        data = np.array(texts, dtype=str).reshape(data.shape)
    return xarray.Variable(variable.dimensions, data, attributes)


def header_of(content: bytes) -> Header:
    """The header alone, without reading the variables.

    Example:
        >>> header_of(encoded(xarray.Dataset(), Header("ab" * 32, "m:f", "1", {}, 7, {}))).code
        '1'
    """
    with _readable(), h5py.File(io.BytesIO(content), "r") as file:
        mark = file.attrs[ATTRIBUTE]
    return _header(mark)


class _HeaderRecord(TypedDict):
    function: str
    code: str
    configuration: dict[str, Any]
    seed: int
    libraries: dict[str, str]


def _header(mark: Any) -> Header:
    with _readable():
        _, _, key, text = mark.split(" ", 3)
    record: _HeaderRecord = parse_json(text, _HeaderRecord, what="foreign: the header", fix=_AGAIN, error=CellFileError)
    return Header(key=key.removeprefix("key="), **record)
