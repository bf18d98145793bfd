"""The training monitor and the Lightning callback: what they log, what they cost, what they survive."""

from __future__ import annotations

import csv
import logging
import math
import pickle
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor import probe
from isometer.doctor.watch import SignalMonitor
from isometer.doctor.watch._monitor import summarize
from isometer.errors import IsometerError

Tensor = torch.Tensor


def make(width: int = 16, depth: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [m for _ in range(depth) for m in (nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, 3))


def train(model: nn.Module, steps: int, monitor: SignalMonitor | None = None, rate: float = 0.05) -> list[float]:
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    losses = []
    for _ in range(steps):
        x = torch.randn(24, 16, generator=generator)
        y = (x[:, 0] > 0).long()
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(x, target=y, loss=functional.cross_entropy)
    return losses


def test_training_is_the_same_with_and_without_a_monitor() -> None:
    plain, watched = make(), make()
    monitor = SignalMonitor(watched, every=3, budget=None, samples=8)
    assert train(plain, 12) == train(watched, 12, monitor)
    for one, other in zip(plain.state_dict().values(), watched.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert [step for step, _ in monitor.history] == [3, 6, 9, 12]


def test_numbers_are_those_of_the_probe() -> None:
    model, x = make(), torch.randn(20, 16, generator=torch.Generator().manual_seed(2))
    monitor = SignalMonitor(model, every=1, samples=20, budget=None)
    monitor.step(x)
    found = probe(model, x)
    last = max(i for i, site in enumerate(found.sites) if site.kind == "activation")
    assert monitor.latest["mean_abs_cosine/last"] == pytest.approx(
        found.values["mean_abs_cosine"][[last, last - 1]].min()
    )
    weights = [i for i, site in enumerate(found.sites) if site.kind == "weight"]
    assert monitor.latest["gradient_log_norm/first"] == pytest.approx(found.values["gradient_log_norm"][weights[0]])
    # the rms of the last activation, computed here
    hidden = model[:-1](x)
    assert monitor.latest["rms/last"] >= float(hidden.square().mean().sqrt().detach()) - 1e-5
    assert monitor.latest["nonfinite_layer"] == -1


def test_nan_is_logged_and_nothing_stops(caplog: pytest.LogCaptureFixture) -> None:
    model = make()
    seen: list[dict[str, float]] = []
    monitor = SignalMonitor(model, lambda step, numbers: seen.append(dict(numbers)), every=1, budget=None)
    with torch.no_grad():
        model[3].weight.fill_(math.nan)
    monitor.step(torch.randn(8, 16))
    assert seen[-1]["signal/nonfinite_layer"] > 0
    monitor.step(torch.full((8, 16), math.nan))
    assert len(seen) == 2
    monitor.step("not a batch")
    monitor.step("not a batch")
    assert len(seen) == 2
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1, "said once"


def test_broken_outlets_do_not_stop_training(caplog: pytest.LogCaptureFixture) -> None:
    def broken(step: int, numbers: Any) -> None:
        raise OSError("disk full")

    model = make()
    losses = train(model, 4, SignalMonitor(model, broken, every=1, budget=None))
    assert len(losses) == 4
    assert "disk full" in caplog.text
    assert caplog.text.count("disk full") == 1


def test_outlets(tmp_path: Path) -> None:
    scalars: list[tuple[str, float, int]] = []
    logged: list[tuple[dict[str, float], int]] = []
    writer = types.SimpleNamespace(add_scalar=lambda name, value, step: scalars.append((name, value, step)))
    run = types.SimpleNamespace(log=lambda numbers, step: logged.append((numbers, step)))
    path = tmp_path / "signal.csv"
    monitor = SignalMonitor(make(), [writer, run, str(path)], every=2, budget=None, layers=["0", "2"])
    for _ in range(4):
        monitor.step(torch.randn(8, 16))
    assert {step for _, _, step in scalars} == {2, 4}
    assert logged[0][0]["signal/rms/last"] == next(v for n, v, _ in scalars if n == "signal/rms/last")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["step"] for row in rows} == {"2", "4"}
    assert any(row["name"] == "signal/rms/2/ReLU" for row in rows)
    with pytest.raises(IsometerError, match="SummaryWriter"):
        SignalMonitor(make(), 3)
    with pytest.raises(IsometerError, match="does not exist"):
        SignalMonitor(make(), tmp_path / "missing" / "x.csv")


def test_resume_continues_where_it_was() -> None:
    model = make()
    whole = SignalMonitor(model, every=2, budget=None)
    for _ in range(7):
        whole.step(torch.randn(8, 16))
    state = pickle.loads(pickle.dumps(whole.state_dict()))
    again = SignalMonitor(model, every=2, budget=None)
    again.load_state_dict(state)
    assert (again.steps, again.observations) == (7, 3)
    assert again.latest == pytest.approx(whole.latest, nan_ok=True)
    again.step(torch.randn(8, 16))
    assert [step for step, _ in again.history] == [2, 4, 6, 8]


def test_wrapped_models_and_autocast() -> None:
    class DistributedDataParallel(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Tensor) -> Tensor:
            raise AssertionError("the wrapper would talk to other processes")

    monitor = SignalMonitor(DistributedDataParallel(make()), every=1, budget=None)
    monitor.step(torch.randn(8, 16))
    assert monitor.observations == 1
    half = SignalMonitor(make(), every=1, budget=None)
    with torch.autocast("cpu", dtype=torch.float16):
        half.step(torch.randn(8, 16))
    assert half.observations == 1
    assert math.isfinite(half.latest["rms/last"])


def test_budget_leaves_observations_out() -> None:
    model = make()
    strict = SignalMonitor(model, every=1, budget=1e-6)
    for _ in range(5):
        strict.step(torch.randn(8, 16))
    assert (strict.observations, strict.left_out) == (1, 4)
    for wrong in ({"every": 0}, {"samples": 1}, {"budget": 0.0}):
        with pytest.raises(IsometerError, match=next(iter(wrong))):
            SignalMonitor(model, **wrong)


def test_summary_of_a_model_without_hidden_layers_is_defined() -> None:
    found = summarize(probe(nn.Linear(4, 2), torch.randn(5, 4)))
    assert found["nonfinite_layer"] == -1
    assert math.isfinite(found["gradient_log_norm/first"])


# --- Lightning --------------------------------------------------------------------------------------------------------


@pytest.fixture
def lightning(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A stub with the part of the public interface that the callback builds on."""
    stub, package = types.ModuleType("lightning.pytorch"), types.ModuleType("lightning")
    stub.Callback = type("Callback", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lightning", package)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", stub)
    import isometer.doctor.watch.lightning as room

    vars(room).pop("SignalCallback", None)
    yield room
    vars(room).pop("SignalCallback", None)


def test_lightning_callback_logs_on_the_first_process_and_resumes(lightning: Any) -> None:
    seen: list[tuple[dict[str, float], int]] = []
    logger = types.SimpleNamespace(log_metrics=lambda numbers, step: seen.append((numbers, step)))
    trainer = types.SimpleNamespace(loggers=[logger], is_global_zero=True)
    model = make()
    callback = lightning.SignalCallback(every=2, budget=None)
    callback.on_train_start(trainer, model)
    for index in range(4):
        batch = (torch.randn(8, 16), torch.zeros(8, dtype=torch.long))
        callback.on_train_batch_end(trainer, model, None, batch, index)
    assert [step for _, step in seen] == [2, 4]
    assert "signal/rms/last" in seen[0][0]
    other = lightning.SignalCallback(every=2, budget=None)
    other.load_state_dict(callback.state_dict())
    other.on_train_start(trainer, model)
    assert other.monitor.steps == 4
    trainer.is_global_zero = False
    other.on_train_batch_end(trainer, model, None, torch.randn(8, 16), 5)
    assert other.monitor.steps == 4
    assert pickle.loads(pickle.dumps(lightning.SignalCallback)) is lightning.SignalCallback


def test_without_lightning_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import isometer.doctor.watch.lightning as room

    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    vars(room).pop("SignalCallback", None)
    with pytest.raises(IsometerError, match=r"isometer\[lightning\]"):
        _ = room.SignalCallback
    with pytest.raises(AttributeError):
        _ = room.Nonsense
