"""Networks built from specs, against the dense simulation and the law of the Gram engine."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from isometer import probe
from isometer.data import make_batch
from isometer.errors import IsometerError
from isometer.metrics import orthogonality_gap
from isometer.nn import build
from isometer.simulate import simulate
from isometer.spec import POST_NORM, RECURRENCES, WEIGHT_LAWS, Norm, PowerLaw, Spec, recurrence
from support.models import F64, draw
from support.power import rejections

# --- build ------------------------------------------------------------------------------------------------------------

SPECS = {
    **{name: recurrence(name, width=12, depth=3) for name in RECURRENCES},
    **{f"law {law}": Spec(width=(14, 9, 12), input_width=10, weights=law, gain=1.3) for law in WEIGHT_LAWS},
    **{
        f"{norm}, {phi}, γ = {residual}": Spec(width=12, depth=3, norm=norm, activation=phi, residual=residual)
        for norm in ("none", "batch", "batch-rescale", "batch-rescale-std", "batch-recenter", "layer", "group:3")
        for phi, residual in (("relu", math.inf), ("tanh", 0.5), ("leaky_relu(0.3)", 0.5))
    },
    "whitened": Spec(width=12, depth=2, activation="tanh", norm="whiten"),
    "affine norm": Spec(width=12, depth=2, norm=Norm(eps=0.1, scale=0.7, shift=0.2), activation="gelu"),
    "shaped, biased": Spec(
        width=12, depth=4, activation="sin", bias_variance=0.3, activation_gain=PowerLaw(layer=-0.5), order=POST_NORM
    ),
    "residual after the norm": Spec(
        width=12, depth=3, norm="rms", residual=0.2, order=("norm", "activation", "weights", "residual")
    ),
    "expression": Spec(width=12, depth=3, activation="normalized(x * tanh(x))", norm="batch"),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_network_goes_through_the_representations_of_the_dense_simulation(name: str) -> None:
    spec = SPECS[name]
    assert spec.input_width is not None
    batch = make_batch("gaussian", 5, spec.input_width, seed=1)
    cotangent = draw(5, spec.widths[-1], seed=2)
    names = ["log_norm", "orthogonality_gap", "gradient_log_norm"]
    simulated = simulate(spec, batch, runs=1, metrics=names, seed=3, engine="dense", loss=cotangent.numpy())
    network = build(spec, seed=3, dtype="float64")
    value = torch.tensor(batch, requires_grad=True)
    start, seen = value, [value]
    for layer in network.layers:
        value = layer(value)
        seen.append(value)
    assert torch.equal(value, network(torch.tensor(batch)))
    for layer, h in enumerate(seen):
        assert float(h.detach().norm().log()) == pytest.approx(simulated["log_norm"].values[0, layer], abs=1e-10)
        gap = float(orthogonality_gap(h.detach()))
        assert gap == pytest.approx(simulated["orthogonality_gap"].values[0, layer], abs=1e-10)
    weights = [network.get_submodule(f"layers.{i}.weights").weight for i in range(spec.layers)]
    gradients = torch.autograd.grad((value * cotangent).sum(), [start, *weights])
    logs = [float(g.norm().log()) for g in gradients]
    assert logs == pytest.approx(simulated["gradient_log_norm"].values[0].tolist(), abs=1e-8)


METRICS = ["orthogonality_gap", "mean_cosine", "effective_rank", "log_norm"]
RUNS, LEVEL = 250, 1e-3
LAWFUL = [
    "000/def-layer",
    "001/rec-6.11",
    "law he",
    "batch-rescale-std, tanh, γ = 0.5",
    "batch-recenter, relu, γ = inf",
    "layer, leaky_relu(0.3), γ = 0.5",
]
TESTS = len(LAWFUL) * len(METRICS)


def networks(spec: Spec, batch: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Metrics of the last layer over independent networks."""
    with torch.no_grad():
        last = torch.stack([build(spec, seed=seed + i, dtype=F64)(torch.tensor(batch)) for i in range(RUNS)])
    from isometer import metrics

    values = {name: getattr(metrics, name)(last) for name in METRICS[:3]}
    values["log_norm"] = last.flatten(1).norm(dim=1).log()
    return {name: np.round(value.numpy(), 8) for name, value in values.items()}


@pytest.mark.parametrize("name", LAWFUL)
def test_networks_have_the_law_of_the_gram_engine(name: str) -> None:
    spec = SPECS[name]
    assert spec.input_width is not None
    batch = make_batch("gaussian", 4, spec.input_width, seed=1)
    ours = networks(spec, batch, seed=1000)
    theirs = simulate(spec, batch, runs=RUNS, metrics=METRICS, seed=7, engine="gram")
    for metric, values in ours.items():
        other = np.round(theirs[metric].values[:, -1], 8)
        assert stats.ks_2samp(values, other, method="asymp").pvalue > LEVEL / TESTS, metric


def test_the_comparison_can_fail() -> None:
    spec = SPECS["law he"]
    batch = make_batch("gaussian", 4, 10, seed=1)
    ours = networks(spec.replace(gain=1.15 * 1.3), batch, seed=1000)["log_norm"]
    theirs = simulate(spec, batch, runs=RUNS, metrics=["log_norm"], seed=7)["log_norm"].values[:, -1]
    assert stats.ks_2samp(ours, theirs, method="asymp").pvalue < LEVEL / TESTS


@pytest.mark.parametrize(("shift", "spread"), [(0.75, 1.0), (0.0, 2.8)])
def test_the_stated_power(shift: float, spread: float) -> None:
    assert rejections(RUNS, shift, spread, LEVEL / TESTS) >= 297


def test_seeds_determine_networks_and_no_generator_is_touched() -> None:
    spec = Spec(width=8, depth=3, bias_variance=0.1)
    before = torch.get_rng_state()
    first, second, third = (build(spec, classes=3, inputs=5, seed=s) for s in (4, 4, 5))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    for (name, a), b in zip(first.named_parameters(), third.parameters(), strict=True):
        assert name == "readout.bias" or not torch.equal(a, b), name


def test_names_dtype_and_ends() -> None:
    network = build(Spec(width=300, depth=2, norm="batch", activation="gelu"), classes=200, inputs=400, dtype=F64)
    assert {"layers.1.weights", "layers.1.norm", "layers.1.activation", "readin", "readout"} <= {
        name for name, _ in network.named_modules()
    }
    assert all(p.dtype == F64 for p in network.parameters())
    # variance of N = 60000 … 120000 normals: relative standard error √(2/N) < 0.6 %
    for end in (network.readin, network.readout):
        assert end is not None
        assert float(end.weight.detach().var()) * end.in_features == pytest.approx(1.0, rel=0.03)
    assert network(draw(3, 4, 100)).shape == (3, 200)  # flattened
    linear = build(Spec(width=4, depth=1, activation="identity"))
    assert [name for name, _ in linear.layers[0].named_children()] == ["weights"]


def test_networks_copy_pickle_and_train() -> None:
    spec = Spec(width=16, depth=3, norm="batch", activation="x * tanh(x)", weights="orthogonal")
    network = build(spec, classes=2)
    x = draw(32, 16).float()
    y = (x[:, 0] > 0).long()
    twins = [copy.deepcopy(network), pickle.loads(pickle.dumps(network))]
    assert all(torch.equal(network(x), twin(x)) for twin in twins)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    losses = []
    for _ in range(40):
        loss = nn.functional.cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]


def test_the_probe_sees_the_steps() -> None:
    found = probe(build(Spec(width=8, depth=2, norm="batch", residual=0.5), classes=2), draw(6, 8).float())
    kinds = [site.kind for site in found.sites]
    assert kinds == ["input", *["weight", "add", "norm", "activation"] * 2, "weight"]
    assert found.sites[1].name == "layers.0.weights"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float16"}, "dtype is float16; expected float32 or float64"),
        ({"classes": 0}, "classes is 0; expected a whole number"),
        ({"inputs": 2.5}, "inputs is 2.5; expected a whole number"),
    ],
)
def test_build_refuses(options: dict, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        build(Spec(width=4, depth=1), **options)


def test_a_wrong_input_is_named() -> None:
    with pytest.raises(IsometerError, match=r"shape \(2, 5\); expected \(samples, 4\)"):
        build(Spec(width=4, depth=1))(torch.ones(2, 5))
