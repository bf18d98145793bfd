"""Multilayer perceptrons, sick and healthy."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import nn

from isometer.doctor.patients._inputs import Shape, repeated
from isometer.doctor.patients._layers import Recentre, Residual, Scaled, initialise_
from isometer.doctor.patients._patient import Build, Patient, seeded

HE = math.sqrt(2)


def mlp(
    depth: int,
    *,
    width: int = 100,
    activation: Callable[[int], nn.Module] | type[nn.Module] = nn.ReLU,
    law: str = "gaussian",
    gain: float = HE,
    bias: float = 0.0,
    norm: Callable[[int], nn.Module] | None = None,
) -> Build:
    """A plain perceptron: `depth` hidden layers of linear map, normalisation and activation, then a linear head.

    Args:
        depth: number of hidden layers.
        width: width of each of them.
        activation: a module class, or a function of the layer's number (from 1).
        law: law of the weights, see `initialise_`.
        gain: gain of the weights.
        bias: bias of every hidden unit.
        norm: makes a normalisation from the width; none by default.

    Example:
        >>> len(mlp(3)(0, (784,), 10))
        7
    """

    def factory(shape: Shape, classes: int) -> nn.Module:
        layers: list[nn.Module] = []
        for index in range(depth):
            linear = nn.Linear(width if index else shape[0], width)
            initialise_(linear, law, gain, bias)
            function = activation() if isinstance(activation, type) else activation(index + 1)
            layers += [linear, *([] if norm is None else [norm(width)]), function]
        head = nn.Linear(width, classes)
        initialise_(head, "default" if law == "default" else "gaussian")
        return nn.Sequential(*layers, head)

    return seeded(factory)


def residual_mlp(depth: int, *, width: int = 100, normalised: bool = True, gain: float = HE) -> Build:
    """A residual perceptron: a linear stem, `depth` branches of layer norm, ReLU and a linear map, and a linear head.

    Args:
        depth: number of branches.
        width: width of each of them.
        normalised: whether there is layer norm, in the branches and before the head.
        gain: gain of the weights.

    Example:
        >>> len(residual_mlp(3)(0, (784,), 10))
        6
    """

    def norm() -> list[nn.Module]:
        return [nn.LayerNorm(width)] if normalised else []

    def factory(shape: Shape, classes: int) -> nn.Module:
        stem, head = nn.Linear(shape[0], width), nn.Linear(width, classes)
        initialise_(stem, "gaussian")
        initialise_(head, "gaussian")
        blocks = []
        for _ in range(depth):
            linear = nn.Linear(width, width)
            initialise_(linear, "gaussian", gain)
            blocks.append(Residual(nn.Sequential(*norm(), nn.ReLU(), linear)))
        return nn.Sequential(stem, *blocks, *norm(), head)

    return seeded(factory)


def _shaped_tanh(layer: int) -> nn.Module:
    """tanh of a gain that falls with depth, 001/act-gain."""
    return Scaled(nn.Tanh(), inner=layer**-0.4)


def _recentre(width: int) -> nn.Module:
    return Recentre()


HEALTHY = (
    Patient("mlp-relu-5", "ReLU perceptron of depth 5 at the gain of He", (), "mlp", mlp(5), "flat"),
    Patient("mlp-relu-10", "ReLU perceptron of depth 10 at the gain of He", (), "mlp", mlp(10), "flat"),
    Patient(
        "mlp-tanh-5",
        "tanh perceptron of depth 5 at the edge of chaos",
        (),
        "mlp",
        mlp(5, activation=nn.Tanh, gain=1.05),
        "flat",
    ),
    Patient(
        "mlp-tanh-20",
        "tanh perceptron of depth 20 at the edge of chaos",
        (),
        "mlp",
        mlp(20, activation=nn.Tanh, gain=1.05),
        "flat",
    ),
    Patient(
        "mlp-tanh-orthogonal-50",
        "tanh perceptron of depth 50 with orthogonal weights at the edge of chaos",
        (),
        "mlp",
        mlp(50, activation=nn.Tanh, gain=1.02, law="orthogonal"),
        "flat",
    ),
    Patient(
        "mlp-bn-10", "ReLU perceptron of depth 10 with batch norm", (), "mlp", mlp(10, norm=nn.BatchNorm1d), "flat"
    ),
    Patient(
        "mlp-bn-orthogonal-50",
        "perceptron of depth 50 with orthogonal weights, batch norm and tanh of falling gain",
        (),
        "mlp",
        mlp(50, activation=_shaped_tanh, law="orthogonal", gain=1.0, norm=nn.BatchNorm1d),
        "flat",
        samples=64,
    ),
    Patient("mlp-residual-50", "residual perceptron of depth 50 with layer norm", (), "mlp", residual_mlp(50), "flat"),
    Patient(
        "mlp-residual-100", "residual perceptron of depth 100 with layer norm", (), "mlp", residual_mlp(100), "flat"
    ),
)

SICK = (
    Patient(
        "mlp-relu-50",
        "ReLU perceptron of depth 50 at the gain of He: all samples become parallel",
        ("rank-collapse", "gradient-alignment"),
        "mlp",
        mlp(50),
        "flat",
        "mlp-residual-50",
    ),
    Patient(
        "mlp-relu-100",
        "ReLU perceptron of depth 100 at the gain of He: all samples become parallel",
        ("rank-collapse", "gradient-alignment"),
        "mlp",
        mlp(100),
        "flat",
        "mlp-residual-100",
    ),
    Patient(
        "mlp-relu-default-10",
        "ReLU perceptron of depth 10 as PyTorch initialises it",
        ("wrong-gain", "rank-collapse"),
        "mlp",
        mlp(10, law="default"),
        "flat",
        "mlp-relu-10",
    ),
    Patient(
        "mlp-relu-small-gain-10",
        "ReLU perceptron of depth 10 with a third of the gain of He",
        ("wrong-gain", "activation-vanishing", "gradient-vanishing"),
        "mlp",
        mlp(10, gain=HE / 3),
        "flat",
        "mlp-relu-10",
    ),
    Patient(
        "mlp-relu-large-gain-10",
        "ReLU perceptron of depth 10 with four times the gain of He; activations leave the range of float16",
        ("wrong-gain", "activation-explosion", "gradient-explosion"),
        "mlp",
        mlp(10, gain=4 * HE),
        "flat",
        "mlp-relu-10",
    ),
    Patient(
        "mlp-tanh-small-gain-20",
        "tanh perceptron of depth 20 with half the critical gain",
        ("wrong-gain", "activation-vanishing", "gradient-vanishing"),
        "mlp",
        mlp(20, activation=nn.Tanh, gain=0.5),
        "flat",
        "mlp-tanh-20",
    ),
    Patient(
        "mlp-tanh-linear-5",
        "tanh perceptron of depth 5 with a twentieth of the critical gain: tanh is used where it is straight",
        ("effectively-linear", "activation-vanishing", "wrong-gain"),
        "mlp",
        mlp(5, activation=nn.Tanh, gain=0.05),
        "flat",
        "mlp-tanh-5",
    ),
    Patient(
        "mlp-tanh-large-gain-20",
        "tanh perceptron of depth 20 with five times the critical gain: chaotic, gradients explode",
        ("wrong-gain", "saturation", "gradient-explosion"),
        "mlp",
        mlp(20, activation=nn.Tanh, gain=5.0),
        "flat",
        "mlp-tanh-20",
    ),
    Patient(
        "mlp-sigmoid-20",
        "sigmoid perceptron of depth 20: constant activations, vanishing gradients",
        ("rank-collapse", "gradient-vanishing"),
        "mlp",
        mlp(20, activation=nn.Sigmoid, gain=1.0),
        "flat",
        "mlp-tanh-20",
    ),
    Patient(
        "mlp-bn-50",
        "ReLU perceptron of depth 50 with batch norm and Gaussian weights",
        ("gradient-explosion",),
        "mlp",
        mlp(50, norm=nn.BatchNorm1d),
        "flat",
        "mlp-bn-orthogonal-50",
        samples=64,
    ),
    Patient(
        "mlp-bn-small-batch-10",
        "ReLU perceptron of depth 10 with batch norm over 4 samples",
        ("small-batch-bn",),
        "mlp",
        mlp(10, norm=nn.BatchNorm1d),
        "flat",
        "mlp-bn-10",
        samples=4,
    ),
    Patient(
        "mlp-bn-repeated-10",
        "ReLU perceptron of depth 10 with batch norm, on batches of 2 samples repeated 16 times",
        ("degenerate-batch",),
        "mlp",
        mlp(10, norm=nn.BatchNorm1d),
        "flat",
        "mlp-bn-10",
        defect=repeated(2),
    ),
    Patient(
        "mlp-bn-asymmetric-50",
        "ReLU perceptron of depth 50 with batch norm and positive weights",
        ("asymmetric-init", "rank-collapse"),
        "mlp",
        mlp(50, norm=nn.BatchNorm1d, law="asymmetric"),
        "flat",
        "mlp-bn-orthogonal-50",
        samples=64,
    ),
    Patient(
        "mlp-recentred-100",
        "ReLU perceptron of depth 100 that recentres over the batch and never rescales",
        ("odd-point",),
        "mlp",
        mlp(100, norm=_recentre),
        "flat",
        "mlp-residual-100",
    ),
    Patient(
        "mlp-dead-10",
        "ReLU perceptron of depth 10 with biases of -2",
        ("dead-units",),
        "mlp",
        mlp(10, bias=-2.0),
        "flat",
        "mlp-relu-10",
    ),
    Patient(
        "mlp-always-on-10",
        "ReLU perceptron of depth 10 with large positive biases and small weights: almost every unit is always on",
        ("rank-collapse", "gradient-vanishing"),
        "mlp",
        mlp(10, gain=0.4, bias=3.0),
        "flat",
        "mlp-relu-10",
    ),
    Patient(
        "mlp-residual-unscaled-50",
        "residual perceptron of depth 50 without normalisation or scaling of its branches",
        ("activation-explosion", "gradient-explosion"),
        "mlp",
        residual_mlp(50, normalised=False),
        "flat",
        "mlp-residual-50",
    ),
)
