"""Attention at finite width: the module against torch's own, the engines against the module and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from isometer.errors import IsometerError
from isometer.metrics import SEQUENCE_METRICS
from isometer.nn import build
from isometer.nn._attention import SelfAttention
from isometer.simulate import simulate
from isometer.simulate._attention import attend
from isometer.simulate._network import NetworkWalk
from isometer.spec import Attention, Spec

_OPTIONS = (
    "qk_gain=1.2",
    "qk_norm=True, qk_gain=1.5, causal=True",
    "kind='linear', causal=True",
    "key_heads=2, weights='orthogonal'",
    "head_width=6, score_scale=0.7",
    "rotary=True, qk_norm=True, rotary_base=20",
)


@pytest.mark.parametrize("causal", [False, True])
def test_the_module_is_torchs_attention(causal: bool) -> None:
    module = SelfAttention(Attention(heads=4, head_width=3, key_heads=2, causal=causal), 8, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    x = torch.randn(2, 8, 5, dtype=torch.float64, generator=generator)
    rows = x.mT
    q, k, v = (layer(rows).unflatten(2, (-1, 3)).transpose(1, 2) for layer in (module.query, module.key, module.value))
    heads = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    expected = module.output(heads.transpose(1, 2).flatten(2)).mT
    torch.testing.assert_close(module(x), expected)


def test_the_rotation_is_that_of_llama() -> None:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    step = Attention(heads=2, head_width=6, key_heads=2, rotary=True)
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 5, 12, dtype=torch.float64, generator=generator)
    turned = torch.arange(5.0, dtype=torch.float64)[:, None] * torch.tensor(step.rotary_angles, dtype=torch.float64)
    angles = torch.cat([turned, turned], -1)[None]
    heads = [one.unflatten(2, (2, 6)).transpose(1, 2) for one in (q, k, v)]
    query, key = apply_rotary_pos_emb(heads[0], heads[1], angles.cos(), angles.sin())
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, heads[2]).transpose(1, 2).flatten(2)
    torch.testing.assert_close(attend(step, q, k, v, 5).value, expected)


@pytest.mark.parametrize("options", _OPTIONS)
def test_the_dense_engine_is_the_module_forward_and_backward(options: str) -> None:
    spec = Spec(
        f"input(16, [5]) > residual(norm('layer') > attention(heads=4, {options})) > residual(norm('layer') > "
        "dense(32) > act('gelu') > dense(16))"
    )
    generator = torch.Generator().manual_seed(0)
    x, cotangent = torch.randn(2, 3, 16, 5, dtype=torch.float64, generator=generator)
    network = build(spec, seed=3, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    output = network(leaf)
    (output * cotangent).sum().backward()
    walk = NetworkWalk(spec, "dense", x.flatten(1)[None], seed=3, runs=[0], backward=True)
    for layer in (1, 2):
        walk.step(layer)
    torch.testing.assert_close(walk.value[0] * walk.log_scale.exp(), output.detach().flatten(1))
    seen = {}
    walk.backward(
        cotangent.flatten(1)[None],
        torch.zeros(1, dtype=torch.float64),
        lambda layer, gradients, c, log: seen.update({layer: (gradients, c, log)}),
    )
    assert leaf.grad is not None
    torch.testing.assert_close(seen[0][1][0] * seen[0][2].exp(), leaf.grad.flatten(1))
    found = sum(float((2 * (one.log_norm() + seen[k][2])).exp()) for k in (1, 2) for one in seen[k][0])
    expected = sum(float(p.grad.square().sum()) for p in network.parameters() if p.grad is not None)
    assert found == pytest.approx(expected, rel=1e-9)


def test_both_engines_have_one_law() -> None:
    """64 runs each: means 3.5 standard errors of their difference apart at most; cosines 0.06 apart would be found."""
    spec = Spec("gpt(blocks=2, width=32, heads=4, tokens=6, qk_gain=1.5)")
    batch = np.random.default_rng(0).standard_normal((2, 32, 6))
    names = [*SEQUENCE_METRICS, "gradient_log_norm"]
    drawn = [simulate(spec, batch, runs=64, metrics=names, engine=engine, seed=1) for engine in ("gram", "dense")]
    for name in names:
        gram, dense = (one[name].values[:, 1:3] for one in drawn)
        error = np.sqrt((gram.var(axis=0, ddof=1) + dense.var(axis=0, ddof=1)) / 64)
        assert (np.abs(gram.mean(axis=0) - dense.mean(axis=0)) < 3.5 * error).all(), name
        if name == "token_cosine":
            assert (error < 0.06 / 3.5).all()


def test_numbers_of_sequences_are_those_of_the_tokens() -> None:
    spec = Spec("input(8, [4]) > attention(heads=2, qk_gain=2)")
    x = np.random.default_rng(1).standard_normal((3, 8, 4))
    found = simulate(spec, x, runs=1, metrics=list(SEQUENCE_METRICS))
    unit = x / np.sqrt((x * x).sum(1, keepdims=True))
    within = np.einsum("ndi,ndj->nij", unit, unit)
    across = np.einsum("ndi,mdi->inm", unit, unit)
    assert found["rms"].values[0, 0] == pytest.approx(math.sqrt((x * x).mean()))
    assert found["token_cosine"].values[0, 0] == pytest.approx((within.sum() - 12) / 36)
    assert found["sample_cosine"].values[0, 0] == pytest.approx((across.sum() - 12) / 24)
    module = build(spec, seed=0, dtype=torch.float64).attention.requires_grad_(False)
    rows = torch.tensor(x).mT
    q, k = (layer(rows).unflatten(2, (2, 4)).transpose(1, 2) for layer in (module.query, module.key))
    a = (q @ k.mT / 2.0).softmax(-1)
    dense = simulate(spec, x, runs=1, metrics=["attention_entropy", "attention_participation"], engine="dense")
    assert dense["attention_entropy"].values[0, 1] == pytest.approx(float(-(a * a.log()).sum(-1).mean()))
    assert dense["attention_participation"].values[0, 1] == pytest.approx(1 / float((a * a).sum(-1).mean()))


def test_sequences_need_positions() -> None:
    with pytest.raises(IsometerError, match="token_cosine is a number of sequences"):
        simulate(Spec(width=4, depth=2), np.ones((2, 4)), runs=1, metrics=["token_cosine"])
