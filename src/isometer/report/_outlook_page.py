"""The stress test of a report in HTML, without scripts: table, loss curves, what a step does; every text is escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from isometer.report._doctor_metrics import real
from isometer.report._loss_picture import LossCurve, loss_picture
from isometer.report._numbers import number
from isometer.report._outlook_words import (
    after_words,
    has_verdicts,
    outlook_table,
    rate_text,
    remarks,
    run_notes,
    step_words,
    trained,
)

# The variables are those of the page; a notebook has none of them.
_MODEL = "var(--measured,#3987c9)"
_REFERENCE = "var(--predicted,#d9762b)"
_OWN = "var(--infinite,#8f75c9)"
_SAME_RATE = 1e-3  # rates are rounded to four digits in one place and to five in another
_WIDTH, _HEIGHT = 480, 200


@dataclass(frozen=True)
class _Run:
    """A short training, chosen to be drawn."""

    name: str
    colour: str
    dash: str
    rate: float
    losses: tuple[float, ...]

    @property
    def words(self) -> str:
        first, last = (number(v, 3) if not math.isnan(v) else "not a number" for v in (self.losses[0], self.losses[-1]))
        return f"{self.name}, rate {rate_text(self.rate)}: {first} → {last}"


def training_section(report: Mapping[str, Any]) -> str:
    """The stress test as a section of the page; empty without one.

    Example:
        >>> training_section({"schema": 1})
        ''
    """
    if not has_verdicts(report):
        return ""
    pictures = "".join(
        f"<figure><figcaption>{escape(title)}</figcaption>{picture}</figure>" for title, picture in run_pictures(report)
    )
    notes = "".join(f"<li>{escape(line)}</li>" for line in run_notes(report))
    return (
        '<section id="training" class="training" aria-labelledby="training-title">'
        '<h2 id="training-title">Short trainings</h2>'
        f"{_table(report)}{''.join(f'<p>{escape(line)}</p>' for line in remarks(report))}"
        f'{f"""<div class="runs">{pictures}</div>""" if pictures else ""}{steps_html(report)}'
        f"{f'<details><summary>What was run</summary><ul>{notes}</ul></details>' if notes else ''}</section>"
    )


def _table(report: Mapping[str, Any]) -> str:
    if not trained(report):
        return ""
    table = outlook_table(report)
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in table.headings)
    body = ""
    for (name, answer, *cells), verdict in zip(table.rows, table.verdicts, strict=True):
        rest = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        body += (
            f'<tr><th scope="row">{escape(name)}</th>'
            f'<td><span class="answer {escape(verdict)}">{escape(answer)}</span></td>{rest}</tr>'
        )
    legend = " ".join(map(escape, table.legend))
    return (
        f'<div class="scroll"><table class="outlooks"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f'<p class="about">{legend}</p>'
    )


def steps_html(report: Mapping[str, Any]) -> str:
    """What a step does, and which findings come and go, in a column per optimizer."""
    parts = [
        f"<div><h3>{escape(title)}</h3><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul></div>"
        for title, lines in step_words(report)
    ]
    after = after_words(report)
    if not parts and not after:
        return ""
    told = f"<p>{escape(after)}</p>" if after else ""
    return f'<div class="steps"><h3>What a step does</h3><div class="columns">{"".join(parts)}</div>{told}</div>'


def run_pictures(
    report: Mapping[str, Any], *, on: Sequence[str] = ("fresh batches", "one batch")
) -> list[tuple[str, str]]:
    """Title and picture for each optimizer and kind of batches: model and reference at their best rates, and chance.

    Args:
        report: the dictionary of a doctor's report.
        on: the kinds of batches.

    Example:
        >>> run_pictures({"schema": 1})
        []
    """
    stress = report.get("stress") or {}
    found = []
    for name, one in (report.get("trains") or {}).items():
        for kind in on:
            runs = _drawn(stress, name, one, kind)
            if runs:
                chance = stress.get("chance" if kind == "fresh batches" else "chance_of_one", stress.get("chance"))
                found.append((f"{name}, {kind}", _picture(runs, real(chance), f"{name}, {kind}")))
    return found


def first_pictures(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """As `run_pictures`, only on fresh batches where there are any."""
    return run_pictures(report, on=("fresh batches",)) or run_pictures(report, on=("one batch",))


def _drawn(stress: Mapping[str, Any], name: str, one: Mapping[str, Any], on: str) -> list[_Run]:
    every = [
        run for run in stress.get("runs") or () if (run["optimizer"], run["on"]) == (name, on) and run.get("losses")
    ]
    best, at = real(one.get("best_rate")), one.get("at_rate")
    model = [run for run in every if run["who"] == "model"]
    # The best rate is that on fresh batches, where there are any.
    second = on == "one batch" and not math.isnan(real(one["evidence"]["fresh"]))
    chosen = [
        ("model", _MODEL, "", _longest(run for run in model if second or _same(run["rate"], best))),
        ("reference", _REFERENCE, "7 4", _longest(run for run in every if run["who"] == "reference")),
    ]
    if at is not None and not _same(at["rate"], best):
        own = _longest(run for run in model if _same(run["rate"], real(at["rate"])))
        chosen.append(("model at your rate", _OWN, "3 3", own))
    return [
        _Run(label, colour, dash, real(run["rate"]), tuple(map(real, run["losses"])))
        for label, colour, dash, run in chosen
        if run is not None
    ]


def _same(rate: Any, other: float) -> bool:
    return math.isclose(real(rate), other, rel_tol=_SAME_RATE)


def _longest(runs: Any) -> Mapping[str, Any] | None:
    """The longest run; among several, the one that ends lowest."""

    def merit(run: Mapping[str, Any]) -> tuple[int, float]:
        losses = [real(loss) for loss in run["losses"]]
        last = losses[-max(1, len(losses) // 4) :] if run["on"] == "fresh batches" else losses[-1:]
        end = sum(last) / len(last)
        return int(run["steps"]), -math.inf if math.isnan(end) else -end

    return max(runs, key=merit, default=None)


def _picture(runs: Sequence[_Run], chance: float, label: str) -> str:
    curves = [LossCurve("", one.colour, range(len(one.losses)), one.losses, dash=one.dash) for one in runs]
    keys = [(one.colour, one.dash, one.words) for one in runs]
    if math.isfinite(chance):
        keys.append(("currentColor", "2 4", f"a constant answer: {number(chance, 3)}"))
    legend = "".join(
        f'<li><svg viewBox="0 0 28 8" width="28" height="8" aria-hidden="true"><path d="M0,4H28" stroke="{colour}" '
        f'stroke-width="2.5"{f""" stroke-dasharray="{dash}" """ if dash else ""}/></svg> {escape(words)}</li>'
        for colour, dash, words in keys
    )
    about = f"Loss against step of short trainings: {label}"
    drawn = loss_picture(curves, label=about, chance=chance, width=_WIDTH, height=_HEIGHT)
    return f'{drawn}<ul class="legend" style="list-style:none;margin:0;padding:0;font-size:85%">{legend}</ul>'


def notebook_training(report: Mapping[str, Any]) -> str:
    """The same for a notebook, with all styles in place; empty without a stress test."""
    if not has_verdicts(report):
        return ""
    lines = [*remarks(report), *(f"{title}: {' '.join(told)}" for title, told in step_words(report))]
    lines.append(after_words(report))
    pictures = "".join(
        f'<div style="flex:1 1 260px;max-width:400px"><div style="font-size:85%;opacity:.8">{escape(title)}</div>'
        f"{picture}</div>"
        for title, picture in first_pictures(report)
    )
    notes = "".join(f"<div>{escape(line)}</div>" for line in run_notes(report))
    folded = f'<details style="font-size:85%"><summary>What was run</summary>{notes}</details>' if notes else ""
    told = "".join(f"<div>{escape(line)}</div>" for line in lines if line)
    return f'{_notebook_table(report)}<div style="display:flex;flex-wrap:wrap;gap:1em">{pictures}</div>{told}{folded}'


def _notebook_table(report: Mapping[str, Any]) -> str:
    if not trained(report):
        return ""
    table = outlook_table(report)
    style = 'style="padding:.15em .9em .15em 0;text-align:left;background:none"'  # notebooks have styles for tables
    head = "".join(f"<th {style}>{escape(title)}</th>" for title in table.headings)
    body = "".join(f"<tr>{''.join(f'<td {style}>{escape(text)}</td>' for text in row)}</tr>" for row in table.rows)
    return (
        f'<table style="border-collapse:collapse;margin:.4em 0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        f'</table><div style="font-size:85%;opacity:.8">{escape(" ".join(table.legend))}</div>'
    )
