"""Which commands there are and where: a module is imported when its command is asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from isometer._version import __version__
from isometer.extras import MissingExtraError, missing

if TYPE_CHECKING:
    from typer._click.core import Command, Context

GROUP = "isometer.commands"
"""Entry points of this group are commands of other distributions."""

_OWN = {
    "explain": "activations",
    "compare": "activations",
    "activations": "activations",
    "demo": "demo",
    "doctor": "doctor",
    "explore": "explore",
    "kernel": "kernel",
    "phase": "kernel",
    "patients": "patients",
    "predict": "predict",
    "simulate": "simulate",
    "data": "data",
    "sweep": "sweep",
    "runs": "runs",
}
_COMPANION = {
    "claims": "Published statements as checks: what holds, what does not.",
    "reproduce": "Reproduce figures and tables of the papers, each with a verdict.",
}
"""Commands of the companion, told where it is not installed."""


@cache
def modules() -> dict[str, str]:
    """Module of every command, the instrument's first."""
    joined = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    return {name: f"isometer.cli.{module}" for name, module in _OWN.items()} | joined


class Commands(TyperGroup):
    """The group `isometer`, whose commands are imported when they are asked for."""

    def list_commands(self, ctx: Context) -> list[str]:
        return [*modules(), *(name for name in _COMPANION if name not in modules())]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        if cmd_name not in self.commands:
            if cmd_name in modules():
                import_module(modules()[cmd_name])
                self.commands.update(typer.main.get_group(app).commands)
            elif cmd_name in _COMPANION:
                self.commands[cmd_name] = _stand_in(cmd_name)
        return super().get_command(ctx, cmd_name)


def _stand_in(name: str) -> Command:
    """A command of the companion where it is not installed: it says what installs it."""
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")

    @alone.command(
        name, help=_COMPANION[name], context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
    )
    def say(ctx: typer.Context) -> None:
        raise MissingExtraError(missing("isometer_papers", f"`isometer {name}`"))

    found: Any = typer.main.get_command(alone)
    return found  # type: ignore[no-any-return]


app = typer.Typer(
    name="isometer",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Signal propagation in deep networks: what depth does to a batch of signals, predicted and explained.",
)
"""The typer application behind `isometer`; commands add themselves to it."""


def _version(show: bool) -> None:
    if show:
        typer.echo(f"isometer {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Signal propagation in deep networks: what depth does to a batch of signals."""
