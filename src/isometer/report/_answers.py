"""What a person reads of an answer of `isometer solve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from isometer.report._numbers import number, rounded

if TYPE_CHECKING:
    from isometer.solvers import Answer


def print_answer(page: Console, answer: Answer) -> None:
    """The conclusion first, then the table, published bounds, the check and the next step.

    Example:
        >>> import io
        >>> from isometer.solvers import Answer
        >>> text = io.StringIO()
        >>> answer = Answer("depth", "?", "dense", 3, 0.0, "Depth 3 is enough.", "go on", ("depth", "χ"), ((3, 1.0),))
        >>> print_answer(Console(file=text, width=80), answer)
        >>> text.getvalue().splitlines()[0]
        '→ Depth 3 is enough.'
    """
    page.print(Text(f"→ {answer.conclusion}", style="bold green" if answer.value is not None else "bold yellow"))
    if answer.rows:
        head = answer.question[:1]
        page.print(Text((head.upper() if head.isascii() else head) + answer.question[1:] + ":"))
        table = Table(box=SIMPLE, padding=(0, 1))
        for column in answer.columns:
            table.add_column(column, justify="right")
        for row in answer.rows:
            found = answer.value is not None and row[0] == answer.value
            table.add_row(*map(_cell, row), style="bold" if found else None)
        page.print(table)
    for one in answer.published:
        words = f"depth {one.depth}" if one.depth is not None else f"no depth: {one.reason}"
        page.print(Text(f"published: {one.paper}, {one.reference}: {words}", style="dim"))
    if answer.check is not None:
        page.print(Text(answer.check.sentence, style="green" if answer.check.agrees else "bold red"))
    page.print(Text(f"network: {rounded(answer.network)}", style="dim"))
    page.print(Text(f"next: {rounded(answer.next_step)}", style="dim"))


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    return number(value, 6, beside=1.0) if value is None or isinstance(value, float) else str(value)
