"""When to observe: dense early, sparse later, and never above the share of the training time that was granted."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

from isometer.errors import IsometerError

When = int | Collection[int] | Callable[[int], bool] | None
_GROWTH = 25  # an observation every 4 % of the steps so far
_ALL = 10  # steps that are all observed; from there on every second one at most
_ALLOWANCE = 0.25  # seconds of observation granted beside the share, so that the first steps are seen
_SEEN = (
    0.85  # of the share that the clocks inside may use; the rest is for what they do not see, such as calls of hooks
)
_AT_LEAST = 2  # observations that the allowance pays for, however slow they are


class Schedule:
    """The steps at which an observation is wanted.

    Args:
        when: steps between observations, the steps themselves, a function that says whether a step is wanted, or
            `None`: the first ten, then every second one, then one each time the number of steps has grown by 4 %.

    Example:
        >>> usual = Schedule(None)
        >>> last, seen = 0, []
        >>> for step in range(1, 120):
        ...     if usual.wanted(step, last):
        ...         last = step
        ...         seen.append(step)
        >>> seen[:3], seen[-3:]
        ([1, 2, 3], [110, 114, 118])
    """

    def __init__(self, when: When) -> None:
        whole = isinstance(when, int) and not isinstance(when, bool)
        if not (when is None or callable(when) or isinstance(when, Collection) or whole) or isinstance(when, str):
            raise IsometerError(
                f"when is {when!r}; expected a number of steps, a list of steps, a function of the "
                "step or None — pass when=100"
            )
        if whole and when < 1:  # type: ignore[operator]
            raise IsometerError(f"when is {when!r}; expected a whole number of at least 1 — pass when=100")
        self._when: Any = frozenset(when) if isinstance(when, Collection) else when

    def wanted(self, step: int, last: int) -> bool:
        """Whether a step is wanted, when the last one observed is `last`."""
        if self._when is None:
            return step - last >= max(1 + (step > _ALL), step // _GROWTH)
        if isinstance(self._when, frozenset):
            return step in self._when
        return bool(self._when(step)) if callable(self._when) else step % self._when == 0


class Purse:
    """The time that observations may take: a share of the training time, and an allowance for the first ones.

    Args:
        budget: the share, `None` for no limit.

    Example:
        >>> purse = Purse(0.03)
        >>> purse.earn(20.0)
        >>> for seconds in (0.2, 0.3, 0.3):
        ...     purse.spend(seconds, observed=True)
        >>> purse.affords(), purse.share
        (True, 0.04)
        >>> purse.spend(0.3, observed=True)
        >>> purse.affords()
        False
    """

    def __init__(self, budget: float | None) -> None:
        if budget is not None and not 0 < budget < math.inf:
            raise IsometerError(f"budget is {budget!r}; expected a share above 0, or None for no limit — pass 0.03")
        self.budget = budget
        self.spent = self.elapsed = self.cost = self.first = 0.0
        self.observed = 0

    def earn(self, seconds: float) -> None:
        """Time that training took."""
        self.elapsed += max(0.0, seconds)

    def spend(self, seconds: float, *, observed: bool = False) -> None:
        """Time that the monitor took."""
        self.spent += seconds
        if observed:
            self.observed += 1
            if self.observed == 1:  # it loads what later ones find loaded
                self.first = seconds
            else:  # a slow one is remembered for a while: the next may be as slow
                self.cost = max(seconds, 0.7 * self.cost)

    @property
    def share(self) -> float:
        """Time spent over the training time, 0 before there is any."""
        return self.spent / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def allowance(self) -> float:
        """Seconds granted beside the share: the first observation, and some more."""
        return self.first + max(_ALLOWANCE, _AT_LEAST * self.cost)

    def affords(self) -> bool:
        """Whether one more observation stays within the limit; the first always does, since its cost is unknown."""
        if self.budget is None or not self.observed:
            return True
        return self.spent + self.cost <= _SEEN * self.budget * self.elapsed + self.allowance

    def state(self) -> dict[str, float]:
        return {"spent": self.spent, "elapsed": self.elapsed, "cost": self.cost, "first": self.first}

    def restore(self, state: Any) -> None:
        self.spent, self.elapsed = float(state["spent"]), float(state["elapsed"])
        self.cost, self.first = float(state["cost"]), float(state["first"])
        self.observed = int(self.first > 0) + int(self.cost > 0)
