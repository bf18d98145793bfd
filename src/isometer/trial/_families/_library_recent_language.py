"""Further language models and encoders of the package `transformers`, a few lines each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from isometer.trial._families._second import second, sizes
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS = {
    "difference-scale": "the weight of the second attention varies by far too much",
    "soft-cap": "logits are capped far below what the task needs",
    "groups-wrong": "features are mapped within groups of one or two",
}
_LANGUAGE, _ANY, _TAGS = ("markov", "text"), ("markov", "text", "nesting"), ("tags", "majority", "nesting")
_BLOCK: Options = {**_SKIPS, **_NORMS, "initialisation-scale": drawn(initializer_range=_SCALES)}


def _causal(
    name: str, layers: str, more: Callable[[Blueprint], Options], *, masked: bool = True
) -> Callable[[Blueprint, Task], nn.Module]:
    def build(blueprint: Blueprint, task: Task) -> nn.Module:
        named = {**_common(blueprint, task), **more(blueprint), **entries(blueprint.options)}
        model = _model(name, getattr(library(), f"{name}Config")(**named), task)
        mask = blueprint.options.get("mask") if masked else None
        return Logits(patch(model, blueprint, layers), mask, use_cache=False)

    build.__doc__ = f"{name} of the library."
    return build


def _encoder(name: str, layers: str, more: Callable[[Blueprint], Options]) -> Callable[[Blueprint, Task], nn.Module]:
    def build(blueprint: Blueprint, task: Task) -> nn.Module:
        named = {**_common(blueprint, task), "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        named.pop("use_cache")
        named |= {"intermediate_size": 2 * blueprint.width, "pad_token_id": 0, **more(blueprint)}
        kind = "ForTokenClassification" if task.per_position else "ForSequenceClassification"
        config = getattr(library(), f"{name}Config")(**named, **entries(blueprint.options))
        return Logits(patch(getattr(library(), name + kind)(config), blueprint, layers))

    build.__doc__ = f"{name} of the library with its own head."
    return build


def _wide(blueprint: Blueprint) -> Options:
    return {"intermediate_size": 2 * blueprint.width, "num_key_value_heads": blueprint.options["num_attention_heads"]}


def _register(
    name: str,
    source: str,
    build: Callable[[Blueprint, Task], nn.Module],
    tasks: tuple[str, ...],
    choices: Mapping[str, tuple[Any, ...]],
    structural: Options,
    depths: tuple[int, ...] = (1, 2, 3),
) -> None:
    draw = sizes(tasks, (32, 48, 64), depths, batches=(16,), **choices)
    second(name, source=source, draw=draw, structural=structural)(build)


_register(
    "library-phi",
    "Li et al. 2023, Textbooks are all you need II; transformers.PhiForCausalLM",
    _causal("Phi", "model.layers", _wide),
    _ANY,
    {"num_attention_heads": (2, 4), "hidden_act": ("gelu_new", "relu"), "qk_layernorm": (False, True)},
    {
        **_BLOCK,
        **_MASK,
        **_ROTARY,
        **_SCORES,
        **_acts("hidden_act"),
        "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0)),
    },
)
_register(
    "library-falcon",
    "Almazrouei et al. 2023, The Falcon series of open language models; transformers.FalconForCausalLM",
    _causal("Falcon", "transformer.h", lambda b: {"ffn_hidden_size": 2 * b.width}, masked=False),
    _ANY,
    {
        "num_attention_heads": (2, 4),
        "alibi": (True, False),
        "parallel_attn": (True, False),
        "multi_query": (True, False),
        "activation": ("gelu", "relu"),
    },
    {**_BLOCK, **_acts("activation"), "norm-epsilon": drawn(layer_norm_epsilon=(10.0, 100.0))},
)
_register(
    "library-cohere",
    "Cohere 2024, Command R; transformers.CohereForCausalLM",
    _causal("Cohere", "model.layers", _wide),
    _LANGUAGE,
    {
        "num_attention_heads": (2, 4),
        "use_qk_norm": (False, True),
        "logit_scale": (0.5, 1.0),
        "initializer_range": (0.05, 0.1),
    },
    {**_BLOCK, **_MASK, **_SCORES, **_acts("hidden_act"), "logit-scale": drawn(logit_scale=(1e-3, 100.0))},
)
_register(
    "library-diffllama",
    "Ye et al. 2025, Differential transformer; transformers.DiffLlamaForCausalLM",
    _causal("DiffLlama", "model.layers", lambda b: {**_wide(b), "attn_implementation": "eager"}),
    _ANY,
    {"num_attention_heads": (2, 4), "lambda_std_dev": (0.05, 0.1), "hidden_act": ("silu", "gelu")},
    {**_BLOCK, **_MASK, **_ROTARY, **_acts("hidden_act"), "difference-scale": drawn(lambda_std_dev=(2.0, 5.0))},
    (1, 2),
)
_register(
    "library-recurrent-gemma",
    "De et al. 2024, Griffin; Botev et al. 2024, RecurrentGemma; transformers.RecurrentGemmaForCausalLM",
    _causal(
        "RecurrentGemma",
        "model.layers",
        lambda b: {**_wide(b), "lru_width": b.width, "attention_window_size": 16, "w_init_variance_scale": 0.3},
        masked=False,
    ),
    _LANGUAGE,
    {
        "num_attention_heads": (2, 4),
        "block_types": (["recurrent", "attention"], ["recurrent"], ["recurrent", "recurrent", "attention"]),
        "conv1d_width": (2, 4),
        "hidden_activation": ("gelu_pytorch_tanh", "silu"),
    },
    {
        **_SKIPS,
        **_NORMS,
        **_acts("hidden_activation"),
        "soft-cap": drawn(logits_soft_cap=(0.05, 0.3)),
        "initialisation-scale": drawn(w_init_variance_scale=(1e-6, 30.0)),
    },
    (1, 2),
)
_register(
    "library-lfm2",
    "Liquid AI 2025, LFM2; transformers.Lfm2ForCausalLM",
    _causal(
        "Lfm2",
        "model.layers",
        lambda b: {
            **_wide(b),
            "layer_types": [("conv", "full_attention")[(i + b.options["first"]) % 2] for i in range(b.depth)],
            "block_auto_adjust_ff_dim": False,
        },
    ),
    _LANGUAGE,
    {"num_attention_heads": (2, 4), "conv_L_cache": (2, 3, 4), "first": (0, 1), "initializer_range": (0.02, 0.05)},
    {**_BLOCK, **_ROTARY, **_SCORES, "norm-epsilon": drawn(norm_eps=(10.0, 100.0))},
)
_register(
    "library-nystromformer",
    "Xiong et al. 2021, Nyströmformer; transformers.NystromformerForTokenClassification",
    _encoder("Nystromformer", "nystromformer.encoder.layer", lambda b: {"segment_means_seq_len": 24}),
    _TAGS,
    {
        "num_attention_heads": (2, 4),
        "num_landmarks": (4, 6, 12),
        "conv_kernel_size": (3, 5),
        "hidden_act": ("gelu_new", "relu"),
        "initializer_range": (0.02, 0.05),
    },
    {
        **_BLOCK,
        **_acts("hidden_act"),
        "bottleneck": {"num_landmarks": 1},
        "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0)),
    },
    (1,),
)
_register(
    "library-convbert",
    "Jiang et al. 2020, ConvBERT; transformers.ConvBertForTokenClassification",
    _encoder("ConvBert", "convbert.encoder.layer", lambda b: {"embedding_size": b.width}),
    _TAGS,
    {
        "num_attention_heads": (2, 4),
        "conv_kernel_size": (3, 5, 9),
        "num_groups": (1, 2),
        "hidden_act": ("gelu", "relu"),
        "initializer_range": (0.02, 0.05),
    },
    {
        **_BLOCK,
        **_acts("hidden_act"),
        "groups-wrong": {"num_groups": 16},
        "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0)),
    },
    (1, 2),
)
