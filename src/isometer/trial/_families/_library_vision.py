"""Image classifiers of the package `transformers`."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn

from isometer.trial._families._draws import drawn, size
from isometer.trial._families._library import entries, library, patch
from isometer.trial._family import Blueprint, family, pick
from isometer.trial._tasks import Task

FAULTS = {
    "initialisation-scale": "the configuration's range of the initial weights is far too small or far too large",
    "norm-epsilon": "the epsilon of the norm is larger than what it normalises",
    "patch-size": "the patches are so large that a few of them cover the image",
    "layer-scale": "the branches are multiplied by next to nothing, or by far too much",
}
_SCALES = (1e-4, 0.5, 1.0)


class _Pixels(nn.Module):
    """A model of the library that takes pixels and returns logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(pixel_values=images).logits
        return logits


def _task(rng: np.random.Generator) -> str:
    return str(pick(rng, "fashion-mnist", "mnist", "cifar10"))


def _common(task: Task) -> dict[str, Any]:
    return {"num_channels": task.shape[0], "image_size": task.shape[1], "num_labels": task.outputs}


_TRANSFORMER: dict[str, Any] = {
    "no-skips": {"skip": 0.0},
    "skip-scaled": drawn(skip=(2.0, 3.0)),
    "no-norm": {"norms": "none"},
    "no-activation": {"hidden_act": "linear"},
    "wrong-activation": drawn(hidden_act=("sigmoid", "tanh")),
    "initialisation-scale": drawn(initializer_range=_SCALES),
    "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0)),
}


def _draw_vit(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4), largest=(112, 9))
    options = {
        "num_attention_heads": pick(rng, 2, 4),
        "hidden_act": pick(rng, "gelu", "relu"),
        "hidden_dropout_prob": pick(rng, 0.0, 0.1),
        "qkv_bias": pick(rng, True, False),
        "initializer_range": pick(rng, 0.02, 0.05),
        "patch_size": 0,
    }
    return Blueprint(_task(rng), width, depth, batch=16, options=options)


@family(
    "library-vit",
    source="Dosovitskiy et al. 2021, An image is worth 16x16 words; transformers.ViTForImageClassification",
    draw=_draw_vit,
    structural={
        **_TRANSFORMER,
        "score-scale": drawn(scores=(8.0, 15.0, 30.0)),
        "patch-size": {"patch_size": 12},
    },
)
def library_vit(blueprint: Blueprint, task: Task) -> nn.Module:
    """ViT with patches of two pixels, or four where the image allows."""
    o = entries(blueprint.options)
    o["patch_size"] = o["patch_size"] or (4 if task.shape[1] % 4 == 0 else 2)
    config = library().ViTConfig(
        hidden_size=blueprint.width,
        num_hidden_layers=blueprint.depth,
        intermediate_size=2 * blueprint.width,
        **_common(task),
        **o,
    )
    model = library().ViTForImageClassification(config)
    return _Pixels(patch(model, blueprint, "vit.layers" if hasattr(model.vit, "layers") else "vit.encoder.layer"))


def _draw_dinov2(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4), largest=(112, 9))
    options = {
        "num_attention_heads": pick(rng, 2, 4),
        "hidden_act": "gelu",
        "use_swiglu_ffn": pick(rng, True, False),
        "layerscale_value": pick(rng, 0.1, 1.0),
        "mlp_ratio": 2,
    }
    return Blueprint(_task(rng), width, depth, batch=16, options=options)


@family(
    "library-dinov2",
    source="Oquab et al. 2023, DINOv2; transformers.Dinov2ForImageClassification",
    draw=_draw_dinov2,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"norms": "none"},
        "layer-scale": drawn(layerscale_value=(1e-7, 30.0)),
        "initialisation-scale": drawn(initializer_range=_SCALES),
        "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0)),
        "score-scale": drawn(scores=(8.0, 15.0, 30.0)),
    },
)
def library_dinov2(blueprint: Blueprint, task: Task) -> nn.Module:
    """The backbone of DINOv2: scaled branches, the class token beside the mean of the patches."""
    config = library().Dinov2Config(
        hidden_size=blueprint.width,
        num_hidden_layers=blueprint.depth,
        patch_size=4 if task.shape[1] % 4 == 0 else 2,
        use_mask_token=False,
        **_common(task),
        **entries(blueprint.options),
    )
    return _Pixels(patch(library().Dinov2ForImageClassification(config), blueprint, "dinov2.encoder.layer"))


def _draw_swin(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(16, 24, 32), depths=(1, 2), largest=(64, 4))
    options = {
        "window_size": pick(rng, 2, 4),
        "hidden_act": pick(rng, "gelu", "relu"),
        "use_absolute_embeddings": pick(rng, True, False),
        "drop_path_rate": 0.0,
        "mlp_ratio": pick(rng, 2.0, 4.0),
        "initializer_range": pick(rng, 0.02, 0.05),
    }
    return Blueprint(_task(rng), width, depth, batch=16, options=options)


@family(
    "library-swin",
    source="Liu et al. 2021, Swin transformer; transformers.SwinForImageClassification",
    draw=_draw_swin,
    structural={
        "no-norm": {"norms": "none"},
        "no-activation": {"hidden_act": "linear"},
        "wrong-activation": drawn(hidden_act=("sigmoid", "tanh")),
        "initialisation-scale": drawn(initializer_range=_SCALES),
        "norm-epsilon": drawn(layer_norm_eps=(10.0, 100.0)),
        "score-scale": drawn(scores=(8.0, 15.0, 30.0)),
        "bottleneck": {"mlp_ratio": 0.07},
    },
)
def library_swin(blueprint: Blueprint, task: Task) -> nn.Module:
    """Swin in two stages."""
    config = library().SwinConfig(
        patch_size=2,
        embed_dim=blueprint.width,
        depths=[blueprint.depth, blueprint.depth],
        num_heads=[2, 4],
        **_common(task),
        **entries(blueprint.options),
    )
    return _Pixels(patch(library().SwinForImageClassification(config), blueprint, "swin.encoder.layers"))


def _draw_convnext(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(16, 24, 32), depths=(1, 2, 3), largest=(64, 3))
    options = {
        "hidden_act": pick(rng, "gelu", "relu"),
        "layer_scale_init_value": pick(rng, 0.1, 1.0),
        "initializer_range": pick(rng, 0.02, 0.1),
        "patch_size": 2,
    }
    return Blueprint(_task(rng), width, depth, batch=pick(rng, 16, 32), options=options)


@family(
    "library-convnext",
    source="Liu et al. 2022, A ConvNet for the 2020s; transformers.ConvNextForImageClassification",
    draw=_draw_convnext,
    structural={
        "no-norm": {"norms": "none"},
        "no-activation": {"hidden_act": "linear"},
        "wrong-activation": drawn(hidden_act=("sigmoid", "tanh")),
        "initialisation-scale": drawn(initializer_range=_SCALES),
        "layer-scale": drawn(layer_scale_init_value=(1e-6, 100.0)),
        "patch-size": {"patch_size": 6},
    },
)
def library_convnext(blueprint: Blueprint, task: Task) -> nn.Module:
    """ConvNeXt in two stages."""
    config = library().ConvNextConfig(
        num_stages=2,
        hidden_sizes=[blueprint.width, 2 * blueprint.width],
        depths=[blueprint.depth, blueprint.depth],
        **_common(task),
        **entries(blueprint.options),
    )
    return _Pixels(patch(library().ConvNextForImageClassification(config), blueprint, "convnext.encoder.stages"))


def _draw_resnet(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(16, 24, 32), depths=(1, 2, 3), largest=(64, 4))
    options = {
        "layer_type": pick(rng, "basic", "bottleneck"),
        "hidden_act": pick(rng, "relu", "silu"),
        "embedding_size": pick(rng, 8, 16),
    }
    return Blueprint(_task(rng), width, depth, batch=pick(rng, 16, 32), options=options)


@family(
    "library-resnet",
    source="He et al. 2016, Deep residual learning; transformers.ResNetForImageClassification",
    draw=_draw_resnet,
    structural={
        "no-norm": {"norms": "none"},
        "no-activation": {"hidden_act": "linear"},
        "wrong-activation": drawn(hidden_act=("sigmoid", "tanh")),
        "bottleneck": drawn(embedding_size=(1, 2)),
    },
)
def library_resnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """ResNet in two stages; its stem halves the image twice."""
    o = {**_common(task), **entries(blueprint.options)}
    o.pop("image_size")
    config = library().ResNetConfig(
        hidden_sizes=[blueprint.width, 2 * blueprint.width], depths=[blueprint.depth, blueprint.depth], **o
    )
    return _Pixels(patch(library().ResNetForImageClassification(config), blueprint, "resnet.encoder.stages"))


def _draw_poolformer(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(16, 24, 32), depths=(1, 2, 3), largest=(64, 5))
    options = {
        "hidden_act": pick(rng, "gelu", "relu"),
        "layer_scale_init_value": pick(rng, 0.1, 1.0),
        "pool_size": pick(rng, 3, 3, 5),
        "mlp_ratio": pick(rng, 2.0, 4.0),
        "use_layer_scale": True,
    }
    return Blueprint(_task(rng), width, depth, batch=16, options=options)


@family(
    "library-poolformer",
    source="Yu et al. 2022, MetaFormer is actually what you need; transformers.PoolFormerForImageClassification",
    draw=_draw_poolformer,
    structural={
        "no-norm": {"norms": "none"},
        "no-activation": {"hidden_act": "linear"},
        "wrong-activation": drawn(hidden_act=("sigmoid", "tanh")),
        "layer-scale": drawn(layer_scale_init_value=(1e-7, 100.0)),
        "initialisation-scale": drawn(initializer_range=_SCALES),
        "bottleneck": {"mlp_ratio": 0.07},
    },
)
def library_poolformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """PoolFormer in two stages: averages in the place of attention."""
    o = {**_common(task), "initializer_range": 0.1, **entries(blueprint.options)}
    o.pop("image_size")
    config = library().PoolFormerConfig(
        hidden_sizes=[blueprint.width, 2 * blueprint.width],
        depths=[blueprint.depth, blueprint.depth],
        patch_sizes=[3, 3],
        strides=[2, 2],
        padding=[1, 1],
        num_encoder_blocks=2,
        **o,
    )
    return _Pixels(patch(library().PoolFormerForImageClassification(config), blueprint, "poolformer.encoder"))
