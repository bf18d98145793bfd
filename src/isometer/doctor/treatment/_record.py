"""What a treatment did, before and after side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from isometer.doctor.conditions._prescription import Call
from isometer.doctor.diagnosis._comparison import compare
from isometer.doctor.diagnosis._report import Report
from isometer.doctor.treatment._trials import TreatmentTrial


@dataclass(frozen=True)
class Step:
    """One prescription that was tried.

    Example:
        >>> Step("zero-bias", "weights", "refused", "all biases are zero already").status
        'refused'

    Attributes:
        id: of the prescription.
        kind: `weights`, `architecture`, `batch` or `training`.
        status: `applied`, `refused` (it cannot apply), or `undone` (it did not help or made things worse).
        reason: why, or what it did to the findings.
    """

    id: str
    kind: str
    status: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """Ready for JSON."""
        return {"id": self.id, "kind": self.kind, "status": self.status, "reason": self.reason}


@dataclass(frozen=True, eq=False)
class Treatment:
    """A treated model, with the reports before and after.

    Attributes:
        model: the treated model.
        steps: all prescriptions that were tried, in order.
        before: the report that the treatment started from.
        after: the report of the treated model on the batch of the treatment.
        code: Python lines that do the same to `model` with `batch`; empty if nothing was applied.
        calls: what the code says, to be repeated.
        trial: brief training of both, if there was one.

    Example:
        >>> import torch
        >>> from isometer.doctor import diagnose
        >>> from isometer.doctor.treatment import treat
        >>> _ = torch.manual_seed(0)
        >>> layers = [m for _ in range(12) for m in (nn.Linear(32, 32, bias=False), nn.ReLU())]
        >>> model, batch = nn.Sequential(*layers, nn.Linear(32, 4)), torch.randn(16, 32)
        >>> treatment = treat(model, diagnose(model, batch), batch=batch)
        >>> print(treatment.code)
        from isometer.init import principled_gain_
        <BLANKLINE>
        principled_gain_(model, batch, law='keep', seed=0)
    """

    model: nn.Module
    steps: tuple[Step, ...]
    before: Report
    after: Report
    code: str
    calls: tuple[Call, ...] = ()
    trial: TreatmentTrial | None = field(default=None)

    @property
    def applied(self) -> tuple[str, ...]:
        """Ids of what was applied, in order."""
        return tuple(step.id for step in self.steps if step.status == "applied")

    def repeat(self, model: nn.Module, batch: Any, *, seed: int = 0) -> nn.Module:
        """Do the same to another model of the same make, in place.

        Args:
            model: the model.
            batch: what it is called with.
            seed: of all draws.

        Returns:
            The model.
        """
        for call in self.calls:
            call.make(model, batch, seed)
        return model

    @property
    def cured(self) -> bool:
        """Whether something was found before and nothing is now."""
        return bool(self.before.findings) and not self.after.findings

    @property
    def summary(self) -> str:
        """One line."""
        if not self.before.findings:
            return f"Nothing was found in {self.before.model}: nothing to treat."
        left = ", ".join(finding.id for finding in self.after.findings)
        if not self.applied:
            return f"Nothing that was tried helps {self.before.model}; still there: {left}."
        end = "nothing is found any more" if not self.after.findings else f"still there: {left}"
        return f"{', '.join(self.applied)}: {end}."

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        before, after = self.before.to_dict(), self.after.to_dict()
        compared = compare(before, after, name="before treatment")
        return {
            "summary": self.summary,
            "cured": self.cured,
            "applied": list(self.applied),
            "steps": [step.to_dict() for step in self.steps],
            "before": _essentials(before),
            "after": _essentials(after),
            "better": compared["better"],
            "worse": compared["worse"],
            "numbers": compared["numbers"],
            "code": self.code,
            "trial": None if self.trial is None else self.trial.to_dict(),
        }

    def __str__(self) -> str:
        return self.summary


def _essentials(document: dict[str, Any]) -> dict[str, Any]:
    keys = ("id", "severity", "layers", "evidence")
    findings = [{key: finding[key] for key in keys} for finding in document["findings"]]
    return {"healthy": document["healthy"], "summary": document["summary"], "findings": findings}
