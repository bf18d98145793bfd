"""One point far away and orthogonal to a cluster of all others: the geometry of recentring and ReLU."""

from typing import NamedTuple

from isometer.metrics._angles import angle_matrix_deg
from isometer.metrics._arrays import Array, count, indices, result
from isometer.metrics._batch import MetricInput


class OddPointStatistics(NamedTuple):
    """The longest sample against the rest of the batch, one number per matrix; angles in degrees."""

    index: Array
    rest_norm_ratio: Array
    second_norm_ratio: Array
    angle_to_rest_min: Array
    angle_to_rest_mean: Array
    angle_within_rest_mean: Array
    angle_within_rest_max: Array


def odd_point_statistics(representation: Array | None = None, *, gram: Array | None = None) -> OddPointStatistics:
    """How much one sample stands out from a cluster of the others.

    The odd point is the longest sample (the first of equals). Reported are the mean and the largest length of the
    others relative to it, its angles to them, and their angles among themselves. In the invariant geometry of
    recentring and ReLU the ratios are 1/(n − 1), the angles to the rest 90° and the angles within the rest 0°.

    Zero samples have length 0 and take part in no angle; an angle over no pair is 0. In a batch of zeros no sample is
    longer than another and both ratios are 1.

    Args:
        representation: `(…, n, d)`, n at least 3; or
        gram: `(…, n, n)`.

    Returns:
        The statistics by name.

    Example:
        >>> odd = odd_point_statistics([[0.0, 0.5], [1.0, 0.0], [0.0, 0.5]])
        >>> int(odd.index), float(odd.rest_norm_ratio), float(odd.angle_to_rest_min), float(odd.angle_within_rest_max)
        (1, 0.5, 90.0, 0.0)

    Implements: 000/metric-odd, 000/def-12.
    """
    batch = MetricInput.of(representation, gram, need=3, purpose="an odd point and a cluster").scaled()
    xp, n = batch.xp, batch.samples
    norms = batch.norms()
    largest = xp.amax(norms, axis=-1, keepdims=True)
    position = indices(norms, n)
    index = xp.amin(xp.where(norms == largest, position, n), axis=-1)
    odd = position == index[..., None]
    largest = xp.where(largest > 0, largest, 1.0)[..., 0]
    rest = xp.where(odd, 0.0, norms)
    dead = xp.amax(norms, axis=-1) == 0
    angles, directed = angle_matrix_deg(batch)
    others = directed & ~odd
    to_rest = xp.sum(xp.where(odd[..., None], angles, 0.0), axis=-2)
    within = others[..., :, None] & others[..., None, :] & (position[:, None] != position)
    number, pairs = count(others, -1, norms), count(within, (-2, -1), norms)
    statistics = (
        index,
        xp.where(dead, 1.0, xp.sum(rest, axis=-1) / (n - 1) / largest),
        xp.where(dead, 1.0, xp.amax(rest, axis=-1) / largest),
        xp.where(number > 0, xp.amin(xp.where(others, to_rest, 180.0), axis=-1), 0.0),
        xp.sum(xp.where(others, to_rest, 0.0), axis=-1) / xp.where(number > 0, number, 1.0),
        xp.sum(xp.where(within, angles, 0.0), axis=(-2, -1)) / xp.where(pairs > 0, pairs, 1.0),
        xp.amax(xp.where(within, angles, 0.0), axis=(-2, -1)),
    )
    return OddPointStatistics(*(result(statistic) for statistic in statistics))
