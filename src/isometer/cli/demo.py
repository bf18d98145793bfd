"""`isometer demo`: a tour in a few seconds."""

from __future__ import annotations

import itertools
import shutil
import sys
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.markup import escape

from isometer.cli._interruption import keeps
from isometer.cli._shared import OUTPUT, app, console, progress_bar, status
from isometer.files import writable_folder

_ACTIVATIONS = ("relu", "tanh", "gelu", "normalized(relu)")
_PATIENTS = ("mlp-tanh-large-gain-20", "mlp-tanh-20")
_BUDGET = 20.0
_WIDTH, _DEPTH, _SAMPLES, _RUNS, _COSINE = 500, 60, 5, 16, 0.6


@app.command()
def demo(
    out: Annotated[Path, OUTPUT("--out", metavar="DIR", help="Folder for pictures and report.")] = Path(
        "isometer-demo"
    ),
) -> None:
    """A tour: what depth does to signals, predicted, simulated, and diagnosed in a network that does not train.

    Example: [bold]isometer demo --out tour[/]
    """
    writable_folder(out)
    with keeps(f"files in {out} are complete; run the command again for the rest"):
        _tour(out)


def _tour(out: Path) -> None:
    from isometer.data import make_batch
    from isometer.report._cards import comparison_table
    from isometer.report._pictures import comparison_picture, save_figure
    from isometer.report._trajectories import conclusions, theory_over_simulation
    from isometer.simulate import simulate
    from isometer.spec import Norm, Spec
    from isometer.theory import explain
    from isometer.trajectory import summarize

    page = console()
    with status("analysing"):
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
        with progress_bar(f"simulating {name}") as report:
            simulated[name] = simulate(spec, batch, runs=_RUNS, metrics=["mean_cosine"], progress=report)
        predicted[name] = card.kernel.iterate(_COSINE, _DEPTH).cosine
        measured = float(summarize(simulated[name])["mean_cosine"].sel(statistic="mean", layer=_DEPTH))
        page.print(
            f"   {name:<18} cosine at layer {_DEPTH}: theory {predicted[name][-1]:.3f}, simulated {measured:z.3f}",
            highlight=False,
        )
    for norm in ("none", "batch"):
        spec = Spec(width=_WIDTH, depth=_DEPTH, activation="unit(relu)", norm=Norm.named(norm))
        with progress_bar("simulating relu") as report:
            data = simulate(spec, batch, runs=_RUNS, metrics=["mean_abs_cosine", "gradient_log_norm"], progress=report)
        page.print(f"   relu, {'no norm' if norm == 'none' else 'batch norm'}:", highlight=False)
        for line in conclusions(summarize(data)):
            page.print(f"     {line}", highlight=False)

    title = f"{_SAMPLES} samples, width {_WIDTH}, RMS norm, {_RUNS} runs"
    pictures = (
        save_figure(comparison_picture(cards), out / "activations.png"),
        save_figure(theory_over_simulation(predicted, simulated, title=title), out / "theory-over-simulation.png"),
    )
    page_of_doctor = _examine(page, out / "doctor.html")
    page.print("")
    for picture in pictures:
        page.print(f"picture: [bold]{picture}[/]", highlight=False)
    page.print(f"report:  [bold]{page_of_doctor}[/] (open it in a browser)", highlight=False)
    me = _program()
    page.print(f"see it move: [bold]{escape(me)} explore[/] (a page on this machine; Ctrl-C ends it)", highlight=False)
    page.print(f"your own model: [bold]{escape(me)} doctor my_model.py:make --html report.html[/]", highlight=False)
    page.print(f"everything else: {escape(me)} --help", highlight=False)


def _program() -> str:
    """How this command is called: its name where the shell finds it, its path otherwise."""
    called = Path(sys.argv[0])
    if shutil.which("isometer"):
        return "isometer"
    return str(called.relative_to(Path.cwd())) if called.is_relative_to(Path.cwd()) else str(called)


def _examine(page: Console, path: Path) -> Path:
    """A network that does not train, what the doctor says about it, and its healthy sibling."""
    from isometer.doctor import diagnose
    from isometer.doctor.patients import patient
    from isometer.report._doctor_page import save_page
    from isometer.report._doctor_terminal import print_report

    page.print(f"\n[bold]3. Diagnose.[/] The doctor examines {_PATIENTS[0]}, then {_PATIENTS[1]}.", highlight=False)
    for name in _PATIENTS:
        one = patient(name)
        with status("examining", _BUDGET) as told:
            found = diagnose(
                one.model(),
                one.example()[0],
                fresh=(one.example(seed=number)[0] for number in itertools.count(1)),
                name=name,
                description="gaussian",
                predict=not one.healthy,
                budget=_BUDGET,
                told=told,
            )
        if one.healthy:
            page.print(f"\n[bold]{found.summary}[/]", highlight=False)
        else:
            document = found.to_dict(grams=True)
            print_report(page, document, layers=0)
            save_page(document, path)
    return path
