"""Which prescriptions to carry out: each tried on the model, examined, and kept or undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from isometer.doctor.conditions._prescription import KINDS, Call
from isometer.doctor.conditions._prescriptions import PRESCRIPTIONS
from isometer.doctor.diagnosis._report import Report
from isometer.doctor.probe._snapshot import Snapshot
from isometer.doctor.treatment._record import Step
from isometer.errors import IsometerError

_BURDEN = {"severe": 3, "moderate": 1}  # of a finding; treatments make the sum smaller
Calls = tuple[Call, ...]


def everything(report: Report) -> tuple[str, ...]:
    """All prescriptions of a report, those that set weights first."""
    listed = dict.fromkeys(p.id for finding in report.findings for p in finding.prescriptions)
    return tuple(sorted(listed, key=lambda one: KINDS.index(PRESCRIPTIONS[one].kind)))


@dataclass
class Route:
    """What was tried from one start: the steps, the calls that are kept, and the report they lead to."""

    report: Report
    steps: list[Step] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    @property
    def kept(self) -> list[Step]:
        return [step for step in self.steps if step.status == "applied"]

    @property
    def burden(self) -> int:
        return _burden(self.report)


@dataclass
class TreatmentSearch:
    """Tries prescriptions on one model, which every method leaves treated.

    Attributes:
        model: changed in place.
        original: what it was.
        batch: what it is called with.
        seed: of all draws.
        examine: gives the report of the model as it is.
    """

    model: nn.Module
    original: Snapshot
    batch: Any
    seed: int
    examine: Callable[[], Report]

    def recommended(self, report: Report) -> tuple[tuple[Step, ...], Calls]:
        """The way to the fewest findings: by weights alone, else by architecture, else by both."""
        routes: list[Route] = []
        for kinds in (("weights",), ("architecture",), ("weights", "architecture")):
            self.original.restore()  # every route starts from the model as it came
            routes.append(self._descend(report, kinds))
            if not routes[-1].burden:
                break
        # Equal burdens: the route with fewer calls changes less. The model still is as the last route left it.
        best = min(routes, key=lambda route: (route.burden, len(route.calls)))
        self.original.restore()
        for call in best.calls:
            call.make(self.model, self.batch, self.seed)
        mine = {step.id for step in best.steps}
        others = {step.id: _set_aside(step) for route in routes for step in route.steps if step.id not in mine}
        elsewhere = {
            p.id: Step(p.id, p.kind, "refused", p.elsewhere)
            for finding in best.report.findings
            for p in finding.prescriptions
            if not p.calls
        }
        return (*others.values(), *elsewhere.values(), *best.steps), tuple(best.calls)

    def listed(self, ids: Iterable[str], report: Report) -> tuple[tuple[Step, ...], Calls]:
        """These prescriptions in order; only what makes things worse is undone."""
        route = Route(report)
        for one in ids:
            base = Snapshot.of(self.model)
            step, calls, after = self._try(one, route.report, base)
            if after is not None and _burden(after) > route.burden:
                base.restore()
                step = Step(one, step.kind, "undone", f"it makes things worse: {step.reason}")
            elif after is not None:
                route.calls += calls
                route.report = after
            route.steps.append(step)
        return tuple(route.steps), tuple(route.calls)

    def _descend(self, report: Report, kinds: Sequence[str]) -> Route:
        """Again and again the prescription that leaves the least, as long as it leaves less than before."""
        route = Route(report)
        while route.burden:
            base = Snapshot.of(self.model)
            tried: list[tuple[Step, Calls, Report | None]] = []
            for one in _candidates(route.report, kinds):
                if any(step.id == one for step in route.kept):
                    continue
                tried.append(self._try(one, route.report, base))
                if tried[-1][2] is not None and not tried[-1][2].findings:
                    break  # nothing is left that another could do better
                base.restore()
            base.restore()
            able = [(s, c, after) for s, c, after in tried if after is not None and _burden(after) < route.burden]
            best = min(able, key=lambda one: _burden(one[2]), default=None)
            # Of a prescription that was tried in several rounds, only the last word counts.
            latest = {
                s.id: _undone(s, after, route.burden) for s, _, after in tried if best is None or s is not best[0]
            }
            route.steps = [s for s in route.steps if s.status == "applied" or s.id not in latest] + [*latest.values()]
            if best is None:
                break
            step, calls, route.report = best
            for call in calls:  # again: each trial was undone before the next
                call.make(self.model, self.batch, self.seed)
            route.steps = [s for s in route.steps if s.id != step.id] + [step]
            route.calls += calls
        return route

    def _try(self, one: str, now: Report, base: Snapshot) -> tuple[Step, Calls, Report | None]:
        """Carry out one prescription and examine the model; a refusal leaves it as it was and gives no report."""
        prescription = PRESCRIPTIONS[one]
        kind, refusal = prescription.kind, prescription.elsewhere
        for calls in prescription.calls:
            try:
                for call in calls:
                    call.make(self.model, self.batch, self.seed)
            except IsometerError as problem:
                refusal = refusal or str(problem)  # the first alternative is the one meant, so its reason is told
                base.restore()
                continue
            try:
                after = self.examine()
            except Exception as problem:  # a model that no longer runs may raise anything
                base.restore()
                return (
                    Step(one, kind, "undone", f"the model no longer runs: {type(problem).__name__}: {problem}"),
                    (),
                    None,
                )
            return Step(one, kind, "applied", _told(now, after)), calls, after
        return Step(one, kind, "refused", refusal), (), None


def _candidates(report: Report, kinds: Sequence[str]) -> list[str]:
    """Prescriptions of these kinds: what sets weights from cheap to dear, architecture by its rank in the findings."""
    cheapest = list(PRESCRIPTIONS)  # of those that set weights: the order of the table
    ranks: dict[str, tuple[int, int, int]] = {}
    for position, finding in enumerate(report.findings):
        for rank, prescription in enumerate(finding.prescriptions):
            one, kind = prescription.id, prescription.kind
            if kind not in kinds or not prescription.calls:
                continue
            key = (0, cheapest.index(one), 0) if kind == "weights" else (1, rank, position)
            ranks[one] = min(ranks.get(one, key), key)
    return sorted(ranks, key=lambda one: ranks[one])


def _undone(step: Step, after: Report | None, burden: int) -> Step:
    if after is None:
        return step
    left = _burden(after)
    why = "it makes things worse" if left > burden else "it does not help" if left == burden else "another helps more"
    return Step(step.id, step.kind, "undone", f"{why}: {step.reason}")


def _set_aside(step: Step) -> Step:
    if step.status != "applied":
        return step
    return Step(step.id, step.kind, "undone", f"it does not lead far enough: {step.reason}")


def _burden(report: Report) -> int:
    return sum(_BURDEN[finding.severity] for finding in report.findings)


def _told(before: Report, after: Report) -> str:
    """What happened to the findings."""
    old, new = ({finding.id: finding.severity for finding in one.findings} for one in (before, after))
    parts = [f"{one} gone" for one in old if one not in new]
    parts += [f"{one} {old[one]} → {new[one]}" for one in old if one in new and new[one] != old[one]]
    parts += [f"{one} ({severity}) new" for one, severity in new.items() if one not in old]
    return ", ".join(parts) or "nothing that was found changes"
