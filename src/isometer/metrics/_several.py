"""Several metrics of the same matrices, for those who have many and know that they are sound."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from isometer.metrics._angles import cosine_matrix
from isometer.metrics._arrays import Array, binary_scale
from isometer.metrics._batch import MetricInput
from isometer.metrics._gradients import alignment_of

if TYPE_CHECKING:
    from isometer.metrics._metric import Metric


class Shared:
    """Batches or Gram matrices with what several metrics need of them, each part computed once."""

    def __init__(self, batch: MetricInput) -> None:
        self.batch = batch

    @cached_property
    def scaled(self) -> MetricInput:
        return self.batch.scaled()

    @cached_property
    def scale(self) -> Array:
        """What `scaled` was divided by, `(…)`: powers of two."""
        return binary_scale(self.batch.data, (-2, -1))[..., 0, 0]

    @cached_property
    def cosines(self) -> tuple[Array, Array]:
        return cosine_matrix(self.scaled)


def several(gram: Array, metrics: Sequence[Metric]) -> dict[str, Array]:
    """What metrics of a Gram matrix give for `gram`, to the last bit, with what they share computed once.

    Args:
        gram: `(…, n, n)`, n > 1. Not checked: floating point, finite, symmetric, a non-negative diagonal.
        metrics: entries of the catalogue.

    Returns:
        One array of the leading shape per name.

    Example:
        >>> import numpy as np
        >>> from isometer.metrics import METRICS
        >>> chosen = [METRICS["stable_rank"], METRICS["mean_abs_cosine"]]
        >>> found = several(np.array([[3.0, 0.0], [0.0, 1.0]]), chosen)
        >>> {name: float(value) for name, value in found.items()}
        {'stable_rank': 1.6, 'mean_abs_cosine': 0.0}
    """
    shared = Shared(MetricInput(None, gram))
    return {one.name: one.of_gram(gram) if one.shared is None else one.shared(shared) for one in metrics}


def gradient_alignment_unchecked(gram: Array) -> tuple[Array, Array]:
    """`gradient_alignment` of Gram matrices which are known to be sound: mean |cosine| and top share.

    Example:
        >>> import numpy as np
        >>> [round(float(value), 12) for value in gradient_alignment_unchecked(np.eye(2))]
        [0.0, 0.5]
    """
    return alignment_of(MetricInput(None, gram).scaled())
