"""What a diagnosis costs, counted in passes of the model: a forward and a backward, a forward alone as a third."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from isometer.doctor import diagnose, probe
from isometer.doctor.diagnosis._redraws import Redraws, redraw_
from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.probe._examination import Examination, LazyColumns, tabulate, without_gradients

Passes = Callable[[], float]
SICK = 12.0


class Whole(nn.Module):
    """Told apart from the modules inside, also in a copy."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.net(x)
        return output


@contextmanager
def counted() -> Iterator[Passes]:
    forward, backward = [0], [0]

    def back(gradient: torch.Tensor) -> None:
        backward[0] += 1

    def after(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(module, Whole):
            forward[0] += 1
            if output.requires_grad:
                output.register_hook(back)

    handle = nn.modules.module.register_module_forward_hook(after)
    try:
        yield lambda: forward[0] / 3 + backward[0] * 2 / 3
    finally:
        handle.remove()


def mlp(layers: int, width: int = 64, gain: float = 2**0.5) -> nn.Sequential:
    torch.manual_seed(0)
    stack: list[nn.Module] = []
    for _ in range(layers):
        stack += [nn.Linear(width, width, bias=False), nn.ReLU()]
        nn.init.normal_(stack[-2].weight, 0.0, gain / width**0.5)  # type: ignore[arg-type]
    return nn.Sequential(*stack, nn.Linear(width, 10))


class Steep(nn.Module):
    """Hands on its input, and a hundred times its gradient."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 99.0 * (x - x.detach())


def steep(layers: int) -> nn.Sequential:
    """Gradients leave float32, activations stay of one size."""
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(16, 16, bias=False), Steep(), nn.LayerNorm(16)]
        nn.init.orthogonal_(parts[-3].weight)  # type: ignore[arg-type]
    return nn.Sequential(*parts, nn.Linear(16, 4))


class Loop(nn.Module):
    """One layer, applied again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.readout = nn.Linear(64, 64), nn.Linear(64, 4)
        nn.init.orthogonal_(self.step.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(10):
            x = torch.relu(self.step(x)) * 1.4
        output: torch.Tensor = self.readout(x)
        return output


class Aside(nn.Module):
    """A layer that nothing reads, and layers behind a vector of weights and no input."""

    def __init__(self) -> None:
        super().__init__()
        self.aside, self.scale, self.net = nn.Linear(64, 3), nn.Parameter(torch.ones(64)), mlp(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.aside(x)
        output: torch.Tensor = self.net(x.detach() * self.scale)
        return output


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("net", "predicted"), [(mlp(20), True), (Loop(), False), (Aside(), True)])
def test_a_healthy_model_is_run_once_also_if_it_is_a_chain(net: nn.Module, predicted: bool) -> None:
    with counted() as passes:
        report = diagnose(Whole(net), draw(32, 64), stress=False)
    assert report.healthy
    assert (report.prediction is not None) == predicted
    assert passes() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("net", "batch", "found"),
    [
        (mlp(50, 32), (16, 32), "rank-collapse"),
        (mlp(20, 32, gain=0.7), (16, 32), "gradient-vanishing"),
        (steep(30), (8, 16), "gradient-explosion"),
    ],
)
def test_a_sick_model_is_run_at_most_twelve_times(net: nn.Module, batch: tuple[int, ...], found: str) -> None:
    with counted() as passes:
        report = diagnose(Whole(net), draw(*batch), stress=False)
    assert found in [finding.id for finding in report.findings]
    assert passes() <= SICK


def test_gradients_that_overflow_take_one_pass_more() -> None:
    with counted() as passes:
        found = probe(Whole(steep(30)), draw(8, 16))
    assert found.nonfinite_gradient_layer is not None
    assert found.loss_exponent == -80  # 100³⁰ is 2¹⁹⁹: a factor of 2⁻⁴⁰ is not enough
    assert np.isfinite(found.values["output_gradient_log_norm"]).all()
    assert passes() == pytest.approx(2.0)


def test_layers_that_no_gradient_comes_to_are_seen_before_the_backward_pass() -> None:
    model = Whole(Aside())
    with counted() as passes:
        found = probe(model, draw(8, 64))
    assert passes() == pytest.approx(1.0)
    norms = dict(zip(found.names, found.values["gradient_log_norm"], strict=True))
    assert np.isnan(norms["net.aside"])
    assert np.isfinite(norms["net.net.0"])


def redraws_of(model: nn.Module, *, later: bool = False) -> tuple[Redraws, list[bool], View]:
    """Redraws that say whether each had a backward pass."""
    own = View(probe(model, draw(8, 16)))
    asked: list[bool] = []

    def examine(prepare: Callable[[nn.Module], None], gradients: bool) -> Examination:
        asked.append(gradients)
        return own.examination if gradients else without_gradients(own.examination)

    return Redraws(examine, own, number=3, gradients_too=lambda: later), asked, own


def test_redraws_go_forward_alone_until_gradients_are_asked_for() -> None:
    redraws, asked, own = redraws_of(steep(4))
    redraws.p_value(1.0, 0.0, lambda view: view.growth(smallest=True))
    redraws.p_value(1.0, 0.0, lambda view: view.last_difference)
    assert asked == [False] * 3
    assert redraws.p_value(own.gradient_growth, 0.0, lambda view: view.gradient_growth) == 0.0
    redraws.p_value(1.0, 0.0, lambda view: view.growth(smallest=True))
    assert asked == [False] * 3 + [True] * 3


def test_redraws_have_gradients_at_once_where_they_will_be_asked_for() -> None:
    redraws, asked, _ = redraws_of(steep(4), later=True)
    redraws.p_value(1.0, 0.0, lambda view: view.growth(smallest=True))
    redraws.p_value(1.0, 0.0, lambda view: view.gradient_growth)
    assert asked == [True] * 3


def test_statistics_that_read_a_site_itself_get_its_gradients() -> None:
    redraws, asked, _ = redraws_of(steep(4))
    redraws.p_value(1.0, 0.0, lambda view: view.sites[1].output_log_norm)
    assert asked == [True] * 3


def test_columns_are_those_of_the_whole_table() -> None:
    found = probe(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5), nn.ReLU()), draw(4, 6))
    whole, columns = tabulate(found.sites), LazyColumns(found.sites, None)
    for name, values in whole.items():
        np.testing.assert_array_equal(columns[name], values)
    assert set(columns) == set(whole)
    with pytest.raises(KeyError):
        columns["no such quantity"]


def test_large_layers_that_are_copies_are_redrawn_apart() -> None:
    model = nn.Sequential(nn.Linear(400, 400), nn.Linear(400, 400), nn.Linear(400, 400))
    for copy in list(model)[1:]:
        copy.load_state_dict(model[0].state_dict())
    before, *_ = [weight.detach().flatten() for weight in model.parameters() if weight.dim() > 1]
    redraw_(model, 3)
    after = [weight.detach().flatten() for weight in model.parameters() if weight.dim() > 1]
    for one in after:
        assert torch.equal(one.sort()[0], before.sort()[0])
    for one, two in zip([before, *after], after, strict=False):
        # independent arrangements of N entries are correlated by about 1/√N = 0.0025
        assert abs(float(torch.corrcoef(torch.stack([one, two]))[0, 1])) < 0.02
