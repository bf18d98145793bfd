"""Cells and jobs: what is to be computed, as values with a content key."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import xarray

from isometer.errors import IsometerError
from isometer.run._code import code_version, function_named, name_of
from isometer.run._combine import combine_grid
from isometer.run._seeds import seed_of
from isometer.serialize import NUMBER, json_data

_DIGEST = re.compile(r"[0-9a-f]{64}")
ARRAY = "$array"  # stands for an array in JSON; its value is the digest of the array
Coordinate = str | int | float | bool


def recorded(value: Any) -> Any:
    """A configuration as JSON data: arrays become their digests, infinities are spelt out.

    Example:
        >>> recorded({"width": 64, "gamma": float("inf"), "x": np.zeros(2)})
        {'width': 64, 'gamma': {'$number': 'inf'}, 'x': {'$array': '5ef0...'}}
    """
    return json_data(value, nonfinite="tagged", arrays=_by_digest, what="the configuration")


def _by_digest(array: Any) -> dict[str, str]:
    if not isinstance(array, np.ndarray):
        raise IsometerError(f"the configuration holds a {type(array).__name__}; expected an array — use its numpy()")
    return {ARRAY: array_digest(array)}


def restored(value: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    """What `recorded` was given, arrays looked up by digest.

    Example:
        >>> restored({"gamma": {"$number": "inf"}}, {})
        {'gamma': inf}
    """
    if isinstance(value, dict):
        if set(value) == {ARRAY}:
            return arrays[_digest_of(value[ARRAY])]
        if set(value) == {NUMBER}:
            return _number_of(value[NUMBER])
        return {key: restored(item, arrays) for key, item in value.items()}
    return [restored(item, arrays) for item in value] if isinstance(value, list) else value


def _digest_of(value: Any) -> str:
    if not isinstance(value, str) or _DIGEST.fullmatch(value) is None:
        raise IsometerError(f"a configuration names the array {value!r:.60}; expected a SHA-256 — it was edited")
    return value


def _number_of(value: Any) -> float:
    if value not in ("inf", "-inf", "nan"):
        raise IsometerError(f"a configuration has the number {value!r:.60}; expected inf, -inf or nan — it was edited")
    return float(value)


def arrays_in(value: Any) -> Iterable[np.ndarray[Any, Any]]:
    """The arrays of a configuration."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from arrays_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from arrays_in(item)


_digests: dict[int, tuple[weakref.ref[Any], str]] = {}  # of arrays that cannot change, shared by many cells


def array_digest(array: np.ndarray[Any, Any]) -> str:
    """SHA-256 of type, shape and values."""
    known = _digests.get(id(array))
    if known is not None and known[0]() is array:  # the id of an array that is gone may be another's now
        return known[1]
    if array.dtype.kind not in "biufc":
        raise IsometerError(f"a configuration's array has type {array.dtype}; expected numbers — convert it")
    # one digest for either byte order and any strides
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    head = f"{little.dtype.str}{list(array.shape)}".encode()
    digest = hashlib.sha256(head + little.tobytes()).hexdigest()
    if not array.flags.writeable:
        _digests[id(array)] = (weakref.ref(array), digest)
    return digest


def canonical(value: Any) -> str:
    """One text per content: sorted keys, no spaces.

    Example:
        >>> canonical({"b": 1, "a": [0.5, None]})
        '{"a":[0.5,null],"b":1}'
    """
    return json.dumps(recorded(value), sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Cell:
    """One point of a grid and everything its result depends on.

    Args:
        coordinates: its place on the grid: name → number or text.
        configuration: what the function gets: numbers, text, None, lists, mappings and arrays; the coordinates by
            default.

    Example:
        >>> cell = Cell({"width": 64}, {"width": 64, "depth": 10})
        >>> cell.label, cell.seed == Cell({"x": 1}, {"depth": 10, "width": 64}).seed
        ('width=64', True)
    """

    coordinates: Mapping[str, Coordinate]
    configuration: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.configuration:
            object.__setattr__(self, "configuration", dict(self.coordinates))

    @cached_property
    def text(self) -> str:
        """The configuration in canonical form."""
        return canonical(self.configuration)

    @cached_property
    def seed(self) -> int:
        """From the configuration alone."""
        return seed_of(self.text)

    @property
    def label(self) -> str:
        """The coordinates, for people."""
        return " ".join(f"{name}={value}" for name, value in self.coordinates.items()) or "the only cell"

    def key(self, function: str, code: str) -> str:
        """SHA-256 of function, version of the code and configuration."""
        return hashlib.sha256(f"{function}\n{code}\n{self.text}".encode()).hexdigest()


Function = Callable[..., xarray.Dataset]
Combine = Callable[["Job", Mapping[str, xarray.Dataset]], xarray.Dataset]


@dataclass(frozen=True)
class Job:
    """A grid of cells, the function that computes one, and how the results combine.

    Args:
        function: a pure function `(configuration, seed)` of a module, or `(configuration, seed, checkpoint)` for long
            cells, that returns an `xarray.Dataset`.
        axes: the grid: name → values, in the order of the dimensions.
        cells: one per point of the grid, in its order; the grid itself by default.
        combine: `(job, results by label) -> Dataset`; a cell that failed is absent from the results. By default the
            axes become dimensions.
        notes: JSON data kept beside the job, such as the command that made it.

    Example:
        >>> from isometer.run.example import power
        >>> job = Job(power, {"base": [2, 3], "exponent": [1, 2, 3]})
        >>> len(job.cells), job.cells[-1].label, job.function_name
        (6, 'base=3 exponent=3', 'isometer.run.example:power')
    """

    function: Function
    axes: Mapping[str, Sequence[Coordinate]]
    cells: tuple[Cell, ...] = ()
    combine: Combine = combine_grid
    notes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        points = grid_points(self.axes)
        # from the points, where NumPy's scalars have become Python's
        plain_axes = {name: list(dict.fromkeys(point[name] for point in points)) for name in self.axes}
        object.__setattr__(self, "axes", plain_axes)
        if not self.cells:
            object.__setattr__(self, "cells", tuple(Cell(point) for point in points))
        elif [dict(cell.coordinates) for cell in self.cells] != points:
            raise IsometerError(f"the job has {len(self.cells)} cells; expected the {len(points)} points of its grid")
        name_of(self.function), name_of(self.combine)  # raises for what a worker could not find

    @cached_property
    def function_name(self) -> str:
        """`module:name`."""
        return name_of(self.function)

    @cached_property
    def code(self) -> str:
        """Version of the code that the function runs; see `code_version`."""
        return code_version(self.function)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The content key of every cell, in order. Cells that compute the same thing share one."""
        return tuple(cell.key(self.function_name, self.code_of(cell)) for cell in self.cells)

    def code_of(self, cell: Cell) -> str:
        """Version of the code that computes a cell: that of the job, unless the cell is observed as well."""
        return code_version(self.function, cell.configuration)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays of all configurations by digest."""
        # by identity first: an array that many cells share is digested once
        found = {id(array): array for cell in self.cells for array in arrays_in(cell.configuration)}
        return {array_digest(array): array for array in found.values()}

    def to_record(self) -> dict[str, Any]:
        """The job as JSON data, arrays by digest.

        Example:
            >>> from isometer.run.example import power
            >>> sorted(Job(power, {"base": [2]}).to_record())
            ['axes', 'cells', 'code', 'combine', 'function', 'notes']
        """
        return {
            "function": self.function_name,
            "code": self.code,
            "combine": name_of(self.combine),
            "axes": {name: recorded(list(values)) for name, values in self.axes.items()},
            "cells": [recorded(cell.configuration) for cell in self.cells],
            "notes": recorded(self.notes),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Job:
        """The job that `to_record` described, with the function as it is now.

        Example:
            >>> from isometer.run.example import power
            >>> job = Job(power, {"base": [2, 5]})
            >>> Job.from_record(job.to_record(), {}).keys == job.keys
            True
        """
        axes = {name: restored(values, arrays) for name, values in record["axes"].items()}
        configurations = [restored(item, arrays) for item in record["cells"]]
        notes = restored(record["notes"], arrays)
        if not all(isinstance(item, Mapping) for item in (*configurations, notes)):
            raise IsometerError("the job has a cell that is a number; expected a mapping — it was edited")
        count = math.prod(map(len, axes.values()))  # before a list of them is made
        if count != len(configurations):
            raise IsometerError(f"the job has {len(configurations)} cells for {count} points; it was edited")
        points = grid_points(axes)
        cells = tuple(Cell(point, item) for point, item in zip(points, configurations, strict=True))
        function, combine = function_named(record["function"]), function_named(record["combine"])
        return cls(function, axes, cells, combine, notes)


def grid_points(axes: Mapping[str, Sequence[Coordinate]]) -> list[dict[str, Coordinate]]:
    """Every point of a grid, the last axis fastest.

    Example:
        >>> grid_points({"a": [1, 2], "b": ["x"]})
        [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    if not axes:
        raise IsometerError("the grid is empty; expected at least one axis — give width=64,128,256, for example")
    for name, values in axes.items():
        if isinstance(values, str) or len(values) == 0:
            raise IsometerError(f"the axis {name!r} of the grid has no values; expected a list — give {name}=…")
        for value in values:
            if not isinstance(value, str | int | float | np.integer | np.floating):
                raise IsometerError(f"the axis {name!r} holds {value!r}; expected numbers or text")
        if len(set(values)) != len(values):
            twice = next(value for i, value in enumerate(values) if value in values[:i])
            raise IsometerError(f"the axis {name!r} of the grid has {twice!r} twice — drop one")
        kinds = {isinstance(value, str) for value in values}
        if len(kinds) > 1:
            raise IsometerError(f"the axis {name!r} mixes numbers and text — make it one of them")
    plain_axes = [[v.item() if isinstance(v, np.generic) else v for v in values] for values in axes.values()]
    return [dict(zip(axes, point, strict=True)) for point in itertools.product(*plain_axes)]
