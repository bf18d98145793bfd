"""Models of the package `transformers` for spectra and series, for the fourth round, a few lines each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from isometer.trial._families._draws import drawn
from isometer.trial._families._fourth import fourth
from isometer.trial._families._library import entries, library, patch
from isometer.trial._families._library_language import _NORMS, _SCALES, _SCORES, _SKIPS, _acts
from isometer.trial._families._second import sizes
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

_SERIES = ("rhythms", "rhythms", "forecast", "rows")
_BLOCK: Options = {**_SKIPS, **_NORMS, **_SCORES}


class _Features(nn.Module):
    """A model of the library that takes features over time and returns logits."""

    def __init__(self, model: nn.Module, *, transposed: bool = False) -> None:
        super().__init__()
        self.model, self.transposed = model, transposed

    def forward(self, series: Tensor) -> Tensor:
        logits: Tensor = self.model(input_features=series.mT if self.transposed else series).logits
        return logits


class _Gate(nn.Module):
    """Half of the channels, each times the sigmoid of another: no activation that could be exchanged for one."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.glu(x, dim=1)


def _draw(depths: tuple[int, ...], **choices: tuple[Any, ...]) -> Any:
    return sizes(_SERIES, (32, 48, 64), depths, batches=(16,), **choices)


@fourth(
    "library-wav2vec2-bert",
    source="Seamless communication 2023, Seamless: multilingual expressive and streaming speech translation; Gulati et "
    "al. 2020, Conformer; transformers.Wav2Vec2BertForSequenceClassification",
    draw=_draw(
        (1,),
        num_attention_heads=(2, 4),
        position_embeddings_type=("relative_key", "relative", "rotary"),
        conv_depthwise_kernel_size=(3, 7),
        hidden_act=("swish", "gelu"),
        hidden_dropout=(0.0, 0.1),
        initializer_range=(0.02, 0.05),
    ),
    structural={
        **_BLOCK,
        **_acts("hidden_act"),
        "no-positions": {"position_embeddings_type": None},
        "initialisation-scale": drawn(initializer_range=_SCALES),
        "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0)),
        "bottleneck": drawn(classifier_proj_size=(1,)),
    },
)
def library_wav2vec2_bert(blueprint: Blueprint, task: Task) -> nn.Module:
    """A conformer over features: attention and a causal convolution between two halves of a feed-forward layer."""
    named = {
        "num_labels": task.outputs,
        "feature_projection_input_dim": task.shape[1],
        "hidden_size": blueprint.width,
        "num_hidden_layers": blueprint.depth,
        "intermediate_size": 2 * blueprint.width,
        "classifier_proj_size": blueprint.width,
        "left_max_position_embeddings": 16,
        "right_max_position_embeddings": 16,
        "max_source_positions": 32,
        "conformer_conv_dropout": 0.0,
        "layerdrop": 0.0,
        "apply_spec_augment": False,
        "mask_time_prob": 0.0,
    }
    config = library().Wav2Vec2BertConfig(**{**named, **entries(blueprint.options)})
    model = library().Wav2Vec2BertForSequenceClassification(config)
    for layer in model.wav2vec2_bert.encoder.layers:
        layer.conv_module.glu = _Gate()
    return _Features(patch(model, blueprint, "wav2vec2_bert.encoder.layers"))


@fourth(
    "library-whisper",
    source="Radford et al. 2023, Robust speech recognition via large-scale weak supervision; "
    "transformers.WhisperForAudioClassification",
    draw=_draw(
        (1, 2),
        encoder_attention_heads=(2, 4),
        activation_function=("gelu", "relu"),
        dropout=(0.0, 0.1),
        classifier_proj_size=(32, 64),
        init_std=(0.02, 0.05),
    ),
    structural={
        **_BLOCK,
        **_acts("activation_function"),
        "no-positions": {"places": "none"},
        "initialisation-scale": drawn(init_std=_SCALES),
        "bottleneck": drawn(classifier_proj_size=(1,)),
    },
)
def library_whisper(blueprint: Blueprint, task: Task) -> nn.Module:
    """The encoder of Whisper: two convolutions, one of stride two, and a transformer with fixed positions."""
    config = library().WhisperConfig(
        num_labels=task.outputs,
        num_mel_bins=task.shape[1],
        d_model=blueprint.width,
        encoder_layers=blueprint.depth,
        encoder_ffn_dim=2 * blueprint.width,
        max_source_positions=task.shape[0] // 2,
        **entries(blueprint.options),
    )
    model = library().WhisperForAudioClassification(config)
    return _Features(patch(model, blueprint, "encoder.layers", "encoder.embed_positions"), transposed=True)


class _Forecast(nn.Module):
    """Autoformer, and the next values read from the sum of its seasonal part and its trend."""

    def __init__(self, model: nn.Module, steps: int, features: int) -> None:
        super().__init__()
        self.model, self.steps = model, steps
        self.head = nn.Linear(features, 1)

    def forward(self, series: Tensor) -> Tensor:
        past = series[..., 0]
        time = torch.linspace(-1, 1, past.shape[1] + self.steps).expand(len(past), -1)[..., None]
        found = self.model(
            past_values=past,
            past_time_features=time[:, : past.shape[1]],
            past_observed_mask=torch.ones_like(past),
            future_values=past.new_zeros(len(past), self.steps),  # only their number is read
            future_time_features=time[:, past.shape[1] :],
        )
        parts = found.last_hidden_state + found.trend
        answer: Tensor = found.loc + found.scale * self.head(parts[:, -self.steps :])[..., 0]
        return answer


@fourth(
    "library-autoformer",
    source="Wu et al. 2021, Autoformer: decomposition transformers with auto-correlation; transformers.AutoformerModel",
    draw=sizes(
        ("forecast",),
        (32, 48, 64),
        (1,),
        batches=(16,),
        heads=(2, 4),
        moving_average=(5, 9),
        autocorrelation_factor=(1, 3),
        activation_function=("gelu", "relu"),
        dropout=(0.0, 0.1),
        init_std=(0.02, 0.05),
    ),
    structural={
        **_NORMS,
        **_SKIPS,
        **_acts("activation_function"),
        "initialisation-scale": drawn(init_std=_SCALES),
        "window-too-small": {"moving_average": 1},
    },
)
def library_autoformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Autoformer: delays with the largest autocorrelation in the place of attention, moving averages between."""
    o = entries(blueprint.options)
    heads, width = o.pop("heads"), blueprint.width
    named: Options = {
        "prediction_length": task.outputs,
        "context_length": task.shape[0] - 3,
        "lags_sequence": [1, 2, 3],
    }
    for part in ("encoder", "decoder"):
        named |= {f"{part}_layers": blueprint.depth, f"{part}_ffn_dim": 2 * width, f"{part}_attention_heads": heads}
        named |= {f"{part}_layerdrop": 0.0}
    still = {"attention_dropout": 0.0, "activation_dropout": 0.0, "label_length": 6, "num_time_features": 1}
    config = library().AutoformerConfig(d_model=width, use_cache=False, **named, **still, **o)
    model = patch(library().AutoformerModel(config), blueprint, "encoder.layers")
    return _Forecast(model, task.outputs, config.feature_size)
