"""Models of the package `transformers` for pictures and spectra, for the third round, a few lines each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._library import entries, library, patch
from isometer.trial._families._library_vision import _SCALES, _common, _Pixels
from isometer.trial._families._second import IMAGES, sizes
from isometer.trial._families._third import third
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS = {
    "keys-too-few": "keys and values are averaged or skipped until a few are left",
}
_PICTURES = (*IMAGES, "locate")
_SMALL = ("gratings", "locate")
_NO_NORM: Options = {"no-norm": {"norms": "none"}}
_SKIPS: Options = {"no-skips": {"skip": 0.0}, "skip-scaled": drawn(skip=(2.0, 3.0))}
_ACTS: Options = {"no-activation": {"hidden_act": "linear"}, "wrong-activation": drawn(hidden_act=("sigmoid", "tanh"))}
_RANGE: Options = {"initialisation-scale": drawn(initializer_range=_SCALES)}
_EPSILON: Options = {"norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0))}
_SCORES: Options = {"score-scale": drawn(scores=(8.0, 15.0, 30.0))}


def _classifier(
    name: str, layers: str, more: Callable[[Blueprint, Task], Options]
) -> Callable[[Blueprint, Task], nn.Module]:
    def build(blueprint: Blueprint, task: Task) -> nn.Module:
        named = {**_common(task), **more(blueprint, task), **entries(blueprint.options)}
        config = getattr(library(), f"{name}Config")(**named)
        return _Pixels(patch(getattr(library(), f"{name}ForImageClassification")(config), blueprint, layers))

    build.__doc__ = f"{name} of the library."
    return build


def _register(
    name: str,
    source: str,
    build: Callable[[Blueprint, Task], nn.Module],
    structural: Options,
    *,
    widths: tuple[int, ...] = (16, 24),
    depths: tuple[int, ...] = (1,),
    tasks: tuple[str, ...] = _PICTURES,
    **choices: tuple[Any, ...],
) -> None:
    draw = sizes(tasks, widths, depths, batches=(16,), **choices)
    third(name, source=source, draw=draw, structural=structural)(build)


def _plain(blueprint: Blueprint, task: Task) -> Options:
    """Entries of models of one stage."""
    width = blueprint.width
    return {"hidden_size": width, "num_hidden_layers": blueprint.depth, "intermediate_size": 2 * width}


def _cvt(blueprint: Blueprint, task: Task) -> Options:
    o = blueprint.options
    return {
        "patch_sizes": [3],
        "patch_stride": [2],
        "patch_padding": [1],
        "embed_dim": [blueprint.width],
        "num_heads": [o["heads"]],
        "depth": [blueprint.depth],
        "mlp_ratio": [2.0],
        "attention_drop_rate": [0.0],
        "drop_rate": [0.0],
        "drop_path_rate": [0.0],
        "qkv_bias": [o["bias"]],
        "cls_token": [True],
        "qkv_projection_method": ["dw_bn"],
        "kernel_qkv": [3],
        "padding_kv": [1],
        "stride_kv": [o["step"]],
        "padding_q": [1],
        "stride_q": [1],
    }


_register(
    "library-cvt",
    "Wu et al. 2021, CvT: introducing convolutions to vision transformers; transformers.CvtForImageClassification",
    _classifier("Cvt", "cvt.encoder.stages.0.layers", _cvt),
    {**_NO_NORM, **_RANGE, **_SCORES, "keys-too-few": {"step": 7}},
    widths=(16, 24, 32),
    heads=(1, 2),
    step=(1, 2),
    bias=(True, False),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-hiera",
    "Ryali et al. 2023, Hiera: a hierarchical vision transformer without the bells-and-whistles; "
    "transformers.HieraForImageClassification",
    _classifier(
        "Hiera",
        "hiera.encoder.stages.0.layers",
        lambda b, task: {
            "image_size": list(task.shape[1:]),
            "patch_size": [3, 3],
            "patch_stride": [2, 2],
            "patch_padding": [1, 1],
            "embed_dim": b.width,
            "depths": [b.depth, b.depth],
            "num_heads": [b.options["heads"], 2 * b.options["heads"]],
            "num_query_pool": 1,
            "masked_unit_size": [2, 2],
            "masked_unit_attention": [b.options["local"], False],
        },
    ),
    {**_NO_NORM, **_ACTS, **_RANGE, **_EPSILON, **_SCORES, "bottleneck": {"mlp_ratio": 0.07}},
    widths=(16, 24, 32),
    tasks=_SMALL,
    heads=(1, 2),
    local=(True, False),
    mlp_ratio=(2.0, 4.0),
    hidden_act=("gelu", "relu"),
    initializer_range=(0.02, 0.05),
)


def _hgnet(blueprint: Blueprint, task: Task) -> Options:
    width = blueprint.width
    return {
        "stem_channels": [task.shape[0], width, width],
        "stem_strides": [2, 1, 1, 1, 1],
        "depths": [1],
        "hidden_sizes": [2 * width],
        "stage_in_channels": [width],
        "stage_mid_channels": [width],
        "stage_out_channels": [2 * width],
        "stage_num_blocks": [1],
        "stage_downsample": [False],
        "stage_downsample_strides": [2],
        "stage_light_block": [blueprint.options["light"]],
        "stage_kernel_size": [blueprint.options["kernel"]],
        "stage_numb_of_layers": [blueprint.depth],
    }


_register(
    "library-hgnet-v2",
    "Cui et al. 2021, Beyond self-supervision, PP-HGNetV2; transformers.HGNetV2ForImageClassification",
    _classifier("HGNetV2", "", _hgnet),
    {**_NO_NORM, **_ACTS},
    widths=(8, 16),
    depths=(1, 2),
    light=(True, False),
    kernel=(3, 5),
    use_learnable_affine_block=(True, False),
    hidden_act=("relu", "silu"),
)


class _Spectrum(nn.Module):
    """A model of the library that takes a spectrum over time and returns logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, series: Tensor) -> Tensor:
        logits: Tensor = self.model(input_values=series).logits
        return logits


def _ast(blueprint: Blueprint, task: Task) -> nn.Module:
    """The audio spectrogram transformer: patches of time and frequency, which overlap."""
    side = min(blueprint.options["side"], task.shape[1])
    named = {
        **_plain(blueprint, task),
        "num_labels": task.outputs,
        "max_length": task.shape[0],
        "num_mel_bins": task.shape[1],
        "patch_size": side,
        "time_stride": max(2, side // 2),
        "frequency_stride": max(1, side // 2),
    }
    config = library().ASTConfig(**{**named, **entries(blueprint.options)})
    return _Spectrum(
        patch(library().ASTForAudioClassification(config), blueprint, "audio_spectrogram_transformer.layers")
    )


_register(
    "library-ast",
    "Gong et al. 2021, AST: audio spectrogram transformer; transformers.ASTForAudioClassification",
    _ast,
    {**_NO_NORM, **_SKIPS, **_ACTS, **_RANGE, **_EPSILON, **_SCORES},
    widths=(32, 48, 64),
    depths=(1, 2),
    tasks=("rhythms", "rhythms", "forecast", "rows"),
    num_attention_heads=(2, 4),
    side=(4, 6),
    qkv_bias=(True, False),
    hidden_act=("gelu", "relu"),
    initializer_range=(0.02, 0.05),
)
