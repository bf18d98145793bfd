"""What `isometer claims` prints for people: tables, one statement, groups by cause, findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from isometer.cli import console, next_step
from isometer.serialize import json_text
from isometer_papers.claims import Statement, causes, counted
from isometer_papers.claims._counts import by_cause
from isometer_papers.claims._findings import LedgerFinding
from isometer_papers.claims._policy import CHARITY, CLASSES
from isometer_papers.claims._statement import cited

_WIDEST = 0.3  # of a line, for IDs in a table
_FEW = 40  # checks of which each is shown
_COLOURS = {"holds": "green", "refuted": "bold red", "vacuous": "yellow", "inconclusive": "dim"}


def print_table(rows: Sequence[Statement]) -> None:
    """One entry per statement, and the counts."""
    page = console()
    _print_rows(page, rows)
    for line in counted(rows).lines():
        page.print(line, highlight=False)
    next_step(page, f"isometer claims show {rows[0].id}" if rows else "isometer claims list")


def _print_rows(page: Console, rows: Sequence[Statement]) -> None:
    """A table, or where an ID would leave it no room, each ID on a line of its own."""
    if max((len(row.id) for row in rows), default=0) > page.width * _WIDEST:
        for row in rows:
            page.print(f"[bold]{escape(row.id)}[/] {', '.join(_told(row))}", highlight=False)
            page.print(Padding(escape(row.reading), (0, 0, 0, 4)), highlight=False)
        return
    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("ID", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("statement", overflow="fold")
    for row in rows:
        table.add_row(escape(row.id), "\n".join(_told(row)), escape(row.reading))
    page.print(table)


def _told(row: Statement) -> list[str]:
    """The verdict, the one as intended where that is another, and the class of a failure."""
    meant = [f"intended: {_coloured(row.as_intended)}"] if row.as_intended not in (None, row.as_printed) else []
    return [_coloured(row.verdict), *meant, *([row.failure] if row.failure else [])]


def print_checked(rows: Sequence[Statement], shipped: Mapping[str, str]) -> None:
    """What was just checked, and where it differs from the verdicts that are shipped: all rows only if they are few."""
    page = console()
    tally: Counter[str] = Counter(row.verdict for row in rows)
    words = {"holds": "hold" if tally["holds"] > 1 else "holds"}
    counts = ", ".join(f"{tally[verdict]} {words.get(verdict, verdict)}" for verdict in _COLOURS if tally[verdict])
    others = [row for row in rows if shipped.get(row.id) != row.verdict]
    same = f"{len(others)} with another verdict than the shipped ledger" if others else "all as in the shipped ledger"
    page.print(f"[bold]{len(rows)} checked: {counts}; {same}[/]", highlight=False)
    if len(rows) <= _FEW:
        _print_rows(page, rows)
    for row in others:
        before = shipped.get(row.id, "not in it")
        page.print(f"  {escape(row.id)}: {_coloured(row.verdict)}, shipped {before}", highlight=False)
    if rows:
        next_step(page, f"isometer claims show {(others or rows)[0].id}")


def print_one(row: Statement) -> None:
    """Everything a reader needs to judge one statement."""
    page = console()
    page.print(f"[bold]{escape(row.id)}[/] ({escape(f'{cited(row)}; {row.kind}')})", highlight=False)
    for name, value in _facts(row).items():
        page.print(Padding(f"[bold]{name}[/]: {value}", (0, 0, 0, 2)), highlight=False)
    if row.snippet:
        page.print("  [bold]in plain Python[/]:")
        for line in row.snippet.rstrip().splitlines():  # to be copied: no line is broken
            page.print(f"    {escape(line)}", highlight=False, soft_wrap=True)


def _facts(row: Statement) -> Mapping[str, str]:
    """What there is to say, by name; marked up for the terminal."""
    found: dict[str, str] = {}
    if row.quotation:
        found["the paper"] = escape(f"“{row.quotation}”")
    if row.source_note:
        found["source"] = escape(row.source_note)
    found["reading"] = escape(row.reading)
    if row.hypotheses:
        found["hypotheses"] = escape(row.hypotheses)
    if row.as_printed is None:
        found[row.origin] = _coloured(row.verdict)
    else:
        found["as printed"], found["as intended"] = _coloured(row.as_printed), _coloured(row.as_intended)
        if row.charity:
            found["as intended"] += escape(f" ({row.charity}: {CHARITY[row.charity]}; checked as {row.intended})")
    if row.failure:
        found["class"] = escape(f"{row.failure}: {CLASSES[row.failure]}")
    if row.cause:
        found["cause"] = escape(f"{row.cause}: {causes()[row.cause].title}")
    if row.twins:
        found["the same statement"] = escape(", ".join(row.twins))
    if row.counterexample is not None:
        found["counterexample"] = escape(json_text(row.counterexample))
        found["certified by"] = escape(str(row.certified_by))
    found["tried"] = escape(", ".join(f"{number} {family}" for family, number in row.instances.items()) or "nothing")
    if row.note:
        found["note"] = escape(row.note)
    if row.corrected:
        found["corrected"] = escape(row.corrected)
    return found


def print_causes(rows: Sequence[Statement]) -> None:
    """Failing statements by the reason for which they fail, groups first."""
    page = console()
    groups = by_cause(rows)
    for name, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        if name in causes():
            cause = causes()[name]
            page.print(f"[bold]{escape(name)}[/]: {escape(cause.title)}", highlight=False)
            page.print(Padding(escape(cause.text), (0, 0, 0, 2)), highlight=False)
            told = ", ".join(f"{row.id} ({row.failure or 'not classified'})" for row in members)
            page.print(Padding(f"{len(members)}: {escape(told)}", (0, 0, 0, 2)), highlight=False)
    alone = sum(name not in causes() for name in groups)
    total = sum(map(len, groups.values()))
    page.print(f"{total} failures; {len(groups) - alone} groups, {alone} alone.", highlight=False)
    first = next((members[0].id for members in groups.values() if members), None)
    if first is not None:
        next_step(page, f"isometer claims show {first}")


def print_findings(findings: Sequence[LedgerFinding]) -> None:
    """The results that a researcher must know."""
    page = console()
    page.width = min(100, page.width)
    for number, one in enumerate(findings, 1):
        page.print(f"[bold]{number}. {escape(one.title)}[/] ({escape(', '.join(one.claims))})", highlight=False)
        for name, text in one.parts().items():
            page.print(Padding(f"[bold]{name}[/]: {escape(text)}", (0, 0, 0, 3)), highlight=False)
    next_step(page, f"isometer claims show {findings[0].claims[0]}")


def _coloured(verdict: str | None) -> str:
    return "" if verdict is None else f"[{_COLOURS[verdict]}]{verdict}[/]"
