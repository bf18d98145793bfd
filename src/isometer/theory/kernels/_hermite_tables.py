"""Hermite coefficients of φ(√q ·) for every variance q, as short series in log q that layers and inputs share."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from isometer.numerics._piecewise_legendre import legendre_rule
from isometer.theory.kernels._length_map import SignalFamily

Floats = NDArray[np.float64]
_DEGREES = 20  # of log q on a panel of length 1
_SEEN = 2  # layers that meet a panel before it gets a table: variances may pass through many
_TAIL = 2e-15  # last coefficients of a series that is short enough, over the length of all


class HermiteTables:
    """The coefficients of one smooth activation.

    Example:
        >>> found = HermiteTables(SignalFamily("sin")).coefficients(np.array([1.0, 1.3]))
        >>> found[:, 1].round(12).tolist()  # √q e^{−q/2}
        [0.606530659713, 0.59522376544]
    """

    def __init__(self, family: SignalFamily) -> None:
        self.family = family
        self._kept: dict[int, Floats | None] = {}
        self._seen: Counter[int] = Counter()

    def coefficients(self, variances: Floats) -> Floats | None:
        """`(variance, degree)`; None where φ is not smooth enough."""
        logs = np.log(variances)
        panels = np.rint(logs).astype(int)
        self._seen.update(np.unique(panels).tolist())
        if min(self._seen[panel] for panel in panels.tolist()) <= _SEEN:
            return self.family.coefficients(variances)
        tables = {int(panel): self._table(int(panel)) for panel in np.unique(panels)}
        known = [table for table in tables.values() if table is not None]
        # series cut at different degrees would make a difference between equal inputs
        if len(known) < len(tables) or len({table.shape[1] for table in known}) > 1:
            return self.family.coefficients(variances)
        out = np.empty((len(variances), known[0].shape[1]))
        for panel, table in zip(tables, known, strict=True):
            some = panels == panel
            out[some] = legendre.legvander(2 * (logs[some] - panel), _DEGREES - 1) @ table
        return out

    def _table(self, panel: int) -> Floats | None:
        if panel not in self._kept:
            self._kept[panel] = self._made(panel)
        return self._kept[panel]

    def _made(self, panel: int) -> Floats | None:
        nodes, _, analysis = legendre_rule(_DEGREES)
        found = self.family.coefficients(np.exp(panel + nodes / 2))
        if found is None:
            return None
        table: Floats = analysis @ found
        size = np.linalg.norm(found, axis=1).max()
        return table if np.linalg.norm(table[-2:], axis=1).max() <= _TAIL * size else None
