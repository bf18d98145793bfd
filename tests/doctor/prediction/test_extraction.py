"""From models to specs: which chain a model is, and why it is none."""

from __future__ import annotations

import copy
import math
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor import probe
from isometer.doctor.prediction import extract, predict_chain, why_not
from support.chains import DEPTH, WIDTH, Net, chain_of, draw

# --- extraction -------------------------------------------------------------------------------------------------------

FORMS: list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...], str]] = [
    ({"gain": 1.4}, {"activation": "relu", "gain": 1.4}, ("weights", "activation"), "relu"),
    ({"phi": nn.GELU(), "norm": "batch"}, {"activation": "gelu"}, ("weights", "norm", "activation"), "GELU"),
    ({"phi": functional.silu, "norm": "layer", "form": "post"}, {"activation": "silu"},
     ("weights", "activation", "norm"), "LayerNorm"),
    ({"phi": torch.tanh, "bias": 0.3}, {"activation": "tanh", "bias_variance": 0.3}, ("weights", "activation"), "tanh"),
    ({"orthogonal": True, "gain": 1.2}, {"weights": "orthogonal", "gain": 1.2}, ("weights", "activation"), "relu"),
    ({"form": "skip", "gamma": 0.3}, {"residual": 0.3}, ("activation", "weights", "residual"), "add"),
    ({"form": "skip", "norm": "rms"}, {"residual": 1.0}, ("norm", "activation", "weights", "residual"), "add"),
    ({"form": "skip-alpha", "gamma": 0.2}, {"residual": 0.2}, ("weights", "residual", "activation"), "relu"),
    ({"form": "skip-outside", "gamma": 0.5}, {"residual": 0.5}, ("weights", "activation", "residual"), "add"),
    ({"form": "product", "gain": 0.7}, {"gain": 0.7}, ("weights", "activation"), "relu"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "fields", "operations", "end"), FORMS)
def test_the_spec_of_a_chain_is_that_of_its_law(
    options: dict[str, Any], fields: dict[str, Any], operations: tuple[str, ...], end: str
) -> None:
    model = Net(**options)
    chain, found = chain_of(model, draw())
    assert chain.spec.operations == operations
    assert chain.spec.layers == DEPTH
    assert chain.spec.widths == (WIDTH,) * DEPTH
    for name, value in fields.items():
        measured = getattr(chain.spec, name)
        if isinstance(value, str):
            assert measured == value
        else:  # five deviations of a sample deviation of that many numbers
            count = WIDTH * DEPTH * (1 if name == "bias_variance" else WIDTH)
            exact = name == "residual" or options.get("orthogonal")
            assert measured == pytest.approx(value, rel=1e-6 if exact else 5 * math.sqrt(2 / count))
    assert chain.modules == tuple(f"weights.{i}" for i in range(DEPTH)) or options.get("form") == "product"
    ops = [found.sites[layer].op for layer in chain.layers]
    assert ops[1:] == [end] * DEPTH, ops
    assert chain.differentiable


def test_norms_carry_their_constants() -> None:
    model = Net(norm="batch")
    for norm in model.norms:
        norm.eps = 0.25
        nn.init.constant_(norm.weight, 2.0)
        nn.init.constant_(norm.bias, -0.5)
    norm = chain_of(model, draw())[0].spec.norm
    assert norm is not None
    assert (norm.over, norm.recenter, norm.eps, norm.scale, norm.shift) == ("batch", True, 0.25, 2.0, -0.5)


def test_numbers_behind_activations_belong_to_the_next_weights() -> None:
    spec = chain_of(Net(form="scaled", gamma=1.5), draw())[0].spec
    assert isinstance(spec.gain, tuple)
    assert spec.gain[1:] == pytest.approx([1.5 * spec.gain[0]] * (DEPTH - 1))


def test_gains_that_differ_are_kept_per_layer() -> None:
    model = Net()
    with torch.no_grad():
        for i, layer in enumerate(model.weights):
            layer.weight *= 1.2**i
    gain = chain_of(model, draw())[0].spec.gain
    assert isinstance(gain, tuple)
    assert np.diff(np.log(gain)) == pytest.approx(math.log(1.2), abs=0.1)


def test_nested_modules_widths_and_inplace_activations() -> None:
    torch.manual_seed(0)
    widths = [40, 32, 24, 24, 24]
    blocks = [
        nn.Sequential(nn.Linear(a, b, bias=False), nn.Sequential(nn.LeakyReLU(0.2, inplace=True)))
        for a, b in pairwise(widths)
    ]
    model = nn.Sequential(nn.Flatten(), nn.Sequential(*blocks), nn.Dropout(0.0), nn.Linear(24, 3))
    chain, found = chain_of(model, draw(5, 40).reshape(5, 8, 5))
    assert chain.spec.widths == (32, 24, 24, 24)
    assert chain.spec.input_width == 40
    assert chain.activation == "leaky_relu(0.2)"
    assert chain.layers == (0, 2, 4, 6, 8)
    assert found.sites[chain.head or 0].name == "3"


def test_a_head_behind_a_convolutional_trunk_is_found() -> None:
    torch.manual_seed(0)
    head = [part for _ in range(5) for part in (nn.Linear(8, 8), nn.Tanh())]
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head)
    chain, found = chain_of(model, torch.randn(6, 3, 8, 8))
    assert chain.spec.layers >= 4
    assert found.sites[chain.layers[-1]].name == "13"


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(4)])
        self.norms = nn.ModuleList([nn.LayerNorm(16) for _ in range(4)])

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x + y
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = torch.relu(norm(layer(x)))
        return x


def test_several_inputs_are_followed_and_the_chain_starts_where_a_representation_was_measured() -> None:
    """The sum of two inputs is no site: the first layer that reads one is the second."""
    chain, found = chain_of(TwoInputs(), (torch.randn(5, 16), torch.randn(5, 16)))
    assert chain.spec.operations == ("weights", "norm", "activation")
    assert chain.modules == ("layers.1", "layers.2", "layers.3")
    assert found.sites[chain.layers[0]].op == "relu"


class Tokens(nn.Module):
    """An embedding that is averaged, then a chain: its input is of whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(20, 24)
        self.layers = nn.ModuleList([nn.Linear(24, 24, bias=False) for _ in range(5)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embedding(x).mean(1)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def test_models_of_tokens_have_chains_too() -> None:
    chain, found = chain_of(Tokens(), torch.arange(30).reshape(6, 5) % 20)
    assert chain.modules == ("layers.1", "layers.2", "layers.3", "layers.4")
    assert [found.sites[layer].op for layer in chain.layers] == ["tanh"] * 5


class Doubled(torch.autograd.Function):
    """Calculates outside torch, where nothing is announced."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(2.0 * x.numpy())

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 2.0 * gradient


def test_a_custom_function_reads_what_autograd_says_and_ends_a_chain() -> None:
    class Model(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for i, layer in enumerate(self.weights):
                x = torch.relu(layer(x))
                x = Doubled.apply(x) if i == 2 else x
            return x

    model = Model(depth=7)
    chain, found = chain_of(model, draw())
    (custom,) = [index for index, step in enumerate(found.trace) if step.name == "custom function Doubled"]
    assert [found.trace[i].name for i in found.trace[custom].inputs] == ["relu"]
    assert chain.modules == ("weights.4", "weights.5", "weights.6")  # the third reads what was not measured


def test_the_trace_holds_no_tensors_and_weights_by_name() -> None:
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 8))
    trace = probe(model, draw(4, 8)).trace
    linear = [step for step in trace if step.kind == "weight"]
    assert linear[1].held["weight"].name == "2.weight"
    computed = linear[0].held["weight"]
    assert (computed.name, linear[0].held["bias"].name) == ("", "0.bias")
    assert computed.numbers is not None
    assert computed.numbers.total == pytest.approx(float(model[0].weight.detach().sum()))
    assert not any(isinstance(value, torch.Tensor) for step in trace for value in step)
    assert pickle.loads(pickle.dumps(trace)) == trace


def test_sites_that_a_probe_left_out_are_missed() -> None:
    """Restricted to its linear layers, a probe does not see activations; that must not pass for a linear network."""
    model = nn.Sequential(*[part for _ in range(5) for part in (nn.Linear(8, 8), nn.ReLU())])
    linear = [str(2 * i) for i in range(5)]
    assert extract(model, probe(model, draw(4, 8), layers=linear)) is None
    twin = TwoInputs()
    found = probe(twin, (draw(4, 16), draw(4, 16)), layers=["layers.*"])
    assert extract(twin, found) is None
    assert "left out" in why_not(twin, found)


def test_the_model_is_left_as_it_was() -> None:
    model = Net(norm="batch")
    found = probe(model, draw())
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    hooks = [len(m._forward_hooks) for m in model.modules()]
    extract(model, found)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert hooks == [len(m._forward_hooks) for m in model.modules()]
    assert model.training


class Tower(nn.Module):
    """Two weight layers in a branch, one module used again, or a skip that is scaled."""

    def __init__(self, form: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.form = form
        self.first = nn.ModuleList([nn.Linear(16, 16) for _ in range(5)])
        self.second = nn.ModuleList([nn.Linear(16, 16) for _ in range(5)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first, second in zip(self.first, self.second, strict=True):
            if self.form == "two":
                x = x + second(torch.relu(first(x)))
            elif self.form == "again":
                x = torch.relu(self.first[0](x))
            elif self.form == "scaled-skip":
                x = 0.5 * x + torch.relu(first(x))
            elif self.form == "gated":
                x = torch.sigmoid(first(x)) * second(x)
            elif self.form == "concatenated":
                x = torch.cat([x[:, :8], torch.relu(first(x))[:, :8]], 1)
            else:
                x = functional.prelu(first(x), first.weight[:1, 0])
        return x


def with_means(shift: float) -> nn.Module:
    model = Net()
    with torch.no_grad():
        for layer in model.weights:
            layer.weight += shift
    return model


@pytest.mark.parametrize(
    ("model", "batch", "reason"),
    [
        (Tower("two"), (6, 16), "2 weight layers"),
        (Tower("again"), (6, 16), "same weights"),
        (nn.Sequential(*[copy.deepcopy(m) for _ in range(4) for m in (Tower("").first[0], nn.ReLU())]), (6, 16),
         "same weights"),
        (Tower("scaled-skip"), (6, 16), "adds something else"),
        (Tower("gated"), (6, 16), "no step"),
        (Tower("concatenated"), (6, 16), "no step"),
        (Tower("prelu"), (6, 16), "registry"),
        (Net(depth=2), (6, WIDTH), "has 2"),
        (with_means(0.2), (6, WIDTH), "centred"),
        (nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU()), (6, 3, 8, 8), "conv2d"),
        (nn.RNN(4, 8, batch_first=True), (6, 5, 4), "no fully connected layer"),
        (nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 3), (6, 5, 16), "no step"),
        (nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(8, 8), nn.ReLU())]), (6, 5, 8), "more than"),
        (Net(norm="batch"), (70, WIDTH), "at most 64"),
    ],
)  # fmt: skip
def test_what_is_no_chain_says_why(model: nn.Module, batch: tuple[int, ...], reason: str) -> None:
    torch.manual_seed(1)
    found = probe(model, torch.randn(batch))
    assert extract(model, found) is None
    assert reason in why_not(model, found)


def test_batch_norm_in_evaluation_is_no_chain_whoever_chose_the_mode() -> None:
    model = Net(norm="batch")
    assert "running statistics" in why_not(model, probe(model, draw(), mode="eval"))
    model.eval()
    assert "running statistics" in why_not(model, probe(model, draw()))
    assert why_not(model.train(), probe(model, draw())) == ""


def test_gradients_of_a_chain_that_others_read_are_not_its_own() -> None:
    class Auxiliary(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            middle = x
            for i, layer in enumerate(self.weights):
                x = torch.relu(layer(x))
                middle = x if i == 2 else middle
            return self.head(x).sum(1) + self.stem(middle).sum(1)

    chain, found = chain_of(Auxiliary(), draw())
    assert not chain.differentiable
    assert "output_gradient_log_norm" not in predict_chain(chain, found, runs=8).metrics
