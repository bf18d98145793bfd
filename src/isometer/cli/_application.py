"""What every command has: `-h`, examples on lines of their own, and a word about options that were renamed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

from isometer.errors import IsometerError

Function = TypeVar("Function", bound=Callable[..., Any])
RENAMED = {
    "--inputs": "--input",
    "--data": "--input",
    "--n": "--batch",
    "--residual": "--gamma",
    "--bias": "--bias-variance",
    "--spec": "--network",
}
"""Names that options no longer have; the error of a command that has the new one says so."""
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
        """Parse, unless an option has a name that it no longer has."""
        known = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        check_names(args, known)
        return super().parse_args(ctx, args)


def check_names(args: list[str], known: set[str]) -> None:
    """Refuse names of options that were renamed, and a file where the number of samples should be.

    Args:
        args: what the user typed.
        known: the options of the command.

    Raises:
        IsometerError: with the new name.

    Example:
        >>> check_names(["--bias=0.1"], {"--bias-variance"})
        Traceback (most recent call last):
        isometer.errors.IsometerError: --bias is not an option; expected --bias-variance — write --bias-variance=0.1
        >>> check_names(["--data", "digits"], {"--data"})
    """
    for one, following in zip(args, [*args, ""][1:], strict=True):
        name, equals, value = one.partition("=")
        new = RENAMED.get(name, "")
        if name not in known and new in known:
            text = f"{new}={value}" if equals else f"{new} {following}".rstrip()
            raise IsometerError(f"{name} is not an option; expected {new} — write {text}")
        if name == "--batch" and {"--batch", "--input"} <= known:
            value = value if equals else following
            if value and not value.startswith("-") and not any(letter.isdecimal() for letter in value.split(".")[0]):
                raise IsometerError(
                    f"--batch is {value!r}; expected a number of samples — a file or a data set goes to --input {value}"
                )


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
