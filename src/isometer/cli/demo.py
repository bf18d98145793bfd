"""`isometer demo`: a tour in a few seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isometer.cli._shared import app, console
from isometer.errors import IsometerError

_ACTIVATIONS = ("relu", "tanh", "gelu", "normalized(relu)")
_WIDTH, _DEPTH, _SAMPLES, _RUNS, _COSINE = 500, 60, 5, 16, 0.6


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the pictures.")] = Path("isometer-demo"),
) -> None:
    """A tour in a few seconds: what depth does to signals, predicted, simulated, and laid over each other."""
    from isometer.report.cards import comparison_table
    from isometer.report.pictures import comparison_picture, save_figure
    from isometer.report.trajectories import conclusions, theory_over_simulation
    from isometer.simulate import make_batch, simulate, summarize
    from isometer.spec import Norm, Spec
    from isometer.theory import explain

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise IsometerError(f"cannot create the folder {str(out)!r}: {problem.strerror}") from problem
    page = console()
    cards = [explain(name) for name in _ACTIVATIONS]
    page.print("[bold]1. Predict.[/] What depth does to two inputs at infinite width, one column per activation.")
    page.print(comparison_table(cards))
    for card in cards:
        page.print(f"[bold]{card.activation.name}[/]: {card.conclusion}", highlight=False)

    page.print(
        f"\n[bold]2. Simulate.[/] {_SAMPLES} samples of cosine {_COSINE} through random networks of width {_WIDTH} "
        f"with RMS norm, {_RUNS} runs each.",
        highlight=False,
    )
    batch = make_batch(f"correlated:{_COSINE}", _SAMPLES, _WIDTH)
    predicted, simulated = {}, {}
    for card in cards:
        name = card.activation.name
        spec = Spec(width=_WIDTH, depth=_DEPTH, activation=name, norm=Norm.named("rms"))
        simulated[name] = simulate(spec, batch, runs=_RUNS, metrics=["mean_cosine"])
        predicted[name] = card.kernel.iterate(_COSINE, _DEPTH).cosine
        measured = float(summarize(simulated[name])["mean_cosine"].sel(statistic="mean", layer=_DEPTH))
        page.print(
            f"   {name:<18} cosine at layer {_DEPTH}: theory {predicted[name][-1]:.3f}, simulated {measured:.3f}",
            highlight=False,
        )
    for norm in ("none", "batch"):
        spec = Spec(width=_WIDTH, depth=_DEPTH, activation="unit(relu)", norm=Norm.named(norm))
        data = simulate(spec, batch, runs=_RUNS, metrics=["mean_abs_cosine", "gradient_log_norm"])
        page.print(f"   relu, {'no norm' if norm == 'none' else 'batch norm'}:", highlight=False)
        for line in conclusions(summarize(data)):
            page.print(f"     {line}", highlight=False)

    title = f"{_SAMPLES} samples, width {_WIDTH}, RMS norm, {_RUNS} runs"
    pictures = (
        save_figure(comparison_picture(cards), out / "activations.png"),
        save_figure(theory_over_simulation(predicted, simulated, title=title), out / "theory-over-simulation.png"),
    )
    page.print("")
    for picture in pictures:
        page.print(f"picture: [bold]{picture}[/]", highlight=False)
    page.print(
        "next: isometer explain gelu    isometer simulate --norm batch --backward    isometer --help", highlight=False
    )
