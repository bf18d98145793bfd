"""Tables made at build time from the data of the repository: benchmarks, notation, the ledger of claims."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

DOCS = Path(__file__).parent.parent
PAPERS = ("000", "001", "002", "003", "004")


def text_nodes(text: str) -> list[nodes.Node]:
    """Words, with `code` between backticks.

    >>> [type(node).__name__ for node in text_nodes("a `b` c")]
    ['Text', 'literal', 'Text']
    """
    parts = text.split("`")
    made: list[nodes.Node] = [
        nodes.literal(text=part) if at % 2 else nodes.Text(part) for at, part in enumerate(parts)
    ]
    return [node for node in made if node.astext()]


def table(head: Sequence[str], rows: Iterable[Sequence[str | list[nodes.Node]]]) -> nodes.table:
    """A table of texts or ready nodes."""
    whole = nodes.table(classes=["made"])
    group = nodes.tgroup(cols=len(head))
    whole += group
    group.extend(nodes.colspec(colwidth=1) for _ in head)
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *(_row(row) for row in rows))
    return whole


def _row(cells: Sequence[str | list[nodes.Node]]) -> nodes.row:
    row = nodes.row()
    for cell in cells:
        inner = text_nodes(cell) if isinstance(cell, str) else cell
        row += nodes.entry("", nodes.paragraph("", "", *inner))
    return row


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Every number of a nested record with its path.

    >>> list(flat({"a": {"b_ms": 1.5, "c": 3}}))
    [('a, b ms', '1.5'), ('a, c', '3')]
    """
    for key, value in values.items():
        name = f"{above}, {key.replace('_', ' ')}" if above else key.replace("_", " ")
        if isinstance(value, Mapping):
            yield from flat(value, name)
        else:
            yield name, f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else _plain(value)


def _plain(value: Any) -> str:
    return f"{value:,.0f}".replace(",", " ") if isinstance(value, float) else str(value)


class Benchmarks(SphinxDirective):
    """The tables of one file of benchmarks/results: what was measured, and where."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = DOCS.parent / "benchmarks" / "results" / f"{self.arguments[0]}.json"
        self.env.note_dependency(str(path))
        record = json.loads(path.read_text(encoding="utf-8"))
        where = record.pop("environment")
        machine = f"{where['processor']}, {where['cores']} cores"
        versions = ", ".join(f"{name} {value}" for name, value in where.items() if name not in ("processor", "cores"))
        found: list[nodes.Node] = [nodes.paragraph(text=f"Measured on {machine}; {versions}.")]
        for name, values in record.items():
            found.append(nodes.paragraph("", "", nodes.strong(text=name.replace("_", " "))))
            found.append(table(("quantity", "value"), flat(values)))
        return found


def notation() -> list[dict[str, Any]]:
    """The rows of docs/notation.toml."""
    rows: list[dict[str, Any]] = tomllib.loads((DOCS / "notation.toml").read_text(encoding="utf-8"))["row"]
    return rows


class Notation(SphinxDirective):
    """The rows of one topic of docs/notation.toml."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(DOCS / "notation.toml"))
        rows = [row for row in notation() if row["topic"] == self.arguments[0]]
        if not rows:
            raise self.error(f"no rows of the topic {self.arguments[0]!r} in docs/notation.toml")
        head = ("what", *PAPERS, "ours")
        return [table(head, ([row["what"], *(row.get(p, "") for p in PAPERS), self._ours(row)] for row in rows))]

    def _ours(self, row: Mapping[str, Any]) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        for name in row["ours"]:
            if found:
                found.append(nodes.Text(", "))
            found.append(self._link(name))
        if "note" in row:
            found += [nodes.Text("; " if found else ""), *text_nodes(row["note"])]
        return found

    def _link(self, name: str) -> nodes.Node:
        link = addnodes.pending_xref(
            "", refdomain="py", reftype="obj", reftarget=name, refexplicit=True, refwarn=True, refdoc=self.env.docname
        )
        link += nodes.literal(text=name.removeprefix("isometer."))
        return link


class Ledger(SphinxDirective):
    """The shipped verdicts on a paper's statements; with `:verdict:` only those."""

    required_arguments = 1
    option_spec = {"verdict": directives.unchanged}  # noqa: RUF012  (as docutils has it)

    def run(self) -> list[nodes.Node]:
        from isometer.claims import ledger

        wanted = self.options.get("verdict")
        rows = [row for row in ledger(self.arguments[0]) if wanted in (None, row.verdict)]
        return [
            table(
                ("claim", "place", "verdict", "statement"),
                (
                    [[nodes.literal(text=row.id.removeprefix(f"{row.paper}/"))], row.place, row.verdict, row.statement]
                    for row in rows
                ),
            )
        ]


class LedgerCounts(SphinxDirective):
    """How many statements of each paper have which verdict."""

    def run(self) -> list[nodes.Node]:
        from isometer.claims import ledger, tally

        rows: list[list[str]] = []
        for paper in PAPERS:
            printed = tally(row for row in ledger(paper) if "#" not in row.id)
            corrected = tally(row for row in ledger(paper) if "#" in row.id)
            rows.append([paper, *map(str, (sum(printed.values()), *printed.values(), corrected["holds"]))])
        rows.append(["all", *(str(sum(int(row[at]) for row in rows)) for at in range(1, 7))])
        head = ("paper", "statements", "hold", "refuted", "vacuous", "inconclusive", "corrections that hold")
        return [table(head, rows)]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("benchmarks", Benchmarks)
    app.add_directive("notation", Notation)
    app.add_directive("ledger", Ledger)
    app.add_directive("ledger-counts", LedgerCounts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
