"""Image models of the package `transformers` for the fourth round, a few lines each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._fourth import fourth
from isometer.trial._families._library import entries, library, patch
from isometer.trial._families._library_vision import _SCALES, _common, _Pixels
from isometer.trial._families._second import IMAGES, sizes
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

_PICTURES = (*IMAGES, "locate")
_OWN = ("step", "ratio", "heads", "kernel", "narrow")
"""Options that are no entries of a configuration under that name."""
_NO_NORM: Options = {"no-norm": {"norms": "none"}}
_ACTS: Options = {"no-activation": {"hidden_act": "linear"}, "wrong-activation": drawn(hidden_act=("sigmoid", "tanh"))}
_RANGE: Options = {"initialisation-scale": drawn(initializer_range=_SCALES)}
_EPSILON: Options = {"norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0))}
_SCORES: Options = {"score-scale": drawn(scores=(8.0, 15.0, 30.0))}


def _classifier(name: str, more: Callable[[Blueprint, Task], Options]) -> Callable[[Blueprint, Task], nn.Module]:
    def build(blueprint: Blueprint, task: Task) -> nn.Module:
        own = {name: value for name, value in entries(blueprint.options).items() if name not in _OWN}
        config = getattr(library(), f"{name}Config")(**{**_common(task), **more(blueprint, task), **own})
        model = getattr(library(), f"{name}ForImageClassification")(config)
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                module.inplace = False  # what comes before it may need its own output
        return _Pixels(patch(model, blueprint, ""))

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
    fourth(name, source=source, draw=draw, structural=structural)(build)


_register(
    "library-swinv2",
    "Liu et al. 2022, Swin transformer V2: scaling up capacity and resolution; "
    "transformers.Swinv2ForImageClassification",
    _classifier(
        "Swinv2",
        lambda b, task: {
            "patch_size": 2,
            "embed_dim": b.width,
            "depths": [b.depth, b.depth],
            "num_heads": [b.options["heads"], 2 * b.options["heads"]],
            "drop_path_rate": 0.0,
        },
    ),
    {**_NO_NORM, **_ACTS, **_RANGE, **_EPSILON, "bottleneck": {"mlp_ratio": 0.07}},
    tasks=IMAGES,
    heads=(1, 2),
    window_size=(2, 3),
    mlp_ratio=(2.0, 4.0),
    qkv_bias=(True, False),
    hidden_act=("gelu", "relu"),
    initializer_range=(0.02, 0.05),
)
_register(
    "library-segformer",
    "Xie et al. 2021, SegFormer: its encoder with a head for classes; transformers.SegformerForImageClassification",
    _classifier(
        "Segformer",
        lambda b, task: {
            "num_encoder_blocks": 2,
            "depths": [b.depth, b.depth],
            "sr_ratios": [b.options["step"], 1],
            "hidden_sizes": [b.width, 2 * b.width],
            "patch_sizes": [3, 3],
            "strides": [2, 2],
            "num_attention_heads": [b.options["heads"], 2 * b.options["heads"]],
            "mlp_ratios": [b.options["ratio"], b.options["ratio"]],
            "drop_path_rate": 0.0,
        },
    ),
    {**_NO_NORM, **_ACTS, **_RANGE, **_SCORES, "keys-too-few": {"step": 6}},
    heads=(1, 2),
    step=(1, 2),
    ratio=(2, 4),
    hidden_act=("gelu", "relu"),
    initializer_range=(0.02, 0.05),
)


def _textnet(blueprint: Blueprint, task: Task) -> Options:
    o, width = blueprint.options, blueprint.width
    tall, long = [o["kernel"], 1], [1, o["kernel"]]
    square = [o["kernel"], o["kernel"]]
    return {
        "stem_num_channels": task.shape[0],
        "stem_out_channels": o.get("narrow", width),
        "hidden_sizes": [o.get("narrow", width), width, 2 * width],
        "conv_layer_kernel_sizes": [[square] * blueprint.depth, [square, *[tall, long][: blueprint.depth]]],
        "conv_layer_strides": [[1] * blueprint.depth, [o["step"], *[1, 1][: blueprint.depth]]],
    }


_register(
    "library-textnet",
    "Chen et al. 2021, FAST: faster arbitrarily-shaped text detector, TextNet; "
    "transformers.TextNetForImageClassification",
    _classifier("TextNet", _textnet),
    {
        **_NO_NORM,
        "norm-epsilon": drawn(batch_norm_eps=(10.0, 100.0)),
        "initialisation-scale": drawn(initializer_range=_SCALES),
        "stride-too-large": {"step": 6},
        "bottleneck": drawn(narrow=(1,)),
    },
    widths=(8, 16),
    depths=(1, 2),
    tasks=IMAGES,
    kernel=(3,),
    step=(1, 2),
    initializer_range=(0.02, 0.05),
)
