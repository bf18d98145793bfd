"""Torch modules: networks of a spec, batch norm in its parts, activations, and adaptive gradient clipping."""

import isometer.extras.torch_needed  # noqa: F401
from isometer.nn.activation import Activation, NormReLU
from isometer.nn.clipping import AdaptiveClipping
from isometer.nn.network import Layer, Network, build
from isometer.nn.normalization import BatchNormParts, SampleNorm, Whitening
from isometer.nn.shaping import GainFit, fit_gain, shaped_activations

__all__ = [
    "Activation",
    "AdaptiveClipping",
    "BatchNormParts",
    "GainFit",
    "Layer",
    "Network",
    "NormReLU",
    "SampleNorm",
    "Whitening",
    "build",
    "fit_gain",
    "shaped_activations",
]
