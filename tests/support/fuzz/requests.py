"""Requests to the explorer as bytes: methods, addresses, headers and bodies of every kind, cut or never finished."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from isometer.errors import IsometerError
from support.fuzz.mutation import ODD, document, replaced
from support.fuzz.target import PromiseBroken, Target

_METHODS = (
    "GET",
    "POST",
    "HEAD",
    "PUT",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "CONNECT",
    "get",
    "",
    "A" * 300,
    "G\x00T",
)
_PATHS = (
    "/", "/depth", "/csv/depth/gram", "/csv/activation/kernel?activations=relu", "/csv/clinic/x", "/csv/nowhere/x",
    "/csv/depth/gram?width=1e999&depth=%00&norm=%ff", "/_dash-layout", "/_dash-dependencies", "/_reload-hash",
    "/_dash-component-suites/dash/x.js", "/_dash-component-suites/nothing/x.js", "/_dash-component-suites/dash/../../x",
    "/assets/explore.js", "/assets/../_guard.py", "/assets/%2e%2e/_guard.py", "/assets/\x00", "/static/x", "/x.ico",
    "/gallery/x/figure.png", "/gallery/../figure.png", "//evil.example/x", "http://[", "http://evil.example/", "*", "?",
    "/" + "a" * 70_000, "/%", "/%zz?%zz=%&&&=", "/é", "", "/_favicon.ico", "/depth?" + "a=b&" * 2000,
)  # fmt: skip
_HEADERS = (
    "Host: localhost", "Host: evil.example", "Host: [::1", "Host:", "Host: a\r\nHost: b", "Origin: null", "Origin: http://[",
    "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-origin", "Cookie: \x00=;;;=", "Range: bytes=5-1", "Range: x",
    "If-Modified-Since: never", "If-None-Match: \"", "Accept-Encoding: \xff", "Expect: 100-continue", "Expect: x",
    "Content-Type: text/plain", "Content-Type: application/json", "Content-Type: application/json; charset=utf-16",
    "Content-Type: multipart/form-data; boundary=x", "Content-Type: ;;;", "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip", "Content-Length: -1", "Content-Length: x", "Content-Length: 99999999999999999999",
    "Content-Length: 5", "Connection: keep-alive", "Upgrade: websocket", "X: " + "a" * 70_000, "no colon", ": empty",
    "X-Forwarded-Host: evil.example", "Authorization: Basic x", "A: b\r\n c", *(["A: b"] * 3),
)  # fmt: skip


class _NoDesk:
    """Computes nothing."""

    def ask(self, tab: str, slot: str, jobs: Sequence[Any]) -> list[Any]:
        return [IsometerError("not computed here") for _ in jobs]

    def remembered(self, job: Any) -> None:
        return None


@cache
def _explorer() -> tuple[int, list[dict[str, Any]]]:
    """A port on which an explorer listens that is less patient than usual, and what its page asks for."""
    from isometer.explore import _connections, make_app

    _connections.HEADER_SECONDS, _connections.BODY_SECONDS, _connections._DRAIN = 0.3, 0.3, 0.1
    app = make_app(desk=_NoDesk())  # type: ignore[arg-type]
    server = _connections.Server("127.0.0.1", 0, app.server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    known = app.server.test_client().get("/_dash-dependencies").json
    return server.port, [one for one in known if not one.get("clientside_function")]


def _component(rng: np.random.Generator) -> dict[str, Any]:
    """What a page sends, with any values."""
    known = _explorer()[1]
    one = known[int(rng.integers(len(known)))]
    parts = one["output"].strip(".").split("...")
    outputs = [dict(zip(("id", "property"), part.rsplit(".", 1), strict=True)) for part in parts]

    def filled(place: dict[str, str]) -> dict[str, Any]:
        return {**place, "value": ODD[int(rng.integers(len(ODD)))] if rng.uniform() < 0.7 else {"depth": "3"}}

    return {
        "output": one["output"],
        "outputs": outputs if one["output"].startswith("..") else outputs[0],
        "inputs": [filled(place) for place in one["inputs"]],
        "state": [filled(place) for place in one["state"]],
        "changedPropIds": [f"{place['id']}.{place['property']}" for place in one["inputs"][:1]],
    }


def draw(rng: np.random.Generator) -> dict[str, Any]:
    """The bytes of a request as Latin-1, and what the client does then: wait, or say that nothing more comes."""
    if rng.uniform() < 0.6:
        asked = _component(rng)
        if rng.uniform() < 0.3:
            asked = replaced(asked, (list(asked)[int(rng.integers(5))],), ODD[int(rng.integers(len(ODD)))])
        body = json.dumps(asked) if rng.uniform() < 0.6 else document(rng, asked)
        head = ["POST /_dash-update-component HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        if rng.uniform() < 0.15:
            head.append("Transfer-Encoding: chunked")
            body = [f"{len(body):x}\r\n{body}\r\n0\r\n\r\n", body, "-5\r\nabc", "fffffffff\r\nabc"][
                int(rng.integers(4))
            ]
        else:
            head.append(f"Content-Length: {len(body)}")
    else:
        version = ("HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/9.9", "", "x")[int(rng.choice(6, p=[0.6, *[0.08] * 5]))]
        line = f"{rng.choice(_METHODS)} {_PATHS[int(rng.integers(len(_PATHS)))]} {version}"
        head = [line, *(["Host: localhost"] if rng.uniform() < 0.8 else [])]
        body = document(rng, {"a": 1}) if rng.uniform() < 0.3 else ""
    for _ in range(int(rng.integers(0, 4))):
        head.append(_HEADERS[int(rng.integers(len(_HEADERS)))])
    if rng.uniform() < 0.02:
        head += ["X: y"] * 150
    text = "\r\n".join(head).encode("utf-8", "surrogateescape").decode("latin-1") + "\r\n\r\n" + body
    if rng.uniform() < 0.1:
        text = text[: int(rng.integers(len(text)))]
    return {"bytes": text, "ends": bool(rng.uniform() < 0.7)}


def answer(case: dict[str, Any], patience: float = 60.0) -> bytes:
    """What comes back until the server closes the connection."""
    begun, found = time.monotonic(), b""
    with socket.create_connection(("127.0.0.1", _explorer()[0]), timeout=patience) as client:
        try:
            client.sendall(case["bytes"].encode("latin-1"))
            if case["ends"]:
                client.shutdown(socket.SHUT_WR)
            while piece := client.recv(1 << 16):
                found += piece
                client.settimeout(max(0.01, patience - (time.monotonic() - begun)))
        except TimeoutError:
            raise PromiseBroken(f"no end after {patience:g} s; so far {found[:60]!r}") from None
        except OSError:
            pass  # the server has closed what is too large
    return found


def check(case: dict[str, Any]) -> None:
    """An answer that is no failure of the server, or a closed connection; in time."""
    found = answer(case)
    words = found.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").split(b" ", 2)
    if found.startswith(b"HTTP/") and len(words) > 1 and words[1][:1] == b"5" and words[1] not in (b"501", b"505"):
        raise PromiseBroken(f"{found[:120]!r}")


TARGETS = [Target("requests", 2_000, 12, draw, check, everything=True)]
