"""Documents from outside: JSON of a file or of the network as a typed value, or one line that says what is wrong.

What a document must look like is a type: a `msgspec.Struct`, a dataclass, a `TypedDict` or any type made of them. Size
and nesting are bounded before anything is decoded.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from isometer.errors import IsometerError, unknown_name
from isometer.files import read_regular

Shape = TypeVar("Shape")

MOST = 100_000_000
"""Bytes of a document; decoded it may need twenty times as much."""
NESTING = 60
"""Lists and objects within each other; recursive functions have room to spare."""

_SHOWN = 60  # characters of a value in a message
_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # an open one too, so that no text takes long
_OTHER = bytes(set(range(256)) - set(b"[]{}"))
_MISSING = re.compile(r"Object missing required field `(?P<field>.*?)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*?)`")
_EXPECTED = re.compile(r"Expected (?P<expected>.*?)(?:, got `(?P<got>.*?)`)?$", re.DOTALL)
_PLACE = re.compile(r" - at `\$(?P<place>.*?)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def read_json(
    path: str | Path,
    shape: type[Shape],
    *,
    what: str,
    fix: str,
    most: int = MOST,
    error: type[IsometerError] = IsometerError,
) -> Shape:
    """The document in a regular file.

    Args:
        path: path of the file.
        shape: what the document must look like.
        what: the document is, for errors.
        fix: what to do if it is something else.
        most: bytes that are read.
        error: what to raise.

    Returns:
        A value of the shape.

    Raises:
        IsometerError: or `error`, if the file cannot be read, is no JSON or has another shape.

    Example:
        >>> read_json("/dev/null", list[int], what="the list", fix="write one")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: cannot read the list '/dev/null': it is a device; expected a regular file — ...
    """
    try:
        content = read_regular(path, most)
    except OSError as problem:
        raise error(f"cannot read {what} {str(path)!r}: {problem.strerror or problem} — {fix}") from None
    named = f"{what} {str(path)!r}"
    return parse_json(content, shape, what=named, fix=fix, most=most, error=error)


def parse_json(
    content: bytes | str,
    shape: type[Shape],
    *,
    what: str,
    fix: str,
    most: int = MOST,
    error: type[IsometerError] = IsometerError,
) -> Shape:
    """The document in a text.

    Args:
        content: the text, UTF-8 if it is bytes; a byte order mark is passed over.
        shape, what, fix, most, error: as for `read_json`.

    Returns:
        A value of the shape.

    Raises:
        IsometerError: or `error`, if it is too large, nested too deeply, no JSON or of another shape.

    Example:
        >>> parse_json("[1, 2.5]", list[int], what="the list", fix="write one")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the list has 2.5 at [1]; expected a whole number — write one
    """
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    raw = raw.removeprefix(_BOM)
    if len(raw) > most:
        size, limit = len(raw) / 1e6, most / 1e6
        raise error(f"{what} has {size:.4g} MB; expected at most {limit:g} MB — {fix}")
    if _nested_too_deeply(raw):
        raise error(f"{what} is nested too deeply; expected at most {NESTING} nested lists and objects — {fix}")
    try:
        return _decoder(shape).decode(raw)
    except msgspec.ValidationError as problem:
        raise error(_line(str(problem), _anything(raw), shape, what, fix)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        told = "it ends too early" if "truncated" in str(problem) else str(problem)
        raise error(f"{what} is not JSON ({told.removeprefix('JSON is malformed: ')}) — {fix}") from None


def converted(
    value: Any, shape: type[Shape], *, what: str, fix: str, error: type[IsometerError] = IsometerError
) -> Shape:
    """JSON data that was decoded elsewhere, as a value of a shape.

    Args:
        value: None, bools, numbers, text, lists and dicts.
        shape, what, fix, error: as for `read_json`.

    Raises:
        IsometerError: or `error`, if it has another shape.

    Example:
        >>> converted({"a": "b"}, dict[str, int], what="the table", fix="write one")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the table has text at [...]; expected a whole number — write one
    """
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as problem:
        raise error(_line(str(problem), value, shape, what, fix)) from None
    except UnicodeEncodeError:
        raise error(f"{what} contains an unpaired surrogate; expected Unicode text — {fix}") from None
    except RecursionError:
        raise error(f"{what} is nested too deeply; expected a document — {fix}") from None


def _decoder(shape: type[Shape]) -> msgspec.json.Decoder[Shape]:
    if shape not in _DECODERS:
        _DECODERS[shape] = msgspec.json.Decoder(shape)
    return _DECODERS[shape]


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def _nested_too_deeply(raw: bytes) -> bool:
    if raw.count(b"[") + raw.count(b"{") <= NESTING:
        return False
    brackets = np.frombuffer(_STRING.sub(b"", raw).translate(None, _OTHER), dtype=np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    return bool(np.cumsum(np.where(opening, 1, -1)).max(initial=0) > NESTING)


def _line(problem: str, document: Any, shape: Any, what: str, fix: str) -> str:
    """What `msgspec` says, as the library says it: what came, where, what was expected, the fix."""
    found = _PLACE.search(problem)
    place = found["place"].removeprefix(".") if found else ""
    problem = problem[: found.start()] if found else problem
    within = f" in {place}" if place else ""
    if missing := _MISSING.match(problem):
        return f"{what} has no {missing['field']!r}{within}; expected one — {fix}"
    if unknown := _UNKNOWN.match(problem):
        told = f"{what} has the unknown field {_cut(unknown['field'])!r}{within}"
        known = [] if place else _fields(shape)
        return f"{told}; {_nearest(unknown['field'], known)} — {fix}" if known else f"{told}; expected none — {fix}"
    if expected := _EXPECTED.match(problem):
        came = _value(document, found["place"] if found else "", expected["got"])
        return f"{what} {f'has {came} at {place}' if place else f'is {came}'}; expected {_plain(expected)} — {fix}"
    return f"{what}{within}: {problem[:1].lower()}{problem[1:]} — {fix}"


def _fields(shape: Any) -> list[str]:
    try:
        return [field.encode_name for field in msgspec.structs.fields(shape)]
    except TypeError:
        return []


def _nearest(name: str, known: list[str]) -> str:
    return str(unknown_name("field", name, known)).partition("; ")[2]


def _plain(found: re.Match[str]) -> str:
    def words(match: re.Match[str]) -> str:
        return " or ".join(_WORDS.get(one, one) for one in match[1].split(" | "))

    plain = re.sub(r"`([^`]*)`", words, found["expected"])
    return plain.replace(">= ", "of at least ").replace("<= ", "of at most ").replace("length of ", "length ")


def _anything(raw: bytes) -> Any:
    """The document without its shape; None if a number in it is none."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _value(document: Any, place: str, got: str | None) -> str:
    """What stands at a place; its kind where that cannot be said shortly."""
    kind = _WORDS.get(got or "", got or "this")
    if not re.fullmatch(f"(?:{_STEP.pattern})*", place):
        return kind
    value = document
    try:
        for name, index in _STEP.findall(place):
            value = value[int(index)] if index else value[name]
        if isinstance(value, str):
            return _cut(value, quote=True)
        if isinstance(value, list | dict) and not got:
            return f"{_WORDS['array' if isinstance(value, list) else 'object']} of {len(value)}"
        return _cut(json.dumps(value)) if isinstance(value, int | float) else kind
    except (KeyError, IndexError, TypeError, ValueError):  # the last for whole numbers of thousands of digits
        return kind


def _cut(text: str, *, quote: bool = False) -> str:
    short = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return repr(short) if quote else short
