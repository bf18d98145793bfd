"""Causal language models of the package `transformers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import nn

from isometer.trial._families._draws import drawn, size
from isometer.trial._families._library import Logits, entries, library, patch
from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

FAULTS = {
    "initialisation-scale": "the configuration's range of the initial weights is far too small or far too large",
    "frequency-scale": "rotary angles turn far too fast",
    "norm-epsilon": "the epsilon of the norm is larger than what it normalises",
    "logit-scale": "the logits are divided by a number that belongs to another size",
    "embedding-scale": "the embedding is multiplied by a number that belongs to another size",
    "time-constant": "states decay within a fraction of a step, or hardly move within the sequence",
    "residual-scale": "the multiplier of the branches belongs to another depth",
    "router-detached": "one expert per token, with a weight divided by itself, so that the router has no gradient",
}
_SCALES = (1e-4, 0.5, 1.0)
_SKIPS: dict[str, Any] = {"no-skips": {"skip": 0.0}, "skip-scaled": drawn(skip=(2.0, 3.0))}
_MASK: dict[str, Any] = {"mask-wrong": drawn(mask=("reversed", "itself", "first"))}
_ROTARY: dict[str, Any] = {"no-positions": {"turn": 0.0}, "frequency-scale": drawn(turn=(30.0, 100.0))}
_NORMS: dict[str, Any] = {"no-norm": {"norms": "none"}}
_SCORES: dict[str, Any] = {"score-scale": drawn(scores=(8.0, 15.0, 30.0))}


def _acts(name: str, wrong: tuple[str, ...] = ("sigmoid", "tanh")) -> dict[str, Any]:
    return {"no-activation": {name: "linear"}, "wrong-activation": drawn(**{name: wrong})}


def _drawing(
    options: Callable[[np.random.Generator], Options],
    *,
    tasks: tuple[str, ...] = ("markov", "text"),
    widths: tuple[int, ...] = (32, 48, 64),
    depths: tuple[int, ...] = (1, 2, 3, 4),
    largest: tuple[int, int] = (128, 8),
) -> Callable[[np.random.Generator, bool], Blueprint]:
    def draw(rng: np.random.Generator, large: bool) -> Blueprint:
        width, depth = size(rng, large, widths=widths, depths=depths, largest=largest)
        return Blueprint(str(pick(rng, *tasks)), width, depth, batch=16, options=options(rng))

    return draw


def _model(name: str, config: Any, task: Task) -> nn.Module:
    """The language model, or the tagger where tags are not tokens."""
    purpose = "ForCausalLM" if task.outputs == task.vocabulary else "ForTokenClassification"
    model: nn.Module = getattr(library(), name + purpose)(config)
    return model


def _common(blueprint: Blueprint, task: Task) -> Options:
    """Entries that most configurations share."""
    return {
        "vocab_size": task.vocabulary,
        "num_labels": task.outputs,
        "hidden_size": blueprint.width,
        "num_hidden_layers": blueprint.depth,
        "max_position_embeddings": 32,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
        "use_cache": False,
    }


def _gpt2_options(rng: np.random.Generator) -> Options:
    drop = pick(rng, 0.0, 0.1)
    return {
        "n_head": pick(rng, 2, 4),
        "activation_function": pick(rng, "gelu_new", "relu"),
        "resid_pdrop": drop,
        "embd_pdrop": drop,
        "attn_pdrop": 0.0,
        "initializer_range": pick(rng, 0.02, 0.05),
        "attn_implementation": pick(rng, "eager", "sdpa"),
    }


@family(
    "library-gpt2",
    source="Radford et al. 2019; transformers.GPT2LMHeadModel",
    draw=_drawing(_gpt2_options, tasks=("markov", "text", "tags"), depths=(1, 2, 3, 4, 6)),
    structural={
        **_SKIPS,
        **_NORMS,
        **_MASK,
        **_SCORES,
        **_acts("activation_function"),
        "no-positions": {"places": "none"},
        "initialisation-scale": drawn(initializer_range=_SCALES),
        "norm-epsilon": drawn(layer_norm_epsilon=(10.0, 100.0)),
    },
)
def library_gpt2(blueprint: Blueprint, task: Task) -> nn.Module:
    """GPT-2."""
    package = library()
    config = package.GPT2Config(
        vocab_size=task.vocabulary,
        num_labels=task.outputs,
        n_positions=32,
        n_embd=blueprint.width,
        n_layer=blueprint.depth,
        bos_token_id=None,
        eos_token_id=None,
        use_cache=False,
        **entries(blueprint.options),
    )
    tagger = task.outputs != task.vocabulary
    model = (package.GPT2ForTokenClassification if tagger else package.GPT2LMHeadModel)(config)
    return Logits(
        patch(model, blueprint, "transformer.h", "transformer.wpe"), blueprint.options.get("mask"), use_cache=False
    )


def _rotary_options(activation: tuple[str, ...], **fixed: Any) -> Callable[[np.random.Generator], Options]:
    def options(rng: np.random.Generator) -> Options:
        heads = pick(rng, 2, 4)
        return {
            "num_attention_heads": heads,
            "num_key_value_heads": pick(rng, heads, heads // 2),
            "hidden_act": pick(rng, *activation),
            "tie_word_embeddings": pick(rng, True, False),
            "initializer_range": pick(rng, 0.02, 0.05),
            **fixed,
        }

    return options


def _rotary(name: str, **fixed: Any) -> Callable[[Blueprint, Task], nn.Module]:
    """A builder of a model whose configuration resembles Llama's."""

    def build(blueprint: Blueprint, task: Task) -> nn.Module:
        heads = blueprint.options["num_attention_heads"]
        named = {"intermediate_size": 2 * blueprint.width, "head_dim": blueprint.width // heads, **fixed}
        named = {**_common(blueprint, task), **named, **entries(blueprint.options)}
        model = _model(name, getattr(library(), f"{name}Config")(**named), task)
        return Logits(patch(model, blueprint, "model.layers"), blueprint.options.get("mask"), use_cache=False)

    build.__doc__ = f"{name} of the library."
    return build


_LLAMA: Mapping[str, Any] = {
    **_SKIPS,
    **_NORMS,
    **_MASK,
    **_ROTARY,
    **_SCORES,
    **_acts("hidden_act"),
    "initialisation-scale": drawn(initializer_range=_SCALES),
    "norm-epsilon": drawn(rms_norm_eps=(10.0, 100.0)),
}

library_llama = family(
    "library-llama",
    source="Touvron et al. 2023; transformers.LlamaForCausalLM",
    draw=_drawing(_rotary_options(("silu", "gelu")), tasks=("markov", "text", "tags")),
    structural=_LLAMA,
)(_rotary("Llama"))

library_qwen3 = family(
    "library-qwen3",
    source="Yang et al. 2025, Qwen3; transformers.Qwen3ForCausalLM",
    draw=_drawing(_rotary_options(("silu",)), tasks=("markov", "text", "tags"), largest=(128, 7)),
    structural=_LLAMA,
)(_rotary("Qwen3"))

library_gemma = family(
    "library-gemma",
    source="Gemma team 2024; transformers.GemmaForCausalLM",
    draw=_drawing(_rotary_options(("gelu_pytorch_tanh",), tie_word_embeddings=True), tasks=("markov", "text", "tags")),
    structural=_LLAMA,
)(_rotary("Gemma"))

library_olmo2 = family(
    "library-olmo2",
    source="OLMo team 2024, 2 OLMo 2 furious; transformers.Olmo2ForCausalLM",
    draw=_drawing(_rotary_options(("silu",), tie_word_embeddings=False), largest=(128, 7)),
    structural=_LLAMA,
)(_rotary("Olmo2"))

library_granite = family(
    "library-granite",
    source="Granite team 2024; transformers.GraniteForCausalLM",
    draw=_drawing(
        _rotary_options(
            ("silu", "gelu"),
            residual_multiplier=0.5,
            attention_multiplier=0.2,
            embedding_multiplier=12.0,
            logits_scaling=1.0,
        )
    ),
    structural={
        **_LLAMA,
        "score-scale": drawn(attention_multiplier=(3.0, 10.0)),
        "residual-scale": drawn(residual_multiplier=(10.0, 30.0, 1e-4)),
        "embedding-scale": drawn(embedding_multiplier=(0.01, 1000.0)),
        "logit-scale": drawn(logits_scaling=(1e-3, 100.0)),
    },
)(_rotary("Granite"))

library_mixtral = family(
    "library-mixtral",
    source="Jiang et al. 2024, Mixtral of experts; transformers.MixtralForCausalLM",
    draw=_drawing(
        _rotary_options(("silu",), num_local_experts=4, num_experts_per_tok=2),
        tasks=("markov", "text", "tags"),
        depths=(1, 2),
        largest=(128, 5),
    ),
    structural={**_LLAMA, "router-detached": {"num_experts_per_tok": 1}},
)(_rotary("Mixtral"))


def _neox_options(rng: np.random.Generator) -> Options:
    return {
        "num_attention_heads": pick(rng, 2, 4),
        "hidden_act": pick(rng, "gelu", "relu"),
        "use_parallel_residual": pick(rng, True, False),
        "hidden_dropout": pick(rng, 0.0, 0.1),
    }


@family(
    "library-gpt-neox",
    source="Black et al. 2022, GPT-NeoX-20B; transformers.GPTNeoXForCausalLM",
    draw=_drawing(_neox_options, tasks=("markov", "text", "tags"), depths=(1, 2, 3, 4, 6), largest=(128, 9)),
    structural={
        **_SKIPS,
        **_NORMS,
        **_MASK,
        **_ROTARY,
        **_SCORES,
        **_acts("hidden_act"),
        "initialisation-scale": drawn(initializer_range=_SCALES),
        "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0)),
    },
)
def library_gpt_neox(blueprint: Blueprint, task: Task) -> nn.Module:
    """GPT-NeoX: branches side by side, a quarter of the features rotated."""
    named = {**_common(blueprint, task), "intermediate_size": 4 * blueprint.width, **entries(blueprint.options)}
    config = library().GPTNeoXConfig(classifier_dropout=0.0, **named)
    model = _model("GPTNeoX", config, task)
    return Logits(patch(model, blueprint, "gpt_neox.layers"), blueprint.options.get("mask"), use_cache=False)


def _opt_options(rng: np.random.Generator) -> Options:
    return {
        "num_attention_heads": pick(rng, 2, 4),
        "activation_function": pick(rng, "relu", "gelu"),
        "dropout": pick(rng, 0.0, 0.1),
        "enable_bias": pick(rng, True, False),
        "do_layer_norm_before": True,
    }


@family(
    "library-opt",
    source="Zhang et al. 2022, OPT: open pre-trained transformer language models; transformers.OPTForCausalLM",
    draw=_drawing(_opt_options, depths=(1, 2, 3, 4, 6), largest=(128, 9)),
    structural={
        **_SKIPS,
        **_NORMS,
        **_SCORES,
        **_acts("activation_function"),
        "norm-misplaced": {"do_layer_norm_before": False},
        "initialisation-scale": drawn(init_std=_SCALES),
        "no-positions": {"places": "none"},
        "bottleneck": drawn(word_embed_proj_dim=(1, 2)),
    },
)
def library_opt(blueprint: Blueprint, task: Task) -> nn.Module:
    """OPT, with its learned positions."""
    width = blueprint.width
    named = {**_common(blueprint, task), "ffn_dim": 4 * width, "word_embed_proj_dim": width}
    config = library().OPTConfig(**{**named, **entries(blueprint.options)})
    model = library().OPTForCausalLM(config)
    return Logits(
        patch(model, blueprint, "model.decoder.layers", "model.decoder.embed_positions"),
        blueprint.options.get("mask"),
        use_cache=False,
    )


def _bloom_options(rng: np.random.Generator) -> Options:
    return {
        "n_head": pick(rng, 2, 4),
        "hidden_dropout": pick(rng, 0.0, 0.1),
        "initializer_range": pick(rng, 0.02, 0.05),
        "apply_residual_connection_post_layernorm": False,
    }


@family(
    "library-bloom",
    source="BigScience 2022, BLOOM; transformers.BloomForCausalLM",
    draw=_drawing(_bloom_options, tasks=("markov", "text", "tags"), depths=(1, 2, 3), largest=(112, 6)),
    structural={
        **_SKIPS,
        **_NORMS,
        **_SCORES,
        "norm-misplaced": {"apply_residual_connection_post_layernorm": True},
        "initialisation-scale": drawn(initializer_range=_SCALES),
        "norm-epsilon": drawn(layer_norm_epsilon=(10.0, 100.0)),
    },
)
def library_bloom(blueprint: Blueprint, task: Task) -> nn.Module:
    """BLOOM: distances in the scores, a norm after the embedding."""
    named = {**_common(blueprint, task), **entries(blueprint.options)}
    named["n_layer"] = named.pop("num_hidden_layers")
    model = _model("Bloom", library().BloomConfig(**named), task)
    return Logits(patch(model, blueprint, "transformer.h"), use_cache=False)


def _mamba_options(rng: np.random.Generator) -> Options:
    return {
        "state_size": pick(rng, 4, 8),
        "conv_kernel": pick(rng, 2, 4),
        "expand": pick(rng, 1, 2),
        "hidden_act": "silu",
        "time_step_min": 0.01,
        "time_step_max": 0.2,
    }


@family(
    "library-mamba",
    source="Gu and Dao 2023, Mamba; transformers.MambaForCausalLM",
    draw=_drawing(_mamba_options, widths=(32, 48), depths=(1, 2), largest=(96, 5)),
    structural={
        **_SKIPS,
        **_NORMS,
        **_acts("hidden_act"),
        "time-constant": drawn(time_step_min=(1e-7, 20.0), time_step_max=(1e-6, 40.0), time_step_floor=(1e-8,)),
        "initialisation-scale": drawn(initializer_range=(1e-4, 1.0, 3.0)),
    },
)
def library_mamba(blueprint: Blueprint, task: Task) -> nn.Module:
    """Mamba in the library's own loop over the steps."""
    named = {**_common(blueprint, task), "time_step_rank": max(1, blueprint.width // 16), **entries(blueprint.options)}
    named.pop("max_position_embeddings")
    model = library().MambaForCausalLM(library().MambaConfig(**named))
    return Logits(patch(model, blueprint, "backbone.layers"), use_cache=False)
