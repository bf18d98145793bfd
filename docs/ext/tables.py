"""Tables made at build time from the data of the repository: benchmarks and conditions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

DOCS = Path(__file__).parent.parent


def text_nodes(text: str) -> list[nodes.Node]:
    """Words, with `code` between backticks.

    >>> [type(node).__name__ for node in text_nodes("a `b` c")]
    ['Text', 'literal', 'Text']
    """
    parts = text.split("`")
    made: list[nodes.Node] = [nodes.literal(text=part) if at % 2 else nodes.Text(part) for at, part in enumerate(parts)]
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


def tables_of(name: str, values: Mapping[str, Any]) -> Iterator[nodes.Node]:
    """A nested record as tables: records of one shape side by side, single numbers one below the other."""
    inner = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    single = {key: value for key, value in values.items() if key not in inner}
    yield nodes.paragraph("", "", nodes.strong(text=words(name)))
    if single:
        yield table(("quantity", "value"), ((words(key), number(value)) for key, value in single.items()))
    if len({tuple(value) for value in inner.values()}) == 1 and not any(
        isinstance(value, Mapping) for record in inner.values() for value in record.values()
    ):
        keys = list(next(iter(inner.values())))
        rows = ([words(one), *(number(record[key]) for key in keys)] for one, record in inner.items())
        yield table(("", *map(words, keys)), rows)
    else:
        for key, record in inner.items():
            yield from tables_of(f"{name}, {key}", record)


def words(name: str) -> str:
    """A key as words.

    >>> words("ms_per_step")
    'ms per step'
    """
    return name.replace("_", " ")


def number(value: Any) -> str:
    """Three digits, or whole thousands.

    >>> number(0.012345), number(769342.4), number(7)
    ('0.0123', '769\u202f342', '7')
    """
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}".replace(",", "\u202f")


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
            found += tables_of(name, values)
        return found


def condition_rows() -> Iterator[list[str]]:
    """The conditions of the doctor and their variants with limits of their own.

    >>> next(condition_rows())[:4]
    ['rank-collapse', '1 − mean |cos| of samples, or of tokens, before the readout', '0.025', '0.005']
    """
    from isometer.doctor import CONDITIONS

    for one in CONDITIONS.values():
        forms = [("", one.limits), *((f", {v.when}", v.limits) for v in one.variants.values() if v.limits is not None)]
        for when, limits in forms:
            yield [f"{one.id}{when}", one.reads, *limits.words, f"{limits.reason} ({limits.derived})", one.harm]


class Conditions(SphinxDirective):
    """The conditions that the doctor knows: what is read, where harm begins, and why."""

    def run(self) -> list[nodes.Node]:
        head = ("condition", "measured", "moderate", "severe", "reason for the limit (source)", "why it harms")
        return [table(head, condition_rows())]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("benchmarks", Benchmarks)
    app.add_directive("conditions", Conditions)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
