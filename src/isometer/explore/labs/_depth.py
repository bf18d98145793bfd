"""The depth lab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, set_props

from isometer.errors import IsometerError
from isometer.explore import _python_lines as python_lines
from isometer.explore import _requests as requests
from isometer.explore._desk import Computation, Desk
from isometer.explore._state import INPUTS, NORMS, SETTING, WEIGHTS, DepthState, rank_choices
from isometer.explore.jobs._depth import GRADIENT, metrics_with
from isometer.explore.labs import parts
from isometer.explore.pictures import _depth as pictures
from isometer.report._numbers import number as shown

PARTS = {
    "simulated": (*SETTING, "rank", "runs"),
    "predicted": (*SETTING, "rank"),
    "own": (*SETTING, "rank", "own_width"),
    "pair": ("against", "rank", "runs"),
    "geometry": (*SETTING, "layer"),
    "depth": ("depth",),
}
"""Which values each part of the page depends on."""

_NORM_NAMES = {
    "none": "none",
    "batch": "batch norm: recentre and rescale",
    "batch-rescale": "batch norm: rescale only",
    "batch-recenter": "batch norm: recentre only",
    "layer": "layer norm",
    "rms": "RMS norm",
}
_INPUT_NAMES = {
    "gaussian": "independent Gaussian",
    "orthogonal": "orthogonal",
    "correlated:0.9": "all cosines 0.9",
    "collinear:0.1": "nearly parallel (0.1 rad)",
    "degenerate:2": "only two distinct samples",
    "power-law:1": "power-law spectrum",
}
_GRAPHS = ("depth-gap", "depth-rank", "depth-isometry", "depth-gradient")
_PARTS_COMPUTED = ("simulated", "predicted", "own", "pair")
_LABELS = {
    "activation": "activation",
    "norm": "norm",
    "position": "norm placed",
    "weights": "weights",
    "gain": "gain",
    "residual": "γ",
    "depth": "depth",
    "width": "width",
    "network": "network",
    "batch": "batch",
    "source": "samples",
    "seed": "seed",
}


def layout(state: DepthState) -> html.Div:
    """The page of a state."""
    t = state.texts()
    controls = [
        parts.text("activation", "Activation", t["activation"], hint="A name, or an expression in x"),
        parts.select("norm", "Normalisation", t["norm"], {one: _NORM_NAMES[one] for one in NORMS}),
        parts.select("position", "Position of the norm", t["position"], parts.NORM_PLACES),
        parts.select("weights", "Weights", t["weights"], WEIGHTS),
        parts.select("gain", "Gain of the weights", t["gain"], {"forward": "principled: 1/√E φ²", "1": "1"}),
        parts.number("residual", "Residual strength γ", t["residual"], step="any", empty="no skip"),
        parts.text(
            "network",
            "Or any network",
            t["network"],
            hint="Replaces the controls above and the depth: preln_mlp(width=64, blocks=12), or "
            "repeat(residual(norm('layer') > dense > act('gelu') > dense, 0.3), 12)",
        ),
        html.H2("Size"),
        parts.slider("depth", "Depth", t["depth"], step=1),
        parts.slider("width", "Width", t["width"], step=1),
        parts.slider("batch", "Batch", t["batch"], step=1),
        parts.slider("runs", "Networks simulated", t["runs"], step=1),
        html.H2("Input"),
        parts.select("source", "Samples", t["source"], {one: _INPUT_NAMES[one] for one in INPUTS}),
        parts.number("seed", "Seed", t["seed"]),
        html.H2("Shown"),
        parts.select("rank", "Rank", t["rank"], rank_choices()),
        parts.select(
            "own_width",
            "Theory of this width",
            t["own_width"],
            {"on": "yes", "off": "no"},
            hint="Expansion in 1/width: slower, and valid only while depth is well below width.",
        ),
        parts.hidden("against", t["against"]),
    ]
    body = [
        *(dcc.Store(id=f"depth-{kind}-{name}") for kind in ("asked", "done") for name in _PARTS_COMPUTED),
        parts.notice("depth-notice"),
        html.Div(id="depth-against", className="card against"),
        html.Div(id="depth-told", className="card told", **parts.aria(live="polite")),
        html.Div(
            [
                parts.picture("depth-gap", "Orthogonality gap", csv="depth/trajectories", quantity="orthogonality_gap"),
                parts.picture("depth-rank", "Rank", csv="depth/trajectories", quantity=state.rank),
                parts.picture("depth-isometry", "Isometry gap", csv="depth/trajectories", quantity="isometry_gap"),
                parts.picture("depth-gradient", "Gradient norm", csv="depth/trajectories", quantity=GRADIENT),
            ],
            className="pictures",
        ),
        html.Div(
            [
                html.Div(id="depth-layer", className="card layer-control"),
                parts.notice("depth-layer-notice"),
                html.Div(
                    [
                        parts.picture("depth-gram", "Gram matrix", csv="depth/gram", height="square", quantity="gram"),
                        html.Div(
                            [
                                parts.picture(
                                    "depth-plane",
                                    "One sample leaves the others",
                                    "The batch in the plane of its longest sample and the mean of the others.",
                                    csv="depth/plane",
                                    height="square",
                                ),
                                html.Div(id="depth-odd", className="card told"),
                            ],
                            id="depth-odd-view",
                            className="stack",
                            hidden=True,
                        ),
                    ],
                    className="pictures",
                ),
            ],
            id="depth-one-layer",
            className="stack",
        ),
        parts.python_card("depth-python"),
    ]
    lead = "What a random network does to a batch, layer after layer: theory beside simulation."
    return parts.lab_page("depth", "Depth lab", lead, controls, body)


def register(app: Dash, desk: Desk, gallery: Path | None) -> None:
    """Let the page react."""
    _computing(app, desk, "simulated", requests.simulation_job)
    _computing(app, desk, "predicted", requests.prediction_job)
    _computing(app, desk, "own", requests.own_width_job)
    _computing_pair(app, desk)

    @app.callback(
        Output("depth-notice", "children"),
        Output("depth-told", "children"),
        *(Output(graph, "figure") for graph in _GRAPHS),
        Input("depth-done-simulated", "data"),
        Input("depth-done-predicted", "data"),
        Input("depth-done-own", "data"),
        Input("depth-done-pair", "data"),
        Input("theme", "data"),
        Input("depth-notes", "data"),
        Input("depth-part-simulated", "data"),
        Input("depth-part-own", "data"),
        Input("depth-part-pair", "data"),
    )
    def draw(
        simulated: Any, predicted: Any, own: Any, pair: Any, theme: str, notes: Any, now: Any, more: Any, against: Any
    ) -> tuple[Any, ...]:
        state, _ = DepthState.read({**(now or {}), **(more or {}), **(against or {})})
        jobs = (requests.simulation_job(state), requests.prediction_job(state), requests.own_width_job(state))
        simulation, theory, expansion = (desk.remembered(job) for job in jobs)
        results = (simulation, theory, expansion if state.own_width == "on" else None)
        first = [desk.remembered(job) for job in requests.pair_jobs(state)]
        figures = [_figure(metric, first, results, theme) for metric in metrics_with(state.rank)]
        done = [one or {} for one in (simulated, predicted, own)]
        notes = [*(notes or []), *([pair["problem"]] if pair and pair.get("key") == state.against else [])]
        problems = [
            one.get("problem") if one.get("key") == job.key else None for one, job in zip(done, jobs, strict=True)
        ]
        return (
            parts.messages([*filter(None, problems), *(notes or [])]),
            _told(state, results, problems, first),
            *figures,
        )

    @app.callback(Output("depth-layer", "children"), Input("depth-part-depth", "data"), State("depth-state", "data"))
    def layer_control(_: Any, query: str) -> Any:
        state, _ = DepthState.read(query or "")
        slider = parts.slider("layer", "Layer shown below", str(state.layer), step=1, low=0, high=state.depth)
        return html.Div([slider, parts.play(state.depth)], className="with-button")

    @app.callback(Output("depth-against", "children"), Input("depth-state", "data"))
    def against(query: str) -> Any:
        return _against(DepthState.read(query or "")[0])

    @app.callback(
        Output("depth-gram", "figure"),
        Output("depth-plane", "figure"),
        Output("depth-odd", "children"),
        Output("depth-odd-view", "hidden"),
        Output("depth-one-layer", "hidden"),
        Output("depth-layer-notice", "children"),
        Input("depth-part-geometry", "data"),
        Input("theme", "data"),
        State("tab", "data"),
    )
    def geometry(values: Any, theme: str, tab: str) -> tuple[Any, ...]:
        state, _ = DepthState.read(values or {})
        [found] = parts.asked(desk, tab, "geometry", [requests.geometry_job(state)])
        if isinstance(found, IsometerError):
            # A network that is written out need not have layers of one kind: then there is nothing to show.
            return parts.blank(), parts.blank(), [], True, bool(state.network), parts.messages([str(found)])
        gram = pictures.gram_picture(found["cosines"], theme, f"layer {state.layer}")
        if not _sends_one_away(state):
            return gram, parts.blank(), [], True, False, []
        return gram, pictures.plane_picture(found, theme), _odd(state, found), False, False, []

    @app.callback(Output("depth-python", "children"), Input("depth-state", "data"))
    def python(query: str) -> str:
        return python_lines.depth_lines(DepthState.read(query or "")[0])


def _computing(app: Dash, desk: Desk, name: str, job_of: Callable[[DepthState], Computation]) -> None:
    """A part that computes; the pictures take its result from the desk once it is done.

    Its result is no output of it: a page waits for all callbacks behind a picture before it draws, and theory may take
    longer than the simulation that is there already.
    """

    @app.callback(Output(f"depth-asked-{name}", "data"), Input(f"depth-part-{name}", "data"), State("tab", "data"))
    def compute(values: Any, tab: str) -> str:
        state, _ = DepthState.read(values or {})
        job = job_of(state)
        if name == "own" and state.own_width == "off":
            return ""
        [found] = parts.asked(desk, tab, name, [job])
        problem = str(found) if isinstance(found, IsometerError) else None
        set_props(f"depth-done-{name}", {"data": {"key": job.key, "problem": problem}})
        return job.key


def _computing_pair(app: Dash, desk: Desk) -> None:
    """As `_computing`, for both results of the network that is pinned."""

    @app.callback(Output("depth-asked-pair", "data"), Input("depth-part-pair", "data"), State("tab", "data"))
    def compute(values: Any, tab: str) -> str:
        state, _ = DepthState.read(values or {})
        found = parts.asked(desk, tab, "pair", requests.pair_jobs(state))
        problems = [f"A: {one}" for one in found if isinstance(one, IsometerError)]
        set_props("depth-done-pair", {"data": {"key": state.against, "problem": " ".join(problems) or None}})
        return state.against


def _figure(metric: str, pinned: list[Any], results: tuple[Any, Any, Any], theme: str) -> Any:
    """This network with all that is known of it, or the pinned one beside it."""
    if not pinned:
        return pictures.trajectory_picture(metric, *results, theme)
    curves = [("A", pinned[0], pinned[1]), ("B", results[0], results[1])]
    return pictures.compared_picture(metric, curves, theme)


def _against(state: DepthState) -> list[Any]:
    """What is compared, and the buttons that begin and end it."""
    if state.other is None:
        told = html.P("Compare two networks: pin this one as A, then change the controls. Both are drawn.")
        return [told, html.Div(parts.give("Pin as A", "against", state.pinned()), className="links")]
    first, second = _differences(state.other, state)
    told = html.P(
        [html.Strong("A"), f" (pinned): {first}. ", html.Strong("B"), f" (these controls): {second}."]
        if first
        else "A and B are the same network: change a control to change B."
    )
    buttons = [parts.give("Pin B as A", "against", state.pinned()), parts.give("Unpin A", "against", "")]
    return [told, html.Div(buttons, className="links")]


def _differences(first: DepthState, second: DepthState) -> tuple[str, str]:
    """What two networks have that the other has not."""
    a, b = first.texts(), second.texts()
    names = [name for name in SETTING if a[name] != b[name]]
    return tuple(", ".join(f"{_LABELS[name]} {texts[name] or 'none'}" for name in names) for texts in (a, b))  # type: ignore[return-value]


def _sends_one_away(state: DepthState) -> bool:
    """Whether one sample leaves all others, which the view of the odd point shows: recentring alone, with ReLU."""
    return state.norm == "batch-recenter" and not state.network


def _told(state: DepthState, results: tuple[Any, Any, Any], problems: list[str | None], pinned: list[Any]) -> list[Any]:
    simulated, predicted, _ = results
    pairs = [("A: ", pinned[1]), ("B: ", predicted)] if pinned else [("", predicted)]
    lines = [f"{name}{line}" for name, one in pairs if one is not None for line in one["statements"]]
    if predicted is not None and predicted["note"]:
        lines.append(predicted["note"])
    if simulated is not None and simulated["overflow"] is not None:
        lines.append(f"The simulated signal overflows at layer {simulated['overflow']}.")
    ways = ("simulation", "theory of infinite width", "theory of this width")
    wanted = (True, True, state.own_width == "on")
    rows = zip(ways, wanted, results, problems, strict=True)
    waiting = [way for way, asked, result, problem in rows if asked and result is None and problem is None]
    if waiting:
        lines.append(f"Computing: {', '.join(waiting)} …")
    return [html.P(line) for line in lines]


def _odd(state: DepthState, found: Any) -> list[Any]:
    odd, lengths = found["odd"], found["lengths"]
    kept = sum(found["kept"]) / len(found["kept"])
    rows = [
        ("Longest sample", f"{int(odd['index'])} (length {shown(max(lengths), 4)})", ""),
        ("Mean length of the others, relative to it", shown(odd["rest_norm_ratio"], 4), "odd_norm_ratio"),
        ("Mean angle from it to the others", f"{odd['angle_to_rest_mean']:.1f}°", "odd_angle_deg"),
        ("Mean angle among the others", f"{odd['angle_within_rest_mean']:.1f}°", "cluster_angle_deg"),
        ("Share of squared length in the plane drawn", f"{100 * kept:.0f} %", ""),
    ]
    about = (
        f"Layer {state.layer} of the first network. Recentring with ReLU sends one sample away from all others and "
        "lets these collapse to a point at 90° to it."
    )
    return [html.P(about, className="about"), parts.facts(rows, className="pairs")]
