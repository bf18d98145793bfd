"""Every architecture of `transformers` that can be built small: which, how, and a batch for each.

    buildable()            names of the architectures, from the list beside this file
    model, batch = build("bert")

A configuration is shrunk by the names of its fields: widths, heads, layers, vocabulary, images, and configurations
inside it. Where that gives a model which does not run, gentler recipes are tried. `search` finds recipe and batch of
one architecture; `tools/check_probing.py --search` does so for all and writes the list.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

LIST = Path(__file__).with_suffix(".json")
LARGEST = 200_000_000  # bytes of parameters and buffers
SAMPLES, TOKENS = 4, 8
_WIDTH, _HEADS, _LAYERS, _VOCABULARY, _IMAGE, _PATCH = 32, 4, 2, 128, 32, 8
_SIZES = (
    (
        _WIDTH,
        "hidden_size d_model n_embd embed_dim hidden_dim dim encoder_hidden_size decoder_hidden_size "
        "projection_dim embedding_size encoder_hidden_dim decoder_hidden_dim out_hidden_size "
        "output_hidden_size d_embed projector_hidden_size pooler_hidden_size output_dim "
        "word_embed_proj_dim classifier_proj_size pooler_output_size mask_feature_size feature_size "
        "fpn_feature_size encoder_embed_dim vision_hidden_size emb_dim text_embed_dim rnn_hidden_size "
        "lru_width attention_hidden_size hidden_size_per_layer_input",
    ),
    (
        _HEADS,
        "num_attention_heads n_head num_heads encoder_attention_heads decoder_attention_heads n_heads "
        "decoder_num_attention_heads encoder_num_attention_heads num_attn_heads",
    ),
    (_HEADS // 2, "num_key_value_heads num_kv_heads n_kv_heads encoder_num_key_value_heads"),
    (8, "head_dim d_kv attention_head_dim d_head global_head_dim attention_head_size"),
    (
        64,
        "intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff n_inner dim_feedforward d_inner "
        "decoder_intermediate_size moe_intermediate_size shared_expert_intermediate_size "
        "intermediate_size_mlp encoder_intermediate_size mlp_dim ffn_hidden_size "
        "shared_intermediate_size expert_ffn_hidden_size feed_forward_proj_dim",
    ),
    (
        _LAYERS,
        "num_hidden_layers encoder_layers decoder_layers num_layers n_layer n_layers num_decoder_layers "
        "depth decoder_num_hidden_layers encoder_num_hidden_layers num_encoder_layers decoder_num_layers "
        "max_window_layers num_adapter_layers decoder_depth encoder_depth",
    ),
    (_VOCABULARY, "vocab_size tokenizer_vocab_size decoder_vocab_size vocab_size_per_layer_input"),
    (128, "max_position_embeddings n_positions max_sequence_length n_ctx max_seq_len"),
    (128, "max_source_positions max_target_positions max_2d_position_embeddings"),
    (4, "num_experts num_local_experts n_routed_experts moe_num_experts"),
    (2, "num_experts_per_tok moe_topk num_experts_per_token moe_top_k top_k_experts"),
    (1, "n_group topk_group n_shared_experts num_shared_experts first_k_dense_replace"),
    (8, "qk_rope_head_dim qk_nope_head_dim v_head_dim q_lora_rank kv_lora_rank"),
    (8, "index_head_dim linear_key_head_dim linear_value_head_dim mamba_d_state state_size"),
    (4, "linear_num_key_heads linear_num_value_heads index_n_heads"),
    (16, "qk_head_dim"),
    (16, "num_mel_bins num_filters"),
    (6, "num_queries num_query_tokens"),
    (16, "codebook_size num_codevectors_per_group"),
    (_IMAGE, "image_size input_size img_size"),
    (_PATCH, "patch_size"),
    (8, "num_conv_pos_embeddings"),
    (2, "num_conv_pos_embedding_groups"),
    (16, "sliding_window attention_window block_size"),
    (4, "num_frames"),
)
_SMALL: dict[str, int] = {name: size for size, names in _SIZES for name in names.split()}
_SHALLOW = {name: value for name, value in _SMALL.items() if value in (_LAYERS, _VOCABULARY) and "head" not in name}
_SHALLOW = {name: value for name, value in _SHALLOW.items() if "position" not in name and "kv_heads" not in name}
_LISTS: dict[str, Callable[[int], list[int]]] = {
    "depths": lambda n: [1] * n,
    "hidden_sizes": lambda n: [16 * 2**i for i in range(n)],
    "conv_dim": lambda n: [16] * n,
    "num_attention_heads": lambda n: [2] * n,
    "encode_proj_layers": lambda n: [n - 1] * n,
}
# Six layers, so that every kind of layer of a hybrid is there, and as many heads of keys as of queries.
_EVEN = {name: 6 if name.endswith(("layers", "n_layer", "depth")) else value for name, value in _SMALL.items()}
_EVEN |= dict.fromkeys(("num_key_value_heads", "num_kv_heads", "n_kv_heads"), _HEADS)
_RECIPES = {"small": _SMALL, "no lists": _SMALL, "even": _EVEN, "shallow": _SHALLOW}
RECIPES = (*_RECIPES, "default")
_SLOWEST, _LONGEST = 3.0, 15.0  # seconds of a forward pass, and of looking for a recipe
_PARTICULAR: dict[str, dict[str, Any]] = {
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 1},
    "bamba": {"attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1},
    "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
}


@functools.cache
def _auto() -> tuple[Any, Any]:
    logging.getLogger("transformers").setLevel(logging.ERROR)  # token ids beyond a small vocabulary
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import CONFIG_MAPPING
        from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES
    return CONFIG_MAPPING, MODEL_MAPPING_NAMES


def architectures() -> tuple[str, ...]:
    """All there are, in the order of their names."""
    return tuple(sorted(_auto()[1]))


def buildable() -> tuple[str, ...]:
    """Those that can be built and run small.

    Example:
        >>> "bert" in buildable()
        True
    """
    return tuple(json.loads(LIST.read_text(encoding="utf-8")))


def build(name: str, seed: int = 0) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A small model in training mode, and a batch to call it with by keyword.

    Args:
        name: one of `buildable()`.
        seed: of weights and batch; the generator of the process is set to it.
    """
    entry = json.loads(LIST.read_text(encoding="utf-8"))[name]
    with _quiet():
        model = _model(name, entry["recipe"], seed)
        return model, dict(itertools.islice(_batches(model, seed), entry["batch"], entry["batch"] + 1).__next__())


def search(name: str) -> dict[str, Any]:
    """Recipe and number of the batch with which an architecture runs, or `{"why_not": …}`."""
    reasons: list[str] = []
    begun = time.process_time()
    for recipe in RECIPES:
        too_large = any("MemoryError" in reason for reason in reasons)  # the next recipe is gentler, so larger still
        if too_large or time.process_time() - begun > _LONGEST:
            break
        try:
            with _quiet():
                model = _model(name, recipe, 0)
        except Exception as problem:
            text = str(problem).strip().replace("\n", " ")
            reasons.append(f"{recipe}: {type(problem).__name__}: {text}"[:160])
            continue
        for index, batch in enumerate(_batches(model, 0)):
            try:
                start = time.process_time()
                with _quiet():
                    output = model(**batch)
                if time.process_time() - start > _SLOWEST:
                    raise TimeoutError(f"forward takes more than {_SLOWEST} s")
            except Exception as problem:
                reasons.append(f"{recipe} {'+'.join(batch)}: {type(problem).__name__}: {problem}"[:160])
                continue
            if any(one.is_floating_point() and one.requires_grad for one in _tensors(output)):
                return {"class": type(model).__name__, "recipe": recipe, "batch": index, "inputs": sorted(batch)}
    return {"why_not": reasons[-1] if reasons else "no batch fits", "tried": reasons}


def _model(name: str, recipe: str, seed: int) -> torch.nn.Module:
    from transformers import AutoModel

    config = _config(name, recipe)
    with torch.device("meta"):
        empty = AutoModel.from_config(config)
    size = sum(one.nbytes for one in [*empty.parameters(), *empty.buffers()])
    if size > LARGEST:
        raise MemoryError(f"{size / 1e6:.0f} MB")
    torch.manual_seed(seed)
    return AutoModel.from_config(_config(name, recipe)).float().train()


def _config(name: str, recipe: str) -> Any:
    kind = _auto()[0][name]
    if recipe == "default":
        return kind()
    return kind(**_fields(kind(), recipe))


def _fields(config: Any, recipe: str) -> dict[str, Any]:
    """The fields of a configuration that are made smaller."""
    sizes = _RECIPES[recipe]
    found: dict[str, Any] = dict(_PARTICULAR.get(config.model_type, {}))
    for field, value in vars(config).items():
        if field in found:
            continue
        if hasattr(value, "to_dict"):
            inner = _fields(value, recipe)
            found[field] = {**inner, "model_type": value.model_type} if value.model_type else inner
        elif isinstance(value, bool):
            continue
        elif isinstance(value, int) and field in sizes and value > sizes[field]:
            found[field] = sizes[field]
        elif field == "rope_parameters" and isinstance(value, dict) and _of_images(config):
            found[field] = {**value, "mrope_section": [2, 1, 1]}
        elif isinstance(value, int) and field.endswith(("_token_id", "_token_index")) and value >= _VOCABULARY:
            found[field] = 3 + hash_of(field) % 90
        elif (
            isinstance(value, (list, tuple))
            and recipe == "small"
            and field in _LISTS
            and all(isinstance(one, int) for one in value)
        ):
            found[field] = _LISTS[field](len(value))
        elif field == "image_size" and isinstance(value, (list, tuple)) and recipe != "shallow":
            found[field] = [_IMAGE] * len(value)
    return found


def _of_images(config: Any) -> bool:
    """Whether positions have three axes, whose shares of a head are a constant in the code."""
    return any(
        part in config.model_type for part in ("_vl", "glm4v", "omni", "glm_image", "qwen3_5", "glm_ocr", "glm46")
    )


def hash_of(text: str) -> int:
    """A small number that is the same in every process."""
    return sum(ord(one) * (index + 1) for index, one in enumerate(text))


def _find(config: Any, *fields: str, otherwise: Any = None) -> Any:
    """The value of a field in a configuration or in one inside it."""
    inside = [value for value in vars(config).values() if hasattr(value, "to_dict")]
    vision = sorted(inside, key=lambda one: "vision" not in type(one).__name__.lower())
    for one in [config, *vision]:
        for field in fields:
            value = getattr(one, field, None)
            if isinstance(value, (int, list, tuple)) and not isinstance(value, bool) and value:
                return value
    return otherwise


def _batches(model: torch.nn.Module, seed: int) -> Iterator[dict[str, torch.Tensor]]:
    """Batches that the model may take, the likeliest first."""
    config, accepted = model.config, set(inspect.signature(model.forward).parameters)
    if "kwargs" in accepted:
        accepted |= {model.main_input_name}
    generator = torch.Generator().manual_seed(seed)
    makers = [maker for name, maker in _MAKERS if name in accepted or name == model.main_input_name]
    # The main input first, then the others, then all together.
    singles = [batch for maker in makers for batch in maker(config, generator)]
    singles.sort(key=lambda batch: model.main_input_name not in batch)
    for batch in singles:
        yield from _completed(batch, accepted, config, generator)
    for one, other in itertools.combinations(singles, 2):
        if not one.keys() & other.keys():
            yield from _completed({**one, **other}, accepted, config, generator)


def _completed(
    batch: dict[str, torch.Tensor], accepted: set[str], config: Any, generator: torch.Generator
) -> Iterator[dict[str, torch.Tensor]]:
    if "decoder_input_ids" in accepted:
        yield {**batch, "decoder_input_ids": _ids(config, generator)}
    yield batch


def _ids(config: Any, generator: torch.Generator) -> torch.Tensor:
    vocabulary = _find(config, "vocab_size", otherwise=_VOCABULARY)
    vocabulary = vocabulary if isinstance(vocabulary, int) else min(vocabulary)
    held = [value for field, value in vars(config).items() if field.endswith(("_token_id", "_token_index"))]
    special = {one for value in held for one in (value if isinstance(value, (list, tuple)) else [value])}
    plain = [one for one in range(min(vocabulary, 120)) if one not in special and one > 2] or [0]
    return torch.tensor(plain)[torch.randint(0, len(plain), (SAMPLES, TOKENS), generator=generator)]


def _tokens(config: Any, generator: torch.Generator) -> Iterator[dict[str, torch.Tensor]]:
    yield {"input_ids": _ids(config, generator)}
    yield {"input_ids": _ids(config, generator), "attention_mask": torch.ones(SAMPLES, TOKENS, dtype=torch.long)}


def _images(config: Any, generator: torch.Generator) -> Iterator[dict[str, torch.Tensor]]:
    size = _find(config, "image_size", "img_size", "input_size", otherwise=64)
    height, width = (size, size) if isinstance(size, int) else (size[0], size[-1])
    channels = _find(config, "num_channels", "in_channels", "in_chans", otherwise=3)
    channels = channels if isinstance(channels, int) else 3
    frames = _find(config, "num_frames", otherwise=4)
    for h, w in dict.fromkeys([(height, width), (64, 64), (224, 224)]):
        yield {"pixel_values": torch.randn(SAMPLES, channels, h, w, generator=generator)}
    yield {"pixel_values": torch.randn(2, frames, channels, height, width, generator=generator)}


def _videos(config: Any, generator: torch.Generator) -> Iterator[dict[str, torch.Tensor]]:
    size, frames = (
        _find(config, "image_size", "crop_size", otherwise=32),
        _find(config, "num_frames", "frames_per_clip", otherwise=4),
    )
    size = size if isinstance(size, int) else size[0]
    yield {"pixel_values_videos": torch.randn(2, frames, 3, size, size, generator=generator)}


def _waves(config: Any, generator: torch.Generator) -> Iterator[dict[str, torch.Tensor]]:
    yield {"input_values": torch.randn(SAMPLES, 5000, generator=generator)}
    yield {
        "input_values": torch.randn(SAMPLES, _find(config, "audio_channels", otherwise=1), 5000, generator=generator)
    }
    yield {"input_values": torch.randn(SAMPLES, _find(config, "max_length", otherwise=64), 16, generator=generator)}


def _features(config: Any, generator: torch.Generator) -> Iterator[dict[str, torch.Tensor]]:
    bins = _find(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "input_dim", otherwise=80)
    positions = 2 * _find(config, "max_source_positions", otherwise=32)
    yield {"input_features": torch.randn(SAMPLES, bins, positions, generator=generator)}
    for width in dict.fromkeys([bins, 2 * bins, 80, 160]):
        yield {"input_features": torch.randn(SAMPLES, 64, width, generator=generator)}


def _series(config: Any, generator: torch.Generator) -> Iterator[dict[str, torch.Tensor]]:
    length, channels = _find(config, "context_length", otherwise=32), _find(config, "num_input_channels", otherwise=1)
    yield {"past_values": torch.randn(SAMPLES, length, channels, generator=generator)}
    yield {"past_values": torch.randn(SAMPLES, length, generator=generator)}


def _embeddings(config: Any, generator: torch.Generator) -> Iterator[dict[str, torch.Tensor]]:
    width = _find(config, "hidden_size", "d_model", "n_embd", otherwise=_WIDTH)
    yield {"inputs_embeds": torch.randn(SAMPLES, TOKENS, width, generator=generator)}


def _perceived(config: Any, generator: torch.Generator) -> Iterator[dict[str, torch.Tensor]]:
    yield {"inputs": torch.randn(SAMPLES, TOKENS, _find(config, "d_model", otherwise=_WIDTH), generator=generator)}


_MAKERS = (
    ("input_ids", _tokens),
    ("pixel_values", _images),
    ("pixel_values_videos", _videos),
    ("input_values", _waves),
    ("input_features", _features),
    ("past_values", _series),
    ("inputs", _perceived),
    ("inputs_embeds", _embeddings),
)


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, dict):
        for one in tree.values():
            yield from _tensors(one)
    elif isinstance(tree, (list, tuple)):
        for one in tree:
            yield from _tensors(one)


class _quiet(warnings.catch_warnings):
    """Without warnings: small configurations are not what the authors had in mind."""

    def __enter__(self) -> Any:
        entered = super().__enter__()
        warnings.simplefilter("ignore")
        return entered
