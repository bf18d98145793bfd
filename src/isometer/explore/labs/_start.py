"""The start page: three guided experiments, and what the labs are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, dcc, html

from isometer.errors import IsometerError
from isometer.explore import _requests as requests
from isometer.explore._desk import Desk
from isometer.explore._experiments import (
    EXPERIMENTS,
    GRADIENT,
    GRAM,
    RANK,
    TITLES,
    GuidedStep,
    Settings,
    read_off,
    read_off_cosines,
)
from isometer.explore._labs import Lab, all_labs
from isometer.explore._state import DepthState, StartState
from isometer.explore.labs import parts
from isometer.explore.pictures import _depth as pictures

PARTS = {"picture": ("experiment", "step", "depth", "residual", "layer"), "overview": ("experiment",)}
"""Which values each part of the page depends on."""

_PREVIEWS = {"dies": RANK, "norm": GRADIENT, "skip": GRADIENT}
_DEEPEST = 150  # of an experiment; the depth lab goes on


def layout(state: StartState) -> html.Div:
    """The overview, or one step of an experiment."""
    body = _step_page(state) if state.experiment else _overview()
    return html.Div(body, className="lab start", **parts.data(lab="start"))


def _overview() -> list[Any]:
    heading = html.Div(
        [
            html.H1("What happens to a signal in a deep network?"),
            html.P(
                "A batch passes through a random network, layer after layer. Three experiments of three steps each "
                "show how the network loses the signal, and what preserves it. Everything is computed while you watch.",
                className="lead",
            ),
        ],
        className="heading tall",
    )
    cards = [_card(number, name) for number, name in enumerate(EXPERIMENTS, start=1)]
    labs = [_lab_line(lab) for lab in all_labs().values() if lab.name != "start"]
    return [
        heading,
        html.Div(cards, className="experiments"),
        html.Section([html.H2("Or go straight to a lab"), html.Ul(labs)], className="card labs"),
    ]


def _card(number: int, name: str) -> html.Section:
    one = EXPERIMENTS[name]
    shown = _PREVIEWS[name]
    still: Any = {**parts.GRAPH, "staticPlot": True}
    graph = dcc.Graph(id=f"start-preview-{name}", config=still, figure=parts.blank())
    return html.Section(
        [
            html.H2([html.Span(str(number), className="number-mark"), one.title]),
            html.P(one.summary),
            html.P(parts.term(TITLES[shown], shown), className="about"),
            html.Div(graph, className="graph low"),
            _link("Begin", replace(StartState(), experiment=name), className="primary"),
        ],
        className="card experiment",
        **parts.data(experiment=name),
    )


def _lab_line(lab: Lab) -> html.Li:
    return html.Li([html.A(lab.title, href=f"/{lab.name}", **parts.data(nav=lab.name)), f": {lab.about}"])


def _link(label: str, state: StartState, **more: Any) -> html.A:
    return html.A(label, href=f"/start?{state.query()}", **parts.data(nav="start"), **more)


def _step_page(state: StartState) -> list[Any]:
    experiment = EXPERIMENTS[state.experiment]
    step = experiment.steps[state.step - 1]
    words = html.Section(
        [
            html.P(f"Step {state.step} of {len(experiment.steps)}", className="about"),
            html.H2(step.title),
            *(html.P(line) for line in step.words),
            html.Div(_controls(step, state), className="controls try"),
            html.Div(id="start-told", className="told-box", role="status", **parts.aria(live="polite")),
            _steps(state),
        ],
        className="card words",
    )
    picture = parts.picture("start-picture", TITLES[step.shown], quantity=step.shown, height="tall")
    behind = html.P(["Theory: ", *parts.citations([f"{experiment.paper}/"])], className="about")
    return [
        html.Div(
            [
                html.P(html.A("All experiments", href="/start", **parts.data(nav="start")), className="crumb"),
                html.H1(experiment.title),
                html.P(experiment.summary, className="lead"),
            ],
            className="heading",
        ),
        parts.notice("start-notice"),
        html.Div([words, picture], className="guided"),
        html.Div([html.Div(id="start-more"), behind], className="after"),
    ]


def _controls(step: GuidedStep, state: StartState) -> list[Any]:
    t = state.texts()
    every: dict[str, Callable[[], Any]] = {
        "depth": lambda: parts.slider("depth", "Depth", t["depth"], step=1, low=2, high=_DEEPEST),
        "residual": lambda: parts.slider("residual", "Branch strength γ", t["residual"], step=0.05, low=0.05, high=2),
        "layer": lambda: html.Div(
            [parts.slider("layer", "Layer", t["layer"], step=1, low=0, high=state.depth), parts.play(state.depth)],
            className="with-button",
        ),
    }
    return [every[name]() for name in step.controls]


def _steps(state: StartState) -> html.Nav:
    """To the step before and after; after the last one to the next experiment."""
    names = list(EXPERIMENTS)
    place = names.index(state.experiment)
    base = StartState(experiment=state.experiment)
    links: list[Any] = []
    if state.step > 1:
        links.append(_link("Back", replace(base, step=state.step - 1)))
    if state.step < len(EXPERIMENTS[state.experiment].steps):
        links.append(_link("Next", replace(base, step=state.step + 1), className="primary"))
    elif place + 1 < len(names):
        following = names[place + 1]
        title = f"Next: {EXPERIMENTS[following].title}"
        links.append(_link(title, StartState(experiment=following), className="primary"))
    else:
        links.append(html.A("Examine a model", href="/clinic", className="primary", **parts.data(nav="clinic")))
    return html.Nav(links, className="steps", **parts.aria(label="Steps"))


def register(app: Dash, desk: Desk, gallery: Path | None) -> None:
    """Let the page react."""

    @app.callback(
        Output("start-picture", "figure"),
        Output("start-told", "children"),
        Output("start-more", "children"),
        Output("start-notice", "children"),
        Input("start-part-picture", "data"),
        Input("theme", "data"),
        State("start-notes", "data"),
        State("tab", "data"),
    )
    def picture(values: Any, theme: str, notes: Any, tab: str) -> tuple[Any, ...]:
        state, _ = StartState.read(values or {})
        if not state.experiment:
            return parts.blank(), [], [], []
        step = EXPERIMENTS[state.experiment].steps[state.step - 1]
        settings = step.settings(state)
        drawn, told, problems = (_gram if step.shown == GRAM else _curves)(desk, tab, step, settings, theme)
        return drawn, parts.messages(told), _more(settings), parts.messages([*problems, *(notes or [])])

    @app.callback(
        *(Output(f"start-preview-{name}", "figure") for name in EXPERIMENTS),
        Input("start-part-overview", "data"),
        Input("theme", "data"),
        State("tab", "data"),
    )
    def previews(_: Any, theme: str, tab: str) -> tuple[Any, ...]:
        settings = {name: one.steps[1].settings(StartState()) for name, one in EXPERIMENTS.items()}
        jobs = [requests.simulation_job(network) for pair in settings.values() for _, network in pair]
        found = iter(parts.asked(desk, tab, "previews", jobs))
        figures = []
        for name, pair in settings.items():
            curves = [(label, _or_none(next(found)), None) for label, _ in pair]
            figures.append(pictures.compared_picture(_PREVIEWS[name], curves, theme))
        return tuple(figures)


def _curves(desk: Desk, tab: str, step: GuidedStep, settings: Settings, theme: str) -> tuple[Any, list[str], list[str]]:
    jobs = [make(network) for _, network in settings for make in (requests.simulation_job, requests.prediction_job)]
    found = parts.asked(desk, tab, "start", jobs)
    problems = [str(one) for one in found if isinstance(one, IsometerError)]
    pairs = [(_or_none(found[2 * i]), _or_none(found[2 * i + 1])) for i in range(len(settings))]
    curves = [(name, *pair) for (name, _), pair in zip(settings, pairs, strict=True)]
    told = [read_off(step.shown, name, simulated) for name, simulated, _ in curves if simulated is not None]
    return pictures.compared_picture(step.shown, curves, theme), told, problems


def _gram(desk: Desk, tab: str, step: GuidedStep, settings: Settings, theme: str) -> tuple[Any, list[str], list[str]]:
    [(_, network)] = settings
    [found] = parts.asked(desk, tab, "start", [requests.geometry_job(network)])
    if isinstance(found, IsometerError):
        return parts.blank(), [], [str(found)]
    drawn = pictures.gram_picture(found["cosines"], theme, f"layer {network.layer}")
    return drawn, [read_off_cosines(network.layer, found["cosines"])], []


def _or_none(found: Any) -> Any:
    return None if isinstance(found, IsometerError) else found


def _more(settings: Settings) -> Any:
    """The same networks in the depth lab: the last one by its controls, the first one pinned."""
    state: DepthState = settings[-1][1]
    if len(settings) > 1:
        state = replace(state, against=settings[0][1].pinned())
    link = html.A("Open this in the depth lab", href=f"/depth?{state.query()}", **parts.data(nav="depth"))
    return html.P([link, " and change anything."])
