"""Pieces of the doctor's report in HTML, without scripts: verdict, findings, small curves; every text is escaped."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from isometer.doctor.conditions._conditions import CONDITIONS
from isometer.metrics._catalogue import describe
from isometer.report._advice import ranked_advice
from isometer.report._advice_page import addressed_by
from isometer.report._cause_page import marked, notebook_causes
from isometer.report._citations import citations_html
from isometer.report._doctor_metrics import (
    VITALS,
    checked,
    columns,
    concerns_tokens,
    elided,
    evidence_rows,
    layer_names,
    look_at,
    ordered,
    reading,
    shown,
    title_of,
    where,
)
from isometer.report._outlook_page import notebook_training
from isometer.report._outlook_words import because, headline, next_step

_COLOURS = {"healthy": "#00795c", "unhealthy": "#c0362c", "undecided": "#8a5a00", "untested": "#5b6573"}
_LINKS = 6  # layers of a finding that get a link of their own


def verdict(report: Mapping[str, Any]) -> str:
    """How many causes and findings, in words."""
    findings, causes = report["findings"], len(report.get("causes") or ())
    counts = [(word, sum(f["severity"] == word for f in findings)) for word in ("severe", "moderate")]
    parts = [f"{count} {word}" for word, count in counts if count]
    found = [_counted(causes, "cause")] if causes else []
    if parts:
        found.append(f"{', '.join(parts)} finding{'s' if len(findings) != 1 else ''}")
    elif findings:
        found.append(_counted(len(findings), "finding"))
    elif not causes:
        notes = len(report.get("notes") or ())
        found.append(f"{_counted(notes, 'note')}, harmless here" if notes else "nothing found")
    return " · ".join(found)


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
    # A quarter of each value: sums and differences of the largest floats would overflow.
    levels = {i: math.log10(v) if log and math.isfinite(v) else v / 4 for i, v in usable}
    finite = [level for level in levels.values() if math.isfinite(level)]
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
    for i, _ in kept:
        share = min(max((levels[i] - middle) / room + 0.5, 0.0), 1.0)
        points.append(f"{3 + (width - 6) * i / last:.1f},{3 + (height - 6) * (1 - share):.1f}")
    return (
        f'<svg viewBox="0 0 {width} {height}" class="spark" aria-hidden="true" preserveAspectRatio="none">'
        f'<polyline points="{" ".join(points)}" fill="none" stroke="currentColor" stroke-width="1.8" '
        f'stroke-linejoin="round" vector-effect="non-scaling-stroke"/>'
        f'<path d="M{points[-1]}h0" stroke="currentColor" stroke-width="6" stroke-linecap="round" '
        f'vector-effect="non-scaling-stroke"/></svg>'
    )


@dataclass(frozen=True)
class Vital:
    """One vital sign, from the first layer to the last.

    Attributes:
        metric: its name.
        heading: what people call it.
        reading: first → last value.
        curve: a small picture, SVG.
        state: `severe`, `moderate`, `noted` or `good`: what the findings say about it.
        word: the same for reading.
    """

    metric: str
    heading: str
    reading: str
    curve: str
    state: str
    word: str


def vitals(report: Mapping[str, Any]) -> list[Vital]:
    """The vital signs that were measured."""
    table = columns(report)
    tokens = any(layer["kind"] == "attention" for layer in report["layers"])
    rows = []
    for name, heading in VITALS:
        if name not in table or (name.startswith("token_") and not tokens):  # positions of images are no tokens
            continue
        known = describe(name)
        values = _of_one_kind(report, table[name])
        defined = [v for v in values if not math.isnan(v)]
        # Close to 1 it is the distance to 1 that matters.
        first, last = (reading(v, known.unit, 6 if 0.999 < v < 1 else 3) for v in (defined[0], defined[-1]))
        curve = sparkline(values, log=known.axis == "log")
        rows.append(Vital(name, heading, f"{first} → {last}", curve, *_state(name, report)))
    return rows


def _of_one_kind(report: Mapping[str, Any], values: Sequence[float]) -> list[float]:
    """The input and the most common kind of hidden site, activations if in doubt: several kinds on one line zigzag."""
    kinds = [str(layer["kind"]) for layer in report["layers"]]
    tally = Counter(kind for kind, v in zip(kinds, values, strict=True) if kind != "input" and not math.isnan(v))
    if not tally:
        return list(values)
    usual = "activation" if 2 * tally["activation"] >= max(tally.values()) else tally.most_common(1)[0][0]
    return [v for kind, v in zip(kinds, values, strict=True) if kind in ("input", usual)]


def _state(name: str, report: Mapping[str, Any]) -> tuple[str, str]:
    """What the worst finding that this quantity shows says about it."""
    for finding in ordered(report["findings"]):
        if _shows(name, finding):
            severity = "severe" if finding["severity"] == "severe" else "moderate"
            return severity, f"{severity}: {title_of(finding).lower()}"
    if any(_shows(name, note) for note in report.get("notes") or ()):
        return "noted", "notable, harmless here"
    return "good", "within its limits"


def _shows(name: str, finding: Mapping[str, Any]) -> bool:
    condition = CONDITIONS.get(finding["id"])
    lead = "token_" if concerns_tokens(finding) else ""
    return condition is not None and name in {f"{lead}{metric}" for metric in condition.metrics}


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
    available, names = list(columns(report)), layer_names(report)
    advice = [] if report.get("treatment") else ranked_advice(report)
    cards = [
        _card(i, f, names, look_at(f, available) or "", addressed_by(f, advice))
        for i, f in enumerate(ordered(report["findings"]))
    ]
    return "\n".join(cards)


def _card(index: int, finding: Mapping[str, Any], names: Sequence[str], metric: str, addressed: str) -> str:
    severity = "severe" if finding["severity"] == "severe" else "moderate"
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
        f'<p class="where">{escape(where(finding["layers"]))}</p></header><div class="columns">'
        f'<div><p class="explanation">{escape(str(finding["explanation"]))}</p>{addressed}</div>{table}</div>'
        f'<footer><p class="links">{_links(index, finding["layers"], names)}</p><p class="actions">'
        f'<button type="button" data-finding="{index}" data-metric="{escape(metric)}">Show on the curves</button>'
        f"{to_table if count else ''}</p>{references(finding['references'])}</footer></article>"
    )


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
    """The papers behind a finding as small print."""
    return f'<p class="references">Theory: {citations_html(ids)}</p>' if ids else ""


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
    items = [
        f"<li><b>{escape(title_of(finding))}</b> ({escape(str(finding['severity']))}, "
        f"{escape(where(finding['layers']))}). {escape(str(finding['explanation']))}</li>"
        for finding in ordered(report["findings"])
    ]
    tiles = [
        f'<div style="flex:1 1 150px;max-width:240px"><div style="font-size:85%;opacity:.8">{escape(one.heading)} '
        f'<b>{escape(one.reading)}</b></div><div style="color:#3987c9;max-width:220px">{one.curve}</div></div>'
        for one in vitals(report)
        if one.metric != "effective_rank"
    ]
    listed = f'<ul style="margin:.4em 0;padding-left:1.3em">{"".join(items)}</ul>' if items else ""
    return (
        f'<div style="border-left:4px solid {colour};padding:.4em .9em;margin:.4em 0;max-width:860px">'
        f'<div><b style="color:{colour}">{escape(f"{told.mark} {told.word}".strip())}</b> · '
        f"{escape(str(report['model']))} · {verdict(report)}</div>"
        f"<div>{marked(because(report) or str(report['summary']))}</div>"
        f'<div style="font-size:85%;opacity:.8">{escape(setting(report))}'
        f"</div>{f'<div>→ {marked(advice)}</div>' if advice else ''}{notebook_causes(report)}"
        f"{notebook_training(report)}"
        f'{listed}<div style="display:flex;flex-wrap:wrap;gap:1em">{"".join(tiles)}</div></div>'
    )
