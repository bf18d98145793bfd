"""Compositions as torch modules, against the dense simulation: the same representations and the same gradients.

The weights are those of run 0, so both are compared number by number; automatic differentiation knows nothing of the
ways back that the simulation has.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from isometer import probe
from isometer.errors import IsometerError
from isometer.nn import ComposedNetwork, build
from isometer.simulate import simulate
from isometer.simulate._network import NetworkWalk
from isometer.spec import Spec
from support.models import F64
from support.networks import input_batch, random_network

# kinks of the others are met at exact zeros (padding, dropped channels), where the two choose different slopes
SMOOTH_OR_RELU = ("relu", "tanh", "gelu", "sin")
RANDOM = range(40)
NAMED = {
    "resnet": "resnet(channels=6, blocks=2, size=4)",
    "resnet with batch norm": "resnet(channels=6, blocks=2, size=4, norm='batch')",
    "pre-norm blocks": "preln_mlp(width=8, blocks=3)",
    "post-norm blocks": "postln_mlp(width=8, blocks=3)",
    "norms with ε": "input(8) > dense > norm('batch', eps=0.001) > dense > norm('layer', eps=0.01) > act('tanh') > "
    "dense > norm('rms', eps=0.1) > dense > norm('group:2', eps=0.01) > dense(3)",
    "norms with ε and positions": "input(8, [3, 4]) > conv(3) > norm('batch', eps=0.001) > act('relu') > conv(3) > "
    "norm('layer', eps=0.01) > act('relu') > conv(3) > norm('group:2', eps=0.1) > flatten > dense(3)",
    "whitened positions": "input(3, [6]) > conv(2, 4) > norm('whiten') > act('tanh') > pool > dense(2)",
    "every law": "input(6) > dense(9, weights='uniform') > act('tanh') > dense(weights='asymmetric') > dense(4, "
    "weights='pytorch') > dense(weights='orthogonalized-xavier') > dense(weights='xavier-uniform')",
    "depthwise": "input(6, [5, 5]) > conv(3, groups=6) > act('gelu') > conv(3, 12, groups=2, weights='orthogonal') > "
    "conv(3, 12, groups=12, weights='delta-orthogonal', stride=2) > pool('max') > dense(2)",
    "strides and dilations": "input(2, [9, 8]) > conv([3, 2], 5, stride=[2, 1], dilation=[1, 2], padding='zeros') > "
    "act('relu') > conv(2, stride=2, padding='circular') > conv(2, padding='reflect') > pool('max', 2, stride=1)",
    "upsampling": "input(2, [3, 4]) > conv(3, 5) > act('tanh') > upsample([2, 3]) > conv(3, 4) > upsample(1) > pool > "
    "dense(2)",
    "a bias of its own": "input(4) > bias(0.5) > act('tanh') > bias(0.2) > norm('rms') > bias(0.1) > dense(3)",
    "schedules": "input(8) > repeat(residual(dense > act('tanh', power(layer=-0.5)), power(depth=-0.5)), 5) > dense(2)",
    "a repeat of nothing but one turn": "input(5) > repeat(dense(7) > act('relu'), 1) > norm('rms') > dense(3)",
    "a branch alone": "input(5) > residual(dense(7) > act('tanh'), inf) > dense(3)",
}


def network_of(case: int | str) -> Spec:
    if isinstance(case, int):
        return random_network(case, length=4, also=("groups",) if case % 2 else (), activations=SMOOTH_OR_RELU)
    return Spec(NAMED[case])


def layer_outputs(network: ComposedNetwork, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The output, and what the modules hand on that end a layer."""
    found: dict[str, torch.Tensor] = {}
    hooks = [
        network.get_submodule(name).register_forward_hook(lambda _, __, out, name=name: found.update({name: out}))
        for name in network.layer_names
    ]
    output = network(x)
    for hook in hooks:
        hook.remove()
    return output, [found[name] for name in network.layer_names]


@pytest.mark.parametrize("case", [*RANDOM, *NAMED])
def test_a_network_goes_through_the_representations_of_the_dense_simulation(case: int | str) -> None:
    spec = network_of(case)
    x = torch.tensor(input_batch(spec, 6), requires_grad=True)
    network = build(spec, seed=3, dtype=F64)
    assert isinstance(network, ComposedNetwork)
    output, layers = layer_outputs(network, x)
    assert len(layers) == spec.depth
    cotangent = torch.tensor(np.random.default_rng(1).standard_normal(tuple(output.shape)))
    with torch.no_grad():
        batch = x.detach().flatten(1)[None]
        walk = NetworkWalk(spec, "dense", batch, seed=3, runs=[0], backward=True)
        for layer, measured in enumerate(layers, start=1):
            walk.step(layer)
            value = (walk.value * walk.log_scale.exp()[:, None, None])[0]
            scale = float(measured.detach().abs().max())
            torch.testing.assert_close(value, measured.detach().flatten(1), rtol=1e-12, atol=1e-12 * scale)
        seen: dict[int, list[float]] = {}

        def visit(layer: int, gradients: list | None, rows: torch.Tensor, log_scale: torch.Tensor) -> None:
            if gradients is not None:
                seen[layer] = [float(one.log_norm() + log_scale) for one in reversed(gradients)]
            else:
                seen[0] = (rows * log_scale.exp()[:, None, None])[0]  # type: ignore[assignment]

        walk.backward(cotangent.flatten(1)[None], torch.zeros(1, dtype=F64), visit)
    (output * cotangent).sum().backward()
    assert x.grad is not None
    expected = x.grad.flatten(1)
    atol = 1e-11 * float(expected.abs().max())
    torch.testing.assert_close(seen.pop(0), expected, rtol=1e-10, atol=atol)
    weights = [m.weight for m in network.modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d)]
    found = [one for layer in sorted(seen) for one in seen[layer]]
    assert found == pytest.approx([float(w.grad.norm().log()) for w in weights], abs=1e-9)


def test_simulate_measures_what_the_network_has() -> None:
    """Through the public functions: metrics and the gradient of all weights of a layer together."""
    # no norm over the batch: the gradient of a sample's loss is then what the sample's rows bring
    spec = Spec("resnet(channels=6, blocks=2, size=4, norm='layer')")
    batch = input_batch(spec, 4)
    network = build(spec, seed=5, dtype=F64)
    x = torch.tensor(batch, requires_grad=True)
    output, layers = layer_outputs(network, x)
    cotangent = torch.tensor(np.random.default_rng(1).standard_normal(tuple(output.shape)))
    names = ["log_norm", "gradient_log_norm", "gradient_alignment"]
    data = simulate(spec, batch, runs=2, metrics=names, seed=5, engine="dense", loss=cotangent.numpy())
    logs = [float(value.detach().norm().log()) for value in (x, *layers)]
    assert data["log_norm"].values[0].tolist() == pytest.approx(logs, abs=1e-12)
    # sample by sample, for the alignment of the gradients that single samples bring
    rows = []
    for sample in range(len(batch)):
        network.zero_grad()
        mask = torch.zeros_like(cotangent)
        mask[sample] = cotangent[sample]
        network_output = network(torch.tensor(batch))
        (network_output * mask).sum().backward()
        rows.append([torch.cat([w.grad.flatten() for w in module.parameters()]) for module in _layer_modules(network)])
    for layer in range(1, len(layers) + 1):
        gradients = torch.stack([row[layer - 1] for row in rows])
        total = float(gradients.sum(0).norm().log())
        assert data["gradient_log_norm"].values[0, layer] == pytest.approx(total, abs=1e-9)
        unit = gradients / gradients.norm(dim=1, keepdim=True)
        cosines = (unit @ unit.T).abs()
        mean = float((cosines.sum() - cosines.trace()) / (len(batch) * (len(batch) - 1)))
        assert data["gradient_alignment"].values[0, layer] == pytest.approx(mean, abs=1e-9)


def _layer_modules(network: ComposedNetwork) -> list[nn.Module]:
    """What holds the weights of each layer of the network above: stem, two blocks, readout."""
    return [network.conv, *network.blocks, network.dense]  # type: ignore[list-item, misc]


def test_names_read_like_the_composition() -> None:
    network = build(Spec("resnet(channels=4, blocks=3, size=4, norm='batch')"))
    names = {name for name, _ in network.named_modules()}
    assert {"conv", "blocks.2.branch.norm2", "blocks.0.branch.conv", "act", "pool", "dense"} <= names
    assert network.layer_names == ("conv", "blocks.0", "blocks.1", "blocks.2", "dense")
    assert isinstance(network.get_submodule("blocks.1.branch.conv2"), nn.Conv2d)
    assert network.get_submodule("conv").padding_mode == "circular"
    mixed = build(Spec("input(4) > sum(dense > act('relu'), same) > concat(dense, dense(2)) > dense > bias(0.1)"))
    assert {"sum.branches.0.dense", "concat.branches.1.dense"} <= {name for name, _ in mixed.named_modules()}
    assert mixed.dense.bias is not None
    epsilon = build(
        Spec("input(4, [3, 3]) > conv(3) > norm('batch', eps=1e-05) > flatten > dense > norm('layer', eps=1e-05)")
    )
    kinds = [type(module).__name__ for module in epsilon]
    assert kinds == ["Conv2d", "BatchNorm2d", "Flatten", "Linear", "LayerNorm"]


def test_a_step_further_on_does_not_change_those_before() -> None:
    short = build(Spec("input(4) > dense(6) > act('relu') > dense(5)"), seed=2)
    longer = build(Spec("input(4) > dense(6) > act('relu') > dense(7) > act('tanh') > dense(2)"), seed=2)
    assert torch.equal(short.dense.weight, longer.dense.weight)
    assert not torch.equal(short.dense.weight, build(short.spec, seed=3).dense.weight)


def test_networks_train_copy_and_touch_no_generator() -> None:
    before = torch.get_rng_state()
    network = build(Spec("input(1, [4, 4]) > conv(3, 6) > act('relu') > dropout(0.1) > pool > dense(2)"), seed=1)
    assert torch.equal(before, torch.get_rng_state())
    x = torch.tensor(input_batch(network.spec, 32)).float()
    y = (x.mean((1, 2, 3)) > 0).long()
    twin = copy.deepcopy(network).eval()
    assert torch.equal(twin(x), network.eval()(x))
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    losses = []
    for _ in range(60):
        loss = nn.functional.cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def test_the_probe_sees_the_steps() -> None:
    network = build(Spec("input(8) > repeat(residual(norm('layer') > dense > act('tanh'), 0.5), 2) > dense(2)"))
    kinds = [site.kind for site in probe(network, torch.randn(6, 8)).sites]
    assert kinds == ["input", *["norm", "weight", "activation", "add"] * 2, "weight"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("input(4, [3]) > positions > attention(heads=2)", {}, "does not cover positions"),
        ("input(4) > dense > act('relu') > dense(2)", {"classes": 3}, "write the projection as a step"),
        ("input(4, [2, 2]) > conv(7)", {}, "torch wraps around at most once"),
    ],
)
def test_build_refuses(text: str, options: dict, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        build(Spec(text), **options)


def test_a_wrong_input_is_named() -> None:
    with pytest.raises(IsometerError, match=r"shape \(2, 3, 4\); expected \(samples, 3, 4, 4\)"):
        build(Spec("input(3, [4, 4]) > conv(3) > flatten > dense(2)"))(torch.ones(2, 3, 4))


def test_noise_is_added_in_training_only() -> None:
    network = build(Spec("input(400) > noise(0.25) > dense(3)"), dtype=F64)
    noise = next(module for name, module in network.named_children() if name == "noise")
    x = torch.zeros(100, 400, dtype=F64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        # 40,000 numbers: 6 standard errors of the variance are 0.011
        assert abs(float(noise(x).var()) - 0.25) < 0.011
    assert not network.eval().get_submodule("noise")(x).any()
