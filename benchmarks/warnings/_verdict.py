"""Limits from development runs, and what warnings are worth at some limits, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest

from benchmarks.warnings._replay import IDS, LEAD, Replay
from benchmarks.warnings._roster import HEALTHY, STEPS, WAYS
from isometer.doctor.watch._rules import RULES

SLOW = STEPS // 4
"""Steps from the onset to what the loss shows: a faster failure leaves hardly any time for a lead of a fifth."""
_FACTORS = tuple(round(1 + 0.1 * i, 1) for i in range(11))


def is_slow(one: Replay) -> bool:
    """Whether a run failed, and slowly enough that it could be announced a fifth of the run ahead."""
    return one.failed and one.shown - one.run.onset >= SLOW


def fitted(development: Sequence[Replay]) -> dict[str, float]:
    """Limits: a factor times the second-highest score of healthy runs, and at least `least` of each rule.

    The factor is midway between 1 and the largest that announces as many failures as 1 does, for healthy runs beyond
    these. Floors of negative scores are taken as they are.
    """
    healthy = np.array([one.false() for one in development if one.run.way == HEALTHY])
    timely = np.array([one.timely() for one in development if is_slow(one)])
    least = np.array([rule.least for rule in RULES])
    second = np.maximum(np.sort(healthy, axis=0)[-2], 0.0)
    limits = lambda factor: np.where(least > 0, np.maximum(least, factor * second), least)  # noqa: E731
    counts = [int((timely >= limits(factor)).any(axis=1).sum()) for factor in _FACTORS]
    largest = max(factor for factor, count in zip(_FACTORS, counts, strict=True) if count >= counts[0])
    chosen = limits((1 + largest) / 2)
    return {name: float(f"{value:.3g}") for name, value in zip(IDS, chosen, strict=True)}


def share(hits: Sequence[bool]) -> dict[str, Any]:
    """A share with its exact interval of 95 %."""
    if not hits:
        return {"runs": 0, "count": 0, "share": None, "interval": None}
    interval = binomtest(sum(hits), len(hits)).proportion_ci(method="exact")
    return {
        "runs": len(hits),
        "count": int(sum(hits)),
        "share": round(sum(hits) / len(hits), 4),
        "interval": [round(float(interval.low), 4), round(float(interval.high), 4)],
    }


def verdict(runs: Sequence[Replay], limits: Mapping[str, float]) -> dict[str, Any]:
    """Shares of failures announced and of healthy runs with a false alarm, and one row per way to fail."""
    at = np.array([limits[name] for name in IDS])
    timely: Callable[[Replay], bool] = lambda one: bool((one.timely() >= at).any())  # noqa: E731
    before: Callable[[Replay], bool] = lambda one: bool(  # noqa: E731
        (one.between(one.run.onset, one.shown - 1) >= at).any()
    )
    false: Callable[[Replay], bool] = lambda one: bool((one.false() >= at).any())  # noqa: E731
    healthy = [one for one in runs if one.run.way == HEALTHY]
    failures = [one for one in runs if one.failed]
    slow = [one for one in failures if is_slow(one)]
    return {
        "announced_in_time": share([timely(one) for one in slow]),
        "announced_before_the_loss": share([before(one) for one in slow]),
        "all_failures_in_time": share([timely(one) for one in failures]),
        "all_failures_before_the_loss": share([before(one) for one in failures]),
        "false_alarms": share([false(one) for one in healthy]),
        "before_the_onset": share([false(one) for one in runs if one.run.way != HEALTHY]),
        "ways": {
            way: {
                "runs": sum(one.run.way == way for one in runs),
                "failed": sum(one.run.way == way for one in failures),
                "slow": sum(one.run.way == way for one in slow),
                "in_time": sum(timely(one) for one in slow if one.run.way == way),
                "before_the_loss": sum(before(one) for one in slow if one.run.way == way),
            }
            for way in WAYS
        },
    }


def record(one: Replay, limits: Mapping[str, float]) -> dict[str, Any]:
    """A run in one line: its truth and its warnings."""
    raised = [[step, name] for step, name in one.raised(limits)]
    truth = {"failed": one.failed, "onset": one.run.onset, "shown": one.shown, "lead": LEAD}
    return ({} if one.run.way == HEALTHY else truth) | {"warnings": raised}
