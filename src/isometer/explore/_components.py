"""Requests of the page's components: of a shape that their callbacks take, or refused in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from dash import Dash
from flask import Response, request
from werkzeug.exceptions import ClientDisconnected

from isometer.documents import converted, parse_json
from isometer.errors import IsometerError

_PATH = "/_dash-update-component"
_FIX = "reload the page"
_Place = tuple[str, str]


class _Property(msgspec.Struct):
    id: str
    property: str
    value: Any = None


class _ComponentRequest(msgspec.Struct):
    output: str
    outputs: list[_Property] | _Property
    inputs: list[_Property]
    state: list[_Property] = []
    changedPropIds: list[str] = []


class _Done(msgspec.Struct):
    key: str | None = None
    problem: str | None = None


class _Uploaded(msgspec.Struct):
    problems: list[str] = []


_SHAPES: tuple[tuple[str, Any], ...] = (
    (r"(tab|theme|\w+-state)\.data", str | None),
    (r"(place|\w+-draft|\w+-part-\w+)\.data", dict[str, Any] | None),  # read value by value, as text
    (r"\w+-notes\.data", list[str] | None),
    (r"(depth-done-\w+|clinic-done)\.data", _Done | None),
    (r"clinic-uploaded\.data", _Uploaded | None),
    (r"clinic-upload\.(contents|filename)", list[str] | None),
)
"""What a property of the page may hold, by its name."""


def check_components(app: Dash, most: int) -> None:
    """Refuse requests that no page of the application sends.

    Args:
        app: the application, with all its callbacks.
        most: bytes of a request.
    """
    known: dict[str, dict[str, Any]] = {}

    def check() -> Response | None:
        if request.path != _PATH or request.method != "POST":
            return None
        if not known:  # callbacks are registered by now
            known.update({str(one["output"]): one for one in app._callback_list})
        try:
            content = request.get_data(cache=True)
        except (OSError, ClientDisconnected):  # time is up, chunks that are none, a connection that was closed
            return _refused("the request was incomplete or late — send it again")
        if not request.is_json:
            return _refused(f"the request has the type {request.mimetype[:60]!r}; expected application/json")
        try:
            _check(parse_json(content, _ComponentRequest, what="the request", fix=_FIX, most=most), known)
        except IsometerError as problem:
            return _refused(str(problem))
        return None

    app.server.before_request(check)


def _refused(line: str) -> Response:
    return Response(" ".join(line.split()) + "\n", status=400, mimetype="text/plain")


def _check(asked: _ComponentRequest, known: dict[str, dict[str, Any]]) -> None:
    callback = known.get(asked.output)
    if callback is None or callback.get("clientside_function"):
        raise IsometerError(f"the request names {asked.output[:60]!r}, which the page does not have — {_FIX}")
    for name, came in (("inputs", asked.inputs), ("state", asked.state)):
        expected = [(one["id"], one["property"]) for one in callback[name]]
        if [_place(one) for one in came] != expected:
            raise IsometerError(f"the request has other {name} than {_listed(expected)} — {_FIX}")
    outputs = asked.outputs if isinstance(asked.outputs, list) else [asked.outputs]
    written = "...".join(f"{one.id}.{one.property}" for one in outputs)
    if asked.output != (f"..{written}.." if isinstance(asked.outputs, list) else written):
        raise IsometerError(f"the outputs of the request are not those of {asked.output[:60]!r} — {_FIX}")
    for one in (*asked.inputs, *asked.state):
        _check_value(one)


def _place(one: _Property) -> _Place:
    return one.id, one.property


def _listed(places: Sequence[_Place]) -> str:
    return ", ".join(".".join(place) for place in places) or "none"


def _check_value(one: _Property) -> None:
    name = ".".join(_place(one))
    shape = next((shape for pattern, shape in _SHAPES if re.fullmatch(pattern, name)), Any)
    converted(one.value, shape, what=f"the request's {name}", fix=_FIX)
