"""Connections that end: each has so long for its headers, its body and its answer, and there are so many at a time."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

CONNECTIONS = 128
"""Answered at a time; a browser opens six per page."""
HEADER_SECONDS, BODY_SECONDS, ANSWER_SECONDS = 10.0, 60.0, 120.0
"""For all headers, then for all of the body, then for each piece of the answer to be taken."""
MOST = 40_000_000
"""Bytes of a request, whatever its headers say; the application's own limit is lower."""

_DRAIN = 2.0  # seconds in which a client whose request is refused may go on sending before it is cut off
_BUSY = b"too many connections; close a tab or try again later\n"
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
)


class _Reader(io.RawIOBase):
    """Reads from a connection until a moment, and no more than so much."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._taken = 0
        self.until = time.monotonic() + HEADER_SECONDS

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """What has arrived."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        if self._taken > MOST:
            raise ConnectionAbortedError("the request is too large")
        self._connection.settimeout(left)  # of one reception; a sender of single bytes meets the moment all the same
        count = self._connection.recv_into(buffer)
        self._taken += count
        return count


class Handler(WSGIRequestHandler):
    """Answers without a line on the terminal for each request, and in time."""

    protocol_version = "HTTP/1.1"
    connection: socket.socket

    def setup(self) -> None:
        """Read with a limit."""
        super().setup()
        self._reader = _Reader(self.connection)
        self.rfile = io.BufferedReader(self._reader)

    def run_wsgi(self) -> None:
        """Answer, now that the headers are there."""
        try:
            urlsplit(self.path)
        except ValueError:
            self.send_error(400, "the address cannot be read")
            return
        self._reader.until = time.monotonic() + BODY_SECONDS
        super().run_wsgi()

    def end_headers(self) -> None:
        """Send the headers of the answer; what the client still sends is not read for long."""
        super().end_headers()
        self._reader.until = min(self._reader.until, time.monotonic() + _DRAIN)
        self.connection.settimeout(ANSWER_SECONDS)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing."""

    def log_error(self, format: str, *args: Any) -> None:
        """Nothing: the client is told."""


class Server(ThreadedWSGIServer):
    """A thread per connection, and a bounded number of them; further ones are told that it is busy."""

    def __init__(self, host: str, port: int, application: Any) -> None:
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(host, port, application, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread if there is one left."""
        if not self._slots.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.settimeout(0.5)
                request.sendall(_REFUSAL % (len(_BUSY), _BUSY))
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()
