"""The command `isometer`: thin wrappers that parse, call and print."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from isometer import __version__
from isometer.errors import IsometerError

app = typer.Typer(
    name="isometer",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Signal propagation in deep networks: what depth does to a batch of signals, predicted and explained.",
)


class NormChoice(StrEnum):
    none = "none"
    layer = "layer"
    rms = "rms"


class PositionChoice(StrEnum):
    pre = "pre"
    post = "post"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Also draw a picture (.png, .pdf or .svg).")]
NormOption = Annotated[NormChoice, typer.Option("--norm", help="Normalisation over features in every layer.")]
PositionOption = Annotated[PositionChoice, typer.Option("--norm-position", help="pre: φ(norm(Wh)); post: norm(φ(Wh)).")]
ResidualOption = Annotated[
    float | None, typer.Option("--residual", metavar="GAMMA", help="Strength γ of the branch beside a skip connection.")
]


def _console() -> Console:
    return Console(soft_wrap=False)


def _emit(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


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


@app.command()
def explain(
    activation: Annotated[
        str, typer.Argument(help="A name, the algebra, or an expression: relu, 'normalized(gelu)', 'x*tanh(x)'.")
    ],
    norm: NormOption = NormChoice.none,
    norm_position: PositionOption = PositionChoice.pre,
    residual: ResidualOption = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Everything about one activation: moments, gains, kernel map, fixed point, and its fate in a deep network.

    Examples: [bold]isometer explain relu[/], [bold]isometer explain 'x * sigmoid(2*x)' --plot card.png[/],
    [bold]isometer explain gelu --norm layer --norm-position post --json[/]
    """
    from isometer.theory import explain as analyse

    card = analyse(activation, norm=norm.value, norm_position=norm_position.value, residual=residual)
    if plot is not None:
        from isometer.report.pictures import activation_picture, save_figure

        save_figure(activation_picture(card), plot)
    if as_json:
        _emit(card.to_dict())
        return
    from isometer.report.cards import activation_card

    console = _console()
    console.print(activation_card(card))
    if plot is not None:
        console.print(f"picture: {plot}", highlight=False)


@app.command()
def compare(
    activations: Annotated[list[str], typer.Argument(help="Two or more activations, as for `explain`.")],
    norm: NormOption = NormChoice.none,
    norm_position: PositionOption = PositionChoice.pre,
    residual: ResidualOption = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Several activations side by side, in one table and one picture.

    Example: [bold]isometer compare relu gelu tanh 'normalized(relu)' --plot compare.png[/]
    """
    from isometer.theory import explain as analyse

    cards = [
        analyse(text, norm=norm.value, norm_position=norm_position.value, residual=residual) for text in activations
    ]
    if plot is not None:
        from isometer.report.pictures import comparison_picture, save_figure

        save_figure(comparison_picture(cards), plot)
    if as_json:
        _emit([card.to_dict() for card in cards])
        return
    from isometer.report.cards import comparison_table

    console = _console()
    console.print(comparison_table(cards))
    for card in cards:
        console.print(f"[bold]{card.activation.name}[/]: {card.conclusion}", highlight=False)
    if plot is not None:
        console.print(f"picture: {plot}", highlight=False)


@app.command()
def activations(as_json: Json = False) -> None:
    """The built-in activations with their formulas, gains and what depth does to cosines."""
    from isometer.report.cards import print_registry, registry_rows
    from isometer.theory.explanation import jsonable

    rows = registry_rows()
    if as_json:
        _emit([jsonable(row) for row in rows])
        return
    print_registry(_console(), rows)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the pictures.")] = Path("isometer-demo"),
) -> None:
    """A tour in a few seconds: what depth does to signals under four activations, in words and in a picture."""
    from isometer.report.cards import comparison_table
    from isometer.report.pictures import comparison_picture, save_figure
    from isometer.theory import explain as analyse

    console = _console()
    cards = [analyse(name) for name in ("relu", "tanh", "gelu", "normalized(relu)")]
    console.print(
        "[bold]What does depth do to two inputs?[/] Infinite width, principled gain, one column per activation.\n"
    )
    console.print(comparison_table(cards))
    for card in cards:
        console.print(f"[bold]{card.activation.name}[/]: {card.conclusion}", highlight=False)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise IsometerError(f"cannot create the folder {str(out)!r}: {problem.strerror}") from problem
    picture = save_figure(comparison_picture(cards), out / "activations.png")
    console.print(
        f"\npicture: [bold]{picture}[/]\nnext: isometer explain gelu    isometer activations    isometer --help",
        highlight=False,
    )


def main() -> None:
    """Entry point: errors about input are one line on stderr and exit code 2; a traceback means a bug."""
    try:
        app()
    except IsometerError as problem:
        Console(stderr=True).print(f"[bold red]error:[/] {str(problem).replace('[', chr(92) + '[')}", highlight=False)
        sys.exit(2)


if __name__ == "__main__":
    main()
