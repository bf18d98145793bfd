"""Encoders of the package `transformers`: tags, classes of sequences, and forecasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor, nn

from isometer.trial._families._draws import drawn, size
from isometer.trial._families._library import Logits, entries, library, patch
from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

FAULTS = {
    "initialisation-scale": "the configuration's range of the initial weights is far too small or far too large",
    "norm-epsilon": "the epsilon of the norm is larger than what it normalises",
    "patch-size": "the whole series is one patch, or every step is one",
    "depth-too-large": "the shared layer is applied many more times",
    "frequency-scale": "rotary angles turn far too fast",
}
_SCALES = (1e-4, 0.5, 1.0)
_USUAL: dict[str, Any] = {
    "no-skips": {"skip": 0.0},
    "skip-scaled": drawn(skip=(2.0, 3.0)),
    "no-norm": {"norms": "none"},
}


def _drawing(
    options: Callable[[np.random.Generator], Options],
    *,
    tasks: tuple[str, ...] = ("tags", "majority"),
    depths: tuple[int, ...] = (1, 2, 3, 4),
    largest: tuple[int, int] = (128, 9),
) -> Callable[[np.random.Generator, bool], Blueprint]:
    def draw(rng: np.random.Generator, large: bool) -> Blueprint:
        width, depth = size(rng, large, widths=(32, 48, 64), depths=depths, largest=largest)
        return Blueprint(str(pick(rng, *tasks)), width, depth, batch=16, options=options(rng))

    return draw


def _purpose(name: str, task: Task) -> Any:
    return getattr(library(), name + ("ForTokenClassification" if task.per_position else "ForSequenceClassification"))


def _bert_options(rng: np.random.Generator) -> Options:
    drop = pick(rng, 0.0, 0.1)
    return {
        "num_attention_heads": pick(rng, 2, 4),
        "hidden_act": pick(rng, "gelu", "relu"),
        "hidden_dropout_prob": drop,
        "attention_probs_dropout_prob": drop,
        "initializer_range": pick(rng, 0.02, 0.05),
        "layer_norm_eps": 1e-12,
    }


_BERT: dict[str, Any] = {
    **_USUAL,
    "no-activation": {"hidden_act": "linear"},
    "wrong-activation": drawn(hidden_act=("sigmoid", "tanh")),
    "score-scale": drawn(scores=(8.0, 15.0, 30.0)),
    "no-positions": {"places": "none"},
    "initialisation-scale": drawn(initializer_range=_SCALES),
    "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0)),
    "mask-wrong": drawn(mask=("itself", "first")),
}


def _bert_like(name: str, layers: str, places: str, **fixed: Any) -> Callable[[Blueprint, Task], nn.Module]:
    def build(blueprint: Blueprint, task: Task) -> nn.Module:
        named = {
            "vocab_size": task.vocabulary,
            "num_labels": task.outputs,
            "hidden_size": blueprint.width,
            "num_hidden_layers": blueprint.depth,
            "intermediate_size": 4 * blueprint.width,
            "max_position_embeddings": 32,
            "pad_token_id": None,
            **fixed,
            **entries(blueprint.options),
        }
        model = _purpose(name, task)(getattr(library(), f"{name}Config")(**named))
        return Logits(patch(model, blueprint, layers, places), blueprint.options.get("mask"))

    build.__doc__ = f"{name} of the library with its own head."
    return build


library_bert = family(
    "library-bert",
    source="Devlin et al. 2019, BERT; transformers.BertForTokenClassification",
    draw=_drawing(_bert_options),
    structural=_BERT,
)(_bert_like("Bert", "bert.encoder.layer", "bert.embeddings.position_embeddings"))

library_electra = family(
    "library-electra",
    source="Clark et al. 2020, ELECTRA; transformers.ElectraForTokenClassification",
    draw=_drawing(lambda rng: {**_bert_options(rng), "embedding_size": pick(rng, 16, 32)}, largest=(128, 7)),
    structural={**_BERT, "bottleneck": drawn(embedding_size=(1, 2))},
)(_bert_like("Electra", "electra.encoder.layer", "electra.embeddings.position_embeddings"))

library_albert = family(
    "library-albert",
    source="Lan et al. 2020, ALBERT; transformers.AlbertForTokenClassification",
    draw=_drawing(
        lambda rng: {**_bert_options(rng), "embedding_size": pick(rng, 16, 32), "inner_group_num": pick(rng, 1, 1, 2)},
        depths=(1, 2, 3),
        largest=(112, 7),
    ),
    structural={
        **_BERT,
        "bottleneck": drawn(embedding_size=(1, 2)),
        "depth-too-large": lambda blueprint, rng: blueprint.changed(depth=3 * blueprint.depth),
    },
)(
    _bert_like(
        "Albert",
        "albert.encoder.albert_layer_groups.0.albert_layers",
        "albert.embeddings.position_embeddings",
        classifier_dropout_prob=0.0,
    )
)


def _distil_options(rng: np.random.Generator) -> Options:
    return {
        "n_heads": pick(rng, 2, 4),
        "activation": pick(rng, "gelu", "relu"),
        "dropout": pick(rng, 0.0, 0.1),
        "sinusoidal_pos_embds": pick(rng, True, False),
    }


@family(
    "library-distilbert",
    source="Sanh et al. 2019, DistilBERT; transformers.DistilBertForTokenClassification",
    draw=_drawing(_distil_options),
    structural={
        **_USUAL,
        "no-activation": {"activation": "linear"},
        "wrong-activation": drawn(activation=("sigmoid", "tanh")),
        "score-scale": drawn(scores=(8.0, 15.0, 30.0)),
        "no-positions": {"places": "none"},
        "initialisation-scale": drawn(initializer_range=_SCALES),
        "mask-wrong": drawn(mask=("itself", "first")),
    },
)
def library_distilbert(blueprint: Blueprint, task: Task) -> nn.Module:
    """DistilBERT with its own head."""
    config = library().DistilBertConfig(
        vocab_size=task.vocabulary,
        num_labels=task.outputs,
        dim=blueprint.width,
        n_layers=blueprint.depth,
        hidden_dim=4 * blueprint.width,
        max_position_embeddings=32,
        pad_token_id=None,
        seq_classif_dropout=0.0,
        **entries(blueprint.options),
    )
    model = _purpose("DistilBert", task)(config)
    places = "distilbert.embeddings.position_embeddings"
    return Logits(patch(model, blueprint, "distilbert.transformer.layer", places), blueprint.options.get("mask"))


def _modern_options(rng: np.random.Generator) -> Options:
    return {
        "num_attention_heads": pick(rng, 2, 4),
        "hidden_activation": pick(rng, "gelu", "silu"),
        "classifier_pooling": pick(rng, "cls", "mean"),
        "local_attention": pick(rng, 8, 16),
        "norm_eps": 1e-5,
    }


@family(
    "library-modernbert",
    source="Warner et al. 2024, ModernBERT; transformers.ModernBertForTokenClassification",
    draw=_drawing(_modern_options, largest=(128, 8)),
    structural={
        **_USUAL,
        "no-activation": {"hidden_activation": "linear"},
        "wrong-activation": drawn(hidden_activation=("sigmoid", "tanh")),
        "initialisation-scale": drawn(initializer_range=_SCALES),
        "norm-epsilon": drawn(norm_eps=(10.0, 100.0)),
        "no-positions": {"turn": 0.0},
        "frequency-scale": drawn(turn=(30.0, 100.0)),
    },
)
def library_modernbert(blueprint: Blueprint, task: Task) -> nn.Module:
    """ModernBERT: rotary positions, local and global attention in turns."""
    config = library().ModernBertConfig(
        vocab_size=task.vocabulary,
        num_labels=task.outputs,
        hidden_size=blueprint.width,
        num_hidden_layers=blueprint.depth,
        intermediate_size=2 * blueprint.width,
        max_position_embeddings=32,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
        cls_token_id=None,
        sep_token_id=None,
        **entries(blueprint.options),
    )
    return Logits(patch(_purpose("ModernBert", task)(config), blueprint, "model.layers"))


def _t5_options(rng: np.random.Generator) -> Options:
    return {
        "num_heads": pick(rng, 2, 4),
        "feed_forward_proj": pick(rng, "relu", "gated-gelu"),
        "dropout_rate": pick(rng, 0.0, 0.1),
        "relative_attention_num_buckets": pick(rng, 8, 16),
        "relative_attention_max_distance": 24,
    }


class _T5Head(nn.Module):
    """The encoder with a readout per token, or of the tokens' mean."""

    def __init__(self, encoder: nn.Module, width: int, task: Task, pool: str) -> None:
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(width, task.outputs)
        self.every, self.pool = task.per_position, pool

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.encoder(input_ids=tokens).last_hidden_state
        if self.pool == "batch":
            h = h.mean(dim=0, keepdim=True).expand_as(h)
        elif self.pool == "features":
            h = h.mean(dim=2, keepdim=True).expand_as(h)
        out: Tensor = self.head(h if self.every else h.mean(dim=1))
        return out


@family(
    "library-t5-encoder",
    source="Raffel et al. 2020, T5; transformers.T5EncoderModel",
    draw=_drawing(_t5_options, depths=(1, 2, 3), largest=(112, 7)),
    structural={
        **_USUAL,
        "initialisation-scale": drawn(initializer_factor=(0.01, 10.0, 30.0)),
        "norm-epsilon": drawn(layer_norm_epsilon=(10.0, 100.0)),
        "wrong-activation": drawn(feed_forward_proj=("sigmoid", "tanh", "gated-sigmoid")),
        "no-activation": {"feed_forward_proj": "linear"},
        "wrong-pooling": drawn(pool=("batch", "features")),
    },
)
def library_t5_encoder(blueprint: Blueprint, task: Task) -> nn.Module:
    """The encoder of T5; its scores have no scale, its queries start smaller instead."""
    width = blueprint.width
    config = library().T5Config(
        vocab_size=task.vocabulary,
        d_model=width,
        d_kv=width // blueprint.options["num_heads"],
        d_ff=2 * width,
        num_layers=blueprint.depth,
        pad_token_id=None,
        eos_token_id=None,
        use_cache=False,
        **entries(blueprint.options),
    )
    encoder = patch(library().T5EncoderModel(config), blueprint, "encoder.block")
    return _T5Head(encoder, width, task, blueprint.options.get("pool", "mean"))


# Series


def _patch_options(rng: np.random.Generator) -> Options:
    return {
        "num_attention_heads": pick(rng, 2, 4),
        "patch_length": pick(rng, 4, 6, 8),
        "patch_stride": pick(rng, 2, 4),
        "norm_type": pick(rng, "batchnorm", "layernorm"),
        "pre_norm": pick(rng, True, False),
        "activation_function": pick(rng, "gelu", "relu"),
        "scaling": pick(rng, "std", None),
        "ff_dropout": pick(rng, 0.0, 0.1),
    }


class _Forecast(nn.Module):
    """PatchTST takes and returns series with channels; the task wants the next steps of one, or classes."""

    def __init__(self, model: nn.Module, classes: bool) -> None:
        super().__init__()
        self.model, self.classes = model, classes

    def forward(self, series: Tensor) -> Tensor:
        out = self.model(past_values=series)
        answer: Tensor = out.prediction_logits if self.classes else out.prediction_outputs.squeeze(-1)
        return answer


@family(
    "library-patchtst",
    source="Nie et al. 2023, A time series is worth 64 words; transformers.PatchTSTForPrediction",
    draw=_drawing(_patch_options, tasks=("forecast", "rhythms"), depths=(1, 2, 3), largest=(160, 8)),
    structural={
        **_USUAL,
        "norm-misplaced": lambda blueprint, rng: blueprint.changed(pre_norm=not blueprint.options["pre_norm"]),
        "no-activation": {"activation_function": "linear"},
        "wrong-activation": drawn(activation_function=("sigmoid", "tanh")),
        "score-scale": drawn(scores=(8.0, 15.0, 30.0)),
        "initialisation-scale": drawn(init_std=_SCALES),
        "patch-size": drawn(patch_length=(1, 12), patch_stride=(12,)),
    },
)
def library_patchtst(blueprint: Blueprint, task: Task) -> nn.Module:
    """PatchTST for forecasts, and as a classifier of series."""
    package = library()
    config = package.PatchTSTConfig(
        num_input_channels=task.shape[1],
        context_length=task.shape[0],
        prediction_length=task.outputs,
        num_targets=task.outputs,
        d_model=blueprint.width,
        num_hidden_layers=blueprint.depth,
        ffn_dim=2 * blueprint.width,
        **entries(blueprint.options),
    )
    classes = task.objective == "classes"
    model = (package.PatchTSTForClassification if classes else package.PatchTSTForPrediction)(config)
    return _Forecast(patch(model, blueprint, "model.encoder.layers"), classes)
