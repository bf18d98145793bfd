"""`isometer patients`: the built-in models, what is wrong with them, whether they train, what treatment brings."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Annotated, Any

from isometer.cli._shared import CHOICE, Json, app, console, emit, next_step
from isometer.errors import unknown_name


@app.command()
def patients(
    family: Annotated[
        str | None, CHOICE("--family", metavar="NAME", help="Only mlp, convnet, transformer, recurrent or mixer.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the built-in patients: condition, whether they train, and the outcome of treatment.

    Losses are those after 200 steps on Fashion-MNIST at the best of three learning rates, as measured for the
    documentation; chance is 2.303. Examine one with [bold]isometer doctor NAME[/], treat it with [bold]--treat[/].

    Examples: [bold]isometer patients[/], [bold]isometer patients --family transformer[/]
    """
    rows = _rows(family)
    if as_json:
        emit({"patients": rows})
        return
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(title="Built-in patients", title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("name", "condition", "trains", "treatment and loss"):
        table.add_column(column, no_wrap=True)
    for row in rows:
        condition = "[green]healthy[/]" if not row["condition"] else "\n".join(row["condition"])
        trains = {True: "yes", False: "[red]no[/]", None: "—"}[row["trains"]]
        table.add_row(row["name"], condition, trains, _treatment(row["treatment"]))
    page = console()
    page.print(table)
    next_step(page, "isometer doctor mlp-relu-default-10 --treat")


def _rows(family: str | None) -> list[dict[str, Any]]:
    from isometer.doctor.patients import PATIENTS

    families = sorted({one.family for one in PATIENTS.values()})
    if family is not None and family not in families:
        raise unknown_name("--family", family, families)
    kept = files("isometer.doctor.patients").joinpath("outcomes.json")
    known = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    return [
        {
            "name": name,
            "description": one.description,
            "family": one.family,
            "condition": list(one.findings),
            "sibling": one.sibling,
            "available": one.available,
            "trains": known.get(name, {}).get("trains"),
            "loss": known.get(name, {}).get("loss"),
            "treatment": known.get(name, {}).get("treatment"),
        }
        for name, one in PATIENTS.items()
        if family is None or one.family == family
    ]


def _treatment(treatment: dict[str, Any] | None) -> str:
    if treatment is None:
        return "—"
    if not treatment["applied"]:
        return "none applies"
    left = [f"left: {', '.join(treatment['left'])}"] if treatment["left"] else []
    return "\n".join([*treatment["applied"], *left, *_losses(treatment)])


def _losses(treatment: dict[str, Any]) -> list[str]:
    if "loss_before" not in treatment:
        return []
    before, after = (_mean(treatment[key]) for key in ("loss_before", "loss_after"))
    mark = "[green]✓[/]" if treatment["better"] else "[red]✗[/]" if treatment["worse"] else "="
    return [f"{before} → {after} {mark}"]


def _mean(losses: list[float | str]) -> str:
    numbers = [loss for loss in losses if not isinstance(loss, str)]
    return f"{sum(numbers) / len(numbers):.2f}" if len(numbers) == len(losses) else "diverges"
