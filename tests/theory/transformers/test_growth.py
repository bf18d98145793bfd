"""Growth of the function under one step: closed forms, and networks whose weights are moved."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from isometer.nn import build
from isometer.spec import Spec
from isometer.theory.transformers import PresetPlane, function_growth, token_diagram, token_path

_TEXT = "gpt(blocks={}, width=128, heads=16, tokens=6, causal=False, {})"


def _moved(spec: Spec, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """c·ΔF per rate for gradient descent, and for steps against the sign, of networks that are drawn."""
    rng = np.random.default_rng(0)
    width, [tokens] = spec.shape.width, spec.shape.axes
    frame = np.linalg.qr(rng.standard_normal((width, tokens)))[0] * math.sqrt(width)  # orthogonal tokens
    x = torch.tensor(frame[None])
    found = []
    for run in range(runs):
        network = build(spec, seed=run, dtype=torch.float64)
        output = network(x)
        cotangent = torch.tensor(rng.standard_normal(output.shape))
        features = output[0].numel()
        (output * cotangent).sum().backward()
        gradients = [one.grad for one in network.parameters() if one.grad is not None]
        squares = sum(float(one.square().sum()) for one in gradients)
        signs = sum(float(one.abs().sum()) for one in gradients)
        found.append((squares / features, signs / math.sqrt(features)))
    return np.array(found)[:, 0], np.array(found)[:, 1]


@pytest.mark.parametrize("options", ["norm='post'", "norm='pre', gated=True, qk_gain=1.5", "norm='deep', hidden=0"])
def test_growth_is_that_of_networks_that_are_moved(options: str) -> None:
    """16 networks of width 128: 4.5 standard errors and 6 % for finite width; a factor of 1.3 would be found."""
    spec = Spec(_TEXT.format(2, options))
    found = function_growth(spec)
    sgd, signs = _moved(spec, 16)
    error = sgd.std(ddof=1) / 4
    assert abs(sgd.mean() - found.sgd) < 4.5 * error + 0.06 * found.sgd
    assert 4.5 * error + 0.06 * found.sgd < 0.3 * found.sgd
    assert found.sgd == pytest.approx(found.sgd_by_layer.sum()) == pytest.approx(sum(found.sgd_by_kind.values()))
    assert (found.sgd_exponent, found.adam_exponent) == pytest.approx((1.0, 1.5), abs=0.1)
    # cotangents of all tokens at a time, so gradients are sums: between those of one pair of factors and Gaussian ones
    assert 2 / math.pi - 0.15 < signs.mean() / found.adam < 1.0


def test_pooled_tokens_share_their_gradient() -> None:
    """A mean over T tokens without attention: ‖∂y/∂x‖² per feature is 1/T, and the readout sees the mean."""
    spec = Spec("input(16, [5]) > dense(16) > pool > dense(3)")
    path = token_path(spec, cosine=0.25, backward=True)
    assert path.log_jacobian is not None
    assert path.weights is not None
    assert path.log_jacobian[:, 0] == pytest.approx([math.log(1 / 5), 0.0, 0.0], abs=1e-12)  # a layer ends pooled
    mean = 1 / 5 + 0.25 * 4 / 5
    logs = [[float(one.log[0]) for one in layer] for layer in path.weights]
    assert [math.exp(value) for [value] in logs] == pytest.approx([16 * mean, 16 * mean])


def test_diagrams_of_vit_have_gradients() -> None:
    """Against one network that is drawn, by its Jacobian."""
    plane = PresetPlane("vit(blocks=1, width=96, heads=12, tokens=5, inputs=96, classes=8)", "qk_gain", "branch")
    found = token_diagram(plane, [1.0], [0.5])
    frame = np.linalg.qr(np.random.default_rng(1).standard_normal((96, 5)))[0] * math.sqrt(96)
    sizes = []
    for seed in range(8):
        network = build(plane(1.0, 0.5), seed=seed, dtype=torch.float64)
        jacobian = torch.autograd.functional.jacobian(network, torch.tensor(frame[None]))
        sizes.append(float(jacobian.square().sum()) / 8)
    assert found.log_jacobian[0, 0] == pytest.approx(math.log(np.mean(sizes)), abs=0.15)
