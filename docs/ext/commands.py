"""The directive `commands`: the commands of `isometer` with arguments and options, from their own help.

Its argument is the package whose commands it lists, since those of other distributions join the same command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tables import text_nodes


def all_commands() -> Iterator[tuple[str, Any, Any]]:
    """Path, command and context of every command, groups before what is in them."""
    import typer.main

    from isometer.cli import app

    root = typer.main.get_command(app)
    yield from _below(root, "isometer", None)


def _below(command: Any, path: str, parent: Any) -> Iterator[tuple[str, Any, Any]]:
    context = command.context_class(command, info_name=path.rsplit(" ", 1)[-1], parent=parent)
    yield path, command, context
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _below(command.get_command(context, name), f"{path} {name}", context)


def package_of(command: Any) -> str:
    """The top-level package that defines a command."""
    while not command.callback:
        command = next(iter(command.commands.values()))
    return str(command.callback.__module__).partition(".")[0]


def parameter_rows(command: Any, context: Any) -> list[tuple[str, str]]:
    """Names and help of what a command takes, arguments first."""
    rows: list[tuple[str, str]] = []
    for parameter in sorted(command.get_params(context), key=lambda p: p.param_type_name != "argument"):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in record[0]:
            rows.append((re.sub(r" <[^|>]+>$", "", record[0]), " ".join(record[1].split())))
    return rows


def usage(path: str, command: Any, context: Any) -> str:
    """How a command is called."""
    pieces = [path]
    rows = parameter_rows(command, context)
    pieces += [name for name, _ in rows if not name.startswith("-")]
    pieces += ["[OPTIONS]"] if any(name.startswith("-") for name, _ in rows) else []
    pieces += ["COMMAND …"] if hasattr(command, "list_commands") else []
    return " ".join(pieces)


def plain(text: str | None) -> str:
    """Help without the marks of the terminal."""
    return re.sub(r"\[/?[a-z ]*\]", "", (text or "").replace("\b", "")).strip()


def examples(epilog: str) -> str:
    r"""The examples of a command, one a line, without their heading.

    Example:
        >>> examples("[bold]Examples[/]\n  isometer explain relu\n  isometer explain gelu")
        'isometer explain relu\nisometer explain gelu'
    """
    return "\n".join(plain(line.replace("\\[", "[")) for line in epilog.splitlines()[1:])


class Commands(SphinxDirective):
    """One section per command of a package."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        for path, command, context in all_commands():
            if getattr(command, "hidden", False) or package_of(command) != self.arguments[0]:
                continue
            section = nodes.section(ids=[nodes.make_id(path)])
            section += nodes.title(text=path)
            for paragraph in re.split(r"\n\s*\n", plain(command.help)):
                section += nodes.paragraph("", "", *text_nodes(" ".join(paragraph.split())))
            section += nodes.literal_block(text=usage(path, command, context), language="text")
            if command.epilog:
                section += nodes.literal_block(text=examples(command.epilog), language="text")
            rows = parameter_rows(command, context)
            if rows:
                section += definition_table(rows)
            self.state.document.note_explicit_target(section)
            found.append(section)
        return found


def definition_table(rows: list[tuple[str, str]]) -> nodes.definition_list:
    """What a command takes, one term per parameter."""
    listed = nodes.definition_list(classes=["parameters"])
    for name, text in rows:
        item = nodes.definition_list_item()
        item += nodes.term("", "", nodes.literal(text=name))
        item += nodes.definition("", nodes.paragraph("", "", *text_nodes(text)))
        listed += item
    return listed


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("commands", Commands)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
