"""Encoders of the package `transformers` for the third round: tags and classes of sequences, a few lines each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._library import Logits, entries, library, patch
from isometer.trial._families._library_language import _NORMS, _SCALES, _SKIPS, _acts, _common
from isometer.trial._families._second import sizes
from isometer.trial._families._third import third
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

_RANGE: Options = {"initialisation-scale": drawn(initializer_range=_SCALES)}
_BLOCK: Options = {**_SKIPS, **_NORMS, **_RANGE, "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0))}
_ACTS = _acts("hidden_act")
_NO_PLACES: Options = {"no-positions": {"places": "none"}}


def _entries(blueprint: Blueprint, task: Task) -> Options:
    """Entries that resemble BERT's."""
    common = {name: value for name, value in _common(blueprint, task).items() if name != "use_cache"}
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "pad_token_id": 0}
    return {**common, **still, "intermediate_size": 2 * blueprint.width}


def _without_pooler(model: nn.Module, task: Task) -> nn.Module:
    """Tags do not read what is pooled."""
    if task.per_position:
        parts: list[Any] = [*model.children()]
        for part in parts:
            if getattr(part, "pooler", None) is not None:
                part.pooler = None
    return model


def _encoder(
    name: str,
    layers: str,
    more: Callable[[Blueprint], Options],
    *,
    places: str = "",
) -> Callable[[Blueprint, Task], nn.Module]:
    def build(blueprint: Blueprint, task: Task) -> nn.Module:
        named = {**_entries(blueprint, task), **more(blueprint), **entries(blueprint.options)}
        kind = "ForTokenClassification" if task.per_position else "ForSequenceClassification"
        config = getattr(library(), f"{name}Config")(**named)
        model = _without_pooler(getattr(library(), name + kind)(config), task)
        return Logits(patch(model, blueprint, layers, places))

    build.__doc__ = f"{name} of the library with its own head."
    return build


def _nothing(blueprint: Blueprint) -> Options:
    return {}


def _register(
    name: str,
    source: str,
    build: Callable[[Blueprint, Task], nn.Module],
    structural: Options,
    *,
    depths: tuple[int, ...] = (1, 2),
    **choices: tuple[Any, ...],
) -> None:
    draw = sizes(("tags", "majority"), (32, 48, 64), depths, batches=(16,), **choices)
    third(name, source=source, draw=draw, structural=structural)(build)


_register(
    "library-deberta-v2",
    "He et al. 2021, DeBERTa; He et al. 2023, DeBERTaV3; transformers.DebertaV2ForTokenClassification",
    _encoder(
        "DebertaV2",
        "deberta.encoder.layer",
        lambda b: {"relative_attention": True, "max_relative_positions": 16, "position_biased_input": False},
    ),
    {**_BLOCK, **_ACTS, "no-positions": {"relative_attention": False}},
    num_attention_heads=(2, 4),
    pos_att_type=(["p2c", "c2p"], ["c2p"]),
    position_buckets=(8, 16),
    share_att_key=(True, False),
    hidden_act=("gelu", "relu"),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-fnet",
    "Lee-Thorp et al. 2022, FNet: mixing tokens with Fourier transforms; transformers.FNetForTokenClassification",
    _encoder("FNet", "fnet.encoder.layer", _nothing, places="fnet.embeddings.position_embeddings"),
    {**_BLOCK, **_ACTS, **_NO_PLACES},
    depths=(1, 2, 3),
    hidden_act=("gelu_new", "relu"),
    hidden_dropout_prob=(0.0, 0.1),
    initializer_range=(0.02, 0.05),
)


_register(
    "library-mobilebert",
    "Sun et al. 2020, MobileBERT; transformers.MobileBertForTokenClassification",
    _encoder(
        "MobileBert",
        "mobilebert.encoder.layer",
        lambda b: {"intra_bottleneck_size": b.width // 2, "embedding_size": b.width},
        places="mobilebert.embeddings.position_embeddings",
    ),
    {
        **_BLOCK,
        **_ACTS,
        **_NO_PLACES,
        "bottleneck": {"num_attention_heads": 1, "intra_bottleneck_size": 1},
        "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0), normalization_type=("layer_norm",)),
    },
    depths=(1,),
    num_attention_heads=(2, 4),
    num_feedforward_networks=(1, 2),
    normalization_type=("no_norm", "layer_norm"),
    hidden_act=("relu", "gelu"),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-megatron-bert",
    "Shoeybi et al. 2019, Megatron-LM; transformers.MegatronBertForTokenClassification",
    _encoder("MegatronBert", "bert.encoder.layer", _nothing, places="bert.embeddings.position_embeddings"),
    {**_BLOCK, **_ACTS, **_NO_PLACES},
    depths=(1, 2, 3),
    num_attention_heads=(2, 4),
    hidden_act=("gelu", "relu"),
    hidden_dropout_prob=(0.0, 0.1),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-roformer",
    "Su et al. 2021, RoFormer: rotary position embedding; transformers.RoFormerForTokenClassification",
    _encoder("RoFormer", "roformer.encoder.layer", _nothing, places="roformer.encoder.embed_positions"),
    {**_BLOCK, **_ACTS, **_NO_PLACES, "bottleneck": drawn(embedding_size=(1, 2))},
    num_attention_heads=(2, 4),
    rotary_value=(False, True),
    embedding_size=(16, 32),
    hidden_act=("gelu", "relu"),
    initializer_range=(0.02, 0.05),
)
