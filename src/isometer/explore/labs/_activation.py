"""The activation lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, html

from isometer.activations import registry
from isometer.errors import IsometerError
from isometer.explore import _python_lines as python_lines
from isometer.explore import _requests as requests
from isometer.explore._desk import Desk
from isometer.explore._state import ActivationState
from isometer.explore.labs import parts
from isometer.explore.pictures import _activation as pictures
from isometer.explore.pictures._theme import series
from isometer.metrics._theory_numbers import THEORY_NUMBERS
from isometer.report._cards import FATES
from isometer.report._numbers import number as shown

PARTS = {
    "cards": ("activations", "norm", "position", "residual", "gain", "shown"),
    "path": ("activations", "norm", "position", "residual", "gain", "rho", "layers"),
    "phase": ("activations", "phase", "sigma_w", "sigma_b"),
}
"""Which values each part of the page depends on: a part is computed again only when one of them changes."""

_STATEMENT = "001/thm-5.11"  # where cosines go, by cases


def layout(state: ActivationState) -> html.Div:
    """The page of a state."""
    lead = (
        "What a nonlinearity does to the angle between two inputs, layer after layer, in a network of infinite width."
    )
    return parts.lab_page("activation", "Activation lab", lead, _controls(state), _body())


def _controls(state: ActivationState) -> list[Any]:
    t = state.texts()
    return [
        parts.text(
            "activations",
            "Activations, separated by commas",
            t["activations"],
            hint="Names, or expressions in x: x*sigmoid(x), max(x, 0.2*x), normalized(relu)",
        ),
        html.Label(
            [
                html.Span("Add one", className="head"),
                html.Select(
                    [html.Option("choose …", value=""), *(html.Option(name, value=name) for name in registry())],
                    id="add-activation",
                    **parts.data(append="activations"),
                ),
            ],
            className="control",
        ),
        parts.select("norm", "Normalisation", t["norm"], {"none": "none", "layer": "layer norm", "rms": "RMS norm"}),
        parts.select("position", "Position of the norm", t["position"], parts.NORM_PLACES),
        parts.number("gain", "Gain g in φ(g·x)", t["gain"], step="any"),
        parts.number("residual", "Residual strength γ", t["residual"], step="any", empty="no skip"),
        parts.select("shown", "Draw φ", t["shown"], {"layer": "normalised", "itself": "as written"}),
        html.H2("Two inputs"),
        parts.slider("rho", "Cosine at the start ρ₀", t["rho"], step=0.01),
        parts.slider("layers", "Layers", t["layers"], step=1),
        html.Div(
            [
                html.H2("Phase diagram"),
                html.Div(_phase_choice(state), id="phase-choice"),
                parts.slider("sigma_w", "σ_w of the weights", t["sigma_w"], step=0.01),
                parts.slider("sigma_b", "σ_b of the biases", t["sigma_b"], step=0.01),
            ],
            id="phase-controls",
            className="controls-inner",
        ),
    ]


def _body() -> list[Any]:
    return [
        parts.notice("activation-notice"),
        html.Div(id="activation-chips", className="chips"),
        html.Div(id="activation-table", className="scroll card"),
        html.Div(
            [
                parts.picture(
                    "activation-kernel",
                    "Kernel map and cobweb",
                    "Drag in the picture to choose ρ₀; the path runs to the fixed point ★.",
                    csv="activation/kernel",
                    height="square",
                    quantity="kernel_map",
                    buttons=[html.Button("Play", type="button", **parts.data(play="activation-kernel"))],
                ),
                parts.picture(
                    "activation-distance",
                    "Distance to the fixed point",
                    "A straight line is an exponential rate; a bent one is slower.",
                    csv="activation/path",
                    height="square",
                    quantity="distance",
                ),
                parts.picture("activation-function", "The function", csv="activation/function", quantity="function"),
                parts.picture(
                    "activation-hermite",
                    "Hermite spectrum",
                    "c₀²: mean, c₁²: linear part, the rest: nonlinear.",
                    csv="activation/hermite",
                    quantity="hermite",
                ),
            ],
            className="pictures",
        ),
        html.Div(
            [
                parts.picture(
                    "activation-phase",
                    "Phase diagram",
                    "χ < 1: inputs become alike, gradients vanish. χ > 1: nearby inputs decorrelate, gradients "
                    "explode. Drag in the picture to move.",
                    csv="activation/phase",
                    height="square",
                    quantity="phase_diagram",
                ),
                html.Section(id="activation-point", className="card point", **parts.aria(live="polite")),
            ],
            className="pictures",
            id="activation-phases",
        ),
        parts.python_card("activation-python"),
    ]


def _phase_choice(state: ActivationState) -> Any:
    return parts.select("phase", "Activation of the diagram", state.phase_of, list(state.activations))


def register(app: Dash, desk: Desk, gallery: Path | None) -> None:
    """Let the page react."""

    @app.callback(
        Output("activation-notice", "children"),
        Output("activation-chips", "children"),
        Output("activation-table", "children"),
        Output("activation-function", "figure"),
        Output("activation-hermite", "figure"),
        Output("activation-kernel", "figure"),
        Output("phase-choice", "children"),
        Output("activation-phases", "hidden"),
        Output("phase-controls", "hidden"),
        Input("activation-part-cards", "data"),
        Input("theme", "data"),
        State("activation-notes", "data"),
        State("activation-part-phase", "data"),
        State("tab", "data"),
    )
    def cards(values: Any, theme: str, notes: list[str], phase: Any, tab: str) -> tuple[Any, ...]:
        state, _ = ActivationState.read(values or {})
        found = parts.asked(desk, tab, "cards", requests.card_jobs(state))
        good = [(name, card) for name, card in zip(state.activations, found, strict=True) if isinstance(card, dict)]
        problems = [
            f"{name}: {card}" for name, card in zip(state.activations, found, strict=True) if (name, card) not in good
        ]
        chosen = ActivationState.read({**(values or {}), **(phase or {})})[0]
        return (
            parts.messages([*problems, *(notes or [])]),
            _chips(good, theme),
            _table(good, theme),
            pictures.function_picture(good, state.shown, theme),
            pictures.hermite_picture(good, theme),
            pictures.kernel_picture(good, theme),
            _phase_choice(chosen),
            not _has_phases(state),
            not _has_phases(state),
        )

    @app.callback(
        Output("activation-distance", "figure"),
        Input("activation-part-path", "data"),
        Input("theme", "data"),
        State("tab", "data"),
    )
    def path(values: Any, theme: str, tab: str) -> Any:
        state, _ = ActivationState.read(values or {})
        found = parts.asked(desk, tab, "path", requests.path_jobs(state))
        good = [(name, one) for name, one in zip(state.activations, found, strict=True) if isinstance(one, dict)]
        return pictures.distance_picture(good, theme)

    @app.callback(
        Output("activation-phase", "figure"),
        Output("activation-point", "children"),
        Input("activation-part-phase", "data"),
        Input("theme", "data"),
        State("tab", "data"),
    )
    def phase_diagram(values: Any, theme: str, tab: str) -> tuple[Any, Any]:
        state, _ = ActivationState.read(values or {})
        diagram, point = parts.asked(desk, tab, "phase", requests.phase_jobs(state))
        if isinstance(diagram, IsometerError) or isinstance(point, IsometerError):
            problem = diagram if isinstance(diagram, IsometerError) else point
            return parts.blank(), [html.H3("No phase diagram"), html.P(str(problem))]
        return pictures.phase_picture(diagram, state.sigma_w, state.sigma_b, theme), _point(state, point)

    @app.callback(Output("activation-python", "children"), Input("activation-state", "data"))
    def python(query: str) -> str:
        return python_lines.activation_lines(ActivationState.read(query or "")[0])


def _has_phases(state: ActivationState) -> bool:
    """Whether the plane of variances says what happens: a norm or a skip makes other networks of it."""
    return state.norm == "none" and state.residual is None


def _chips(cards: pictures.Cards, theme: str) -> list[Any]:
    return [
        html.Span(
            [
                html.Span(className="dot", style={"background": series(theme, i)}),
                html.Span(name, className="name"),
                html.Button("×", type="button", **parts.data(remove=name), **parts.aria(label=f"Remove {name}")),
            ],
            className="chip",
        )
        for i, (name, _) in enumerate(cards)
    ]


_ROWS = (
    "case",
    "fixed_point",
    "rate",
    "depth_scale",
    "kernel_slope_at_one",
    "gain_forward",
    "gain_backward",
    "nonlinearity",
)


def _table(cards: pictures.Cards, theme: str) -> Any:
    if not cards:
        return html.P("Nothing to show: correct the activations.", className="empty")
    head = html.Tr(
        [
            html.Th("Activation", scope="col"),
            *(html.Th(parts.term(THEORY_NUMBERS[key].title, key), scope="col") for key in _ROWS),
        ]
    )
    rows = []
    for i, (name, card) in enumerate(cards):
        dot = html.Span(className="dot", style={"background": series(theme, i)})
        cells = [html.Td(_cell(key, card), className="number") for key in _ROWS]
        rows.append(html.Tr([html.Th([dot, name], scope="row"), *cells]))
        told = " ".join(filter(None, (card["conclusion"], card["gradient_sentence"], card["length_sentence"])))
        rows.append(html.Tr(html.Td(html.Div(told), colSpan=len(_ROWS) + 1), className="told"))
    behind = html.P(["Theory: ", *parts.citations([_STATEMENT]), "."], className="about")
    return [html.Table([html.Thead(head), html.Tbody(rows)], className="facts"), behind]


def _cell(key: str, card: Any) -> str:
    value = card[key]
    if key == "case":
        return FATES[value]
    if key == "rate" and value is None:
        exponent = card["rate_exponent"]
        if exponent is None:
            return "–"
        power = {1.0: "", 2.0: "²"}.get(exponent, f"^{exponent:g}")
        return f"∝ 1/depth{power}" if card["rate_form"] == "algebraic" else f"ρ{power or '¹'} per layer"
    return _value(value)


def _value(value: Any) -> str:
    if value is None:
        return "–"
    return {"inf": "∞", "-inf": "−∞"}.get(value, "") if isinstance(value, str) else shown(float(value), 4, beside=1.0)


def _point(state: ActivationState, point: Any) -> list[Any]:
    keys = ("phase", "chi", "variance", "cosine", "length_scale", "correlation_scale")
    values = {key: point[key] if key == "phase" else _value(point[key]) for key in keys}
    title = f"{state.phase_of} at σ_w = {state.sigma_w:g}, σ_b = {state.sigma_b:g}"
    rows = [(THEORY_NUMBERS[key].title, value, key) for key, value in values.items()]
    return [html.H3(parts.subscripted(title)), html.P(point["verdict"], className="verdict"), parts.facts(rows)]
