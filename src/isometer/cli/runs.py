"""`isometer runs`: what was run, how far it is, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

from isometer.cli._application import CommandGroup
from isometer.cli._long_work import DaskAddress, Workers, tell_failures
from isometer.cli._shared import CHOICE, Json, app, console, emit, next_step, status
from isometer.cli.sweep import execute
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from rich.console import Console

    from isometer.run import FileReport, Store

runs_app = CommandGroup(help="Results of sweeps: list, resume, verify, clean up.")
app.add_typer(runs_app, name="runs")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a sweep.")]


def _standing(store: Store, name: str) -> dict[str, Any]:
    """How far a job is, by its files; every other command reads them whole."""
    record = store.job_record(name)
    standing: dict[str, Any] = {
        "folder": str(store.path),
        "job": name,
        "target": str(record["notes"].get("target", record["function"])),
        "grid": {axis: len(values) for axis, values in record["axes"].items()},
        "cells": len(record["cells"]),
        "code": record["code"],
    }
    try:
        job = store.load_job(name)
    except IsometerError as problem:
        return {**standing, "done": None, "failed": None, "missing": None, "current": False, "problem": str(problem)}
    done = sum(store.cell_path(key).is_file() for key in job.keys)
    failed = sum(store.failure(key) is not None for key in job.keys)
    return {
        **standing,
        "done": done,
        "failed": failed,
        "missing": len(job.cells) - done,
        "current": job.code == record["code"],
    }


@runs_app.command("list")
def list_runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to search, two levels deep.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List the stores in a folder, with the progress of their jobs.

    Example: [bold]isometer runs list[/]
    """
    from isometer.run import find_stores

    rows = [_standing(store, name) for store in find_stores(folder) for name in store.job_names()]
    if as_json:
        emit(rows)
        return
    if not rows:
        page = console()
        page.print(f"no runs in {folder}", highlight=False, markup=False)
        next_step(page, "isometer sweep simulate --grid width=64,128,256 --depth 20")
        return
    table = Table(box=SIMPLE, padding=(0, 1))
    for column in ("folder", "what", "grid", "done", "failed", ""):
        table.add_column(column, justify="right" if column in ("done", "failed") else "left", overflow="fold")
    for row in rows:
        grid = " × ".join(f"{axis} {size}" for axis, size in row["grid"].items())
        state = "code changed" if not row["current"] else "complete" if row["missing"] == 0 else "incomplete"
        done = "?" if row["done"] is None else f"{row['done']}/{row['cells']}"
        table.add_row(row["folder"], row["target"], grid, done, str(row["failed"] or ""), state)
    page = console()
    page.print(table)
    next_step(page, f"isometer runs show {rows[0]['folder']}")


@runs_app.command()
def show(folder: Folder, as_json: Json = False) -> None:
    """Show one store: jobs, grid, versions, and failed cells with configuration and traceback.

    Example: [bold]isometer runs show runs/mine[/]
    """
    from isometer.run import Store

    store = Store.open(folder)
    rows = []
    failures = []
    for name in store.job_names():
        row = _standing(store, name)
        row["axes"] = store.job_record(name)["axes"]
        options = store.job_record(name)["notes"].get("options")
        row["options"] = options if isinstance(options, dict) else {}
        if row["done"] is not None:
            found = [store.failure(key) for key in store.load_job(name).keys]
            failures += [failure for failure in found if failure is not None]
        rows.append(row)
    if as_json:
        told = [{"cell": f.label, "configuration": f.configuration, "error": f.error, "traceback": f.traceback}
                for f in failures]  # fmt: skip
        emit({"folder": str(store.path), "jobs": rows, "failures": told})
        return
    page = console()
    for row in rows:
        page.print(f"[bold]{row['target']}[/] in {store.path}", highlight=False)
        for axis, values in row["axes"].items():
            page.print(f"  {axis} = {', '.join(map(str, values))}", highlight=False, markup=False, emoji=False)
        options = ", ".join(f"{key}={_plain(value)}" for key, value in row["options"].items() if value is not None)
        page.print(f"  with {options or 'no further options'}", highlight=False, markup=False, emoji=False)
        page.print(f"  {row['done']} of {row['cells']} cells done, {row['failed']} failed; code {row['code']}")
        if not row["current"]:
            page.print("  [yellow]the code has changed since; `resume` recomputes the cells[/]")
    tell_failures(failures)
    whole = all(row["current"] and not row["missing"] for row in rows)
    next_step(page, f"isometer runs {'verify' if whole else 'resume'} {store.path}")


def _plain(value: Any) -> Any:
    """An option as it was typed, where JSON has no number for it."""
    return value["$number"] if isinstance(value, dict) and "$number" in value else value


@runs_app.command()
def resume(folder: Folder, workers: Workers = None, dask: DaskAddress = None, as_json: Json = False) -> None:
    """Compute the cells that are missing, damaged or failed, and write result, summary and picture.

    Example: [bold]isometer runs resume runs/mine --workers 2[/]
    """
    from isometer.run import Store, StoreError

    store = Store.open(folder)
    names = store.job_names()
    if not names:
        raise StoreError(f"the store {str(folder)!r} has no job — run `isometer sweep … --out {folder}`")
    if as_json and len(names) > 1:
        raise StoreError(f"the store has the jobs {', '.join(names)}; --json reports one job — resume without --json")
    for name in names:
        before = store.job_record(name)["code"]
        job = store.load_job(name)
        if before != job.code and not as_json:
            console().print(f"the code has changed ({before} → {job.code}): the cells are recomputed", highlight=False)
        execute(job, store, name, workers, dask, as_json)


@runs_app.command()
def verify(folder: Folder, as_json: Json = False) -> None:
    """Read every file of a store and name those that are damaged, foreign, left over or made by other code.

    The exit code is 1 if a file is damaged, foreign or left over.

    Example: [bold]isometer runs verify runs/mine[/]
    """
    from isometer.run import Store, inspect_store

    store = Store.open(folder)
    with status("reading the store"):
        reports = inspect_store(store)
    bad = [report for report in reports if report.state in ("damaged", "foreign", "temporary")]
    if as_json:
        emit({"folder": str(store.path), "whole": sum(r.state == "whole" for r in reports), "files": _records(reports)})
    else:
        page = _print_reports(reports, f"{sum(r.state == 'whole' for r in reports)} intact cells in {store.path}")
        next_step(page, f"isometer runs {'clean' if bad else 'show'} {store.path}")
    if bad:
        raise typer.Exit(1)


@runs_app.command()
def clean(
    folder: Folder,
    unused: Annotated[
        bool, CHOICE("--unused", help="Also results that no job needs: other code, earlier grids.")
    ] = False,
    dry: Annotated[bool, CHOICE("--dry-run", help="Only list what would be removed.")] = False,
    as_json: Json = False,
) -> None:
    """Remove damaged cells, temporary files and locks of dead processes. Files of other programs are left alone.

    Example: [bold]isometer runs clean runs/mine --unused --dry-run[/]
    """
    from isometer.run import Store, clean_store

    store = Store.open(folder)
    with status("reading the store"):
        gone = clean_store(store, unused=unused, dry=dry)
    if as_json:
        emit({"folder": str(store.path), "dry": dry, "removed": _records(gone)})
    else:
        page = _print_reports(gone, f"{len(gone)} files {'would be ' if dry else ''}removed from {store.path}")
        again = "clean" if dry and gone else "show"
        next_step(page, f"isometer runs {again} {store.path}{' --unused' if unused and again == 'clean' else ''}")


def _records(reports: list[FileReport]) -> list[dict[str, str]]:
    return [{"path": r.path, "state": r.state, "reason": r.reason} for r in reports if r.state != "whole"]


def _print_reports(reports: list[FileReport], title: str) -> Console:
    page = console()
    page.print(title, highlight=False, markup=False, emoji=False)
    for report in reports:
        if report.state != "whole":
            page.print(
                f"  {report.path}: {report.state}, {report.reason}", highlight=False, markup=False, soft_wrap=True
            )
    return page
