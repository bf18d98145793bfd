"""What a network at infinite width takes: memory and time, before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from isometer.spec import Act, Convolution, Norm, Pool, Shape, Step
from isometer.spec._steps import walk as every_step
from isometer.theory.networks._layout import Layout
from isometer.work import Work, check_work

# Measured on one core of a common computer, and rounded up.
_ENTRY = 1e-8  # seconds per entry of a matrix and pass over it
_SERIES = 400  # passes that an activation takes
_STEP = 2e-4  # seconds whatever the batch
_HELD = 14  # matrices at a time
_PAIR = 1e-4  # seconds per pair of rows of an expectation that is integrated or sampled
_TRIPLE = 1e-6  # seconds per row and pair of rows of a Jacobian that is averaged
_POINTS = 1 << 17  # bytes per row of the points of sampled expectations
_JACOBIANS = 6e8  # bytes


def network_work(layers: Sequence[tuple[tuple[Step, ...], Shape]], layout: Layout, *, slopes: bool, kept: bool) -> Work:
    """Of a batch of a network's own input shape.

    Example:
        >>> layers = [((Act("relu"),), Shape(8))] * 10
        >>> network_work(layers, Layout(100), slopes=False, kept=False).seconds < 10
        True
    """
    seconds, largest, total, sampled = 0.1, 0.0, 0.0, 0.0
    axes = layout.axes
    for steps, shape in layers:
        wide = max(math.prod(axes), shape.positions)
        entries = float(layout.samples) ** 2 * (wide**2 if layout.full else wide)
        axes = shape.axes
        passes = 0.0
        for step in every_step(steps):
            passes += _SERIES if isinstance(step, Act) else 4
            passes += 4 * math.prod(step.kernel) if isinstance(step, Convolution) else 0
            seconds += _STEP
            if (isinstance(step, Norm) and step.over == "batch") or (isinstance(step, Pool) and step.by == "max"):
                rows = layout.samples * (wide if layout.full else 1)
                seconds += _PAIR * rows**2 + (_TRIPLE * rows**3 if slopes else 0.0)
                sampled = max(sampled, _POINTS * rows + (_JACOBIANS if slopes else 0.0))
        seconds += entries * passes * _ENTRY * (2 if slopes else 1)
        largest, total = max(largest, entries), total + entries
    held = 8.0 * (_HELD * largest + (total * (3 if slopes else 1) if kept else 0.0))
    return Work(held + sampled + (1 << 24), seconds)


def check_network_work(
    layers: Sequence[tuple[tuple[Step, ...], Shape]], layout: Layout, *, slopes: bool, kept: bool = False
) -> None:
    """Refuse a batch that takes more than is allowed."""

    def work(samples: int) -> Work:
        own = Layout(samples, layout.axes, layout.full)
        return network_work(layers, own, slopes=slopes, kept=kept)

    check_work("the network at infinite width", work(layout.samples), {"samples": (layout.samples, work)})
