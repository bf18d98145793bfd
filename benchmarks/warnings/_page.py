"""The section of the monitor's page that says what warnings are worth."""

from __future__ import annotations

import textwrap
from typing import Any

from benchmarks.warnings._records import ROOT
from benchmarks.warnings._roster import HEALTHY, WAYS, roster
from isometer.files import write_whole

_PAGE = ROOT / "docs" / "howto" / "watching.md"
_BEGIN, _END = "<!-- warnings: made by python -m benchmarks.warnings -->", "<!-- end -->"
_ABOUT = """
{healthy} healthy runs of 300 steps and {faulty} with one of {ways} faults that sets in after 21 % to 40 % of the run
and grows: perceptrons, ResNets, GPTs and recurrent networks with SGD, Adam and AdamW. Limits are fitted on one half
of the networks, split by a hash of their names; the other half was sealed until the limits were final. A run fails if
its loss ends above that of its healthy twin (same weights, same batches) by a tenth of the first loss, and the loss
shows it where that begins. A failure is slow if that takes at least a quarter of the run from the onset: faster ones
leave no time for a lead of a fifth. Intervals are exact, 95 %.
"""
_ROWS = {
    "announced_in_time": "slow failures announced at least a fifth of the run before the loss shows them",
    "announced_before_the_loss": "slow failures announced before the loss shows them",
    "all_failures_in_time": "all failures announced at least a fifth of the run before",
    "all_failures_before_the_loss": "all failures announced before the loss shows them",
    "false_alarms": "healthy runs with a warning",
}


def write_section(found: dict[str, Any]) -> None:
    """Put the numbers between the marks of the page."""
    text = _PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    write_whole(_PAGE, f"{head}{_BEGIN}\n{_section(found)}\n{_END}{tail}")


def _section(found: dict[str, Any]) -> str:
    halves = [name for name in ("development", "sealed") if name in found]
    healthy = sum(one.way == HEALTHY for one in roster())
    faulty = len(roster()) - healthy
    lines = [
        *textwrap.wrap(_ABOUT.format(healthy=healthy, faulty=faulty, ways=len(WAYS)), 120),
        "",
        "| share of | " + " | ".join(f"{name} half" for name in halves) + " |",
        "|---|" + "---|" * len(halves),
        *[
            f"| {words} | " + " | ".join(_cell(found[half][row]) for half in halves) + " |"
            for row, words in _ROWS.items()
        ],
        "",
        "| fault | " + " | ".join(f"announced in time, {half}" for half in halves) + " |",
        "|---|" + "---|" * len(halves),
        *[
            f"| {words} | "
            + " | ".join(
                f"{found[half]['ways'][way]['in_time']} of {found[half]['ways'][way]['slow']}" for half in halves
            )
            + " |"
            for way, words in WAYS.items()
        ],
    ]
    return "\n".join(lines)


def _cell(share: dict[str, Any]) -> str:
    if not share["runs"]:
        return "none"
    low, high = share["interval"]
    return f"{100 * share['share']:.0f} % ({100 * low:.0f}–{100 * high:.0f}), {share['count']} of {share['runs']}"
