"""`isometer explain`, `compare` and `activations`: everything about activations."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from isometer.cli._network import LayerOptions, NetworkText, gain_from, network_from
from isometer.cli._option_groups import takes_options
from isometer.cli._panels import Panel
from isometer.cli._shared import Json, Plot, app, console, emit, next_step, progress_bar, status, tell_file
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.theory import Explanation, NetworkExplanation

FOLLOWED = Panel("Two inputs")
"""The panel of the help."""
Start = Annotated[
    float | None,
    FOLLOWED("--cosine", metavar="C", help="Also follow two inputs of unit mean square that start at this cosine."),
]
Depth = Annotated[
    int | None,
    FOLLOWED(
        "--depth",
        metavar="L",
        min=0,
        help="Follow them to this depth; by default 50, or the depth of the network.",
        show_default=False,
    ),
]


@app.command()
@takes_options
def explain(
    layer: LayerOptions,
    activation: Annotated[
        str | None,
        typer.Argument(
            help="A name, the algebra, or an expression: relu, 'normalized(gelu)', 'x*tanh(x)'.", show_default=False
        ),
    ] = None,
    network: NetworkText = None,
    cosine: Start = None,
    depth: Depth = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Everything about one activation: moments, gains, kernel map, fixed point, and its fate in a deep network.

    The options describe the layer around it, as in every command. --network takes any network
    instead; if it is not one layer repeated, the card shows what it does to two inputs.

    Examples: [bold]isometer explain relu[/], [bold]isometer explain 'x * sigmoid(2*x)' --plot card.png[/],
    [bold]isometer explain tanh --norm layer --gamma 0.5 --cosine 0.5 --depth 20[/]
    """
    from isometer.theory import NetworkExplanation
    from isometer.theory import explain as analyse

    if (activation is None) == (network is None):
        came = "neither" if network is None else "both"
        raise IsometerError(f"expected an activation or --network, got {came} — isometer explain relu, for example")
    if network is not None:
        layer.check_alone()
    with status("analysing"):
        source = activation if network is None else network_from(network, 100)
        card: Explanation | NetworkExplanation = analyse(source, **(keywords(layer) if network is None else {}))
    if isinstance(card, NetworkExplanation):
        _explain_network(card, cosine, depth, plot, as_json)
        return
    depth = 50 if depth is None else depth
    if plot is not None:
        from isometer.report._pictures import activation_picture, save_figure

        save_figure(activation_picture(card), plot)
    path = None if cosine is None else [float(value) for value in card.path(cosine, depth).cosine]
    if as_json:
        emit(card.to_dict() | ({} if path is None else {"path": {"from": cosine, "depth": depth, "cosine": path}}))
        return
    from isometer.report._cards import activation_card

    page = console()
    page.print(activation_card(card))
    if path is not None:
        page.print(f"from cosine {cosine:g} to [bold]{path[-1]:.6g}[/] after {depth} layers", highlight=False)
    if plot is not None:
        tell_file(page, "picture", plot)
    same = ", with the same options" if layer.given else ""
    next_step(page, f"isometer predict --activation {shlex.quote(card.activation.name)}{same}")


def _explain_network(
    card: NetworkExplanation, cosine: float | None, depth: int | None, plot: Path | None, as_json: bool
) -> None:
    if plot is not None:
        raise IsometerError("--plot draws the kernel map of one layer, but these layers differ — drop --plot")
    path = None if cosine is None else [float(value) for value in card.path(cosine, depth).cosine[:, 0]]
    if as_json:
        way = {} if path is None else {"path": {"from": cosine, "depth": len(path) - 1, "cosine": path}}
        emit(card.to_dict() | way)
        return
    from isometer.report._cards import network_card

    page = console()
    page.print(network_card(card))
    if path is not None:
        page.print(f"from cosine {cosine:g} to [bold]{path[-1]:.6g}[/] after {len(path) - 1} layers", highlight=False)


def keywords(layer: LayerOptions) -> dict[str, Any]:
    """The options of a layer as the functions of theory take them."""
    return {
        "norm": layer.norm,
        "norm_position": layer.norm_position.value,
        "residual": None if math.isinf(layer.gamma) else layer.gamma,
        "gain": gain_from(layer.gain),
        "bias_variance": layer.bias_variance,
    }


@app.command()
@takes_options
def compare(
    activations: Annotated[list[str], typer.Argument(help="Two or more activations, as for `isometer explain`.")],
    layer: LayerOptions,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Compare several activations in one table and one picture.

    Example: [bold]isometer compare relu gelu tanh 'normalized(relu)' --plot compare.png[/]
    """
    from isometer.theory import explain as analyse

    cards: list[Explanation] = []
    with progress_bar("analysing") as report:
        for text in activations:
            report(len(cards), len(activations))
            cards.append(analyse(text, **keywords(layer)))
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
        page.print(Text.assemble((card.activation.name, "bold"), f": {card.conclusion}"))
        for words in card.kernel.warnings:
            page.print(Text.assemble(("warning: ", "bold yellow"), words))
    if plot is not None:
        tell_file(page, "picture", plot)
    next_step(page, f"isometer explain {shlex.quote(cards[0].activation.name)} --plot card.png")


@app.command()
def activations(as_json: Json = False) -> None:
    """List the built-in activations: formula, gain, and what depth does to cosines.

    Example: [bold]isometer activations[/]
    """
    from isometer.report._cards import print_registry, registry_rows

    with status("analysing"):
        rows = registry_rows()
    if as_json:
        emit(rows)
        return
    page = console()
    print_registry(page, rows)
    next_step(page, "isometer explain gelu")
