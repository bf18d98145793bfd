"""Infinite width: kernel maps, fixed points, length maps and phases, NNGP and NTK, bounds, activation shaping."""

from isometer.theory.conditioning import BoundCheck, Diagnosis, bound_quantities, conditioning_bounds, diagnose
from isometer.theory.depth_free import SphereKernel
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
from isometer.theory.jacobians import JacobianMoments, jacobian_moments
from isometer.theory.kernel_maps import KNIFE_EDGE, KernelMap, KernelPath, kernel_map
from isometer.theory.kernels import Batch, KernelMatrix, kernel_matrices, kernel_matrix
from isometer.theory.length_maps import LengthMap, SignalFamily, length_bound, length_contraction, settling_depth
from isometer.theory.phase import EdgeOfChaos, PhaseDiagram, PhasePoint, edge_of_chaos, phase_diagram, phase_point
from isometer.theory.shaping import ShapedActivation, length_slope, shape_activation, tailored_leaky_relu

__all__ = [
    "KNIFE_EDGE",
    "Batch",
    "BoundCheck",
    "DepthOutlook",
    "Diagnosis",
    "EdgeOfChaos",
    "Explanation",
    "GramChain",
    "JacobianMoments",
    "KernelMap",
    "KernelMatrix",
    "KernelPath",
    "LengthMap",
    "PhaseDiagram",
    "PhasePoint",
    "ShapedActivation",
    "SignalFamily",
    "SpectrumMap",
    "SphereKernel",
    "bound_quantities",
    "conditioning_bounds",
    "diagnose",
    "edge_of_chaos",
    "explain",
    "gram_chain",
    "gram_map",
    "jacobian_moments",
    "kernel_map",
    "kernel_matrices",
    "kernel_matrix",
    "length_bound",
    "length_contraction",
    "length_slope",
    "phase_diagram",
    "phase_point",
    "ratio_expectation",
    "settling_depth",
    "shape_activation",
    "smallest_share_bound",
    "spectrum_chain",
    "spectrum_map",
    "tailored_leaky_relu",
]
