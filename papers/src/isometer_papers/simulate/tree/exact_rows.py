"""Rows of the tree in whole numbers over one denominator, so that ties with the mean are ties."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Number: TypeAlias = float | Fraction


@dataclass(frozen=True)
class Row:
    """A row with its clusters in the order of the groups: cluster c ends before group `ends[c]` and has `heights[c]`.

    Heights are whole numbers over a denominator that all rows of a layer share.
    """

    ends: tuple[int, ...]
    heights: tuple[int, ...]

    def children(self, counts: Sequence[int]) -> tuple[Row, Row]:
        """The positive and the negative child, over n times the denominator."""
        total, n, start = 0, sum(counts), 0
        for end, height in zip(self.ends, self.heights, strict=True):
            total += sum(counts[start:end]) * height
            start = end
        above = [n * height - total for height in self.heights]
        return self._rectified(above), self._rectified([-height for height in above])

    def _rectified(self, heights: Iterable[int]) -> Row:
        ends: list[int] = []
        merged: list[int] = []
        for end, signed in zip(self.ends, heights, strict=True):
            height = max(signed, 0)
            if merged and merged[-1] == height:  # different heights meet only at zero
                ends[-1] = end
            else:
                ends.append(end)
                merged.append(height)
        return Row(tuple(ends), tuple(merged))

    def by_group(self) -> list[int]:
        """One height per group."""
        heights: list[int] = []
        for end, height in zip(self.ends, self.heights, strict=True):
            heights += [height] * (end - len(heights))
        return heights

    def as_floats(self) -> tuple[list[float], int]:
        """(values per group, e), each value in units of 2^e."""
        split = [float_and_exponent(height) for height in self.heights]
        shift = max(exponent for _, exponent in split)
        values: list[float] = []
        for end, (mantissa, exponent) in zip(self.ends, split, strict=True):
            values += [math.ldexp(mantissa, exponent - shift)] * (end - len(values))
        return values, shift


@dataclass(frozen=True)
class DistinctValues:
    """The input: sorted distinct values as whole numbers over one denominator, and who has which."""

    group: Integers
    counts: list[int]
    row: Row
    denominator: int

    @classmethod
    def of(cls, values: Sequence[Number] | Floats) -> DistinctValues:
        array = np.asarray(values)
        if array.ndim != 1 or array.size == 0:
            raise IsometerError(f"values have shape {array.shape}; expected (n,), one number per sample")
        if array.dtype != object:
            array = numeric(array)
            if not np.isfinite(array).all():
                raise IsometerError(
                    f"values have {int((~np.isfinite(array)).sum())} NaN or infinite entries of {array.size}; "
                    "expected finite numbers — drop those samples"
                )
        # a float is a whole number times a power of 2: nothing is rounded
        exact = [Fraction(value) for value in array.tolist()]
        denominator = math.lcm(*(value.denominator for value in exact))
        whole = [int(value * denominator) for value in exact]
        distinct = sorted(set(whole))
        rank = {value: index for index, value in enumerate(distinct)}
        group = np.array([rank[value] for value in whole], dtype=np.int64)
        counts = np.bincount(group, minlength=len(distinct)).tolist()
        return cls(group, counts, Row(tuple(range(1, len(distinct) + 1)), tuple(distinct)), denominator)


def next_rows(rows: Sequence[Row], counts: Sequence[int]) -> tuple[list[Row], list[tuple[int, int, int]]]:
    """(children with three clusters or more, children with two as (split, side, height)); side 0 is the lower one."""
    many: list[Row] = []
    pairs: list[tuple[int, int, int]] = []
    for row in rows:
        for child in row.children(counts):
            if len(child.ends) > 2:
                many.append(child)
            # a child of one cluster has a constant parent and is zero: it can be dropped
            elif len(child.ends) == 2:
                first, second = child.heights
                pairs.append((child.ends[0] - 1, 0, first) if first else (child.ends[0] - 1, 1, second))
    return many, pairs


def float_and_exponent(whole: int) -> tuple[float, int]:
    """`whole` as float · 2^exponent, whatever its size."""
    # 64 leading bits hold the 53 of a float; float() itself overflows from 1024 bits on
    shift = max(abs(whole).bit_length() - 64, 0)
    return float(whole >> shift), shift


def numeric(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype == object:
        return array
    if array.dtype.kind not in "fiub":
        raise IsometerError(f"values have dtype {array.dtype}; expected real numbers or fractions")
    return array.astype(np.float64)


def check_depth(depth: int) -> None:
    """Refuse a depth below 0."""
    if depth < 0:
        raise IsometerError(f"depth is {depth}; expected a whole number of at least 0")
