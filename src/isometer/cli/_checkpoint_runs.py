"""`isometer doctor MODEL --checkpoints 'run/*.pt'`: a training run after the fact."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from isometer.cli._shared import console, emit, next_step, status, tell_file
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.doctor.watch import CheckpointRun

UNHEALTHY = 1
_ROWS = 12  # checkpoints in the table; all are on the page
_COLUMNS = {
    "loss": "loss",
    "rms": "rms of the last layer",
    "effective_rank": "effective rank there",
    "weight_change": "weights moved by",
}
Series = tuple[str, dict[int, Path]]


def check_alone(**options: Any) -> None:
    """Refuse options that are about one state of the model.

    Raises:
        IsometerError: one was given.
    """
    given = [f"--{name}" for name, value in options.items() if value is not None]
    if given:
        raise IsometerError(
            f"{given[0]} applies to one state of the model; expected --checkpoints alone — drop {given[0]}, or name "
            "one file with --checkpoint"
        )


def checkpoint_series(pattern: str, other: str | None) -> list[Series]:
    """The files of one run, or of two, by step.

    Raises:
        IsometerError: a pattern names none.
    """
    from isometer.doctor._checkpoint_files import checkpoint_files

    patterns = [pattern] if other is None else [pattern, other]
    return [(one, checkpoint_files(one)) for one in patterns]


def run_of(series: Series, examined: Any, prepared: Any, evaluate: bool, seed: int) -> CheckpointRun:
    """Look at all checkpoints of a run."""
    from isometer.doctor._loading import load_weights
    from isometer.doctor.watch import watch_checkpoints

    name, files = series
    with status("examining") as told:
        return watch_checkpoints(
            examined.model,
            {step: functools.partial(load_weights, path=path) for step, path in files.items()},
            prepared.inputs,
            target=prepared.labels,
            loss=prepared.loss,
            mode="eval" if evaluate else "train",
            name=name,
            seed=seed,
            told=told,
        )


def finish(runs: Sequence[CheckpointRun], html: Path | None, target: str, pattern: str | None, as_json: bool) -> None:
    """Page, JSON or tables; the exit code is 1 if the last checkpoint of the first run has findings."""
    first, *others = runs
    if html is not None:
        first.to_html(html, *others)
    last = first.findings[first.steps[-1]]
    if as_json:
        emit({"runs": [one.to_dict() for one in runs], "healthy": not last})
    else:
        page = console()
        for one in runs:
            _show(page, one)
        for other in others:
            page.print(Text(_difference(first, other), style="bold"))
        if html is not None:
            tell_file(page, "page", html)
        more = f"isometer doctor {target} --checkpoints {pattern!r} --html run.html"
        next_step(page, more if html is None else f"isometer doctor {target} --checkpoint FILE")
    if last:
        raise typer.Exit(UNHEALTHY)


def _show(page: Console, run: CheckpointRun) -> None:
    page.print(Text(_conclusion(run), style="bold"))
    rows = run.over_time()
    if rows:
        from isometer.doctor.watch._checkpoints import spans

        found = Table(box=SIMPLE)
        for column in ("finding", "severity", "at steps"):
            found.add_column(column)
        for row in rows:
            found.add_row(Text(row["title"]), row["severity"], spans(row["steps"], run.steps))
        page.print(found)
    for warning in run.warnings:
        page.print(Text(str(warning), style="yellow"))
    page.print(_table(run))


def _conclusion(run: CheckpointRun) -> str:
    steps, count = run.steps, len(run.steps)
    many = f"{count} checkpoint{'s' if count > 1 else ''}, step{'s' if count > 1 else ''} {steps[0]}"
    span = many + (f" to {steps[-1]}" if count > 1 else "")
    last = {one.id for one in run.findings[steps[-1]]}
    new = sorted(last - {one.id for one in run.findings[steps[0]]})
    if not run.over_time():
        said = "nothing found at any of them"
    elif not last:
        said = "nothing found at the last one"
    elif new:
        said = f"new since the first: {', '.join(new)}"
    else:
        said = f"found at the last one: {', '.join(sorted(last))}"
    return f"{run.name}: {span}; {said}."


def _difference(one: CheckpointRun, other: CheckpointRun) -> str:
    """What only one of two runs has: findings at the end, warnings on the way."""
    parts = []
    for here, there in ((one, other), (other, one)):
        found = _ids(here.findings[here.steps[-1]]) - _ids(there.findings[there.steps[-1]])
        warned = _ids(here.warnings) - _ids(there.warnings)
        if found or warned:
            said = [f"{', '.join(sorted(found))} at the end"] if found else []
            said += [f"warned of {', '.join(sorted(warned))}"] if warned else []
            parts.append(f"only {here.name}: {'; '.join(said)}")
    return f"{'. '.join(parts) or 'Both runs end with the same findings and had the same warnings'}."


def _ids(some: Sequence[Any]) -> set[str]:
    return {one.id for one in some}


def _table(run: CheckpointRun) -> Table:
    import numpy as np

    history = run.history
    columns = [name for name in _COLUMNS if name in history and bool(history[name].notnull().any())]
    table = Table(box=SIMPLE)
    for title in ("step", *(_COLUMNS[name] for name in columns), "findings"):
        table.add_column(title, justify="right")
    shown = np.unique(np.linspace(0, len(run.steps) - 1, _ROWS).round().astype(int))
    hidden = _last_hidden(history)
    for index in shown:
        row = [_number(_of(history, name, int(index), hidden)) for name in columns]
        table.add_row(str(run.steps[index]), *row, str(len(run.findings[run.steps[index]])))
    return table


def _last_hidden(history: Any) -> int:
    """The deepest layer that is neither a weight layer nor the last."""
    kinds = history["kind"].values[:-1]
    hidden = [index for index, kind in enumerate(kinds) if kind not in ("weight", "input")]
    return hidden[-1] if hidden else max(0, history.sizes["layer"] - 1)


def _of(history: Any, name: str, index: int, hidden: int) -> float:
    column = history[name].isel(step=index)
    if "layer" in column.dims:
        return float(column.isel(layer=hidden))
    return float(column.median()) if column.dims else float(column)


def _number(value: float) -> str:
    return "—" if math.isnan(value) else f"{value:.3g}"
