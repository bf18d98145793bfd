"""Infinite width: kernel maps, fixed points, length maps and phases, NNGP and NTK, bounds, activation shaping."""

from isometer.theory.kernels._inputs import Batch
from isometer.theory.kernels._conditioning import BoundCheck, bound_quantities, conditioning_bounds
from isometer.theory.kernels._depth_free import SphereKernel
from isometer.theory._explanation import DepthOutlook, Explanation, explain
from isometer.theory.batch_norm._gram_maps import (
    GramChain,
    SpectrumMap,
    gram_chain,
    gram_map,
    ratio_expectation,
    smallest_share_bound,
    spectrum_chain,
    spectrum_map,
)
from isometer_papers.theory.kernel_learning.interpolation import (
    Interpolation,
    excess_risk_bound,
    interpolate,
    interpolation_depth,
    sample_separation,
    sphere_covariance_spectrum,
    sphere_separation,
)
from isometer.theory.lengths._jacobian_moments import JacobianMoments, jacobian_moments
from isometer.theory.kernels._kernel_diagnosis import KernelDiagnosis, diagnose_kernel
from isometer.theory.kernels._kernel_map import KNIFE_EDGE, KernelMap, KernelPath, kernel_map
from isometer.theory.kernels._kernel_matrix import KernelMatrix, kernel_matrices, kernel_matrix
from isometer.theory.lengths._length_map import (
    LengthMap,
    SignalFamily,
    length_bound,
    length_contraction,
    settling_depth,
)
from isometer_papers.theory.duals.normrelu import NormReLU, normrelu_bound
from isometer_papers.theory.duals.one_layer_relu import one_layer_smallest_bound
from isometer_papers.theory.kernel_learning.optimization import (
    Descent,
    conditioning_depth,
    descent,
    descent_losses,
    least_squares_bound,
    printed_rate,
    stochastic_losses,
    stochastic_steps,
)
from isometer.theory.lengths._phase import (
    EdgeOfChaos,
    PhaseDiagram,
    PhasePoint,
    edge_of_chaos,
    phase_diagram,
    phase_point,
)
from isometer_papers.theory.kernel_learning.queries import (
    CosineFloor,
    cosine_floor,
    query_correlation,
    subgaussian_norm,
)
from isometer.theory._shaping import ShapedActivation, length_slope, shape_activation, tailored_leaky_relu
from isometer.theory.lengths._signal_path import SignalPath, signal_path

__all__ = [
    "KNIFE_EDGE",
    "Batch",
    "BoundCheck",
    "CosineFloor",
    "DepthOutlook",
    "Descent",
    "EdgeOfChaos",
    "Explanation",
    "GramChain",
    "Interpolation",
    "JacobianMoments",
    "KernelDiagnosis",
    "KernelMap",
    "KernelMatrix",
    "KernelPath",
    "LengthMap",
    "NormReLU",
    "PhaseDiagram",
    "PhasePoint",
    "ShapedActivation",
    "SignalFamily",
    "SignalPath",
    "SpectrumMap",
    "SphereKernel",
    "bound_quantities",
    "conditioning_bounds",
    "conditioning_depth",
    "cosine_floor",
    "descent",
    "descent_losses",
    "diagnose_kernel",
    "edge_of_chaos",
    "excess_risk_bound",
    "explain",
    "gram_chain",
    "gram_map",
    "interpolate",
    "interpolation_depth",
    "jacobian_moments",
    "kernel_map",
    "kernel_matrices",
    "kernel_matrix",
    "least_squares_bound",
    "length_bound",
    "length_contraction",
    "length_slope",
    "normrelu_bound",
    "one_layer_smallest_bound",
    "phase_diagram",
    "phase_point",
    "printed_rate",
    "query_correlation",
    "ratio_expectation",
    "sample_separation",
    "settling_depth",
    "shape_activation",
    "signal_path",
    "smallest_share_bound",
    "spectrum_chain",
    "spectrum_map",
    "sphere_covariance_spectrum",
    "sphere_separation",
    "stochastic_losses",
    "stochastic_steps",
    "subgaussian_norm",
    "tailored_leaky_relu",
]
