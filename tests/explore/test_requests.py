"""The explorer's server and requests that no browser of its own page sends: refused in a line, in time, in numbers."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from isometer.errors import IsometerError

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")

from isometer.explore import _connections, make_app
from isometer.explore._connections import Server
from support.fuzz.mutation import ODD
from support.fuzz.requests import TARGETS, answer


class Counting:
    """A desk that computes nothing and counts what is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, tab: str, slot: str, jobs: Sequence[Any]) -> list[Any]:
        self.asked += len(jobs)
        return [IsometerError("not computed here") for _ in jobs]

    def remembered(self, job: Any) -> None:
        return None


@pytest.fixture(scope="module")
def desk() -> Counting:
    return Counting()


@pytest.fixture(scope="module")
def app(desk: Counting) -> Any:
    return make_app(desk=desk)  # type: ignore[arg-type]


@pytest.fixture
def port(app: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Of a server that is less patient than usual."""
    monkeypatch.setattr(_connections, "HEADER_SECONDS", 0.6)
    monkeypatch.setattr(_connections, "BODY_SECONDS", 0.6)
    monkeypatch.setattr(_connections, "CONNECTIONS", 4)
    server = Server("127.0.0.1", 0, app.server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.port
    server.shutdown()
    server.server_close()


def until_closed(client: socket.socket) -> bytes:
    found = b""
    while piece := client.recv(1 << 16):
        found += piece
    return found


def test_hundreds_of_malformed_requests_are_answered() -> None:
    """Never a failure of the server, never a wait; some of every kind are really there."""
    (target,) = TARGETS
    answers: Counter[bytes] = Counter()
    for index in range(250):
        case = target.case(index)
        target.check(case)
        if index < 100:
            said = answer(case)
            answers[said.split(b" ", 2)[1] if said.startswith(b"HTTP/") else b""] += 1
    assert {b"200", b"400", b"403", b"404", b"405"} <= set(answers), answers


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_other_pages_start_no_computation(app: Any, desk: Counting, site: str) -> None:
    client, before = app.server.test_client(), desk.asked
    curve = "/csv/activation/kernel?activations=relu"
    modes = ({"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, {"Sec-Fetch-Mode": "cors"},
             {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
             {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"})  # fmt: skip
    for mode in modes:
        assert client.get(curve, headers={"Sec-Fetch-Site": site, **mode}).status_code == 403
        posted = client.post("/_dash-update-component", json={}, headers={"Sec-Fetch-Site": site, **mode})
        assert posted.status_code == 403
    assert client.get(curve, headers={"Origin": "http://evil.example"}).status_code == 403
    assert desk.asked == before
    assert client.get("/depth", headers={"Sec-Fetch-Site": site, **modes[2]}).status_code == 200, (
        "a link may be followed"
    )
    assert client.get("/depth", headers={"Sec-Fetch-Site": site, **modes[3]}).status_code == 403
    for own in ("same-origin", "none"):
        assert client.get(curve, headers={"Sec-Fetch-Site": own}).status_code == 400  # "not computed here"
    assert desk.asked == before + 2


def test_values_of_any_kind_in_component_requests(app: Any) -> None:
    """Every callback, with every value in every place: an answer, or one line."""
    client = app.server.test_client()
    seen: Counter[int] = Counter()
    for one in client.get("/_dash-dependencies").json:
        if one.get("clientside_function"):
            continue
        outputs = [dict(zip(("id", "property"), part.rsplit(".", 1), strict=True))
                   for part in one["output"].strip(".").split("...")]  # fmt: skip
        places = [*one["inputs"], *one["state"]]
        for index in range(len(places)):
            for odd in ODD:
                filled = [{**place, "value": odd if i == index else None} for i, place in enumerate(places)]
                body = {
                    "output": one["output"],
                    "outputs": outputs if one["output"].startswith("..") else outputs[0],
                    "inputs": filled[: len(one["inputs"])],
                    "state": filled[len(one["inputs"]) :],
                    "changedPropIds": [],
                }
                found = client.post("/_dash-update-component", json=body)
                seen[found.status_code] += 1
                assert found.status_code in (200, 204, 400), (odd, one["output"], found.text[:300])
                if found.status_code == 400:
                    assert found.text.count("\n") == 1, found.text
                    assert "Traceback" not in found.text
    assert seen[400] > 500
    assert seen[200] + seen[204] > 300


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "is not JSON"),
        (b"[]", "the request is a list; expected an object"),
        (b"{}", "the request has no 'output'"),
        (b"[" * 5000, "nested too deeply"),
        (json.dumps({"output": "nothing.data", "outputs": [], "inputs": []}).encode(), "which the page does not have"),
        (json.dumps({"output": "main.children", "outputs": [], "inputs": []}).encode(), "other inputs than place.data"),
    ],
)
def test_component_requests_of_another_shape_are_refused(app: Any, body: bytes, says: str) -> None:
    found = app.server.test_client().post("/_dash-update-component", data=body, content_type="application/json")
    assert found.status_code == 400
    assert says in found.text


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b""),
        (b"POST /_dash-update-component HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
         b"Content-Length: 100000\r\n\r\n", b"400"),
        (b"POST /_dash-update-component HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
         b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n", b"400"),
    ],
)  # fmt: skip
def test_senders_of_single_bytes_are_cut_off(port: int, start: bytes, status: bytes) -> None:
    """A limit on each byte alone would let them go on for ever."""
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(start)
        client.settimeout(0.05)
        found = b""
        while time.monotonic() - begun < 10:
            try:
                client.sendall(b"a")
                piece = client.recv(1 << 16)
                found += piece
                if not piece:
                    break
            except TimeoutError:
                continue
            except OSError:
                break
    assert time.monotonic() - begun < 8
    assert found.split(b" ", 2)[1:2] == ([status] if status else [])


def test_connections_are_counted(port: int) -> None:
    """Those beyond the limit are told so at once; when others end, there is room again."""
    clients = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(4)]
    time.sleep(0.2)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as one_more:
        assert until_closed(one_more).startswith(b"HTTP/1.1 503")
    for client in clients:
        assert until_closed(client) == b"", "it sent nothing, so its time was up"
        client.close()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as again:
        again.sendall(b"GET /_dash-dependencies HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert until_closed(again).startswith(b"HTTP/1.1 200")


def test_large_requests_are_cut_off(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks say nothing about their sum."""
    monkeypatch.setattr(_connections, "MOST", 100_000)
    head = b"POST /_dash-update-component HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        found = b""
        try:
            client.sendall(head + b"x" * 3_000_000)
            found = until_closed(client)
        except OSError:
            return  # closed while it was sending
    assert found.split(b" ", 2)[1] in (b"400", b"413")
