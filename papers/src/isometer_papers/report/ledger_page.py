"""The ledger of claims as a page: per paper a table of statements, verdicts, tightness and counterexamples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from isometer.serialize import json_text
from isometer_papers._papers import papers

__all__ = ["claims_html", "claims_markdown"]

Row = Mapping[str, Any]
_VERDICTS = ("refuted", "vacuous", "inconclusive", "holds")
_WIDTH, _HEIGHT, _PAD = 132, 84, 6
_ROUNDING = 1e-9
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_STYLE = """
:root { --page: #fff; --text: #171b22; --soft: #535c6b; --line: #d8dce4; --holds: #00705a; --refuted: #b3261e;
  --vacuous: #8a5a00; --inconclusive: #535c6b; --dot: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --page: #101318; --text: #e8ebf0; --soft: #a4adbb; --line: #323947;
  --holds: #5fd3b3; --refuted: #ff8a80; --vacuous: #f2c063; --inconclusive: #a4adbb; --dot: #56b4e9; } }
body { margin: 0 auto; max-width: 1200px; padding: 1rem 1.25rem 3rem; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-top: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; font-size: .85rem; }
code { font-size: .85rem; white-space: nowrap; } .small { color: var(--soft); font-size: .85rem; }
.counterexample { overflow-wrap: anywhere; white-space: normal; }
.verdict { font-weight: 650; } .holds { color: var(--holds); } .refuted { color: var(--refuted); }
.vacuous { color: var(--vacuous); } .inconclusive { color: var(--inconclusive); }
svg { display: block; } svg line { stroke: var(--soft); stroke-width: 1; }
svg circle { fill: var(--dot); fill-opacity: .6; }
svg rect { fill: none; stroke: var(--line); }
"""


def claims_html(results: Iterable[Row], *, title: str = "Ledger of claims") -> str:
    """The ledger as one self-contained HTML document; nothing is loaded and no script runs.

    Args:
        results: dictionaries of results, as `Result.to_dict` gives them.
        title: of the document.

    Returns:
        The document.

    Example:
        >>> page = claims_html([{"id": "000/x", "paper": "000", "place": "Lemma 1", "verdict": "holds", "kind": "d",
        ...     "statement": "1 < 2", "margin": 0.5, "instances": {}, "counterexample": None, "certified_by": None,
        ...     "corrected": None, "note": "", "seconds": 0.0, "points": [["a", 1.0, 2.0]]}])
        >>> page.startswith("<!doctype html>"), "1 &lt; 2" in page
        (True, True)
    """
    rows = list(results)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1><p>{escape(_counts(rows))}</p>",
        '<p class="small">Every statement is checked as printed; a correction stands beside it as ID#corrected. '
        "Pictures: value across, bound up, with the line where both are equal.</p>",
    ]
    for paper, members in _by_paper(rows).items():
        parts.append(f"<h2>{escape(paper)}</h2><p>{escape(_counts(members))}</p>")
        parts.append('<div class="scroll"><table><thead><tr><th>Statement</th><th>Verdict</th><th>Bound and value</th>')
        parts.append("<th>Counterexample and notes</th></tr></thead><tbody>")
        parts += [_html_row(row) for row in members]
        parts.append("</tbody></table></div>")
    parts.append("</body></html>\n")
    return "".join(parts)


def claims_markdown(results: Iterable[Row], *, title: str = "Ledger of claims") -> str:
    """The ledger as Markdown tables.

    Args:
        results: dictionaries of results, as `Result.to_dict` gives them.
        title: first heading.

    Returns:
        The text.

    Example:
        >>> print(claims_markdown([]))
        # Ledger of claims
        <BLANKLINE>
        0 statements.
        <BLANKLINE>
    """
    rows = list(results)
    lines = [f"# {title}", "", _counts(rows), ""]
    for paper, members in _by_paper(rows).items():
        lines += [f"## {paper}", "", _counts(members), ""]
        lines += ["| ID | statement | verdict | tightness | counterexample, note |", "|---|---|---|---|---|"]
        for row in members:
            cells = [f"`{row['id']}`", row["statement"], row["verdict"], _margin(row), _remarks(row)]
            lines.append("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _by_paper(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by the heading of their paper: citation, number and title."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        known = papers().get(str(row["paper"]))
        heading = f"{known.label}: {known.title}" if known else str(row["paper"])
        found.setdefault(heading, []).append(row)
    return found


def _counts(rows: Sequence[Row]) -> str:
    """As printed, and corrections apart."""
    printed = [row for row in rows if "#" not in str(row["id"])]
    tally = {verdict: sum(row["verdict"] == verdict for row in printed) for verdict in _VERDICTS}
    shown = ", ".join(f"{number} {_phrase(verdict, number)}" for verdict, number in reversed(tally.items()) if number)
    corrected = [row for row in rows if "#" in str(row["id"])]
    good = sum(row["verdict"] == "holds" for row in corrected)
    text = f"{len(printed)} statements" + (f" as printed: {shown}" if shown else "") + "."
    return text + (f" {len(corrected)} corrections, of which {good} hold." if corrected else "")


def _phrase(verdict: str, number: int) -> str:
    if verdict == "holds":
        return "holds" if number == 1 else "hold"
    return ("is " if number == 1 else "are ") + verdict


def _margin(row: Row) -> str:
    margin = row["margin"]
    if not isinstance(margin, int | float):
        return "–"
    if abs(margin) < 1e-9:
        return "equal" if row.get("relation") == "==" else "attained"
    return f"{margin:.3g}"


def _remarks(row: Row) -> str:
    parts = []
    if row["counterexample"] is not None:
        parts.append(f"{_counterexample(row['counterexample'])}; certified by {row['certified_by']}")
    if row["note"]:
        parts.append(str(row["note"]))
    if row["corrected"]:
        parts.append(f"corrected: {row['corrected']}")
    return ". ".join(parts)


def _counterexample(found: Mapping[str, Any]) -> str:
    names = ", ".join(f"{key} = {_short(value)}" for key, value in found["instance"].items())
    return f"{names}: value {found['value']:.6g}, bound {found['bound']:.6g}"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.17g}"
    text = json_text(value) if isinstance(value, list) else str(value)
    return text if len(text) <= 400 else f"{text[:400]}…"


def _html_row(row: Row) -> str:
    tried = ", ".join(f"{number} {family}" for family, number in row["instances"].items())
    left = (
        f"<code>{escape(str(row['id']))}</code> <span class='small'>{escape(str(row['place']))}, {row['kind']}</span>"
    )
    verdict = f"<span class='verdict {row['verdict']}'>{row['verdict']}</span>"
    cells = [
        f"{left}<br>{escape(str(row['statement']))}",
        f"{verdict}<br><span class='small'>{escape(tried)}</span>",
        _plot(row.get("points", ())) + f"<span class='small'>{escape(_margin(row))}</span>",
        f"<span class='counterexample'>{escape(_remarks(row))}</span>",
    ]
    return f"<tr id='{escape(str(row['id']), quote=True)}'>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _plot(points: Iterable[Sequence[Any]]) -> str:
    """Value across, bound up, on one signed logarithmic scale, with the diagonal."""
    pairs = [
        (float(value), float(bound))
        for _, value, bound in points
        if isinstance(value, int | float) and isinstance(bound, int | float)
    ]
    sizes = [abs(number) for pair in pairs for number in pair if number]
    largest = max(sizes, default=0.0)
    if largest < _ROUNDING:
        return ""  # zeros, and what rounding makes of them
    unit = max(min(sizes), largest * 1e-6)

    def scaled(number: float) -> float:
        return math.copysign(math.log1p(abs(number) / unit), number)

    places = [(scaled(value), scaled(bound)) for value, bound in pairs]
    low = min(number for place in places for number in place)
    high = max(number for place in places for number in place)
    span = (high - low) or 1.0

    def across(number: float) -> float:
        return _PAD + (number - low) / span * (_WIDTH - 2 * _PAD)

    def up(number: float) -> float:
        return _HEIGHT - _PAD - (number - low) / span * (_HEIGHT - 2 * _PAD)

    dots = "".join(f'<circle cx="{across(v):.1f}" cy="{up(b):.1f}" r="2"/>' for v, b in dict.fromkeys(places))
    line = f'<line x1="{across(low):.1f}" y1="{up(low):.1f}" x2="{across(high):.1f}" y2="{up(high):.1f}"/>'
    frame = f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}"/>'
    label = f"{len(pairs)} instances, bound against value"
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{label}">{frame}{line}{dots}</svg>'
