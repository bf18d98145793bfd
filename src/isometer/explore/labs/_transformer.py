"""The transformer lab."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, html

from isometer.errors import IsometerError
from isometer.explore import _python_lines as python_lines
from isometer.explore._desk import Computation, Desk
from isometer.explore._transformer_state import AXES, TransformerState
from isometer.explore.labs import parts
from isometer.explore.pictures import _transformer as pictures
from isometer.report._numbers import number as shown

_BLOCK = ("norm", "norm_kind", "activation", "mlp", "blocks", "tokens", "qk_gain", "branch", "mlp_gain", "cosine")
PARTS = {"path": _BLOCK, "diagram": (*_BLOCK, "across", "up")}
"""Which values each part of the page depends on."""

_PLACES = {
    "pre": "before each branch (GPT-2, Llama)",
    "post": "after each sum (original)",
    "sandwich": "before and after each branch",
    "peri": "before and after each branch, and on the embedding",
    "deep": "after each sum, DeepNorm",
    "none": "none",
}
_VERDICTS = {
    "open": "Tokens stay distinct, attention reads several of them, and gradients survive.",
    "rank collapse": "Tokens become alike: the last block cannot distinguish them.",
    "entropy collapse": "Every query reads about one token: attention barely mixes tokens, and its softmax saturates.",
    "vanishing gradients": "Gradients vanish on the way back to the input.",
    "exploding gradients": "Gradients explode on the way back to the input.",
    "diverged": "The signal overflows.",
}


def layout(state: TransformerState) -> html.Div:
    """The page of a state."""
    t = state.texts()
    controls = [
        parts.select("norm", "Position of the norm", t["norm"], _PLACES),
        parts.select("norm_kind", "Norm", t["norm_kind"], {"layer": "layer norm", "rms": "RMS norm"}),
        parts.select("mlp", "MLP", t["mlp"], {"plain": "two layers", "gated": "gated", "none": "none: attention only"}),
        parts.text("activation", "Activation of the MLP", t["activation"], hint="A name, or an expression in x"),
        html.H2("Scales"),
        parts.slider("qk_gain", "Gain of queries and keys", t["qk_gain"], step=0.05),
        parts.slider("branch", "Branch factor", t["branch"], step=0.01),
        parts.slider("mlp_gain", "Gain of the MLP", t["mlp_gain"], step=0.05),
        html.H2("Size"),
        parts.slider("blocks", "Blocks", t["blocks"], step=1),
        parts.slider("tokens", "Tokens", t["tokens"], step=1),
        parts.slider("cosine", "Cosine of tokens at the input", t["cosine"], step=0.01),
        html.H2("Diagram"),
        parts.select("across", "Across", t["across"], {one: pictures.AXIS_NAMES[one] for one in AXES}),
        parts.select("up", "Upwards", t["up"], {one: pictures.AXIS_NAMES[one] for one in AXES}),
    ]
    body = [
        parts.notice("transformer-notice"),
        parts.notice("transformer-diagram-notice"),
        html.Div(id="transformer-told", className="card told", **parts.aria(live="polite")),
        html.Div(
            [
                parts.picture(
                    "transformer-diagram",
                    "Where the signal survives",
                    "The state of the last block over two numbers; the controls set all others. Drag in the picture to "
                    "move.",
                    height="square",
                    quantity="token_phase",
                ),
                parts.picture("transformer-cosine", "Cosines of tokens", height="square", quantity="token_cosine"),
                parts.picture("transformer-entropy", "Entropy of attention", quantity="attention_entropy"),
                parts.picture("transformer-gradient", "Gradients", quantity="gradient_log_norm"),
            ],
            className="pictures",
        ),
        parts.python_card("transformer-python"),
    ]
    lead = "What attention blocks do to the tokens of a sequence: many wide heads, exchangeable tokens, full attention."
    return parts.lab_page("transformer", "Transformer lab", lead, controls, body)


def path_job(state: TransformerState) -> Computation:
    """Tokens, entropy and gradients by block.

    Example:
        >>> path_job(TransformerState()).name
        'tokens_by_block'
    """
    return Computation("tokens_by_block", {"network": state.network(), "cosine": state.cosine})


def diagram_job(state: TransformerState) -> Computation:
    """The plane of two numbers; what the axes set is left out of the key: moving along them computes nothing."""
    default = TransformerState()
    fixed = replace(state, **{name: getattr(default, name) for name in (state.across, state.up)})
    more = {"across": state.across, "up": state.up}
    return Computation("tokens_diagram", {"network": fixed.network(), "cosine": state.cosine, **more})


def register(app: Dash, desk: Desk, gallery: Path | None) -> None:
    """Let the page react."""

    @app.callback(
        Output("transformer-notice", "children"),
        Output("transformer-told", "children"),
        Output("transformer-cosine", "figure"),
        Output("transformer-entropy", "figure"),
        Output("transformer-gradient", "figure"),
        Input("transformer-part-path", "data"),
        Input("theme", "data"),
        Input("transformer-notes", "data"),
        State("tab", "data"),
    )
    def by_block(values: Any, theme: str, notes: list[str], tab: str) -> tuple[Any, ...]:
        state, _ = TransformerState.read(values or {})
        [found] = parts.asked(desk, tab, "path", [path_job(state)])
        if isinstance(found, IsometerError):
            return parts.messages([str(found), *(notes or [])]), [], parts.blank(), parts.blank(), parts.blank()
        drawn = (pictures.cosine_picture, pictures.entropy_picture, pictures.gradient_picture)
        return parts.messages(notes or []), _told(found), *(draw(found, theme) for draw in drawn)

    @app.callback(
        Output("transformer-diagram", "figure"),
        Output("transformer-diagram-notice", "children"),
        Input("transformer-part-diagram", "data"),
        Input("theme", "data"),
        State("tab", "data"),
    )
    def diagram(values: Any, theme: str, tab: str) -> tuple[Any, Any]:
        state, _ = TransformerState.read(values or {})
        [found] = parts.asked(desk, tab, "diagram", [diagram_job(state)])
        if isinstance(found, IsometerError):
            return parts.blank(), parts.messages([f"No diagram: {found}"])
        here = float(getattr(state, state.across)), float(getattr(state, state.up))
        return pictures.diagram_picture(found, state.across, state.up, here, theme), []

    @app.callback(Output("transformer-python", "children"), Input("transformer-state", "data"))
    def python(query: str) -> str:
        return python_lines.transformer_lines(TransformerState.read(query or "")[0])


def _told(found: Any) -> list[Any]:
    last = {name: found[name][-1] for name in ("token_cosine", "attention_entropy", "attention_participation", "rms")}
    rows = [
        ("Cosine of tokens", _value(last["token_cosine"]), "token_cosine"),
        (
            "Entropy of attention",
            f"{_value(last['attention_entropy'])} of {shown(found['most_entropy'], 3)} nats",
            "attention_entropy",
        ),
        ("Tokens that a query reads", _value(last["attention_participation"]), "attention_participation"),
        ("Strength of scores β (critical: 1.414)", _value(found["score_strength"][-1]), "score_strength"),
        ("log E ‖J‖² from input to output", _value(found["log_jacobian"][0]), "log_jacobian"),
    ]
    steady = found["exponents"]
    if steady is not None:
        rows.append(("Angle exponent per block", _value(steady["angle"]), "angle_exponent"))
        rows.append(("Gradient exponent per block", _value(steady["gradient"]), "gradient_exponent"))
    title = f"{found['phase'].capitalize()}."
    return [html.P([html.Strong(title), f" {_VERDICTS[found['phase']]}"]), parts.facts(rows)]


def _value(value: Any) -> str:
    if value is None or isinstance(value, str):
        return {"inf": "∞", "-inf": "−∞"}.get(str(value), "–")
    return shown(float(value), 4)
