"""One registration makes an activation known everywhere: text, command line, theory, simulation, networks, doctor."""

import json
import sys
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from isometer import ActivationError, Spec, activation, explain
from isometer.activations import (
    ALIASES,
    ENTRIES,
    Activation,
    TorchForm,
    register_activation,
    registry,
    unregister_activation,
)
from isometer.activations._names import find, find_call, find_torch, torch_module
from isometer.cli import main
from isometer.doctor import probe
from isometer.doctor.prediction import extract, why_not
from isometer.doctor.treatment import normalize_activations_, shape_activations_
from isometer.init import principled_gain_
from isometer.nn import Activation as Module
from isometer.nn import NormReLU, build
from isometer.simulate import simulate
from isometer.theory.prediction import predict


class Snake(nn.Module):
    def __init__(self, frequency: float = 1.0) -> None:
        super().__init__()
        self.frequency = frequency

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return snake(x, self.frequency)


def snake(x: torch.Tensor, frequency: float = 1.0) -> torch.Tensor:
    # 1 - cos(2ax) = 2 sin²(ax): no function of torch that the doctor takes for an activation
    return x + (1 - torch.cos(2 * frequency * x)) / (2 * frequency)


@pytest.fixture
def phi() -> Iterator[Activation]:
    yield register_activation(
        "snake",
        lambda a: f"x + sin({a!r}*x)**2/{a!r}",
        formula="x + sin²(ax)/a",
        defaults=[1.0],
        aliases=["serpent"],
        torch=[TorchForm(f"{__name__}.Snake", f"{__name__}.snake", ("frequency",))],
    )
    unregister_activation("snake")


def chain(depth: int = 4, width: int = 32, frequency: float = 0.5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[m for _ in range(depth) for m in (nn.Linear(width, width, bias=False), Snake(frequency))])


def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["isometer", *arguments, "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    return json.loads(capsys.readouterr().out)


def test_text(phi: Activation) -> None:
    x = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(activation("snake")(x), x + np.sin(x) ** 2, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(activation("Snake(0.5)")(x), x + 2 * np.sin(x / 2) ** 2, rtol=1e-14, atol=1e-15)
    assert activation("serpent") == activation("snake") == phi
    assert "snake" in registry()
    with pytest.raises(ActivationError, match="did you mean 'snake'"):
        activation("snaek")


def test_command_line(phi: Activation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    card = cli(capsys, monkeypatch, "explain", "snake")
    assert card["name"] == "snake"
    assert card["mean"] == pytest.approx((1 - np.exp(-2)) / 2, rel=1e-12)
    row = cli(capsys, monkeypatch, "activations")[-1]
    assert (row["name"], row["formula"], row["parameters"], row["aliases"]) == (
        "snake",
        "x + sin²(ax)/a",
        [1.0],
        ["serpent"],
    )


def test_theory_and_simulation(phi: Activation) -> None:
    spec = Spec(width=64, depth=5, activation="snake(0.5)", norm="layer")
    assert spec.phi == activation("snake(0.5)")
    x = np.random.default_rng(0).standard_normal((4, 64))
    measured = simulate(spec, x, metrics=["mean_cosine"], runs=8, seed=0)
    predicted = predict(spec, x, metrics=["mean_cosine"])
    other = predict(Spec(width=64, depth=5, norm="layer"), x, metrics=["mean_cosine"])
    ends = [float(data["mean_cosine"].mean("run")[-1]) for data in (measured, predicted)]
    assert ends[0] == pytest.approx(ends[1], abs=0.05)
    assert ends[1] != pytest.approx(float(other["mean_cosine"][0, -1]), abs=0.2)
    assert explain("snake").kernel.case is not None


def test_networks_are_built_with_its_module(phi: Activation) -> None:
    layer = build(Spec(width=8, depth=2, activation="snake(0.5)")).layers[1].activation
    assert isinstance(layer, Snake)
    assert layer.frequency == 0.5


def test_torch_objects_are_recognised(phi: Activation) -> None:
    assert activation(Snake(0.5)) == activation("snake(0.5)")
    assert activation(snake) == activation(Snake) == phi


def test_the_doctor_sees_an_activation(phi: Activation) -> None:
    model = chain()
    found = probe(model, torch.randn(6, 32))
    assert [site.activation for site in found.sites if site.kind == "activation"] == ["snake(0.5)"] * 4
    chained = extract(model, found)
    assert chained is not None, why_not(model, found)
    assert (chained.activation, chained.spec.depth) == ("snake(0.5)", 4)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_treatments_and_gains(phi: Activation) -> None:
    batch = torch.randn(6, 32)
    for treat in (normalize_activations_, shape_activations_):
        model = chain()
        assert treat(model, batch) == ("1", "3", "5", "7")
        assert isinstance(model[1], Module)
    model = chain()
    principled_gain_(model, batch)
    wanted = activation("snake(0.5)").gain_forward
    assert model[2].weight.square().mean().item() * 32 == pytest.approx(wanted**2, rel=0.15)


def test_nothing_is_left_behind() -> None:
    before = dict(ENTRIES), dict(ALIASES)
    register_activation("serpent", "x + sin(x)**2", aliases=["ouroboros"], torch=[TorchForm(function="sinc")])
    assert find_call("sinc", (), {}) is not None
    unregister_activation("serpent")
    assert (dict(ENTRIES), dict(ALIASES)) == before
    assert find("serpent") is find("ouroboros") is find_call("sinc", (), {}) is find_torch(Snake()) is None
    model = chain()
    assert extract(model, probe(model, torch.randn(6, 32))) is None
    with pytest.raises(ActivationError, match="'relu' is not registered"):
        unregister_activation("relu")


@pytest.mark.parametrize("name", ["relu", "swish", "ReLU", "x", "normalized", "max", "log", "my act", ""])
def test_names_that_are_taken(name: str) -> None:
    with pytest.raises(ActivationError, match=r"is taken|is not a name"):
        register_activation(name, "x**2 + x")


def test_an_expression_that_cannot_be_read_is_not_registered() -> None:
    with pytest.raises(ActivationError, match="does not depend on x"):
        register_activation("flat", "3")
    assert "flat" not in registry()


# --- torch's own names ------------------------------------------------------------------------------------------------

FORMS = [(entry, form) for entry in ENTRIES.values() for form in entry.torch]


@pytest.mark.parametrize(("entry", "form"), FORMS, ids=[f"{e.name}-{f.module or f.function}" for e, f in FORMS])
def test_every_form_exists_and_computes_the_activation(entry: object, form: TorchForm) -> None:
    """Arguments other than the defaults, so that a form which drops or swaps them is seen."""
    numbers = () if form.only or form.values else tuple(0.7 + 0.6 * i for i in range(len(form.arguments)))
    options = dict(zip(form.arguments, form.only or numbers, strict=True)) if form.arguments else {}
    expected = activation(
        f"{entry.name}({', '.join(map(str, numbers or form.values))})" if numbers or form.values else entry.name
    )
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    made = []
    if form.module:
        kind = NormReLU if "." in form.module else getattr(nn, form.module)
        made.append(kind(**options))
        assert activation(made[0]) == expected
        assert activation(form.module.rpartition(".")[2]) == activation(kind)
    if form.function:
        homes = [home for home in (torch, nn.functional, torch.Tensor) if hasattr(home, form.function)]
        assert homes
        made += [partial(getattr(home, form.function), **options) for home in homes if home is not torch.Tensor]
        found = find_call(form.function, (x, *options.values()), {})
        assert activation(found.text) == activation(find_call(f"{form.function}_", (x,), options).text) == expected
    for compute in made:
        torch.testing.assert_close(compute(x), expected(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("text", ["relu", "gelu", "leaky_relu(0.2)", "softplus", "normrelu", "normrelu(0.5)", "SiLU"])
def test_the_way_back_is_recognised(text: str) -> None:
    assert activation(torch_module(text, spec=True)) == activation(text)


@pytest.mark.parametrize(
    "text",
    [
        "elu(0.5)",
        "softplus(2)",
        "normalized(relu)",
        "relu(x)",
        "x",
        "leaky_relu(1, 2)",
        "nn.Linear",
        "swish",
        "leaky_relu",
    ],
)
def test_no_module(text: str) -> None:
    assert torch_module(text, spec=True) is None


def test_subclasses_and_trained_parameters_are_not_taken_for_the_registered_class(phi: Activation) -> None:
    class Doubled(nn.ReLU):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    trained = Snake()
    trained.frequency = nn.Parameter(torch.tensor(0.5))
    assert find_torch(Doubled()) is find_torch(trained) is find_torch(nn.PReLU()) is None
    assert find_torch(np.tanh) is None
