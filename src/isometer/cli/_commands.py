"""Which commands there are and where: a module is imported when its command is requested."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from isometer._version import __version__
from isometer.cli._application import CommandGroup
from isometer.extras import MissingExtraError, missing

if TYPE_CHECKING:
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter

GROUP = "isometer.commands"
"""Entry points of this group are commands of other distributions."""

_OWN = {
    "explain": ("activations", "one activation: moments, gains, kernel map, fate over depth"),
    "compare": ("activations", "several activations side by side"),
    "activations": ("activations", "the built-in activations"),
    "predict": ("predict", "what theory says depth does to a batch"),
    "simulate": ("simulate", "what happens to a batch in random networks of finite width"),
    "kernel": ("kernel", "the kernel of a batch at infinite width or of a model, and its conditioning"),
    "regress": ("regress", "kernel regression on a data set: NNGP and NTK, accuracy with uncertainty"),
    "jacobian": ("jacobian", "singular values of the Jacobian, of a network in theory or of a model"),
    "phase": ("phase", "order, chaos and the edge between them"),
    "solve": ("solve", "find the depth, gain or skip strength that gives a network a chosen property"),
    "doctor": ("doctor", "examine a PyTorch model: what is wrong, where, what to change"),
    "scaling": ("scaling", "whether a learning rate transfers to wider and deeper models, and what to change"),
    "patients": ("patients", "built-in models with known conditions"),
    "trial": ("trial", "how often the doctor is right about unseen models"),
    "sweep": ("sweep", "a command over a grid of its options"),
    "runs": ("runs", "results of sweeps: list, resume, verify, clean up"),
    "data": ("data", "real data sets: list, download, describe"),
    "explore": ("explore", "the explorer, a local web page"),
    "demo": ("demo", "a tour of all of this"),
}
_COMPANION = {
    "claims": "statements of the papers as checks with verdicts",
    "reproduce": "figures and tables of the papers, each with a verdict",
}
"""Commands of the companion, which say how to install it where it is missing."""


def module_of(name: str) -> str | None:
    """The module of a command: one of the instrument's, or what an entry point names."""
    if name in _OWN:
        return f"isometer.cli.{_OWN[name][0]}"
    from importlib.metadata import entry_points  # slower to load than everything else that the overview needs

    return next((entry.value for entry in entry_points(group=GROUP, name=name)), None)


class Commands(TyperGroup):
    """The group `isometer`: a command is imported when it is asked for, so that the overview loads nothing."""

    def list_commands(self, ctx: Context) -> list[str]:
        return [*_OWN, *_COMPANION]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        if cmd_name not in self.commands:
            module = module_of(cmd_name)
            if module is not None:
                import_module(module)
                # The import added the command to `app`; this group was made before.
                self.commands.update(typer.main.get_group(app).commands)
            elif cmd_name in _COMPANION:
                self.commands[cmd_name] = _stand_in(cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        self.rich_markup_mode = None  # of the overview alone: loading Rich would be most of its time
        own = ctx.make_formatter()
        super().format_help(ctx, own)
        typer.echo(own.getvalue().rstrip("\n"))  # at once, as Typer does: it prints nothing itself without arguments

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _OWN.items()])
        with formatter.section("Commands of the companion, isometer-papers"):
            formatter.write_dl(list(_COMPANION.items()))
        formatter.write_paragraph()
        formatter.write_text("`isometer COMMAND --help` explains a command, with examples.")


def _stand_in(name: str) -> Command:
    """A command of the companion where it is not installed: it says what installs it."""
    alone = CommandGroup(no_args_is_help=False)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    @alone.command(name, help=f"{_COMPANION[name]} (needs isometer-papers)", context_settings=anything)
    def say(ctx: typer.Context) -> None:
        raise MissingExtraError(missing("isometer_papers", f"`isometer {name}`"))

    return typer.main.get_command(alone)


app = CommandGroup(
    name="isometer",
    cls=Commands,
    help="Signal propagation in deep networks: what depth does to a batch of signals, predicted and explained.",
)
"""The typer application behind `isometer`; commands add themselves to it."""


def _version(show: bool) -> None:
    if show:
        typer.echo(f"isometer {__version__}")
        raise typer.Exit


def _debug(show: bool) -> None:
    if show:
        from isometer.cli._endings import show_tracebacks

        show_tracebacks()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", callback=_debug, is_eager=True, help="Show whole tracebacks of errors; also ISOMETER_DEBUG=1."
        ),
    ] = False,
) -> None:
    """Signal propagation in deep networks: what depth does to a batch of signals."""
