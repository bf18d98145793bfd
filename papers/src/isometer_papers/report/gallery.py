"""The gallery of figures: an overview, one page per study, and the same table in Markdown."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from isometer.errors import IsometerError
from isometer.files import write_whole
from isometer_papers._papers import studied_papers
from isometer_papers._study_record import RECORD, read_record

__all__ = ["damaged_records", "gallery_html", "gallery_markdown", "read_records", "study_html", "write_gallery"]

Record = Mapping[str, Any]
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'"
_STYLE = """
:root { --page: #fff; --text: #171b22; --soft: #535c6b; --line: #d8dce4; --card: #fff; --agree: #00705a;
  --disagree: #b3261e; --partly: #8a5a00; --unclear: #535c6b; --link: #00539c; }
@media (prefers-color-scheme: dark) { :root { --page: #101318; --text: #e8ebf0; --soft: #a4adbb; --line: #323947;
  --card: #f7f8fa; --agree: #5fd3b3; --disagree: #ff8a80; --partly: #f2c063; --unclear: #a4adbb; --link: #8cc2ff; } }
body { margin: 0 auto; max-width: 1180px; padding: 1rem 1.25rem 3rem; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin-bottom: .3rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } a { color: var(--link); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-top: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; font-size: .85rem; } td.number { white-space: nowrap; }
.soft { color: var(--soft); font-size: .9rem; } .verdict { font-weight: 650; }
.agree { color: var(--agree); } .disagree { color: var(--disagree); } .partly { color: var(--partly); }
.unclear, .not.run { color: var(--unclear); }
img { max-width: 100%; height: auto; background: var(--card); border-radius: 4px; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(250px, 1fr)); gap: 1rem; }
.cards figure { margin: 0; border: 1px solid var(--line); border-radius: 6px; padding: .6rem; }
.cards figcaption { font-size: .85rem; margin-top: .4rem; }
"""
_MARKS: dict[Any, str] = {True: "seen", False: "not seen", None: "undecided here"}


def number(value: Any, uncertainty: float | None = None) -> str:
    """A number with its interval, to the digits that mean something.

    Example:
        >>> number(0.50812, 0.0123), number(12.0), number("falls")
        ('0.508 ± 0.012', '12', 'falls')
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    if not isinstance(uncertainty, int | float) or not uncertainty or not math.isfinite(uncertainty):
        return f"{value:.4g}"
    digits = max(0, 1 - math.floor(math.log10(abs(uncertainty))))
    if digits > 8 or abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.3g} ± {uncertainty:.1g}"
    return f"{value:.{digits}f} ± {uncertainty:.{digits}f}"


def read_records(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """The studies of a gallery: name of the folder and record, by ID; `damaged_records` names what is left out.

    Example:
        >>> read_records(Path("/no/such/folder"))
        []
    """
    return _read(folder)[0]


def damaged_records(folder: Path) -> dict[str, str]:
    """The folders of a gallery whose records cannot be read, each with a line that says why.

    Example:
        >>> damaged_records(Path("/no/such/folder"))
        {}
    """
    return _read(folder)[1]


def _read(folder: Path) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, str]]:
    found, damaged = [], {}
    for path in sorted(folder.glob(f"*/{RECORD}")):
        try:
            found.append((path.parent.name, read_record(path.parent)))
        except IsometerError as problem:
            damaged[path.parent.name] = str(problem)
    return sorted(found, key=lambda item: order(item[1]["id"])), damaged


def order(identifier: str) -> tuple[Any, ...]:
    """Sorts fig-2 before fig-10.

    Example:
        >>> order("001/fig-2.2a") < order("001/fig-10")
        True
    """
    digits, parts = "", list[Any]()
    for character in identifier + " ":
        if character.isdecimal() and len(digits) < 18:
            digits += character
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, character))
    return tuple(parts)


def write_gallery(folder: Path) -> Path:
    """Write `index.html`, `summary.md` and a page per study from the records in a folder.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     write_gallery(Path(name)).name
        'index.html'
    """
    records, damaged = _read(folder)
    for name, record in records:
        write_whole(folder / name / "index.html", study_html(record, (folder / name / "figure.png").is_file()))
    write_whole(folder / "summary.md", gallery_markdown([record for _, record in records], damaged))
    index = folder / "index.html"
    write_whole(index, gallery_html(records, damaged))
    return index


def gallery_html(records: Sequence[tuple[str, Record]], damaged: Collection[str] = ()) -> str:
    """The overview: counts, the summary table, and the figures.

    Example:
        >>> "Figures" in gallery_html([])
        True
    """
    rows = "".join(
        f'<tr><td><a href="{escape(name)}/index.html">{escape(r["id"])}</a></td><td>{escape(r["title"])}</td>'
        f"<td>{escape(r['scale'])}</td><td class=number>{_lines(_numbers(r))}</td>"
        f'<td class="verdict {escape(r["verdict"])}">{escape(_verdict(r))}</td>'
        f"<td class=number>{r['seconds']:.0f} s</td></tr>"
        for name, r in records
    )
    cards = "".join(
        f'<figure><a href="{escape(name)}/index.html"><img src="{escape(name)}/figure.png" loading="lazy" '
        f'alt="{escape(r["id"])}: {escape(r["title"])}"></a><figcaption><b>{escape(r["id"])}</b> {escape(r["title"])} '
        f'<span class="verdict {escape(r["verdict"])}">{escape(r["verdict"])}</span></figcaption></figure>'
        for name, r in records
        if r["measured"] or r["statements"]
    )
    return _page(
        "Figures and tables",
        f"<h1>Figures and tables, reproduced</h1><p>{escape(tally_text([r for _, r in records], damaged))}</p>"
        "<div class=scroll><table><tr><th>study</th><th>what</th><th>scale</th><th>measured (published)</th>"
        f"<th>verdict</th><th>time</th></tr>{rows}</table></div><h2>Pictures</h2><div class=cards>{cards}</div>",
    )


def study_html(record: Record, pictured: bool) -> str:
    """The page of one study.

    Example:
        >>> record = {"id": "003/x", "title": "t", "shows": "s", "scale": "quick", "verdict": "agree", "why": "",
        ...     "published": {"slope": -0.46}, "measured": {"slope": -0.5}, "uncertainty": {"slope": 0.01},
        ...     "statements": {"a line": True}, "reduced": "", "settings": {"runs": 3}, "choices": {}, "variants": [],
        ...     "seconds": 2.0, "cells": 1, "versions": {}}
        >>> "−0.500 ± 0.010" in study_html(record, False).replace("-0", "−0")
        True
    """
    r = record
    names = list(dict.fromkeys([*r["published"], *r["measured"]]))
    numbers = "".join(
        f"<tr><td>{escape(name)}</td><td class=number>{escape(number(r['published'].get(name, '')))}</td>"
        f"<td class=number>{escape(_measured(r, name))}</td></tr>"
        for name in names
    )
    statements = "".join(
        f"<tr><td>{escape(name)}</td><td class=verdict>{_MARKS[seen]}</td>{_power(r, name)}</tr>"
        for name, seen in r["statements"].items()
    )
    parts = [
        '<p><a href="../index.html">all figures</a></p>',
        f"<h1>{escape(r['id'])}: {escape(r['title'])}</h1>",
        _cited(r["id"]),
        f'<p>Verdict at scale {escape(r["scale"])}: <span class="verdict {escape(r["verdict"])}">'
        f"{escape(_verdict(r))}</span>. {escape(_why(r))}</p>",
        f"<h2>What the paper shows</h2><p>{escape(r['shows'])}</p>",
    ]
    if pictured:
        parts.append(
            f'<h2>Our figure</h2><p><img src="figure.png" alt="{escape(r["title"])}"></p>'
            '<p class=soft><a href="figure.pdf">PDF</a> · <a href="result.nc">numbers (netCDF)</a> · '
            '<a href="study.json">record (JSON)</a></p>'
        )
    if statements:
        parts.append(f"<h2>Statement by statement</h2>{_decisive(r)}<table>{_power_head(r)}{statements}</table>")
    if numbers:
        head = "<tr><th>quantity</th><th>published</th><th>measured, 95 % interval</th></tr>"
        parts.append(f"<h2>Numbers</h2><table>{head}{numbers}</table>")
    parts.append(f"<h2>Parameters</h2><p>{escape(_settings(r['settings']))}</p>")
    if r["reduced"]:
        parts.append(f"<p>Reduced: {escape(r['reduced'])}.</p>")
    if r["choices"]:
        chosen = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(one['value'])}</td><td>{escape(one['why'])}</td></tr>"
            for name, one in r["choices"].items()
        )
        head = "<tr><th>not stated in the paper</th><th>taken</th><th>why</th></tr>"
        parts.append(f"<table>{head}{chosen}</table>")
    if r["variants"]:
        parts.append(_variants(r))
    parts += [_diverged(r["diverged"])] if r.get("diverged") else []
    parts += [_monitor(r["monitor"])] if r.get("monitor") else []
    versions = ", ".join(f"{name} {version}" for name, version in r["versions"].items())
    made = f" Made {r['date']}, code {r['code']}, cells {r['key']}." if "key" in r else ""
    parts.append(
        f"<p class=soft>{r['cells']} cells, {r['seconds']:.0f} s of work.{escape(made)} {escape(versions)}</p>"
    )
    return _page(r["id"], "".join(parts))


def gallery_markdown(records: Sequence[Record], damaged: Collection[str] = ()) -> str:
    """The summary table in Markdown.

    Example:
        >>> gallery_markdown([]).splitlines()[0]
        '# Figures and tables'
    """
    scales = {r["scale"] for r in records}
    title = f"# Figures and tables, scale {scales.pop()}" if len(scales) == 1 else "# Figures and tables"
    lines = [title, "", tally_text(records, damaged), ""]
    lines += ["| study | what | measured (published) | verdict | halves | seconds | made |", "|---" * 7 + "|"]
    for r in records:
        halves = " / ".join((r.get("halves") or {}).get("verdicts", []))
        made = r["made"] if "made" in r else f"{r['date']}, cells {r['key'][:8]}" if "key" in r else ""
        made += ", earlier rules" if r.get("earlier_rules") else ""
        cells = (r["id"], r["title"], "; ".join(_numbers(r)), _verdict(r), halves, f"{r['seconds']:.0f}", made)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    notes = [f"- {r['id']}: {_why(r)}" for r in records if _why(r) and r["verdict"] != "agree"]
    powers = [line for r in records for line in _power_lines(r)]
    reduced = [f"- {r['id']}: {r['reduced']}." for r in records if r["reduced"]]
    lines += ["", "## Where they do not agree", "", *notes] if notes else []
    if powers:
        head = [
            "| study | statement | | gap | deviation of a run | gap in these | runs | power | runs for power 0.9 |",
            "|---" * 9 + "|",
        ]
        lines += ["", "## What the comparisons of runs could have seen", "", *head, *powers]
    lines += ["", "## What was reduced", "", *reduced] if reduced else []
    return "\n".join(lines) + "\n"


def _power_lines(r: Record) -> list[str]:
    rows = []
    for name, one in r.get("power", {}).items():
        rows.append("| " + " | ".join([r["id"], name.replace("|", "\\|"), _MARKS[one["seen"]], *_strength(one)]) + " |")
    return rows


def _strength(one: Record) -> list[str]:
    """The numbers of a comparison, in the order of the columns."""
    apart = f"{one['gap'] / one['deviation']:.2g}" if one["deviation"] else "∞"
    needed = "over 10,000" if one["needed"] is None else str(one["needed"])
    return [f"{one['gap']:.2g}", f"{one['deviation']:.2g}", apart, str(one["runs"]), f"{one['power']:.2f}", needed]


def _verdict(r: Record) -> str:
    """With what would decide it, where it is unclear for want of runs."""
    return f"{r['verdict']}: {r['undecided']}" if r.get("undecided") else str(r["verdict"])


def _why(r: Record) -> str:
    return " ".join(part for part in (r["why"], r.get("undecidable", "")) if part)


def tally_text(records: Sequence[Record], damaged: Collection[str] = ()) -> str:
    """How many agree, in a line, and the folders whose records are damaged.

    Example:
        >>> tally_text([{"verdict": "agree"}, {"verdict": "partly"}])
        '2 studies: 1 agree, 1 partly, 0 disagree, 0 unclear, 0 not run.'
        >>> tally_text([], ["003_fig-1"])
        '0 studies: 0 agree, 0 partly, 0 disagree, 0 unclear, 0 not run. Left out, since the record is damaged: ...'
    """
    counts = {verdict: sum(r["verdict"] == verdict for r in records) for verdict in _VERDICTS}
    noun = "study" if len(records) == 1 else "studies"
    left_out = f" Left out, since the record is damaged: {', '.join(damaged)}." if damaged else ""
    return f"{len(records)} {noun}: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}.{left_out}"


_VERDICTS = ("agree", "partly", "disagree", "unclear", "not run")


def _measured(r: Record, name: str) -> str:
    return number(r["measured"][name], r["uncertainty"].get(name)) if name in r["measured"] else ""


def _numbers(r: Record) -> list[str]:
    """Measured numbers with the published ones, a line each; those with a published value first, at most four."""
    if "summary" in r:  # a row of a table whose record is gone
        return [r["summary"]]
    names = sorted(r["measured"], key=lambda name: name not in r["published"])[:4]
    return [
        f"{name}: {_measured(r, name)}" + (f" ({number(r['published'][name])})" if name in r["published"] else "")
        for name in names
    ]


def _lines(texts: Sequence[str]) -> str:
    return "<br>".join(escape(text) for text in texts)


def _cited(identifier: str) -> str:
    """The paper of an ID, linked; nothing for studies of other sources."""
    known = studied_papers().get(identifier.partition("/")[0])
    if known is None:
        return ""
    return f'<p class=soft>{escape(known.cited)}: <a href="{escape(known.link)}">{escape(known.title)}</a></p>'


def _settings(settings: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{name} = {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in settings.items()
    )


def _variants(r: Record) -> str:
    names = list(dict.fromkeys(name for row in r["variants"] for name in row["measured"]))[:4]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(
        f"<tr><td>{escape(row['label'])}</td>"
        + "".join(f"<td class=number>{escape(_measured(row, name))}</td>" for name in names)
        + f'<td class="verdict {escape(row["verdict"])}">{escape(row["verdict"])}</td></tr>'
        for row in r["variants"]
    )
    same = len({row["verdict"] for row in r["variants"]}) == 1
    words = "The verdict does not depend on it." if same else "The verdict depends on it."
    return (
        f"<h2>With other choices, at the quick scale</h2><p>{words}</p><div class=scroll><table>"
        f"<tr><th></th>{head}<th>verdict</th></tr>{rows}</table></div>"
    )


def _decisive(r: Record) -> str:
    """The difference that had to be seen, and what each half of the runs says alone."""
    one, halves = r.get("decisive"), r.get("halves")
    told = f"To be seen: a difference of {one['gap']:.2g} in {one['of']} ({one['source']})." if one else ""
    if halves:
        told += f" Runs of even and of odd number alone: {', '.join(halves['verdicts'])}."
    return f"<p>{escape(told)}</p>" if told else ""


def _power_head(r: Record) -> str:
    if not r.get("power") and not r.get("halves"):
        return ""
    names = ["statement", "", "gap", "deviation of a run", "gap in these", "runs", "power", "runs for power 0.9"]
    names.append("each half alone")
    return "<tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"


def _power(r: Record, name: str) -> str:
    """Columns for what a comparison could have seen; none in records without."""
    if not r.get("power") and not r.get("halves"):
        return ""
    one = r.get("power", {}).get(name)
    cells = [""] * 6 if one is None else _strength(one)
    halves = (r.get("halves") or {}).get("statements", {}).get(name, [])
    cells.append(", ".join(_MARKS[seen] for seen in halves))
    return "".join(f"<td class=number>{cell}</td>" for cell in cells)


def _diverged(rows: Sequence[Record]) -> str:
    lines = "".join(
        f"<tr><td>{escape(row['network'])}</td><td class=number>{row['diverged']} of {row['runs']}</td>"
        f"<td class=number>{'–'.join(str(step) for step in dict.fromkeys(row['steps']))}</td>"
        f"<td>{escape(row['because'])}</td></tr>"
        for row in rows
    )
    return (
        "<h2>Runs that diverged</h2><p>Their loss was not finite, and they were ended there.</p><div class=scroll>"
        f"<table><tr><th>network</th><th>runs</th><th>after steps</th><th>why, in the first of them</th></tr>{lines}"
        "</table></div>"
    )


def _monitor(rows: Sequence[Record]) -> str:
    names = list(rows[0]["seen"])
    head = "".join(f"<th>{escape(name.replace('/', ', ').replace('_', ' '))}</th>" for name in names)
    lines = "".join(
        f"<tr><td>{escape(row['network'])}</td>"
        + "".join(
            f"<td class=number>{' → '.join('–' if one is None else f'{one:.3g}' for one in seen)}</td>"
            for seen in (row["seen"].get(name, ()) for name in names)
        )
        + "</tr>"
        for row in rows
    )
    return (
        "<h2>What the monitor saw</h2><p>Of 32 training images, before training → at the end, means over runs.</p>"
        f"<div class=scroll><table><tr><th>network</th>{head}</tr>{lines}</table></div>"
    )


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )
