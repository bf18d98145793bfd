"""The monitor as a callback: Lightning, and what it says where it is missing."""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from isometer.errors import IsometerError


def make() -> nn.Sequential:
    torch.manual_seed(0)
    layers = [m for _ in range(4) for m in (nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(16, 3))


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


def test_lightning_callback_logs_and_resumes(lightning: Any) -> None:
    seen: list[tuple[dict[str, float], int]] = []
    logger = types.SimpleNamespace(log_metrics=lambda numbers, step: seen.append((numbers, step)))
    trainer = types.SimpleNamespace(loggers=[logger], is_global_zero=True)
    model = make()
    callback = lightning.SignalCallback(when=2, budget=None)
    callback.on_train_start(trainer, model)
    for index in range(4):
        batch = (torch.randn(8, 16), torch.zeros(8, dtype=torch.long))
        callback.on_train_batch_end(trainer, model, None, batch, index)
    assert [step for _, step in seen] == [2, 4]
    assert "signal/rms/last" in seen[0][0]
    other = lightning.SignalCallback(when=2, budget=None)
    other.load_state_dict(callback.state_dict())
    other.on_train_start(trainer, model)
    assert other.monitor.steps == 4
    other.on_train_batch_end(trainer, model, {"loss": torch.tensor(2.0)}, torch.randn(8, 16), 5)
    assert float(other.monitor.history["loss_every_step"][-1]) == 2.0
    other.on_train_end(trainer, model)
    callback.on_train_end(trainer, model)
    assert not model._forward_pre_hooks
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
