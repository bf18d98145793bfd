"""The page around the labs: its frame, which lab an address means, and what every lab's state has in common."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update

from isometer._version import __version__
from isometer.explore import _guard as guard
from isometer.explore import _routes as routes
from isometer.explore._desk import Desk
from isometer.explore._labs import all_labs, read_state
from isometer.explore.labs.parts import aria, data

__all__ = ["make_app"]


def make_app(gallery: str | Path | None = None, *, desk: Desk | None = None, hosts: tuple[str, ...] = ()) -> Dash:
    """The explorer as a Dash application; `serve` runs it.

    Args:
        gallery: a folder that `isometer reproduce` wrote, whose figures the ledger shows; without one it shows what
            each study declares.
        desk: where computations are done; one of its own by default.
        hosts: names, besides localhost and addresses, under which browsers may ask for the page.

    Returns:
        The application. Its `server` is a WSGI application that refuses requests for other hosts.

    Example:
        >>> app = make_app()
        >>> app.server.test_client().get("/", headers={"Host": "example.org"}).status_code
        403
    """
    used = desk if desk is not None else Desk()
    app = Dash(
        "isometer.explore",
        title="Isometer",
        update_title="",
        assets_folder=str(Path(__file__).parent / "assets"),
        suppress_callback_exceptions=True,  # callbacks name elements of labs that are not shown yet
        serve_locally=True,
        compress=False,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    app.layout = _shell
    app.index_string = _INDEX
    folder = None if gallery is None else Path(gallery)
    for lab in all_labs():
        _connect(app, lab)
        _page(lab).register(app, used, folder)
    app.callback(Output("main", "children"), Input("place", "data"))(_lab_at)
    _clientside(app, "place", Output("place", "data"), Input("tab", "data"))
    _clientside(app, "theme", Output("theme", "data"), Input("theme-toggle", "n_clicks"))
    _clientside(app, "cobweb", Input("activation-kernel", "figure"), Input("activation-part-path", "data"))
    routes.register(app, used, folder)
    guard.protect(app, hosts)
    return app


_INDEX = """<!DOCTYPE html>
<html lang="en">
<head>{%metas%}<title>{%title%}</title>{%favicon%}{%css%}</head>
<body>
<noscript>The explorer needs JavaScript.</noscript>
{%app_entry%}
<footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>"""


def _clientside(app: Dash, name: str, *arguments: Any) -> None:
    untyped: Any = app
    untyped.clientside_callback(ClientsideFunction("isometer", name), *arguments)


def _shell() -> html.Div:
    """The page without a lab; each load is a tab of its own."""
    links = [html.A(lab.title, href=f"/{name}", **data(nav=name)) for name, lab in all_labs().items()]
    header = html.Header(
        [
            html.A("Skip to the lab", href="#main", className="skip"),
            html.A(
                [html.Span("▚", **aria(hidden="true")), " Isometer"],
                href="/start",
                className="brand",
                **data(nav="start"),
            ),
            html.Nav(links, **aria(label="Labs")),
            html.Button("Dark", id="theme-toggle", type="button", className="toggle"),
        ],
        className="top",
    )
    return html.Div(
        [
            dcc.Store(id="tab", data=secrets.token_urlsafe(12)),
            dcc.Store(id="theme", data="light"),
            dcc.Store(id="place"),
            header,
            html.Main(id="main", tabIndex="-1"),
            html.Div(f"Isometer {__version__} · computed on this machine, nothing leaves it", className="bottom"),
        ]
    )


def _page(lab: str) -> ModuleType:
    return import_module(all_labs()[lab].page)


def lab_of(path: str) -> str:
    """The lab that a path means; the first one if none.

    Example:
        >>> lab_of("/depth"), lab_of("/nowhere")
        ('depth', 'start')
    """
    name = path.strip("/").split("/")[0]
    return name if name in all_labs() else next(iter(all_labs()))


def _lab_at(place: Mapping[str, Any] | None) -> Any:
    """The lab of an address, in the state that the address says."""
    if not isinstance(place, Mapping):
        return no_update
    lab = lab_of(str(place.get("path", "")))
    state, notes = read_state(lab, str(place.get("search", "")))
    stores = [
        dcc.Store(id=f"{lab}-draft"),
        dcc.Store(id=f"{lab}-notes", data=notes),
        dcc.Store(id=f"{lab}-state", data=state.query()),
        *(dcc.Store(id=f"{lab}-part-{part}", data=_part(state, keys)) for part, keys in _page(lab).PARTS.items()),
    ]
    return [*stores, _page(lab).layout(state)]


def _part(state: Any, keys: tuple[str, ...]) -> dict[str, str]:
    texts = state.texts()
    return {key: texts[key] for key in keys}


def _connect(app: Dash, lab: str) -> None:
    """Draft → state, notes and parts; a part that did not change is left alone, so that nothing is drawn twice."""
    parts = _page(lab).PARTS
    names = list(parts)

    @app.callback(
        Output(f"{lab}-state", "data"),
        Output(f"{lab}-notes", "data"),
        *(Output(f"{lab}-part-{name}", "data") for name in names),
        Input(f"{lab}-draft", "data"),
        State(f"{lab}-state", "data"),
        *(State(f"{lab}-part-{name}", "data") for name in names),
        prevent_initial_call=True,
    )
    def settle(draft: Any, query: str, *before: Any) -> tuple[Any, ...]:
        if not isinstance(draft, Mapping):
            return (no_update,) * (2 + len(names))
        present, _ = read_state(lab, query or "")
        state, notes = read_state(lab, {**present.texts(), **draft})
        after = [_part(state, parts[name]) for name in names]
        changed = [new if new != old else no_update for new, old in zip(after, before, strict=True)]
        new_query = state.query()
        return (new_query if new_query != query else no_update, notes, *changed)

    _clientside(app, "address", Input(f"{lab}-state", "data"))
