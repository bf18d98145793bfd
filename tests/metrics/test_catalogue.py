"""One entry in the catalogue is all a metric needs: every engine, report and command reads it from there."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from isometer import Spec
from isometer.cli import app
from isometer.data import make_batch
from isometer.doctor import probe
from isometer.doctor.watch import SignalMonitor
from isometer.errors import IsometerError
from isometer.metrics import METRICS, Metric, metric, names, register, spectrum, unregister
from isometer.metrics._catalogue import added, describe, probed
from isometer.metrics._metric import GROUPS, SIMULATED
from isometer.report import doctor_page, print_report, print_trajectory, trajectory_picture
from isometer.report._doctor_metrics import columns
from isometer.simulate import ConvolutionSpec, ergodic_average, simulate, simulate_convolution
from isometer.theory.prediction import finite_width, predict
from isometer.trajectory import DEFAULT_METRICS
from support.quick_look import quick_look

NAME = "second_share"
SPEC = Spec(width=40, depth=4, activation="tanh", gain=1.5)


def second_share(representation: Any = None, *, gram: Any = None) -> Any:
    values = spectrum(representation, gram=gram)
    return values[..., 1] / values.sum(-1)


def mean_square(gram: Any) -> Any:
    return gram.diagonal(0, -2, -1).sum(-1) / gram.shape[-1]


def largest_entry(representation: Any) -> Any:
    return abs(representation).max(-1).values.max(-1).values  # torch alone: predictions have no entries


@pytest.fixture
def share() -> Iterator[Metric]:
    entry = Metric(
        NAME,
        second_share,
        "gram",
        title="share of the second direction",
        heading="2nd share",
        unit="%",
        axis="linear",
        sentence="Of the trace.",
        group="Signal",
        lower=0.0,
        upper=1.0,
    )
    yield register(entry)
    unregister(NAME)


@pytest.fixture
def more() -> Iterator[None]:
    """Metrics that depend on the scale, of a Gram matrix and of entries, and one of gradients."""
    register(Metric("mean_square", mean_square, "gram", "quadratic", lower=0.0))
    register(Metric("largest_entry", largest_entry, "representation", "linear"))
    register(Metric("second_gradient", second_share, "gradient"))
    yield
    for name in ("mean_square", "largest_entry", "second_gradient"):
        unregister(name)


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    parts = [part for _ in range(4) for part in (torch.nn.Linear(24, 24, bias=False), torch.nn.Tanh())]
    return torch.nn.Sequential(*parts, torch.nn.Linear(24, 3))


BATCH = torch.randn(6, 24, generator=torch.Generator().manual_seed(1))


def test_simulations_and_predictions_know_it(share: Metric) -> None:
    batch = make_batch("gaussian", 6, 40, seed=3)
    simulated = simulate(SPEC, batch, runs=4, metrics=[NAME, "rank"])
    predicted = predict(SPEC, batch, metrics=[NAME])
    assert float(simulated[NAME][0, 0]) == pytest.approx(float(second_share(batch)), rel=1e-12)
    assert float(predicted[NAME][0, 0]) == pytest.approx(float(second_share(batch)), rel=1e-9)
    band = finite_width(SPEC, batch, metrics=[NAME])[NAME].sel(layer=4)
    low, high = float(band.sel(statistic="low")), float(band.sel(statistic="high"))
    assert low - 0.05 < float(simulated[NAME].sel(layer=4).mean()) < high + 0.05
    images = np.random.default_rng(0).normal(size=(4, 3, 5, 5))
    chain = simulate_convolution(ConvolutionSpec(channels=4, depth=2), images, 1, [NAME], seed=0)
    assert float(chain[NAME][0, 0]) == pytest.approx(float(second_share(images.reshape(4, -1))), rel=1e-12)
    average = ergodic_average(Spec(width=8, depth=1, norm="batch"), batch[:, :8], layers=256, metrics=[NAME])
    assert 0 < float(average["mean"].sel(metric=NAME)) < 0.5


def test_the_doctor_measures_and_shows_it(share: Metric) -> None:
    report = quick_look(model(), BATCH, redraws=3)
    document = json.loads(json.dumps(report.to_dict()))
    assert document["metrics"][NAME][0] == pytest.approx(float(second_share(BATCH)), rel=1e-5)
    assert len(document["prediction"]["metrics"][NAME]["mean"]) == len(document["prediction"]["layers"])
    assert NAME in document["prediction"]["infinite"]
    assert columns(document)[NAME][0] == pytest.approx(100 * document["metrics"][NAME][0])
    page = doctor_page(document)
    assert '"title":"share of the second direction"' in page.replace('": "', '":"')
    terminal = io.StringIO()
    print_report(Console(width=120, file=terminal), document)
    assert "2nd share" in terminal.getvalue()
    monitor = SignalMonitor(model(), when=1, budget=None, layers=["1"])
    monitor.step(batch=BATCH)
    assert f"{NAME}/1/Tanh" in monitor.latest
    assert NAME in probe(model(), BATCH).to_dataset()


def test_tables_and_pictures_call_it_by_its_heading(share: Metric) -> None:
    data = simulate(SPEC, make_batch("gaussian", 6, 40), runs=2, metrics=[NAME])
    page = io.StringIO()
    print_trajectory(Console(width=80, file=page), data)
    assert "2nd share" in page.getvalue()
    assert trajectory_picture(data).axes[0].get_title() == "2nd share"


def test_the_command_takes_it(share: Metric) -> None:
    size = ["--width", "20", "--depth", "2", "--batch", "4", "--runs", "2"]
    for command in (["simulate", *size], ["predict", *size]):
        done = CliRunner().invoke(app, [*command, "--metric", NAME, "--json"], catch_exceptions=False)
        assert NAME in json.loads(done.stdout)["metrics"]


def test_the_help_of_the_command_lists_it() -> None:
    code = (
        "from isometer.metrics import Metric, register, stable_rank\n"
        "register(Metric('brand_new_metric', stable_rank, 'gram'))\n"
        "from isometer.cli import app\n"
        "app(['simulate', '--help'])"
    )
    environment = {**os.environ, "COLUMNS": "400", "TERM": "dumb"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert "brand_new_metric" in done.stdout
    assert all(name in done.stdout for name in names(*SIMULATED))
    assert "weight_asymmetry" not in done.stdout


def test_the_explorer_offers_and_computes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")
    from isometer.explore import Desk
    from isometer.explore._requests import simulation_job
    from isometer.explore._state import DepthState
    from isometer.explore.labs._depth import layout
    from isometer.explore.pictures._depth import trajectory_picture as picture

    source = "from isometer.metrics import stable_rank\ndef halved(representation=None, *, gram=None):\n"
    (tmp_path / "own_metrics.py").write_text(source + "    return stable_rank(representation, gram=gram) / 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert DepthState.read("rank=halved_rank")[0].rank == "effective_rank"
    import own_metrics

    register(Metric("halved_rank", own_metrics.halved, "gram", title="halved rank", lower=0.0))
    desk = Desk(workers=1)
    try:
        state, _ = DepthState.read("rank=halved_rank&depth=3&width=12&batch=4&runs=2")
        assert state.rank == "halved_rank"
        assert "'halved'" in str(layout(state))
        found = desk.ask("test", "simulated", [simulation_job(state)])[0]
        drawn = picture("halved_rank", found, None, None, "light")
    finally:
        desk.close()
        unregister("halved_rank")
    assert len(found["metrics"]["halved_rank"]["mean"]) == 4
    assert "halved rank" in json.dumps(drawn["layout"])


def test_metrics_that_depend_on_the_scale_keep_theirs(more: None) -> None:
    batch = 7.0 * make_batch("gaussian", 6, 40, seed=3)
    wanted = {"mean_square": (batch**2).mean(), "largest_entry": abs(batch).max()}
    data = simulate(SPEC, batch, runs=2, metrics=[*wanted, "second_gradient"])
    assert float(predict(SPEC, batch, metrics=["mean_square"])["mean_square"][0, 0]) == pytest.approx(
        wanted["mean_square"]
    )
    for name, value in wanted.items():
        assert float(data[name][0, 0]) == pytest.approx(value), name
    assert np.isfinite(data["second_gradient"].values).all()
    for size in (1.0, 1e15):  # entries so large that their inner products are kept scaled
        seen = probe(model().double(), BATCH.double() * size)
        assert seen.values["mean_square"][0] == pytest.approx(float((BATCH.double() ** 2).mean()) * size**2, rel=1e-6)
        assert seen.values["largest_entry"][0] == pytest.approx(float(BATCH.abs().max()) * size, rel=1e-6)
        assert np.isfinite(seen.values["second_gradient"][-1])
    with pytest.raises(IsometerError, match="'largest_entry'; expected one that depends on the Gram matrix"):
        predict(SPEC, batch, metrics=["largest_entry"])


def test_names_and_entries_are_checked(share: Metric) -> None:
    with pytest.raises(IsometerError, match=r"unknown metric 'stable_rnak'; did you mean 'stable_rank'"):
        metric("stable_rnak")
    with pytest.raises(IsometerError, match="'rank' is a built-in metric; expected a new name"):
        register(Metric("rank", second_share, "gram"), replace=True)
    with pytest.raises(IsometerError, match=r"is registered already; .* replace=True"):
        register(share)
    assert register(share, replace=True) is METRICS[NAME]
    for entry, message in (
        (Metric("two words", second_share, "gram"), "expected an identifier"),
        (Metric("a", lambda h: h, "gram"), "has no parameter 'gram'"),
        (Metric("a", second_share, "picture"), "reads of a is 'picture'; expected one of gram"),  # type: ignore[arg-type]
        (Metric("a", second_share, "gram", group="Pain"), "group of a is 'Pain'"),
        (Metric("a", second_share, "gradient", "linear"), "expected 'invariant'"),
        (Metric("a", None, "gram"), "cannot be computed from a batch"),
    ):
        with pytest.raises(IsometerError, match=message):
            register(entry)
    with pytest.raises(IsometerError, match="unknown metric 'max_abs'; expected one of"):
        simulate(SPEC, np.ones((2, 40)), metrics=["max_abs"])


def test_built_in_entries_are_sound() -> None:
    assert not added()
    assert set(DEFAULT_METRICS) <= set(METRICS)
    assert [entry.name for entry in probed("gram")] == [
        name for name in DEFAULT_METRICS if name not in ("soft_rank", "rank")
    ]
    batch = np.random.default_rng(0).standard_normal((5, 7))
    for name, entry in METRICS.items():
        assert entry.name == name
        assert entry.group in GROUPS
        assert entry.title
        assert entry.heading
        if entry.reads not in ("gram", "products", "representation"):
            continue
        value = float(entry.of(batch))
        assert entry.lower is None or value >= entry.lower, name
        assert entry.upper is None or value <= entry.upper, name
        assert len(entry.heading) <= 20, "four columns fit a terminal"
        if entry.reads == "gram":
            gram = batch @ batch.T / 7
            assert float(entry.of_gram(gram)) == pytest.approx(value, rel=1e-6, abs=1e-6), name
        if entry.scaling != "absolute":
            assert float(entry.of(3.0 * batch)) == pytest.approx(float(entry.at_scale(value, np.log(3.0)))), name


def test_quantities_of_foreign_reports_are_shown_as_they_are() -> None:
    assert (describe("wave 21").title, describe("wave 21").group) == ("wave 21", "Other")
