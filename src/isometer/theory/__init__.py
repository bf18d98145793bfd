"""Infinite width: kernel maps, fixed points and their cases, published bounds, activation shaping."""

from isometer.theory.explanation import DepthOutlook, Explanation, explain
from isometer.theory.kernel_maps import KNIFE_EDGE, KernelMap, KernelPath, kernel_map
from isometer.theory.shaping import ShapedActivation, length_slope, shape_activation, tailored_leaky_relu

__all__ = [
    "KNIFE_EDGE",
    "DepthOutlook",
    "Explanation",
    "KernelMap",
    "KernelPath",
    "ShapedActivation",
    "explain",
    "kernel_map",
    "length_slope",
    "shape_activation",
    "tailored_leaky_relu",
]
