"""Who may ask the explorer's server, and what it serves."""

from __future__ import annotations

import socket
from typing import Any

import pytest

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")


from isometer.explore import LIMITS, Desk, make_app
from isometer.explore._guard import allowed_host, own_names
from support.explorer import callback


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8050", True),
        ("localhost:8050", True),
        ("localhost", True),
        ("[::1]:8050", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example:8050", False),
        ("localhost.evil.example", False),
        ("", False),
        ("[::1", False),
    ],
)
def test_only_this_machine_is_meant(host: str, allowed: bool, client: Any) -> None:
    assert allowed_host(host) is allowed
    if host and host != "[::1":
        assert (client.get("/", headers={"Host": host}).status_code == 200) is allowed
    assert allowed_host("box.lan:8050", ("box.lan",))


def test_on_a_network_address_strange_names_are_refused_too(desk: Desk) -> None:
    """As with loopback: a name that a stranger lets point here (DNS rebinding) is not this machine's."""
    client = make_app(desk=desk, hosts=own_names("0.0.0.0")).server.test_client()
    for host, code in (("192.0.2.7:8050", 200), (socket.gethostname(), 200), ("evil.example", 403)):
        assert client.get("/", headers={"Host": host}).status_code == code
    body = callback("main.children", {"depth": "2"})
    headers = {"Host": "192.0.2.7:8050", "Origin": "http://evil.example"}
    assert client.post("/_dash-update-component", json=body, headers=headers).status_code == 403


def test_requests_of_other_pages_are_refused(client: Any) -> None:
    body = callback("main.children", {"depth": "2"})
    for origin in ("http://evil.example", "null", "http://localhost:9"):
        assert client.post("/_dash-update-component", json=body, headers={"Origin": origin}).status_code == 403


def test_page_loads_nothing_from_elsewhere(client: Any) -> None:
    page = client.get("/depth?width=64")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "/assets/explore.js" in page.text


def test_uploads_are_limited(client: Any) -> None:
    size = int(LIMITS["upload"].high * 2)
    answer = client.post("/_dash-update-component", data=b"x" * size, content_type="application/json")
    assert answer.status_code in (400, 413)
