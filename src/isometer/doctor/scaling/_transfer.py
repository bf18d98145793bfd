"""Does the best rate transfer? A small sweep of rates at the base size, at the widest and at the deepest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.doctor.scaling._sizes import Size
from isometer.doctor.training._loop import TrainingCurve
from isometer.errors import IsometerError

Floats = NDArray[np.float64]
FACTORS = tuple(2.0**power for power in range(-3, 4))
"""Factors of the rate that are tried; more on either side where the best is at an end."""
_EXTENSIONS = 4  # times that the grid grows by two


@dataclass(frozen=True, eq=False)
class RateSweep:
    """Losses of short trainings by rate, at several sizes.

    Example:
        >>> losses = np.array([[[3.0], [1.0], [2.0]], [[3.0], [2.0], [1.0]]])
        >>> sweep = RateSweep((Size(64, 2), Size(256, 2)), (0.5, 1.0, 2.0), 1e-3, losses, 40)
        >>> sweep.steps_apart, sweep.transfers, [round(one, 4) for one in sweep.best_rates]
        ((0, 1), True, [0.001, 0.002])

    Attributes:
        sizes: the base size first.
        factors: factors of the rate.
        rate: at factor 1.
        losses: `(size, factor, seed)`, mean of the last quarter of the steps, infinite where training diverged.
        steps: steps of each training.
    """

    sizes: tuple[Size, ...]
    factors: tuple[float, ...]
    rate: float
    losses: Floats
    steps: int

    @property
    def rates(self) -> tuple[float, ...]:
        """The rates that were tried, at the base size."""
        return tuple(self.rate * factor for factor in self.factors)

    @property
    def mean(self) -> Floats:
        """Losses `(size, factor)`, over the seeds."""
        found: Floats = self.losses.mean(axis=-1)
        return found

    @property
    def best(self) -> tuple[int, ...]:
        """Place of the best factor, one per size."""
        return tuple(int(np.argmin(np.where(np.isfinite(row), row, math.inf))) for row in self.mean)

    @property
    def best_rates(self) -> tuple[float, ...]:
        """The best rates."""
        return tuple(self.rate * self.factors[place] for place in self.best)

    @property
    def steps_apart(self) -> tuple[int, ...]:
        """How many steps of the grid each best rate is from that of the base size."""
        return tuple(place - self.best[0] for place in self.best)

    @property
    def transfers(self) -> bool:
        """Whether the best rates are at most one step of the grid from that of the base size."""
        return all(abs(one) <= 1 for one in self.steps_apart)

    @property
    def excess(self) -> tuple[float, ...]:
        """Loss at the base size's best rate, relative to that at the best rate, less 1; one per size."""
        rows = zip(self.mean, self.best, strict=True)
        return tuple(float(row[self.best[0]] / row[place] - 1) for row, place in rows)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "sizes": [{"width": one.width, "depth": one.depth} for one in self.sizes],
            "rate": self.rate,
            "rates": list(self.rates),
            "losses": self.mean.tolist(),
            "best_rates": list(self.best_rates),
            "steps_apart": list(self.steps_apart),
            "excess": list(self.excess),
            "transfers": self.transfers,
            "steps": self.steps,
        }


def swept_sizes(over_widths: Sequence[Size], over_depths: Sequence[Size]) -> tuple[Size, ...]:
    """The base size, the widest and the deepest.

    Example:
        >>> [one.words() for one in swept_sizes([Size(64, 2), Size(256, 2)], [Size(128, 2), Size(128, 8)])]
        ['width 64, depth 2', 'width 256, depth 2', 'width 64, depth 8']
    """
    base = over_widths[0] if over_widths else over_depths[0]
    found = [base]
    if over_widths:
        found.append(over_widths[-1])
    if over_depths:
        found.append(Size(base.width, over_depths[-1].depth))
    return tuple(found)


def final_loss(curve: TrainingCurve) -> float:
    """Mean of the last quarter of the steps, infinite if the run diverged.

    Example:
        >>> final_loss(TrainingCurve((4.0, 3.0, 2.0, 1.0), 4)), final_loss(TrainingCurve((4.0, float("nan")), 4))
        (1.0, inf)
    """
    if curve.diverged:
        return math.inf
    return float(np.mean(curve.losses[-max(1, curve.steps // 4) :]))


def sweep(
    sizes: Sequence[Size],
    factors: Sequence[float],
    rate: float,
    steps: int,
    run: Callable[[Size, float], Sequence[float]],
    *,
    extend: bool,
) -> RateSweep:
    """Losses of all rates at all sizes.

    Args:
        sizes: the base size first.
        factors: factors of the rate.
        rate: at factor 1.
        steps: of each training, for the record.
        run: gives the losses of a size and a factor, one per seed.
        extend: whether to go on where the best rate of a size is the largest or smallest one.

    Raises:
        IsometerError: at some size no rate keeps the loss finite.

    Example:
        >>> found = sweep([Size(8, None)], [1.0, 2.0], 0.1, 5, lambda size, factor: [abs(factor - 4)], extend=True)
        >>> found.best_rates, found.factors
        ((0.4,), (1.0, 2.0, 4.0, 8.0))
    """
    grid = sorted(factors)
    known: dict[tuple[Size, float], Sequence[float]] = {}
    for _ in range(_EXTENSIONS + 1):
        for size in sizes:
            for factor in grid:
                if (size, factor) not in known:
                    known[size, factor] = run(size, factor)
        losses = np.asarray([[list(known[size, factor]) for factor in grid] for size in sizes], dtype=np.float64)
        found = RateSweep(tuple(sizes), tuple(grid), rate, losses, steps)
        ends = [extend and end in found.best for end in (0, len(grid) - 1)]
        if not any(ends):
            break
        step = grid[1] / grid[0] if len(grid) > 1 else 2.0
        grid = [*([grid[0] / step**2, grid[0] / step] if ends[0] else []), *grid,
                *([grid[-1] * step, grid[-1] * step**2] if ends[1] else [])]  # fmt: skip
    lost = [size.words() for size, row in zip(found.sizes, found.mean, strict=True) if not np.isfinite(row).any()]
    if lost:
        raise IsometerError(
            f"no rate from {found.rates[0]:.3g} to {found.rates[-1]:.3g} keeps the loss finite at {lost[0]}; expected "
            "models that train — run isometer doctor on that size, or pass other rates"
        )
    return found
