"""A treatment on a terminal and as a section of the report: what was done, before and after, loss curves with bands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from isometer.report._cause_page import marked
from isometer.report._doctor_fragments import compared
from isometer.report._doctor_metrics import printable, real
from isometer.report._loss_picture import LossCurve, loss_picture
from isometer.report._outlook_words import headline

_MARKS = {"applied": ("✓", "green"), "advised": ("→", "bold green"), "undone": ("↶", "yellow"), "refused": ("–", "dim")}
_ARMS = (("before", "untreated", "#D55E00"), ("after", "treated", "#0072B2"))


def print_treatment(console: Console, treatment: Mapping[str, Any] | None) -> None:
    """Print what a treatment did, as `Treatment.to_dict` gives it.

    Args:
        console: where to print.
        treatment: the dictionary; nothing is printed for `None`.

    Example:
        >>> import io
        >>> page = io.StringIO()
        >>> print_treatment(Console(width=80, file=page), {"summary": "zero-bias: no findings remain.",
        ...     "cured": True, "steps": [], "better": [], "worse": [], "numbers": [], "code": "", "trial": None})
        >>> print(page.getvalue().strip())
        Treatment · zero-bias: no findings remain.
    """
    if treatment is None:
        return
    head = Text("\nTreatment", style="bold green" if treatment["cured"] else "bold yellow")
    head.append(f" · {printable(treatment['summary'])}", style="default not bold")
    console.print(head)
    for step in treatment["steps"]:
        mark, style = _MARKS[step["status"]]
        line = Text(f"{mark} {step['status']} ", style=style)
        line.append(printable(step["id"]), style="bold" if step["status"] in ("applied", "advised") else style)
        line.append(f" ({printable(step['kind'])}): {printable(step['reason'])}", style=style)
        console.print(Padding(line, (0, 0, 0, 2)))
    for quantity, before, after in compared(treatment):
        console.print(Padding(Text(printable(f"{quantity}: {before} → {after}")), (0, 0, 0, 2)))
    if treatment["code"]:
        console.print(Padding(Text("In your own code:", style="bold"), (1, 0, 0, 2)))
        console.print(Padding(Text(printable_lines(treatment["code"]), style="cyan"), (0, 0, 0, 4)))
    if treatment.get("trains"):
        console.print(Padding(Text(f"The treated model: {treated_words(treatment)}.", style="bold"), (1, 0, 0, 2)))
    trial = treatment["trial"]
    if trial is not None:
        console.print(Padding(Text.assemble(("Trial ", "bold"), printable(trial["summary"])), (1, 0, 0, 2)))
        for key, name, _ in _ARMS:
            losses = ", ".join(_number(loss) for loss in trial[key]["best_losses"])
            rate = trial[key]["best_learning_rate"]
            console.print(Padding(Text(f"{name}: {losses} at learning rate {rate:g}"), (0, 0, 0, 4)))


def treated_words(treatment: Mapping[str, Any]) -> str:
    """What a stress test of the treated model said.

    Example:
        >>> trains, sick = ({"verdict": verdict, "at_rate": None} for verdict in ("trains", "sick"))
        >>> treated_words({"trains": {"adam": trains, "sgd": sick}})
        'trains with adam, does not train with sgd'
    """
    word = headline({"healthy": True, "trains": treatment["trains"]}).word
    return printable(word[:1].lower() + word[1:])


def printable_lines(text: str) -> str:
    """`printable` line by line."""
    return "\n".join(printable(line) for line in text.splitlines())


def treatment_section(treatment: Mapping[str, Any] | None) -> str:
    """The treatment as a section of the page, without scripts; every text is escaped.

    Example:
        >>> treatment_section(None)
        ''
    """
    if treatment is None:
        return ""
    items = "".join(
        f"<li><strong>{escape(step['status'])} {escape(step['id'])}</strong> ({escape(step['kind'])}): "
        f"{marked(step['reason'])}</li>"
        for step in treatment["steps"]
    )
    parts = [f"<p>{marked(treatment['summary'])}</p>"]
    if items:
        parts.append(f"<ul>{items}</ul>")
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(before)} → {escape(after)}</td></tr>'
        for name, before, after in compared(treatment)
    )
    if rows:
        parts.append(f'<table class="evidence"><caption>Before → after</caption><tbody>{rows}</tbody></table>')
    if treatment["code"]:
        parts.append(f"<h3>In your own code</h3><pre><code>{escape(treatment['code'])}</code></pre>")
    if treatment.get("trains"):
        parts.append(f"<p><strong>The treated model: {escape(treated_words(treatment))}.</strong></p>")
    if treatment["trial"] is not None:
        parts.append(f"<h3>Trial</h3><p>{escape(treatment['trial']['summary'])}</p>{loss_curves(treatment['trial'])}")
    return (
        '<section class="comparison treatment" aria-labelledby="treatment-title"><h2 id="treatment-title">Treatment'
        f'</h2><div class="columns"><div>{"".join(parts)}</div></div></section>'
    )


def loss_curves(trial: Mapping[str, Any]) -> str:
    """Loss against step for both models at their best learning rates, as SVG: mean, and from lowest to highest seed.

    Args:
        trial: what `TreatmentTrial.to_dict` gives.

    Example:
        >>> curve = {"step": [0, 1], "mean": [2.0, 1.0], "low": [2.0, 0.5], "high": [2.0, "inf"]}
        >>> arm = {"curve": curve, "best_learning_rate": 0.1}
        >>> loss_curves({"steps": 2, "before": arm, "after": arm}).count("<polyline")
        2
    """
    curves = []
    for key, name, colour in _ARMS:
        curve, rate = trial[key]["curve"], trial[key]["best_learning_rate"]
        mean, low, high = (_floats(curve[side]) for side in ("mean", "low", "high"))
        curves.append(LossCurve(f"{name}, learning rate {rate:g}", colour, curve["step"], mean, low, high))
    label = "Loss curves of the untreated and the treated model"
    return loss_picture(curves, label=label, last=int(trial["steps"]) - 1)


def _floats(values: Sequence[float | str | None]) -> list[float]:
    """Losses; one that is no number is drawn where an infinite one is."""
    return [math.inf if math.isnan(real(value)) else real(value) for value in values]


def _number(value: float | str | None) -> str:
    loss = real(value)
    return "not a number" if math.isnan(loss) else f"{loss:.3f}".replace("inf", "∞")
