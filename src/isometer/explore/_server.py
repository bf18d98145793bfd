"""Serving the explorer on this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from werkzeug.serving import BaseWSGIServer

from isometer.errors import IsometerError
from isometer.explore._connections import Server
from isometer.explore._desk import Desk
from isometer.explore._guard import own_names
from isometer.explore._page import make_app

__all__ = ["Running", "running", "serve"]

LOOPBACK = "127.0.0.1"
PORT = 8050
_TRIED = 20


@dataclass(frozen=True)
class Running:
    """An explorer that listens.

    Attributes:
        url: URL of its page.
        desk: where it computes.
        server: what listens.
    """

    url: str
    desk: Desk
    server: BaseWSGIServer


@contextlib.contextmanager
def running(
    host: str = LOOPBACK, port: int | None = None, gallery: str | Path | None = None, *, workers: int = 2
) -> Iterator[Running]:
    """An explorer that listens while the context lasts; it answers in threads of its own.

    Args:
        host: address to listen on.
        port: to listen on, 0 for any; the first free one from 8050 on by default.
        gallery: as for `make_app`.
        workers: processes that compute.

    Yields:
        Where it is.

    Raises:
        IsometerError: the port is taken, or the host is not an address of this machine.
    """
    desk = Desk(workers)
    app = make_app(gallery, desk=desk, hosts=own_names(host))
    server = _listening(host, port, app.server)
    desk.open()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    shown = f"[{host}]" if ":" in host else "localhost" if host in ("0.0.0.0", "::") else host
    try:
        yield Running(f"http://{shown}:{server.port}/", desk, server)
    finally:
        server.shutdown()
        server.server_close()
        desk.close()


def serve(
    host: str = LOOPBACK,
    port: int | None = None,
    gallery: str | Path | None = None,
    *,
    browser: bool = True,
    ready: Callable[[str], Any] = print,
) -> None:
    """Serve until interrupted.

    Args:
        host: address to listen on; only this machine can reach the default.
        port: to listen on; the first free one from 8050 on by default.
        gallery: as for `make_app`.
        browser: open the page.
        ready: called with the page's address once it listens.

    Raises:
        IsometerError: the port is taken, or the host is not an address of this machine.
    """
    with running(host, port, gallery) as explorer:
        ready(explorer.url)
        if browser:
            webbrowser.open(explorer.url)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


def _listening(host: str, port: int | None, application: Any) -> BaseWSGIServer:
    wanted = range(PORT, PORT + _TRIED) if port is None else [port]
    for one in wanted:
        if one and _taken(host, one):
            continue
        try:
            return Server(host, one, application)
        except (OSError, SystemExit) as problem:
            if port is not None:
                raise IsometerError(f"cannot listen on {host} port {one}: {problem}") from None
    told = f"port {port} of {host} is taken" if port is not None else f"ports {PORT} to {PORT + _TRIED - 1} are taken"
    raise IsometerError(f"{told} — pass --port with another one, or 0 for any")


def _taken(host: str, port: int) -> bool:
    """Whether a port cannot be listened on; asked first, since the server ends the program instead of saying so."""
    try:
        [first, *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as problem:
        raise IsometerError(
            f"{host!r} is not an address of this machine ({problem.strerror}) — pass --host 127.0.0.1"
        ) from None
    with socket.socket(first[0], socket.SOCK_STREAM) as probe:
        # As the server does: a port whose last connections still time out is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(first[4])
        except PermissionError as problem:
            raise IsometerError(
                f"port {port} is not allowed ({problem.strerror}) — pass --port 8050, for example"
            ) from None
        except OSError as problem:
            import errno

            if problem.errno == errno.EADDRNOTAVAIL:
                raise IsometerError(f"{host!r} is not an address of this machine — pass --host 127.0.0.1") from None
            return True
    return False
