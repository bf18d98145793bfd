"""How many of how many, with an interval."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from scipy import stats


@dataclass(frozen=True)
class Share:
    """A count of a number of cases.

    Example:
        >>> print(share([True, True, False]))
        2 of 3 (67%, 21% to 94%)

    Attributes:
        found: how many.
        of: cases.
        low: end of the 95 % interval of Wilson; `nan` without cases.
        high: the other end.
    """

    found: int
    of: int
    low: float
    high: float

    def __str__(self) -> str:
        if not self.of:
            return "0 of 0"
        return f"{self.found} of {self.of} ({self.found / self.of:.0%}, {self.low:.0%} to {self.high:.0%})"


def share(hits: Iterable[bool]) -> Share:
    """The share of cases that are hits.

    Example:
        >>> share([]).of
        0
    """
    known = [*hits]
    if not known:
        return Share(0, 0, math.nan, math.nan)
    ends = stats.binomtest(sum(known), len(known)).proportion_ci(0.95, method="wilson")
    return Share(sum(known), len(known), float(ends.low), float(ends.high))
