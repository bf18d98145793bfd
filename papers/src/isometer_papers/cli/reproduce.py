"""`isometer reproduce`: figures and tables of the papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isometer.cli import (
    CHOICE,
    EXECUTION,
    INTERRUPTED,
    OUTPUT,
    DaskAddress,
    Panel,
    Ticker,
    Workers,
    app,
    cells_bar,
    console,
    describe,
    duration,
    emit,
    in_a_log,
    keeps,
    next_step,
    tell_failures,
    tell_interruption,
)
from isometer.documents import read_json
from isometer.errors import IsometerError
from isometer.files import writable_folder, write_whole
from isometer.serialize import json_text

if TYPE_CHECKING:
    from isometer.run import Status
    from isometer_papers.studies import Made, Study

_COLOURS = {"agree": "green", "partly": "yellow", "disagree": "bold red", "unclear": "dim", "not run": "dim"}
_REQUEST = "request.json"  # what the folder was made with, for --resume


SETTINGS = Panel("Settings of the study")
"""The panel of the help."""


class ScaleChoice(StrEnum):
    quick = "quick"
    medium = "medium"
    paper = "paper"


@app.command()
def reproduce(
    identifiers: Annotated[
        list[str] | None,
        typer.Argument(metavar="list|ID", help="Studies by their IDs, such as 003/fig-2b; `list` lists them all."),
    ] = None,
    paper: Annotated[str | None, CHOICE("--paper", metavar="P", help="All studies of one paper: 003.")] = None,
    every: Annotated[bool, CHOICE("--all", help="All studies of all papers.")] = False,
    scale: Annotated[
        ScaleChoice,
        SETTINGS(
            "--scale",
            help="quick: minutes; medium: up to half an hour, for studies that train; paper: the paper's own size.",
        ),
    ] = ScaleChoice.quick,
    change: Annotated[
        list[str] | None, SETTINGS("--set", metavar="NAME=VALUE", help="Change a setting of the study; repeatable.")
    ] = None,
    data: Annotated[
        str | None, SETTINGS("--data", metavar="D", help="Use another data set, in studies that need one.")
    ] = None,
    device: Annotated[
        str | None, EXECUTION("--device", metavar="D", help="cpu or cuda, for studies that train; cpu by default.")
    ] = None,
    workers: Workers = None,
    dask: DaskAddress = None,
    out: Annotated[
        Path | None, OUTPUT("--out", metavar="DIR", help="Folder of the gallery; ./gallery by default.")
    ] = None,
    resume: Annotated[
        bool, EXECUTION("--resume", help="Resume the last request of --out; finished cells are kept.")
    ] = False,
    again: Annotated[
        bool,
        EXECUTION(
            "--read-again",
            help="Apply the present rules to the results in --out, and redraw them; nothing is computed.",
        ),
    ] = False,
    measure: Annotated[
        bool,
        EXECUTION(
            "--measure",
            help="With list: first measure training steps on this machine, to estimate times; takes minutes.",
        ),
    ] = False,
    as_json: Annotated[bool, OUTPUT("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Reproduce figures and tables of the papers, each with a verdict, and collect them in a gallery.

    Results in --out are never computed twice. After an interruption, repeat the command or use --resume.

    Examples: [bold]isometer reproduce list[/], [bold]isometer reproduce 003/fig-2b --scale paper[/],
    [bold]isometer reproduce --all --workers 2 --out gallery[/], [bold]isometer reproduce 003/fig-1 --set width=64[/],
    [bold]isometer reproduce 004/fig-7 --set watch=true[/] (the doctor's monitor observes the training)
    """
    from isometer_papers.studies import all_studies, parse_changes

    named = list(identifiers or [])
    if named == ["list"]:
        _list([study for study in all_studies() if paper is None or study.number == paper], as_json, measure)
        return
    if measure:
        raise IsometerError("--measure is for the list of studies; expected `isometer reproduce list --measure`")
    folder = out or Path("gallery")
    changes = parse_changes([*(change or []), *(text for text in named if "=" in text)])  # --set a=1 b=2
    named = [text for text in named if "=" not in text]
    request = {"ids": named, "paper": paper, "all": every, "scale": scale.value, "set": changes, "data": data}
    request["device"] = device
    if again:
        if changes or data or device or resume:
            raise IsometerError(
                "--read-again computes nothing; expected it without --set, --data, --device and --resume"
            )
        chosen = _chosen(request) if named or paper or every else None
        _tell(_read_again(chosen, folder, as_json), folder, as_json)
        return
    if resume and not (named or paper or every):
        request = _last_request(folder)
    studies = _chosen(request)
    _remember(folder, request)
    made = _run(studies, folder, request, workers, dask, as_json)
    failures = [failure for one in made for failure in one.failures]
    _tell(made, folder, as_json)
    tell_failures(failures)
    if failures:
        raise typer.Exit(1)


def _tell(made: list[Made], folder: Path, as_json: bool) -> None:
    from isometer_papers.report.gallery import damaged_records

    for why in damaged_records(folder).values():
        typer.echo(f"note: left out of the gallery: {why}", err=True)
    if as_json:
        emit([dict(one.record) for one in made])
    else:
        _report(made, folder)


def _read_again(studies: list[Study] | None, folder: Path, quiet: bool) -> list[Made]:
    from isometer_papers.studies import read_again

    stderr = Console(stderr=True, emoji=False)
    with _display(stderr, 2 if studies is None else len(studies), quiet) as (_, finished):
        return read_again(folder, studies, finished=finished)


def _chosen(request: dict[str, Any]) -> list[Study]:
    from isometer_papers.studies import all_studies, find, studies_of

    if bool(request["ids"]) + (request["paper"] is not None) + bool(request["all"]) != 1:
        raise IsometerError(
            "expected IDs, --paper P or --all, exactly one of them — `isometer reproduce list` shows the IDs"
        )
    if request["all"]:
        return list(all_studies())
    if request["paper"] is not None:
        return list(studies_of(request["paper"]))
    return list({identifier: find(identifier) for identifier in request["ids"]}.values())


class _LastRequest(TypedDict):
    ids: list[str]
    paper: str | None
    all: bool
    scale: Literal["quick", "medium", "paper"]
    set: dict[str, Any]
    data: str | None
    device: NotRequired[str | None]


def _last_request(folder: Path) -> dict[str, Any]:
    path, fix = folder / _REQUEST, "name studies, or pass the folder with --out"
    if not path.exists():
        raise IsometerError(f"there is nothing to resume in {str(folder)!r} — {fix}")
    return dict(read_json(path, _LastRequest, what="the request", fix=fix))


def _remember(folder: Path, request: dict[str, Any]) -> None:
    write_whole(writable_folder(folder) / _REQUEST, json_text(request, indent=1))


def _run(
    studies: list[Study], folder: Path, request: dict[str, Any], workers: int | None, dask: str | None, quiet: bool
) -> list[Made]:
    from isometer_papers.studies import reproduce as make

    stderr = Console(stderr=True, emoji=False)
    kept = f"finished cells are kept; resume with: isometer reproduce --resume --out {folder}"
    try:
        with keeps(kept), _display(stderr, len(studies), quiet) as (observer, finished):
            return make(
                studies,
                folder,
                scale=request["scale"],
                changes=request["set"],
                data=request["data"],
                device=request.get("device"),
                workers=workers,
                dask=dask,
                observer=observer,
                finished=finished,
            )
    except KeyboardInterrupt:
        tell_interruption(kept)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _display(stderr: Console, total: int, quiet: bool) -> Iterator[tuple[Any, Any]]:
    """A bar over the cells of the study that runs, and a line for each one that is done."""
    with cells_bar(stderr) as bar:
        task = bar.add_task("", total=None, what="")
        done, ticker = 0, Ticker()

        def observe(study: Study, status: Status) -> None:
            where = f"{study.id} ({done + 1} of {total})"
            amount = status.done + status.failed
            bar.update(task, completed=amount, total=status.total, description=describe(status), what=where)
            if not stderr.is_terminal:
                ticker.tick(f"{where}: {in_a_log(status)}")

        def finished(one: Made) -> None:
            nonlocal done
            done += 1
            if not quiet and total > 1:
                verdict, seconds = one.record["verdict"], one.record["seconds"]
                colour = _COLOURS[verdict]
                bar.console.print(f"{one.study.id:<16} [{colour}]{verdict:<9}[/] {seconds:7.1f} s", highlight=False)

        yield observe, finished


def _list(chosen: list[Study], as_json: bool, measure: bool) -> None:
    from isometer.data import find as find_data
    from isometer_papers.studies import expected_seconds, measure_steps

    missing = {name for name in {study.data for study in chosen} if name and find_data(name) is None}
    if measure:
        there = [study for study in chosen if study.data not in missing]
        measure_steps(there, told=lambda line: typer.echo(line, err=True))
    seconds = {study.id: {name: expected_seconds(study, name) for name in _scales(study)} for study in chosen}
    if as_json:
        emit(
            [
                {
                    "id": study.id,
                    "title": study.title,
                    "published": dict(study.published),
                    "data": study.data,
                    "data_found": study.data not in missing,
                    "trains": study.medium is not None,
                    "seconds": seconds[study.id],
                    "reduced": study.paper.reduced,
                }
                for study in chosen
            ]
        )
        return
    table = Table(box=SIMPLE, padding=(0, 1))
    for name in ("study and what it shows", "data", "quick", "medium", "paper"):
        table.add_column(name, overflow="fold", no_wrap=name != "study and what it shows")
    for study in chosen:
        data = f"[red]{study.data}[/]" if study.data in missing else study.data or ""
        title = f"{escape(study.title)}[dim] · trains[/]" if study.medium is not None else escape(study.title)
        times = [seconds[study.id].get(name) for name in ("quick", "medium", "paper")]
        what = f"[bold]{escape(study.id)}[/]\n{title}"
        table.add_row(what, data, *("" if time is None else duration(time) for time in times))
    page = console()
    page.print(table)
    page.print(f"{len(chosen)} studies; --all reproduces all of them.", highlight=False)
    page.print(
        "Times are for two cores. For training they are the number of steps times the duration of one, measured on "
        "another machine; [bold]--measure[/] measures it on this one. Studies of a day or more need "
        "[bold]--device cuda[/].",
        highlight=False,
    )
    for name in sorted(missing):
        page.print(f"[red]{name}[/] is not on this computer: [bold]isometer data get {name}[/]", highlight=False)
    if chosen:
        next_step(page, f"isometer reproduce {chosen[0].id}")


def _scales(study: Study) -> tuple[str, ...]:
    return ("quick", "paper") if study.medium is None else ("quick", "medium", "paper")


def _report(made: list[Made], folder: Path) -> None:
    from isometer_papers.report.gallery import number, tally_text

    page = console()
    for one in made:
        record = one.record
        colour = _COLOURS[record["verdict"]]
        page.print(f"\n[bold]{one.study.id}[/] {escape(record['title'])}: [{colour}]{record['verdict']}[/]")
        if len(made) > 5:
            continue
        table = Table(box=SIMPLE)
        for name in ("quantity", "published", "measured (95 %)"):
            table.add_column(name)
        for name in dict.fromkeys([*record["published"], *record["measured"]]):
            there = name in record["measured"]
            found = number(record["measured"][name], record["uncertainty"].get(name)) if there else ""
            table.add_row(escape(name), escape(number(record["published"].get(name, ""))), escape(found))
        page.print(table)
        for name, seen in record["statements"].items():
            mark = {True: "[green]seen[/]", False: "[red]not seen[/]", None: "[dim]undecided[/]"}[seen]
            page.print(f"  {mark}: {escape(name)}{escape(_power_told(record, name))}", highlight=False)
        if record["why"]:
            page.print(f"  {escape(record['why'])}", highlight=False)
    page.print(f"\n{tally_text([one.record for one in made])}", highlight=False)
    page.print(f"gallery: {folder / 'index.html'}", highlight=False, soft_wrap=True)
    next_step(page, f"open {folder / 'index.html'} in a browser")


def _power_told(record: Mapping[str, Any], statement: str) -> str:
    """What a comparison could have seen, in brackets."""
    one = record.get("power", {}).get(statement)
    return "" if one is None else f" (gap {one['gap']:.2g}, power {one['power']:.2f})"
