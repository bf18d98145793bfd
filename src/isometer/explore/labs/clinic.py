"""The clinic: doctor's reports, one or two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update

from isometer.errors import IsometerError
from isometer.explore.jobs.ledger import EXAMPLES
from isometer.explore.labs import parts
from isometer.explore.pictures import clinic as pictures
from isometer.explore.pictures.depth import gram_picture
from isometer.explore.reports import Report, Shelf
from isometer.explore.state import LIMITS, ClinicState
from isometer.explore.work import Desk, Job
from isometer.report.doctor_fragments import compared as compared_numbers
from isometer.report.doctor_fragments import setting, title_of, verdict
from isometer.report.doctor_metrics import (
    GROUPS,
    OVERVIEW,
    columns,
    evidence_rows,
    look_at,
    ordered,
    quantity,
    reading,
    where,
)

PARTS = {
    "reports": ("report", "other"),
    "curve": ("report", "other", "metric", "axis", "layer"),
    "table": ("report", "layer", "page", "find"),
}
"""Which values each part of the page depends on."""

_PATIENT = "patient:"
_ROWS = 25


def layout(state: ClinicState) -> html.Div:
    """The page of a state."""
    t = state.texts()
    controls = [
        dcc.Upload(
            html.Button("Load a report (JSON) …", type="button", className="wide"),
            id="clinic-upload",
            multiple=True,
            max_size=int(LIMITS["upload"].high),
            accept=".json,application/json",
        ),
        html.Small("Written by: isometer doctor MODEL --json > report.json", className="about"),
        html.Div(id="clinic-choice", className="controls-inner"),
        html.H2("Curve"),
        html.Div(id="clinic-metric", className="controls-inner"),
        parts.select(
            "axis", "Across", t["axis"], {"layer": "layer (order of execution)", "depth": "depth (weight layers)"}
        ),
        parts.text("find", "Find layers", t["find"], example="name, operation or kind"),
        parts.hidden("page", t["page"]),
        parts.hidden("layer", t["layer"]),
    ]
    body = [
        dcc.Store(id="clinic-uploaded"),
        parts.notice("clinic-notice"),
        html.Div(id="clinic-verdict"),
        html.Div(id="clinic-compared"),
        html.Div(
            [
                parts.picture("clinic-curve", "Along the model"),
                html.Section(id="clinic-layer", className="card", **parts.aria(live="polite")),
            ],
            className="pictures wide-first",
            id="clinic-curves",
        ),
        html.Div(id="clinic-findings", className="cards"),
        html.Div(id="clinic-table", className="card scroll"),
        html.Div(
            [parts.picture("clinic-gram", "Cosines between samples", height="square")],
            className="pictures",
            id="clinic-grams",
        ),
    ]
    lead = "What the doctor found in a model: load a report, follow findings to their layers, compare before and after."
    return parts.lab_page("clinic", "Clinic", lead, controls, body)


def register(app: Dash, desk: Desk, shelf: Shelf) -> None:
    """Let the page react."""

    @app.callback(
        Output("clinic-draft", "data"),
        Output("clinic-uploaded", "data"),
        Input("clinic-upload", "contents"),
        State("clinic-upload", "filename"),
        State("clinic-state", "data"),
        prevent_initial_call=True,
    )
    def loaded(contents: Any, names: Any, query: str) -> tuple[Any, Any]:
        files = list(zip(contents or [], names or [], strict=False))[: int(LIMITS["uploads"].high)]
        state, _ = ClinicState.read(query or "")
        keys, problems = [], []
        for content, name in files:
            try:
                keys.append(shelf.put_encoded(str(name), str(content)))
            except IsometerError as problem:
                problems.append(f"{str(name)[:80]}: {problem}")
        draft: dict[str, str] = {}
        if keys:
            both = len(keys) > 1
            second = keys[1] if both else state.other
            draft = {"report": keys[0], "other": second, "layer": "0", "page": "1", "metric": ""}
        return draft or no_update, {"problems": problems, "keys": keys}

    @app.callback(
        Output("clinic-choice", "children"),
        Output("clinic-notice", "children"),
        Output("clinic-verdict", "children"),
        Output("clinic-compared", "children"),
        Output("clinic-findings", "children"),
        Output("clinic-metric", "children"),
        Input("clinic-part-reports", "data"),
        Input("clinic-uploaded", "data"),
        State("clinic-state", "data"),
        State("tab", "data"),
    )
    def report(values: Any, uploaded: Any, query: str, tab: str) -> tuple[Any, ...]:
        state, _ = ClinicState.read({**ClinicState.read(query or "")[0].texts(), **(values or {})})
        first, second, problems = _both(desk, shelf, state, tab, "reports")
        problems += (uploaded or {}).get("problems", [])
        choice = _choice(shelf, state)
        if first is None:
            return choice, parts.messages(problems), _welcome(), [], [], []
        told = [_verdict(first)] + ([_verdict(second, "Compared with")] if second is not None else [])
        return (
            choice,
            parts.messages(problems),
            html.Div(told, className="pictures"),
            _compared(desk, tab, first, second),
            [_finding(one, first) for one in ordered(first["findings"])],
            _metric_choice(first, state),
        )

    @app.callback(
        Output("clinic-curve", "figure"),
        Output("clinic-layer", "children"),
        Output("clinic-curves", "hidden"),
        Output("clinic-gram", "figure"),
        Output("clinic-grams", "hidden"),
        Input("clinic-part-curve", "data"),
        Input("theme", "data"),
        State("tab", "data"),
    )
    def curve(values: Any, theme: str, tab: str) -> tuple[Any, ...]:
        state, _ = ClinicState.read(values or {})
        first, second, _ = _both(desk, shelf, state, tab, "curve")
        if first is None:
            return parts.blank(), [], True, parts.blank(), True
        metric = _metric(first, state)
        reports = [(first["model"][:40], first)] + ([(second["model"][:40], second)] if second is not None else [])
        if len(reports) == 2 and reports[0][0] == reports[1][0]:
            reports = [
                (f"{name} ({which})", one) for (name, one), which in zip(reports, ("this", "other"), strict=True)
            ]
        marked = sorted(
            {layer for one in first["findings"] for layer in one["layers"] if look_at(one, [metric]) == metric}
        )
        layer = min(state.layer, max(len(first["layers"]) - 1, 0))
        figure = pictures.metric_picture(reports, metric, state.axis, layer, marked, theme)
        gram = _nearest_gram(first, layer)
        drawn = parts.blank() if gram is None else gram_picture(gram, theme)
        return figure, _layer(first, layer), False, drawn, gram is None

    @app.callback(Output("clinic-table", "children"), Input("clinic-part-table", "data"), State("tab", "data"))
    def table(values: Any, tab: str) -> Any:
        state, _ = ClinicState.read(values or {})
        first, _, _ = _both(desk, shelf, state, tab, "table")
        return [] if first is None else _table(first, state)


def _both(
    desk: Desk, shelf: Shelf, state: ClinicState, tab: str, slot: str
) -> tuple[Report | None, Report | None, list[str]]:
    """The two reports of a state, and what is wrong with them."""
    found: list[Report | None] = []
    problems: list[str] = []
    for key in (state.report, state.other):
        one = shelf.get(key) if key else None
        if key.startswith(_PATIENT):
            [answer] = parts.asked(
                desk, tab, f"{slot}-{len(found)}", [Job("examined", {"name": key.removeprefix(_PATIENT)})]
            )
            one = None if isinstance(answer, IsometerError) else answer
            problems += [str(answer)] if isinstance(answer, IsometerError) else []
        elif key and one is None:
            problems.append("The report of this address is not loaded any more: load its file again.")
        found.append(one)
    return found[0], found[1], problems


def _choice(shelf: Shelf, state: ClinicState) -> list[Any]:
    options = {"": "none", **shelf.titles(), **{f"{_PATIENT}{name}": f"example: {name}" for name in EXAMPLES}}
    return [
        parts.select("report", "Report", state.report, options),
        parts.select("other", "Compare with", state.other, options),
    ]


def _welcome() -> html.Section:
    steps = [
        html.Li(["Examine a model: ", html.Code("isometer doctor mlp-relu-100 --json > report.json")]),
        html.Li("Load the file with the button in the controls; load two to compare them."),
        html.Li(["Or look at an example: ", *_examples()]),
    ]
    return html.Section([html.H3("No report yet"), html.Ol(steps)], className="card")


def _examples() -> list[Any]:
    return [parts.give(name, "report", f"{_PATIENT}{name}", className="inline") for name in EXAMPLES[:3]]


def _verdict(report: Report, label: str = "") -> html.Section:
    healthy = report["healthy"]
    state = [html.Strong("Healthy" if healthy else "Not healthy"), f" · {verdict(report)}"]
    return html.Section(
        [
            html.P(label, className="about") if label else None,
            html.H3(report["model"]),
            html.P(state, className="state"),
            html.P(report["summary"]),
            html.P(setting(report), className="about"),
        ],
        className=f"card verdict-card {'healthy' if healthy else 'unhealthy'}",
    )


def _compared(desk: Desk, tab: str, first: Report, second: Report | None) -> Any:
    if second is None:
        return []
    kept = ("rms", "output_gradient_log_norm", "mean_abs_cosine")

    def slim(report: Report) -> dict[str, Any]:
        return {
            "findings": [{"id": one["id"], "severity": one["severity"]} for one in report["findings"]],
            "layers": [{"kind": row["kind"]} for row in report["layers"]],
            "metrics": {name: report["metrics"][name] for name in kept if name in report["metrics"]},
        }

    job = Job("compared", {"baseline": slim(second), "report": slim(first), "name": second["model"]})
    [found] = parts.asked(desk, tab, "compared", [job])
    if isinstance(found, IsometerError):
        return html.P(str(found))
    lists = [
        html.Div([html.H4(title), html.Ul([html.Li(line) for line in found[key]] or html.Li("nothing"))], className=key)
        for key, title in (("better", "Better than it"), ("worse", "Worse than it"), ("unchanged", "As before"))
    ]
    rows = [html.Tr([html.Th(name, scope="row"), html.Td(b), html.Td(a)]) for name, b, a in compared_numbers(found)]
    head = html.Thead(html.Tr([html.Th("", scope="col"), html.Th("other", scope="col"), html.Th("this", scope="col")]))
    numbers = [html.Table([head, html.Tbody(rows)])] if rows else []
    title = f"This report beside {second['model']}"
    return html.Section([html.H3(title), html.Div(lists, className="thirds"), *numbers], className="card")


def _finding(one: Mapping[str, Any], report: Report) -> html.Article:
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
        links.insert(0, parts.give(f"Show {quantity(metric).title}", "metric", metric, className="inline"))
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


def _metric(report: Report, state: ClinicState) -> str:
    """The metric that is drawn: the one chosen, otherwise that of the worst finding."""
    known = columns(report)
    if state.metric in known:
        return state.metric
    worst = [look_at(one, known) for one in ordered(report["findings"])]
    return next((one for one in worst if one), next(iter(known), ""))


def _metric_choice(report: Report, state: ClinicState) -> Any:
    known = columns(report)
    chosen = _metric(report, state)
    groups = []
    for group in GROUPS:
        own = [name for name in known if quantity(name).group == group]
        options = [html.Option(quantity(name).title, value=name, selected=name == chosen) for name in own]
        groups += [html.Optgroup(options, label=group)] if options else []
    return parts.control("metric", "Quantity", html.Select(groups, id="control-metric"))


def _layer(report: Report, layer: int) -> list[Any]:
    if not report["layers"]:
        return [html.P("The report has no layers.")]
    row = report["layers"][layer]
    last = len(report["layers"]) - 1
    facts: list[Any] = []
    for name, values in columns(report).items():
        if not math.isnan(values[layer]):
            facts += [html.Dt(quantity(name).title), html.Dd(reading(values[layer], quantity(name).unit))]
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


def _nearest_gram(report: Report, layer: int) -> Any:
    grams = report["grams"]
    if grams is None or not grams["layers"]:
        return None
    at = min(range(len(grams["layers"])), key=lambda i: abs(grams["layers"][i] - layer))
    matrix = grams["matrices"][at]
    lengths = [math.sqrt(row[i]) if row[i] and row[i] > 0 else math.inf for i, row in enumerate(matrix)]
    return [
        [None if v is None else v / lengths[i] / lengths[j] for j, v in enumerate(row)] for i, row in enumerate(matrix)
    ]


def _table(report: Report, state: ClinicState) -> list[Any]:
    words = state.find.lower().split()
    rows = [
        row
        for row in report["layers"]
        if all(word in f"{row['layer']} {row['name']} {row['op']} {row['kind']}".lower() for word in words)
    ]
    count = max(1, math.ceil(len(rows) / _ROWS))
    page = min(state.page, count)
    known = {name: values for name, values in columns(report).items() if name in OVERVIEW}
    head = [html.Th(text, scope="col") for text in ("layer", "name", "operation", *(quantity(n).title for n in known))]
    body = []
    for row in rows[(page - 1) * _ROWS : page * _ROWS]:
        at = row["layer"]
        cells = [
            html.Td(reading(values[at], quantity(name).unit, 3), className="number") for name, values in known.items()
        ]
        link = html.Td(parts.give(str(at), "layer", str(at), className="inline"))
        text = [html.Td(row["name"], className="path", title=row["name"]), html.Td(row["op"])]
        body.append(html.Tr([link, *text, *cells], className="marked" if at == state.layer else ""))
    told = html.P(f"{len(rows)} of {len(report['layers'])} layers", className="about")
    table = html.Table([html.Thead(html.Tr(head)), html.Tbody(body)])
    return [told, table, html.Div(parts.pages(page, count), className="pages")]
