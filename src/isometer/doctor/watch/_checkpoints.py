"""A training run after the fact: what a monitor would have seen, and the doctor's findings, from saved checkpoints."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from isometer.doctor.conditions import CONDITIONS, Finding
from isometer.doctor.diagnosis import diagnose
from isometer.doctor.watch._metrics import chosen_metrics, measured
from isometer.doctor.watch._observation import StepReading, dataset, in_examination
from isometer.doctor.watch._rules import NEEDED
from isometer.doctor.watch._warnings import SignWatch, TrainingWarning
from isometer.errors import IsometerError

if TYPE_CHECKING:
    import xarray

Load = Callable[[nn.Module], Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CheckpointRun:
    """What the checkpoints of a run show.

    Attributes:
        name: name of the run.
        history: as `SignalMonitor.history`: metrics over `(step, layer)`, norms and changes of weights over `(step,
            parameter)`, numbers of the whole model over `step`.
        warnings: signs of trouble, as a monitor raises them.
        findings: findings of the doctor, by step.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> run = watch_checkpoints(model, {10: model.state_dict(), 20: model.state_dict()}, torch.randn(8, 4))
        >>> run.steps, run.history["weight_change"].values[1].tolist()
        ([10, 20], [0.0, 0.0, 0.0, 0.0])
    """

    name: str
    history: xarray.Dataset
    warnings: tuple[TrainingWarning, ...]
    findings: Mapping[int, tuple[Finding, ...]]

    @property
    def steps(self) -> list[int]:
        """Of the checkpoints, in order."""
        return list(self.findings)

    def over_time(self) -> list[dict[str, Any]]:
        """One row per condition: its title, the worst severity, and the steps at which it was found, first seen first.

        Example:
            >>> run = watch_checkpoints(nn.Linear(4, 2), {1: {}}, torch.randn(8, 4), strict=False)
            >>> run.over_time()
            []
        """
        seen: dict[str, list[tuple[int, Finding]]] = {}
        for step, found in self.findings.items():
            for one in found:
                seen.setdefault(one.id, []).append((step, one))
        return [
            {
                "id": condition,
                "title": CONDITIONS[condition].title,
                "severity": "severe" if any(one.severity == "severe" for _, one in at) else at[0][1].severity,
                "steps": [step for step, _ in at],
                "last": at[-1][1].explanation,
            }
            for condition, at in seen.items()
        ]

    def to_html(self, path: str | Path, *beside: CheckpointRun) -> Path:
        """Write the page of a training run, beside other runs where some are given.

        Args:
            path: path of the file, in a folder that exists.
            beside: runs of the same model to compare with.

        Returns:
            The path.
        """
        from isometer.report._training_page import TrainingRun, save_runs_page

        runs = [
            TrainingRun(one.name, one.history, [warning.to_dict() for warning in one.warnings], _rows(one))
            for one in (self, *beside)
        ]
        return save_runs_page(runs, Path(path), title=" and ".join(one.name for one in (self, *beside)))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "name": self.name,
            "steps": self.steps,
            "findings": {str(step): [one.to_dict() for one in found] for step, found in self.findings.items()},
            "over_time": self.over_time(),
            "warnings": [one.to_dict() for one in self.warnings],
            "layers": [str(name) for name in self.history["name"].values],
            "parameters": [str(name) for name in self.history["parameter"].values],
            "history": {
                str(name): {"over": list(map(str, column.dims)), "values": column.values.tolist()}
                for name, column in self.history.data_vars.items()
                if column.dims[0] == "step"
            },
        }


def watch_checkpoints(
    model: nn.Module,
    checkpoints: Mapping[int, Mapping[str, torch.Tensor] | Load],
    batch: Any,
    *,
    target: Any = None,
    loss: Callable[..., torch.Tensor] | None = None,
    metrics: Sequence[str] | None = None,
    mode: str | None = "train",
    strict: bool = True,
    name: str = "run",
    seed: int = 0,
    told: Callable[[str], None] = lambda text: None,
) -> CheckpointRun:
    """Look at every checkpoint of a run with the same batch: metrics by layer, changes of weights, findings, warnings.

    The weights go into a copy; the model is left as it was.

    Args:
        model: the model that the checkpoints belong to.
        checkpoints: by step, state dicts or functions that load weights into the model they are given.
        batch: what the model is called with, as for `isometer.probe`.
        target: second argument of the loss.
        loss: a function of the output and the target; without one, gradients are those of a Gaussian cotangent.
        metrics: as for `SignalMonitor`.
        mode: `"train"`, `"eval"`, or `None` for the mode the model is in.
        strict: whether state dicts have to hold every parameter.
        name: name of the run.
        seed: seed of cotangents and redraws.
        told: called with what is being done.

    Raises:
        IsometerError: there is no checkpoint, or a state dict does not fit the model.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> first = model.state_dict()
        >>> later = {key: 2 * tensor for key, tensor in first.items()}
        >>> run = watch_checkpoints(model, {100: first, 200: later}, torch.randn(16, 8), metrics=["rms"])
        >>> run.history["weight_change"].values[1].tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    if not checkpoints:
        raise IsometerError("there are no checkpoints; expected at least one — pass {step: state_dict}")
    chosen = chosen_metrics(metrics)
    wanted = [*chosen, *(one for one in NEEDED if one not in chosen)]
    copied, watch = copy.deepcopy(model), SignWatch()
    observations: list[StepReading] = []
    warnings: list[TrainingWarning] = []
    findings: dict[int, tuple[Finding, ...]] = {}
    before: list[torch.Tensor] | None = None
    names = [one for one, _ in _floating(copied)]
    matrices = [one.dim() > 1 for _, one in _floating(copied)]
    for number, step in enumerate(sorted(checkpoints), 1):
        told(f"checkpoint {number} of {len(checkpoints)}, step {step}")
        _load(copied, checkpoints[step], step, strict)
        with measured(wanted):
            report = diagnose(
                copied, batch, target, loss=loss, stress=False, predict=False, mode=mode, name=name, seed=seed
            )
            seen = in_examination(report.examination, step, wanted)
        parameters, before = _weights(copied, before)
        # Without targets the loss is that of a random cotangent, which says nothing.
        value = report.examination.loss.value if target is not None else math.nan
        scalars = {"loss": math.nan if value is None else float(value), **seen.scalars}
        observations.append(replace(seen, parameters=parameters, scalars=scalars))
        scores, raised = watch.look(observations, names, matrices)
        observations[-1] = replace(observations[-1], scalars={**scalars, **scores})
        warnings.extend(raised)
        findings[step] = report.findings
    return CheckpointRun(name, _history(observations, names, chosen), tuple(warnings), findings)


def _load(model: nn.Module, given: Mapping[str, torch.Tensor] | Load, step: int, strict: bool) -> None:
    if not isinstance(given, Mapping):
        given(model)
        return
    try:
        model.load_state_dict(given, strict=strict)
    except RuntimeError as problem:
        raise IsometerError(
            f"the state dict of step {step} does not fit the model: {' '.join(str(problem).split())[:400]}"
        ) from problem


def _floating(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, one.detach()) for name, one in model.named_parameters() if one.is_floating_point()]


def _weights(model: nn.Module, before: Sequence[torch.Tensor] | None) -> tuple[dict[str, Floats], list[torch.Tensor]]:
    """Norms, and changes since the last checkpoint relative to the weights there; and the weights."""
    now = [one.clone() for _, one in _floating(model)]
    norms = np.array([float(one.double().norm()) for one in now])
    changes = np.full(len(now), math.nan)
    if before is not None:
        moved = np.array([float((a.double() - b.double()).norm()) for a, b in zip(now, before, strict=True)])
        sizes = np.array([float(one.double().norm()) for one in before])
        with np.errstate(all="ignore"):
            # Weights of zero that moved have moved by infinitely much of themselves; those that stay, by nothing.
            changes = np.where(moved > 0, moved / sizes, np.where(np.isnan(moved), math.nan, 0.0))
    return {"weight_norm": norms, "weight_change": changes}, now


def _history(observations: Sequence[StepReading], names: Sequence[str], metrics: Sequence[str]) -> xarray.Dataset:
    shown = [
        replace(one, values={key: row for key, row in one.values.items() if key in metrics}) for one in observations
    ]
    losses = [(one.step, one.scalars["loss"]) for one in observations]
    return dataset(shown, names, ["all"], losses)


def _rows(run: CheckpointRun) -> list[dict[str, str]]:
    """For the page: conditions and the steps at which they were found."""
    return [
        {"step": spans(row["steps"], run.steps), "id": row["id"], "title": f"{row['title']} ({row['severity']})"}
        for row in run.over_time()
    ]


def spans(found: Iterable[int], steps: Sequence[int]) -> str:
    """Some of the steps in words: neighbours are joined.

    Example:
        >>> spans([20, 30, 50], [10, 20, 30, 40, 50])
        '20 to 30, 50'
    """
    at = sorted({steps.index(step) for step in found})
    groups: list[list[int]] = []
    for index in at:
        if groups and groups[-1][-1] == index - 1:
            groups[-1].append(index)
        else:
            groups.append([index])
    return ", ".join(
        str(steps[group[0]]) if len(group) == 1 else f"{steps[group[0]]} to {steps[group[-1]]}" for group in groups
    )
