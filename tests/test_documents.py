"""Documents from outside: what is refused before it is decoded, and lines that say what is wrong and where."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
import pytest

from isometer.documents import MOST, NESTING, converted, parse_json, read_json
from isometer.errors import IsometerError


class Part(msgspec.Struct):
    id: str
    size: Annotated[int, msgspec.Meta(ge=1, le=10)] = 1


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    parts: list[Part]
    table: dict[str, float | None] = {}


class Loose(TypedDict):
    name: str


def refusal(content: bytes | str, shape: Any = Whole, **more: Any) -> str:
    with pytest.raises(IsometerError) as caught:
        parse_json(content, shape, what="the thing", fix="mend it", **more)
    text = str(caught.value)
    assert text.endswith(" — mend it")
    assert "\n" not in text
    assert len(text) < 300
    return text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"parts": [{"id": 3}]}', "the thing has 3 at parts[0].id; expected text"),
        ('{"parts": [{"id": "a", "size": 11}]}', "the thing has 11 at parts[0].size; expected a whole number of at"),
        ('{"parts": [{}]}', "the thing has no 'id' in parts[0]; expected one"),
        ('{"parts": {}}', "the thing has an object at parts; expected a list"),
        ('{"parts": [], "party": 1}', "the thing has the unknown field 'party'; did you mean 'parts'?"),
        ('{"parts": [], "table": {"a": "b"}}', "the thing has text at table[...]; expected a number or null"),
        ('{"parts": [], "table": {"a": 1e999}}', "the thing in table[...]: number out of range"),
        ('{"parts": [{"id": "a", "size": ' + "9" * 5000 + "}]}", "the thing in parts[0].size: integer value out of"),
        ("[]", "the thing is a list; expected an object"),
        ("null", "the thing is null; expected an object"),
        ("", "the thing is not JSON (it ends too early)"),
        ('{"parts": NaN}', "the thing is not JSON (invalid character (byte 10))"),
        (b'{"parts": [{"id": "\xff"}]}', "the thing is not JSON ('utf-8' codec can't decode byte 0xff"),
        ("\ud800", "the thing is not JSON"),
        ('{"parts": [{"id": "\\ud800"}]}', "the thing is not JSON"),
    ],
)  # fmt: skip
def test_lines_say_what_and_where(text: bytes | str, says: str) -> None:
    assert refusal(text).startswith(says)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_json(b'\xef\xbb\xbf{"name": "a", "more": 1}', Loose, what="", fix="") == {"name": "a"}


@pytest.mark.parametrize("deep", [NESTING, NESTING + 1, 10**6])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"[":', "}]")])
def test_nesting_is_bounded_before_decoding(opening: str, closing: str, deep: int) -> None:
    levels = deep // (2 if opening.startswith("[{") else 1)
    text = opening * levels + "1" + closing * levels
    if levels * (2 if opening.startswith("[{") else 1) <= NESTING:
        parse_json(text, object, what="", fix="")  # type: ignore[type-abstract,unused-ignore]
    else:
        assert "nested too deeply" in refusal(text, object)
    quoted = '["' + "[" * 1000 + '\\"' + "{" * 1000 + '"]'
    assert parse_json(quoted, list[str], what="", fix="")[0].count("[") == 1000


def test_size_is_bounded_and_no_text_takes_long(tmp_path: Path) -> None:
    assert "expected at most 0.001 MB" in refusal(" " * 2000, most=1000)
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(MOST + 1)  # of zeros, which take no room
    with pytest.raises(IsometerError, match="it has more than 100 MB"):
        read_json(path, Whole, what="the thing", fix="mend it")
    begun = time.process_time()
    refusal('"' + '\\"' * 2_000_000 + "[" * 100)
    refusal("[" * 2_000_000)
    refusal("[[]," * 1_000_000)
    assert time.process_time() - begun < 10


def test_values_decoded_elsewhere() -> None:
    assert converted({"name": "a"}, Loose, what="", fix="") == {"name": "a"}
    deep: Any = []
    deep.append(deep)
    for odd in ({"name": 1}, [], deep):
        with pytest.raises(IsometerError, match="the thing"):
            converted(odd, Loose, what="the thing", fix="")


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    """In a process of its own: what hangs could not be stopped here."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    places = [tmp_path / "fifo", tmp_path, tmp_path / "loop", Path("/dev/zero"), tmp_path / "none", tmp_path / "a\0b"]
    code = """
import sys
from isometer.documents import read_json
from isometer.errors import IsometerError
for path in sys.stdin.read().split("\\n"):
    try:
        read_json(path, dict, what="the thing", fix="mend it")
    except IsometerError as problem:
        print(problem)
"""
    given = "\n".join(map(str, places))
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    said = ("a named pipe", "a folder", "symbolic links", "a device", "No such file", "")
    assert len(lines) == len(places)
    assert all(words in line for words, line in zip(said, lines, strict=True)), lines
