"""What a treatment did, before and after side by side."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from isometer.doctor.conditions._prescription import Written
from isometer.doctor.diagnosis._comparison import compare
from isometer.doctor.diagnosis._report import Report
from isometer.doctor.treatment._trials import TreatmentTrial
from isometer.serialize import json_data

LOSSES = ("turn-loss", "scale-loss")
"""Ids of advice about the loss: where it holds, the model is not to blame."""
if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 6  # steps and lines of code that `repr` shows


@dataclass(frozen=True)
class Step:
    """One change that was tried, or that is advised.

    Example:
        >>> Step("zero-bias", "weights", "refused", "all biases are zero already").status
        'refused'
        >>> round(Step("redraw", "weights", "applied", "progress 0.02 → 0.61", 0.02, 0.61).effect, 2)
        0.59

    Attributes:
        id: ID of the prescription, or of the repair of a cause.
        kind: `weights`, `architecture`, `batch` or `training`.
        status: `applied`, `advised` (only you can do it), `refused` (it cannot apply), or `undone` (it did not help or
            made things worse).
        reason: why, or what it did.
        before: progress of a short training without it; nan where findings decide.
        after: the same with it.
    """

    id: str
    kind: str
    status: str
    reason: str
    before: float = math.nan
    after: float = math.nan

    @property
    def effect(self) -> float:
        """Progress that it brought, nan where that was not measured."""
        return self.after - self.before

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        numbers = {"progress": [self.before, self.after], "effect": self.effect}
        told = {"id": self.id, "kind": self.kind, "status": self.status, "reason": self.reason}
        return {**told, **json_data(numbers, digits=4)}


@dataclass(frozen=True, eq=False, repr=False)
class Treatment:
    """A treated model, with the reports before and after.

    Attributes:
        model: the treated model.
        steps: everything that was tried or is advised: what was applied, in order; then advice; then what did not help,
            most effective first.
        before: the report that the treatment started from.
        after: the report of the treated model on the batch of the treatment.
        code: Python lines that do the same to `model` with `batch`; empty if nothing was applied.
        calls: the calls in the code, to be repeated.
        trial: brief training of both, if there was one.
        trained: whether short trainings decided; if not, findings did.
        optimizer: the optimizer of the short trainings.
        progress: progress of these trainings before and after.
        seconds: how long all of it took.

    Example:
        >>> import torch
        >>> from isometer.doctor import diagnose
        >>> from isometer.doctor.treatment import treat
        >>> _ = torch.manual_seed(0)
        >>> layers = [m for _ in range(12) for m in (nn.Linear(32, 32, bias=False), nn.ReLU())]
        >>> model, batch = nn.Sequential(*layers, nn.Linear(32, 4)), torch.randn(16, 32)
        >>> treatment = treat(model, diagnose(model, batch, stress=False), batch=batch, stress=False)
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
    calls: tuple[Written, ...] = ()
    trial: TreatmentTrial | None = field(default=None)
    trained: bool = False
    optimizer: str = ""
    progress: tuple[float, float] = (math.nan, math.nan)
    seconds: float = 0.0

    @property
    def applied(self) -> tuple[str, ...]:
        """Ids of what was applied, in order, each once."""
        return tuple(dict.fromkeys(step.id for step in self.steps if step.status == "applied"))

    @property
    def advice(self) -> tuple[Step, ...]:
        """What only you can do."""
        return tuple(step for step in self.steps if step.status == "advised")

    def repeat(self, model: nn.Module, batch: Any, *, seed: int = 0) -> nn.Module:
        """Do the same to another model of the same architecture, in place.

        Args:
            model: the model.
            batch: what it is called with.
            seed: seed of all draws.

        Returns:
            The model.
        """
        for call in self.calls:
            call.make(model, batch, seed)
        return model

    @property
    def cured(self) -> bool:
        """Whether the model did not train before and does now; where findings decide: whether none is left."""
        if self.trained:
            return self.before.healthy is not True and self.after.healthy is True and bool(self.calls)
        return bool(self.before.findings) and not self.after.findings

    @property
    def summary(self) -> str:
        """One line."""
        return self._of_training() if self.trained else self._of_findings()

    def _of_training(self) -> str:
        if not self.steps and self.before.healthy:
            slow = all(one.verdict == "slow" for one in self.before.trains.values())
            how = " slowly, and nothing in it is known to be to blame" if slow else ""
            return f"{self.before.model} trains{how}: nothing to treat."
        advice = " ".join(f"To do: {step.reason}" for step in self.advice[:1])
        if not self.applied:
            if {step.id for step in self.steps} == {"learning-rate"} or (self.advice and self.advice[0].id in LOSSES):
                return f"{self.before.model} needs no treatment. {advice}"
            more = f" more with {self.optimizer}" if self.before.healthy else ""
            return f"Nothing that was tried makes {self.before.model} learn{more}. {advice}".strip()
        grown = f"progress {self.progress[0]:.2f} → {self.progress[1]:.2f} with {self.optimizer}"
        end = {True: "it trains now", False: "it still does not train", None: "it could still not be judged"}
        if self.before.healthy:
            return f"{', '.join(self.applied)}: {grown}. {advice}".strip()
        return f"{', '.join(self.applied)}: {end[self.after.healthy]} ({grown}). {advice}".strip()

    def _of_findings(self) -> str:
        if not self.before.findings:
            return f"Nothing was found in {self.before.model}: nothing to treat."
        left = ", ".join(finding.id for finding in self.after.findings)
        if not self.applied:
            return f"Nothing that was tried helps {self.before.model}; still there: {left}."
        end = "no findings remain" if not self.after.findings else f"still there: {left}"
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
            "trained": self.trained,
            "optimizer": self.optimizer,
            "progress": json_data(list(self.progress), digits=4),
            "trains": after["trains"],
            "seconds": round(self.seconds, 2),
        }

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        steps = [f"  {step.status} {step.id}: {step.reason}" for step in self.steps[:_SHOWN]]
        more = len(self.steps) - len(steps)
        code = [f"    {line}" for line in self.code.splitlines() if line.strip()][:_SHOWN]
        lines = [f"Treatment · {self.summary}", *steps, *([f"  … {more} steps more"] if more else [])]
        lines += [*code, "  more: treatment.model, treatment.code, treatment.plot(), treatment.after"]
        return "\n".join(textwrap.fill(line, 80, subsequent_indent="    ") for line in lines)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw size, cosines and gradients over the layers, before and after.

        Args:
            path: also write the picture to this file, .png, .pdf or .svg.

        Returns:
            A matplotlib figure, which notebooks display.
        """
        from isometer.report._doctor_picture import treatment_picture
        from isometer.report._pictures import save_figure

        figure = treatment_picture(self.before.to_dict(), self.after.to_dict(), self.summary)
        if path is not None:
            save_figure(figure, path)
        return figure

    def _repr_html_(self) -> str:
        from isometer.report._displays import treatment_html

        return treatment_html(self.to_dict())


def _essentials(document: dict[str, Any]) -> dict[str, Any]:
    keys = ("id", "severity", "layers", "evidence")
    findings = [{key: finding[key] for key in keys} for finding in document["findings"]]
    return {"healthy": document["healthy"], "summary": document["summary"], "findings": findings}
