"""Several metrics of the same Gram matrices, for those who have many and know that they are sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isometer.metrics import _orthogonality as orthogonality
from isometer.metrics import _volume as volume
from isometer.metrics._angles import cosine_matrix, mean_abs_cosine_of, mean_angle_deg_of
from isometer.metrics._arrays import Array
from isometer.metrics._batch import Batch
from isometer.metrics._gradients import alignment_of
from isometer.metrics._ranks import effective_rank_of, stable_rank_of

_OF_SCALED: dict[str, Callable[[Batch], Array]] = {
    "orthogonality_gap": orthogonality.gap_of,
    "stable_rank": stable_rank_of,
    "effective_rank": effective_rank_of,
}
_OF_COSINES: dict[str, Callable[[Batch, Array, Array], Array]] = {
    "mean_abs_cosine": mean_abs_cosine_of,
    "mean_angle_deg": mean_angle_deg_of,
}


def several(gram: Array, names: Sequence[str]) -> dict[str, Array]:
    """What the metrics of these names give for `gram`, to the last bit, with what they share computed once.

    Args:
        gram: `(…, n, n)`, n > 1. Not checked: floating point, finite, symmetric, a non-negative diagonal.
        names: of `orthogonality_gap`, `isometry_gap`, `stable_rank`, `effective_rank`, `mean_abs_cosine`,
            `mean_angle_deg`.

    Returns:
        One array of the leading shape per name.

    Example:
        >>> import numpy as np
        >>> found = several(np.array([[3.0, 0.0], [0.0, 1.0]]), ["stable_rank", "mean_abs_cosine"])
        >>> {name: float(value) for name, value in found.items()}
        {'stable_rank': 1.6, 'mean_abs_cosine': 0.0}
    """
    batch = Batch(None, gram)
    scaled = batch.scaled()
    cosines = cosine_matrix(scaled) if any(name in _OF_COSINES for name in names) else None
    values = {}
    for name in names:
        if name in _OF_SCALED:
            values[name] = _OF_SCALED[name](scaled)
        elif name == "isometry_gap":
            values[name] = volume.gap_of(batch)
        elif cosines is not None:
            values[name] = _OF_COSINES[name](scaled, *cosines)
    return values


def gradient_alignment_unchecked(gram: Array) -> tuple[Array, Array]:
    """`gradient_alignment` of Gram matrices which are known to be sound: mean |cosine| and top share.

    Example:
        >>> import numpy as np
        >>> [round(float(value), 12) for value in gradient_alignment_unchecked(np.eye(2))]
        [0.0, 0.5]
    """
    return alignment_of(Batch(None, gram).scaled())
