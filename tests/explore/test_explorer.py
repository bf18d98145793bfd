"""The explorer without a browser: states, limits, bounded work, numbers, files, and who may ask."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isometer.cli import main
from isometer.errors import IsometerError

dash = pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")

import plotly.graph_objects as go  # noqa: E402

from isometer.explore import LIMITS, Computation, Desk, all_labs, make_app  # noqa: E402
from isometer.explore._desk import Superseded  # noqa: E402
from isometer.explore._guard import allowed_host, own_names  # noqa: E402
from isometer.explore._labs import read_state  # noqa: E402
from isometer.explore._python_lines import activation_lines, depth_lines  # noqa: E402
from isometer.explore._reports import Shelf, decoded, parsed  # noqa: E402
from isometer.explore._requests import (  # noqa: E402
    card_jobs,
    geometry_job,
    own_width_job,
    path_jobs,
    phase_jobs,
    prediction_job,
    simulation_job,
)
from isometer.explore._state import ActivationState, DepthState, split_names  # noqa: E402
from isometer.explore.jobs import job  # noqa: E402
from isometer.explore.labs import _clinic_pieces as clinic_pieces  # noqa: E402
from isometer.explore.pictures import _activation as activation_pictures  # noqa: E402
from isometer.explore.pictures import _clinic as clinic_pictures  # noqa: E402
from isometer.explore.pictures import _depth as depth_pictures  # noqa: E402
from isometer.report._citations import PAPERS  # noqa: E402
from support.doctor_reports import HOSTILE, hostile_report, long_report, outlook, stressed  # noqa: E402

ATTACKS = (
    "__import__('os').system('touch {mark}')",
    "open('{mark}', 'w')",
    "().__class__.__bases__[0].__subclasses__()",
    "exec(\"open('{mark}','w')\")",
    "eval('1')",
    "lambda x: x",
    "x.__class__",
    "[x for x in (1,)]",
    "import:os:getcwd",
    "9**9**9**9*x",
    "x" + "+x" * 150,
    "(" * 90 + "x" + ")" * 90,
    "<script>alert(1)</script>",
    "{{x}}",
    "x; import os",
    "\x00x",
)
SLOW_NET = DepthState(activation="tanh", norm="batch", batch=30, depth=200)


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    used = Desk(workers=2)
    yield used
    used.close()


@pytest.fixture(scope="module")
def client(desk: Desk) -> Any:
    return make_app(desk=desk).server.test_client()


def columns_of(text: str) -> dict[str, list[str]]:
    head, *rows = csv.reader(io.StringIO(text))
    return {name: [row[i] for row in rows] for i, name in enumerate(head)}


# --- states -----------------------------------------------------------------------------------------------------------

ODD_TEXT = st.one_of(
    st.text(max_size=60),
    st.integers(-(10**12), 10**12).map(str),
    st.floats().map(repr),
    st.sampled_from(
        ["", "0", "-1", "1e309", "nan", "inf", "0x10", "1_000", "٣", "on", "batch", "relu, tanh", "a,(b,c)"]
    ),
)


@pytest.mark.parametrize("lab", all_labs())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_query_becomes_a_state_that_comes_back(lab: Any, data: st.DataObject) -> None:
    names = [field.name for field in fields(all_labs()[lab].state)]  # type: ignore[arg-type]
    values = data.draw(st.dictionaries(st.sampled_from([*names, "other thing"]), ODD_TEXT, max_size=8))
    state, _ = read_state(lab, values)
    again, notes = read_state(lab, state.query())
    assert again == state
    assert notes == []
    assert read_state(lab, state.texts())[0] == state, "what the controls show is the same state"


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from([field.name for field in fields(DepthState)]), ODD_TEXT, max_size=12))
def test_no_query_exceeds_the_limits(values: dict[str, str]) -> None:
    state, _ = DepthState.read(values)
    for name in ("depth", "width", "batch", "runs", "seed"):
        assert LIMITS[name].low <= getattr(state, name) <= LIMITS[name].high
    assert 0 <= state.layer <= state.depth
    assert state.kept(state.depth) <= LIMITS["kept"].high
    assert len(state.activation) <= LIMITS["text"].high
    assert state.residual is None or LIMITS["residual"].low <= state.residual <= LIMITS["residual"].high


def test_values_outside_are_told() -> None:
    state, notes = DepthState.read("?width=9999&depth=400&runs=x&norm=magic&weights=uniform")
    assert (state.width, state.depth, state.norm) == (500, 75, "none")
    assert notes[0] == "width 9999 is outside 2 … 500; 500 is used"
    assert "runs is 'x'; expected a number" in notes
    assert notes[-1] == "depth 400 at this width and batch needs too much memory; 75 is used"
    assert any(note.startswith("unknown norm 'magic'; expected one of none, batch") for note in notes)
    assert ActivationState.read("activations=" + ",".join("abcdefgh"))[1] == ["8 activations; the first 6 are shown"]


def test_names_are_split_outside_parentheses() -> None:
    assert split_names("max(x, 0.1*x), relu,, gain(tanh, 0.5)") == ["max(x, 0.1*x)", "relu", "gain(tanh, 0.5)"]


# --- work -------------------------------------------------------------------------------------------------------------


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


# --- hostile input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_expressions_do_nothing(attack: str, desk: Desk, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = attack.replace("{mark}", str(mark))
    state, _ = ActivationState.read({"activations": text, "phase": text})
    answers = desk.ask("attack", "cards", [*card_jobs(state), *phase_jobs(state)])
    net, _ = DepthState.read({"activation": text, "depth": "2", "width": "4", "batch": "3"})
    answers += desk.ask("attack", "net", [prediction_job(net), geometry_job(net)])
    assert all(isinstance(one, IsometerError) for one in answers) or text in ("\x00x", ATTACKS[10], ATTACKS[11]), (
        answers
    )
    assert not mark.exists()


def test_forged_requests_stay_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    used, seen = Desk(workers=1), list[Computation]()

    def ask(tab: str, slot: str, jobs: Sequence[Computation]) -> list[Any]:
        seen.extend(jobs)
        return [IsometerError("not computed here") for _ in jobs]

    monkeypatch.setattr(used, "ask", ask)
    app = make_app(desk=used)
    forged = {"depth": 10**9, "width": "1e18", "batch": [1], "runs": {"a": 1}, "weights": "uniform", "norm": "../x"}
    client = app.server.test_client()
    told = [one for one in client.get("/_dash-dependencies").json if one["inputs"][0]["id"] == "depth-part-simulated"]
    for one in told:
        client.post("/_dash-update-component", json=callback(one["output"], forged))
    [asked] = seen
    net = asked.arguments["net"]
    assert net["width"] == LIMITS["width"].high
    assert net["depth"] * (net["width"] ** 2 + 3 * net["width"] * asked.arguments["batch"]) <= LIMITS["kept"].high
    assert net["norm"] == "none"
    assert asked.arguments["runs"] == DepthState().runs


def callback(output: str, values: Any) -> dict[str, Any]:
    """What a browser sends when the values of the simulation change, whatever they are."""
    return {
        "output": output,
        "outputs": {"id": output.rpartition(".")[0], "property": "data"},
        "inputs": [{"id": "depth-part-simulated", "property": "data", "value": values}],
        "state": [{"id": "tab", "property": "data", "value": "forger"}],
        "changedPropIds": ["depth-part-simulated.data"],
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"not json", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1, 2]", "the report is a list; expected an object"),
        (b'{"schema": 2, "layers": [], "metrics": {}, "findings": []}', "schema 2; expected 1"),
        (b'{"schema": 1, "layers": 3, "metrics": {}, "findings": []}', "the report has 3 at layers; expected a list"),
        (b'{"schema": 1, "layers": [], "metrics": {"rms": [1]}, "findings": []}', "1 numbers for 0 layers"),
        (b'{"schema": 1, "layers": [], "metrics": {}, "findings": [{"id": "x"}]}', "no 'severity' in findings"),
        (b'{"schema": 1, "layers": [], "metrics": {}, "findings": [], "prediction": {"layers": [5]}}', "names layer 5"),
        (b" " * int(LIMITS["upload"].high + 1), "at most 16 MB"),
    ],
)
def test_files_that_are_no_reports_are_refused(content: bytes, says: str) -> None:
    with pytest.raises(IsometerError, match=says):
        parsed(content)


def test_reports_are_shown_as_text() -> None:
    report = parsed(json.dumps(hostile_report()).encode())
    shown = [
        clinic_pieces.verdict_card(report),
        *(clinic_pieces.finding_card(one, report) for one in report["findings"]),
    ]
    shown += clinic_pieces.layer_facts(report, 3)
    written = json.dumps(
        [json.loads(json.dumps(one.to_plotly_json(), default=lambda c: c.to_plotly_json())) for one in shown]
    )
    assert json.dumps(HOSTILE[0])[1:-1] in written, "the text is there, as the child of an element"
    for danger in ("dangerously", "Markdown", "srcDoc", '"src"'):
        assert danger not in written
    assert set(re.findall(r'"href": "([^"]*)"', written)) <= {paper.link for paper in PAPERS.values()}, "known papers"
    figure = clinic_pictures.metric_picture([("a", report)], "rms", "layer", 3, [1], "light")
    assert "<img" not in json.dumps(figure)
    assert "<svg" not in json.dumps(figure)


def written(component: Any) -> str:
    return json.dumps(component.to_plotly_json(), default=lambda one: one.to_plotly_json(), ensure_ascii=False)


def test_verdicts_of_stress_tests_are_shown() -> None:
    at = {"rate": 0.1, "verdict": "sick", "probability": 0.1, "progress": "inf"}
    report = stressed(long_report(30), None, adam=outlook("unknown", fit=None), sgd=outlook("sick", at_rate=at))
    read = parsed(json.dumps(report).encode())
    assert read["healthy"] is None
    card = written(clinic_pieces.verdict_card(read))
    for expected in ("? Not decided with adam, does not train with sgd at 0.1", "undecided", "act ×∞", "What was run"):
        assert expected in card
    assert "runs" not in read["stress"], "loss curves are not shown and not kept"


def test_uploads_without_a_stress_test_still_work() -> None:
    older = parsed(json.dumps(long_report(30)).encode())
    bare = parsed(json.dumps({**long_report(30), "trains": {}, "stress": None}).encode())
    assert older == bare
    assert older["healthy"] is False
    assert "No stress test" in written(clinic_pieces.verdict_card(older))


@pytest.mark.parametrize(
    "damage",
    [
        {"trains": {"adam": {}}},
        {"trains": {"adam": 3}},
        {"stress": {"after": 5}},
        {"stress": {"effects": {"adam": {"grown": [1]}}}},
        {"stress": {"plan": {"rounds": ["x"]}}},
    ],
)
def test_damaged_stress_tests_are_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(IsometerError, match=r"the report has .*; expected .* — write one with"):
        parsed(json.dumps({**long_report(3), **damage}).encode())


def test_shelf_keeps_a_few() -> None:
    shelf = Shelf()
    keys = []
    for i in range(int(LIMITS["uploads"].high) + 3):
        raw = {"schema": 1, "layers": [], "metrics": {}, "findings": [], "model": str(i)}
        content = "data:application/json;base64," + base64.b64encode(json.dumps(raw).encode()).decode()
        keys.append(shelf.put(f"{i}.json", decoded(f"{i}.json", content)))
    assert len(shelf.titles()) == LIMITS["uploads"].high
    assert shelf.get(keys[0]) is None
    last = shelf.get(keys[-1])
    assert last is not None
    assert last["model"] == str(len(keys) - 1)
    with pytest.raises(IsometerError, match="arrived incomplete"):
        decoded("x.json", "data:;base64,!!!")


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_kernel_csv_is_the_closed_form(client: Any) -> None:
    answer = client.get("/csv/activation/kernel?activations=relu,exp(x)")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="isometer-activation-kernel.csv"'
    columns = columns_of(answer.text)
    rho = np.array(columns["rho"], dtype=float)
    relu = (np.sqrt(1 - rho**2) + rho * (np.pi - np.arccos(rho))) / np.pi  # the arc-cosine kernel of degree 1
    np.testing.assert_allclose(np.array(columns["relu"], dtype=float), relu, atol=2e-8)
    np.testing.assert_allclose(np.array(columns["exp(x)"], dtype=float), np.exp(rho - 1), atol=1e-12)


def test_other_csvs_equal_what_is_drawn(client: Any, desk: Desk) -> None:
    state = ActivationState(activations=("relu", "tanh"), rho=-0.4, layers=7, gain=0.5)
    cards = desk.ask("t", "cards", card_jobs(state))
    paths = desk.ask("t", "path", path_jobs(state))
    names = list(zip(state.activations, cards, strict=True))
    drawn = {
        "function": activation_pictures.function_picture(names, "layer", "light"),
        "kernel": activation_pictures.kernel_picture(names, "dark"),
        "path": activation_pictures.distance_picture(list(zip(state.activations, paths, strict=True)), "light"),
    }
    for curve, column in (("function", "{}"), ("kernel", "{}"), ("path", "distance of {}")):
        columns = columns_of(client.get(f"/csv/activation/{curve}?{state.query()}").text)
        for name in state.activations:
            trace = next(one for one in drawn[curve]["data"] if one.get("name") == name)
            assert [float(v) for v in columns[column.format(name)]] == list(trace["y"])
    hermite = columns_of(client.get(f"/csv/activation/hermite?{state.query()}").text)
    assert [float(v) for v in hermite["tanh"]] == cards[1]["hermite"]
    facts = columns_of(client.get(f"/csv/activation/facts?{state.query()}").text)
    assert facts["activation"] == ["relu", "tanh"]
    assert client.get("/csv/activation/nothing").status_code == 400
    assert client.get("/csv/nowhere/kernel").status_code == 404
    assert "unknown activation" in client.get("/csv/activation/kernel?activations=relo").text


def run_lines(lines: str) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(compile(lines, "lines", "exec"), space)
    return space


@pytest.mark.parametrize(
    "state",
    [
        ActivationState(("relu", "sin")),
        ActivationState(("abs", "x*sigmoid(x)"), "layer", "post", 0.5, 1.3, -0.2, 9, "layer", "", 1.1, 0.0),
    ],
)
def test_python_lines_of_activations(state: ActivationState, capsys: pytest.CaptureFixture[str]) -> None:
    space = run_lines(activation_lines(state))
    assert space["point"].verdict in capsys.readouterr().out
    for one, kernel, way in zip(state.activations, card_jobs(state), path_jobs(state), strict=True):
        card, path = job("card")(**kernel.arguments), job("path")(**way.arguments)
        assert space["cards"][one].kernel(np.array(card["rho"])).tolist() == card["kappa"]
        assert space["cards"][one].to_dict()["fixed_point"] == card["fixed_point"]
        assert space["paths"][one].tolist() == path["cosine"]
    plane, point = (job(one.name)(**one.arguments) for one in phase_jobs(state))
    assert space["diagram"].to_dict()["chi"] == plane["chi"]
    assert space["point"].chi == point["chi"]


@pytest.mark.parametrize(
    "state",
    [
        DepthState(depth=4, width=20, batch=5, runs=3, layer=2),
        DepthState("tanh", "layer", "pre", "orthogonal", "1", None, 5, 12, 4, 2, "correlated:0.9", 7, 5, "stable_rank"),
    ],
)
def test_python_lines_of_depth(state: DepthState) -> None:
    space = run_lines(depth_lines(state))
    simulated = job("simulated")(**simulation_job(state).arguments)
    predicted = job("predicted")(**prediction_job(state).arguments)
    own = job("own_width")(**own_width_job(state).arguments)
    for name, rows in simulated["metrics"].items():
        for key in ("mean", "low", "high"):
            np.testing.assert_array_equal(space["simulated"][name].sel(statistic=key).values, rows[key])
        np.testing.assert_array_equal(space["predicted"][name].values[0], predicted["metrics"][name])
        runs = space["runs"][name].values
        assert (np.array(rows["bottom"]) <= runs.mean(0) + 1e-12).all() or not np.isfinite(runs).all()
        np.testing.assert_array_equal(rows["top"], runs.max(0))  # of few runs the outermost one
    for name, rows in own["metrics"].items():
        np.testing.assert_array_equal(space["band"][name].sel(statistic="low").values, rows["low"])
    found = job("geometry")(**geometry_job(state).arguments)
    np.testing.assert_array_equal(space["gram"], found["cosines"])


def test_depth_of_a_network_that_is_written_out() -> None:
    """The same words as `--network`, and the Python lines beside it give the same numbers."""
    text = "repeat(residual(norm('layer') > dense(24) > act('gelu') > dense(12), 0.5), 3) > norm('rms')"
    state, notes = DepthState.read({"network": text, "width": "12", "batch": "4", "runs": "3"})
    assert notes == []
    assert DepthState.read(state.query())[0] == state
    space = run_lines(depth_lines(state))
    simulated = job("simulated")(**simulation_job(state).arguments)
    predicted = job("predicted")(**prediction_job(state).arguments)
    assert simulated["layer"] == predicted["layer"] == [0, 1, 2, 3, 4]
    for name, rows in simulated["metrics"].items():
        np.testing.assert_array_equal(space["simulated"][name].sel(statistic="mean").values, rows["mean"])
        np.testing.assert_array_equal(space["predicted"][name].values[0], predicted["metrics"][name])
    assert job("own_width")(**own_width_job(state).arguments)["metrics"] == {}
    with pytest.raises(IsometerError, match="one layer repeated"):
        job("geometry")(**geometry_job(state).arguments)
    image = replace(state, network="input(2, [4, 4]) > conv(3, 6) > act('relu') > pool > dense(3)")
    assert job("predicted")(**prediction_job(image).arguments)["layer"] == [0, 1, 2]
    chain = replace(state, network="repeat(dense > act('relu'), 2)", layer=9)
    assert len(job("geometry")(**geometry_job(chain).arguments)["cosines"]) == 4  # of its last layer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("repeat(repeat(repeat(dense, 100000), 100000), 100000)", "this page takes 2000 at most"),
        ("dense(1000000)", "this page takes 2048 at most"),
        ("input(100, [100, 100]) > pool", "this page takes 2048 at most"),
        ("act('import:os:getcwd')", "imports nothing"),
        ("__import__('os')", "unknown step"),
        ("repeat(dense", "cannot be read"),
    ],
)
def test_networks_that_are_written_out_stay_within_the_limits(text: str, message: str) -> None:
    state, _ = DepthState.read({"network": text})
    with pytest.raises(IsometerError, match=message):
        job("predicted")(**prediction_job(state).arguments)
    assert "spec = Spec(" in depth_lines(state)


def test_depth_with_a_skip_and_without_theory() -> None:
    state = DepthState(norm="batch", position="post", residual=0.5, depth=3, width=10, batch=4, runs=2)
    assert job("simulated")(**simulation_job(state).arguments)["layer"] == [0, 1, 2, 3]
    uncovered = DepthState(weights="asymmetric", depth=3, width=10, batch=4)
    with pytest.raises(IsometerError, match="no theory covers this network"):
        job("predicted")(**prediction_job(uncovered).arguments)


def test_plane_keeps_lengths_and_angles() -> None:
    """In two dimensions the plane is everything: an isometry of the batch, up to scale."""
    from isometer.explore.jobs._depth import plane

    state = np.random.default_rng(0).standard_normal((6, 2))
    odd = int(np.argmax(np.linalg.norm(state, axis=1)))
    along, across, kept = plane(state, odd)
    drawn = np.stack([along, across], 1) * np.linalg.norm(state[odd])
    np.testing.assert_allclose(drawn @ drawn.T, state @ state.T, atol=1e-12)
    np.testing.assert_allclose(kept, 1.0)


def test_pictures_are_valid_figures(desk: Desk) -> None:
    state, net = ActivationState(("sign", "identity", "relu")), DepthState(depth=3, width=10, batch=4, runs=2, layer=2)
    cards = list(zip(state.activations, desk.ask("p", "c", card_jobs(state)), strict=True))
    diagram, _ = desk.ask("p", "f", phase_jobs(state))
    jobs = [simulation_job(net), prediction_job(net), own_width_job(net), geometry_job(net)]
    simulated, predicted, own, geometry = desk.ask("p", "d", jobs)
    report = parsed(json.dumps(long_report(50)).encode())
    for theme in ("light", "dark"):
        for figure in (
            activation_pictures.function_picture(cards, "itself", theme),
            activation_pictures.hermite_picture(cards, theme),
            activation_pictures.kernel_picture(cards, theme),
            activation_pictures.phase_picture(diagram, 1.0, 0.2, theme),
            *(depth_pictures.trajectory_picture(m, simulated, predicted, own, theme) for m in simulated["metrics"]),
            depth_pictures.trajectory_picture("isometry_gap", None, None, None, theme),
            depth_pictures.gram_picture(geometry["cosines"], theme),
            depth_pictures.plane_picture(geometry, theme),
            clinic_pictures.metric_picture([("a", report), ("b", report)], "rms", "depth", 4, [1, 2], theme),
        ):
            go.Figure(figure)  # refuses what Plotly does not know
            json.dumps(figure, allow_nan=False)


# --- who may ask, and what is served ----------------------------------------------------------------------------------


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


# --- the command ------------------------------------------------------------------------------------------------------


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


def test_numbers_of_infinite_spread_are_drawn_without_nan() -> None:
    rows = {key: [1.0, math.inf] for key in ("mean", "low", "high", "bottom", "top")}
    result = {"layer": [0, 1], "metrics": {"isometry_gap": rows}}
    figure = depth_pictures.trajectory_picture("isometry_gap", result, None, None, "light")
    assert all(None in trace["y"] for trace in figure["data"])


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
