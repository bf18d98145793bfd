"""`isometer explain`, `compare` and `activations`: everything about activations."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from isometer.cli._shared import Json, Plot, PositionChoice, PositionOption, app, console, emit, progress_bar, status

if TYPE_CHECKING:
    from isometer.theory import Explanation


class NormChoice(StrEnum):
    none = "none"
    layer = "layer"
    rms = "rms"


NormOption = Annotated[NormChoice, typer.Option("--norm", help="Normalisation over features in every layer.")]
ResidualOption = Annotated[
    float | None,
    typer.Option("--gamma", "--residual", metavar="G", help="Strength γ of the branch beside a skip connection."),
]


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

    with status("analysing"):
        card = analyse(activation, norm=norm.value, norm_position=norm_position.value, residual=residual)
    if plot is not None:
        from isometer.report._pictures import activation_picture, save_figure

        save_figure(activation_picture(card), plot)
    if as_json:
        emit(card.to_dict())
        return
    from isometer.report._cards import activation_card

    page = console()
    page.print(activation_card(card))
    if plot is not None:
        page.print(f"picture: {plot}", highlight=False)


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

    cards: list[Explanation] = []
    with progress_bar("analysing") as report:
        for text in activations:
            report(len(cards), len(activations))
            cards.append(analyse(text, norm=norm.value, norm_position=norm_position.value, residual=residual))
    if plot is not None:
        from isometer.report._pictures import comparison_picture, save_figure

        save_figure(comparison_picture(cards), plot)
    if as_json:
        emit([card.to_dict() for card in cards])
        return
    from isometer.report._cards import comparison_table

    page = console()
    page.print(comparison_table(cards))
    for card in cards:
        page.print(f"[bold]{card.activation.name}[/]: {card.conclusion}", highlight=False)
        for words in card.kernel.warnings:
            page.print(f"[bold yellow]warning:[/] {words}", highlight=False)
    if plot is not None:
        page.print(f"picture: {plot}", highlight=False)


@app.command()
def activations(as_json: Json = False) -> None:
    """The built-in activations with their formulas, gains and what depth does to cosines."""
    from isometer.report._cards import print_registry, registry_rows

    with status("analysing"):
        rows = registry_rows()
    if as_json:
        emit(rows)
        return
    print_registry(console(), rows)
