"""Blocks of models as specs of the language of networks: what is read, what is refused and why."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from isometer import Spec
from isometer.doctor import ExtractedNetwork, extract_network, probe, why_no_network
from isometer.spec import Attention, Convolution, Dense, Join, Residual
from isometer.spec._steps import Step, walk
from support.overlay_models import BLOCKS, INNER, OUTSIDE, WIDTH, OwnBlock, build, resnet, vgg


def extracted(model: nn.Module, batch: torch.Tensor) -> ExtractedNetwork:
    found = extract_network(model, probe(model, batch))
    assert found is not None
    return found


def steps(found: ExtractedNetwork, kind: type[Step]) -> Iterator[Step]:
    return (step for step in walk(found.spec.steps) if isinstance(step, kind))


@pytest.mark.parametrize(
    "name", ["gpt2", "llama", "bert", "vit", "softmax written out", "nn.TransformerEncoder", "ResNet", "VGG"]
)
def test_the_text_reads_back_as_the_same_network(name: str) -> None:
    found = extracted(*build(name, 0))
    assert Spec(found.text) == found.spec
    assert len(found.layers) == found.spec.depth + 1


def test_blocks_of_gpt2_are_one_repeat_that_ends_before_the_tied_readout() -> None:
    import transformers

    config = transformers.GPT2Config(
        n_embd=64, n_head=4, n_layer=3, vocab_size=101, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    torch.manual_seed(0)
    found = extracted(transformers.GPT2LMHeadModel(config).eval(), torch.randint(0, 101, (4, 12)))
    assert found.text.startswith("input(64, [12]) > repeat(residual(norm('layer', eps=1e-05) > attention(4, ")
    assert found.text.endswith("), 3) > norm('layer', eps=1e-05)")
    # 0.02 / √(2 · 3 blocks) · √256, the smaller weights that GPT-2 puts before a sum
    assert [one.gain for one in steps(found, Dense) if isinstance(one, Dense)][1] == pytest.approx(0.1306, rel=0.01)
    assert any(line.startswith("It ends before lm_head: it has the weights of transformer.wte;") for line in found.rest)


def test_rotary_grouped_and_gated_parts_of_llama() -> None:
    found = extracted(*build("llama", 0))
    attention = next(steps(found, Attention))
    assert isinstance(attention, Attention)
    assert (attention.rotary, attention.causal, attention.key_heads, attention.rotary_base) == (True, True, 2, 10_000.0)
    assert [step.by for step in steps(found, Join) if isinstance(step, Join)] == ["product"] * BLOCKS


def test_qwen3_normalises_queries_and_keys() -> None:
    attention = next(steps(extracted(*build("qwen3", 0)), Attention))
    assert isinstance(attention, Attention)
    assert attention.qk_norm
    assert attention.qk_gain == 1.0


def _drawn(weight: torch.Tensor, gain: float) -> None:
    with torch.no_grad():
        weight.normal_(0.0, gain / math.sqrt(weight.shape[1]), generator=torch.Generator().manual_seed(3))


def test_gains_are_those_that_were_drawn() -> None:
    """N entries have a root mean square that is off by 1/√(2N): 0.011 for 64 × 64; four of them are allowed."""
    block = OwnBlock(fused=True, post=False)
    for name, gain in (("query", 1.7), ("key", 0.9), ("value", 0.6), ("out", 1.3), ("up", 0.4), ("down", 2.1)):
        _drawn(block.get_submodule(name).weight, gain)
    found = extracted(nn.Sequential(block), torch.randn(4, 12, WIDTH))
    attention, dense = next(steps(found, Attention)), [s for s in steps(found, Dense) if isinstance(s, Dense)]
    assert isinstance(attention, Attention)
    assert attention.qk_gain == pytest.approx(math.sqrt(1.7 * 0.9), rel=0.045)
    assert (attention.value_gain, attention.output_gain) == pytest.approx((0.6, 1.3), rel=0.045)
    assert [(one.width, one.gain) for one in dense] == [
        (INNER, pytest.approx(0.4, rel=0.045)),
        (WIDTH, pytest.approx(2.1, rel=0.045)),
    ]


def test_branches_have_their_factor() -> None:
    found = extracted(nn.Sequential(OwnBlock(fused=True, post=True)), torch.randn(4, 12, WIDTH))
    assert [step.scale for step in steps(found, Residual) if isinstance(step, Residual)] == [0.5, 0.5]


def test_convolutions_of_a_resnet_and_of_a_vgg() -> None:
    found = extracted(resnet(pre=False).train(), torch.randn(4, 3, 16, 16))
    convolutions = [step for step in steps(found, Convolution) if isinstance(step, Convolution)]
    # a 3 × 3 at the start, two in each of four blocks, and the 1 × 1 of the shortcut beside a stride of 2
    assert sorted((one.kernel, one.stride) for one in convolutions) == [((1,), (2,)), *[((3,), (1,))] * 8, ((3,), (2,))]
    assert found.text.endswith("> pool > dense(10, gain=" + found.text.rsplit("dense(10, gain=", 1)[1])
    assert "flatten > dense(64" in extracted(vgg(norm=False).train(), torch.randn(4, 3, 8, 8)).text


def test_a_stem_that_pools_with_padding_is_where_the_network_begins() -> None:
    found = extracted(*build("ResNet, stem of large images", 0))
    assert found.text.startswith("input(16, [8, 8]) > ")
    assert any("max_pool2d has padding" in line for line in found.rest)


def test_copies_are_named() -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
    found = extracted(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(3, 5, 32))
    assert "layers.0.self_attn and layers.1.self_attn hold the same weights" in found.note


def test_weights_that_are_used_twice_end_the_network() -> None:
    block = OwnBlock(fused=True, post=False)
    found = extracted(nn.Sequential(block, block), torch.randn(4, 12, WIDTH))
    assert found.spec.depth == 2  # attention and MLP, once
    assert any("it has the weights of" in line for line in found.rest)


def test_running_statistics_are_refused_by_name() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Unflatten(1, (2, 4)), nn.BatchNorm1d(2), nn.ReLU(), nn.Conv1d(2, 2, 1))
    reason = why_no_network(model.eval(), probe(model.eval(), torch.randn(4, 8)))
    assert reason.endswith(
        "2: batch norm uses running statistics; theory uses those of the batch — probe in train mode"
    )


@pytest.mark.parametrize("name", ["t5", *(pytest.param(n, marks=pytest.mark.slow) for n in OUTSIDE if n != "t5")])
def test_what_the_language_does_not_have_is_said_in_one_line(name: str) -> None:
    model, batch = build(name, 0)
    reason = why_no_network(model, probe(model, batch))
    assert OUTSIDE[name][2] in reason
    assert "\n" not in reason


def test_batch_norm_over_sequences_needs_all_samples() -> None:
    model = nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 8, 3, padding=1))
    assert extracted(model, torch.randn(4, 3, 10)).text.startswith("input(3, [10]) > conv(3, 8, padding='zeros'")
    assert "batch norm couples all 6 samples" in why_no_network(model, probe(model, torch.randn(6, 3, 10)))
