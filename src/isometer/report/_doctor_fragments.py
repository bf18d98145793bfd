"""Pieces of the doctor's report in HTML, without scripts: verdict, findings, small curves; every text is escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from isometer.doctor.conditions._conditions import CONDITIONS
from isometer.metrics._catalogue import describe
from isometer.report._cause_page import marked, notebook_causes
from isometer.report._doctor_metrics import (
    VITALS,
    checked,
    columns,
    elided,
    evidence_rows,
    layer_names,
    look_at,
    ordered,
    reading,
    shown,
    where,
)
from isometer.report._outlook_page import notebook_training
from isometer.report._outlook_words import headline, next_step

_COLOURS = {"healthy": "#00795c", "unhealthy": "#c0362c", "undecided": "#8a5a00", "untested": "#5b6573"}
_KINDS = {"weights": "Weights", "architecture": "Architecture", "batch": "Batch", "training": "Training"}
_LINKS = 6  # layers of a finding that get a link of their own


def verdict(report: Mapping[str, Any]) -> str:
    """How many findings, in words."""
    findings = report["findings"]
    counts = [(word, sum(f["severity"] == word for f in findings)) for word in ("severe", "moderate")]
    parts = [f"{count} {word}" for word, count in counts if count]
    if not parts:
        return "nothing found" if not findings else _counted(len(findings), "finding")
    return f"{', '.join(parts)} finding{'s' if len(findings) != 1 else ''}"


def setting(report: Mapping[str, Any]) -> str:
    """What was examined, on what, in one line."""
    batch = report["batch"]
    depth = max((int(layer["depth"]) for layer in report["layers"]), default=0)
    parts = [
        f"{report['mode']} mode",
        _counted(batch["samples"], "sample"),
        batch.get("description") or "",
        _counted(len(report["layers"]), "layer"),
        f"depth {depth}",
    ]
    return " · ".join(part for part in parts if part)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def sparkline(values: Sequence[float], *, log: bool, width: int = 200, height: int = 44) -> str:
    """A small curve as SVG, at most 200 points; what cannot be drawn is left out, infinities sit at the edge.

    Example:
        >>> sparkline([1.0, 2.0], log=False).startswith("<svg")
        True
        >>> "nan" in sparkline([float("nan")], log=True)
        False
    """
    usable = [(i, v) for i, v in enumerate(values) if not math.isnan(v) and not (log and v <= 0)]
    finite = [math.log10(v) if log else v for _, v in usable if math.isfinite(v)]
    if not finite:
        return f'<svg viewBox="0 0 {width} {height}" class="spark" aria-hidden="true"></svg>'
    low, high = min(finite), max(finite)
    # A constant curve is drawn flat, not as its rounding errors.
    room = max(high - low, 1e-3 * max(abs(high), abs(low)), 1e-12)
    middle = (low + high) / 2
    last = max(len(values) - 1, 1)
    step = max(1, math.ceil(len(usable) / 200))
    kept = usable[::step] if usable[-1] in usable[::step] else [*usable[::step], usable[-1]]
    points = []
    for i, value in kept:
        level = (math.log10(value) if log else value) if math.isfinite(value) else math.copysign(math.inf, value)
        share = min(max((level - middle) / room + 0.5, 0.0), 1.0)
        points.append(f"{3 + (width - 6) * i / last:.1f},{3 + (height - 6) * (1 - share):.1f}")
    return (
        f'<svg viewBox="0 0 {width} {height}" class="spark" aria-hidden="true" preserveAspectRatio="none">'
        f'<polyline points="{" ".join(points)}" fill="none" stroke="currentColor" stroke-width="1.8" '
        f'stroke-linejoin="round" vector-effect="non-scaling-stroke"/>'
        f'<path d="M{points[-1]}h0" stroke="currentColor" stroke-width="6" stroke-linecap="round" '
        f'vector-effect="non-scaling-stroke"/></svg>'
    )


def vitals(report: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Metric, heading, first → last value, and small curve of each vital sign that was measured."""
    table = columns(report)
    rows = []
    for name, heading in VITALS:
        if name not in table:
            continue
        known = describe(name)
        defined = [v for v in table[name] if not math.isnan(v)]
        first, last = (reading(v, known.unit, 3) for v in (defined[0], defined[-1]))
        rows.append((name, heading, f"{first} → {last}", sparkline(table[name], log=known.axis == "log")))
    return rows


def compared(comparison: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Quantity, reading before and reading now, of the numbers of a comparison if it has any."""
    rows = []
    for row in comparison.get("numbers", ()):
        unit = describe(row["metric"]).unit
        before, after = (reading(value, unit) for value in shown(row["metric"], [row["before"], row["after"]]))
        rows.append((str(row["quantity"]), before, after))
    return rows


def finding_cards(report: Mapping[str, Any]) -> str:
    """One card per finding, severe ones first, in the page's own markup."""
    available = list(columns(report))
    names = layer_names(report)
    cards = [_card(i, f, names, available) for i, f in enumerate(ordered(report["findings"]))]
    return "\n".join(cards)


def _card(index: int, finding: Mapping[str, Any], names: Sequence[str], available: Sequence[str]) -> str:
    severity = "severe" if finding["severity"] == "severe" else "moderate"
    metric = look_at(finding, available) or ""
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th><td>{escape(text)}</td></tr>'
        for label, text in evidence_rows(finding["evidence"])
    )
    table = f'<table class="evidence"><caption>Evidence</caption><tbody>{rows}</tbody></table>' if rows else ""
    count = len(set(finding["layers"]))
    to_table = f'<button type="button" class="quiet" data-finding-table="{index}">List {count} in the table</button>'
    return (
        f'<article class="card {severity}" id="finding-{index}" aria-labelledby="finding-{index}-title">'
        f'<header><span class="badge {severity}">{escape(str(finding["severity"]))}</span>'
        f'<h3 id="finding-{index}-title">{escape(title_of(finding))}</h3>'
        f'<p class="where">{escape(where(finding["layers"]))}</p></header>'
        f'<p class="explanation">{escape(str(finding["explanation"]))}</p>'
        f'<div class="columns">{prescriptions(finding)}{table}</div>'
        f'<footer><p class="links">{_links(index, finding["layers"], names)}</p><p class="actions">'
        f'<button type="button" data-finding="{index}" data-metric="{escape(metric)}">Show on the curves</button>'
        f"{to_table if count else ''}</p>{references(finding['references'])}</footer></article>"
    )


def title_of(finding: Mapping[str, Any]) -> str:
    """What a finding is called; one of a condition that is not known here is called by its id."""
    text = str(finding["id"])
    return CONDITIONS[text].title if text in CONDITIONS else (text[:1].upper() + text[1:]).replace("-", " ")


def _links(index: int, layers: Sequence[int], names: Sequence[str]) -> str:
    every = sorted({layer for layer in layers if 0 <= layer < len(names)})
    kept = every if len(every) <= _LINKS else [*every[: _LINKS - 2], *every[-2:]]
    parts = []
    for previous, layer in zip([None, *kept], kept, strict=False):
        if len(kept) < len(every) and layer == kept[-2] and previous is not None:
            parts.append('<span aria-hidden="true">…</span>')
        name = escape(elided(names[layer], 32))
        parts.append(
            f'<a href="#curves" data-layer="{layer}" data-of="{index}" title="{escape(elided(names[layer], 400))}">'
            f'<span class="index">{layer}</span> <span class="name">{name}</span></a>'
        )
    return " ".join(parts)


def references(ids: Sequence[str]) -> str:
    """Inventory IDs as small print."""
    if not ids:
        return ""
    return f'<p class="references">Behind it: {", ".join(f"<cite>{escape(str(i))}</cite>" for i in ids)}</p>'


def prescriptions(finding: Mapping[str, Any]) -> str:
    """What to change, grouped by what it touches; the groups come in the order of their best prescription."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for item in finding["prescriptions"]:
        groups.setdefault(str(item["kind"]), []).append(item)
    if not groups:
        return ""
    parts = []
    for kind, items in groups.items():
        lines = "".join(f"<li>{escape(str(item['text']))}{_sources(item['references'])}</li>" for item in items)
        parts.append(f"<dt>{escape(_KINDS.get(kind, kind))}</dt><dd><ul>{lines}</ul></dd>")
    return f'<section class="prescriptions"><h4>What to change</h4><dl>{"".join(parts)}</dl></section>'


def _sources(ids: Sequence[str]) -> str:
    return f" <small>[{', '.join(f'<cite>{escape(str(i))}</cite>' for i in ids)}]</small>" if ids else ""


def notebook_html(report: Mapping[str, Any]) -> str:
    """A small fragment for notebooks: verdict, short trainings, findings, three curves; no scripts, no outside styles.

    Args:
        report: the dictionary of a doctor's report.

    Returns:
        HTML of one `div`.

    Example:
        >>> page = notebook_html({"schema": 1, "model": "<b>", "mode": "train", "healthy": True, "summary": "Fine.",
        ...     "batch": {"samples": 2, "description": ""}, "findings": [], "layers": [], "metrics": {}})
        >>> "&lt;b&gt;" in page, "<script" in page
        (True, False)
    """
    checked(report)
    told = headline(report)
    colour = _COLOURS[told.state]
    advice = next_step(report)
    items = []
    for finding in ordered(report["findings"]):
        first = next((f"<br>→ {escape(str(p['text']))}" for p in finding["prescriptions"]), "")
        items.append(
            f"<li><b>{escape(title_of(finding))}</b> ({escape(str(finding['severity']))}, "
            f"{escape(where(finding['layers']))}). {escape(str(finding['explanation']))}{first}</li>"
        )
    tiles = [
        f'<div style="flex:1 1 150px;max-width:240px"><div style="font-size:85%;opacity:.8">{escape(heading)} '
        f'<b>{escape(text)}</b></div><div style="color:#3987c9;max-width:220px">{curve}</div></div>'
        for name, heading, text, curve in vitals(report)
        if name != "effective_rank"
    ]
    listed = f'<ul style="margin:.4em 0;padding-left:1.3em">{"".join(items)}</ul>' if items else ""
    return (
        f'<div style="border-left:4px solid {colour};padding:.4em .9em;margin:.4em 0;max-width:860px">'
        f'<div><b style="color:{colour}">{escape(f"{told.mark} {told.word}".strip())}</b> · '
        f"{escape(str(report['model']))} · {verdict(report)}</div>"
        f'<div>{marked(str(report["summary"]))}</div><div style="font-size:85%;opacity:.8">{escape(setting(report))}'
        f"</div>{f'<div>→ {marked(advice)}</div>' if advice else ''}{notebook_causes(report)}"
        f"{notebook_training(report)}"
        f'{listed}<div style="display:flex;flex-wrap:wrap;gap:1em">{"".join(tiles)}</div></div>'
    )
