"""Pieces of which all labs are made: controls, cards with a picture, messages.

A control is an element with `data-control`; the page's script collects the values of all controls of a lab, waits
until they rest for a moment, and hands them to the lab's draft.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dash import dcc, html
from dash.exceptions import PreventUpdate

from isometer.explore._desk import Computation, Desk, Superseded
from isometer.explore._state import LIMITS
from isometer.metrics._theory_numbers import meaning
from isometer.report._citations import PAPERS, CitedPaper, cited

NORM_PLACES = {"pre": "before φ", "post": "after φ", "sum": "after the skip’s sum"}
TIPS: Mapping[str, str] = {
    "Depth": "Number of layers with weights.",
    "Width": "Features per layer. Theory holds at infinite width; simulation has this one.",
    "Batch": "Samples that pass through the network together.",
    "Networks simulated": "Independent random networks; the band holds 95 % of them.",
    "Gain of the weights": "Standard deviation of the weights times the root of their number of inputs.",
    "Gain g in φ(g·x)": "Standard deviation of the weights times the root of their number of inputs.",
    "Residual strength γ": "Strength of the branch beside a skip: x + γ f(x). Without a number there is no skip.",
    "Branch strength γ": "Strength of the branch beside a skip: x + γ f(x). Without a number there is no skip.",
    "Normalisation": "What is subtracted and divided by, in each layer.",
    "Norm": "What is subtracted and divided by, in each layer.",
    "Weights": "The law of the random weights.",
    "Samples": "How the samples of the batch relate to each other at the input.",
    "Seed": "The same seed gives the same weights and samples.",
    "Layer": "Layer 0 is the input.",
    "Layer shown below": "Layer 0 is the input.",
    "Cosine at the start ρ₀": "Cosine of the two inputs before the first layer: 1 if they are alike, 0 if unrelated.",
    "Layers": "How many times the kernel map is applied.",
    "σ_w of the weights": "Standard deviation of the weights times the root of their number of inputs.",
    "σ_b of the biases": "Standard deviation of the biases.",
    "Gain of queries and keys": "Factor of query and key weights: larger ones make attention sharper.",
    "Branch factor": "Factor of each branch beside its skip.",
    "Gain of the MLP": "Factor of the weights of the MLP.",
    "Blocks": "Each has attention and an MLP.",
    "Tokens": "Length of the sequence, T.",
    "Cosine of tokens at the input": "Of two tokens of one sample, before the first block.",
    "Stress test": "Short trainings of copies, beside the same architecture initialised by the book.",
    "Position of the norm": "Where each layer or block normalises: it decides what the skip carries.",
}
"""What controls set, by their labels."""
GRAPH: Any = {"displaylogo": False, "responsive": True, "displayModeBar": False}


def data(**values: Any) -> dict[str, Any]:
    """Attributes `data-…` of an element.

    Example:
        >>> data(control="rho")
        {'data-control': 'rho'}
    """
    return {f"data-{name}": value for name, value in values.items()}


def aria(**values: Any) -> dict[str, Any]:
    """Attributes `aria-…` of an element.

    Example:
        >>> aria(label="Remove relu")
        {'aria-label': 'Remove relu'}
    """
    return {f"aria-{name}": value for name, value in values.items()}


def term(label: Any, quantity: str) -> Any:
    """The name of a quantity, explained by the catalogue when it is pointed at, touched or reached with the Tab key.

    Example:
        >>> term("Rank", "effective_rank").to_plotly_json()["props"]["data-tip"]
        'Directions that the batch uses: exp of the entropy of its spectrum.'
    """
    told = meaning(quantity)
    return explained(label, told) if told else label


def explained(label: Any, told: str) -> html.Span:
    """A name with an explanation that appears when it is pointed at, touched or reached with the Tab key.

    Example:
        >>> explained("Power", "What a check would have seen.").to_plotly_json()["props"]["className"]
        'term'
    """
    return html.Span(label, className="term", tabIndex="0", **data(tip=told), **aria(description=told))


def subscripted(text: str) -> list[Any]:
    """A text with σ_w and σ_b as they are printed.

    Example:
        >>> subscripted("σ_w of the weights")
        ['', 'σ', Sub('w'), ' of the weights']
    """
    pieces = re.split(r"(σ)_(\w)", text)
    return [html.Sub(piece) if place % 3 == 2 else piece for place, piece in enumerate(pieces)]


def control(key: str, label: str, field: Any, hint: str = "", reading: str | None = None) -> html.Label:
    """A labelled control; `reading` shows the value of a slider beside its label."""
    told = TIPS.get(label, "")
    explained = {"tabIndex": "0", **data(tip=told), **aria(description=told)} if told else {}
    head: list[Any] = [html.Span(subscripted(label), className="name term" if told else "name", **explained)]
    if reading is not None:
        head.append(html.Span(reading, className="reading"))
    parts: list[Any] = [html.Span(head, className="head"), field]
    if hint:
        parts.append(html.Small(hint))
    return html.Label(parts, className="control", **data(control=key))


def slider(
    key: str, label: str, value: str, *, step: float, low: float | None = None, high: float | None = None
) -> Any:
    """A slider over the limits of its name."""
    limit = LIMITS.get(key)
    least, most = (limit.low, limit.high) if limit is not None else (0, 1)
    field = dcc.Input(
        type="range",
        id=f"control-{key}",
        min=least if low is None else low,
        max=most if high is None else high,
        step=step,
        value=value,
    )
    return control(key, label, field, reading=value)


def number(key: str, label: str, value: str, *, step: float | str = 1, hint: str = "", empty: str = "") -> Any:
    """A field for a number within the limits of its name."""
    limit = LIMITS[key]
    field = dcc.Input(
        type="number",
        id=f"control-{key}",
        min=limit.low,
        max=limit.high,
        step=step,
        value=float(value) if value else None,
        placeholder=empty,
    )
    return control(key, label, field, hint)


def text(key: str, label: str, value: str, *, hint: str = "", options: str | None = None, example: str = "") -> Any:
    """A field for a line of text."""
    more: dict[str, Any] = {"list": options} if options else {}
    field = dcc.Input(type="text", id=f"control-{key}", value=value, placeholder=example, spellCheck="false", **more)
    return control(key, label, field, hint)


def select(key: str, label: str, value: str, options: Mapping[str, str] | Sequence[str], hint: str = "") -> Any:
    """A choice among a few words."""
    pairs = options.items() if isinstance(options, Mapping) else [(one, one) for one in options]
    field = html.Select(
        [html.Option(name, value=one, selected=one == value) for one, name in pairs], id=f"control-{key}"
    )
    return control(key, label, field, hint)


def hidden(key: str, value: str) -> Any:
    """A control without a face, which buttons with `data-give` set."""
    field = dcc.Input(type="hidden", id=f"control-{key}", value=value)
    return html.Div(field, hidden=True, **data(control=key))


def give(label: Any, key: str, value: str, **more: Any) -> html.Button:
    """A button that gives a control a value."""
    return html.Button(label, type="button", **data(give=key, value=value), **more)


def play(high: int) -> html.Button:
    """A button that runs the control `layer` from the input to its end."""
    return html.Button("Play", type="button", className="play", **data(run="layer", high=str(high)))


def facts(rows: Iterable[tuple[Any, str, str]], **more: Any) -> html.Dl:
    """Names, values and the quantity that explains each name."""
    cells = [cell for name, value, quantity in rows for cell in (html.Dt(term(name, quantity)), html.Dd(value))]
    return html.Dl(cells, **more)


def citations(ids: Iterable[str]) -> list[Any]:
    """The papers of inventory IDs with title, link and the places in them; IDs of other papers as they are."""
    found = list(ids)
    known = [_citation(paper, places) for paper, places in cited(found)]
    other = [html.Span(one) for one in found if one.partition("/")[0] not in PAPERS]
    return [part for one in (*known, *other) for part in (one, "; ")][:-1]


def _citation(paper: CitedPaper, places: Sequence[str]) -> html.Cite:
    link = html.A(f"“{paper.title}”", href=paper.link, target="_blank", rel="noopener noreferrer")
    return html.Cite([f"{paper.cited}, ", link, "".join(f", {place}" for place in places)])


def pages(page: int, count: int) -> list[Any]:
    """Buttons to the page before and after."""
    if count <= 1:
        return []
    return [
        give("Previous", "page", str(page - 1), disabled=page <= 1),
        html.Span(f"page {page} of {count}"),
        give("Next", "page", str(page + 1), disabled=page >= count),
    ]


def picture(
    name: str,
    title: str,
    about: str = "",
    *,
    csv: str = "",
    height: str = "",
    quantity: str = "",
    buttons: Iterable[Any] = (),
    above: Iterable[Any] = (),
) -> html.Section:
    """A card with a graph of a quantity, and buttons that download it as PNG and SVG and its curves as CSV."""
    saving = [
        *buttons,
        html.Button("PNG", type="button", title=f"Download “{title}” as PNG", **data(save="png", graph=name)),
        html.Button("SVG", type="button", title=f"Download “{title}” as SVG", **data(save="svg", graph=name)),
    ]
    told_csv = f"Download the numbers of “{title}”"
    if csv:
        saving.append(html.A("CSV", href=f"/csv/{csv}", title=told_csv, **data(csv=csv)))
    else:
        saving.append(html.Button("CSV", type="button", title=told_csv, **data(save="csv", graph=name)))
    head = html.Header([html.H3(term(title, quantity), id=f"{name}-title"), html.Div(saving, className="downloads")])
    graph_part = html.Div(dcc.Graph(id=name, config=GRAPH, figure=blank()), className=f"graph {height}".strip())
    told = [html.P(about, className="about")] if about else []
    return html.Section(
        [head, *told, *above, graph_part], className="card", id=f"{name}-card", **aria(labelledby=f"{name}-title")
    )


def blank() -> dict[str, Any]:
    """A figure with nothing in it, in the page's colours."""
    axis = {"visible": False}
    clear = "rgba(0,0,0,0)"
    return {"data": [], "layout": {"xaxis": axis, "yaxis": axis, "paper_bgcolor": clear, "plot_bgcolor": clear}}


def python_card(name: str) -> html.Details:
    """A card with the Python lines that give the same numbers."""
    return html.Details(
        [
            html.Summary("The same in Python"),
            html.Div(html.Button("Copy", type="button", **data(copy=name)), className="downloads"),
            html.Pre(html.Code(id=name), tabIndex="0"),
        ],
        className="card python",
    )


def messages(lines: Iterable[str]) -> list[Any]:
    """Messages, one paragraph each; text is text, whatever it says."""
    return [html.P(line) for line in dict.fromkeys(lines) if line]


def notice(name: str) -> html.Div:
    """Where messages appear; read out by screen readers."""
    return html.Div(id=name, className="notice", role="status", **aria(live="polite"))


def lab_page(lab: str, title: str, lead: str, controls: list[Any], body: list[Any]) -> html.Div:
    """A lab: a panel of controls and what they control."""
    panel = html.Details(
        [html.Summary("Controls"), html.Div(controls, className="controls")], open=True, className="panel", id="panel"
    )
    heading = html.Div([html.H1(title), html.P(lead, className="lead")], className="heading")
    return html.Div(
        [heading, html.Div([panel, html.Div(body, className="body")], className="bench")],
        className="lab",
        **data(lab=lab),
    )


def asked(desk: Desk, tab: Any, slot: str, jobs: Sequence[Computation]) -> list[Any]:
    """Results of jobs; a request that a newer one replaced changes nothing on the page."""
    try:
        return desk.ask(str(tab)[:64], slot, jobs)
    except Superseded:
        raise PreventUpdate from None
