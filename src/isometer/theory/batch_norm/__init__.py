"""Batch norm at infinite width: the Gram map, its fixed points and rates, the growth of gradients, what width adds."""

from isometer_papers.theory.mean_field.gram_concentration import concentration_bound
from isometer.theory.batch_norm._finite_width import GramFluctuations, gram_fluctuations, stationary_orthogonality_gap
from isometer.theory.batch_norm._fixed_points import FixedPoint, LocalRates, batch_norm_fixed_point, local_rates
from isometer.theory.batch_norm._growth import gradient_growth
from isometer.theory.batch_norm._haar import haar_moment, isometry_gap_rate, isometry_gap_step
from isometer_papers.theory.isometry.hitting_times import (
    JacobianNorm,
    batch_norm_jacobian_norm,
    isometry_hitting_time,
    printed_hitting_bound,
)
from isometer.theory.batch_norm._layer_map import GramEstimate, batch_norm_chain, batch_norm_map
from isometer.theory.batch_norm._recentring import OddShape, SimplexRates, odd_shapes, simplex_rates
from isometer_papers.theory.rank.residual_step import frobenius_drift, regularity_constant
from isometer.theory.batch_norm._spectral_flow import expected_hitting_time
from isometer.theory.batch_norm._unnormalised import NormWalk, norm_walk

__all__ = [
    "FixedPoint",
    "GramEstimate",
    "GramFluctuations",
    "JacobianNorm",
    "LocalRates",
    "NormWalk",
    "OddShape",
    "SimplexRates",
    "batch_norm_chain",
    "batch_norm_fixed_point",
    "batch_norm_jacobian_norm",
    "batch_norm_map",
    "concentration_bound",
    "expected_hitting_time",
    "frobenius_drift",
    "gradient_growth",
    "gram_fluctuations",
    "haar_moment",
    "isometry_gap_rate",
    "isometry_gap_step",
    "isometry_hitting_time",
    "local_rates",
    "norm_walk",
    "odd_shapes",
    "printed_hitting_bound",
    "regularity_constant",
    "simplex_rates",
    "stationary_orthogonality_gap",
]
