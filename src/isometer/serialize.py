"""Values as JSON: the one place that decides how numbers, arrays and what JSON does not have are written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, Literal

from isometer.errors import IsometerError

NUMBER = "$number"  # the only key of a mapping that stands for a number which JSON does not have

Nonfinite = Literal["missing", "text", "sign", "null", "tagged"]

_WRITTEN: dict[Nonfinite, Callable[[float], Any]] = {
    "missing": lambda value: None if math.isnan(value) else repr(value),
    "text": repr,
    "sign": lambda value: "∞" if value > 0 else "-∞",
    "null": lambda value: None,
    "tagged": lambda value: {NUMBER: repr(value)},
}


def json_data(
    value: Any,
    *,
    nonfinite: Nonfinite = "missing",
    digits: int | None = None,
    arrays: Callable[[Any], Any] | None = None,
    what: str = "the value",
) -> Any:
    """A value as JSON data: None, bools, numbers, text, lists and dicts with text as keys.

    Args:
        value: numbers, text, enumerations, paths, arrays and tensors, dataclasses, mappings and sequences, nested.
        nonfinite: how numbers that JSON does not have are written. `"missing"`: nan is None, infinities are `"inf"` and
            `"-inf"` (commands, reports). `"text"`: as `"missing"`, and nan is `"nan"` (ledgers). `"sign"`: infinities
            are `"∞"` and `"-∞"`, nan is refused (records of studies). `"null"`: all are None (pictures). `"tagged"`:
            `{"$number": "inf"}`, which can be read back; keys must be text then (configurations of cells).
        digits: significant digits that are kept; all by default.
        arrays: what stands for an array; lists of its entries by default.
        what: names the value in errors.

    Raises:
        IsometerError: for a value of any other type.

    Example:
        >>> import numpy as np
        >>> json_data({"cosine": np.array([0.5, np.nan]), "growth": np.float32("inf"), "shape": (2, 3)})
        {'cosine': [0.5, None], 'growth': 'inf', 'shape': [2, 3]}
        >>> json_data(float("nan"), nonfinite="text"), json_data(2 / 3, digits=2)
        ('nan', 0.67)
    """

    def each(item: Any) -> Any:
        return json_data(item, nonfinite=nonfinite, digits=digits, arrays=arrays, what=what)

    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str | PurePath):
        return str(value)
    if hasattr(value, "tolist"):
        if hasattr(value, "__len__"):  # else a scalar of NumPy
            return each(value.tolist()) if arrays is None else arrays(value)
        value = value.tolist()
    if isinstance(value, float):
        if not math.isfinite(value):
            return _nonfinite(value, nonfinite, what)
        return value if digits is None else float(f"{value:.{digits}g}")
    if value is None or isinstance(value, int):  # a bool is an int
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: each(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        wrong = next((key for key in value if nonfinite == "tagged" and not isinstance(key, str)), None)
        if wrong is not None:
            raise IsometerError(f"{what} has the key {wrong!r}; expected text — use str({wrong!r})")
        return {str(key): each(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [each(item) for item in value]
    raise IsometerError(
        f"{what} holds a {type(value).__name__}; expected numbers, text, None, lists, mappings or arrays — pass what "
        "the object is made from"
    )


def _nonfinite(value: float, how: Nonfinite, what: str) -> Any:
    if how == "sign" and math.isnan(value):
        raise IsometerError(f"{what} holds nan; expected a number — leave it out where it is not defined")
    return _WRITTEN[how](value)


def json_text(value: Any, *, nonfinite: Nonfinite = "missing", **layout: Any) -> str:
    """A value as JSON text.

    Args:
        value, nonfinite: as in `json_data`.
        layout: options of `json.dumps`, such as `indent` and `sort_keys`.

    Example:
        >>> json_text({"b": float("-inf"), "a": range(2)}, sort_keys=True)
        '{"a": [0, 1], "b": "-inf"}'
    """
    return json.dumps(json_data(value, nonfinite=nonfinite), allow_nan=False, **layout)
