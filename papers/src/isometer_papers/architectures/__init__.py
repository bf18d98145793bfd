"""Networks that the papers train, built with one vocabulary of activations, normalisations and initialisers."""

from isometer_papers.architectures.alexnet import deep_alexnet
from isometer_papers.architectures.mlp import mlp
from isometer_papers.architectures.parts import ACTIVATIONS, INITIALIZERS, NORMS
from isometer_papers.architectures.resnet import Bottleneck, FixupBlock, ResidualBlock, resnet
from isometer_papers.architectures.vgg import vgg

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
