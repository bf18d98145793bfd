"""Who may ask: requests must name this machine, come from this page, and be of a bounded size."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from dash import Dash
from dash.exceptions import DependencyException
from flask import Response, abort, request

from isometer.explore._components import check_components
from isometer.explore._state import LIMITS

__all__ = ["allowed_host", "protect"]


def allowed_host(header: str, names: tuple[str, ...] = ()) -> bool:
    """Whether a Host header can only mean this machine.

    A name of a stranger's domain that resolves to 127.0.0.1 (DNS rebinding) is refused; an address is not a name.

    Args:
        header: of the request.
        names: further names that are meant.

    Returns:
        True for localhost, addresses and the names.

    Example:
        >>> [allowed_host(host) for host in ("127.0.0.1:8050", "localhost", "[::1]:80", "evil.example:8050", "")]
        [True, True, True, False, False]
    """
    try:
        host = (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if host == "localhost" or host in {name.lower() for name in names}:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def from_elsewhere(host: str, path: str, method: str, headers: Mapping[str, str]) -> bool:
    """Whether another web page makes a browser send a request.

    Browsers say so (`Sec-Fetch-Site`, and `Origin` where a page reads the answer); other programs need not. A link of
    another page to the explorer may be followed, but not to what computes at once.

    Args:
        host: host of the request.
        path: path of its address.
        method: of it.
        headers: of it.

    Example:
        >>> link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        >>> from_elsewhere("localhost", "/depth", "GET", link), from_elsewhere("localhost", "/csv/a/b", "GET", link)
        (False, True)
    """
    origin = headers.get("Origin")
    if origin is not None and _netloc(origin) != host:
        return True
    if headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none"):
        return False
    followed = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    return not followed or method not in ("GET", "HEAD") or path.startswith(("/csv/", "/_dash"))


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def protect(app: Dash, names: tuple[str, ...] = ()) -> None:
    """Refuse what does not come from the page itself, and tell browsers to load nothing from elsewhere."""
    # Base64 makes an upload a third larger, and the rest of a callback's request comes on top.
    most = int(LIMITS["upload"].high * 1.4) + 1_000_000
    app.server.config["MAX_CONTENT_LENGTH"] = most
    hashes = " ".join(app.csp_hashes())
    policy = "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' {hashes}",
            "style-src 'self' 'unsafe-inline'",  # Dash and Plotly write style attributes
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )

    def check() -> None:
        if not allowed_host(request.host, names):
            abort(403, "the explorer answers to localhost and addresses only; start it with --host NAME for a name")
        if from_elsewhere(request.host, request.path, request.method, dict(request.headers)):
            abort(403, "this request comes from another page")

    def tell(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        return response

    def absent(_: Exception) -> Response:
        return Response("there is no such file\n", status=404, mimetype="text/plain")

    app.server.before_request(check)
    check_components(app, most)
    app.server.register_error_handler(DependencyException, absent)  # of a library that the page does not use
    app.server.after_request(tell)


def own_names(host: str) -> tuple[str, ...]:
    """Names under which a browser may reach a server that listens on a host which is not loopback.

    Example:
        >>> own_names("127.0.0.1")
        ()
    """
    return () if only_this_machine(host) else (host, socket.gethostname(), socket.getfqdn())


def only_this_machine(host: str) -> bool:
    """Whether nobody else can reach a server that listens on a host.

    Example:
        >>> [only_this_machine(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "192.0.2.1", "box.lan")]
        [True, True, True, False, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
