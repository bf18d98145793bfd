"""Tables of the companion's site: the papers, their notation, the ledger of claims, formulas by module."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from isometer_papers import papers
from tables import table, text_nodes

if TYPE_CHECKING:
    from isometer_papers.claims import Statement

NOTATION = Path(__file__).parents[2] / "papers" / "docs" / "notation.toml"


def notation() -> list[dict[str, Any]]:
    """The rows of papers/docs/notation.toml."""
    rows: list[dict[str, Any]] = tomllib.loads(NOTATION.read_text(encoding="utf-8"))["row"]
    return rows


class Notation(SphinxDirective):
    """The rows of one topic of papers/docs/notation.toml."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(NOTATION))
        rows = [row for row in notation() if row["topic"] == self.arguments[0]]
        if not rows:
            raise self.error(f"no rows of the topic {self.arguments[0]!r} in {NOTATION.name}")
        head = ("what", *(one.label for one in papers().values()), "ours")
        return [table(head, ([row["what"], *(row.get(p, "") for p in papers()), self._ours(row)] for row in rows))]

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
    """The shipped statements of a paper by chapter, each with a place of its own that links can name.

    A failure is told in full: the paper's words, both verdicts, the counterexample and the snippet.
    """

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from isometer_papers.claims import counted, ledger
        from isometer_papers.report.ledger_page import by_chapter

        rows = ledger(self.arguments[0])
        found: list[nodes.Node] = [nodes.paragraph(text=" ".join(counted(rows).lines()))]
        for number, chapters in by_chapter(rows).items():
            for index, (title, members) in enumerate(chapters.items()):
                section = nodes.section(ids=[f"{number}-{index}"])
                section += nodes.title(text=title)
                section += table(("claim", "place", "verdict", "statement"), (self._cells(row) for row in members))
                section += [part for row in members if row.fails for part in self._evidence(row)]
                self.state.document.note_explicit_target(section)
                found.append(section)
        return found

    def _cells(self, row: Statement) -> list[str | list[nodes.Node]]:
        told = (
            [row.verdict] if row.as_intended in (None, row.as_printed) else [row.verdict, f"meant: {row.as_intended}"]
        )
        told += [row.failure] if row.failure else []
        name = nodes.literal(text=row.id.removeprefix(f"{row.paper}/"), ids=[statement_anchor(row.id)])
        return [[name], row.place, "; ".join(told), row.reading]

    def _evidence(self, row: Statement) -> list[nodes.Node]:
        """What a reader can check of a failure."""
        from isometer_papers.claims import causes
        from isometer_papers.report.ledger_page import counterexample_text

        facts = {"class": row.failure, "the paper": row.quotation and f"“{row.quotation}”", "source": row.source_note}
        facts |= {"reading": row.reading, "hypotheses": row.hypotheses, "remark": row.remark}
        if row.cause:
            facts["cause"] = f"{causes()[row.cause].title}: {causes()[row.cause].text}"
        if row.counterexample is not None:
            facts["counterexample"] = f"{counterexample_text(row.counterexample)}; certified by {row.certified_by}"
        listed = nodes.definition_list()
        for name, text in facts.items():
            if text:
                inner = nodes.definition("", nodes.paragraph("", "", nodes.Text(text)))
                listed += nodes.definition_list_item("", nodes.term(text=name), inner)
        heading = nodes.paragraph("", "", nodes.strong(text=f"{row.id}, {row.place}"))
        code = [nodes.literal_block(text=row.snippet, language="python")] if row.snippet else []
        return [heading, listed, *code]


def statement_anchor(identifier: str) -> str:
    """The name of a statement's place on the page of its paper.

    >>> statement_anchor("000/lem-2:eq-19#corrected")
    '000-lem-2-eq-19-corrected'
    """
    return str(nodes.make_id(f"s {identifier}").removeprefix("s-"))


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
            section += nodes.title("", "", nodes.literal(text=one.name.removeprefix("isometer_papers.")))
            section += nodes.paragraph("", "", *text_nodes((module.__doc__ or "").partition("\n\n")[0]))
            section += table(
                ("name", "what it is"), ([self._target(one.name, name), text] for name, text in own_names(module))
            )
            self.state.document.note_explicit_target(section)
            found.append(section)
        return found

    def _target(self, module: str, name: str) -> list[nodes.Node]:
        """The name, as a place that the notation can link to."""
        path = f"{module}.{name}"
        self.env.domains.python_domain.note_object(path, "function", path)
        return [nodes.literal(text=name, ids=[path])]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("notation", Notation)
    app.add_directive("ledger", Ledger)
    app.add_directive("modules", Modules)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
