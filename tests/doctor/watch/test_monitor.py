"""The training monitor: what it sees, what it costs, what it survives, and that it changes nothing."""

from __future__ import annotations

import copy
import csv
import gc
import io
import itertools
import logging
import math
import os
import signal
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor import probe
from isometer.doctor.watch import SignalMonitor
from isometer.doctor.watch._schedule import Purse, Schedule
from isometer.doctor.watch._summary import summarize
from isometer.errors import IsometerError
from isometer.metrics import metric

Tensor = torch.Tensor


def make(width: int = 16, depth: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [m for _ in range(depth) for m in (nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Dropout(0.1), nn.Linear(width, 3))


def train(
    model: nn.Module, steps: int, watch: bool = False, *, accumulate: int = 1, clip: float | None = None, **options: Any
) -> tuple[list[float], SignalMonitor | None]:
    """A plain loop, with or without a monitor, batches by the step."""
    optimizer = options.pop("make_optimizer", lambda p: torch.optim.SGD(p, 0.05, momentum=0.9))(model.parameters())
    monitor = SignalMonitor(model, optimizer, **options) if watch else None
    torch.manual_seed(1)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(accumulate):
            x = torch.randn(24, 16, generator=torch.Generator().manual_seed(10 * step + part))
            loss = functional.cross_entropy(model(x), (x[:, 0] > 0).long()) / accumulate
            loss.backward()
            if part < accumulate - 1 and monitor is not None:
                monitor.step(loss)
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss)
    return losses, monitor


@pytest.mark.parametrize("options", [{}, {"accumulate": 2, "clip": 0.1}, {"held": torch.ones(4, 16)}])
def test_training_is_the_same_with_and_without_a_monitor(options: dict[str, Any]) -> None:
    plain, watched = make(), make()
    without = {name: value for name, value in options.items() if name != "held"}
    first, _ = train(plain, 8, **without)
    generator = torch.get_rng_state()
    second, monitor = train(watched, 8, True, budget=None, samples=8, **options)
    assert first == second
    assert torch.equal(generator, torch.get_rng_state())
    for one, other in zip(plain.state_dict().values(), watched.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert monitor is not None
    assert monitor.history["step"].values.tolist() == list(range(1, 9))
    assert monitor.warnings == []


def test_numbers_are_those_of_the_probe() -> None:
    model, x = make().eval(), torch.randn(20, 16, generator=torch.Generator().manual_seed(2))
    wanted = ["soft_rank", "kurtosis", "rms", "rank", "gradient_log_norm"]
    monitor = SignalMonitor(model, samples=20, budget=None, metrics=wanted)
    model(x)
    monitor.step(torch.tensor(1.5))
    found = probe(model, x)
    history = monitor.history.isel(step=0)
    np.testing.assert_array_equal(history["rms"], found.values["rms"])
    hidden = model[:6](x).detach()
    layer = next(i for i, name in enumerate(history["name"].values) if name == "5")
    for name in ("soft_rank", "kurtosis", "rank"):  # those that the probe does not measure by itself
        assert float(history[name][layer]) == pytest.approx(float(metric(name).of(hidden)), rel=1e-4)
    assert float(history["loss"]) == 1.5
    np.testing.assert_equal(monitor.latest, summarize(found) | {"nonfinite_layer": -1.0})
    np.testing.assert_array_equal(history["gradient_log_norm"], found.values["gradient_log_norm"])
    assert set(history.data_vars) >= {*wanted, "loss"}
    assert "effective_rank" not in history  # what only the warnings read is not shown


def test_updates_are_those_of_the_optimizer() -> None:
    model = make(depth=2)
    body, head = list(model[:-1].parameters()), list(model[-1].parameters())

    def optimizer(_: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD([{"params": body, "lr": 0.01, "name": "body"}, {"params": head, "lr": 0.5}])

    before = [p.detach().clone() for p in model.parameters()]
    _, monitor = train(model, 1, True, make_optimizer=optimizer, clip=0.1, budget=None)
    assert monitor is not None
    after = [p.detach() for p in model.parameters()]
    history = monitor.history.isel(step=0)
    ratios = [float((b - a).norm() / a.norm()) for a, b in zip(before, after, strict=True)]
    expected = [math.inf if not a.norm() and b.norm() else r for a, b, r in zip(before, after, ratios, strict=True)]
    np.testing.assert_allclose(history["update_ratio"], np.nan_to_num(expected, posinf=math.inf), rtol=1e-4)
    np.testing.assert_allclose(history["update_alignment"].dropna("parameter"), 1.0, rtol=1e-5)  # plain SGD
    assert history["group"].values.tolist() == ["body", "1"]
    total = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None))
    assert total == pytest.approx(0.1, rel=1e-3)
    assert float(np.sqrt((history["gradient_norm"] ** 2).sum())) == pytest.approx(total, rel=1e-4)  # after clipping
    size = math.sqrt(sum(float(p.grad.square().sum()) for p in head)) * 0.5  # type: ignore[union-attr]
    weights = math.sqrt(sum(float(p.square().sum()) for p in before[-2:]))
    assert float(history["group_update_ratio"][1]) == pytest.approx(size / weights, rel=1e-4)


@pytest.mark.parametrize("given", [True, False])
def test_overshoot_is_rate_times_curvature(given: bool) -> None:
    """On ½ λ w² gradient descent overshoots by η λ, exactly."""
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    monitor = SignalMonitor(model, optimizer if given else None, budget=None)
    for _ in range(4):
        optimizer.zero_grad()
        loss = 4.0 * model(torch.ones(2, 1)).square().mean()  # λ = 8
        loss.backward()
        optimizer.step()
        monitor.step(loss)
    known = monitor.history["overshoot"].dropna("step").values
    assert len(known) >= 2
    np.testing.assert_allclose(known, 2.4, rtol=1e-5)


def test_tangent_kernel_drift_on_a_held_batch() -> None:
    model, x = nn.Sequential(nn.Linear(3, 5, bias=False), nn.Linear(5, 1, bias=False)), torch.randn(4, 3)
    monitor = SignalMonitor(model, held=x, budget=None)
    for _ in range(2):
        model(x)
        monitor.step()
        with torch.no_grad():
            model[1].weight.mul_(2.0)
    history = monitor.history
    names = history["name"].values.tolist()
    moved = history["tangent_kernel_drift"].isel(step=1)
    # the first layer's part of the kernel has the factor 4; that of the second does not know its own weights
    assert float(moved[names.index("0")]) == pytest.approx(3.0, rel=1e-4)
    assert float(moved[names.index("1")]) == pytest.approx(0.0, abs=1e-6)
    assert float(history["kernel_drift"][0]) == 0.0
    assert float(history["kernel_growth"][1]) > 1.0


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.block = nn.MultiheadAttention(8, 2, batch_first=True)
        self.out.weight = self.embed.weight  # tied
        self.frozen = nn.Linear(8, 8)
        self.frozen.requires_grad_(False)

    def forward(self, tokens: Tensor, *, scale: float = 1.0) -> Any:
        x = self.embed(tokens)
        x = x + self.block(x, x, x, need_weights=False)[0]
        return {"logits": self.out(self.frozen(x)) * scale}


def test_attention_tied_and_frozen_weights_and_a_changing_number_of_tokens() -> None:
    torch.manual_seed(0)
    model = Attention()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
    monitor = SignalMonitor(model, optimizer, budget=None)
    for length in (5, 9, 3, 7):
        tokens = torch.randint(11, (6, length))
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(tokens, scale=0.5)["logits"].flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        monitor.step(loss)
    history = monitor.history
    entropy = history["attention_relative_entropy"].dropna("layer", how="all")
    assert entropy.shape == (4, 1)
    assert ((entropy > 0.5) & (entropy <= 1)).all()
    assert "out.weight" not in history["parameter"].values  # the same as embed.weight, once
    frozen = history.sel(parameter="frozen.weight")
    assert (frozen["update_ratio"] == 0).all()
    assert frozen["gradient_norm"].isnull().all()
    assert (history["update_ratio"].sel(parameter="embed.weight") > 0).all()
    assert history.sizes["layer"] == len(monitor.observations[0].layers)  # the same layers at every length


def test_nan_is_seen_and_nothing_stops(caplog: pytest.LogCaptureFixture) -> None:
    model = make()
    seen: list[dict[str, float]] = []
    monitor = SignalMonitor(model, log=lambda step, numbers: seen.append(dict(numbers)), budget=None)
    with torch.no_grad():
        model[3].weight.fill_(math.nan)
    monitor.step(math.nan, batch=torch.randn(8, 16))
    assert seen[-1]["signal/nonfinite_layer"] > 0
    monitor.step(math.inf, batch=torch.full((8, 16), math.nan))
    assert len(seen) == 2
    monitor.step(1.0, batch="not a batch")
    monitor.step(1.0, batch="not a batch")
    assert monitor.history["loss"].values.tolist()[1:] == [math.inf, 1.0, 1.0]
    told = [r for r in caplog.records if "could not be observed" in r.getMessage()]
    assert len(told) == 1, "said once"
    uncalled = SignalMonitor(make(), budget=None)
    uncalled.step(1.0)
    assert "the model was not called" in caplog.text


def test_broken_outlets_do_not_stop_training(caplog: pytest.LogCaptureFixture) -> None:
    def broken(step: int, numbers: Any) -> None:
        raise OSError("disk full")

    losses, _ = train(make(), 4, True, log=broken, budget=None)
    assert len(losses) == 4
    assert caplog.text.count("disk full") == 1


def test_outlets(tmp_path: Path) -> None:
    scalars: list[tuple[str, float, int]] = []
    logged: list[tuple[dict[str, float], int]] = []
    writer = types.SimpleNamespace(add_scalar=lambda name, value, step: scalars.append((name, value, step)))
    run = types.SimpleNamespace(log=lambda numbers, step: logged.append((numbers, step)))
    path = tmp_path / "signal.csv"
    monitor = SignalMonitor(make(), log=[writer, run, str(path)], when=2, budget=None, layers=["0", "2"])
    for _ in range(4):
        monitor.step(1.0, batch=torch.randn(8, 16))
    assert {step for _, _, step in scalars} == {2, 4}
    assert logged[0][0]["signal/rms/last"] == next(v for n, v, _ in scalars if n == "signal/rms/last")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["step"] for row in rows} == {"2", "4"}
    assert any(row["name"] == "signal/rms/2/ReLU" for row in rows)
    assert set(monitor.history["name"].values) == {"0", "2"}
    with pytest.raises(IsometerError, match="SummaryWriter"):
        SignalMonitor(make(), log=3)
    with pytest.raises(IsometerError, match="does not exist"):
        SignalMonitor(make(), log=tmp_path / "missing" / "x.csv")


def test_a_killed_run_resumes_without_gaps(tmp_path: Path) -> None:
    """The checkpoint of step 5, after which the process went on to step 8 and died in the middle of a row."""
    path = tmp_path / "signal.csv"

    def start() -> tuple[nn.Module, Any, SignalMonitor]:
        model = make()
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        return model, optimizer, SignalMonitor(model, optimizer, budget=None, log=path, held=torch.ones(3, 16))

    def go(model: nn.Module, optimizer: Any, monitor: SignalMonitor, first: int, last: int) -> None:
        for step in range(first, last + 1):
            torch.manual_seed(step)
            loss = model(torch.randn(8, 16)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss)

    whole, file = start(), io.BytesIO()
    go(*whole, 1, 5)
    torch.save([part.state_dict() for part in whole], file)
    go(*whole, 6, 8)
    expected, written = whole[2].history, path.read_text()
    with path.open("a") as out:
        out.write("9,signal/rm")
    again = start()
    for part, state in zip(again, torch.load(io.BytesIO(file.getvalue()), weights_only=True), strict=True):
        part.load_state_dict(state)
    assert again[2].steps == 5
    assert again[2].latest
    go(*again, 6, 8)
    assert path.read_text() == written
    history = again[2].history
    # The overshoot of step 5 needs the gradients of step 6 beside the update of step 5, which no checkpoint holds.
    assert math.isnan(history["overshoot"][4])
    assert history.drop_vars("overshoot").equals(expected.drop_vars("overshoot"))
    assert history["training_step"].values.tolist() == list(range(1, 9))


def test_without_a_metric_that_needs_them_no_gradients_are_read() -> None:
    model = make()
    monitor = SignalMonitor(model, budget=None, metrics=["rms"])
    model(torch.randn(8, 16))
    monitor.step(1.0)
    assert np.isfinite(monitor.history["rms"]).all()
    assert not [name for name in monitor.latest if "gradient" in name]


def test_wrapped_and_copied_models() -> None:
    class DistributedDataParallel(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Tensor) -> Any:
            return self.module(x)

    model = DistributedDataParallel(make())
    monitor = SignalMonitor(model, budget=None)
    model(torch.randn(8, 16))
    monitor.step()
    assert len(monitor.observations[0].layers) > 10
    twin = copy.deepcopy(model)  # as for a moving average of the weights
    monitor._tap.open = True
    monitor._tap.call = None
    twin(torch.randn(8, 16))
    with torch.no_grad():
        model(torch.randn(8, 16))
    assert monitor._tap.call is None, "neither a copy nor an evaluation is the training"
    monitor.close()
    assert not model._forward_pre_hooks


def test_mixed_precision_is_that_of_the_call() -> None:
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    model = make()
    monitor = SignalMonitor(model, budget=None, metrics=["overflow_headroom"])
    with torch.autocast("cpu", dtype=torch.float16):
        model(torch.randn(8, 16))
    monitor.step()  # outside of it, as loops do
    room = monitor.history["overflow_headroom"].isel(step=0)
    linear = [i for i, op in enumerate(monitor.history["op"].values) if op == "Linear"]
    assert (room[linear] < 6).all()  # float16 ends at 65504
    assert float(room[0]) > 30


def test_checkpointed_and_compiled_models() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.out = nn.Sequential(nn.Linear(16, 16), nn.ReLU()), nn.Linear(16, 3)

        def forward(self, x: Tensor) -> Any:
            from torch.utils.checkpoint import checkpoint

            return self.out(checkpoint(self.inner, x, use_reentrant=False))

    _, monitor = train(Checkpointed(), 3, True, budget=None)
    assert monitor is not None
    assert "inner.1" in monitor.history["name"].values
    compiled = torch.compile(make(depth=1), backend="eager")
    _, monitor = train(compiled, 3, True, budget=None)
    assert monitor is not None
    assert monitor.history.sizes == {**monitor.history.sizes, "step": 3}
    assert np.isfinite(monitor.history["rms"]).all()


def test_schedule() -> None:
    usual, last, seen = Schedule(None), 0, []
    for step in range(1, 10_001):
        if usual.wanted(step, last):
            last = step
            seen.append(step)
    assert seen[:30] == [*range(1, 11), *range(12, 51, 2)]
    assert 150 < len(seen) < 250
    assert max(b / a for a, b in itertools.pairwise(seen[40:])) < 1.06
    assert [s for s in range(1, 9) if Schedule([2, 7]).wanted(s, 0)] == [2, 7]
    assert [s for s in range(1, 9) if Schedule(lambda s: s > 6).wanted(s, 0)] == [7, 8]
    for wrong in (0, "often", 1.5, True):
        with pytest.raises(IsometerError, match="when is"):
            Schedule(wrong)  # type: ignore[arg-type]


def test_the_purse_keeps_its_share() -> None:
    """Steps of 2 ms and observations of 9 ms, the first of 300 ms: 3 % and the allowance, whatever the order."""
    purse, seen = Purse(0.03), 0
    for step in range(20_000):
        purse.earn(0.002)
        if purse.affords():
            purse.spend(0.3 if step == 0 else 0.009 + 0.004 * (step % 2), observed=True)
            seen += 1
        # An observation may be dearer than the one before it, by 4 ms here.
        assert purse.spent <= 0.03 * purse.elapsed + purse.allowance + 0.004 + 1e-9
    assert purse.share <= 0.03 + (purse.allowance + 0.004) / purse.elapsed
    assert seen > 100
    other = Purse(0.03)
    other.restore(purse.state())
    assert (other.affords(), other.share) == (purse.affords(), purse.share)


def test_the_budget_leaves_observations_out() -> None:
    _, monitor = train(make(), 400, True, budget=1e-6)
    assert monitor is not None
    assert monitor.left_out > 100
    assert len(monitor.observations) > 2, "the allowance"
    assert monitor._purse.spent < monitor._purse.first + 1.0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"samples": 1}, "samples"),
        ({"budget": 0.0}, "budget"),
        ({"metrics": ["rms", "rnak"]}, "did you mean 'rank'"),
        ({"metrics": ["token_cosine"]}, "measured in a model"),
        ({"optimizer": 3}, "torch.optim.Optimizer"),
    ],
)
def test_what_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(IsometerError, match=told):
        SignalMonitor(make(), **options)


def test_a_model_on_the_meta_device_is_refused_in_one_line() -> None:
    with torch.device("meta"):
        model = make()
    with pytest.raises(IsometerError, match=r"0\.weight is on the meta device .*to_empty") as caught:
        SignalMonitor(model)
    assert "\n" not in str(caught.value)
    with pytest.raises(IsometerError, match=r"expected a torch\.nn\.Module"):
        SignalMonitor(3)  # type: ignore[arg-type]


def test_summary_of_a_model_without_hidden_layers_is_defined() -> None:
    found = summarize(probe(nn.Linear(4, 2), torch.randn(5, 4)))
    assert found["nonfinite_layer"] == -1
    assert math.isfinite(found["gradient_log_norm/first"])


def test_logging_is_quiet_on_a_sound_run(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        train(make(), 5, True, budget=None)
    assert not caplog.records


def test_an_interrupted_start_leaves_no_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(optimizer, "register_step_post_hook", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SignalMonitor(model, optimizer)
    assert not model._forward_pre_hooks
    assert not optimizer._optimizer_step_pre_hooks


def test_lazy_weights_are_refused_until_they_have_a_shape() -> None:
    model = nn.LazyLinear(2)
    with pytest.raises(IsometerError, match=r"parameter 'weight' is lazy .* call the model on one batch first"):
        SignalMonitor(model)
    model(torch.ones(3, 4))
    SignalMonitor(model).close()


def test_ctrl_c_while_closing_takes_every_hook_off_first(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = SignalMonitor(model, optimizer)
    first = monitor._hooks._standing[0]
    remove = first.remove

    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        remove()

    monkeypatch.setattr(first, "remove", interrupted)
    with pytest.raises(KeyboardInterrupt):
        monitor.close()
    assert not model._forward_pre_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_ctrl_c_right_after_a_hook_was_put_on_takes_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(2, 2)
    register = model.register_forward_pre_hook

    def interrupted(*arguments: Any, **keywords: Any) -> Any:
        handle = register(*arguments, **keywords)
        signal.raise_signal(signal.SIGINT)  # the handle is in no list yet
        return handle

    monkeypatch.setattr(model, "register_forward_pre_hook", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SignalMonitor(model, when=1)
    assert not model._forward_pre_hooks


def test_ctrl_c_in_the_middle_leaves_gradients_on(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(2, 2)
    monitor = SignalMonitor(model, when=1)

    def interrupted() -> None:
        torch.set_grad_enabled(False)  # as no_grad does, and an interruption before its block has begun
        raise KeyboardInterrupt

    monkeypatch.setattr(monitor._updates, "after", interrupted)
    with pytest.raises(KeyboardInterrupt):
        monitor.step(0.5, batch=torch.ones(3, 2))
    assert torch.is_grad_enabled()
    monitor.close()


def test_hooks_end_with_a_monitor_that_nobody_closed() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = SignalMonitor(model, optimizer, when=1)
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    monitor.step(0.5)
    assert model._forward_pre_hooks
    del monitor
    gc.collect()
    assert not model._forward_pre_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_scripted_model_is_refused() -> None:
    with pytest.raises(IsometerError, match="scripted and takes no hooks"):
        SignalMonitor(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)))
