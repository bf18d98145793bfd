"""Which changes to make: what the causes ask for, then prescriptions, each tried on the model and kept or undone."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from torch import nn

from isometer.doctor.causes._search import Cause
from isometer.doctor.conditions._prescription import KINDS, Call, Written
from isometer.doctor.conditions._prescriptions import PRESCRIPTIONS
from isometer.doctor.diagnosis._report import Report
from isometer.doctor.probe._snapshot import Snapshot
from isometer.doctor.treatment._causes import FIXES, advised, carry_out, in_order, joined, named, outside, told
from isometer.doctor.treatment._judges import Candidate, Judge
from isometer.doctor.treatment._record import Step
from isometer.errors import IsometerError

Calls = tuple[Written, ...]
Tried = tuple[Step, Calls, Any]  # with the look that it led to, `None` if there is none


def everything(report: Report) -> tuple[str, ...]:
    """What the causes of a report ask for, then all its prescriptions, those that set weights first."""
    fixes = dict.fromkeys(named(cause)[0] for cause in in_order(report.causes))
    prescribed = dict.fromkeys(p.id for finding in report.findings for p in finding.prescriptions)
    return (*fixes, *sorted(prescribed, key=lambda one: KINDS.index(PRESCRIPTIONS[one].kind)))


@dataclass
class Route:
    """What was tried from one start: the steps, the calls that are kept, and the look of the model they lead to."""

    look: Any
    steps: list[Step] = field(default_factory=list)
    calls: list[Written] = field(default_factory=list)

    def kept(self, one: str) -> bool:
        """Whether something is applied."""
        return any(step.id == one and step.status == "applied" for step in self.steps)

    def note(self, steps: Iterable[Step]) -> None:
        """Of what was tried in several rounds, only the last word counts."""
        latest = {step.id: step for step in steps}
        self.steps = [s for s in self.steps if s.status == "applied" or s.id not in latest]
        self.steps += [s for s in latest.values() if not self.kept(s.id)]


@dataclass
class TreatmentSearch:
    """Tries changes on one model, which every method leaves treated.

    Attributes:
        model: changed in place.
        batch: what it is called with.
        seed: seed of all draws.
        judge: says what helps.
    """

    model: nn.Module
    batch: Any
    seed: int
    judge: Judge

    def __post_init__(self) -> None:
        self._frozen = {
            name
            for name, module in self.model.named_modules()
            if not all(p.requires_grad for p in module.parameters(recurse=False) if p.is_floating_point())
        }

    def recommended(self, look: Any, causes: Sequence[Cause], helpful: Sequence[Cause] = ()) -> Route:
        """What the causes ask for; where that is not enough, the best of what the judge would try.

        Args:
            look: at the model as it is.
            causes: of the report.
            helpful: changes of other parts, that may be needed beside them.
        """
        first = self._mended(Route(look), causes)
        if helpful and not first.calls:
            first = self._mended(Route(look), [*causes, *helpful])
        first.steps += _advice(causes)
        if self.judge.enough(first.look) or self.judge.late():
            return first
        start = Snapshot.of(self.model)
        routes: list[Route] = []
        for kinds in self.judge.routes:
            start.restore()  # every route starts from the same model
            routes.append(self._descend(Route(first.look), kinds))
            if self.judge.enough(routes[-1].look) or self.judge.late():
                break
        # Equal merits: the route with fewer calls changes less. The model still is as the last route left it.
        best = max(routes, key=lambda route: (self.judge.merit(route.look), -len(route.calls)))
        if best is not routes[-1]:
            start.restore()
            self._make(best.calls)
        mine = {step.id for step in best.steps}
        others = {step.id: _set_aside(step) for route in routes for step in route.steps if step.id not in mine}
        elsewhere = {p.id: Step(p.id, p.kind, "refused", p.elsewhere) for p in self.judge.left(best.look)}
        best.steps = ranked([*first.steps, *best.steps, *others.values(), *elsewhere.values()])
        best.calls = [*first.calls, *best.calls]
        return _without_superseded(best, self._frozen)

    def causes_alone(self, look: Any, causes: Sequence[Cause]) -> Route:
        """What the causes ask for, and no more.

        Args:
            look: at the model as it is.
            causes: of the report.
        """
        route = self._mended(Route(look), causes)
        route.steps += _advice(causes)
        return route

    def listed(self, ids: Iterable[str], look: Any, causes: Sequence[Cause]) -> Route:
        """These changes in order; only what makes things worse is undone."""
        route = Route(look)
        for one in ids:
            if one in FIXES:
                route = self._mended(route, [cause for cause in causes if named(cause)[0] == one], one)
                continue
            base = Snapshot.of(self.model)
            step, calls, after = self._try(Candidate.of(PRESCRIPTIONS[one]), route.look, base)
            if after is not None and self.judge.harms(route.look, after):
                base.restore()
                step = replace(step, status="undone", reason=f"it makes things worse: {step.reason}")
            elif after is not None:
                route.calls += calls
                route.look = after
            route.steps.append(step)
        return route

    def _mended(self, route: Route, causes: Sequence[Cause], asked: str = "") -> Route:
        """Everything that the causes ask for together, kept if it helps."""
        if not in_order(causes):
            reason = "the report names no such cause"
            return replace(route, steps=[*route.steps, Step(asked, "weights", "refused", reason)]) if asked else route
        base = Snapshot.of(self.model)
        done: list[Cause] = []
        calls: list[Written] = []
        for cause, members in joined(causes):
            before = Snapshot.of(self.model)
            try:
                calls += carry_out(cause, self.model, self.batch, self.seed)
                done += members
            except IsometerError as problem:
                before.restore()
                route.steps += [Step(*named(one), "refused", str(problem)) for one in members]
        if not done:
            return route
        try:
            after = self.judge.look()
        except Exception as problem:  # a model that no longer runs may raise anything
            base.restore()
            route.steps += [Step(*named(one), "undone", _broken(problem)) for one in done]
            return route
        why = self._against(route.look, after, asked)
        numbers = self.judge.numbers(route.look, after)
        brought = ("together, " if len(done) > 1 else "") + self.judge.words(route.look, after)
        for cause in done:
            reason = f"{why}: {brought}" if why else "; ".join(filter(None, (brought, told(cause))))
            route.steps.append(Step(*named(cause), "undone" if why else "applied", reason, *numbers))
        if why:
            base.restore()
            return route
        return Route(after, route.steps, [*route.calls, *calls])

    def _against(self, before: Any, after: Any, asked: str) -> str:
        if asked:
            return "it makes things worse" if self.judge.harms(before, after) else ""
        if not self.judge.gains(before, after) and not self.judge.enough(after):
            return "it does not help"
        return self.judge.objection()

    def _descend(self, route: Route, kinds: Sequence[str]) -> Route:
        """Again and again the change that brings most, as long as it brings something."""
        while not self.judge.enough(route.look) and not self.judge.late():
            base = Snapshot.of(self.model)
            tried: list[Tried] = []
            for one in self.judge.candidates(route.look, kinds):
                if route.kept(one.id):
                    continue
                if self.judge.late():
                    break
                found = self._try(one, route.look, base)
                base.restore()
                if found[2] is not None or one.asked:
                    tried.append(found)
                if found[2] is not None and self.judge.enough(found[2]):
                    break  # nothing is left that another could do better
            best = self._best(route, tried, base)
            route.note(self._undone(step, after, route.look) for step, _, after in tried)
            if best is None:
                break
            step, calls, route.look = best
            route.steps = [s for s in route.steps if s.id != step.id] + [step]
            route.calls += calls
        return route

    def _best(self, route: Route, tried: list[Tried], base: Snapshot) -> Tried | None:
        """The change that brings most and that nothing speaks against; the model has it then."""
        able = [one for one in tried if one[2] is not None and self.judge.gains(route.look, one[2])]
        for best in sorted(able, key=lambda one: -self.judge.merit(one[2])):
            self._make(best[1])  # again: each trial was undone before the next
            objection = self.judge.objection()
            if not objection:
                return best
            base.restore()
            at = tried.index(best)
            tried[at] = (replace(best[0], status="undone", reason=objection), (), None)
        return None

    def _make(self, calls: Iterable[Written]) -> None:
        for call in calls:
            call.make(self.model, self.batch, self.seed)

    def _try(self, one: Candidate, now: Any, base: Snapshot) -> Tried:
        """Make one change and look at the model; a refusal leaves it as it was and gives nothing to look at."""
        refusal = one.elsewhere
        for calls in one.calls:
            try:
                self._make(calls)
            except IsometerError as problem:
                refusal = refusal or str(problem)  # the first alternative is the one meant, so its reason is told
                base.restore()
                continue
            try:
                after = self.judge.look()
            except Exception as problem:  # a model that no longer runs may raise anything
                base.restore()
                return Step(one.id, one.kind, "undone", _broken(problem)), (), None
            words = "; ".join(filter(None, (self.judge.words(now, after), one.note)))
            numbers = self.judge.numbers(now, after)
            return Step(one.id, one.kind, "applied", words, *numbers), calls, after
        return Step(one.id, one.kind, "refused", refusal), (), None

    def _undone(self, step: Step, after: Any, now: Any) -> Step:
        if after is None:
            return step
        why = "it does not help"
        if self.judge.harms(now, after):
            why = "it makes things worse"
        elif self.judge.gains(now, after):
            why = "another helps more"
        return replace(step, status="undone", reason=f"{why}: {step.reason}")


def _advice(causes: Iterable[Cause]) -> list[Step]:
    return [advised(cause) for cause in causes if outside(cause)]


def ranked(steps: Iterable[Step]) -> list[Step]:
    """What was done, what is advised, then what did not help, by what it brought, and what cannot be done.

    Example:
        >>> [step.id for step in ranked([Step("a", "weights", "refused", ""), Step("b", "weights", "applied", "")])]
        ['b', 'a']
    """
    ranks = {"applied": 0, "advised": 1, "undone": 2, "refused": 3}

    def key(step: Step) -> tuple[int, float]:
        effect = step.effect if step.status == "undone" and not math.isnan(step.effect) else 0.0
        return ranks[step.status], -effect

    return sorted(steps, key=key)


def _without_superseded(route: Route, frozen: Collection[str]) -> Route:
    """Weights that are drawn anew and then once more with all others need not be drawn before, if they are trained."""
    everywhere = [at for at, call in enumerate(route.calls) if _redraws(call) and "modules" not in call.options]
    named = {name for call in route.calls if _redraws(call) for name in call.options.get("modules", ())}
    if not everywhere or named & set(frozen):
        return route
    last = everywhere[-1]
    route.calls = [call for at, call in enumerate(route.calls) if at >= last or not _redraws(call)]
    route.steps = ranked(
        replace(step, status="undone", reason=f"by-the-book draws these weights too: {step.reason}")
        if (step.id, step.status) == ("redraw", "applied")
        else step
        for step in route.steps
    )
    return route


def _redraws(call: Written) -> TypeGuard[Call]:
    return isinstance(call, Call) and call.function == "redraw_"


def _broken(problem: Exception) -> str:
    return f"the model no longer runs: {type(problem).__name__}: {problem}"


def _set_aside(step: Step) -> Step:
    if step.status != "applied":
        return step
    return replace(step, status="undone", reason=f"it does not lead far enough: {step.reason}")
