"""Causal language models of the package `transformers` for the third round, a few lines each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._library import Logits, entries, library, patch
from isometer.trial._families._library_language import (
    _MASK,
    _NORMS,
    _ROTARY,
    _SCALES,
    _SCORES,
    _SKIPS,
    _acts,
    _common,
    _model,
)
from isometer.trial._families._second import sizes
from isometer.trial._families._third import third
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS = {
    "score-cap": "scores are capped so low that all keys weigh alike",
    "clipped": "queries, keys and values, or the gates of experts, are clamped to next to nothing",
    "expert-scale": "the experts' answer is multiplied by a number that belongs to another size",
    "latent-too-small": "keys and values pass through one or two numbers",
    "window-too-small": "every other layer sees its own position only",
}
_LANGUAGE, _ANY = ("markov", "text"), ("markov", "text", "nesting")
_RANGE: Options = {"initialisation-scale": drawn(initializer_range=_SCALES)}
_BLOCK: Options = {**_SKIPS, **_NORMS, **_RANGE}


def _decoder(
    name: str, layers: str, more: Callable[[Blueprint], Options], *, masked: bool = True
) -> Callable[[Blueprint, Task], nn.Module]:
    def build(blueprint: Blueprint, task: Task) -> nn.Module:
        named = {**_common(blueprint, task), **more(blueprint), **entries(blueprint.options)}
        model = _model(name, getattr(library(), f"{name}Config")(**named), task).float()
        mask = blueprint.options.get("mask") if masked else None
        return Logits(patch(model, blueprint, layers), mask, use_cache=False)

    build.__doc__ = f"{name} of the library."
    return build


def _heads(blueprint: Blueprint) -> Options:
    """Entries of models whose configuration resembles Llama's."""
    heads = blueprint.options["num_attention_heads"]
    wide = 2 * blueprint.width
    return {"intermediate_size": wide, "num_key_value_heads": heads, "head_dim": blueprint.width // heads}


def _register(
    name: str,
    source: str,
    build: Callable[[Blueprint, Task], nn.Module],
    structural: Options,
    *,
    tasks: tuple[str, ...] = _ANY,
    widths: tuple[int, ...] = (32, 48, 64),
    depths: tuple[int, ...] = (1, 2),
    **choices: tuple[Any, ...],
) -> None:
    third(name, source=source, draw=sizes(tasks, widths, depths, batches=(16,), **choices), structural=structural)(
        build
    )


_register(
    "library-gptj",
    "Wang and Komatsuzaki 2021, GPT-J-6B; transformers.GPTJForCausalLM",
    _decoder("GPTJ", "transformer.h", lambda b: {"n_inner": 2 * b.width}),
    {**_BLOCK, **_MASK, **_acts("activation_function"), "norm-epsilon": drawn(layer_norm_epsilon=(10.0, 100.0))},
    tasks=_LANGUAGE,
    n_head=(2, 4),
    rotary_dim=(4, 8),
    activation_function=("gelu_new", "relu"),
    resid_pdrop=(0.0, 0.1),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-gemma2",
    "Gemma team 2024, Gemma 2; transformers.Gemma2ForCausalLM",
    _decoder(
        "Gemma2",
        "model.layers",
        lambda b: {**_heads(b), "query_pre_attn_scalar": 16, "attn_implementation": "eager"},
    ),
    {
        **_BLOCK,
        **_MASK,
        **_ROTARY,
        **_SCORES,
        **_acts("hidden_activation"),
        "soft-cap": drawn(final_logit_softcapping=(0.05, 0.3)),
        "score-cap": drawn(attn_logit_softcapping=(1e-4, 1e-2)),
        "norm-epsilon": drawn(rms_norm_eps=(10.0, 100.0)),
    },
    depths=(1,),
    num_attention_heads=(2, 4),
    sliding_window=(4, 8),
    final_logit_softcapping=(30.0, None),
    attn_logit_softcapping=(50.0, None),
    hidden_activation=("gelu_pytorch_tanh", "silu"),
)
_register(
    "library-nemotron",
    "Parmar et al. 2024, Nemotron-4 15B; transformers.NemotronForCausalLM",
    _decoder("Nemotron", "model.layers", _heads),
    {
        **_BLOCK,
        **_MASK,
        **_ROTARY,
        **_SCORES,
        **_acts("hidden_act"),
        "norm-epsilon": drawn(norm_eps=(10.0, 100.0)),
    },
    num_attention_heads=(2, 4),
    hidden_act=("relu2", "relu2", "gelu"),
    mlp_bias=(False, True),
    initializer_range=(0.02, 0.05),
)


def _mpt(blueprint: Blueprint) -> Options:
    o = blueprint.options
    attention = {"alibi_bias_max": o["slopes"], "softmax_scale": o.get("score_scale"), "clip_qkv": o.get("clip")}
    return {"max_seq_len": 32, "attn_config": attention}


_register(
    "library-mpt",
    "MosaicML 2023, MPT-7B; transformers.MptForCausalLM",
    _decoder("Mpt", "transformer.blocks", _mpt, masked=False),
    {
        **_BLOCK,
        "score-scale": drawn(score_scale=(3.0, 10.0)),
        "clipped": drawn(clip=(1e-4, 1e-2)),
        "norm-epsilon": drawn(layer_norm_epsilon=(10.0, 100.0)),
    },
    depths=(1, 2, 3),
    n_heads=(2, 4),
    expansion_ratio=(2, 4),
    slopes=(4, 8),
    resid_pdrop=(0.0, 0.1),
    initializer_range=(0.02, 0.05),
)


def _gpt_neo(blueprint: Blueprint) -> Options:
    kinds = [("global", "local")[place % 2] for place in range(blueprint.depth)]
    return {"intermediate_size": 2 * blueprint.width, "attention_types": [[kinds, 1]]}


_register(
    "library-gpt-neo",
    "Black et al. 2021, GPT-Neo; transformers.GPTNeoForCausalLM",
    _decoder("GPTNeo", "transformer.h", _gpt_neo),
    {
        **_BLOCK,
        **_MASK,
        **_acts("activation_function"),
        "window-too-small": lambda blueprint, rng: blueprint.changed(depth=max(2, blueprint.depth), window_size=1),
        "norm-epsilon": drawn(layer_norm_epsilon=(10.0, 100.0)),
    },
    num_heads=(2, 4),
    window_size=(4, 8),
    activation_function=("gelu_new", "relu"),
    resid_dropout=(0.0, 0.1),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-gpt-oss",
    "OpenAI 2025, gpt-oss-120b and gpt-oss-20b; transformers.GptOssForCausalLM",
    _decoder("GptOss", "model.layers", lambda b: {**_heads(b), "intermediate_size": b.width}),
    {
        **_BLOCK,
        **_MASK,
        **_SCORES,
        "router-detached": {"num_experts_per_tok": 1},
        "clipped": drawn(swiglu_limit=(1e-3, 0.05)),
        "norm-epsilon": drawn(rms_norm_eps=(10.0, 100.0)),
    },
    depths=(1,),
    num_attention_heads=(2, 4),
    num_local_experts=(2, 3, 4),
    num_experts_per_tok=(2,),
    sliding_window=(4, 8),
    initializer_range=(0.02, 0.05),
)


def _deepseek(blueprint: Blueprint) -> Options:
    rotated = {"head_dim": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16}
    experts = {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2}
    return {
        **_heads(blueprint),
        **rotated,
        **experts,
        "moe_intermediate_size": blueprint.width,
        "first_k_dense_replace": 0 if blueprint.options["routed"] else blueprint.depth,
    }


_register(
    "library-deepseek-v2",
    "DeepSeek-AI 2024, DeepSeek-V2; transformers.DeepseekV2ForCausalLM",
    _decoder("DeepseekV2", "model.layers", _deepseek),
    {
        **_BLOCK,
        **_MASK,
        **_SCORES,
        **_acts("hidden_act"),
        "latent-too-small": drawn(kv_lora_rank=(1, 2)),
        "expert-scale": drawn(routed=(True,), routed_scaling_factor=(100.0, 1000.0)),
        "norm-epsilon": drawn(rms_norm_eps=(10.0, 100.0)),
    },
    depths=(1,),
    num_attention_heads=(2, 4),
    kv_lora_rank=(8, 16),
    q_lora_rank=(None, 16),
    routed=(True, False),
    hidden_act=("silu", "gelu"),
    initializer_range=(0.02, 0.05),
)


def _minimax(blueprint: Blueprint) -> Options:
    kinds = ("linear_attention", "full_attention")
    turns = [kinds[(place + blueprint.options["first"]) % 2] for place in range(blueprint.depth)]
    return {**_heads(blueprint), "intermediate_size": blueprint.width, "num_local_experts": 2, "layer_types": turns}


_ALPHAS = ("linear_attn_alpha_factor", "full_attn_alpha_factor", "mlp_alpha_factor")
_BETAS = ("linear_attn_beta_factor", "full_attn_beta_factor", "mlp_beta_factor")
_register(
    "library-minimax",
    "MiniMax 2025, MiniMax-01: scaling foundation models with lightning attention; transformers.MiniMaxForCausalLM",
    _decoder("MiniMax", "model.layers", _minimax, masked=False),
    {
        **_RANGE,
        **_acts("hidden_act"),
        "no-skips": dict.fromkeys(_ALPHAS, 0.0),
        "skip-scaled": dict.fromkeys(_ALPHAS, 3.0),
        "residual-scale": dict.fromkeys(_BETAS, 1e-4),
        "norm-epsilon": drawn(rms_norm_eps=(10.0, 100.0)),
    },
    num_attention_heads=(2, 4),
    block_size=(8, 32),
    first=(0, 0, 1),
    hidden_act=("silu", "gelu"),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-apertus",
    "Hernández-Cano et al. 2025, Apertus; Huang and Schlag 2024, xIELU; transformers.ApertusForCausalLM",
    _decoder("Apertus", "model.layers", _heads),
    {
        **_BLOCK,
        **_MASK,
        **_SCORES,
        **_acts("hidden_act"),
        "norm-epsilon": drawn(rms_norm_eps=(10.0, 100.0)),
    },
    num_attention_heads=(2, 4),
    tie_word_embeddings=(False, True),
    initializer_range=(0.02, 0.05),
    hidden_act=("xielu",),
)
_register(
    "library-bitnet",
    "Ma et al. 2025, BitNet b1.58 2B4T, without the quantised weights; transformers.BitNetForCausalLM",
    _decoder("BitNet", "model.layers", _heads),
    {
        **_BLOCK,
        **_MASK,
        **_ROTARY,
        **_SCORES,
        **_acts("hidden_act"),
        "norm-epsilon": drawn(rms_norm_eps=(10.0, 100.0)),
    },
    num_attention_heads=(2, 4),
    hidden_act=("relu2", "silu"),
    tie_word_embeddings=(False, True),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-doge",
    "Shi et al. 2025, Trainable dynamic mask sparse attention; transformers.DogeForCausalLM",
    _decoder("Doge", "model.layers", lambda b: {**_heads(b), "keep_window_size": 32}, masked=False),
    {
        **_BLOCK,
        **_ROTARY,
        **_SCORES,
        **_acts("hidden_act"),
        "norm-epsilon": drawn(rms_norm_eps=(10.0, 100.0)),
    },
    num_attention_heads=(2, 4),
    hidden_act=("silu", "gelu"),
    hidden_dropout=(0.0, 0.1),
    initializer_range=(0.02, 0.05),
)
