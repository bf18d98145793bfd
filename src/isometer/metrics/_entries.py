"""The entries of a representation: their moments, and how sparsely neurons respond."""

from typing import NamedTuple

from isometer.errors import IsometerError
from isometer.metrics._arrays import Array, as_matrices, binary_scale, count, epsilon, namespace, result


class Moments(NamedTuple):
    """Moments over all entries of each matrix; the kurtosis of a Gaussian is 3."""

    mean: Array
    second_moment: Array
    variance: Array
    skewness: Array
    kurtosis: Array


def moments(representation: Array) -> Moments:
    """Mean, second moment, variance, skewness and kurtosis over samples and features.

    `E x`, `E x²`, `σ² = E (x − E x)²`, `E (x − E x)³ / σ³`, `E (x − E x)⁴ / σ⁴`, population moments. Entries that
    differ by no more than rounding have no shape: variance 0, and the Gaussian values 0 and 3.

    Args:
        representation: `(…, n, d)`.

    Returns:
        The moments, each of the leading shape.

    Example:
        >>> [float(moment) for moment in moments([[1.0, -1.0], [3.0, 1.0]])]
        [1.0, 3.0, 2.0, 0.0, 2.0]

    Implements: 001/prop-5.1 (second moments along depth).
    """
    array = as_matrices(representation, "representation", "samples, features")
    xp, axes = namespace(array), (-2, -1)
    scale = binary_scale(array, axes)
    scaled = array / scale
    mean = xp.mean(scaled, axis=axes, keepdims=True)
    deviation = scaled - mean
    constant = xp.amax(xp.abs(deviation), axis=axes) <= 8 * epsilon(array) * xp.amax(xp.abs(scaled), axis=axes)
    variance = xp.where(constant, 0.0, xp.mean(deviation**2, axis=axes))
    safe = xp.where(constant, 1.0, variance)
    scale = scale[..., 0, 0]
    values = (
        mean[..., 0, 0] * scale,
        xp.mean(scaled**2, axis=axes) * scale * scale,
        variance * scale * scale,
        xp.where(constant, 0.0, xp.mean(deviation**3, axis=axes) / safe**1.5),
        xp.where(constant, 3.0, xp.mean(deviation**4, axis=axes) / safe**2),
    )
    return Moments(*(result(value) for value in values))


class ActivitySparsity(NamedTuple):
    """Per neuron `(…, d)`: the active fraction of the batch and the sparsity; per matrix: the widely active share."""

    active_fraction: Array
    sparsity: Array
    widely_active_share: Array


def activity_sparsity(representation: Array, *, threshold: float = 0.1) -> ActivitySparsity:
    """Whether neurons respond to many samples or to few.

    A neuron is active on a sample if its response exceeds `threshold` times its largest response, in modulus. Its
    sparsity is `(1 − (E|x|)² / E x²) / (1 − 1/n)` over the batch: 0 for equal responses, 1 for a response to one sample
    only. The widely active share is the share of neurons active on more than 80 % of the batch. A dead neuron is
    active nowhere and has sparsity 1.

    Args:
        representation: `(…, n, d)`, n at least 2.
        threshold: relative size of a negligible response, in [0, 1).

    Returns:
        The three statistics by name.

    Example:
        >>> activity = activity_sparsity([[1.0, 0.0], [1.0, 0.0], [1.0, 5.0]])
        >>> activity.active_fraction.round(6).tolist(), activity.sparsity.round(6).tolist()
        ([1.0, 0.333333], [0.0, 1.0])

    Implements: 000/metric-activity, 000/fig-6a, 000/fig-6b.
    """
    if not 0 <= threshold < 1:
        raise IsometerError(f"threshold is {threshold}; expected 0 ≤ threshold < 1 — it is a fraction of the largest")
    array = as_matrices(representation, "representation", "samples, features")
    n = int(array.shape[-2])
    if n < 2:
        raise IsometerError("batch has 1 sample; activity over a batch needs at least 2 — pass a larger batch")
    xp = namespace(array)
    size = xp.abs(array) / binary_scale(array, (-2,))
    largest = xp.amax(size, axis=-2, keepdims=True)
    active = count(size > threshold * largest, -2, size) / n
    power = xp.mean(size**2, axis=-2)
    ratio = xp.mean(size, axis=-2) ** 2 / xp.where(power > 0, power, 1.0)
    sparsity = xp.clip((1 - ratio) / (1 - 1 / n), 0.0, 1.0)
    wide = count(active > 0.8, -1, size) / int(array.shape[-1])
    return ActivitySparsity(result(active), result(sparsity), result(wide))
