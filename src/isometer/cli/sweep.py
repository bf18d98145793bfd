"""`isometer sweep`: a command over a grid, in parallel, resumable."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isometer.cli._application import CommandGroup
from isometer.cli._interruption import INTERRUPTED, keeps, tell_interruption
from isometer.cli._long_work import DaskAddress, Workers, cells_display, duration, tell_failures
from isometer.cli._network import SHORT, says_width
from isometer.cli._panels import Panel
from isometer.cli._shared import OUTPUT, Json, Memory, Time, allowing, app, console, emit, next_step, tell_file
from isometer.cli._targets import TARGETS, SweepTarget, converted
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.report._sweeps import Slope
    from isometer.run import Job, Outcome, Store

JOB = "sweep"  # the name of the job of a sweep in its store

GRID = Panel("Grid")
"""The panel of the help."""
Out = Annotated[Path | None, OUTPUT("--out", metavar="DIR", help="Folder for cells and result; runs/… by default.")]
Grid = Annotated[
    list[str] | None,
    GRID("--grid", metavar="NAME=VALUES", help="One axis: width=64,128 or depth=10:50:10 or width=log:8:512:7."),
]
MoreAxes = Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUES", help="More axes of the grid.")]

_HELP = """Run `isometer {name}` for every point of a grid: one result over all cells, a summary and a picture.

Repeat the command to resume after an interruption. A changed grid reuses the cells in the folder of --out.

Example: [bold]isometer sweep {example} --workers 2 --out runs/mine[/]
"""
_EXAMPLES = {
    "simulate": "simulate --grid width=64,128,256 activation=relu,tanh --depth 20",
    "kernel": "kernel --grid depth=log:1:1000:7 'activation=relu,normalized(relu)' --input x.npy",
}

sweep_app = CommandGroup(help="Run a command over a grid of its options, in parallel, resumable.")
app.add_typer(sweep_app, name="sweep")


def _register(name: str, target: SweepTarget) -> None:
    """A subcommand with the options of the command that it sweeps."""
    own = [("axes", MoreAxes, None), ("grid", Grid, None)]
    end: list[tuple[str, Any, Any]] = [("workers", Workers, None), ("dask", DaskAddress, None), ("out", Out, None)]
    end += [("memory", Memory, None), ("time", Time, None), ("as_json", Json, False)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    first, last = (
        [inspect.Parameter(n, keyword, default=d, annotation=a) for n, a, d in group] for group in (own, end)
    )
    options = [parameter.replace(kind=keyword) for parameter in target.parameters()]

    def command(**given: Any) -> None:
        axes = [*(given.pop("grid") or ()), *(given.pop("axes") or ())]
        workers, dask, out, as_json = (given.pop(n) for n in ("workers", "dask", "out", "as_json"))
        with allowing(given.pop("memory"), given.pop("time")):  # of every cell
            job = make_job(name, target, axes, given)
        store = _store_for(job, out)
        execute(job, store, JOB, workers, dask, as_json)

    parameters = [*first, *options, *last]
    # Typer reads the signature and the annotations.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = _HELP.format(name=name, example=_EXAMPLES.get(name, f"{name} --grid depth=1,2,4"))
    sweep_app.command(name)(command)


def make_job(name: str, target: SweepTarget, texts: list[str], options: Mapping[str, Any]) -> Job:
    """The job of a sweep, every cell of it checked before any is run."""
    from isometer.run import Cell, Job, parse_axes
    from isometer.run._cells import grid_points
    from isometer.run._code import function_named

    allowed = target.axes()
    axes = {
        key: [converted(key, text, allowed[key]) for text in values]
        for key, values in parse_axes(texts, allowed).items()
    }
    own = options.get("network")
    fixed = [key for key in axes if key in SHORT or (key == "width" and own and says_width(own))]
    if own is not None and fixed:
        raise IsometerError(f"the grid varies {fixed[0]!r}, which --network fixes — drop one of them")
    plain_axes = {key: [_coordinate(value) for value in values] for key, values in axes.items()}
    typed = {key: dict(zip(plain_axes[key], values, strict=True)) for key, values in axes.items()}
    check = function_named(target.check)
    cells = []
    for point in grid_points(plain_axes):
        chosen = {allowed[key].name: typed[key][value] for key, value in point.items()}
        try:
            configuration = target.configure({**options, **chosen})
            check(configuration)
        except IsometerError as problem:
            label = " ".join(f"{key}={value}" for key, value in point.items())
            raise IsometerError(f"the cell {label}: {problem}") from None
        cells.append(Cell(point, configuration))
    base = {key: _coordinate(options[p.name]) for key, p in allowed.items() if key not in axes}
    return Job(function_named(target.cell), plain_axes, tuple(cells), notes={"target": name, "options": base})


def _coordinate(value: Any) -> Any:
    """An option value as text or number."""
    if isinstance(value, StrEnum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def _store_for(job: Job, out: Path | None) -> Store:
    """The store of a sweep; one that holds another job is refused."""
    import hashlib

    from isometer.run import Store, StoreError
    from isometer.run._cells import canonical

    if out is None:
        # Named by its content, so that the same command finds its cells again.
        text = canonical([[dict(cell.coordinates), cell.text] for cell in job.cells])
        out = Path("runs") / f"{job.notes['target']}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    store = Store.create(out)
    names = store.job_names()
    others = [name for name in names if name != JOB]
    problem = f"the jobs {', '.join(others)}" if others else ""
    if JOB in names:
        record = store.job_record(JOB)
        if record["function"] != job.function_name:
            problem = f"a sweep of {record['notes'].get('target', record['function'])}"
        else:
            problem = _difference(record, job)
    if problem:
        raise StoreError(f"the store {str(out)!r} holds another job: {problem} — pass another --out")
    return store


def _difference(record: Mapping[str, Any], job: Job) -> str:
    """The first option that was another when the store was filled, in words."""
    from isometer.run._cells import recorded

    before, now = record["notes"].get("options"), recorded(job.notes["options"])
    for key in sorted(set(before) & set(now)) if isinstance(before, dict) else ():
        if before[key] != now[key]:
            return f"its {key} is {before[key]}, not {now[key]}"
    return ""


def execute(job: Job, store: Store, name: str, workers: int | None, dask: str | None, as_json: bool) -> None:
    """Run a job, write its result, summary and picture, and report; exit code 1 if a cell failed."""
    from isometer.run import StoreError, run

    again = f"resume with: isometer runs resume {store.path}"
    try:
        with keeps(f"finished cells are kept; {again}"), cells_display() as observer:
            outcome = run(job, store, name=name, workers=workers, dask=dask, observer=observer)
    except KeyboardInterrupt as problem:
        tell_interruption(f"{problem or 'no cell is lost'}; {again}")
        raise typer.Exit(INTERRUPTED) from None
    except StoreError as problem:
        raise StoreError(f"{problem}; {again}") from None
    paths, slopes = _write(job, store, name, outcome)
    if as_json:
        emit(as_record(outcome, slopes, paths))
    else:
        _report(outcome, slopes, paths)
    if outcome.failures:
        raise typer.Exit(1)


def _write(job: Job, store: Store, name: str, outcome: Outcome) -> tuple[dict[str, Path], list[Slope]]:
    from isometer.files import write_whole
    from isometer.report._pictures import save_figure
    from isometer.report._sweeps import fit_slopes, summary_csv, sweep_picture, sweep_summary
    from isometer.run import results
    from isometer.run._files import netcdf

    stem = "result" if name == JOB else name
    paths = {"result": store.path / f"{stem}.nc"}
    write_whole(paths["result"], netcdf(outcome.result))
    summary = sweep_summary(job, results(job, store))
    slopes = fit_slopes(summary)
    if summary.data_vars:
        paths["summary"] = store.path / ("summary.csv" if name == JOB else f"{name}.csv")
        write_whole(paths["summary"], summary_csv(job, summary))
        paths["picture"] = store.path / ("picture.png" if name == JOB else f"{name}.png")
        title = f"{job.notes.get('target', name)} over {', '.join(job.axes)}"
        save_figure(sweep_picture(summary, slopes, title), paths["picture"])
    return paths, slopes


def as_record(outcome: Outcome, slopes: list[Slope], paths: Mapping[str, Path]) -> dict[str, Any]:
    """The JSON of `isometer sweep` and `isometer runs resume`."""
    return {
        "cells": outcome.cells,
        "done": outcome.done,
        "failed": len(outcome.failures),
        "reused": outcome.reused,
        "seconds": round(outcome.seconds, 3),
        **{kind: str(path) for kind, path in paths.items()},
        "slopes": [slope.to_dict() for slope in slopes],
        "failures": [
            {"cell": f.label, "configuration": f.configuration, "error": f.error, "traceback": f.traceback}
            for f in outcome.failures
        ],
        "notes": list(outcome.notes),
    }


def _report(outcome: Outcome, slopes: list[Slope], paths: Mapping[str, Path]) -> None:
    from isometer.report._sweeps import slope_table

    page = console()
    reused = f", {outcome.reused} of them found in the store" if outcome.reused else ""
    page.print(f"[bold]{outcome.done} of {outcome.cells} cells[/] in {duration(outcome.seconds)}{reused}")
    if slopes:
        page.print(slope_table(slopes))
    for kind, path in paths.items():
        tell_file(page, kind, path)
    tell_failures(outcome.failures)
    next_step(page, f"isometer runs show {paths['result'].parent}")


for _name, _target in TARGETS.items():
    _register(_name, _target)
