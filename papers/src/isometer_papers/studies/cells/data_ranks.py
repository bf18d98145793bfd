"""Ranks and cosines of batches of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from isometer.errors import IsometerError
from isometer_papers.studies.cells.images import opened


def rank_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Rank and mean cosine of random batches: `data`, `samples`, `batches`, `centre`, `scale`, `precision`, `of`.

    `precision` is that of the matrix whose rank is taken, `of` says which: the `gram` matrix or the `batch`. The rank
    is the one of `isometer.metrics.rank`, with its default tolerance.

    Example:
        >>> c = {"data": "digits", "samples": 8, "batches": 2, "centre": "none", "scale": "unit"}
        >>> rank_cell({**c, "precision": "float32", "of": "gram"}, 0)["rank"].values.tolist()
        [8, 8]
    """
    c = configuration
    data, _ = opened(c["data"])
    found = []
    for child in np.random.SeedSequence(seed).spawn(c["batches"]):
        batch, _ = data.batch(c["samples"], seed=child, centre=c["centre"], scale=c["scale"], flat=True)
        found.append(rank_and_cosine(batch, c["precision"], c["of"]))
    ranks, cosines = zip(*found, strict=True)
    return xarray.Dataset({"rank": ("batch", np.array(ranks)), "cosine": ("batch", np.array(cosines))})


def rank_and_cosine(batch: np.ndarray[Any, Any], precision: str, of: str) -> tuple[int, float]:
    """The two numbers of one batch `(n, d)`.

    Example:
        >>> rank_and_cosine(np.ones((3, 2)), "float64", "gram")
        (1, 1.0)
    """
    from isometer.metrics import mean_cosine, rank

    if precision not in ("float32", "float64"):
        raise IsometerError(f"precision is {precision!r}; expected 'float32' or 'float64'")
    if of not in ("gram", "batch"):
        raise IsometerError(f"of is {of!r}; expected 'gram' or 'batch'")
    exact = batch.astype(np.float64)
    own = batch.astype(precision)
    return int(rank(gram=own @ own.T) if of == "gram" else rank(own)), float(mean_cosine(exact))
