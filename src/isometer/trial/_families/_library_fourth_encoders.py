"""Encoders of the package `transformers` for the fourth round: tags and classes of sequences, a few lines each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._fourth import fourth
from isometer.trial._families._library import Logits, NoNorm, entries, library, patch
from isometer.trial._families._library_language import _NORMS, _SCALES, _SKIPS, _acts
from isometer.trial._families._second import sizes
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

_RESERVED = 2
"""Numbers of tokens kept for padding, which some of these models count their positions by."""
_RANGE: Options = {"initialisation-scale": drawn(initializer_range=_SCALES)}
_BLOCK: Options = {**_NORMS, **_RANGE, "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0))}
_ACTS = _acts("hidden_act")
_NO_PLACES: Options = {"no-positions": {"places": "none"}}


class _Reserved(nn.Module):
    """A model whose first numbers of tokens are reserved."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.model(tokens + _RESERVED)
        return logits


def _patch(model: nn.Module, blueprint: Blueprint, layers: str, places: str) -> None:
    """Put the faults in. Only layer norms are norms here, not all that has "Norm" in its name."""
    o = blueprint.options
    patch(model, blueprint.changed(norms="kept", places="kept"), layers)
    if o.get("norms") == "none":
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, nn.LayerNorm):
                    setattr(parent, name, NoNorm())
    for path, values in model.named_parameters():
        if o.get("places") == "none" and re.search(places, path):
            nn.init.zeros_(values)
            values.requires_grad_(False)


def _entries(blueprint: Blueprint, task: Task) -> Options:
    """Entries that resemble BERT's."""
    return {
        "vocab_size": task.vocabulary + _RESERVED,
        "num_labels": task.outputs,
        "hidden_size": blueprint.width,
        "num_hidden_layers": blueprint.depth,
        "intermediate_size": 2 * blueprint.width,
        "max_position_embeddings": 32,
        "attention_probs_dropout_prob": 0.0,
        "pad_token_id": 1,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _headed(name: str, config: Any, task: Task) -> nn.Module:
    """With the head for tags or for classes."""
    kind = "ForTokenClassification" if task.per_position else "ForSequenceClassification"
    model: nn.Module = getattr(library(), name + kind)(config)
    return model


def _encoder(
    name: str, layers: str, base: str, more: Callable[[Blueprint], Options] = lambda blueprint: {}
) -> Callable[[Blueprint, Task], nn.Module]:
    def build(blueprint: Blueprint, task: Task) -> nn.Module:
        named = {**_entries(blueprint, task), **more(blueprint), **entries(blueprint.options)}
        model = _headed(name, getattr(library(), f"{name}Config")(**named), task)
        trunk = model.get_submodule(base)
        if task.per_position and getattr(trunk, "pooler", None) is not None:
            trunk.pooler = nn.Identity()  # tags do not read what is pooled
        _patch(model, blueprint, layers, "position_embeddings|relative_attention_bias")
        return _Reserved(Logits(model))

    build.__doc__ = f"{name} of the library with its own head."
    return build


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
    fourth(name, source=source, draw=draw, structural=structural)(build)


_GROUPS = ("q_groups", "k_groups", "v_groups", "intermediate_groups", "output_groups")
_register(
    "library-squeezebert",
    "Iandola et al. 2020, SqueezeBERT: what can computer vision teach NLP about efficient neural networks?; "
    "transformers.SqueezeBertForTokenClassification",
    _encoder("SqueezeBert", "", "transformer", lambda b: {"embedding_size": b.width}),
    {
        **_BLOCK,
        **_ACTS,
        **_NO_PLACES,
        "groups-wrong": lambda blueprint, rng: blueprint.changed(**dict.fromkeys(_GROUPS, blueprint.width)),
    },
    depths=(1, 2, 3),
    num_attention_heads=(2, 4),
    q_groups=(2, 4),
    k_groups=(2, 4),
    v_groups=(2, 4),
    intermediate_groups=(2, 4),
    output_groups=(2, 4),
    hidden_act=("gelu", "relu"),
    hidden_dropout_prob=(0.0, 0.1),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-mpnet",
    "Song et al. 2020, MPNet: masked and permuted pre-training; transformers.MPNetForTokenClassification",
    _encoder("MPNet", "mpnet.encoder.layer", "mpnet"),
    {**_SKIPS, **_BLOCK, **_ACTS, **_NO_PLACES},
    num_attention_heads=(2, 4),
    hidden_act=("gelu", "relu"),
    hidden_dropout_prob=(0.0, 0.1),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-roberta-prelayernorm",
    "Ott et al. 2019, fairseq, with pre-norm; transformers.RobertaPreLayerNormForTokenClassification",
    _encoder("RobertaPreLayerNorm", "roberta_prelayernorm.encoder.layer", "roberta_prelayernorm"),
    {**_SKIPS, **_BLOCK, **_ACTS, **_NO_PLACES, "score-scale": drawn(scores=(8.0, 15.0, 30.0))},
    depths=(1, 2, 3),
    num_attention_heads=(2, 4),
    hidden_act=("gelu", "relu"),
    hidden_dropout_prob=(0.0, 0.1),
    initializer_range=(0.02, 0.05),
)


def _xlnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """XLNet without its second stream: relative positions with a projection of their own."""
    config = library().XLNetConfig(
        vocab_size=task.vocabulary + _RESERVED,
        num_labels=task.outputs,
        d_model=blueprint.width,
        n_layer=blueprint.depth,
        d_inner=2 * blueprint.width,
        summary_last_dropout=0.0,
        **entries(blueprint.options),
    )
    model = _headed("XLNet", config, task)
    for path, values in model.named_parameters():
        if path.endswith(("mask_emb", "seg_embed", "r_s_bias")):  # for the second stream and for pairs of texts
            values.requires_grad_(False)
    _patch(model, blueprint, "transformer.layer", r"\.r$")
    return _Reserved(Logits(model, use_mems=False))


_register(
    "library-xlnet",
    "Yang et al. 2019, XLNet: generalized autoregressive pretraining; transformers.XLNetForTokenClassification",
    _xlnet,
    {
        **_SKIPS,
        **_BLOCK,
        **_acts("ff_activation"),
        **_NO_PLACES,
        "score-scale": drawn(scores=(8.0, 15.0, 30.0)),
    },
    n_head=(2, 4),
    ff_activation=("gelu", "relu"),
    dropout=(0.0, 0.1),
    initializer_range=(0.02, 0.05),
)
