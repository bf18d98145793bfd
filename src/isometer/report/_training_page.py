"""A training run, or two of them, as one HTML file that opens offline: heat maps, linked curves, warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import xarray

from isometer.metrics._catalogue import describe
from isometer.report._offline_page import asset, embedded, plotly_script, policy, program_of, saved
from isometer.serialize import json_data

_SCRIPTS = ("training.js",)
_POINTS = 2000  # of the loss of every step, which are enough for a screen
_rounded = partial(json_data, digits=6)


@dataclass(frozen=True)
class TrainingRun:
    """What a page shows of a run.

    Attributes:
        name: name of the run.
        history: as `SignalMonitor.history`.
        warnings: `step`, `id`, `layers`, `reason` and `advice` each.
        findings: rows of `step`, `id` and `title`: what the doctor found at some steps.
    """

    name: str
    history: xarray.Dataset
    warnings: Sequence[Mapping[str, Any]] = ()
    findings: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


def save_training_page(
    history: xarray.Dataset, warnings: Sequence[Mapping[str, Any]], path: Path, *, title: str
) -> Path:
    """Write the page of one run."""
    return save_runs_page([TrainingRun(title, history, warnings)], path, title=title)


def save_runs_page(runs: Sequence[TrainingRun], path: Path, *, title: str) -> Path:
    """Write the page of some runs.

    Args:
        runs: with the same layers, as far as they are to be compared.
        path: path of the file, in a folder that exists.
        title: title of the page.

    Returns:
        The path.
    """
    return saved(path, lambda: training_page(runs, title=title))


def training_page(runs: Sequence[TrainingRun], *, title: str) -> str:
    """The page as text.

    Example:
        >>> names = {"step": [1], "name": ("layer", ["<a>"])}
        >>> data = xarray.Dataset({"rms": (("step", "layer"), np.ones((1, 1)))}, names)
        >>> page = training_page([TrainingRun("mine", data)], title="<mine>")
        >>> "<mine>" in page, "&lt;mine&gt;" in page, "src=" in page.split("<body")[0]
        (False, True, False)
    """
    plotly, program = plotly_script(), program_of(*_SCRIPTS)
    count = sum(len(run.warnings) for run in runs)
    steps = [f"{run.history.sizes['step']} observations" for run in runs]
    return Template(asset("training.html")).substitute(
        policy=policy(plotly, program),
        title=escape(f"{title} · training"),
        heading=escape(title),
        style=asset("page.css"),
        state="undecided" if count else "healthy",
        mark="!" if count else "✓",
        word="No warnings" if not count else f"{count} warning{'s' if count > 1 else ''}",
        setting=escape("; ".join(f"{run.name}: {said}" for run, said in zip(runs, steps, strict=True))),
        warnings=_warnings(runs),
        findings=_findings(runs),
        data=embedded(_payload(runs)),
        plotly=plotly,
        program=program,
    )


def _warnings(runs: Sequence[TrainingRun]) -> str:
    rows = [
        f"<tr><td>{escape(run.name)}</td><td>{int(one['step'])}</td><th scope='row'>{escape(str(one['id']))}</th>"
        f"<td>{escape(', '.join(map(str, one['layers'])) or 'all')}</td><td>{escape(str(one['reason']))}</td>"
        f"<td>{escape(str(one['advice']))}</td></tr>"
        for run in runs
        for one in run.warnings
    ]
    if not rows:
        return '<p class="clean healthy">None was raised.</p>'
    head = "".join(f"<th>{word}</th>" for word in ("run", "step", "sign", "where", "why", "what to do"))
    return f'<div class="scroll">{_table(head, rows)}</div>'


def _table(head: str, rows: Sequence[str]) -> str:
    return f'<table class="outlooks"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _findings(runs: Sequence[TrainingRun]) -> str:
    rows = [
        f"<tr><td>{escape(run.name)}</td><td>{escape(str(one['step']))}</td><td>{escape(str(one['title']))}</td></tr>"
        for run in runs
        for one in run.findings
    ]
    if not rows:
        return ""
    head = "".join(f"<th>{word}</th>" for word in ("run", "step", "finding"))
    table = _table(head, rows)
    title = '<h2 id="found-title">Findings of the doctor over time</h2>'
    return f'<section aria-labelledby="found-title">{title}<div class="scroll">{table}</div></section>'


def _payload(runs: Sequence[TrainingRun]) -> dict[str, Any]:
    first = runs[0].history
    over = [name for name in ("layer", "parameter", "group") if name in first.dims]
    shared = [name for name in first.data_vars if all(name in run.history for run in runs)]
    tables = [(str(name), dim) for dim in over for name in shared if first[name].dims == ("step", dim)]
    tables = [(name, dim) for name, dim in tables if any(bool(run.history[name].notnull().any()) for run in runs)]
    scalars = [str(name) for name in shared if first[name].dims == ("step",)]
    numbers = (["loss_every_step"] if "loss_every_step" in shared else []) + scalars
    sizes = {dim: min(run.history.sizes.get(dim, 0) for run in runs) for dim in over}
    return {
        "places": {dim: _names(first, dim)[: sizes[dim]] for dim in over},
        "tables": [_described(first, name, dim) for name, dim in tables],
        "scalars": numbers,
        "runs": [
            {
                "name": run.name,
                "steps": run.history["step"].values.tolist(),
                "values": {name: _shown(run.history, name, dim, sizes[dim]) for name, dim in tables},
                "scalars": {name: _curve(run.history, name) for name in numbers},
                "warnings": [{"step": int(one["step"]), "id": str(one["id"])} for one in run.warnings],
            }
            for run in runs
        ],
    }


def _names(history: xarray.Dataset, dim: str) -> list[str]:
    if dim != "layer":
        return [str(name) for name in history[dim].values]
    names = history["name"].values if "name" in history.coords else range(history.sizes["layer"])
    ops = history["op"].values if "op" in history.coords else [""] * history.sizes["layer"]
    return [f"{name} {op}".strip() for name, op in zip(names, ops, strict=True)]


def _described(history: xarray.Dataset, name: str, dim: str) -> dict[str, Any]:
    known = describe(name)
    values = history[name].values * known.factor
    return {
        "name": name,
        "over": dim,
        "title": known.label,
        "about": known.sentence,
        "log": known.log_axis(values[np.isfinite(values)].tolist()),
    }


def _shown(history: xarray.Dataset, name: str, dim: str, size: int) -> list[Any]:
    values = history[name].transpose("step", dim).values[:, :size] * describe(name).factor
    return [_rounded(row.tolist()) for row in values]


def _curve(history: xarray.Dataset, name: str) -> dict[str, Any]:
    column = history[name]
    thin = max(1, column.size // _POINTS)
    return {
        "steps": column[column.dims[0]].values[::thin].tolist(),
        "values": _rounded(column.values[::thin].tolist()),
    }
