"""Pieces of the clinic's page: verdict, findings, a layer, the table of layers. Texts of reports are only ever text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from isometer.explore._reports import Report
from isometer.explore._state import ClinicState
from isometer.explore.jobs._clinic import EXAMPLES
from isometer.explore.labs import parts
from isometer.metrics._catalogue import describe
from isometer.metrics._metric import GROUPS
from isometer.metrics._theory_numbers import meaning
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

PATIENT, MODEL, NETWORK = "patient:", "model:", "network"
NETWORK_EXAMPLE = "repeat(dense > act('relu'), 20) > dense(10)"
_ROWS = 25


def files() -> list[Any]:
    """How to make the files that the clinic loads."""
    return [
        "A network of isometer.nn, saved by ",
        html.Code("isometer.nn.save_network(network, 'mine.safetensors')"),
        ", or a report on any PyTorch model, made by ",
        html.Code("isometer doctor file.py:make --json > report.json"),
    ]


def report_choice(files: Mapping[str, str], state: ClinicState) -> list[Any]:
    """Which models and reports there are to choose from."""
    own = {NETWORK: "the network below"} if state.network or NETWORK in (state.report, state.other) else {}
    groups = {
        "Loaded here": dict(files),
        "Yours": own,
        "Patients": {f"{PATIENT}{name}": name for name in EXAMPLES},
    }
    return [_choice("report", "Model", state.report, groups), _choice("other", "Compare with", state.other, groups)]


def _choice(key: str, label: str, value: str, groups: Mapping[str, Mapping[str, str]]) -> Any:
    options: list[Any] = [html.Option("none", value="", selected=not value)]
    for title, group in groups.items():
        inside = [html.Option(name, value=one, selected=one == value) for one, name in group.items()]
        options += [html.Optgroup(inside, label=title)] if inside else []
    return parts.control(key, label, html.Select(options, id=f"control-{key}"))


def welcome() -> html.Section:
    """What to do without a report."""
    steps = [
        html.Li(["Examine a patient with a known condition: ", html.Span(_examples(), className="links")]),
        html.Li(["Write a network in the controls, such as ", html.Code(NETWORK_EXAMPLE)]),
        html.Li(
            [
                "Load a network that you saved with ",
                html.Code("isometer.nn.save_network"),
                ": structure and weights in one file.",
            ]
        ),
        html.Li(
            [
                "For any other PyTorch model: ",
                html.Code("isometer doctor file.py:make --json > report.json"),
                ", then load the report.",
            ]
        ),
    ]
    about = "Everything is computed on this machine. Files are read as data; nothing in them is executed."
    return html.Section([html.H3("Choose a model"), html.Ul(steps), html.P(about, className="about")], className="card")


def _examples() -> list[Any]:
    return [parts.give(name, "report", f"{PATIENT}{name}", className="inline") for name in EXAMPLES[:4]]


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
        html.Li([p["text"], html.Small([" ", *parts.citations(p["references"])])] if p["references"] else p["text"])
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
            _behind(one["references"]),
        ],
        className=f"card finding {severity}",
    )


def _behind(references: Sequence[str]) -> Any:
    return html.P(["Theory: ", *parts.citations(references)], className="about") if references else None


def metric_choice(report: Report, chosen: str) -> Any:
    """The quantities that a report has, by group."""
    known = columns(report)
    groups = []
    for group in GROUPS:
        own = [name for name in known if describe(name).group == group]
        options = [html.Option(describe(name).title, value=name, selected=name == chosen) for name in own]
        groups += [html.Optgroup(options, label=group)] if options else []
    return parts.control("metric", "Quantity", html.Select(groups, id="control-metric"), hint=meaning(chosen))


def layer_facts(report: Report, layer: int) -> list[Any]:
    """Everything known of one layer."""
    if not report["layers"]:
        return [html.P("The report has no layers.")]
    row = report["layers"][layer]
    last = len(report["layers"]) - 1
    facts = [
        (describe(name).title, reading(values[layer], describe(name).unit), name)
        for name, values in columns(report).items()
        if not math.isnan(values[layer])
    ]
    stepper = html.Div(
        [
            parts.give("‹", "layer", str(layer - 1), disabled=layer <= 0, **parts.aria(label="Previous layer")),
            html.H3(f"Layer {layer}"),
            parts.play(last),
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
        parts.facts(facts),
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
    head = [html.Th(text, scope="col") for text in ("layer", "name", "operation")]
    head += [html.Th(parts.term(describe(name).title, name), scope="col") for name in known]
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
