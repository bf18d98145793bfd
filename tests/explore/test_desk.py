"""The explorer's desk: bounded work in processes of its own, cancelled by newer requests."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")


from isometer.explore import LIMITS, Computation, Desk
from isometer.explore._desk import Superseded
from isometer.explore._requests import (
    card_jobs,
    prediction_job,
)
from isometer.explore._state import ActivationState, DepthState

SLOW_NET = DepthState(activation="tanh", norm="batch", batch=30, depth=200)


def asking(desk: Desk, tab: str, slot: str, jobs: Sequence[Computation]) -> tuple[threading.Thread, list[Any]]:
    """Ask in a thread of its own, as a request does; the answer, or the exception, comes into the list."""
    answer: list[Any] = []

    def ask() -> None:
        try:
            answer.append(desk.ask(tab, slot, jobs))
        except Superseded as problem:
            answer.append(problem)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, answer


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_a_newer_request_cancels_the_older_and_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isometer.explore._desk._GRACE", 60.0)  # a busy machine is slow to listen
    desk.ask("first", "warm", [prediction_job(DepthState(depth=2))])
    until(lambda: not desk._running)
    before, starts = dict(desk.counts), desk.starts
    slow, old = asking(desk, "first", "predicted", [prediction_job(SLOW_NET)])
    other, kept = asking(desk, "second", "predicted", [prediction_job(DepthState(norm="batch", depth=3, batch=4))])
    until(lambda: any(task.ticket.tab == "first" for task in desk._running))
    [new] = desk.ask("first", "predicted", [prediction_job(DepthState(depth=4))])
    slow.join(60)
    other.join(60)
    assert isinstance(old[0], Superseded)
    assert new["layer"] == [0, 1, 2, 3, 4]
    assert kept[0][0]["layer"] == [0, 1, 2, 3], "the other tab has its answer"
    assert desk.counts["cancelled"] == before["cancelled"] + 1
    assert desk.starts == starts, "the process was interrupted, not ended"


def test_results_are_remembered_across_tabs(desk: Desk) -> None:
    jobs = card_jobs(ActivationState(activations=("relu",)))
    first = desk.ask("a", "cards", jobs)
    computed = desk.counts["computed"]
    assert desk.ask("b", "cards", jobs) == first
    assert desk.counts["computed"] == computed


def test_time_is_limited() -> None:
    used = Desk(workers=1, seconds=0.3)
    try:
        [problem] = used.ask("a", "b", [prediction_job(SLOW_NET)])
        assert str(problem).startswith("stopped after 0.3 seconds of computing — choose a smaller")
        [card] = used.ask("a", "b", card_jobs(ActivationState(activations=("relu",))))
        assert card["case"] == 3, "the process goes on"
        assert used.starts == 1
    finally:
        used.close()
    assert Desk(seconds=1e9).seconds == LIMITS["seconds"].high


STUBBORN = """
import json, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "cancel" in asked: continue
    print(json.dumps({"started": asked["id"]}), flush=True)
    if asked["job"] == "hang":
        while True: time.sleep(1)
    if asked["job"] == "die": sys.exit(1)
    print(json.dumps({"id": asked["id"], "result": "fine"}), flush=True)
"""


def test_processes_that_do_not_listen_are_replaced() -> None:
    used = Desk(workers=1, seconds=0.05, command=[sys.executable, "-c", STUBBORN])
    try:
        assert "stopped after" in str(used.ask("a", "b", [Computation("hang", {})])[0])
        assert used.ask("a", "b", [Computation("other", {})]) == ["fine"]
        assert "ended unexpectedly" in str(used.ask("a", "b", [Computation("die", {})])[0])
        assert used.ask("a", "b", [Computation("another", {})]) == ["fine"]
        assert used.starts == 3
    finally:
        used.close()


def test_workers_end_with_the_program() -> None:
    code = "import time; from isometer.explore import Desk; d = Desk(1); d.open(); time.sleep(0.3); "
    code += "print(d._processes[0]._popen.pid)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    status = Path(f"/proc/{int(found.stdout)}/status")
    if status.parent.parent.is_dir():
        until(lambda: not status.exists() or "zombie" in status.read_text(), 10)


def test_what_a_computation_needs_is_loaded_before_its_time_begins() -> None:
    """An interrupt in the middle of an import would leave half a package behind."""
    code = """
import sys
from isometer.explore.jobs import job
job("compared"), job("simulated"), job("predicted")
assert "torch" in sys.modules
assert "isometer.doctor.diagnosis._diagnose" in sys.modules
assert "isometer.simulate._engine" in sys.modules
assert "isometer.theory.prediction._trajectories" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
