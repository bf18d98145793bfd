"""The clinic: doctor's reports, one or two."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update

from isometer.errors import IsometerError
from isometer.explore._desk import Computation, Desk
from isometer.explore._reports import Report, Shelf
from isometer.explore._state import LIMITS, ClinicState
from isometer.explore.labs import _clinic_pieces as pieces
from isometer.explore.labs import parts
from isometer.explore.pictures import _clinic as pictures
from isometer.explore.pictures._depth import gram_picture
from isometer.report._doctor_fragments import compared as compared_numbers
from isometer.report._doctor_metrics import columns, look_at, ordered

PARTS = {
    "reports": ("report", "other"),
    "curve": ("report", "other", "metric", "axis", "layer"),
    "table": ("report", "layer", "page", "find"),
}
"""Which values each part of the page depends on."""


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


def register(app: Dash, desk: Desk, gallery: Path | None) -> None:
    """Let the page react. Reports that are loaded stay on the shelf until the server ends."""
    shelf = Shelf()

    @app.callback(
        Output("clinic-draft", "data"),
        Output("clinic-uploaded", "data"),
        Input("clinic-upload", "contents"),
        State("clinic-upload", "filename"),
        State("clinic-state", "data"),
        State("clinic-uploaded", "data"),
        prevent_initial_call=True,
    )
    def loaded(contents: Any, names: Any, query: str, before: Any) -> tuple[Any, Any]:
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
        changed = problems or (before or {}).get("problems")
        return draft or no_update, {"problems": problems} if changed else no_update

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
        choice = pieces.report_choice(shelf, state)
        if first is None:
            return choice, parts.messages(problems), pieces.welcome(), [], [], []
        told = [pieces.verdict_card(first)] + (
            [pieces.verdict_card(second, "Compared with")] if second is not None else []
        )
        return (
            choice,
            parts.messages(problems),
            html.Div(told, className="pictures"),
            _compared(desk, tab, first, second),
            [pieces.finding_card(one, first) for one in ordered(first["findings"])],
            pieces.metric_choice(first, _metric(first, state)),
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
        drawn = parts.blank() if gram is None else gram_picture(gram[1], theme, f"layer {gram[0]}")
        return figure, pieces.layer_facts(first, layer), False, drawn, gram is None

    @app.callback(Output("clinic-table", "children"), Input("clinic-part-table", "data"), State("tab", "data"))
    def table(values: Any, tab: str) -> Any:
        state, _ = ClinicState.read(values or {})
        first, _, _ = _both(desk, shelf, state, tab, "table")
        return [] if first is None else pieces.layer_table(first, state)


def _both(
    desk: Desk, shelf: Shelf, state: ClinicState, tab: str, slot: str
) -> tuple[Report | None, Report | None, list[str]]:
    """The two reports of a state, and what is wrong with them."""
    found: list[Report | None] = []
    problems: list[str] = []
    for key in (state.report, state.other):
        one = shelf.get(key) if key else None
        if key.startswith(pieces.PATIENT):
            # A slot for each: in the same one the second request would cancel the first.
            [answer] = parts.asked(
                desk, tab, f"{slot}-{len(found)}", [Computation("examined", {"name": key.removeprefix(pieces.PATIENT)})]
            )
            one = None if isinstance(answer, IsometerError) else answer
            problems += [str(answer)] if isinstance(answer, IsometerError) else []
        elif key and one is None:
            problems.append("The report of this address is not loaded any more: load its file again.")
        found.append(one)
    return found[0], found[1], problems


def _metric(report: Report, state: ClinicState) -> str:
    """The metric that is drawn: the one chosen, otherwise that of the worst finding."""
    known = columns(report)
    if state.metric in known:
        return state.metric
    worst = [look_at(one, known) for one in ordered(report["findings"])]
    return next((one for one in worst if one), next(iter(known), ""))


def _compared(desk: Desk, tab: str, first: Report, second: Report | None) -> Any:
    if second is None:
        return []
    kept = ("rms", "output_gradient_log_norm", "mean_abs_cosine")

    # Arguments are sent to a worker and are the key of the result: no more than the comparison reads.
    def slim(report: Report) -> dict[str, Any]:
        return {
            "findings": [{"id": one["id"], "severity": one["severity"]} for one in report["findings"]],
            "trains": {
                name: {"verdict": one["verdict"], "at_rate": one["at_rate"]} for name, one in report["trains"].items()
            },
            "layers": [{"kind": row["kind"]} for row in report["layers"]],
            "metrics": {name: report["metrics"][name] for name in kept if name in report["metrics"]},
        }

    job = Computation("compared", {"baseline": slim(second), "report": slim(first), "name": second["model"]})
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


def _nearest_gram(report: Report, layer: int) -> tuple[int, Any] | None:
    """The nearest layer of which the report has a Gram matrix, and its cosines."""
    grams = report["grams"]
    if grams is None or not grams["layers"]:
        return None
    at = min(range(len(grams["layers"])), key=lambda i: abs(grams["layers"][i] - layer))
    matrix = grams["matrices"][at]
    # A sample of zeros gets cosine 0 with all.
    lengths = [math.sqrt(row[i]) if row[i] and row[i] > 0 else math.inf for i, row in enumerate(matrix)]
    cosines = [
        [None if v is None else v / lengths[i] / lengths[j] for j, v in enumerate(row)] for i, row in enumerate(matrix)
    ]
    return grams["layers"][at], cosines
