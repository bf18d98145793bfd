"""Angles and cosines between the samples of a batch, and how many directions there are.

A zero sample has no direction: it takes part in no pair, and the pairs that are left are averaged. A batch with fewer
than two non-zero samples has no pair at all; no direction separates its samples, so its cosines average to 1, its
angles to 0. `angle_statistics` says how many pairs and zero samples there were.
"""

import math
from typing import NamedTuple

from isometer.errors import IsometerError
from isometer.metrics._arrays import Array, count, identity, result
from isometer.metrics._batch import MetricInput


def cosines(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Cosine of the angle between every two samples.

    `ρ_ij = ⟨x_i, x_j⟩ / (‖x_i‖ ‖x_j‖)`, clipped to [−1, 1]. The rows and columns of a zero sample are 0, its diagonal
    entry included: a diagonal of 0 instead of 1 marks the samples that have no direction.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        `(…, n, n)`.

    Example:
        >>> cosines([[2.0, 0.0], [0.0, 3.0], [0.0, 0.0]]).round(12).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]

    Implements: 001/metric-cos (5.2), 003/metric-cos.
    """
    return cosine_matrix(MetricInput.of(representation, gram))[0]


def mean_cosine(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Average cosine over pairs of different samples.

    `(‖Σ u_i‖² − m) / (m (m − 1))` over the m unit vectors u_i of the non-zero samples: O(nd), not O(n²d). From
    −1/(m − 1) to 1; 1 if m < 2.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix.

    Example:
        >>> round(float(mean_cosine([[1.0, 0.0], [1.0, 1.0]])), 6)
        0.707107

    Implements: 001/metric-cos (the mean cosines of 001/tab-C.1).
    """
    batch = _pairs_batch(representation, gram)
    xp, directions = batch.xp, batch.directions()
    number = count(batch.norms() > 0, -1, batch.data)
    if directions.representation is None:
        total = xp.sum(directions.given_gram, axis=(-2, -1))
    else:
        total = xp.sum(xp.mean(directions.representation, axis=-2) ** 2, axis=-1)
        total = total * (batch.samples**2 / directions.representation.shape[-1])
    pairs = number * (number - 1)
    value = (total - number) / xp.where(pairs > 0, pairs, 1.0)
    return result(xp.where(pairs > 0, xp.clip(value, -1.0, 1.0), 1.0))


def mean_abs_cosine(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Average modulus of the cosine over pairs of different samples.

    The mean of `|ρ_ij|`, i ≠ j, over non-zero samples: 0 for orthogonal samples, 1 for samples on one line.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix.

    Example:
        >>> opposite = [[1.0, 0.0], [-1.0, 0.0]]
        >>> round(float(mean_abs_cosine(opposite)), 12), round(float(mean_cosine(opposite)), 12)
        (1.0, -1.0)

    Implements: 003/metric-cos, 001/fig-2.1.
    """
    batch = _pairs_batch(representation, gram)
    return result(mean_abs_cosine_of(batch, *cosine_matrix(batch)))


def mean_abs_cosine_of(batch: MetricInput, matrix: Array, directed: Array) -> Array:
    """The mean |cosine|, given the matrix of cosines and which samples have a direction."""
    return _mean(batch, batch.xp.abs(matrix), _different(batch, directed), empty=1.0)


def average_dot_product(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Average inner product of different samples over the average squared length.

    `Σ_{i≠j} G_ij / (n − 1) / tr G`, from −1/(n − 1) to 1. The figure it serves does not say how dot products are
    normalised; samples of equal length make this the mean cosine, otherwise long samples weigh more here. A batch of
    zeros counts as collapsed: 1.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix.

    Example:
        >>> float(average_dot_product([[1.0, 0.0], [1.0, 1.0]]))  # 1 over (1 + 2) / 2
        0.6666666666666666

    Implements: 004/metric-avg-dot.
    """
    batch = _pairs_batch(representation, gram)
    xp, n = batch.xp, batch.samples
    if batch.representation is None:
        total = xp.sum(batch.given_gram, axis=(-2, -1))
        trace = xp.sum(xp.linalg.diagonal(batch.given_gram), axis=-1)
    else:
        total = xp.sum(xp.sum(batch.representation, axis=-2) ** 2, axis=-1)
        trace = xp.sum(batch.representation**2, axis=(-2, -1))
    value = (total - trace) / (n - 1) / xp.where(trace > 0, trace, 1.0)
    return result(xp.where(trace > 0, value, 1.0))


def mean_angle_deg(representation: Array | None = None, *, gram: Array | None = None) -> Array:
    """Average angle in degrees over pairs of different samples.

    The mean of `arccos ρ_ij`; nearly parallel samples get `2 arctan(‖u − v‖ / ‖u + v‖)` of their unit vectors, which
    does not lose digits. From a Gram matrix angles below about `√ε` cannot be distinguished from 0.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        One number per matrix.

    Example:
        >>> round(float(mean_angle_deg([[1.0, 0.0], [1.0, 1.0]])), 9)
        45.0

    Implements: 000/metric-angle (eq. 11).
    """
    batch = _pairs_batch(representation, gram)
    return result(mean_angle_deg_of(batch, *cosine_matrix(batch)))


def mean_angle_deg_of(batch: MetricInput, matrix: Array, directed: Array) -> Array:
    """The mean angle, given the matrix of cosines and which samples have a direction."""
    return _mean(batch, _angles_deg(batch, matrix), _different(batch, directed), empty=0.0)


class AngleStatistics(NamedTuple):
    """Angles in degrees over the pairs of non-zero samples, one number per matrix."""

    mean: Array
    minimum: Array
    maximum: Array
    standard_deviation: Array
    pairs: Array
    zero_samples: Array


def angle_statistics(representation: Array | None = None, *, gram: Array | None = None) -> AngleStatistics:
    """Mean, extremes and (population) standard deviation of the angles between samples, in degrees.

    Over the pairs of different non-zero samples; all four are 0 if there is none.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`.

    Returns:
        The statistics, with the number of pairs and of zero samples behind them.

    Example:
        >>> angles = angle_statistics([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, 0.0]])
        >>> [round(float(angle), 6) for angle in angles]
        [120.0, 90.0, 180.0, 42.426407, 3.0, 1.0]

    Implements: 000/metric-angle, 000/fig-5a, 000/fig-5b.
    """
    batch = _pairs_batch(representation, gram)
    xp = batch.xp
    angles, directed = angle_matrix_deg(batch)
    pairs = _different(batch, directed)
    mean = _mean(batch, angles, pairs, empty=0.0)
    spread = _mean(batch, (angles - mean[..., None, None]) ** 2, pairs, empty=0.0)
    minimum = xp.amin(xp.where(pairs, angles, math.inf), axis=(-2, -1))
    maximum = xp.amax(xp.where(pairs, angles, 0.0), axis=(-2, -1))
    number = xp.sum(pairs, axis=(-2, -1))
    statistics = (
        mean,
        xp.where(number > 0, minimum, 0.0),
        maximum,
        xp.sqrt(spread),
        number // 2,
        xp.sum(~directed, axis=-1),
    )
    return AngleStatistics(*(result(statistic) for statistic in statistics))


def clusters(representation: Array | None = None, *, gram: Array | None = None, tolerance_deg: float = 1.0) -> Array:
    """Number of clusters of directions.

    Two samples belong together if a chain of samples leads from one to the other in steps of at most `tolerance_deg`
    (single linkage). Opposite directions are different. Zero samples, if any, make one cluster of their own.

    Args:
        representation: `(…, n, d)`; or
        gram: `(…, n, n)`, where tolerances below about `√ε` (1e-6 degrees) are not resolved.
        tolerance_deg: the largest step, 0 to 180 degrees.

    Returns:
        Integers from 1 to n, one per matrix.

    Example:
        >>> batch = [[1.0, 0.0], [5.0, 0.01], [0.0, 1.0]]
        >>> int(clusters(batch)), int(clusters(batch, tolerance_deg=0.1))
        (2, 3)

    Implements: 000/odd-emergence (one cluster besides the odd point); 000/def-6 counts equal entries instead.
    """
    if not 0 <= tolerance_deg <= 180:
        raise IsometerError(f"tolerance_deg is {tolerance_deg}; expected 0 to 180 — pass an angle in degrees")
    batch = MetricInput.of(representation, gram).scaled()
    xp = batch.xp
    angles, directed = angle_matrix_deg(batch)
    together = directed[..., :, None] & directed[..., None, :] & (angles <= tolerance_deg)
    together = together | (~directed[..., :, None] & ~directed[..., None, :])
    one = identity(angles, 1)
    reach = together * one  # as numbers: squaring doubles the length of the chains
    for _ in range(max(1, math.ceil(math.log2(batch.samples)))):
        reach = (reach @ reach > 0) * one
    has_earlier_member = xp.any(xp.tril(reach, -1) > 0, axis=-1)
    return result(xp.sum(~has_earlier_member, axis=-1))


def angle_matrix_deg(batch: MetricInput) -> tuple[Array, Array]:
    """Angles between all samples in degrees `(…, n, n)`, and which samples have a direction `(…, n)`."""
    cosine, directed = cosine_matrix(batch)
    return _angles_deg(batch, cosine), directed


def _angles_deg(batch: MetricInput, cosine: Array) -> Array:
    xp = batch.xp
    equal = identity(cosine, batch.samples) > 0
    angles = xp.where(equal, 0.0, xp.arccos(cosine))
    # arccos loses digits near ±1, a tenth of a radian is far enough
    steep = (xp.abs(cosine) > 0.995) & ~equal
    if batch.representation is None or not bool(steep.any()):
        return xp.rad2deg(angles)
    units: Array = batch.directions().representation
    rows = []
    for i in range(batch.samples):  # one row at a time: n² d numbers need not fit in memory
        one = units[..., i : i + 1, :]
        far, near = xp.sum((units - one) ** 2, axis=-1), xp.sum((units + one) ** 2, axis=-1)
        rows.append(2 * xp.arctan2(xp.sqrt(far), xp.sqrt(near)))
    return xp.rad2deg(xp.where(steep, xp.stack(rows, -2), angles))


def _pairs_batch(representation: Array | None, gram: Array | None) -> MetricInput:
    return MetricInput.of(representation, gram, need=2, purpose="angles between samples").scaled()


def cosine_matrix(batch: MetricInput) -> tuple[Array, Array]:
    """Cosines with the exact diagonal, and which samples have a direction."""
    xp = batch.xp
    directed = batch.norms() > 0
    matrix = xp.clip(batch.directions().gram_matrix(), -1.0, 1.0)
    one = identity(matrix, batch.samples)
    return xp.where(one > 0, directed[..., None] * one, matrix), directed


def _different(batch: MetricInput, directed: Array) -> Array:
    """Which entries of a matrix over samples belong to two different samples with a direction."""
    return directed[..., :, None] & directed[..., None, :] & (identity(batch.data, batch.samples) == 0)


def _mean(batch: MetricInput, values: Array, chosen: Array, *, empty: float) -> Array:
    xp = batch.xp
    number = count(chosen, (-2, -1), values)
    total = xp.sum(xp.where(chosen, values, 0.0), axis=(-2, -1))
    return xp.where(number > 0, total / xp.where(number > 0, number, 1.0), empty)
