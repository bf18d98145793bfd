"""The section of the monitor's page that says what warnings are worth."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.warnings._records import ROOT
from benchmarks.warnings._roster import HEALTHY, SECOND
from isometer.files import write_whole

_PAGE = ROOT / "docs" / "howto" / "watching.md"
_BEGIN, _END = "<!-- warnings: made by python -m benchmarks.warnings -->", "<!-- end -->"
_ABOUT = """
Runs of 300 steps of perceptrons, ResNets, GPTs and recurrent networks with SGD, Adam and AdamW, sound or with a
fault that sets in after 21 % to 40 % of the run and grows. The second roster has {healthy} healthy and {faulty}
faulty runs of other networks; two architectures (a mixer and an autoencoder) and three kinds of fault are in it
alone. It was drawn by a seed that was written down, with the rules final, before any of its runs was trained. A run
fails if its loss ends above that of its healthy twin (same weights, same batches) by a tenth of the first loss, and
the loss shows it where that begins. A failure is slow if that takes at least a quarter of the run from the onset:
faster ones leave no time for a lead of a fifth. All failures begin after the first fifth of a run. Intervals are
exact, 95 %.
"""
_COLUMNS = {
    "development": "first roster, open",
    "cross_validated": "the same, limits fitted without the network",
    "sealed": "second roster, sealed",
}
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
    here = [name for name in _COLUMNS if name in found]
    runs = SECOND.runs()
    healthy = sum(one.way == HEALTHY for one in runs)
    ways = {way: words for way, words in SECOND.ways.items() if any(way in found[name]["ways"] for name in here)}
    return "\n".join(
        [
            *textwrap.wrap(_ABOUT.format(healthy=healthy, faulty=len(runs) - healthy).strip(), 120),
            *([] if "sealed" in found else ["", "**The second roster has not been trained and opened yet.**"]),
            "",
            *_table(found, [_COLUMNS[name] for name in here], here, _ROWS, _row),
            "",
            *_table(found, [_COLUMNS[name] for name in here], here, ways, _of_way, "slow failures announced in time"),
            "",
            "The first seal, opened for earlier rules, had missed the aims:",
            "",
            *_table(found["first_seal"], ["development half", "sealed half"], ["development", "sealed"], _ROWS, _row),
        ]
    )


def _table(
    found: Mapping[str, Any],
    titles: Sequence[str],
    columns: Sequence[str],
    rows: Mapping[str, str],
    cell: Callable[[Mapping[str, Any], str], str],
    corner: str = "share of",
) -> list[str]:
    return [
        f"| {corner} | " + " | ".join(titles) + " |",
        "|---|" + "---|" * len(titles),
        *(f"| {words} | " + " | ".join(cell(found[one], row) for one in columns) + " |" for row, words in rows.items()),
    ]


def _row(numbers: Mapping[str, Any], row: str) -> str:
    return _cell(numbers[row])


def _of_way(numbers: Mapping[str, Any], way: str) -> str:
    one = numbers["ways"].get(way)
    return f"{one['in_time']} of {one['slow']}" if one else "none"


def _cell(share: Mapping[str, Any] | None) -> str:
    if share is None:
        return "not known"
    if not share["runs"]:
        return "none"
    low, high = share["interval"]
    return f"{100 * share['share']:.0f} % ({100 * low:.0f}–{100 * high:.0f}), {share['count']} of {share['runs']}"
