"""Pieces of the clinic's page: verdict, findings, a layer, the table of layers. Texts of reports are only ever text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dash import html

from isometer.explore._reports import Report, Shelf
from isometer.explore._state import ClinicState
from isometer.explore.jobs._clinic import EXAMPLES
from isometer.explore.labs import parts
from isometer.metrics._catalogue import describe
from isometer.metrics._metric import GROUPS
from isometer.report._doctor_fragments import setting, verdict
from isometer.report._doctor_metrics import columns, evidence_rows, look_at, overview, reading, title_of, where
from isometer.report._outlook_words import (
    after_words,
    headline,
    next_step,
    outlook_table,
    remarks,
    run_notes,
    step_words,
    trained,
)

PATIENT = "patient:"
_ROWS = 25


def report_choice(shelf: Shelf, state: ClinicState) -> list[Any]:
    """Which reports there are to choose from."""
    options = {"": "none", **shelf.titles(), **{f"{PATIENT}{name}": f"example: {name}" for name in EXAMPLES}}
    return [
        parts.select("report", "Report", state.report, options),
        parts.select("other", "Compare with", state.other, options),
    ]


def welcome() -> html.Section:
    """What to do without a report."""
    steps = [
        html.Li(["Examine a model: ", html.Code("isometer doctor mlp-relu-100 --json > report.json")]),
        html.Li("Load the file with the button in the controls; load two to compare them."),
        html.Li(["Or look at an example: ", *_examples()]),
    ]
    return html.Section([html.H3("No report yet"), html.Ol(steps)], className="card")


def _examples() -> list[Any]:
    return [parts.give(name, "report", f"{PATIENT}{name}", className="inline") for name in EXAMPLES[:3]]


def verdict_card(report: Report, label: str = "") -> html.Section:
    """Whether the model trains, in a card."""
    told, advice = headline(report), next_step(report)
    state: list[Any] = [html.Strong(f"{told.mark} {told.word}".strip()), f" · {verdict(report)}"]
    return html.Section(
        [
            html.P(label, className="about") if label else None,
            html.H3(report["model"]),
            html.P(state, className="state"),
            html.P(report["summary"]),
            html.P(f"→ {advice}") if advice else None,
            *_outlooks(report),
            html.P(setting(report), className="about"),
        ],
        className=f"card verdict-card {told.state}",
    )


def _outlooks(report: Report) -> list[Any]:
    """The stress test: a row per optimizer, what a step does, what was run."""
    pieces: list[Any] = []
    if trained(report):
        table = outlook_table(report)
        head = html.Thead(html.Tr([html.Th(title, scope="col") for title in table.headings]))
        rows = [html.Tr([html.Th(row[0], scope="row"), *map(html.Td, row[1:])]) for row in table.rows]
        pieces.append(html.Div(html.Table([head, html.Tbody(rows)]), className="scroll"))
        pieces.append(html.P(" ".join(table.legend), className="about"))
    lines = [*remarks(report), *(f"{title}: {' '.join(told)}" for title, told in step_words(report))]
    pieces += [html.P(line) for line in (*lines, after_words(report)) if line]
    notes = run_notes(report)
    if notes:
        pieces.append(html.Details([html.Summary("What was run"), html.Ul([html.Li(line) for line in notes])]))
    return pieces


def finding_card(one: Mapping[str, Any], report: Report) -> html.Article:
    """A finding with its evidence, advice and layers."""
    severity = "severe" if one["severity"] == "severe" else "moderate"
    metric = look_at(one, columns(report))
    evidence = [part for name, value in evidence_rows(one["evidence"]) for part in (html.Dt(name), html.Dd(value))]
    advice = [
        html.Li([p["text"], html.Small(f" [{', '.join(p['references'])}]" if p["references"] else "")])
        for p in one["prescriptions"]
    ]
    layers = one["layers"]
    picked = layers if len(layers) <= 6 else [*layers[:4], *layers[-2:]]
    links = [parts.give(f"layer {layer}", "layer", str(layer), className="inline") for layer in picked]
    if metric is not None:
        links.insert(0, parts.give(f"Show {describe(metric).title}", "metric", metric, className="inline"))
    return html.Article(
        [
            html.Header([html.Span(one["severity"], className=f"badge {severity}"), html.H3(title_of(one))]),
            html.P(where(layers), className="about"),
            html.P(one["explanation"]),
            html.Div(
                [
                    html.Div([html.H4("What to change"), html.Ul(advice)]) if advice else None,
                    html.Div([html.H4("Evidence"), html.Dl(evidence)]) if evidence else None,
                ],
                className="halves",
            ),
            html.P(links, className="links"),
            html.P(f"Behind it: {', '.join(one['references'])}", className="about") if one["references"] else None,
        ],
        className=f"card finding {severity}",
    )


def metric_choice(report: Report, chosen: str) -> Any:
    """The quantities that a report has, by group."""
    known = columns(report)
    groups = []
    for group in GROUPS:
        own = [name for name in known if describe(name).group == group]
        options = [html.Option(describe(name).title, value=name, selected=name == chosen) for name in own]
        groups += [html.Optgroup(options, label=group)] if options else []
    return parts.control("metric", "Quantity", html.Select(groups, id="control-metric"))


def layer_facts(report: Report, layer: int) -> list[Any]:
    """Everything known of one layer."""
    if not report["layers"]:
        return [html.P("The report has no layers.")]
    row = report["layers"][layer]
    last = len(report["layers"]) - 1
    facts: list[Any] = []
    for name, values in columns(report).items():
        if not math.isnan(values[layer]):
            facts += [html.Dt(describe(name).title), html.Dd(reading(values[layer], describe(name).unit))]
    stepper = html.Div(
        [
            parts.give("‹", "layer", str(layer - 1), disabled=layer <= 0, **parts.aria(label="Previous layer")),
            html.H3(f"Layer {layer}"),
            parts.give("›", "layer", str(layer + 1), disabled=layer >= last, **parts.aria(label="Next layer")),
        ],
        className="stepper",
    )
    shape = " × ".join(map(str, row["shape"]))
    about = " · ".join(filter(None, (row["op"], row["kind"], f"depth {row['depth']}", shape, row["dtype"])))
    found = [
        html.Span(title_of(one), className="badge moderate") for one in report["findings"] if layer in one["layers"]
    ]
    return [
        stepper,
        html.P(row["name"], className="path"),
        html.P(about, className="about"),
        html.P(found),
        html.Dl(facts),
    ]


def layer_table(report: Report, state: ClinicState) -> list[Any]:
    """The layers that match, a page at a time."""
    words = state.find.lower().split()
    rows = [
        row
        for row in report["layers"]
        if all(word in f"{row['layer']} {row['name']} {row['op']} {row['kind']}".lower() for word in words)
    ]
    count = max(1, math.ceil(len(rows) / _ROWS))
    page = min(state.page, count)
    every = columns(report)
    shown = set(overview(every))
    known = {name: values for name, values in every.items() if name in shown}
    head = [html.Th(text, scope="col") for text in ("layer", "name", "operation", *(describe(n).title for n in known))]
    body = []
    for row in rows[(page - 1) * _ROWS : page * _ROWS]:
        at = row["layer"]
        cells = [
            html.Td(reading(values[at], describe(name).unit, 3), className="number") for name, values in known.items()
        ]
        link = html.Td(parts.give(str(at), "layer", str(at), className="inline"))
        text = [html.Td(row["name"], className="path", title=row["name"]), html.Td(row["op"])]
        body.append(html.Tr([link, *text, *cells], className="marked" if at == state.layer else ""))
    told = html.P(f"{len(rows)} of {len(report['layers'])} layers", className="about")
    table = html.Table([html.Thead(html.Tr(head)), html.Tbody(body)])
    return [told, table, html.Div(parts.pages(page, count), className="pages")]
