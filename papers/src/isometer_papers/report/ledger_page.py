"""The ledger of claims as one HTML page: findings, and per chapter statements, verdicts and evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from html import escape
from typing import Any

from isometer.serialize import json_text
from isometer_papers._papers import papers
from isometer_papers.claims import LedgerFinding, Statement, causes, counted
from isometer_papers.claims._text import texts_of
from isometer_papers.report._ledger_filters import POLICY, SCRIPT, filter_form, filter_style

__all__ = ["claims_html", "front_html"]

_WIDTH, _HEIGHT, _PAD = 132, 84, 6
_ROUNDING = 1e-9

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
blockquote { margin: .3rem 0; color: var(--soft); } pre { margin: .3rem 0; overflow-x: auto; font-size: .8rem; }
fieldset { border: 1px solid var(--line); margin: .5rem 0; } label { margin-right: .8rem; white-space: nowrap; }
svg { display: block; } svg line { stroke: var(--soft); stroke-width: 1; }
svg circle { fill: var(--dot); fill-opacity: .6; }
svg rect { fill: none; stroke: var(--line); }
"""


def claims_html(
    statements: Iterable[Statement],
    findings: Sequence[LedgerFinding] = (),
    *,
    title: str = "Ledger of claims",
    pages: bool = False,
) -> str:
    """The ledger as one self-contained HTML document: nothing is loaded, and the only script searches its rows.

    Args:
        statements: what to show.
        findings: those that matter, told first.
        title: title of the document.
        pages: whether each paper has its own document beside this one, to which links go.

    Returns:
        The document.

    Example:
        >>> from isometer_papers.claims import ledger
        >>> page = claims_html(ledger("002")[:3])
        >>> page.startswith("<!doctype html>"), page.count("<tr id=")
        (True, 3)
    """
    rows = list(statements)
    papers_of = by_chapter(rows)
    chapters = {
        _anchor(paper, one): _titled(paper, one, len(papers_of)) for paper in papers_of for one in papers_of[paper]
    }
    parts = [
        _head(title, filter_style(chapters), POLICY),
        f"<h1>{escape(title)}</h1>{_counts(rows)}",
        '<p class="small">A statement has a verdict as printed and one as intended, by its evident reading; '
        "a correction stands beside it as ID#corrected. Pictures: value across, bound up, with the line where both "
        "are equal. The ID of a statement is a permanent link to it.</p>",
        _finding_list(findings, {row.id for row in rows}, pages=pages),
        filter_form(chapters),
        _contents(rows),
    ]
    for paper, inner in papers_of.items():
        members = [row for group in inner.values() for row in group]
        parts.append(f"<h2>{escape(heading(paper))}</h2>{_counts(members)}" if len(papers_of) > 1 else "")
        parts += [_chapter(paper, chapter, group) for chapter, group in inner.items()]
    parts.append(f"<script>{SCRIPT}</script></body></html>\n")
    return "".join(parts)


def front_html(statements: Sequence[Statement], findings: Sequence[LedgerFinding]) -> str:
    """The front page of a ledger whose papers have a page each, `KEY.html`: findings, and counts by class.

    Args:
        statements: all of them.
        findings: those that matter.

    Returns:
        The document.

    Example:
        >>> from isometer_papers.claims import findings, ledger
        >>> "<a href='daneshmand2020.html'>" in front_html(ledger("002"), findings())
        True
    """
    title = "Ledger of claims"
    lines = []
    for paper in by_chapter(statements):
        found = counted(row for row in statements if row.paper == paper)
        name = f"<a href='{papers()[paper].key}.html'>{escape(heading(paper))}</a>"
        lines.append(f"<li>{name}<br><span class='small'>{escape(' '.join(found.lines()))}</span></li>")
    files = "<a href='ledger.json'>JSON</a>, <a href='ledger.md'>Markdown</a>, <a href='ledger.bib'>BibTeX</a>"
    return "".join(
        [
            _head(title, "", "default-src 'none'; style-src 'unsafe-inline'"),
            f"<h1>{title}</h1>{_finding_list(findings, set(), pages=True)}<h2>The papers</h2>{_counts(statements)}",
            f"<ul>{''.join(lines)}</ul><p>All of it as {files}.</p></body></html>\n",
        ]
    )


def _head(title: str, style: str, policy: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style></head><body>"
    )


def _chapter(paper: str, chapter: str, rows: Sequence[Statement]) -> str:
    name = _anchor(paper, chapter)
    head = "<th>Statement</th><th>Verdict</th><th>Bound and value</th><th>Evidence</th>"
    return (
        f"<section data-chapter='{name}'><h3 id='{name}'>{escape(chapter)}</h3>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>'
        f"{''.join(_row(row) for row in rows)}</tbody></table></div></section>"
    )


def _titled(paper: str, chapter: str, count: int) -> str:
    return chapter if count == 1 else f"{papers()[paper].cited}: {chapter}"


def by_chapter(rows: Iterable[Statement]) -> dict[str, dict[str, list[Statement]]]:
    """Rows by number of the paper and title of the chapter, chapters in the order of the paper.

    Example:
        >>> by_chapter([])
        {}
    """
    found: dict[str, dict[str, list[Statement]]] = {}
    for row in rows:
        found.setdefault(row.paper, {}).setdefault(row.chapter, []).append(row)
    return {
        paper: dict(sorted(chapters.items(), key=lambda one: _place(paper, one[0])))
        for paper, chapters in found.items()
    }


def heading(paper: str) -> str:
    """Citation, number and title of a paper.

    Example:
        >>> heading("003")[:28]
        'Daneshmand et al. 2021 (003)'
    """
    return f"{papers()[paper].label}: {papers()[paper].title}"


def counterexample_text(found: Mapping[str, Any]) -> str:
    """A counterexample in one line.

    Example:
        >>> counterexample_text({"instance": {"n": 3}, "value": 2.0, "bound": 1.0})
        'n = 3: value 2, bound 1'
    """
    names = ", ".join(f"{key} = {_short(value)}" for key, value in found["instance"].items())
    return f"{names}: value {found['value']:.6g}, bound {found['bound']:.6g}"


def margin_text(row: Statement) -> str:
    """How near the bound was.

    Example:
        >>> from isometer_papers.claims import ledger
        >>> margin_text(ledger("000")[0])
        'equal'
    """
    if not isinstance(row.margin, int | float):
        return "–"
    if abs(row.margin) < 1e-9:
        return "equal" if row.relation == "==" else "attained"
    return f"{row.margin:.3g}"


def _place(paper: str, chapter: str) -> int:
    titles = list(dict.fromkeys(text.chapter for text in texts_of(paper).values()))
    return titles.index(chapter) if chapter in titles else len(titles)


def _anchor(paper: str, chapter: str) -> str:
    return f"{paper}-{_place(paper, chapter)}"


def _counts(rows: Sequence[Statement]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in counted(rows).lines())


def _finding_list(findings: Sequence[LedgerFinding], here: Set[str], *, pages: bool) -> str:
    if not findings:
        return ""
    items = []
    for one in findings:
        links = ", ".join(_link(name, here, pages) for name in one.claims)
        told = " ".join(f"<b>{escape(name.capitalize())}:</b> {escape(text)}" for name, text in one.parts().items())
        items.append(f"<li id='finding-{escape(one.id, quote=True)}'><b>{escape(one.title)}.</b> {told} {links}</li>")
    return f"<h2>The findings that matter</h2><ol>{''.join(items)}</ol>"


def _link(identifier: str, here: Set[str], pages: bool) -> str:
    """To the statement's row in this document, or in that of its paper; no link where there is neither."""
    if not pages and identifier not in here:
        return f"<code>{escape(identifier)}</code>"
    file = f"{papers()[identifier.partition('/')[0]].key}.html" if pages else ""
    return f"<a href='{file}#{escape(identifier, quote=True)}'><code>{escape(identifier)}</code></a>"


def _contents(rows: Sequence[Statement]) -> str:
    found = []
    for paper, chapters in by_chapter(rows).items():
        links = ", ".join(f"<a href='#{_anchor(paper, name)}'>{escape(name)}</a>" for name in chapters)
        found.append(f"<li>{escape(papers()[paper].label)}: {links}</li>")
    return f"<ul class='small'>{''.join(found)}</ul>"


def _row(row: Statement) -> str:
    name = escape(row.id, quote=True)
    marks = {"class": row.failure or "", "printed": row.as_printed or "", "intended": row.as_intended or ""}
    data = " ".join(f"data-{key}='{value}'" for key, value in marks.items())
    cells = [
        _said(row),
        _verdicts(row),
        _plot(row.points) + f"<span class='small'>{escape(margin_text(row))}</span>",
        _evidence(row),
    ]
    return f"<tr id='{name}' {data}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _said(row: Statement) -> str:
    name = escape(row.id, quote=True)
    found = f"<a href='#{name}'><code>{name}</code></a> <span class='small'>{escape(f'{row.place}, {row.kind}')}</span>"
    if row.quotation and row.origin == "paper":
        found += f"<blockquote>“{escape(row.quotation)}”</blockquote>"
    found += f"<br>{escape(row.reading)}"
    for text in (row.hypotheses, row.source_note):
        found += f"<br><span class='small'>{escape(text)}</span>" if text else ""
    return found


def _verdicts(row: Statement) -> str:
    tried = ", ".join(f"{number} {family}" for family, number in row.instances.items())
    if row.as_printed is None:
        found = f"{_badge(row.verdict)} <span class='small'>{row.origin}</span>"
    else:
        found = f"{_badge(row.as_printed)} <span class='small'>as printed</span>"
        if row.as_intended != row.as_printed:
            found += f"<br>{_badge(str(row.as_intended))} <span class='small'>as intended ({row.charity})</span>"
    if row.failure:
        found += f"<br>{row.failure}"
    return f"{found}<br><span class='small'>{escape(tried)}</span>"


def _badge(verdict: str) -> str:
    return f"<span class='verdict {verdict}'>{verdict}</span>"


def _evidence(row: Statement) -> str:
    texts = []
    if row.counterexample is not None:
        texts.append(f"{counterexample_text(row.counterexample)}; certified by {row.certified_by}")
    if row.note:
        texts.append(row.note)
    if row.cause:
        texts.append(f"cause: {causes()[row.cause].title} ({row.cause})")
    if row.twins:
        texts.append(f"the same statement: {', '.join(row.twins)}")
    if row.corrected:
        texts.append(f"corrected: {row.corrected}")
    if row.excludes:
        texts.append(f"the check excludes {row.excludes}")
    found = f"<span class='counterexample'>{escape('. '.join(texts))}</span>"
    if row.snippet:
        found += f"<details><summary>in plain Python</summary><pre>{escape(row.snippet)}</pre></details>"
    return found


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.17g}"
    text = json_text(value) if isinstance(value, list) else str(value)
    return text if len(text) <= 400 else f"{text[:400]}…"


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
