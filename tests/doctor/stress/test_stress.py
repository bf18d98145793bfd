"""Verdicts on clear cases, and what a stress test leaves alone."""

from __future__ import annotations

import itertools
import json
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn, optim
from torch.nn import functional
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from isometer.doctor import diagnose
from isometer.doctor.diagnosis._report import Report
from isometer.doctor.stress import _stress
from isometer.doctor.stress._plans import PLANS, Plan
from isometer.errors import IsometerError
from support.restoration import state
from support.stressing import classes, deep, drawn, mlp, plan_of, wrong_sign

BATCH = classes(1)[0]


def _diagnosed(model: nn.Module, batch: Any = None, target: Any = None, **settings: Any) -> Report:
    return diagnose(
        model, batch, target=target, **{"optimizer": "adam", "predict": False, "redraws": 3, "budget": 1e4} | settings
    )


def _noise(seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Labels that have nothing to do with the inputs, without end."""
    for step in itertools.count(1000 * seed):
        yield drawn(32, 8, seed=step), torch.randint(3, (32,), generator=torch.Generator().manual_seed(step))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not the verdict that matters."""
    plan_of(monkeypatch, Plan("brief", 3, 4, 2, 0, 1))


@pytest.fixture
def middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the verdict is clear without long runs."""
    plan_of(monkeypatch, PLANS[1])


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_healthy_model_trains_with_both() -> None:
    report = _diagnosed(mlp(), classes(), optimizer=None)
    assert {name: one.verdict for name, one in report.trains.items()} == {"adam": "trains", "sgd": "trains"}
    assert report.healthy is True
    assert report.stress is not None
    assert (report.stress.targets, report.stress.skipped, report.stress.in_place) == ("yours", "", "")
    for one in report.trains.values():
        assert one.probability > 0.5
        assert one.best_rate in one.rates
        assert one.at_rate is None
    # Two probes of model and reference with each optimizer, three rates or more over two decades.
    for name, who in itertools.product(("adam", "sgd"), ("model", "reference")):
        runs = [run for run in report.stress.runs if (run.optimizer, run.who) == (name, who)]
        assert {run.on for run in runs} == {"one batch", "fresh batches"}
        rates = {run.rate for run in runs}
        assert len(rates) >= 3
        assert max(rates) / min(rates) > 100
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["healthy"] is True


def _zero() -> nn.Sequential:
    model = mlp()
    for module in model:
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.weight)
            nn.init.zeros_(module.bias)
    return model


@pytest.mark.usefixtures("middle")
@pytest.mark.parametrize("make", [_zero, lambda: deep(20)], ids=["zero", "vanishing"])
def test_a_model_that_learns_nothing_beside_a_reference_that_does_is_sick(make: Callable[[], nn.Module]) -> None:
    report = _diagnosed(make(), *BATCH, optimizer="sgd")
    evidence = report.trains["sgd"].evidence
    assert evidence.fit < 0.05
    assert evidence.reference_fit > 0.3
    assert report.trains["sgd"].verdict == "sick"
    assert report.healthy is False


def _long_runs(report: Report, steps: int) -> list[float]:
    assert report.stress is not None
    return [run.rate for run in report.stress.runs if (run.who, run.steps) == ("model", steps)]


def test_a_model_is_called_sick_only_after_long_runs_at_further_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first steps of SGD teach nothing at any rate, and noise decides which rates look best: here the smallest."""
    plan_of(monkeypatch, Plan("brief", 5, 2, 2, 60, 0))
    monkeypatch.setattr(_stress, "_promising", lambda runs: sorted(run.rate for run in runs)[:2])
    monkeypatch.setattr(_stress.Rival, "yardstick", lambda *_: 0.8)

    def verdict(model: nn.Module) -> tuple[str, list[float]]:
        report = _diagnosed(model, classes(60), optimizer="sgd", budget=1e-6)
        return report.trains["sgd"].verdict, _long_runs(report, 60)

    said, rates = verdict(mlp())
    assert said != "sick"
    assert rates == sorted(rates[:2]) + sorted(rates[2:], reverse=True)
    assert len(set(rates)) == 5
    said, rates = verdict(deep(20))
    assert (said, len(set(rates))) == ("sick", 5)
    monkeypatch.setattr(_stress, "SECOND_LOOK", 0)
    assert verdict(mlp())[0] == "sick"


@pytest.mark.usefixtures("middle")
@pytest.mark.parametrize(
    ("loss", "batch"),
    [
        (wrong_sign, [BATCH]),
        (None, [(x, torch.full((16, 3), math.nan)) for x, _ in [BATCH]]),
        (lambda y, t: functional.cross_entropy(y, t) * math.inf, [BATCH]),
    ],
    ids=["negated", "nan", "infinite"],
)
def test_a_loss_that_nothing_can_be_learned_from_is_sick(loss: Any, batch: Any) -> None:
    report = _diagnosed(mlp(), batch, loss=loss)
    assert report.trains["adam"].verdict == "sick"
    assert report.trains["adam"].evidence.broken
    assert report.healthy is False


@pytest.mark.usefixtures("short")
def test_a_loss_without_a_gradient_is_not_healthy() -> None:
    assert _diagnosed(mlp(), classes(2), loss=lambda y, t: functional.cross_entropy(y.detach(), t)).healthy is not True


@pytest.mark.usefixtures("middle")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_nobody_can_learn_is_blamed_on_the_data(seed: int) -> None:
    report = _diagnosed(mlp(seed=seed), _noise(seed))
    assert report.trains["adam"].verdict == "sick"
    assert report.causes[0].modules == ("targets", "input")


@pytest.mark.usefixtures("middle")
def test_log_probabilities_with_their_likelihood_train() -> None:
    report = _diagnosed(nn.Sequential(mlp(), nn.LogSoftmax(1)), *BATCH, loss=functional.nll_loss)
    assert report.trains["adam"].verdict == "trains"


@pytest.mark.usefixtures("middle")
@pytest.mark.parametrize(("rate", "verdict"), [(1e4, "sick"), (1e-7, "slow"), (1e-2, "slow"), (0.1, "trains")])
def test_the_caller_s_rate_is_judged(rate: float, verdict: str) -> None:
    report = _diagnosed(mlp(), *BATCH, optimizer="sgd", lr=rate)
    found = report.trains["sgd"]
    assert found.verdict == "trains"
    assert found.at_rate is not None
    assert (found.at_rate.rate, found.at_rate.verdict) == (rate, verdict)
    assert report.healthy is (verdict != "sick")


@pytest.mark.usefixtures("middle")
def test_a_schedule_that_stops_at_once_is_slow() -> None:
    report = _diagnosed(mlp(), *BATCH, lr=0.01, schedule=lambda one: lr_scheduler.LambdaLR(one, lambda step: 0.0))
    found = report.trains["adam"].at_rate
    assert found is not None
    assert (report.trains["adam"].verdict, found.verdict) == ("trains", "slow")


@pytest.mark.usefixtures("short")
def test_the_same_seed_gives_the_same() -> None:
    def told(seed: int) -> list[Any]:
        model = nn.Sequential(mlp(), nn.Dropout(0.2))
        report = _diagnosed(model, classes(), seed=seed)
        assert report.stress is not None
        return [(run.rate, run.who, run.losses) for run in report.stress.runs]

    first = told(1)
    torch.rand(5)
    assert told(1) == first
    assert told(2) != first


# --- kinds of models and batches --------------------------------------------------------------------------------------


class _Answers(nn.Module):
    """Returns its answer in some wrapping."""

    def __init__(self, wrap: Callable[[torch.Tensor], Any], outputs: int = 3) -> None:
        super().__init__()
        self.body = mlp(outputs=outputs)
        self.wrapped = wrap

    def forward(self, x: torch.Tensor) -> Any:
        return self.wrapped(self.body(x))


def _dictionary(y: torch.Tensor) -> dict[str, Any]:
    return {"logits": y, "more": [y.detach(), None]}


X, Y = BATCH
KINDS: dict[str, tuple[Callable[[], nn.Module], Any, dict[str, Any]]] = {
    "no batch": (mlp, None, {}),
    "no batch, pictures": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 5, stride=4), nn.Flatten(), nn.Linear(72, 2)),
        None,
        {},
    ),
    "one batch": (mlp, X, {"target": Y}),
    "no targets": (mlp, X, {}),
    "tuple": (lambda: _Answers(lambda y: (y, y.detach())), classes(), {}),
    "dictionary": (
        lambda: _Answers(_dictionary),
        classes(),
        {"loss": lambda y, t: functional.cross_entropy(y["logits"], t)},
    ),
    "one number for each": (lambda: _Answers(lambda y: y.squeeze(-1), 1), X, {}),
    "tokens": (lambda: nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 4)), torch.arange(18) % 9, {}),
    "two samples": (
        lambda: nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)),
        [(x[:2], y[:2]) for x, y in classes(8)],
        {},
    ),
    "dropout": (lambda: nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.3), nn.Linear(32, 3)), classes(), {}),
    "double": (lambda: mlp().double(), [(x.double(), y) for x, y in classes()], {}),
    "bfloat16": (lambda: mlp().bfloat16(), [(x.bfloat16(), y) for x, y in classes()], {}),
    "bfloat16, no targets": (lambda: mlp().bfloat16(), X.bfloat16(), {}),
    "loader": (mlp, DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True), {}),
    "weights by hand": (mlp, classes(), {"optimizer": lambda parameters: optim.RMSprop(parameters, lr=1e-3)}),
}


@pytest.mark.usefixtures("short")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", KINDS)
def test_models_and_batches_of_all_kinds_are_run_and_left_alone(name: str) -> None:
    make, batch, settings = KINDS[name]
    model = make()
    for parameter in list(model.parameters())[:1]:
        parameter.grad = torch.ones_like(parameter)
    before = state(model)
    report = _diagnosed(model, batch, **settings)
    assert state(model) == before
    assert report.stress is not None
    assert not report.stress.skipped
    for who in ("model", "reference"):
        runs = [run for run in report.stress.runs if run.who == who and run.on == "one batch"]
        assert min(run.end / run.losses[0] for run in runs) < 0.999


@pytest.mark.usefixtures("short")
def test_frozen_and_whole_numbered_parameters_are_left_alone() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp()
            self.places = nn.Parameter(torch.arange(8), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.body(x[:, self.places])
            return found

    model = Odd()
    model.body[0].requires_grad_(False)
    before = state(model)
    report = _diagnosed(model, classes())
    assert state(model) == before
    assert report.stress is not None
    assert report.stress.effects["adam"].frozen == ("", "body.0")
    assert report.stress.kept == ("places",)


@pytest.mark.usefixtures("short")
def test_a_model_without_trained_parameters_is_not_healthy() -> None:
    report = _diagnosed(mlp().requires_grad_(False), classes())
    assert report.trains["adam"].evidence.fresh == 0
    assert report.healthy is not True
    nothing = _diagnosed(nn.Sequential(nn.Flatten(), nn.Tanh()), drawn(16, 5))
    assert nothing.trains["adam"].verdict == "sick"


@pytest.mark.usefixtures("short")
def test_a_model_of_transformers_is_trained_to_the_loss_it_returns() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=31, n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0,
        loss_type="ForCausalLM",
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.arange(16 * 8).reshape(16, 8) % 31
    before = state(model)
    report = _diagnosed(model, {"input_ids": tokens, "labels": tokens})
    assert state(model) == before
    assert report.stress is not None
    assert report.stress.targets == "the model's own"
    assert any(run.losses[-1] < run.losses[0] for run in report.stress.runs if run.who == "model")


# --- what is left alone -----------------------------------------------------------------------------------------------


class _Busy(nn.Module):
    """Has buffers, a hook, modes of its own and gradients; with a lock it cannot be copied."""

    def __init__(self, *, lock: bool) -> None:
        super().__init__()
        self.body, self.norm, self.head = mlp(outputs=16), nn.BatchNorm1d(16), mlp(0, inputs=16)[0]
        self.norm.eval()
        self.calls = 0
        self.lock = threading.Lock() if lock else None
        self.body[0].register_forward_hook(lambda *_: None)
        self.head.weight.grad = torch.ones_like(self.head.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        found: torch.Tensor = self.head(self.norm(self.body(x)))
        return found


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("lock", [False, True], ids=["copied", "in place"])
def test_the_model_the_optimizer_and_the_loader_stay_as_they_were(lock: bool) -> None:
    model = _Busy(lock=lock)
    optimizer = optim.SGD([{"params": model.body.parameters(), "lr": 0.1}, {"params": model.head.parameters()}], lr=0.2)
    optimizer.step()
    generator = torch.Generator().manual_seed(4)
    loader = DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True, generator=generator)
    before, drawn_before = state(model), generator.get_state()
    groups = repr(optimizer.state_dict())
    report = _diagnosed(model, loader, optimizer=optimizer)
    assert report.stress is not None
    assert bool(report.stress.in_place) is lock
    assert state(model) == before
    assert torch.equal(generator.get_state(), drawn_before)
    assert repr(optimizer.state_dict()) == groups
    assert all(p is q for p, q in zip(optimizer.param_groups[0]["params"], model.body.parameters(), strict=True))


@pytest.mark.usefixtures("short")
def test_copied_and_in_place_models_have_the_same_runs() -> None:
    runs = []
    for lock in (False, True):
        found = _diagnosed(_Busy(lock=lock), classes(2)).stress
        assert found is not None
        runs.append([(run.rate, run.who, run.losses) for run in found.runs])
    assert runs[0] == runs[1]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("lock", [False, True], ids=["copied", "in place"])
@pytest.mark.parametrize("moment", [0, 1, 8])
def test_an_interruption_leaves_the_model_as_it_was(lock: bool, moment: int) -> None:
    """In the middle of a run: of the chance, of the model, or of the reference."""
    model = _Busy(lock=lock)
    runs, calls, due = itertools.count(1), [0], [moment == 0]

    def told(_: str) -> None:
        due[0] = next(runs) == moment

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        if due[0] and calls[0] == 3:
            raise KeyboardInterrupt
        return functional.cross_entropy(output, target)

    before = state(model)
    with pytest.raises(KeyboardInterrupt):
        _diagnosed(model, classes(2), loss=loss, told=told)
    assert state(model) == before


@pytest.mark.usefixtures("short")
def test_what_a_loss_raises_comes_through() -> None:
    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        raise KeyError("of the loss")

    model = mlp()
    before = state(model)
    with pytest.raises(KeyError, match="of the loss"):
        _diagnosed(model, classes(2), loss=loss)
    assert state(model) == before


# --- what is not run --------------------------------------------------------------------------------------------------


def test_a_budget_that_is_too_small_is_said_and_nothing_is_run() -> None:
    report = _diagnosed(mlp(), classes(2), budget=1e-4)
    assert report.stress is not None
    assert "pass a larger budget" in report.stress.skipped
    assert report.stress.runs == ()
    assert report.trains["adam"].verdict == "unknown"
    assert report.healthy is None
    assert report.stress.notes == [f"No stress test: {report.stress.skipped}."]
    json.dumps(report.to_dict(), allow_nan=False)


def test_too_little_memory_is_said_and_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stress, "free_memory", lambda: 100)
    found = _diagnosed(mlp(), classes(2)).stress
    assert found is not None
    assert "are free" in found.skipped
    assert found.runs == ()


def test_a_model_with_nothing_to_learn_is_examined_all_the_same() -> None:
    report = _diagnosed(_Answers(lambda y: y.square().mean()), X)
    assert report.stress is not None
    assert "pass target=" in report.stress.skipped
    assert report.healthy is None
    json.dumps(report.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("batch", "settings", "words"),
    [
        (None, {"target": Y}, "without batch"),
        (classes(2), {"target": Y}, "beside many batches"),
        (X, {"optimizer": "adma"}, "unknown optimizer"),
        (X, {"lr": -1.0}, "positive number"),
        (X, {"budget": 0}, "positive number of seconds"),
        (X, {"target": torch.zeros(5)}, "pass loss="),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(batch: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(IsometerError, match=words) as caught:
        _diagnosed(mlp(), batch, **settings)
    assert "\n" not in str(caught.value)


def test_without_a_stress_test_nothing_is_trained() -> None:
    report = _diagnosed(mlp(), classes(2), stress=False)
    assert (report.stress, dict(report.trains)) == (None, {})
