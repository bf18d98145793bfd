"""Torch modules: networks of a spec, batch norm in its parts, activations, and adaptive gradient clipping."""

import isometer.extras.torch_needed  # noqa: F401
from isometer.nn._activation import Activation, NormReLU
from isometer.nn._clipping import AdaptiveClipping
from isometer.nn._network import Layer, Network, build
from isometer.nn._normalization import BatchNormParts, SampleNorm, Whitening
from isometer.nn._shaping import GainFit, fit_gain, shaped_activations

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
