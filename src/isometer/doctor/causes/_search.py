"""Which repairs make a model learn: everything returned to its reference, and then put back as far as learning lasts.

A repair counts by what a short training of a copy reaches with it. The search starts from everything odd repaired. It
then takes repairs in the order of how odd their parts are, finds by bisection how many of them are enough, and drops
those that are not needed. What is left are the causes. Redrawing a part that was drawn as usual may help too; that is a
treatment, not a cause, and it is looked for only where no cause is found.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from isometer.doctor.causes._repair import Repair, RepairKind
from isometer.doctor.causes._weights import Redraw
from isometer.doctor.stress._budget import Budget
from isometer.doctor.stress._optimizers import OptimizerChoice
from isometer.doctor.stress._outlook import LEARNED
from isometer.doctor.stress._plans import Plan
from isometer.doctor.stress._race import On, Track
from isometer.serialize import json_data

ODD = 0.3
"""Deviation below which a part is as anybody would have made it."""
_ENOUGH = 0.5  # of the gain of everything repaired
_GAIN = (0.05, 0.25)  # what everything repaired must add: so much progress, and such a share of what it reaches
_ALIKE = 0.7  # of the deviation of the oddest part, from which on another is as odd
_RATES = 3
_SINGLES = 4  # of the oddest parts that are tried one by one
_KINDS: tuple[tuple[RepairKind, ...], ...] = (
    ("weights", "norm", "frozen"),
    ("operation",),
    ("input", "targets", "loss"),
    ("activation",),
)
"""Kinds of repairs that are tried together where all at once do not help."""


@dataclass(frozen=True, eq=False)
class Cause:
    """A part of a model that keeps it from learning: returned to its reference, the model learns.

    Example:
        >>> cause = Cause(("blocks.3",), "Redraw the weights of `blocks.3`.", 0.4, "its weights are zero", "weights")
        >>> cause.to_dict()["modules"], cause.effect
        (['blocks.3'], 0.4)

    Attributes:
        modules: names of modules, or `input`, `targets`, `loss`.
        repair: what to change.
        effect: progress that a short training gains by the repair; nan where it cannot be carried out here.
        evidence: what is odd about the part.
        kind: what the repair changes.
        where: file and line in the model's code; empty if it is a module.
        fixes: the repairs themselves; empty where nothing can be carried out here.
    """

    modules: tuple[str, ...]
    repair: str
    effect: float
    evidence: str
    kind: RepairKind
    where: str = ""
    fixes: tuple[Repair, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "modules": list(self.modules),
            "repair": self.repair,
            "effect": json_data(self.effect, digits=4),
            "evidence": self.evidence,
            "kind": self.kind,
            "where": self.where,
        }


@dataclass(frozen=True, eq=False)
class SearchOutcome:
    """What a search for causes came to.

    Attributes:
        optimizer: the optimizer of the short trainings.
        before: progress of the model as it is.
        repaired: progress of the best that was tried.
        needed: repairs that together bring most of the gain, in groups of those with the same evidence, each group with
            its effect alone, most effective first.
        helpful: other repairs that help by themselves, with their effects: treatments.
        tried: how many short trainings were run.
        complete: whether time was enough to leave out what is not needed.
        steps: of the last short trainings.
        rates: at which they were run, the best first.
    """

    optimizer: str
    before: float
    repaired: float
    needed: tuple[tuple[tuple[Repair, ...], float], ...]
    helpful: tuple[tuple[Repair, float], ...]
    tried: int
    complete: bool
    steps: int = 0
    rates: tuple[float, ...] = ()


def made(repairs: Sequence[Repair]) -> Callable[[nn.Module], None]:
    """A function that makes several repairs; weights come last and all at once, since they are scaled by data."""
    redraws = [one.change for one in repairs if isinstance(one.change, Redraw)]
    others = [one.change for one in repairs if not isinstance(one.change, Redraw)]

    def change(model: nn.Module) -> None:
        for repair in others:
            repair(model)
        if redraws:
            replace(redraws[0], names=frozenset().union(*(one.names for one in redraws)))(model)

    return change


class RepairSearch:
    """Short trainings of a model with some repairs, each set of repairs once.

    Args:
        track: where runs are made.
        choice: the optimizer.
        plan: how long they are.
        before: progress of the model as it is, in the first round and after the long one.
        rate: its best rate.
        budget: after which nothing new is begun.

    Attributes:
        before: progress of the model as it is, after as many steps as are run now.
        tried: how many sets of repairs were tried.
        steps: of a run.
        rates: at which single sets of repairs are run, the best first.
    """

    def __init__(
        self,
        track: Track,
        choice: OptimizerChoice,
        plan: Plan,
        *,
        before: tuple[float, float],
        rate: float,
        budget: Budget,
    ) -> None:
        self._track, self._choice, self._long = track, choice, plan.long
        self.steps, self.rates = plan.steps, [rate]
        self._budget = budget
        self._on: On = "fresh batches" if track.material.fresh else "one batch"
        self._known: dict[frozenset[int], float] = {}
        self._later = before[1]
        self.before, self.tried = before[0], 0

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return self._budget.late

    @property
    def best(self) -> float:
        """Progress of the best that was tried with as many steps as now."""
        return max(self._known.values(), default=self.before)

    def helps(self, progress: float) -> bool:
        """Whether that much progress is clearly more than that of the model as it is."""
        return progress >= LEARNED and progress - self.before >= max(_GAIN[0], _GAIN[1] * progress)

    def longer(self) -> bool:
        """From now on with as many steps as the long runs of the stress test; whether there are any."""
        if not self._long or self.late:
            return False
        self.steps, self._long, self.before = self._long, 0, self._later
        self._known.clear()
        return True

    def race(self, repairs: Sequence[Repair]) -> float:
        """Progress with these repairs at several rates; the best of them is used from then on."""
        found = self._track.race(
            self._choice,
            who="repaired",
            on=self._on,
            rates=_RATES,
            steps=self.steps,
            beyond=2,
            change=made(repairs),
        )
        self.tried += 1
        best = max(found, key=lambda run: run.progress)
        if best.progress > max(self._known.values(), default=0.0):
            self.rates = [best.rate, *(rate for rate in self.rates[-1:] if rate != best.rate)]
        self._known[_key(repairs)] = best.progress
        return best.progress

    def progress(self, repairs: Sequence[Repair], goal: float = math.inf) -> float:
        """Progress with these repairs, at the best rate so far and at the model's own."""
        if not repairs:
            return self.before
        key = _key(repairs)
        if key not in self._known:
            best = 0.0
            for rate in self.rates:
                run = self._track.run(self._choice, rate, self.steps, who="repaired", on=self._on, change=made(repairs))
                best = max(best, run.progress)
                if best >= goal:
                    break
            self.tried += 1
            self._known[key] = best
        return self._known[key]


def _key(repairs: Sequence[Repair]) -> frozenset[int]:
    return frozenset(map(id, repairs))


def search(runs: RepairSearch, optimizer: str, repairs: Sequence[Repair]) -> SearchOutcome:
    """Find the repairs that are needed: among what is odd, and only where that does not help, among everything.

    Args:
        runs: short trainings.
        optimizer: its name.
        repairs: everything that can be repaired.
    """
    order = sorted(repairs, key=lambda one: -one.deviation)
    odd = [one for one in order if one.deviation >= ODD]
    start, best = odd, runs.race(odd) if odd else 0.0
    if odd and not runs.helps(best) and runs.longer():
        best = runs.race(odd)  # what was broken may learn slowly once it is mended
    complete = True
    if odd and not runs.helps(best):
        start, best, complete = _apart(runs, odd, best)
    if not odd or not runs.helps(best):
        start, best, rest = _elsewhere(runs, order)
        if rest and best < LEARNED and runs.longer():
            start, best, rest = _elsewhere(runs, order)  # few steps teach nothing, whatever is repaired
        complete = complete and rest
    if not runs.helps(best):
        return _outcome(runs, optimizer, max(best, runs.before), complete=complete)
    gain = best - runs.before
    goal = runs.before + _ENOUGH * gain
    needed, complete = _pruned(runs, _prefix(runs, start, goal), goal)
    groups = [(group, runs.progress(group) - runs.before) for group in _completed(runs, needed, odd)]
    helpful = [
        (one, effect)
        for one in start[:_SINGLES]
        if one not in needed and (effect := runs.progress([one], goal) - runs.before) >= _ENOUGH * gain
    ]
    ranked = sorted(groups, key=lambda one: (-one[1], -one[0][0].deviation))
    return _outcome(runs, optimizer, runs.best, tuple(ranked), tuple(helpful), complete=complete)


def _outcome(
    runs: RepairSearch,
    optimizer: str,
    repaired: float,
    needed: tuple[tuple[tuple[Repair, ...], float], ...] = (),
    helpful: tuple[tuple[Repair, float], ...] = (),
    *,
    complete: bool,
) -> SearchOutcome:
    how = runs.tried, complete, runs.steps, tuple(runs.rates)
    return SearchOutcome(optimizer, runs.before, repaired, needed, helpful, *how)


def _completed(runs: RepairSearch, needed: list[Repair], odd: list[Repair]) -> list[tuple[Repair, ...]]:
    """Groups of what is needed, each with all parts that are as odd in the same way, unless that does harm."""
    alike = {_manner(group[0]): group for group in _grouped(odd)}
    found = []
    for group in _grouped(needed):
        least = _ALIKE * max(one.deviation for one in group)
        whole = tuple(one for one in alike.get(_manner(group[0]), ()) if one in group or one.deviation >= least)
        wider = len(whole) > len(group) and not runs.late
        found.append(whole if wider and runs.progress(whole) >= runs.progress(group) else group)
    return found


def _manner(repair: Repair) -> tuple[str, str]:
    """In which way a part is odd: kind and evidence, numbers apart."""
    return repair.kind, re.sub(r"[-+.e\d]+", "#", repair.evidence)


def _grouped(repairs: Sequence[Repair]) -> list[tuple[Repair, ...]]:
    """Repairs of one kind with the same evidence, numbers apart, belong together."""
    groups: dict[tuple[str, str], list[Repair]] = defaultdict(list)
    for repair in repairs:
        groups[_manner(repair)].append(repair)
    return [tuple(group) for group in groups.values()]


def _apart(runs: RepairSearch, odd: list[Repair], together: float) -> tuple[list[Repair], float, bool]:
    """The first of the ways in which parts are odd whose repair helps by itself; all of them if none does.

    A part may be odd on purpose, as the kernels of state space models are, and redrawing it undoes what the repair of
    another brings. Whether time was enough comes last.
    """
    groups = _grouped(odd)
    for group in groups[:_SINGLES] if len(groups) > 1 else ():
        if runs.late:
            return odd, together, False
        found = runs.race(group)
        if runs.helps(found):
            return list(group), found, True
    return odd, together, True


def _elsewhere(runs: RepairSearch, order: list[Repair]) -> tuple[list[Repair], float, bool]:
    """The set of repairs that does best where what is odd does not help: everything, or one kind of it.

    Whether time was enough for all of them comes last.
    """
    sets = [order, *([one for one in order if one.kind in kinds] for kinds in _KINDS)]
    best: tuple[list[Repair], float] = ([], 0.0)
    seen: set[frozenset[int]] = set()
    for chosen in sets:
        if not chosen or _key(chosen) in seen:
            continue
        if seen and runs.late:
            return *best, False
        seen.add(_key(chosen))
        found = runs.race(chosen)
        # Fewer changes count for more: a later set must do clearly better.
        if found > best[1] + _GAIN[0]:
            best = (chosen, found)
    return *best, True


def _prefix(runs: RepairSearch, order: list[Repair], goal: float) -> list[Repair]:
    """As few of the oddest parts as are enough, or one of the oddest alone."""
    for one in order[:_SINGLES]:
        if runs.late:
            return order
        if runs.progress([one], goal) >= goal:
            return [one]
    low, high = 1, len(order)  # so many are not enough; so many are
    size = 2
    while size < high and not runs.late:
        if runs.progress(order[:size], goal) >= goal:
            high = size
        else:
            low, size = size, 2 * size
    while high - low > 1 and not runs.late:
        middle = (low + high) // 2
        if runs.progress(order[:middle], goal) >= goal:
            high = middle
        else:
            low = middle
    return order[:high]


def _pruned(runs: RepairSearch, chosen: list[Repair], goal: float) -> tuple[list[Repair], bool]:
    """Leave out halves, quarters and so on that are not needed; whether time was enough."""
    parts = 2
    while len(chosen) > 1:
        size = math.ceil(len(chosen) / parts)
        pieces = [chosen[at : at + size] for at in range(0, len(chosen), size)]
        for piece in reversed(pieces):  # what is least odd is put back first
            if runs.late:
                return chosen, False
            rest = [one for one in chosen if one not in piece]
            if rest and runs.progress(rest, goal) >= goal:
                chosen = rest
                break
        else:
            if size == 1:
                break
            parts *= 2
    return chosen, True
