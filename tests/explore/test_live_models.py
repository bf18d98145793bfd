"""Models that the clinic examines: as data only, within limits, with word of progress, stopped when unwanted."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from isometer.errors import IsometerError

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")
pytest.importorskip("torch", reason="needs torch: pip install 'isometer[torch]'")

from isometer.explore import LIMITS, Computation, Desk, make_app
from isometer.explore._desk import Superseded
from isometer.explore._progress import tell
from isometer.explore._reports import ModelFiles
from isometer.explore._state import DepthState
from isometer.explore._worker import Cancelled, Worker
from isometer.explore.jobs import job
from isometer.nn import build, load_network, save_network
from isometer.spec import Spec


def saved(path: Path, text: str, **tensors: Any) -> Path:
    """A file of tensors with a network's expression, whether they fit or not."""
    import torch
    from safetensors.torch import save_file

    save_file({name: torch.zeros(shape) for name, shape in tensors.items()}, path, metadata={"network": text})
    return path


def test_a_saved_network_is_examined_with_its_own_weights(tmp_path: Path) -> None:
    network = build(Spec("input(8) > repeat(dense(8) > act('relu'), 3) > dense(2)"), seed=3)
    for one in network.parameters():
        one.data *= 0.1
    path = save_network(network, tmp_path / "small.safetensors")
    report = job("examined_file")(str(path), "small")
    assert report["model"] == "small"
    assert "wrong-gain" in [one["id"] for one in report["findings"]], "the weights of the file, not those of the spec"
    json.dumps(report, allow_nan=False)


def test_what_a_file_cannot_carry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsometerError, match=r"has a readout that its spec does not have.*write it as a step"):
        save_network(build(Spec(width=4, depth=2), classes=3), tmp_path / "x.safetensors")
    other = saved(tmp_path / "other.safetensors", "input(4) > dense(3)", weight=(2, 2))
    with pytest.raises(IsometerError, match="do not fit its network"):
        load_network(other)
    with pytest.raises(IsometerError, match="holds weights but no network"):
        load_network(saved(tmp_path / "bare.safetensors", "", weight=(2, 2)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("input(4) > repeat(repeat(dense, 100000), 100000)", "this page takes at most 2000"),
        ("input(1000000) > dense(2)", "this page takes at most 2048"),
        ("input(4) > act('import:os:getcwd')", "imports nothing"),
        ("__import__('os').system('true')", "expected"),
        ("dense > " * 300 + "dense", "this page takes at most 1000"),
    ],
)
def test_a_hostile_file_takes_no_memory_and_runs_nothing(text: str, says: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "bad.safetensors", text, weight=(2, 2))
    with pytest.raises(IsometerError, match=says):
        job("examined_file")(str(path), "bad")
    with pytest.raises(IsometerError, match=says):
        job("examined_network")(text)


def test_few_models_are_kept() -> None:
    models = ModelFiles()
    keys = [models.put(f"../{i}.safetensors", bytes([i])) for i in range(int(LIMITS["uploads"].high) + 2)]
    assert [models.get(key) is None for key in keys] == [True, True] + [False] * int(LIMITS["uploads"].high)
    path = models.get(keys[-1])
    assert path is not None
    assert path.stem == keys[-1], "what a browser calls a file names none"
    with pytest.raises(IsometerError, match="load a smaller one"):
        models.put("large", b"x" * int(LIMITS["upload"].high + 1))


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked() -> tuple[Worker, io.StringIO]:
    sink = io.StringIO()

    def talks(name: str) -> Any:
        return lambda: [tell("half"), tell("whole"), "done"][-1]

    return Worker(talks, io.StringIO(), sink), sink


def test_a_computation_says_how_far_it_is(asked: tuple[Worker, io.StringIO]) -> None:
    worker, sink = asked
    assert worker._answer({"id": 7, "job": "x", "arguments": {}, "seconds": 60}) == {"id": 7, "result": "done"}
    lines = [json.loads(line) for line in sink.getvalue().splitlines()]
    assert lines == [{"started": 7}, {"progress": 7, "told": "half"}, {"progress": 7, "told": "whole"}]


def test_an_interrupt_never_cuts_a_line(asked: tuple[Worker, io.StringIO]) -> None:
    worker, sink = asked
    worker._running = 7
    worker._doomed = 7
    with pytest.raises(Cancelled):
        worker._tell("half")
    assert json.loads(sink.getvalue()) == {"progress": 7, "told": "half"}


TALKS = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "cancel" in asked:
        print(json.dumps({"id": asked["cancel"], "cancelled": True}), flush=True)
        continue
    print(json.dumps({"started": asked["id"]}), flush=True)
    print(json.dumps({"progress": asked["id"], "told": "training copies"}), flush=True)
"""


def test_the_page_hears_it_and_an_empty_request_stops_it() -> None:
    import sys
    import threading
    import time

    desk = Desk(workers=1, command=[sys.executable, "-c", TALKS])
    client = make_app(desk=desk).server.test_client()

    def ask() -> None:
        with pytest.raises(Superseded):
            desk.ask("mine", "first", [Computation("x", {})])

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        end = time.monotonic() + 60
        while not desk.progress("mine"):
            assert time.monotonic() < end
            time.sleep(0.02)
        assert client.get("/progress/mine", headers={"Host": "localhost"}).text == "training copies"
        assert client.get("/progress/other", headers={"Host": "localhost"}).text == ""
        assert desk.ask("mine", "first", []) == []
        thread.join(30)
        assert not thread.is_alive()
        assert desk.progress("mine") == ""
    finally:
        desk.close()


# --- A against B ------------------------------------------------------------------------------------------------------


def test_a_pinned_network_comes_back_from_the_address() -> None:
    first = DepthState(activation="x*sigmoid(x)", norm="batch", depth=7, network="repeat(dense > act('relu'), 3)")
    state, notes = DepthState.read(DepthState(runs=4, against=first.pinned()).query())
    assert notes == []
    assert state.other is not None
    assert state.other.pinned() == first.pinned()
    assert state.other.runs == 4, "what is shown is the same for both"
    nested = DepthState(against=DepthState(against="norm=batch").query())
    assert nested.settled()[0].other == DepthState(), "a pinned network pins none"
    long = DepthState(network="dense > " * 120 + "act('x*(x > 0)')")
    assert DepthState(against=long.pinned()).settled()[0].query() in ("", DepthState(against=long.pinned()).query())
