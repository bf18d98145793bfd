"""What every command has: `-h`, examples on lines of their own, and options that keep their older names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

Function = TypeVar("Function", bound=Callable[..., Any])
OLDER_NAMES = {
    "--inputs": "--input",
    "--data": "--input",
    "--n": "--batch",
    "--residual": "--gamma",
    "--bias": "--bias-variance",
}
"""Names that options had before each thing had one name; commands still take them, and their help does not say so."""
_EXAMPLE = re.compile(r"\[bold\](isometer .*?)\[/\]\s*(\([^)]*\))?", re.S)
_HELP = {"help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command of `isometer`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.help, examples = without_examples(self.help or "")
        # One line a paragraph: Typer keeps the line breaks of docstrings, which are wider than a terminal.
        self.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in self.help.split("\n\n"))
        if examples:
            self.epilog = "\n  ".join(["[bold]Examples[/]", *examples])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, with older names of options replaced."""
        known = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        return super().parse_args(ctx, list(renamed(args, known, OLDER_NAMES)))


def without_examples(text: str) -> tuple[str, list[str]]:
    r"""A help text without the paragraph of its examples, and these.

    Example:
        >>> without_examples("Do it.\n\nExamples: [bold]isometer a[/], [bold]isometer b[/] (slow)")
        ('Do it.', ['isometer a', 'isometer b [dim](slow)[/]'])
    """
    paragraphs = text.split("\n\n")
    told, examples = [], []
    for paragraph in paragraphs:
        if paragraph.lstrip().startswith(("Example: ", "Examples: ")):
            for command, note in _EXAMPLE.findall(paragraph):
                line = _escaped(" ".join(command.split()))
                examples.append(f"{line} [dim]{note}[/]" if note else line)
        else:
            told.append(paragraph)
    return "\n\n".join(told).rstrip(), examples


def _escaped(text: str) -> str:
    """Rich reads square brackets as markup."""
    return text.replace("[", r"\[")


def renamed(args: Iterable[str], known: set[str], older: Mapping[str, str]) -> Iterable[str]:
    """Arguments with older names of options replaced, where a command has the newer one and not the older.

    Example:
        >>> list(renamed(["--n", "5", "--data=mnist"], {"--batch", "--data"}, OLDER_NAMES))
        ['--batch', '5', '--data=mnist']
    """
    for one in args:
        name, equals, value = one.partition("=")
        new = older.get(name, "")
        yield f"{new}{equals}{value}" if name not in known and new in known else one


class CommandGroup(typer.Typer):
    """Commands under one name, all of them of the class `Command`.

    Args:
        settings: arguments of `typer.Typer`.
    """

    def __init__(self, **settings: Any) -> None:
        common = {"no_args_is_help": True, "add_completion": False, "rich_markup_mode": "rich"}
        common |= {"pretty_exceptions_enable": False, "context_settings": _HELP}
        super().__init__(**{**common, **settings})

    def command(  # type: ignore[override]
        self, name: str | None = None, *, cls: type[TyperCommand] = Command, **settings: Any
    ) -> Callable[[Function], Function]:
        """As in Typer, with the class of this project's commands."""
        return super().command(name, cls=cls, **settings)


def listed(values: Iterable[str] | None) -> list[str]:
    """Values of an option that is repeated, or has commas between its values; commas in parentheses do not count.

    Example:
        >>> listed(["relu,gain(tanh, 2)", "gelu"]), listed(None)
        (['relu', 'gain(tanh, 2)', 'gelu'], [])
    """
    found: list[str] = []
    for text in values or ():
        depth, part = 0, ""
        for letter in f"{text},":
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if letter == "," and depth <= 0:
                found.append(part.strip())
                part = ""
            else:
                part += letter
        found.append(part.strip())
    return [one for one in found if one]
