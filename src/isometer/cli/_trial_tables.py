"""What `isometer trial table` says: the doctor and the baselines beside the truth, causes, and treatment."""

from __future__ import annotations

import math
from typing import Any

from rich.table import Table

from isometer.cli._shared import console

_WITH = {"fresh": "stress test", "one": "stress test on one batch", "gaussian": "stress test without targets"}
_WORDS = {"trains": "train", "slow": "are slow", "sick": "are sick", "unknown": "are unknown"}


def print_table(found: dict[str, Any], half: str) -> None:
    """Conclusions, truth, opinions, verdicts and findings of one half of a trial."""
    page = console()
    for line in _conclusion(found):
        page.print(line, highlight=False)
    if found["outdated"]:
        page.print(
            f"{found['outdated']} opinions were computed by other code — run isometer trial examine again",
            highlight=False,
        )
    for optimizer, counts in found["truth"].items():
        words = ", ".join(f"{counts.get(name, 0)} {word}" for name, word in _WORDS.items())
        page.print(f"Truth with {optimizer}, {half} half: {words}.", highlight=False)
    if not found["rows"]:
        return
    for optimizer in found["truth"]:
        rows = [row for row in found["rows"] if row["optimizer"] == optimizer]
        if not rows:
            continue
        sick, well = max(tuple(row["models"]) for row in rows)
        table = Table(title=f"{optimizer}: {sick} sick models, {well} that train", title_justify="left")
        for column in ("opinion", "area under the curve", "95 %", "against the doctor", "95 %"):
            table.add_column(column)
        for row in sorted(rows, key=lambda row: -row["auc"]):
            fewer = "" if tuple(row["models"]) == (sick, well) else f" ({sum(row['models'])} models)"
            table.add_row(
                row["opinion"] + fewer,
                _two(row["auc"]),
                _ends(row, ""),
                _two(row["difference"]),
                _ends(row, "difference_"),
            )
        page.print(table)
    for one in found["verdicts"]:
        page.print(
            f"{one['optimizer']}, {_WITH[one['batch']]}: of {sum(one['sick'].values())} sick models it calls "
            f"{_said(one['sick'])}; of {sum(one['trains'].values())} that train, {_said(one['trains'])}",
            highlight=False,
        )
        if one["batch"] == "fresh":
            page.print(
                f"{one['optimizer']}: {_percent(one['found'])} of the sick are found; {_percent(one['alarms'])} of "
                f"those that train are called sick; among architectures of transformers, {_share(one['library'])} "
                f"({_share(one['library_sound'])} without a fault)",
                highlight=False,
            )
    for one in found["findings"]:
        (caught, sick), (alarms, well) = one["found"], one["alarms"]
        whose = "either optimizer" if one["optimizer"] == "either" else one["optimizer"]
        page.print(
            f"{whose}, {one['batch']} batches: severe findings in {caught} of {sick} sick models and in {alarms} of "
            f"{well} that train" + (f"; {one['errors']} could not be examined" if one["errors"] else ""),
            highlight=False,
        )


def print_explained(found: dict[str, Any]) -> None:
    """How often the guilty part is named, and what treatment is worth, of models sick with either optimizer."""
    page = console()
    for row in found["causes"]:
        if row["optimizer"] == "either":
            page.print(
                f"Guilty {row['part']}: named first in {_share(row['first'])}, among the first two in "
                f"{_share(row['first_two'])}.",
                highlight=False,
            )
    for row in found["treated"]:
        if row["cured"]["of"] or row["worse"]["of"]:
            page.print(
                f"{row['optimizer']}, after treatment: {_share(row['cured'])} treatable sick models are cured; of "
                f"those that train and that the doctor does not trust, {_share(row['changed'])} were changed and "
                f"{_share(row['worse'])} are worse.",
                highlight=False,
            )


def _percent(one: dict[str, Any]) -> str:
    """`90 % (80 to 95 %)`."""
    found, low, high = 100 * one["found"] / max(one["of"], 1), 100 * one["low"], 100 * one["high"]
    return f"{found:.0f} % ({low:.0f} to {high:.0f} %)" if one["of"] else "none"


def _share(one: dict[str, Any]) -> str:
    return f"{one['found']} of {one['of']}"


def _said(counts: dict[str, int]) -> str:
    """`3 sick, 1 unknown`, the most frequent first."""
    return ", ".join(f"{counts[name]} {name}" for name in sorted(counts, key=lambda name: -counts[name]))


def _conclusion(found: dict[str, Any]) -> list[str]:
    """One line per optimizer: the doctor's area, and the best of the others."""
    from isometer.trial._table import DOCTOR

    lines = []
    for optimizer in found["truth"]:
        rows = {row["opinion"]: row for row in found["rows"] if row["optimizer"] == optimizer}
        others = [row for name, row in rows.items() if not name.startswith("doctor")]
        if DOCTOR in rows and others:
            best = max(others, key=lambda row: row["auc"])
            lines.append(
                f"With {optimizer} the doctor's verdict separates sick from sound models with an area under the curve "
                f"of {rows[DOCTOR]['auc']:.3f}; the best baseline, {best['opinion']}, reaches {best['auc']:.3f}."
            )
    return lines


def _two(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def _ends(row: dict[str, Any], prefix: str) -> str:
    low, high = row[f"{prefix}low"], row[f"{prefix}high"]
    return "" if math.isnan(low) else f"{low:.2f} to {high:.2f}"
