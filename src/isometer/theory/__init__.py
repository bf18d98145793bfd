"""Infinite width: kernel maps, fixed points and their cases, published bounds, activation shaping."""

from isometer.theory.explanation import DepthOutlook, Explanation, explain
from isometer.theory.gram_maps import (
    GramChain,
    SpectrumMap,
    gram_chain,
    gram_map,
    ratio_expectation,
    smallest_share_bound,
    spectrum_chain,
    spectrum_map,
)
from isometer.theory.kernel_maps import KNIFE_EDGE, KernelMap, KernelPath, kernel_map
from isometer.theory.shaping import ShapedActivation, length_slope, shape_activation, tailored_leaky_relu

__all__ = [
    "KNIFE_EDGE",
    "DepthOutlook",
    "Explanation",
    "GramChain",
    "KernelMap",
    "KernelPath",
    "ShapedActivation",
    "SpectrumMap",
    "explain",
    "gram_chain",
    "gram_map",
    "kernel_map",
    "length_slope",
    "ratio_expectation",
    "shape_activation",
    "smallest_share_bound",
    "spectrum_chain",
    "spectrum_map",
    "tailored_leaky_relu",
]
