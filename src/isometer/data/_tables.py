"""Tables of numbers as text: commas, semicolons, tabs or spaces between them, with or without a line of names."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from isometer.data._user_file import check_memory
from isometer.errors import IsometerError

_BYTES = 5  # of memory per byte of text: digit and separator become 8 bytes, and arrays grow in steps
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_COMPLEX = re.compile(r"[^a-z]*\d\.?[ij]", re.IGNORECASE)


def read_table(file: BinaryIO, size: int, label: str, limit: int) -> NDArray[np.float64]:
    """The numbers of a table, `(rows, columns)`.

    What stands between them is what the first line has: semicolons, else tabs, else commas, else white space. A first
    line without any number holds names, and is passed over; so are empty lines and what follows a `#`. Text is UTF-8,
    or UTF-16 with a byte order mark.

    Args:
        file: at its beginning.
        size: bytes in it.
        label: its name, for messages.
        limit: bytes that it may take.

    Raises:
        IsometerError: naming the line and the cell that is no number.

    Example:
        >>> read_table(io.BytesIO(b"a;b\\n1;2\\n3;4"), 12, "example", 1000).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
        >>> read_table(io.BytesIO(b"1,2\\n3,x"), 7, "example", 1000)
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: example, line 2, column 2: 'x' is not a number — correct it
    """
    check_memory(label, _BYTES * size, limit, "save it with numpy.save")
    start = file.read(4)
    file.seek(0)
    encoding = next((name for mark, name in _BOMS.items() if start.startswith(mark)), "utf-8")
    # What is no text in that encoding becomes a cell that is no number, in its line.
    text = io.TextIOWrapper(file, encoding=encoding, errors="replace")
    try:
        return _parsed(text, label)
    finally:
        text.detach()


def _parsed(text: io.TextIOWrapper, label: str) -> NDArray[np.float64]:
    first = next(_rows(text, None), None)
    if first is None:
        raise IsometerError(f"{label} holds no numbers; expected rows of them — save it again")
    number, line = first
    separator = next((one for one in ";\t," if one in line), None)
    if separator == "\t" and " " in line.strip() and all(map(_is_number, line.split())):
        separator = None  # columns are aligned by both
    header = _is_header(_cells(line, separator), label)
    text.seek(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that there is no data
            array = np.loadtxt(text, delimiter=separator, ndmin=2, skiprows=number if header else 0, quotechar='"')
    except (ValueError, UserWarning) as problem:
        text.seek(0)
        raise _fault(text, separator, number if header else 0, label, problem) from None
    return array


def _rows(text: Iterator[str], skip: int | None) -> Iterator[tuple[int, str]]:
    """Lines with something in them, and their numbers."""
    for number, line in enumerate(text, 1):
        content = line.partition("#")[0].strip("\r\n \f\v")
        if content.strip() and number > (skip or 0):
            yield number, content


def _cells(line: str, separator: str | None) -> list[str]:
    if separator is None:
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]
    except csv.Error:
        return [cell.strip() for cell in line.split(separator)]


def _is_header(cells: list[str], label: str) -> bool:
    if any(_is_number(cell) or _COMPLEX.match(cell) or "\0" in cell for cell in cells):
        return False
    if any(cells) and not cells[0]:
        raise IsometerError(
            f"{label} names all columns but the first, which looks like an index; expected data only — save it without "
            "the index (pandas: index=False)"
        )
    return any(cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _fault(text: io.TextIOWrapper, separator: str | None, skip: int, label: str, problem: Exception) -> IsometerError:
    """Where the first cell is that is no number, or the first row of another length."""
    width = None
    for number, line in _rows(text, skip):
        cells = _cells(line, separator)
        for column, cell in enumerate(cells, 1):
            if not _is_number(cell):
                return IsometerError(f"{label}, line {number}, column {column}: {_told(cell, separator)}")
        width = width or len(cells)
        if len(cells) != width:
            return IsometerError(
                f"{label}, line {number}: {len(cells)} numbers; expected {width}, as in the lines before — correct it"
            )
    if width is None:
        return IsometerError(f"{label} holds no numbers; expected rows of them — save it again")
    told = " ".join(str(problem).split())[:160]
    return IsometerError(f"{label} cannot be read as a table of numbers: {told} — save it again")


def _told(cell: str, separator: str | None) -> str:
    shown = repr(cell if len(cell) <= 40 else f"{cell[:40]}…")
    if not cell:
        return "no number between two separators — fill it in, or leave the row out"
    if "\0" in cell or "\ufffd" in cell:
        return f"{shown} is not text in UTF-8 — save the file as UTF-8"
    if _COMPLEX.match(cell):
        return f"{shown} is a complex number; expected a real one — save the real part"
    if "," in cell and separator != "," and _is_number(cell.replace(",", ".")):
        return f"{shown} has a decimal comma; expected a point — export it with decimal points"
    return f"{shown} is not a number — correct it"
