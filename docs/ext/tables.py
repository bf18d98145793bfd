"""Tables made at build time from the data of the repository: benchmarks, notation, the ledger of claims, conditions."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
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
        from isometer_papers.claims import ledger

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
        from isometer_papers.claims import ledger, tally

        rows: list[list[str]] = []
        for paper in PAPERS:
            printed = tally(row for row in ledger(paper) if "#" not in row.id)
            corrected = tally(row for row in ledger(paper) if "#" in row.id)
            rows.append([paper, *map(str, (sum(printed.values()), *printed.values(), corrected["holds"]))])
        rows.append(["all", *(str(sum(int(row[at]) for row in rows)) for at in range(1, 7))])
        head = ("paper", "statements", "hold", "refuted", "vacuous", "inconclusive", "corrections that hold")
        return [table(head, rows)]


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
        head = ("condition", "what is read", "moderate", "severe", "why there, and where it is from", "what it does")
        return [table(head, condition_rows())]


def own_names(module: ModuleType) -> list[tuple[str, str]]:
    """Public classes and functions that a module defines, each with the first line of its docstring."""
    return [
        (name, (inspect.getdoc(value) or "").partition("\n")[0])
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


class Modules(SphinxDirective):
    """The modules of a package, each with what it defines, in a line each; packages that export have their own page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.sections(importlib.import_module(self.arguments[0]))

    def sections(self, package: ModuleType) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if one.name.rsplit(".", 1)[-1].startswith("_"):
                continue
            module = importlib.import_module(one.name)
            if one.ispkg:
                found += [] if hasattr(module, "__all__") else self.sections(module)
                continue
            section = nodes.section(ids=[nodes.make_id(one.name)])
            section += nodes.title("", "", nodes.literal(text=one.name.removeprefix("isometer.")))
            section += nodes.paragraph("", "", *text_nodes((module.__doc__ or "").partition("\n\n")[0]))
            section += table(("name", "what it is"), ([f"`{name}`", text] for name, text in own_names(module)))
            self.state.document.note_explicit_target(section)
            found.append(section)
        return found


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("benchmarks", Benchmarks)
    app.add_directive("notation", Notation)
    app.add_directive("ledger", Ledger)
    app.add_directive("ledger-counts", LedgerCounts)
    app.add_directive("conditions", Conditions)
    app.add_directive("modules", Modules)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
