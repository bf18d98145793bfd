"""Who says whether a change helps: short trainings, or findings where nothing can be trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from isometer.doctor.conditions._prescription import Prescription, Written
from isometer.doctor.conditions._prescriptions import PRESCRIPTIONS
from isometer.doctor.diagnosis._report import Report
from isometer.doctor.stress._outlook import LEARNED
from isometer.doctor.treatment._bench import Bench, Progress

Calls = tuple[Written, ...]
_BURDEN = {"severe": 3, "moderate": 1}  # of a finding; treatments make the sum smaller
_ENOUGH = 0.75  # of what is known to be reachable
_GAIN = (0.05, 0.1)  # what a change must add: so much progress, and such a share of what there was
_USUAL = ("add-layer-norm", "add-residual", "add-batch-norm", "pre-norm", "scale-branches")
_DEAR = ("iterative-orthogonalization", "rank-pretraining")


@dataclass(frozen=True)
class Candidate:
    """A change that can be tried.

    Attributes:
        id: ID of the prescription, or of what a cause asks for.
        kind: what it touches.
        calls: alternatives, as of a `Prescription`.
        elsewhere: why there are none.
        asked: whether a refusal is worth telling.
        note: what it is about.
    """

    id: str
    kind: str
    calls: tuple[Calls, ...]
    elsewhere: str = ""
    asked: bool = True
    note: str = ""

    @classmethod
    def of(cls, one: Prescription, *, asked: bool = True) -> Candidate:
        """A prescription."""
        return cls(one.id, one.kind, one.calls, one.elsewhere, asked)


class Judge(Protocol):
    """What a search asks; a look is whatever the judge keeps of the model at one moment.

    Attributes:
        routes: kinds of changes that are tried from the same start, one set after the other.
    """

    routes: tuple[tuple[str, ...], ...]

    def late(self) -> bool:
        """Whether time is up."""

    def look(self) -> Any:
        """Of the model as it is now."""

    def merit(self, look: Any) -> float:
        """Larger is better."""

    def enough(self, look: Any) -> bool:
        """Whether nothing else has to be tried."""

    def gains(self, before: Any, after: Any) -> bool:
        """Whether a change is worth keeping."""

    def harms(self, before: Any, after: Any) -> bool:
        """Whether a change makes things worse."""

    def objection(self) -> str:
        """What speaks against the model as it is now, beside its merit; empty if nothing does."""

    def words(self, before: Any, after: Any) -> str:
        """What a change did."""

    def numbers(self, before: Any, after: Any) -> tuple[float, float]:
        """Progress before and after, nan where it is not measured."""

    def candidates(self, look: Any, kinds: Sequence[str]) -> list[Candidate]:
        """What can be tried, in that order."""

    def left(self, look: Any) -> list[Prescription]:
        """What is prescribed against what is left and no function carries out."""


@dataclass
class FindingsJudge:
    """Findings decide: a severe one counts like three moderate ones.

    Attributes:
        examine: gives the report of the model as it is.
    """

    examine: Callable[[], Report]
    routes: tuple[tuple[str, ...], ...] = (("weights",), ("architecture",), ("weights", "architecture"))

    def late(self) -> bool:
        return False

    def look(self) -> Report:
        return self.examine()

    def merit(self, look: Report) -> float:
        return -sum(_BURDEN[finding.severity] for finding in look.findings)

    def enough(self, look: Report) -> bool:
        return not look.findings

    def gains(self, before: Report, after: Report) -> bool:
        return self.merit(after) > self.merit(before)

    def harms(self, before: Report, after: Report) -> bool:
        return self.merit(after) < self.merit(before)

    def objection(self) -> str:
        return ""

    def words(self, before: Report, after: Report) -> str:
        old, new = ({finding.id: finding.severity for finding in one.findings} for one in (before, after))
        parts = [f"{one} gone" for one in old if one not in new]
        parts += [f"{one} {old[one]} → {new[one]}" for one in old if one in new and new[one] != old[one]]
        parts += [f"{one} ({severity}) new" for one, severity in new.items() if one not in old]
        return ", ".join(parts) or "nothing that was found changes"

    def numbers(self, before: Report, after: Report) -> tuple[float, float]:
        return math.nan, math.nan

    def candidates(self, look: Report, kinds: Sequence[str]) -> list[Candidate]:
        return [Candidate.of(PRESCRIPTIONS[one]) for one in listed(look, kinds)]

    def left(self, look: Report) -> list[Prescription]:
        return [p for finding in look.findings for p in finding.prescriptions if not p.calls]


@dataclass
class ProgressJudge:
    """Short trainings decide: a change is kept if the model learns more with it.

    Attributes:
        bench: where they are run.
        optimizer: whose progress counts.
        best: what is known to be reachable with it.
        others: progress that other optimizers had at the start; none of them may lose it.
        report: findings, whose prescriptions are tried.
        extra: what is tried first.
    """

    bench: Bench
    optimizer: str
    best: float
    others: Mapping[str, float]
    report: Report
    extra: tuple[Candidate, ...] = ()
    routes: tuple[tuple[str, ...], ...] = (("weights", "architecture"),)

    def late(self) -> bool:
        return self.bench.late

    @property
    def goal(self) -> float:
        """Progress that is enough."""
        return max(LEARNED, _ENOUGH * self.best)

    def look(self) -> Progress:
        return self.bench.progress(self.optimizer, self.goal, last=True)

    def merit(self, look: Progress) -> float:
        return look.value

    def enough(self, look: Progress) -> bool:
        return look.enough

    def gains(self, before: Progress, after: Progress) -> bool:
        return after.value >= max(before.value + _GAIN[0], (1 + _GAIN[1]) * before.value)

    def harms(self, before: Progress, after: Progress) -> bool:
        return self.gains(after, before)

    def objection(self) -> str:
        for name, before in self.others.items():
            least = before / (1 + _GAIN[1])
            after = self.bench.progress(name, least).value if before >= LEARNED else math.inf
            if after < least and before - after >= _GAIN[0]:
                return f"{name} learns less: progress {before:.2f} → {after:.2f}"
        return ""

    def words(self, before: Progress, after: Progress) -> str:
        return f"progress {before.value:.2f} → {after.value:.2f}"

    def numbers(self, before: Progress, after: Progress) -> tuple[float, float]:
        return before.value, after.value

    def candidates(self, look: Progress, kinds: Sequence[str]) -> list[Candidate]:
        named = listed(self.report, kinds)
        order = ["by-the-book", *(one for one in named if one not in _DEAR), *_USUAL, *named]
        prescribed = (Candidate.of(PRESCRIPTIONS[one], asked=one in named) for one in dict.fromkeys(order))
        return [one for one in (*self.extra, *prescribed) if one.kind in kinds]

    def left(self, look: Progress) -> list[Prescription]:
        return [] if look.enough else [p for f in self.report.findings for p in f.prescriptions if not p.calls]


def listed(report: Report, kinds: Sequence[str]) -> list[str]:
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
