"""JSON spoilt at random: values of other kinds, nested too deeply, too large, and text that is cut or altered."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2.5,
    -0.0,
    1e308,
    5e-324,
    10**9,
    2**53 + 1,
    2**64,
    -(2**63) - 1,
    10**400,
    "",
    "inf",
    "-inf",
    "nan",
    "0",
    "relu",
    "\x00",
    "ü€𝔘",
    "a" * 3000,
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"b": [1, {"c": "d"}]}},
    [1, "a", None, [2.5]],
)
"""Values that stand where others are expected."""
_TEXTS = ("NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, '"\\ud800"', "1.", "'a'", "tru", "0x1", "[1,]", "//")
_BYTES = b'\x00"\\{}[],:\xff\xfe e-+.0123456789ntf'


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document, its root included."""
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value[:8]):  # lists repeat themselves
            found += places(item, (*path, index))
    return found


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The document with another value at a place."""
    if not path:
        return new
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = replaced(copy[key], tuple(rest), new)
    return copy


def removed(value: Any, path: tuple[Any, ...]) -> Any:
    """The document without what is at a place."""
    if not path:
        return None
    *inner, key = path
    holder: Any = value
    for step in inner:
        holder = holder[step]
    holder = dict(holder) if isinstance(holder, dict) else list(holder)
    del holder[key]
    return replaced(value, tuple(inner), holder)


def spoilt(rng: np.random.Generator, value: Any) -> Any:
    """A document with one to three places changed: another value, one of another place, a new or a missing field."""
    for _ in range(int(rng.integers(1, 4))):
        there = places(value)
        path = there[int(rng.integers(len(there)))]
        how = int(rng.integers(6))
        if how <= 2:
            value = replaced(value, path, ODD[int(rng.integers(len(ODD)))])
        elif how == 3:
            value = removed(value, path)
        elif how == 4:
            other = there[int(rng.integers(len(there)))]
            value = replaced(value, path, at(value, other))
        else:
            held = at(value, path)
            odd = ODD[int(rng.integers(len(ODD)))]
            if isinstance(held, dict):
                value = replaced(value, path, {**held, str(rng.choice(["schema", "extra", "", "id"])): odd})
            elif isinstance(held, list):
                value = replaced(value, path, [*held, odd])
    return value


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """What is at a place."""
    for step in path:
        value = value[step]
    return value


def garbled(rng: np.random.Generator, text: str) -> str:
    """The text of a document cut, altered, nested or with something in it that JSON does not have; bytes as Latin-1."""
    raw = bytearray(text.encode())
    how = int(rng.integers(6))
    spot = int(rng.integers(len(raw) + 1))
    if how == 0:
        raw = raw[:spot]
    elif how == 1:
        for _ in range(int(rng.integers(1, 6))):
            raw[int(rng.integers(len(raw)))] = _BYTES[int(rng.integers(len(_BYTES)))]
    elif how == 2:
        deep = int(10 ** rng.uniform(0, 5))
        raw = bytearray(b"[" * deep + bytes(raw) + b"]" * deep * int(rng.integers(2)))
    elif how == 3:
        deep = int(10 ** rng.uniform(0, 5))
        raw[spot:spot] = b'{"a":' * deep
    elif how == 4:
        odd = _TEXTS[int(rng.integers(len(_TEXTS)))].encode()
        colons = [i for i, byte in enumerate(raw) if byte in b":[,"]
        spot = colons[int(rng.integers(len(colons)))] + 1 if colons else 0
        end = next((i for i in range(spot, len(raw)) if raw[i] in b",]}"), len(raw))
        raw[spot:end] = odd
    else:
        raw[spot:spot] = bytes(rng.integers(0, 256, int(rng.integers(1, 20))).astype(np.uint8))
    return raw.decode("latin-1")


def document(rng: np.random.Generator, value: Any, whole: float = 0.1) -> str:
    """The text of a document, most often spoilt, its bytes as Latin-1."""
    kind = rng.uniform()
    if kind < whole:
        return json.dumps(value)
    if kind < 0.7:
        return json.dumps(spoilt(rng, value))
    return garbled(rng, json.dumps(value if rng.uniform() < 0.7 else spoilt(rng, value)))
