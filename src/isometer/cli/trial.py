"""`isometer trial`: how often the doctor is right about models it has never seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from isometer.checks import seed_number, whole_number
from isometer.cli._application import CommandGroup
from isometer.cli._interruption import INTERRUPTED, keeps, tell_interruption
from isometer.cli._long_work import DaskAddress, Workers, cells_display, tell_failures
from isometer.cli._shared import CHOICE, OUTPUT, Json, Plot, app, console, emit, next_step, status
from isometer.cli._trial_tables import print_explained, print_table
from isometer.errors import IsometerError, unknown_name

if TYPE_CHECKING:
    from isometer.trial._members import Member
    from isometer.trial._records import TrialStage

_HELP = (
    "How often the doctor is right about models it has never seen.\n\n"
    "A family draws an architecture, a task, a size and a fault or none; training gives the truth, with which "
    "the doctor and some baselines are compared. Half of the families of the first round, by the hash of their name, "
    "and all of the later ones are sealed: the doctor does not examine them until the rules are final.\n\n"
    "Example: [bold]isometer trial run mine --families moe-mlp,llama-like --per-family 6[/]"
)
trial_app = CommandGroup(help=_HELP)
app.add_typer(trial_app, name="trial")

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the trial.")]
Families = Annotated[
    str | None, CHOICE("--families", metavar="NAME,NAME", help="Only these families; all of a round by default.")
]
PerFamily = Annotated[int, CHOICE("--per-family", metavar="N", min=1, help="Models per family.")]
Large = Annotated[int, CHOICE("--large", metavar="N", min=0, help="Additional large models, two per family.")]
Rounds = Annotated[
    str,
    CHOICE("--rounds", metavar="N,N", help="Training steps: for each of five learning rates, then for the best few."),
]
Round = Annotated[
    int,
    CHOICE(
        "--round",
        metavar="N",
        min=1,
        help="Round whose families are drawn: 1, or a later one (2, 3), where all are sealed.",
    ),
]
Seed = Annotated[int, CHOICE("--seed", metavar="N", min=0, help="Seed of the draw.")]
EXAMINED = ("findings", "baselines", "stress", "causes", "treated")
"""What can be examined of the members of a trial, in this order."""
_MOST, _MOST_STEPS = 10_000, 10**6
_KEPT = "finished cells are kept; repeat the command to resume"


@trial_app.command("families")
def list_families(as_json: Json = False) -> None:
    """List the families and the faults, and which families are sealed.

    Example: [bold]isometer trial families[/]
    """
    from isometer.trial._faults import FAULTS, SIZES
    from isometer.trial._roster import families

    known = families()
    if as_json:
        emit(
            {
                "families": [
                    {
                        "name": f.name,
                        "round": f.round,
                        "source": f.source,
                        "sealed": f.sealed,
                        "faults": sorted(f.structural),
                    }
                    for f in known.values()
                ],
                "faults": {**{name: one.about for name, one in FAULTS.items()}, **SIZES},
            }
        )
        return
    table = Table(title="Families", title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("family", "round", "half", "source"):
        table.add_column(column, no_wrap=column != "source")
    own: dict[str, int] = {}
    for one in known.values():
        half = "sealed" if one.sealed else "development"
        table.add_row(one.name, str(one.round), half, Text(one.source))
        for name in one.structural:
            own[name] = own.get(name, 0) + 1
    page = console()
    page.print(table)
    faults = Table(
        title="Faults that any family can have", title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False
    )
    for column in ("fault", "group", "description"):
        faults.add_column(column, no_wrap=column == "fault")
    for fault in FAULTS.values():
        faults.add_row(fault.name, fault.group, fault.about)
    for name, about in SIZES.items():
        faults.add_row(name, "size", about)
    page.print(faults)
    counts = "; ".join(f"{name} × {own[name]}" for name in sorted(own))
    page.print(Text(f"Faults that only some families can have, with the number of families: {counts}"))
    sealed = sum(one.sealed for one in known.values())
    page.print(
        f"{len(known)} families, {sealed} of them sealed; {len(FAULTS) + len(SIZES)} faults that any family can have."
    )
    next_step(page, "isometer trial draw FOLDER")


@trial_app.command()
def draw(
    folder: Folder,
    families: Families = None,
    per_family: PerFamily = 9,
    large: Large = 20,
    rounds: Rounds = "40,160",
    seed: Seed = 0,
    number: Round = 1,
    as_json: Json = False,
) -> None:
    """Draw the models of a trial and record them. A recorded trial is never redrawn.

    Example: [bold]isometer trial draw mine --families moe-mlp,llama-like --per-family 6[/]
    """
    members = _drawn(folder, families, per_family, large, rounds, seed, number)
    if as_json:
        emit({"members": [member.to_dict() for member in members]})
        return
    sound = sum(member.fault is None for member in members)
    page = console()
    page.print(f"{len(members)} models of {len({m.family for m in members})} families, {sound} without a fault.")
    next_step(page, f"isometer trial truth {folder}")


@trial_app.command()
def truth(
    folder: Folder,
    workers: Workers = None,
    dask: DaskAddress = None,
    check: Annotated[
        bool, CHOICE("--check", help="Instead train 40 models ten times as long, to see whether the verdicts persist.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train every model and its sound sibling: the truth. Repeat the command to resume after an interruption.

    Example: [bold]isometer trial truth mine --workers 2[/]
    """
    from isometer.trial._records import checks, read_members, truths

    members = read_members(folder)
    stage = (checks if check else truths)(folder, members)
    _complete(stage, workers, dask)
    done = len(stage.records())
    if as_json:
        emit({"cells": len(stage.cells), "done": done})
        return
    page = console()
    page.print(f"{done} of {len(stage.cells)} training cells are in {stage.path}.", highlight=False)
    next_step(page, f"isometer trial examine {folder}")


@trial_app.command()
def examine(
    folder: Folder,
    workers: Workers = None,
    dask: DaskAddress = None,
    open_seal: Annotated[
        str | None,
        CHOICE("--open-seal", metavar="REASON", help="Also examine the sealed half: once, when the rules are final."),
    ] = None,
    batches: Annotated[
        str,
        CHOICE(
            "--batches",
            metavar="KIND,…",
            help="Input of the stress test: fresh batches, one batch, or gaussian samples.",
        ),
    ] = "fresh,one,gaussian",
    parts: Annotated[
        str,
        CHOICE(
            "--parts",
            metavar="PART,…",
            help="Parts to compute: findings, baselines, the stress test, causes, and the truth after treatment.",
        ),
    ] = ",".join(EXAMINED),
    as_json: Json = False,
) -> None:
    """Let the doctor and the baselines judge the development half.

    Example: [bold]isometer trial examine mine --parts findings,stress[/]
    """
    from isometer.trial import _records as records
    from isometer.trial._rules import open_seal as break_seal

    given = _listed("batches", batches, records.BATCHES)
    wanted = _listed("parts", parts, EXAMINED)
    everyone = records.read_members(folder)
    members = _open_half(folder, everyone) if open_seal is None else break_seal(folder, everyone, open_seal)
    stages = []
    for stage in _stages(folder, members, wanted, given):
        _complete(stage, workers, dask)
        stages.append(stage)
    if as_json:
        emit({stage.name: {"cells": len(stage.cells), "done": len(stage.records())} for stage in stages})
        return
    page = console()
    for stage in stages:
        page.print(f"{len(stage.records())} of {len(stage.cells)} {stage.name} are in {stage.path}.", highlight=False)
    next_step(page, f"isometer trial table {folder}")


@trial_app.command("table")
def show_table(
    folder: Folder,
    sealed: Annotated[bool, CHOICE("--sealed", help="Show the sealed half, once it was opened.")] = False,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Show how well the doctor and the baselines separate sick models from those that train.

    Example: [bold]isometer trial table docs/trial --plot trial.png[/]
    """
    from isometer.trial._records import read_members
    from isometer.trial._seal import openings

    everyone = read_members(folder)
    if sealed and not openings(folder):
        raise IsometerError(
            f"the seal of {folder} was not opened; expected an opened one — run isometer trial examine {folder} "
            "--open-seal REASON, once, when the rules are final"
        )
    chosen = [member for member in everyone if member.sealed] if sealed else _open_half(folder, everyone)
    with status("reading the records"):
        found = _summary(folder, chosen)
    if plot is not None:
        from isometer.report._pictures import save_figure
        from isometer.report._trial_picture import trial_picture

        save_figure(trial_picture(found), plot)
    if as_json:
        emit({"half": "sealed" if sealed else "development", **found})
        return
    print_table(found, "sealed" if sealed else "development")
    print_explained(found)
    next_step(console(), f"isometer trial {'fit' if found['rows'] else 'examine'} {folder}")


@trial_app.command("fit")
def fit_verdict(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders of rounds of the trial.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.json", help="Write the fitted numbers.", rich_help_panel=OUTPUT),
    ] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Fit the doctor's probability of training, and show how reliable it is.

    The fit uses the development half, or all models of a trial whose seal was opened. Several rounds count as one.

    Example: [bold]isometer trial fit docs/trial docs/trial-2 --plot reliability.png[/]
    """
    from isometer.files import write_whole
    from isometer.serialize import json_text
    from isometer.trial._records import read_members
    from isometer.trial._seal import fitted_to
    from isometer.trial._table import fitted_verdict

    with status("fitting"):
        found = fitted_verdict({folder: fitted_to(folder, read_members(folder)) for folder in folders})
    if not found:
        raise IsometerError(
            f"{' '.join(map(str, folders))} has no stress tests of models with a clear truth; expected some sick and "
            f"some that train — run isometer trial examine {folders[0]}"
        )
    if out is not None:
        write_whole(out, json_text(found, indent=2) + "\n")
    if plot is not None:
        from isometer.report._pictures import save_figure
        from isometer.report._trial_picture import reliability_picture

        save_figure(reliability_picture(found), plot)
    if as_json:
        emit(found)
        return
    page = console()
    for kind, one in found.items():
        sick, well = one["cases"]
        page.print(f"{kind}: fitted to {sick} sick cases and {well} that train; Brier score {one['brier']:.3f}.")
        table = Table("probability", "models", "expected to train", "train", "95 %")
        for row in one["reliability"]:
            low, high = row["interval"]
            table.add_row(
                f"{row['low']:.2f} to {row['high']:.2f}",
                str(row["models"]),
                f"{row['expected']:.2f}",
                f"{row['trains'] / row['models']:.2f}",
                f"{low:.2f} to {high:.2f}",
            )
        page.print(table)
    page.print("Each probability comes from a fit without the model's own group of related families.", highlight=False)
    next_step(page, f"isometer trial table {folders[0]}")


@trial_app.command("run")
def run_all(
    folder: Folder,
    families: Families = None,
    per_family: PerFamily = 9,
    large: Large = 20,
    rounds: Rounds = "40,160",
    seed: Seed = 0,
    workers: Workers = None,
    dask: DaskAddress = None,
    as_json: Json = False,
) -> None:
    """Run every step: draw, train, examine the development half, and show the table.

    Example: [bold]isometer trial run mine --families moe-mlp,llama-like --per-family 6[/]
    """
    from isometer.trial._records import BATCHES, truths
    from isometer.trial._seal import development

    members = _drawn(folder, families, per_family, large, rounds, seed)
    open_half = development(members)
    _complete(truths(folder, members), workers, dask)
    for stage in _stages(folder, open_half, EXAMINED, BATCHES):
        _complete(stage, workers, dask)
    found = _summary(folder, open_half)
    if as_json:
        emit({"half": "development", **found})
        return
    print_table(found, "development")
    print_explained(found)
    next_step(console(), f"isometer trial fit {folder}")


def _open_half(folder: Path, everyone: Sequence[Member]) -> list[Member]:
    """The members whose diagnoses anyone may look at; there must be some."""
    from isometer.trial._seal import development

    found = development(everyone)
    if not found:
        raise IsometerError(
            f"all models of {folder} are sealed; expected some of the development half — run isometer trial examine "
            f"{folder} --open-seal REASON, once, when the rules are final"
        )
    return found


def _stages(
    folder: Path, members: Sequence[Member], parts: Sequence[str], batches: Sequence[str]
) -> Iterator[TrialStage]:
    """What is to be examined, in turn; each is made once the one before is complete, since it may follow from it."""
    from isometer.trial import _records as records
    from isometer.trial._doubtful import doubtful, worth_treating

    makers: dict[str, Callable[[], TrialStage]] = {
        "findings": lambda: records.opinions(folder, members),
        "baselines": lambda: records.baselines(folder, members),
        "stress": lambda: records.stresses(folder, members, batches),
        "causes": lambda: records.causes(folder, members, doubtful(folder, members)),
        "treated": lambda: records.treated(folder, members, worth_treating(folder, members)),
    }
    return (makers[part]() for part in EXAMINED if part in parts)


def _summary(folder: Path, members: Sequence[Member]) -> dict[str, Any]:
    """How well verdicts, causes and treatments do."""
    from isometer.trial._causes_table import accused, naming_rows
    from isometer.trial._table import summary
    from isometer.trial._treated_table import treatment_rows
    from isometer.trial._verdict_table import verdict_counts

    return {
        **summary(folder, members),
        "verdicts": [asdict(row) for row in verdict_counts(folder, members)],
        "causes": [asdict(row) for row in naming_rows(accused(folder, members))],
        "treated": [asdict(row) for row in treatment_rows(folder, members)],
    }


def _drawn(
    folder: Path, families: str | None, per_family: int, large: int, rounds: str, seed: int, number: int = 1
) -> Sequence[Member]:
    from isometer.files import writable_folder
    from isometer.trial._records import draw as draw_trial

    seed_number(seed, "--seed")
    whole_number(per_family, "--per-family", high=_MOST, fix="pass the number of models")
    whole_number(large, "--large", low=0, high=_MOST, fix="pass the number of models")
    steps = [int(part) for part in rounds.split(",") if part.strip().isdecimal()]
    if len(steps) != 2 or not 0 < min(steps) <= max(steps) <= _MOST_STEPS:
        raise IsometerError(f"--rounds is {rounds!r}; expected two numbers of steps — pass 40,160")
    writable_folder(folder)
    names = None if families is None else [name.strip() for name in families.split(",")]
    with status("drawing") as tell:
        return draw_trial(
            folder,
            per_family=per_family,
            large=large,
            seed=seed,
            names=names,
            round=number,
            rounds=(steps[0], steps[1]),
            tell=tell,
        )


def _complete(stage: TrialStage, workers: int | None, dask: str | None) -> None:
    """Compute what a stage lacks; exit code 1 if something failed, 130 if interrupted."""
    try:
        with keeps(_KEPT), cells_display() as observer:
            failures = stage.run(observer, workers=workers, dask=dask)
    except KeyboardInterrupt:
        tell_interruption(_KEPT)
        raise typer.Exit(INTERRUPTED) from None
    if failures:
        tell_failures(list(failures))
        raise typer.Exit(1)


def _listed(what: str, text: str, known: Sequence[str]) -> list[str]:
    """The parts of a list with commas, each of them known."""
    found = [part.strip() for part in text.split(",")]
    for one in found:
        if one not in known:
            raise unknown_name(what, one, known)
    return found
