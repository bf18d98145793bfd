"""Causal language models of the package `transformers` for the fourth round, a few lines each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._fourth import fourth
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
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

_LANGUAGE, _ANY = ("markov", "text"), ("markov", "text", "nesting")
_RANGE: Options = {"initialisation-scale": drawn(initializer_range=_SCALES)}
_BLOCK: Options = {**_SKIPS, **_NORMS, **_RANGE}
_ROTATED: Options = {**_BLOCK, **_MASK, **_ROTARY, **_SCORES, **_acts("hidden_act")}


def _llama_like(
    name: str, more: Callable[[Blueprint], Options] = lambda blueprint: {}
) -> Callable[[Blueprint, Task], nn.Module]:
    def build(blueprint: Blueprint, task: Task) -> nn.Module:
        named = {"intermediate_size": 2 * blueprint.width, **_common(blueprint, task), **more(blueprint)}
        config = getattr(library(), f"{name}Config")(**{**named, **entries(blueprint.options)})
        model = patch(_model(name, config, task), blueprint, "model.layers")
        return Logits(model, blueprint.options.get("mask"), use_cache=False)

    build.__doc__ = f"{name} of the library."
    return build


def _register(
    name: str,
    source: str,
    build: Callable[[Blueprint, Task], nn.Module],
    structural: Options,
    *,
    tasks: tuple[str, ...] = _ANY,
    depths: tuple[int, ...] = (1, 2),
    **choices: tuple[Any, ...],
) -> None:
    draw = sizes(tasks, (32, 48, 64), depths, batches=(16,), **choices)
    fourth(name, source=source, draw=draw, structural=structural)(build)


def _openai_gpt(blueprint: Blueprint, task: Task) -> nn.Module:
    """The first GPT: norms after the sums, learned positions, tied embedding."""
    config = library().OpenAIGPTConfig(
        vocab_size=task.vocabulary,
        n_positions=32,
        n_embd=blueprint.width,
        n_layer=blueprint.depth,
        **entries(blueprint.options),
    )
    model = library().OpenAIGPTLMHeadModel(config)
    return Logits(patch(model, blueprint, "transformer.h", "transformer.positions_embed"))


_register(
    "library-openai-gpt",
    "Radford et al. 2018, Improving language understanding by generative pre-training; "
    "transformers.OpenAIGPTLMHeadModel",
    _openai_gpt,
    {
        **_NORMS,
        **_RANGE,
        "no-positions": {"places": "none"},
        "norm-epsilon": drawn(layer_norm_epsilon=(10.0, 100.0)),
    },
    tasks=_LANGUAGE,
    depths=(1, 2, 3),
    n_head=(2, 4),
    afn=("gelu", "relu"),
    resid_pdrop=(0.0, 0.1),
    embd_pdrop=(0.0,),
    attn_pdrop=(0.0,),
    initializer_range=(0.02, 0.05),
)


def _stablelm(blueprint: Blueprint) -> Options:
    half = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    return {"num_key_value_heads": blueprint.options["num_attention_heads"], "rope_parameters": half}


_register(
    "library-stablelm",
    "Bellagente et al. 2024, Stable LM 2 1.6B; transformers.StableLmForCausalLM",
    _llama_like("StableLm", _stablelm),
    {**_ROTATED, "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0))},
    num_attention_heads=(2, 4),
    qk_layernorm=(False, True),
    use_parallel_residual=(False, True),
    use_qkv_bias=(False, True),
    hidden_act=("silu", "gelu"),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-starcoder2",
    "Lozhkov et al. 2024, StarCoder 2 and The Stack v2; transformers.Starcoder2ForCausalLM",
    _llama_like("Starcoder2"),
    {**_ROTATED, "norm-epsilon": drawn(norm_epsilon=(10.0, 100.0))},
    depths=(1, 2, 3),
    num_attention_heads=(2, 4),
    num_key_value_heads=(1, 2),
    residual_dropout=(0.0, 0.1),
    use_bias=(True, False),
    hidden_act=("gelu_pytorch_tanh", "relu"),
    tie_word_embeddings=(True, False),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-glm4",
    "GLM team 2024, ChatGLM: a family of large language models, GLM-4-0414; transformers.Glm4ForCausalLM",
    _llama_like("Glm4", lambda b: {"head_dim": b.width // b.options["num_attention_heads"]}),
    {**_ROTATED, "norm-epsilon": drawn(rms_norm_eps=(10.0, 100.0))},
    num_attention_heads=(2, 4),
    num_key_value_heads=(1, 2),
    attention_bias=(True, False),
    hidden_act=("silu", "gelu"),
    tie_word_embeddings=(False, True),
    initializer_range=(0.02, 0.05),
)
