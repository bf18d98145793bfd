"""Networks that the papers train, built with one vocabulary of activations, normalisations and initialisers."""

from isometer.nn.architectures.alexnet import deep_alexnet
from isometer.nn.architectures.mlp import mlp
from isometer.nn.architectures.parts import ACTIVATIONS, INITIALIZERS, NORMS
from isometer.nn.architectures.resnet import Bottleneck, FixupBlock, ResidualBlock, resnet
from isometer.nn.architectures.vgg import vgg

__all__ = [
    "ACTIVATIONS",
    "INITIALIZERS",
    "NORMS",
    "Bottleneck",
    "FixupBlock",
    "ResidualBlock",
    "deep_alexnet",
    "mlp",
    "resnet",
    "vgg",
]
