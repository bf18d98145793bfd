"""The ledger of claims as Markdown: findings, and per chapter a table of statements and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from isometer_papers.claims import LedgerFinding, Statement, counted
from isometer_papers.report.ledger_page import by_chapter, counterexample_text, heading, margin_text

__all__ = ["claims_markdown", "findings_markdown"]


def claims_markdown(statements: Iterable[Statement], findings: Sequence[LedgerFinding] = ()) -> str:
    """The ledger as Markdown tables.

    Args:
        statements: what to show.
        findings: those that matter, told first.

    Returns:
        The text.

    Example:
        >>> print(claims_markdown([]))
        # Ledger of claims
        <BLANKLINE>
        0 statements.
        <BLANKLINE>
    """
    rows = list(statements)
    lines = ["# Ledger of claims", "", *counted(rows).lines(), ""]
    if findings:
        lines += ["## The findings that matter", "", findings_markdown(findings), ""]
    for paper, chapters in by_chapter(rows).items():
        members = [row for inner in chapters.values() for row in inner]
        lines += [f"## {heading(paper)}", "", *counted(members).lines(), ""]
        for chapter, inner in chapters.items():
            lines += [
                f"### {chapter}",
                "",
                "| ID | statement | as printed | as intended | class | tightness | evidence |",
            ]
            lines += ["|---|---|---|---|---|---|---|", *(_line(row) for row in inner), ""]
    return "\n".join(lines)


def findings_markdown(findings: Sequence[LedgerFinding], *, level: int = 3) -> str:
    """Findings, one section each.

    Args:
        findings: in their order.
        level: level of the headings.

    Example:
        >>> findings_markdown([])
        ''
    """
    found = []
    for one in findings:
        told = "\n".join(f"- **{name.capitalize()}**: {text}" for name, text in one.parts().items())
        named = ", ".join(f"`{name}`" for name in one.claims)
        found.append(f"{'#' * level} {one.title}\n\n{told}\n- **Statements**: {named}")
    return "\n\n".join(found)


def _line(row: Statement) -> str:
    said = f"“{row.quotation}” {row.reading}" if row.quotation and row.origin == "paper" else row.reading
    printed, intended = row.as_printed or f"{row.verdict} ({row.origin})", row.as_intended or ""
    cells = [f"`{row.id}`", said, printed, intended, row.failure or "", margin_text(row), _evidence(row)]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _evidence(row: Statement) -> str:
    parts = []
    if row.counterexample is not None:
        parts.append(f"{counterexample_text(row.counterexample)}; certified by {row.certified_by}")
    if row.note:
        parts.append(row.note)
    if row.cause:
        parts.append(f"cause: {row.cause}")
    if row.corrected:
        parts.append(f"corrected: {row.corrected}")
    return ". ".join(parts)
