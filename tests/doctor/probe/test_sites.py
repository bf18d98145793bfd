"""Which sites a probe sees, where it places them, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor import probe
from isometer.errors import IsometerError


def _ops(found) -> list[str]:
    return [site.op for site in found.sites]


def _depths(found) -> list[int]:
    return [site.depth for site in found.sites]


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(functional.linear(x, self.weight))
        x = torch.tanh(x @ self.weight)
        x = (x @ self.weight.t()).sigmoid()
        x = torch.addmm(torch.zeros(5), x, self.weight).relu_()
        return functional.layer_norm(functional.gelu(x), (5,))


def test_functional_calls_are_seen() -> None:
    found = probe(Functional(), torch.randn(4, 5))
    assert _ops(found) == [
        *("input", "linear", "relu", "matmul", "tanh", "matmul", "sigmoid", "addmm", "relu_", "gelu", "layer_norm")
    ]
    assert _depths(found) == [0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 4]
    weights = [site.kind == "weight" for site in found.sites]
    assert np.isfinite(found.values["gradient_alignment"][weights]).all()
    assert np.isfinite(found.values["weight_gain"][weights]).all()
    assert np.isfinite(found.values["gradient_log_norm"][weights]).all()


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1), nn.Conv2d(channels, channels, 3, 1, 1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = functional.relu(self.norm(self.conv1(x)), inplace=True)
        return functional.relu(self.conv2(h) + x, inplace=True)


def test_residual_block() -> None:
    found = probe(nn.Sequential(Block(3), Block(3)), torch.randn(4, 3, 5, 5))
    assert _ops(found)[:7] == ["input", "Conv2d", "BatchNorm2d", "relu", "Conv2d", "add", "relu"]
    assert _depths(found) == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert found.names[7] == "1.conv1"
    assert np.isfinite(found.values["output_gradient_log_norm"]).all()
    assert found.sites[2].pre_activation
    assert found.sites[5].pre_activation
    assert found.sites[1].activation == "relu"


def test_reused_modules_have_a_site_per_call() -> None:
    shared = nn.Linear(4, 4)
    found = probe(nn.Sequential(shared, nn.ReLU(), shared, nn.ReLU(), shared), torch.randn(3, 4))
    linear = [site for site in found.sites if site.op == "Linear"]
    assert [(site.name, site.call, site.depth) for site in linear] == [("0", 0, 1), ("0", 1, 2), ("0", 2, 3)]
    assert len({site.weight_log_norm for site in linear}) == 1  # there is one weight, and it has one gradient


@dataclass
class Output:
    hidden: torch.Tensor
    label: str


class ManyInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(2, 4)

    def forward(self, a, *, b, flag=True):
        h = self.first(a) + self.second(b["value"])
        return {"out": (h, [h.relu()]), "more": Output(h.tanh(), "text"), "count": 3, "nothing": None}


def test_many_inputs_and_nested_outputs() -> None:
    found = probe(ManyInputs(), {"a": torch.randn(5, 3), "b": {"value": torch.randn(5, 2)}, "flag": False})
    assert _ops(found) == ["input", "Linear", "Linear", "add", "relu", "tanh"]
    assert np.isfinite(found.values["output_gradient_log_norm"]).all()


class Positional(nn.Module):
    def forward(self, a, b):
        return torch.relu(a) * b


def test_positional_arguments_and_no_parameters() -> None:
    found = probe(Positional(), (torch.randn(4, 3), torch.randn(4, 3)))
    assert _ops(found) == ["input", "relu"]
    assert np.isfinite(found.values["output_gradient_log_norm"][1])


@pytest.mark.parametrize("batch_first", [True, False])
def test_recurrent_networks(batch_first: bool) -> None:
    model = nn.LSTM(5, 6, num_layers=2, batch_first=batch_first)
    x = torch.randn(3, 7, 5)
    found = probe(model, x if batch_first else x.transpose(0, 1).contiguous())
    assert _ops(found) == ["input", "LSTM"]
    assert _depths(found) == [0, 2]
    assert found.samples == 3
    output = model(x if batch_first else x.transpose(0, 1))[0].detach()
    flat = (output if batch_first else output.transpose(0, 1)).flatten(1)
    np.testing.assert_allclose(found.gram(1), (flat @ flat.mT / flat.shape[1]).numpy(), rtol=1e-5)
    assert np.isfinite(found.values["gradient_log_norm"][1])


def test_token_models_with_embeddings_and_transformer_layers() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.Sequential(nn.Embedding(11, 8), layer, nn.Linear(8, 11))
    found = probe(model, torch.arange(12).view(3, 4) % 11)
    ops = _ops(found)
    assert ops[:3] == ["input", "Embedding", "MultiheadAttention"]
    assert _depths(found)[-1] == 6
    assert np.isfinite(found.values["token_stable_rank"][1:]).all()
    assert np.isnan(found.values["rms"][0])


class WrittenOut(nn.Module):
    """A normalisation in elementary operations."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x):
        return self.scale * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class WrittenGelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.045 * x**3)))


def test_leaf_modules_written_out_are_one_site() -> None:
    model = nn.Sequential(nn.Linear(6, 6), WrittenOut(), WrittenGelu(), nn.Identity(), nn.Flatten())
    found = probe(model, torch.randn(4, 6))
    assert _ops(found) == ["input", "Linear", "WrittenOut", "WrittenGelu"]
    assert [site.kind for site in found.sites] == ["input", "weight", "norm", "activation"]
    assert np.isnan(found.values["saturated_fraction"]).all()  # the tanh inside is not the activation


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.b(torch.relu(Double.apply(self.a(x))))


def test_custom_functions_do_not_lose_the_depth() -> None:
    found = probe(Custom(), torch.randn(3, 4))
    assert _ops(found) == ["input", "Linear", "relu", "Linear"]
    assert _depths(found) == [0, 1, 1, 2]


class Severed(nn.Module):
    """What reaches the second layer comes from a bias, not from the input."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.shift = nn.Linear(4, 4), nn.Linear(4, 4), nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.b(self.a(x).detach() + self.shift)


def test_layers_behind_a_cut_have_gradients() -> None:
    model, x = Severed(), torch.randn(3, 4)
    found = probe(model, x)
    cotangent = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad(model(x), model.b.weight, cotangent)
    assert found.values["gradient_log_norm"][2] == pytest.approx(float(gradient.norm().log()), rel=1e-5)
    assert np.isnan(found.values["gradient_log_norm"][1])


def test_layers_restricts_the_sites_but_not_the_depth() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    found = probe(model, torch.randn(3, 4), layers=["2"])
    assert list(zip(found.names, _depths(found), strict=True)) == [("input", 0), ("2", 2)]


def test_more_layers_than_python_may_recurse() -> None:
    layers = sys.getrecursionlimit() + 50
    model = nn.Sequential(*(module for _ in range(layers) for module in (nn.Linear(8, 8), nn.Tanh())))
    found = probe(model, torch.randn(4, 8))
    assert len(found) == 2 * layers + 1
    assert found.sites[-1].depth == layers
    assert np.isfinite(found.values["stable_rank"]).all()


def test_nan_weights_are_located() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 2))
    with torch.no_grad():
        model[2].weight[0, 0] = float("nan")
    found = probe(model, torch.randn(3, 4))
    assert found.nonfinite_layer == 3
    assert found.nonfinite_gradient_layer is not None
    assert np.isfinite(found.values["stable_rank"][:3]).all()
    assert np.isnan(found.values["stable_rank"][3])


def test_frozen_models_and_outputs_without_history() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).requires_grad_(False)
    found = probe(model, torch.randn(3, 4))
    assert np.isfinite(found.values["output_gradient_log_norm"]).all()
    assert np.isnan(found.values["gradient_log_norm"][1])

    class Cut(nn.Module):
        def forward(self, x):
            with torch.no_grad():
                return torch.relu(x)

    assert np.isnan(probe(Cut(), torch.randn(3, 4)).values["output_gradient_log_norm"][1])


def test_compiled_models_are_looked_through() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    inner = nn.Sequential(torch.compile(nn.Linear(4, 4), backend="eager"), nn.ReLU())
    for compiled in (torch.compile(model, backend="eager"), inner):
        found = probe(compiled, torch.randn(3, 4))
        assert _ops(found) == ["input", "Linear", "ReLU"]
        assert found.names == ("input", "0", "1")


def test_probing_twice_is_identical_and_modes_differ() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 2))
    x = torch.randn(5, 6)
    first, second = probe(model, x), probe(model, x)
    for name, values in first.values.items():
        np.testing.assert_array_equal(values, second.values[name], err_msg=name)
    assert "Dropout" in _ops(first)
    evaluated = probe(model, x, mode="eval")
    assert "Dropout" not in _ops(evaluated)
    assert not np.array_equal(first.values["rms"][2], evaluated.values["rms"][2])
    assert model.training
    assert probe(model, x, seed=1).values["rms"][3] != first.values["rms"][3]


def test_float16_is_read_in_float32() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Tanh()).half()
    found = probe(model, 100 * torch.randn(4, 300).half())
    assert np.isfinite(found.values["rms"]).all()
    assert found.sites[1].dtype == "float16"
    np.testing.assert_allclose(found.values["overflow_headroom"][1], found.values["overflow_headroom_float16"][1])


def test_bfloat16_and_autocast_in_a_process_of_their_own() -> None:
    code = """
import torch
from torch import nn
from isometer.doctor import probe
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
x = torch.randn(4, 8)
plain = probe(model, x)
with torch.autocast("cpu", dtype=torch.bfloat16):
    cast = probe(model, x)
    assert torch.is_autocast_enabled("cpu")
assert [s.dtype for s in cast.sites] == ["float32", "bfloat16", "bfloat16", "bfloat16"], [s.dtype for s in cast.sites]
assert cast.sites[1].gram.dtype == torch.float32
assert abs(cast.values["rms"][3] / plain.values["rms"][3] - 1) < 0.02
half = probe(model.bfloat16(), x.bfloat16())
assert abs(half.values["rms"][3] / plain.values["rms"][3] - 1) < 0.02
print("fine")
"""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "fine", done.stderr


class NoTensor(nn.Module):
    def forward(self, x):
        return "nothing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((lambda x: x, torch.zeros(2, 2), {}), "expected a torch.nn.Module"),
        ((nn.Linear(2, 2), "text", {}), "batch is a str without a tensor"),
        ((nn.Linear(2, 2), torch.zeros(0, 2), {}), "expected at least one sample"),
        ((nn.Linear(2, 2), torch.zeros(2, 2), {"mode": "test"}), "expected 'train', 'eval' or None"),
        ((nn.Linear(2, 2), torch.zeros(2, 2), {"target": 1}), "target was given without loss"),
        ((nn.Linear(2, 2), torch.zeros(2, 2), {"loss": 1}), "expected a function"),
        ((nn.Linear(2, 2), torch.zeros(2, 2), {"loss": lambda out: out}), r"shape \(2, 2\); expected a scalar"),
        ((NoTensor(), torch.zeros(2, 2), {}), "without a floating point tensor"),
        ((nn.LazyLinear(2), torch.zeros(2, 2), {}), "run it on a batch once"),
    ],
)
def test_errors_say_what_to_do(arguments, message: str) -> None:
    model, batch, options = arguments
    with pytest.raises(IsometerError, match=message):
        probe(model, batch, **options)


def test_modules_of_isometer_are_known_by_name() -> None:
    """Batch norm in its parts and any activation: what follows the weights, and how many values a statistic has."""
    from isometer.nn import build
    from isometer.spec import Spec

    network = build(Spec(width=16, depth=2, activation="normalized(relu)", norm="batch-rescale"))
    found = probe(network, torch.randn(6, 16))
    weights = [site for site in found.sites if site.kind == "weight"]
    assert [(site.activation, site.followed, site.normalized) for site in weights] == [
        ("normalized(relu)", True, True)
    ] * 2
    assert [site.statistics for site in found.sites if site.kind == "norm"] == [6, 6]
    activations = [site for site in found.sites if site.kind == "activation"]
    assert all(abs(site.input_rms - 1.0) < 1e-3 for site in activations)
    evaluated = probe(network, torch.randn(6, 16), mode="eval")
    assert not any(site.statistics for site in evaluated.sites)


class Written(nn.Module):
    """Functions of its own on several lines, beside modules of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.weight = nn.Linear(4, 4), nn.Parameter(torch.eye(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.inner(x))
        z = functional.linear(y, self.weight)
        return y + z


def test_functions_are_named_by_the_line_that_calls_them() -> None:
    found = probe(Written(), torch.randn(3, 4))
    line = Written.forward.__code__.co_firstlineno
    file = Path(__file__).name
    assert [(site.op, site.where) for site in found.sites] == [
        ("input", ""),
        ("Linear", ""),
        ("relu", f"{file}:{line + 1}"),
        ("linear", f"{file}:{line + 2}"),
        ("add", f"{file}:{line + 3}"),
    ]
    assert [row["where"] for row in found.to_dict()["layers"]][:3] == [None, None, f"{file}:{line + 1}"]
