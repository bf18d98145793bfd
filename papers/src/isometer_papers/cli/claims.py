"""`isometer claims`: the ledger of published statements, and their checks."""

from __future__ import annotations

import hashlib
import shutil
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isometer.cli import INTERRUPTED, app, console, emit, keeps, progress_bar, tell_interruption
from isometer.errors import IsometerError
from isometer.files import existing_folder, write_whole
from isometer.serialize import json_text

if TYPE_CHECKING:
    from isometer_papers.claims import Claim, Result

_COLOURS = {"holds": "green", "refuted": "bold red", "vacuous": "yellow", "inconclusive": "dim"}
_HERE = 12  # up to so many claims are checked in this process when nothing is asked of workers

claims_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode="rich", help="Published statements as checks: what holds, what does not."
)
app.add_typer(claims_app, name="claims")


class VerdictChoice(StrEnum):
    holds = "holds"
    refuted = "refuted"
    vacuous = "vacuous"
    inconclusive = "inconclusive"


class EffortChoice(StrEnum):
    quick = "quick"
    thorough = "thorough"


Paper = Annotated[str | None, typer.Option("--paper", metavar="P", help="One paper, by its number: 002.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@claims_app.command("list")
def list_claims(
    paper: Paper = None,
    verdict: Annotated[VerdictChoice | None, typer.Option("--verdict", help="Only those with this verdict.")] = None,
    as_json: AsJson = False,
) -> None:
    """The claims and the verdicts that the package ships, from a thorough run.

    Example: [bold]isometer claims list --verdict refuted[/]
    """
    from isometer_papers.claims import ledger

    found = [row for row in ledger(paper) if verdict is None or row.verdict == verdict.value]
    if as_json:
        keys = ("id", "paper", "kind", "statement", "verdict", "corrected")
        emit([{key: row.to_dict()[key] for key in keys} for row in found])
        return
    _print_table(found)


@claims_app.command()
def show(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="As in `isometer claims list`: 002/lem-1.")],
    as_json: AsJson = False,
) -> None:
    """Everything the ledger has about a claim, its parts and its corrections.

    Example: [bold]isometer claims show 002/lem-1[/]
    """
    from isometer_papers import papers
    from isometer_papers.claims import find, inventory, ledger

    number = identifier.partition("/")[0]
    entries = {entry.id: entry for entry in inventory(number)} if number in papers() else {}
    if identifier in entries and not entries[identifier].checkable:
        reason = entries[identifier].reason
        if as_json:
            emit([{"id": identifier, "checkable": False, "reason": reason}])
        else:
            console().print(f"[bold]{identifier}[/] is not checked: {escape(reason)}", highlight=False)
        return
    shipped = {row.id: row for row in ledger()}
    rows = [shipped[claim.id] for claim in find(identifier) if claim.id in shipped]
    if as_json:
        emit([row.to_dict() for row in rows])
        return
    for row in rows:
        _print_one(row)


@claims_app.command()
def check(
    identifiers: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Claims, or all parts of one.")
    ] = None,
    paper: Paper = None,
    every: Annotated[bool, typer.Option("--all", help="All papers.")] = False,
    effort: Annotated[EffortChoice, typer.Option("--effort", help="Minutes, or an hour or two.")] = EffortChoice.quick,
    workers: Annotated[int | None, typer.Option("--workers", metavar="N", help="Processes.")] = None,
    dask: Annotated[str | None, typer.Option("--dask", metavar="ADDRESS", help="tcp://host:port, or local.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Also write a ledger file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check claims again. An interrupted check of many goes on where it was when the command is repeated.

    Examples: [bold]isometer claims check 002/lem-1[/], [bold]isometer claims check --paper 002 --workers 2[/]
    """
    from isometer_papers.claims import check_here

    if out is not None:
        existing_folder(out.parent)
    chosen = _chosen(identifiers or [], paper, every)
    if len(chosen) <= _HERE and workers is None and dask is None:
        with progress_bar("claims") as report:
            found = check_here(chosen, effort=effort.value, progress=lambda done, total, name: report(done, total))
        failures: Any = ()
    else:
        found, failures = _on_workers(chosen, effort, workers, dask)
    if out is not None:
        from isometer_papers.claims._ledger import save

        save(found, out)
    if as_json:
        emit([row.summary() for row in found])
    else:
        _print_table(found)
    for failure in failures:
        text = f"[bold red]failed:[/] {escape(failure.label)}: {escape(failure.error)}"
        Console(stderr=True, soft_wrap=True).print(text, highlight=False)
    if failures:
        raise typer.Exit(1)


@claims_app.command()
def report(
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="A page that opens offline.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Markdown tables.")] = None,
) -> None:
    """The ledger as a page: statements, verdicts, tightness and counterexamples.

    Example: [bold]isometer claims report --html claims.html[/]
    """
    from isometer_papers.claims import ledger
    from isometer_papers.report.ledger_page import claims_html, claims_markdown

    if html is None and markdown is None:
        raise IsometerError("no file is named for the report — give --html FILE or --markdown FILE")
    rows = [row.to_dict() for row in ledger()]
    for path, write in ((html, claims_html), (markdown, claims_markdown)):
        if path is None:
            continue
        existing_folder(path.parent)
        write_whole(path, write(rows))
        console().print(f"report: {path}", highlight=False, soft_wrap=True)


def _chosen(identifiers: list[str], paper: str | None, every: bool) -> list[Claim]:
    from isometer_papers.claims import all_claims, claims_of, find

    if (bool(identifiers) + (paper is not None) + every) != 1:
        raise IsometerError("give either IDs, or --paper P, or --all — `isometer claims list` shows the IDs")
    if every:
        return list(all_claims())
    if paper is not None:
        return list(claims_of(paper))
    found = [claim for identifier in identifiers for claim in find(identifier)]
    return list({claim.id: claim for claim in found}.values())


def _on_workers(
    chosen: list[Claim], effort: EffortChoice, workers: int | None, dask: str | None
) -> tuple[list[Result], Any]:
    """Through a store in runs/, which is removed when everything is done."""
    from isometer_papers.claims import check_many

    chosen_text = "\n".join(claim.id for claim in chosen)
    store = Path("runs") / f"claims-{effort.value}-{hashlib.sha256(chosen_text.encode()).hexdigest()[:8]}"
    kept = "claims that were checked are kept; repeat the command to go on"
    try:
        with keeps(kept), progress_bar("claims") as report:
            found, failures = check_many(
                chosen,
                store,
                effort=effort.value,
                workers=workers,
                dask=dask,
                observer=lambda status: report(status.done + status.failed, status.total),
            )
    except KeyboardInterrupt as problem:
        tell_interruption(f"{problem or 'no result is lost'}; repeat the command to go on")
        raise typer.Exit(INTERRUPTED) from None
    if not failures:
        shutil.rmtree(store, ignore_errors=True)
    return found, failures


def _print_table(rows: list[Result]) -> None:
    from isometer_papers.claims import tally

    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("ID", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("statement", overflow="fold")
    for row in rows:
        table.add_row(escape(row.id), f"[{_COLOURS[row.verdict]}]{row.verdict}[/]", escape(row.statement))
    page = console()
    page.print(table)
    page.print(", ".join(f"{number} {verdict}" for verdict, number in tally(rows).items()), highlight=False)


def _print_one(row: Result) -> None:
    from isometer_papers import papers

    page = Console(soft_wrap=True)
    source = papers()[row.paper].cited if row.paper in papers() else row.paper
    verdict = f"[{_COLOURS[row.verdict]}]{row.verdict}[/]"
    page.print(f"[bold]{escape(row.id)}[/] ({escape(f'{source}, {row.place}, {row.kind}')}): {verdict}")
    page.print(f"  {escape(row.statement)}", highlight=False)
    if row.counterexample is not None:
        page.print(f"  counterexample: {escape(json_text(row.counterexample))}", highlight=False)
        page.print(f"  certified by: {row.certified_by}", highlight=False)
    tried = ", ".join(f"{number} {family}" for family, number in row.instances.items())
    page.print(f"  tried: {escape(tried) or 'nothing'}", highlight=False)
    if row.note:
        page.print(f"  {escape(row.note)}", highlight=False)
    if row.corrected:
        page.print(f"  corrected: {escape(row.corrected)}", highlight=False)
