"""`isometer explore`: where it listens, and what it says."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from isometer.cli import main

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")


from isometer.explore import all_labs


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What `isometer explore` says on stderr when it ends with 2."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["isometer", "explore", "--no-browser", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        return capsys.readouterr().err.strip()

    return run


def test_command_says_where_it_listens(refused: Callable[..., str]) -> None:
    asked = [sys.executable, "-m", "isometer.cli", "explore", "--no-browser", "--port", "0", "--json"]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = run.stdout.readline()
            assert line, "it ended before it listened"
            text += line
        told = json.loads(text)
        assert told["labs"] == list(all_labs())
        assert told["url"].startswith("http://127.0.0.1:")
        with urllib.request.urlopen(told["url"]) as answer:
            assert answer.status == 200
        port = told["url"].rstrip("/").rpartition(":")[2]
        assert refused("--port", port).startswith(
            f"error: port {port} of 127.0.0.1 is taken — pass --port with another"
        )
        run.terminate()


@pytest.mark.parametrize(("host", "noted"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_command_says_when_others_can_use_it(
    host: str, noted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def served(host: str, *_: Any, ready: Callable[[str], None], **__: Any) -> None:
        ready(f"http://{host}:8050/")

    monkeypatch.setattr("isometer.explore.serve", served)
    monkeypatch.setattr(sys, "argv", ["isometer", "explore", "--no-browser", "--host", host])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert ("over the network" in capsys.readouterr().err) is noted


def test_command_refuses_a_foreign_address(refused: Callable[..., str]) -> None:
    assert "'192.0.2.1' is not an address of this machine" in refused("--host", "192.0.2.1", "--port", "8051")
