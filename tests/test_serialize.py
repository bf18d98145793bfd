"""Values as JSON, one way for all."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isometer.errors import IsometerError, unknown_name
from isometer.serialize import json_data, json_text


class Colour(StrEnum):
    red = "red"


@dataclass(frozen=True)
class Point:
    place: tuple[float, ...]
    colour: Colour


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("missing", [None, "inf", "-inf"]),
        ("text", ["nan", "inf", "-inf"]),
        ("null", [None, None, None]),
        ("tagged", [{"$number": "nan"}, {"$number": "inf"}, {"$number": "-inf"}]),
    ],
)
@pytest.mark.parametrize("kind", [list, np.array, np.float32, torch.tensor])
def test_numbers_that_json_does_not_have(how: Any, expected: list[Any], kind: Any) -> None:
    assert json_data(kind([math.nan, math.inf, -math.inf]), nonfinite=how) == expected


def test_infinities_as_signs() -> None:
    assert json_data([math.inf, -math.inf, 1.0], nonfinite="sign") == ["∞", "-∞", 1.0]
    with pytest.raises(IsometerError, match="the record holds nan"):
        json_data(math.nan, nonfinite="sign", what="the record")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(0.1), 0.1),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.array(2.5), 2.5),
        (torch.tensor(2), 2),
        (np.eye(2), [[1.0, 0.0], [0.0, 1.0]]),
        (Path("a") / "b", "a/b"),
        (Point((1.0, math.nan), Colour.red), {"place": [1.0, None], "colour": "red"}),
        ({1: range(2), Colour.red: None}, {"1": [0, 1], "red": None}),
        (torch.Size((2, 3)), [2, 3]),
    ],
)
def test_values_become_json_of_plain_types(value: Any, expected: Any) -> None:
    found = json_data(value)
    assert found == expected
    assert type(found) is type(expected)
    assert json.loads(json_text(value)) == expected


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, 1j, Point])
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(IsometerError, match="the value holds a "):
        json_data([value])


def test_names_from_many_are_not_all_listed() -> None:
    many = [f"name-{i}" for i in range(40)]
    near = str(unknown_name("thing", "nmae-7", many, fix="`list` shows all"))
    assert near == "unknown thing 'nmae-7'; did you mean 'name-7'? `list` shows all"
    assert str(unknown_name("thing", "q" * 99, many, fix="look")) == f"unknown thing {'q' * 60!r}; look"
    assert str(unknown_name("thing", 3, many)).endswith("expected one of " + ", ".join(many))
