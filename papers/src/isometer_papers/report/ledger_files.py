"""The ledger as a folder of files: a front page, a page per paper, Markdown, JSON and BibTeX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isometer.files import existing_folder, write_whole
from isometer.serialize import json_text
from isometer_papers._papers import papers
from isometer_papers.claims import LedgerFinding, Statement, causes, counted, findings, ledger
from isometer_papers.report.citation import bibtex, ledger_bibtex
from isometer_papers.report.ledger_markdown import claims_markdown
from isometer_papers.report.ledger_page import claims_html, front_html, heading

__all__ = ["claims_json", "write_ledger"]


def claims_json(statements: Sequence[Statement], told: Sequence[LedgerFinding] = ()) -> str:
    """The ledger as JSON: counts, findings, causes and every statement with its evidence.

    Args:
        statements: which.
        told: the findings that matter.

    Returns:
        The text.

    Example:
        >>> import json
        >>> sorted(json.loads(claims_json(ledger("002")[:2])))
        ['causes', 'counts', 'findings', 'statements']
    """
    used = {row.cause for row in statements}
    counts = counted(statements)
    data: dict[str, Any] = {
        "counts": {
            "statements": counts.statements,
            "as_printed": counts.as_printed,
            "as_intended": counts.as_intended,
            "classes": counts.classes,
        },
        "findings": [{"id": one.id, "title": one.title, **one.parts(), "claims": one.claims} for one in told],
        "causes": [{"id": one.id, "title": one.title, "text": one.text} for one in causes().values() if one.id in used],
        "statements": [row.to_dict() for row in statements],
    }
    return json_text(data, ensure_ascii=False, nonfinite="text") + "\n"


def write_ledger(folder: Path) -> list[Path]:
    """Write the whole ledger into a folder.

    Statements keep their places: `KEY.html#ID`, KEY being the citation key of the paper, is a permanent link.

    Args:
        folder: that exists.

    Returns:
        The files.

    Example:
        >>> write_ledger(Path("/no/such/folder"))
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the folder '/no/such/folder' does not exist — create it first
    """
    existing_folder(folder)
    everything, told = ledger(), findings()
    texts = {"index.html": front_html(everything, told), "ledger.json": claims_json(everything, told)}
    texts["ledger.md"] = claims_markdown(everything, told)
    texts["ledger.bib"] = "\n\n".join([ledger_bibtex(), *map(bibtex, papers().values())]) + "\n"
    for number, paper in papers().items():
        own = [one for one in told if any(name.startswith(f"{number}/") for name in one.claims)]
        texts[f"{paper.key}.html"] = claims_html(ledger(number), own, title=heading(number), pages=True)
    for name, text in texts.items():
        write_whole(folder / name, text)
    return [folder / name for name in texts]
