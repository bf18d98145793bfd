"""The callback of `transformers.Trainer`; in a real trainer where Accelerate is installed."""

from __future__ import annotations

import importlib.util
import json
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers")
from isometer.doctor.watch import SignalMonitor  # noqa: E402
from isometer.doctor.watch.transformers import STATE_FILE, SignalTrainerCallback  # noqa: E402

ACCELERATE = importlib.util.find_spec("accelerate") is not None


class Classifier(nn.Module):
    """Returns a mapping with a loss, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.layers(x)
        loss = logits.mean() if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


def test_steps_accumulate_save_and_resume(tmp_path: Path) -> None:
    """The events of a trainer, in its order: two batches a step, a checkpoint after the third step."""
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    args = types.SimpleNamespace(world_size=1, output_dir=str(tmp_path))
    state = types.SimpleNamespace(global_step=0, is_world_process_zero=True)
    given = {"model": model, "optimizer": optimizer}
    callback = SignalTrainerCallback(budget=None, metrics=["rms"])
    callback.on_train_begin(args, state, None, **given)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        parts = []
        for _ in range(2):
            x = torch.randn(6, 8)
            loss = model(x, (x[:, 0] > 0).long())["loss"]
            (loss / 2).backward()
            parts.append(float(loss.detach()))
        with torch.no_grad():
            model(torch.randn(4, 8))  # an evaluation is no part of a step
        optimizer.step()
        state.global_step += 1
        losses.append(sum(parts) / 2)
        callback.on_step_end(args, state, None, **given)
    (tmp_path / "checkpoint-3").mkdir()
    callback.on_save(args, state, None)
    callback.on_train_end(args, state, None)
    history = callback.monitor.history
    assert history["loss_every_step"].values.tolist() == pytest.approx(losses)
    assert history["step"].values.tolist() == [1, 2, 3]
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    again = SignalTrainerCallback(budget=None, metrics=["rms"])
    again.on_train_begin(args, state, None, **given)
    assert again.monitor.history["rms"].equals(history["rms"])
    again.on_train_end(args, state, None)


def run(folder: Path, steps: int, callbacks: list[Any], *, resume: bool = False) -> Any:
    data = [{"x": torch.randn(8, generator=torch.Generator().manual_seed(i)), "labels": i % 3} for i in range(64)]
    arguments = transformers.TrainingArguments(
        str(folder),
        max_steps=steps,
        save_steps=5,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=1,
    )
    trainer = transformers.Trainer(Classifier(), arguments, train_dataset=data, callbacks=callbacks)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


@pytest.mark.slow
@pytest.mark.skipif(not ACCELERATE, reason="Accelerate is not installed")
@pytest.mark.filterwarnings("ignore")
def test_a_real_trainer_resumes_and_trains_the_same(tmp_path: Path) -> None:
    alone = run(tmp_path / "alone", 10, [])
    callback = SignalTrainerCallback(budget=None)
    watched = run(tmp_path / "watched", 10, [callback])
    for one, other in zip(alone.model.parameters(), watched.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert callback.monitor.steps == 10
    assert not torch.isnan(torch.tensor(callback.monitor.history["loss_every_step"].values)).any()
    kept = json.loads((tmp_path / "watched" / "checkpoint-5" / STATE_FILE).read_text())
    assert kept["steps"] == 5
    run(tmp_path / "cut", 5, [SignalTrainerCallback(budget=None)])
    later = SignalTrainerCallback(budget=None)
    run(tmp_path / "cut", 10, [later], resume=True)
    assert later.monitor.history["step"].values.tolist() == list(range(1, 11))


@pytest.mark.slow
@pytest.mark.skipif(not ACCELERATE, reason="Accelerate is not installed")
@pytest.mark.filterwarnings("ignore")
def test_a_plain_loop_with_accelerate() -> None:
    import accelerate

    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)  # a trainer before this one has set it
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2)
    model = Classifier()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 1e-3))
    monitor = SignalMonitor(model, optimizer, budget=None)
    for _ in range(6):
        with accelerator.accumulate(model):
            x = torch.randn(8, 8)
            loss = model(x, (x[:, 0] > 0).long())["loss"]
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss)
    assert monitor.steps == 3
    assert monitor.history["update_ratio"].notnull().all()
    monitor.close()
