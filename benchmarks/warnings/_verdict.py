"""Limits from development runs, and what warnings are worth at some limits, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from scipy.stats import binomtest

from benchmarks.warnings._replay import IDS, LEAD, Floats, Replay
from benchmarks.warnings._roster import HEALTHY, STEPS
from isometer.doctor.watch._rules import RULES

SLOW = STEPS // 4
"""Steps from the onset to what the loss shows: a faster failure leaves hardly any time for a lead of a fifth."""
MARGIN = 1.25
_LIMITS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)
_FOLDS = 8


def is_slow(one: Replay) -> bool:
    """Whether a run failed, and slowly enough that it could be announced a fifth of the run ahead."""
    return one.failed and one.shown - one.run.onset >= SLOW


def fitted(development: Sequence[Replay]) -> dict[str, float]:
    """Limits: of 1, 1.5, 2 and so on the first that leaves healthy runs a margin of a quarter, at least the rule's own.

    Failing runs have no say in it.
    """
    highest = np.max([one.false() for one in development if one.run.way == HEALTHY], axis=0)
    return {
        rule.id: max(rule.least, next(limit for limit in _LIMITS if limit >= MARGIN * score))
        for rule, score in zip(RULES, highest, strict=True)
    }


def cross_validated(development: Sequence[Replay]) -> dict[str, Any]:
    """The verdict if every eighth of the networks is judged by limits that were fitted to the others."""
    names = sorted({one.run.network.name for one in development}, key=lambda name: sha256(name.encode()).hexdigest())
    fold = {name: index % _FOLDS for index, name in enumerate(names)}
    limits = [fitted([one for one in development if fold[one.run.network.name] != part]) for part in range(_FOLDS)]
    return verdict(development, lambda one: limits[fold[one.run.network.name]])


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


def verdict(runs: Sequence[Replay], limits_of: Callable[[Replay], Mapping[str, float]]) -> dict[str, Any]:
    """Shares of failures announced and of healthy runs with a false alarm, and one row per way to fail."""

    def high(one: Replay, scores: Floats) -> bool:
        limits = limits_of(one)
        return bool((scores >= np.array([limits[name] for name in IDS])).any())

    timely: Callable[[Replay], bool] = lambda one: high(one, one.timely())  # noqa: E731
    before: Callable[[Replay], bool] = lambda one: high(one, one.between(one.run.onset, one.shown - 1))  # noqa: E731
    false: Callable[[Replay], bool] = lambda one: high(one, one.false())  # noqa: E731
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
            for way in dict.fromkeys(one.run.way for one in runs if one.run.way != HEALTHY)
        },
    }


def record(one: Replay, limits: Mapping[str, float]) -> dict[str, Any]:
    """A run in one line: its truth and its warnings."""
    raised = [[step, name] for step, name in one.raised(limits)]
    truth = {"failed": one.failed, "onset": one.run.onset, "shown": one.shown, "lead": LEAD}
    return ({} if one.run.way == HEALTHY else truth) | {"warnings": raised}
