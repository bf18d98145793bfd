"""The clinic: doctor's reports, one or two."""

from __future__ import annotations

import math
import secrets
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update

from isometer.errors import IsometerError
from isometer.explore._desk import Computation, Desk
from isometer.explore._reports import ModelFiles, Report, Shelf, decoded
from isometer.explore._state import LIMITS, ClinicState
from isometer.explore.labs import _clinic_pieces as pieces
from isometer.explore.labs import parts
from isometer.explore.pictures import _clinic as pictures
from isometer.explore.pictures._depth import gram_picture
from isometer.report._doctor_fragments import compared as compared_numbers
from isometer.report._doctor_metrics import columns, look_at, ordered

_CHOSEN = ("report", "other", "network", "stress")
PARTS = {
    "reports": _CHOSEN,
    "curve": (*_CHOSEN, "metric", "axis", "layer"),
    "table": (*_CHOSEN, "layer", "page", "find"),
}
"""Which values each part of the page depends on."""


def layout(state: ClinicState) -> html.Div:
    """The page of a state."""
    t = state.texts()
    controls = [
        html.Div(id="clinic-choice", className="controls-inner"),
        parts.select(
            "stress",
            "Stress test",
            t["stress"],
            {"off": "no (seconds)", "on": "yes (up to a minute)"},
            hint="Trains copies briefly, to say whether the model trains.",
        ),
        html.H2("Your own model"),
        parts.text(
            "network",
            "Write a network",
            t["network"],
            example=pieces.NETWORK_EXAMPLE,
            hint="Its weights are drawn at random.",
        ),
        parts.give("Examine it", "report", pieces.NETWORK, className="wide"),
        dcc.Upload(
            html.Button("Load a model or a report …", type="button", className="wide"),
            id="clinic-upload",
            multiple=True,
            max_size=int(LIMITS["upload"].high),
            accept=".json,.safetensors,application/json",
        ),
        html.Small(pieces.files(), className="about"),
        html.Div(
            [
                html.H2("Curve"),
                html.Div(id="clinic-metric", className="controls-inner"),
                parts.select(
                    "axis",
                    "Across",
                    t["axis"],
                    {"layer": "layer (order of execution)", "depth": "depth (weight layers)"},
                ),
                parts.text("find", "Find layers", t["find"], example="name, operation or kind"),
            ],
            id="clinic-reading",
            className="controls-inner",
            hidden=True,
        ),
        parts.hidden("page", t["page"]),
        parts.hidden("layer", t["layer"]),
    ]
    body = [
        dcc.Store(id="clinic-uploaded"),
        dcc.Store(id="clinic-done"),
        parts.notice("clinic-notice"),
        html.Div(id="clinic-progress", className="card progress", hidden=True, role="status"),
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
            [parts.picture("clinic-gram", "Cosines between samples", height="square", quantity="gram")],
            className="pictures",
            id="clinic-grams",
        ),
    ]
    lead = "The doctor examines a model on this machine. Follow findings to their layers; compare two models."
    return parts.lab_page("clinic", "Clinic", lead, controls, body)


def register(app: Dash, desk: Desk, gallery: Path | None) -> None:
    """Let the page react. Reports and models that are loaded stay until the server ends."""
    ward = _Ward(desk, Shelf(), ModelFiles())

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
                keys.append(ward.put(str(name), str(content)))
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
        Output("clinic-done", "data"),
        Output("clinic-reading", "hidden"),
        Input("clinic-part-reports", "data"),
        Input("clinic-uploaded", "data"),
        State("clinic-state", "data"),
        State("tab", "data"),
    )
    def report(values: Any, uploaded: Any, query: str, tab: str) -> tuple[Any, ...]:
        state, _ = ClinicState.read({**ClinicState.read(query or "")[0].texts(), **(values or {})})
        problems = ward.examine(state, tab)
        first, second = ward.found(state)
        problems += (uploaded or {}).get("problems", [])
        choice = pieces.report_choice(ward.titles(), state)
        done = {"key": secrets.token_hex(4)}  # the curves and the table follow
        if first is None:
            return choice, parts.messages(problems), pieces.welcome(), [], [], [], done, True
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
            done,
            False,
        )

    @app.callback(
        Output("clinic-curve", "figure"),
        Output("clinic-layer", "children"),
        Output("clinic-curves", "hidden"),
        Output("clinic-gram", "figure"),
        Output("clinic-grams", "hidden"),
        Input("clinic-part-curve", "data"),
        Input("theme", "data"),
        Input("clinic-done", "data"),
    )
    def curve(values: Any, theme: str, done: Any) -> tuple[Any, ...]:
        state, _ = ClinicState.read(values or {})
        first, second = ward.found(state)
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

    @app.callback(Output("clinic-table", "children"), Input("clinic-part-table", "data"), Input("clinic-done", "data"))
    def table(values: Any, done: Any) -> Any:
        state, _ = ClinicState.read(values or {})
        first, _ = ward.found(state)
        return [] if first is None else pieces.layer_table(first, state)


class _Ward:
    """Where the two models or reports of a state come from."""

    def __init__(self, desk: Desk, shelf: Shelf, models: ModelFiles) -> None:
        self._desk, self._shelf, self._models = desk, shelf, models

    def put(self, name: str, content: str) -> str:
        """Keep a file: a model by its ending, otherwise a report. The key of `ClinicState.report`."""
        raw = decoded(name, content)
        if name.lower().endswith(".safetensors"):
            return pieces.MODEL + self._models.put(name, raw)
        return self._shelf.put(name, raw)

    def titles(self) -> dict[str, str]:
        """Names of the files by key."""
        return {**self._shelf.titles(), **{pieces.MODEL + key: name for key, name in self._models.titles().items()}}

    def examine(self, state: ClinicState, tab: str) -> list[str]:
        """Have the models of a state examined; what is wrong with them.

        An examination that nobody waits for ends: the newer request of its slot takes its place, even an empty one.
        """
        problems = []
        for slot, key in (("first", state.report), ("second", state.other)):
            job = self._job(key, state)
            found = parts.asked(self._desk, tab, slot, [] if job is None else [job])
            problems += [str(one) for one in found if isinstance(one, IsometerError)]
            if key and job is None and self._shelf.get(key) is None:
                problems.append("The file of this address is not loaded: load it again.")
        return problems

    def found(self, state: ClinicState) -> tuple[Report | None, Report | None]:
        """The two reports of a state, as far as they are there."""
        first, second = (self._report(key, state) for key in (state.report, state.other))
        return first, second

    def _report(self, key: str, state: ClinicState) -> Report | None:
        job = self._job(key, state)
        return self._shelf.get(key) if job is None else self._desk.remembered(job)

    def _job(self, key: str, state: ClinicState) -> Computation | None:
        """What examines the model of a key; none for reports."""
        stress = state.stress == "on"
        longest = LIMITS["examination"].high if stress else None
        if key == pieces.NETWORK:
            return Computation("examined_network", {"network": state.network, "stress": stress}, longest)
        if key.startswith(pieces.PATIENT):
            return Computation("examined", {"name": key.removeprefix(pieces.PATIENT), "stress": stress}, longest)
        path = self._models.get(key.removeprefix(pieces.MODEL)) if key.startswith(pieces.MODEL) else None
        if path is None:
            return None
        name = self._models.titles().get(path.stem, path.stem)
        return Computation("examined_file", {"path": str(path), "name": name, "stress": stress}, longest)


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
        for key, title in (("better", "Better"), ("worse", "Worse"), ("unchanged", "The same"))
    ]
    rows = [html.Tr([html.Th(name, scope="row"), html.Td(b), html.Td(a)]) for name, b, a in compared_numbers(found)]
    head = html.Thead(
        html.Tr([html.Th("", scope="col"), html.Th(second["model"], scope="col"), html.Th(first["model"], scope="col")])
    )
    numbers = [html.Div(html.Table([head, html.Tbody(rows)]), className="scroll")] if rows else []
    title = f"{first['model']} compared with {second['model']}"
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
