"""Further models of the package `transformers` for pictures and series, a few lines each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._library import entries, library, patch
from isometer.trial._families._library_vision import _SCALES, _common, _Pixels
from isometer.trial._families._second import IMAGES, second, sizes
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

_NO_NORM: Options = {"no-norm": {"norms": "none"}}
_ACTS: Options = {"no-activation": {"hidden_act": "linear"}, "wrong-activation": drawn(hidden_act=("sigmoid", "tanh"))}
_RANGE: Options = {"initialisation-scale": drawn(initializer_range=_SCALES)}


def _classifier(
    name: str, more: Callable[[Blueprint], Options], layers: str = ""
) -> Callable[[Blueprint, Task], nn.Module]:
    def build(blueprint: Blueprint, task: Task) -> nn.Module:
        named = {**_common(task), **more(blueprint), **entries(blueprint.options)}
        config = getattr(library(), f"{name}Config")(**named)
        return _Pixels(patch(getattr(library(), f"{name}ForImageClassification")(config), blueprint, layers))

    build.__doc__ = f"{name} of the library."
    return build


def _two_stages(b: Blueprint) -> Options:
    return {"hidden_sizes": [b.width, 2 * b.width], "depths": [b.depth, b.depth]}


def _register(
    name: str,
    source: str,
    build: Callable[[Blueprint, Task], nn.Module],
    structural: Options,
    widths: tuple[int, ...] = (16, 24),
    depths: tuple[int, ...] = (1, 2),
    tasks: tuple[str, ...] = IMAGES,
    **choices: tuple[Any, ...],
) -> None:
    draw = sizes(tasks, widths, depths, batches=(16,), **choices)
    second(name, source=source, draw=draw, structural=structural)(build)


_register(
    "library-regnet",
    "Radosavovic et al. 2020, Designing network design spaces; transformers.RegNetForImageClassification",
    _classifier("RegNet", lambda b: {**_two_stages(b), "downsample_in_first_stage": False}),
    {**_NO_NORM, **_ACTS, "groups-wrong": {"groups_width": 1}},
    layer_type=("x", "y"),
    embedding_size=(8, 16),
    groups_width=(4, 8),
    hidden_act=("relu", "silu"),
)
_register(
    "library-focalnet",
    "Yang et al. 2022, Focal modulation networks; transformers.FocalNetForImageClassification",
    _classifier(
        "FocalNet",
        lambda b: {
            "embed_dim": b.width,
            **_two_stages(b),
            "focal_levels": [2, 2],
            "focal_windows": [3, 3],
            "patch_size": 2,
            "drop_path_rate": 0.0,
        },
    ),
    {
        **_NO_NORM,
        **_ACTS,
        **_RANGE,
        "layer-scale": drawn(layerscale_value=(1e-7, 30.0), use_layerscale=(True,)),
        "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0)),
    },
    depths=(1,),
    hidden_act=("gelu", "relu"),
    mlp_ratio=(2.0, 4.0),
    normalize_modulator=(True, False),
    use_post_layernorm=(True, False),
    initializer_range=(0.05, 0.1),
)
_register(
    "library-bit",
    "Kolesnikov et al. 2020, Big transfer; transformers.BitForImageClassification",
    _classifier("Bit", lambda b: {**_two_stages(b), "num_groups": 4}),
    {**_NO_NORM, **_ACTS, "bottleneck": {"embedding_size": 4, "num_groups": 1}},
    widths=(16, 32),
    layer_type=("preactivation", "bottleneck"),
    embedding_size=(8, 16),
    hidden_act=("relu", "silu"),
)
_register(
    "library-pvt-v2",
    "Wang et al. 2022, PVT v2; transformers.PvtV2ForImageClassification",
    _classifier(
        "PvtV2",
        lambda b: {
            **_two_stages(b),
            "num_encoder_blocks": 2,
            "sr_ratios": [2, 1],
            "patch_sizes": [3, 3],
            "strides": [2, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
        },
    ),
    {**_NO_NORM, **_ACTS, **_RANGE, "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0))},
    hidden_act=("gelu", "relu"),
    linear_attention=(True, False),
    qkv_bias=(True, False),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-convnextv2",
    "Woo et al. 2023, ConvNeXt V2; transformers.ConvNextV2ForImageClassification",
    _classifier("ConvNextV2", lambda b: {**_two_stages(b), "num_stages": 2}),
    {**_NO_NORM, **_ACTS, **_RANGE, "patch-size": {"patch_size": 6}},
    patch_size=(2, 3),
    hidden_act=("gelu", "relu"),
    drop_path_rate=(0.0, 0.1),
    initializer_range=(0.05, 0.1),
)


class _Mixed(nn.Module):
    """The mixer's forecast of one series, or its classes."""

    def __init__(self, model: nn.Module, classes: bool) -> None:
        super().__init__()
        self.model, self.classes = model, classes

    def forward(self, series: Tensor) -> Tensor:
        out = self.model(past_values=series)
        answer: Tensor = out.prediction_outputs if self.classes else out.prediction_outputs.squeeze(-1)
        return answer


def _tsmixer(blueprint: Blueprint, task: Task) -> nn.Module:
    """PatchTSMixer for forecasts, and as a classifier of series."""
    classes = task.objective == "classes"
    config = library().PatchTSMixerConfig(
        num_input_channels=task.shape[1],
        context_length=task.shape[0],
        prediction_length=task.outputs,
        num_targets=task.outputs,
        d_model=blueprint.width,
        num_layers=blueprint.depth,
        dropout=0.0,
        head_dropout=0.0,
        **entries(blueprint.options),
    )
    name = "PatchTSMixerForTimeSeriesClassification" if classes else "PatchTSMixerForPrediction"
    return _Mixed(patch(getattr(library(), name)(config), blueprint, "model.encoder.mlp_mixer_encoder.mixers"), classes)


_register(
    "library-patchtsmixer",
    "Ekambaram et al. 2023, TSMixer; transformers.PatchTSMixerForPrediction",
    _tsmixer,
    {
        **_NO_NORM,
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "initialisation-scale": drawn(init_std=_SCALES),
        "patch-size": {"patch_length": 2, "patch_stride": 12},
    },
    widths=(16, 32, 48),
    depths=(1, 2, 3),
    tasks=("forecast", "forecast", "rhythms"),
    patch_length=(4, 6, 8),
    patch_stride=(2, 4),
    gated_attn=(True, False),
    norm_mlp=("LayerNorm", "BatchNorm"),
    scaling=("std", None),
)
