"""Warnings: each sign is seen where it is made, with its place, and a sound run raises none."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor.watch import SignalMonitor, TrainingWarning
from isometer.doctor.watch._limits import LIMITS
from isometer.doctor.watch._observation import LayerPlace, StepReading
from isometer.doctor.watch._rules import RULES
from isometer.doctor.watch._warnings import SignWatch

LAYERS = (LayerPlace("0", "Linear", 0, "weight", 1, "output"), LayerPlace("1", "ReLU", 0, "activation", 1, "output"))
LAYERS += (LayerPlace("2", "Linear", 0, "weight", 2, "output"), LayerPlace("input", "input", 0, "input", 0, "output"))
SOUND = {
    "effective_rank": 10.0,
    "rms": 1.0,
    "attention_score_largest": math.nan,
    "attention_relative_entropy": math.nan,
    "dead_fraction": 0.1,
    "saturated_fraction": 0.0,
    "overflow_headroom": 30.0,
}


def observation(step: int, loss: float = 1.0, overshoot: float = 1.0, **changed: dict[int, float]) -> StepReading:
    """A sound one, with other values at some places."""
    values = {name: np.full(4, number) for name, number in SOUND.items()}
    parameters = {"gradient_norm": np.ones(3), "update_ratio": np.full(3, 1e-3), "weight_norm": np.ones(3)}
    for name, places in changed.items():
        for place, number in places.items():
            (parameters if name in parameters else values)[name][place] = number
    scalars = {"loss": loss, "overshoot": overshoot}
    return StepReading(step, LAYERS, values, parameters, {}, scalars, last=(1,), outputs=(2,))


MADE: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "rank-loss": ({"effective_rank": {1: 1.01}}, ("1",)),
    "growing-logits": ({"rms": {2: 50.0}}, ("2",)),
    "growing-signal": ({"rms": {1: 50.0}}, ("1",)),
    "shrinking-signal": ({"rms": {1: 0.1}}, ("1",)),
    "vanishing-gradients": ({"gradient_norm": {0: 1e-3}}, ("0.weight",)),
    "growing-updates": ({"update_ratio": {0: 1e-2}}, ("0.weight",)),
    "growing-weights": ({"weight_norm": {0: 3.0, 1: 2.0}}, ()),
    "shrinking-weights": ({"weight_norm": {1: 0.3}}, ("2.weight",)),
    "growing-biases": ({"weight_norm": {2: 20.0}}, ("2.bias",)),
    "input-shift": ({"rms": {3: 2.0}}, ("input",)),
    "growing-gradients": ({"gradient_norm": {0: 300.0}}, ()),
    "dead-units": ({"dead_fraction": {1: 0.95}}, ("1",)),
    "saturated-units": ({"saturated_fraction": {1: 0.95}}, ("1",)),
    "updates-too-large": ({"overshoot": 3.5, "loss": 4.0}, ()),
    "number-format": ({"overflow_headroom": {0: 0.1}}, ("0",)),
    "layer-stopped": ({"update_ratio": {1: 1e-8}}, ("2.weight",)),
}


@pytest.mark.parametrize("sign", MADE)
def test_each_sign_is_told_with_its_place_once(sign: str) -> None:
    watch, changed, told = SignWatch(), MADE[sign], []
    seen: list[StepReading] = []
    for step in range(10, 310, 10):
        seen.append(observation(step, **(changed[0] if step > 200 else {})))
        told += watch.look(seen, ["0.weight", "2.weight", "2.bias"], [True, True, False])[1]
    assert [one.id for one in told] == [sign]
    assert told[0].layers == changed[1]
    assert told[0].step == 220  # the second of two that depart
    assert told[0].reason.endswith(".")
    assert told[0].advice


def test_entropy_and_scores_of_attention() -> None:
    watch, told = SignWatch(), []
    seen: list[StepReading] = []
    for step in range(10, 410, 10):
        late = step > 300
        changed = {"attention_relative_entropy": {1: 0.02 if late else 0.8}, "attention_score_largest": {1: 3.0}}
        seen.append(observation(step, **changed))
        told += watch.look(seen)[1]
    assert [one.id for one in told] == ["entropy-collapse"]


def test_one_outlier_and_the_edge_of_stability_raise_nothing() -> None:
    watch = SignWatch()
    seen: list[StepReading] = []
    for step in range(10, 310, 10):
        changed = {"rms": {1: 80.0}} if step == 250 else {}
        seen.append(observation(step, overshoot=2.3, loss=1.0 - 0.001 * step, **changed))
        assert watch.look(seen)[1] == []


def test_a_linear_warm_up_and_steady_growth_raise_nothing() -> None:
    watch = SignWatch()
    seen: list[StepReading] = []
    for step in range(10, 1000, 10):
        grown = {0: (step / 100) ** 0.5, 1: (step / 100) ** 0.5}
        changed = {"update_ratio": {0: 1e-6 * step, 1: 1e-6 * step}, "weight_norm": grown, "rms": {1: step / 100}}
        seen.append(observation(step, **changed))
        assert watch.look(seen, ["0.weight", "2.weight", "2.bias"], [True, True, False])[1] == []


def test_nothing_is_judged_in_the_first_steps() -> None:
    def warned(scale: int) -> bool:
        watch, told, seen = SignWatch(), [], []
        for step in range(scale, 31 * scale, scale):
            seen.append(observation(step, rms={1: 9.0 if step > 20 * scale else 1.0}))
            told += watch.look(seen)[1]
        return bool(told)

    assert not warned(1)
    assert warned(10)


def test_scatter_widens_the_tolerance() -> None:
    """The same growth by a factor of two is told of a smooth quantity, not of one that scatters that much."""

    def warned(scatter: float) -> bool:
        draw, watch, told, seen = np.random.default_rng(0), SignWatch(), [], []
        for step in range(10, 310, 10):
            size = 10 ** (scatter * draw.standard_normal()) * (2.0 if step > 250 else 1.0)
            seen.append(observation(step, rms={3: size}))
            told += watch.look(seen)[1]
        return bool(told)

    assert warned(0.01)
    assert not warned(0.2)


def test_every_rule_has_a_limit_and_words() -> None:
    assert {rule.id for rule in RULES} == set(LIMITS)
    assert all(LIMITS[rule.id] >= rule.least for rule in RULES)
    assert all(rule.meaning and rule.advice and not rule.advice.endswith(".") for rule in RULES)


def failing(change: Callable[[nn.Sequential, Any, int], None], *, watched: bool = True) -> list[TrainingWarning]:
    """A small run in which something goes wrong from step 160 on."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    monitor = SignalMonitor(model, optimizer, budget=None, samples=16, when=4)
    for step in range(240):
        x = torch.randn(32, 8)
        loss = functional.cross_entropy(model(x), (x[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss)
        if step > 160:
            change(model, optimizer, step)
    return monitor.warnings


def grow(model: nn.Sequential, optimizer: Any, step: int) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.05)


def kill(model: nn.Sequential, optimizer: Any, step: int) -> None:
    with torch.no_grad():
        model[2].bias.sub_(0.1)


def stop(model: nn.Sequential, optimizer: Any, step: int) -> None:
    if len(optimizer.param_groups) == 1:
        group = optimizer.param_groups[0]
        first = group["params"].pop(0)
        optimizer.add_param_group({"params": [first], "lr": 1e-9})


@pytest.mark.parametrize(
    ("change", "signs"),
    [(lambda *_: None, set()), (grow, {"growing-logits"}), (kill, {"dead-units"}), (stop, {"layer-stopped"})],
)
def test_real_runs(change: Any, signs: set[str]) -> None:
    found = failing(change)
    assert {one.id for one in found} >= signs
    if not signs:
        assert found == []


def test_the_page(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    monitor = SignalMonitor(model, budget=None)
    for _ in range(3):
        model(torch.randn(6, 4))
        monitor.step(1.0)
    monitor.warnings.append(TrainingWarning(2, "dead-units", ("<b>",), "because.", "do", 1.0))
    page = monitor.to_html(tmp_path / "run.html").read_text()
    assert "1 warning<" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page.split("<script")[0]
    assert "orthogonality gap" in page
    monitor.history.to_netcdf(tmp_path / "run.nc")
    assert (tmp_path / "run.nc").stat().st_size > 0


def test_the_page_in_a_browser(browser: Any, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    monitor = SignalMonitor(model, budget=None)
    for _ in range(5):
        model(torch.randn(6, 4))
        monitor.step(1.0)
    path, problems = monitor.to_html(tmp_path / "run.html"), []
    page = browser.new_page()
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.goto(path.as_uri())
    page.wait_for_selector("#map-0 .heatmaplayer", state="attached")
    page.select_option("#quantity", label="rms of entries")
    page.wait_for_selector("#whole .scatterlayer", state="attached")
    assert page.locator("#place option").count() == 4
    assert problems == []
    page.close()
