"""The ways through a model: what is beside them does not count, and of several the best decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from isometer.doctor import diagnose, probe
from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.patients import PATIENTS

WIDTH = 32


def chain(layers: int, gain: float = 2**0.5) -> nn.Sequential:
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(WIDTH, WIDTH, bias=False), nn.ReLU()]
        nn.init.normal_(parts[-2].weight, 0.0, gain / WIDTH**0.5)  # type: ignore[arg-type]
    return nn.Sequential(*parts)


class Model(nn.Module):
    """A deep part, a shallow one, a head, and what is done with them."""

    def __init__(self, forward: Callable[[Model, torch.Tensor], torch.Tensor], deep: nn.Module, wide: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function, self.deep, self.shallow = forward, deep, chain(2)
        self.head = nn.Linear(wide * WIDTH, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def seeded(layers: int, gain: float = 2**0.5) -> nn.Sequential:
    torch.manual_seed(1)
    return chain(layers, gain)


def draw(samples: int = 16) -> torch.Tensor:
    return torch.randn(samples, WIDTH, generator=torch.Generator().manual_seed(2))


def found(model: nn.Module) -> set[str]:
    return {finding.id for finding in diagnose(model, draw(), stress=False, predict=False).findings}


def alone(m: Model, x: torch.Tensor) -> torch.Tensor:
    return m.head(m.deep(x))


@pytest.mark.parametrize(
    ("forward", "wide"),
    [
        (lambda m, x: m.head(torch.cat([m.deep(x), m.shallow(x)], 1)), 2),
        (lambda m, x: m.head(torch.cat([m.deep(x), x], 1)), 2),
        (lambda m, x: m.head(torch.stack([m.deep(x), m.shallow(x)], 1).flatten(1)), 2),
        (lambda m, x: m.head(m.deep(x) + m.shallow(x)), 1),
    ],
)
@pytest.mark.parametrize(("gain", "condition"), [(2**0.5, "rank-collapse"), (0.7, "activation-vanishing")])
def test_a_branch_that_another_bypasses_is_no_finding(
    forward: Callable[[Model, torch.Tensor], torch.Tensor], wide: int, gain: float, condition: str
) -> None:
    assert condition in found(Model(alone, seeded(50, gain)))
    assert condition not in found(Model(forward, seeded(50, gain), wide))


def test_a_product_is_no_bypass() -> None:
    """A factor that is well does not help one that has vanished."""
    model = Model(lambda m, x: m.head(m.deep(x) * m.shallow(x)), seeded(50, 0.7))
    assert "activation-vanishing" in found(model)


def test_what_the_output_does_not_depend_on_is_not_on_the_path() -> None:
    def forward(m: Model, x: torch.Tensor) -> torch.Tensor:
        m.deep(x)
        return m.head(m.shallow(x))

    model = Model(forward, seeded(50, 0.7))
    view = View(probe(model, draw()))
    assert (view.depth, view.hidden_depth, view.readout) == (3, 2, True)
    assert {view.sites[layer].name.split(".")[0] for layer in view.weights} == {"shallow"}
    assert found(model) == set()


class Block(nn.Module):
    """`x + f(x)`, with a sum of two layers inside."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.three(torch.relu(self.one(x) + self.two(x)))


def test_the_trunk_is_what_nothing_bypasses() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *[Block() for _ in range(4)], nn.Linear(WIDTH, 5))
    view = View(probe(model, draw()))
    sums = [layer for layer, site in enumerate(view.sites) if site.kind == "add"]
    assert len(sums) == 8
    assert view.trunk == tuple(sums[1::2])  # those inside a branch are bypassed by the skip
    assert {view.sites[layer].op for layer in view.paths.cuts} == {"input", "Linear", "add"}


def test_a_gap_in_the_trace_leaves_every_layer_on_the_path() -> None:
    def forward(m: Model, x: torch.Tensor) -> torch.Tensor:
        return m.head(torch.func.vmap(torch.tanh)(m.shallow(x)))

    view = View(probe(Model(forward, nn.Identity()), draw()))
    assert not view.paths.known
    assert view.paths.layers == frozenset(range(len(view.sites)))


def test_parts_that_are_written_to_are_read() -> None:
    def forward(m: Model, x: torch.Tensor) -> torch.Tensor:
        h = m.shallow(x).clone()  # autograd keeps what the ReLU gave
        h[:, :4] = m.deep(x)[:, :4]
        return m.head(h)

    view = View(probe(Model(forward, seeded(5)), draw()))
    assert view.paths.known
    assert {site.name.split(".")[0] for layer, site in enumerate(view.sites) if layer in view.paths.layers} >= {"deep"}


@pytest.mark.parametrize("name", ["mlp-relu-50", "mlp-residual-50", "vgg-bn-8"])
def test_the_ways_through_patients_are_known(name: str) -> None:
    patient = PATIENTS[name]
    view = View(probe(patient.model(), patient.example()[0]))
    assert view.paths.known
    assert view.paths.layers == frozenset(range(len(view.sites)))
