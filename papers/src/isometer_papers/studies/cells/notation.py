"""The symbols of 003/table-2, each computed by the library on an example and again from its definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from isometer.errors import unknown_name

SYMBOLS = ("ℓ", "n", "d", "k", "X", "H_ℓ", "BN", "Law(X)", "σ_i(M)", "I_k", "1_k")


def notation_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """What the library gives for a symbol and what its definition gives.

    Keys: `symbol`, `samples`, `width`, `depth`, `outputs`, `draws`.

    `value` and `definition` are one number each, `error` the largest difference between the two objects; for the law
    of a random matrix, whose definition is sampled, it is in standard errors.

    Example:
        >>> cell = {"symbol": "BN", "samples": 3, "width": 5, "depth": 2, "outputs": 2, "draws": 50}
        >>> bool(notation_cell(cell, 0)["error"] < 1e-12)
        True
    """
    if configuration["symbol"] not in SYMBOLS:
        raise unknown_name("symbol", configuration["symbol"], SYMBOLS)
    given, defined = (np.asarray(a, dtype=float) for a in _pair(configuration, seed))
    error = np.abs(given - defined).max() if given.shape == defined.shape else np.inf
    return xarray.Dataset(
        {"value": np.linalg.norm(given), "definition": np.linalg.norm(defined), "error": error, "size": given.size}
    )


def _pair(c: Mapping[str, Any], seed: int) -> tuple[Any, Any]:
    """A symbol by the library, and by its definition in NumPy."""
    from isometer import metrics
    from isometer.data import make_batch
    from isometer.simulate import simulate
    from isometer.spec import recurrence

    n, d, depth, outputs = c["samples"], c["width"], c["depth"], c["outputs"]
    spec = recurrence("003/net-bn-linear", width=[d] * (depth - 1) + [outputs], depth=None, input_width=d)
    batch = make_batch("gaussian", n, d, seed=seed)
    columns = batch.T  # d × n, as the paper has it
    if c["symbol"] == "ℓ":
        return spec.layers, depth
    if c["symbol"] == "n":
        return batch.shape[0], n
    if c["symbol"] == "d":
        return spec.widths[0], d
    if c["symbol"] == "k":
        return spec.widths[-1], outputs
    if c["symbol"] == "X":
        return batch, np.random.default_rng(np.random.SeedSequence(seed)).normal(size=(n, d))
    if c["symbol"] == "H_ℓ":
        chain = recurrence("003/net-bn-linear", width=d, depth=depth)
        return simulate(chain, batch, runs=1, metrics=["log_norm"], seed=seed)["log_norm"].values.ravel()[1:], [
            0
        ] * depth
    if c["symbol"] == "BN":
        unit = np.diag(np.diag(columns @ columns.T) ** -0.5) @ columns
        return metrics.batch_normalize(batch, recenter=False) / np.sqrt(n), unit.T
    if c["symbol"] == "Law(X)":
        return _law(c, seed), [0.0]
    if c["symbol"] == "σ_i(M)":
        values = np.sqrt(metrics.spectrum(batch) * d)
        return values, np.sqrt(np.linalg.eigvalsh(columns.T @ columns)[::-1])
    if c["symbol"] == "I_k":
        return metrics.orthogonality_gap(np.eye(n, d)), 0.0
    ones = np.ones(n)
    return metrics.batch_normalize(batch + np.outer(ones, np.arange(d))), metrics.batch_normalize(batch)


def _law(c: Mapping[str, Any], seed: int) -> Any:
    """W H for a fixed H has Gaussian rows of covariance HᵀH/d: sampled covariance against it, in standard errors."""
    from isometer.data import make_batch
    from isometer.metrics import gram
    from isometer.spec import recurrence
    from isometer_papers.simulate.stationary import stationary_gram

    batch = make_batch("gaussian", c["samples"], c["width"], seed=seed)
    spec = recurrence("001/rec-2.vanilla", width=c["width"], depth=1)
    drawn = stationary_gram(spec, batch, layers=1, chains=c["draws"], seed=seed)
    spread = drawn.std(0, ddof=1) / np.sqrt(c["draws"])
    return [np.abs((drawn.mean(0) - gram(batch)) / spread).max()]
