"""What became of a run, by its losses alone: did it fail, and when did the loss show it?

A faulty run and its healthy twin start from the same weights and see the same batches, so they agree up to the onset.
The loss *shows* the fault at the first step from which, for `WINDOW` steps, it stays above the twin's by a tenth of the
first loss; losses are medians over the last `WINDOW` steps. The run *failed* if it ends that far above the twin. Nobody
has such a twin in practice: this is earlier than anyone sees it in one curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WINDOW = 9
SHARE = 0.1  # of the first loss
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RunOutcome:
    """Whether a run failed, and the step at which its loss showed the fault (0 if it never did)."""

    failed: bool
    shown: int


def smoothed(losses: Sequence[float]) -> Floats:
    """Medians over the last `WINDOW` steps.

    Example:
        >>> smoothed([1.0, 9.0, 1.0, 1.0])
        array([1., 5., 1., 1.])
    """
    padded = np.concatenate([np.full(WINDOW - 1, np.nan), np.asarray(losses, dtype=np.float64)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)
    found: Floats = np.nanmedian(windows, axis=1)
    return found


def outcome(losses: Sequence[float], twin: Sequence[float]) -> RunOutcome:
    """Of a run beside its healthy twin; a loss that is not finite is above everything.

    Example:
        >>> sound = [2.0 - 0.01 * step for step in range(100)]
        >>> outcome([*sound[:50], *[2.0] * 50], sound)
        RunOutcome(failed=True, shown=55)
        >>> outcome(sound, sound)
        RunOutcome(failed=False, shown=0)
    """
    margin = SHARE * twin[0]
    worse = ~(smoothed(losses) - smoothed(twin) <= margin)
    held = np.lib.stride_tricks.sliding_window_view(np.concatenate([worse, np.full(WINDOW - 1, worse[-1])]), WINDOW)
    starts = np.flatnonzero(held.all(axis=1))
    return RunOutcome(bool(worse[-1]), int(starts[0]) + 1 if starts.size else 0)
