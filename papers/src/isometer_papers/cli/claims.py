"""`isometer claims`: the ledger of published statements, and their checks."""

from __future__ import annotations

import hashlib
import shutil
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from isometer.cli import (
    CHOICE,
    EXECUTION,
    INTERRUPTED,
    OUTPUT,
    CommandGroup,
    DaskAddress,
    Workers,
    app,
    console,
    emit,
    keeps,
    next_step,
    progress_bar,
    tell_interruption,
)
from isometer.errors import IsometerError
from isometer.files import existing_folder, write_whole

if TYPE_CHECKING:
    from isometer_papers.claims import Claim, Result, Statement

_HERE = 12  # up to so many claims are checked in this process when nothing is asked of workers

claims_app = CommandGroup(help="Published statements as executable checks: which hold, which fail, and why.")
app.add_typer(claims_app, name="claims")


class VerdictChoice(StrEnum):
    holds = "holds"
    refuted = "refuted"
    vacuous = "vacuous"
    inconclusive = "inconclusive"


class ClassChoice(StrEnum):
    result = "result"
    minor = "minor"
    proof = "proof"
    misprint = "misprint"
    corner = "corner"
    conflict = "conflict"
    contestable = "contestable"


class EffortChoice(StrEnum):
    quick = "quick"
    thorough = "thorough"


Paper = Annotated[str | None, CHOICE("--paper", metavar="P", help="One paper, by its number: 002.")]
AsJson = Annotated[bool, OUTPUT("--json", help="Print JSON instead of tables.")]


@claims_app.command("list")
def list_claims(
    paper: Paper = None,
    verdict: Annotated[
        VerdictChoice | None, CHOICE("--verdict", help="Only claims with this verdict as printed.")
    ] = None,
    intended: Annotated[
        VerdictChoice | None, CHOICE("--intended", help="Only claims with this verdict as intended.")
    ] = None,
    failure: Annotated[ClassChoice | None, CHOICE("--class", help="Only failures of this class.")] = None,
    chapter: Annotated[
        str | None, CHOICE("--chapter", metavar="TEXT", help="Only chapters with this text in their title.")
    ] = None,
    statement: Annotated[
        str | None, CHOICE("--statement", metavar="TEXT", help="Only those with these words in place or text.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the claims with the verdicts of a thorough run, as shipped with the package.

    Examples: [bold]isometer claims list --class result[/], [bold]isometer claims list --chapter 'Chapter 5'[/]
    """
    from isometer_papers.claims import ledger
    from isometer_papers.claims._statement import LISTED
    from isometer_papers.cli._claim_tables import print_table

    found = [
        row
        for row in ledger(paper)
        if verdict in (None, row.verdict)
        and intended in (None, row.as_intended)
        and failure in (None, row.failure)
        and (chapter or "").lower() in row.chapter.lower()
        and _has_words(row, statement or "")
    ]
    if as_json:
        emit([row.chosen(LISTED) for row in found])
        return
    print_table(found)


@claims_app.command()
def show(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="As in `isometer claims list`: 002/lem-1.")],
    as_json: AsJson = False,
) -> None:
    """Show everything the ledger has about a claim, its parts and its corrections.

    Example: [bold]isometer claims show 002/lem-1[/]
    """
    from isometer_papers import papers
    from isometer_papers.claims import find, inventory
    from isometer_papers.cli._claim_tables import print_one

    number = identifier.partition("/")[0]
    entries = {entry.id: entry for entry in inventory(number)} if number in papers() else {}
    if identifier in entries and not entries[identifier].checkable:
        reason = entries[identifier].reason
        if as_json:
            emit([{"id": identifier, "checkable": False, "reason": reason}])
        else:
            console().print(f"[bold]{identifier}[/] is not checked: {escape(reason)}", highlight=False)
            next_step(console(), f"isometer claims list --paper {number}")
        return
    rows = _shipped(find(identifier))
    if as_json:
        emit([row.to_dict() for row in rows])
        return
    for row in rows:
        print_one(row)
    next_step(console(), f"isometer claims check {identifier}")


@claims_app.command("causes")
def list_causes(paper: Paper = None, as_json: AsJson = False) -> None:
    """Group the failing statements by the reason why they fail.

    Example: [bold]isometer claims causes --paper 000[/]
    """
    from isometer_papers.claims import causes, ledger
    from isometer_papers.claims._counts import by_cause
    from isometer_papers.cli._claim_tables import print_causes

    rows = ledger(paper)
    if not as_json:
        print_causes(rows)
        return
    known = causes()
    emit(
        [
            {
                "cause": name,
                "title": known[name].title if name in known else "",
                "text": known[name].text if name in known else "",
                "claims": [row.id for row in members],
            }
            for name, members in by_cause(rows).items()
        ]
    )


@claims_app.command("findings")
def list_findings(as_json: AsJson = False) -> None:
    """List the results that every user of these papers should know.

    Example: [bold]isometer claims findings[/]
    """
    from isometer.serialize import json_data
    from isometer_papers.claims import findings
    from isometer_papers.cli._claim_tables import print_findings

    if as_json:
        emit(json_data(findings()))
    else:
        print_findings(findings())


@claims_app.command()
def cite(
    identifier: Annotated[
        str | None, typer.Argument(metavar="ID", help="A statement, such as 002/lem-1, or a paper: 002.")
    ] = None,
) -> None:
    """Print BibTeX entries for the ledger and for the paper that a statement is from.

    Example: [bold]isometer claims cite 002/lem-1[/]
    """
    from isometer_papers._papers import paper
    from isometer_papers.claims import find
    from isometer_papers.report.citation import bibtex, ledger_bibtex

    if identifier is not None and "/" in identifier:
        find(identifier)
    number = None if identifier is None else identifier.partition("/")[0]
    known = None if number is None else paper(number)
    entries = [ledger_bibtex(identifier if identifier and "/" in identifier else None)]
    entries += [] if known is None else [bibtex(known)]
    typer.echo("\n\n".join(entries))


@claims_app.command()
def check(
    identifiers: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Claims by their IDs; an ID without its part means all parts."),
    ] = None,
    paper: Paper = None,
    every: Annotated[bool, CHOICE("--all", help="All papers.")] = False,
    effort: Annotated[
        EffortChoice, EXECUTION("--effort", help="quick takes minutes, thorough an hour or two, for all claims.")
    ] = EffortChoice.quick,
    workers: Workers = None,
    dask: DaskAddress = None,
    out: Annotated[Path | None, OUTPUT("--out", metavar="FILE", help="Also write a ledger file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check claims again. Repeat the command to resume after an interruption.

    Examples: [bold]isometer claims check 002/lem-1[/], [bold]isometer claims check --paper 002 --workers 2[/]
    """
    from isometer_papers.claims import check_here, ledger, text_of
    from isometer_papers.claims._statement import CHECKED, joined
    from isometer_papers.cli._claim_tables import print_checked

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
    rows = [joined(text_of(result.id), result) for result in found]
    if as_json:
        emit([row.chosen(CHECKED) for row in rows])
    else:
        papers = {claim.paper for claim in chosen}
        print_checked(rows, {row.id: row.verdict for number in papers for row in ledger(number)})
    for failure in failures:
        text = f"[bold red]failed:[/] {escape(failure.label)}: {escape(failure.error)}"
        Console(stderr=True, soft_wrap=True).print(text, highlight=False)
    if failures:
        raise typer.Exit(1)


@claims_app.command()
def report(
    html: Annotated[Path | None, OUTPUT("--html", metavar="FILE", help="Write a page that works offline.")] = None,
    markdown: Annotated[Path | None, OUTPUT("--markdown", metavar="FILE", help="Write Markdown tables.")] = None,
    folder: Annotated[
        Path | None, OUTPUT("--folder", metavar="DIR", help="Write all of these, a page per paper, and BibTeX.")
    ] = None,
    paper: Paper = None,
    as_json: Annotated[bool, OUTPUT("--json", help="Print all of the ledger as JSON.")] = False,
) -> None:
    """Write the ledger as a page: findings, statements, verdicts, quotations and counterexamples.

    Examples: [bold]isometer claims report --html claims.html[/], [bold]isometer claims report --folder ledger[/]
    """
    from isometer_papers.claims import findings, ledger
    from isometer_papers.report.ledger_files import claims_json, write_ledger
    from isometer_papers.report.ledger_markdown import claims_markdown
    from isometer_papers.report.ledger_page import claims_html

    if html is None and markdown is None and folder is None and not as_json:
        raise IsometerError("the report has no target — pass --html FILE, --markdown FILE, --folder DIR or --json")
    if folder is not None and paper is not None:
        raise IsometerError("--folder writes all papers, and --paper chooses one — drop one of them")
    rows = ledger(paper)
    known = {row.id for row in rows}
    told = [one for one in findings() if known & set(one.claims)]
    written = []
    for path, write in ((html, claims_html), (markdown, claims_markdown)):
        if path is not None:
            existing_folder(path.parent)
            write_whole(path, write(rows, told))
            written.append(path)
    written += [] if folder is None else write_ledger(folder)
    if as_json:
        typer.echo(claims_json(rows, told), nl=False)
        return
    for path in written:
        console().print(f"report: {path}", highlight=False, soft_wrap=True)
    next_step(console(), "isometer claims findings")


def _has_words(row: Statement, words: str) -> bool:
    text = " ".join((row.id, row.place, row.quotation, row.reading, row.remark)).lower()
    return all(word in text for word in words.lower().split())


def _shipped(claims: tuple[Claim, ...]) -> list[Statement]:
    from isometer_papers.claims import ledger

    rows = {row.id: row for row in ledger(claims[0].paper)}
    return [rows[claim.id] for claim in claims if claim.id in rows]


def _chosen(identifiers: list[str], paper: str | None, every: bool) -> list[Claim]:
    from isometer_papers.claims import all_claims, claims_of, find

    if (bool(identifiers) + (paper is not None) + every) != 1:
        raise IsometerError(
            "expected IDs, --paper P or --all, exactly one of them — `isometer claims list` shows the IDs"
        )
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
    kept = "checked claims are kept; repeat the command to resume"
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
        tell_interruption(f"{problem or 'no result is lost'}; repeat the command to resume")
        raise typer.Exit(INTERRUPTED) from None
    if not failures:
        shutil.rmtree(store, ignore_errors=True)
    return found, failures
