"""Numbers read off a batch of representations or its Gram matrix.

A representation is `(…, n, d)`: samples, then features. A Gram matrix is `(…, n, n)`, `H Hᵀ / d`. Metrics which depend
on the Gram matrix alone take either, `metric(H)` or `metric(gram=G)`; leading dimensions are batched over. NumPy arrays
give NumPy results, torch tensors give tensors, and torch is never imported here. Half precision is computed in float32,
integers in float64. Degenerate batches have a documented value; NaN and infinite entries raise `IsometerError`.
"""

from isometer.metrics._angles import (
    AngleStatistics,
    angle_statistics,
    average_dot_product,
    clusters,
    cosines,
    mean_abs_cosine,
    mean_angle_deg,
    mean_cosine,
)
from isometer.metrics._entries import ActivitySparsity, Moments, activity_sparsity, moments
from isometer.metrics._gradients import (
    GradientAlignment,
    explosion_rate,
    gradient_alignment,
    gradient_log_norm,
    linear_gradient_gram,
)
from isometer.metrics._gram_matrix import GramDistance, gram, gram_distance, spectrum
from isometer.metrics._jacobians import (
    BatchNormJacobian,
    JacobianSpectrum,
    batch_norm_jacobian_norm,
    batch_norm_jacobian_spectrum,
    jacobian_singular_values,
)
from isometer.metrics._normalization import (
    batch_norm_gain_bound_as_printed,
    batch_normalize,
    isometry_gain,
    isometry_gain_bound,
    isometry_gap_decrease,
    layer_normalize,
    rms_normalize,
)
from isometer.metrics._odd_point import OddPointStatistics, odd_point_statistics
from isometer.metrics._orthogonality import lyapunov_gap, orthogonality_gap, spectral_variance
from isometer.metrics._ranks import condition_number, effective_rank, rank, soft_rank, stable_rank
from isometer.metrics._volume import isometry, isometry_gap
from isometer.metrics._wasserstein import gaussian_wasserstein, wasserstein_to_isotropic

__all__ = [
    "ActivitySparsity",
    "AngleStatistics",
    "BatchNormJacobian",
    "GradientAlignment",
    "GramDistance",
    "JacobianSpectrum",
    "Moments",
    "OddPointStatistics",
    "activity_sparsity",
    "angle_statistics",
    "average_dot_product",
    "batch_norm_gain_bound_as_printed",
    "batch_norm_jacobian_norm",
    "batch_norm_jacobian_spectrum",
    "batch_normalize",
    "clusters",
    "condition_number",
    "cosines",
    "effective_rank",
    "explosion_rate",
    "gaussian_wasserstein",
    "gradient_alignment",
    "gradient_log_norm",
    "gram",
    "gram_distance",
    "isometry",
    "isometry_gain",
    "isometry_gain_bound",
    "isometry_gap",
    "isometry_gap_decrease",
    "jacobian_singular_values",
    "layer_normalize",
    "linear_gradient_gram",
    "lyapunov_gap",
    "mean_abs_cosine",
    "mean_angle_deg",
    "mean_cosine",
    "moments",
    "odd_point_statistics",
    "orthogonality_gap",
    "rank",
    "rms_normalize",
    "soft_rank",
    "spectral_variance",
    "spectrum",
    "stable_rank",
    "wasserstein_to_isotropic",
]
