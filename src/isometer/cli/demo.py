"""`isometer demo`: a tour in a few seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isometer.cli._shared import app, console
from isometer.errors import IsometerError


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the pictures.")] = Path("isometer-demo"),
) -> None:
    """A tour in a few seconds: what depth does to signals under four activations, in words and in a picture."""
    from isometer.report.cards import comparison_table
    from isometer.report.pictures import comparison_picture, save_figure
    from isometer.theory import explain as analyse

    page = console()
    cards = [analyse(name) for name in ("relu", "tanh", "gelu", "normalized(relu)")]
    page.print(
        "[bold]What does depth do to two inputs?[/] Infinite width, principled gain, one column per activation.\n"
    )
    page.print(comparison_table(cards))
    for card in cards:
        page.print(f"[bold]{card.activation.name}[/]: {card.conclusion}", highlight=False)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise IsometerError(f"cannot create the folder {str(out)!r}: {problem.strerror}") from problem
    picture = save_figure(comparison_picture(cards), out / "activations.png")
    page.print(
        f"\npicture: [bold]{picture}[/]\nnext: isometer explain gelu    isometer activations    isometer --help",
        highlight=False,
    )
