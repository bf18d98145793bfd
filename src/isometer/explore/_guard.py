"""Who may ask: requests must name this machine, come from this page, and be of a bounded size."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from dash import Dash
from flask import Response, abort, request

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


def protect(app: Dash, names: tuple[str, ...] = ()) -> None:
    """Refuse what does not come from the page itself, and tell browsers to load nothing from elsewhere."""
    # Base64 makes an upload a third larger, and the rest of a callback's request comes on top.
    app.server.config["MAX_CONTENT_LENGTH"] = int(LIMITS["upload"].high * 1.4) + 1_000_000
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
        # Browsers send it with every request other than GET and HEAD; other programs need not.
        origin = request.headers.get("Origin")
        if origin is not None and request.method != "GET" and urlsplit(origin).netloc != request.host:
            abort(403, "this request comes from another page")

    def tell(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        return response

    app.server.before_request(check)
    app.server.after_request(tell)


def own_names(host: str) -> tuple[str, ...]:
    """Names under which a browser may reach a server that listens on a host which is not loopback.

    Example:
        >>> own_names("127.0.0.1")
        ()
    """
    if host in ("127.0.0.1", "::1", "localhost"):
        return ()
    return (host, socket.gethostname(), socket.getfqdn())
