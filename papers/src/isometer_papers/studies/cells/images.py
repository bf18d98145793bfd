"""Batches of images for the cells of a process, which open a data set once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.data import DataSet


@lru_cache(maxsize=1)
def opened(text: str) -> tuple[DataSet, dict[str, Any]]:
    """A data set and the options of its batches, as `isometer.data.source_from_text` reads them.

    Example:
        >>> data, options = opened("digits:centre=none")
        >>> data.features, options
        (64, {'centre': 'none'})
    """
    from isometer.data import source_from_text

    data, options = source_from_text(text)
    return data, dict(options)


def images(data: str, samples: int, distinct: int, runs: int, seed: int) -> np.ndarray[Any, Any]:
    """A batch of images per run, `(runs, samples, features)`; only the first `distinct` differ, repeated in turn.

    Args:
        data: a data set as for `make_batch("data:…")`, standardised by channel unless it says otherwise; or
            `gaussian:FEATURES`.
        samples: batch size.
        distinct: how many different images.
        runs: how many batches.
        seed: of the draw.

    Example:
        >>> batch = images("gaussian:5", 4, 2, 3, 0)
        >>> batch.shape, bool((batch[:, 0] == batch[:, 2]).all())
        ((3, 4, 5), True)
    """
    from isometer.data import make_batch

    if not 1 <= distinct <= samples:
        raise IsometerError(f"{distinct} different images of {samples}; expected 1 to {samples} — change `distinct`")
    name, _, features = data.partition(":")
    if name == "gaussian":
        batch = make_batch("gaussian", distinct, int(features), runs=runs, seed=seed)
    else:
        source, options = opened(data)
        seeds = (np.random.SeedSequence(seed, spawn_key=(run,)) for run in range(runs))
        batch = np.stack([source.batch(distinct, seed=one, flat=True, **options)[0] for one in seeds]).astype(float)
    return batch[:, np.arange(samples) % distinct]
