"""Distance of Gram matrices from their mean under the invariant law (003/fig-6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray


def stationary_distance_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """L(Q) averaged over layers, by run: `activation`, `width`, `samples`, `depth`, `runs`, `reference`, `chains`.

    Q ← BN(W F(Q)) without mean removal; E_ν[QᵀQ/d] is the mean over `chains` independent chains of `reference` layers.
    `apart` is the largest difference between an entry of the reference in one chain and the mean.

    Example:
        >>> cell = {"activation": "tanh", "width": 16, "samples": 2, "depth": 9, "runs": 3, "reference": 20,
        ...     "chains": 2}
        >>> sorted(stationary_distance_cell(cell, 0).data_vars)
        ['apart', 'average', 'off_diagonal']
    """
    import torch

    from isometer.data import make_batch
    from isometer.metrics import gram_distance
    from isometer.simulate import simulate
    from isometer.spec import recurrence
    from isometer_papers.simulate.stationary import stationary_gram

    c = configuration
    # the reference has inputs and weights that are independent of the chains measured against it
    own, other, weights, others = (int(s.generate_state(1)[0]) for s in np.random.SeedSequence(seed).spawn(4))
    spec = recurrence("003/net-act", activation=c["activation"], width=c["width"], depth=c["depth"])
    start = make_batch("gaussian", c["samples"], c["width"], runs=c["chains"], seed=other)
    grams = stationary_gram(spec, start, layers=c["reference"], chains=c["chains"], seed=others)
    mean = grams.mean(0)

    def distance(state: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = gram_distance(state, reference=torch.as_tensor(mean)).absolute
        return found

    batch = make_batch("gaussian", c["samples"], c["width"], runs=c["runs"], seed=own)
    data = simulate(spec, batch, runs=c["runs"], metrics=[distance], seed=weights)["distance"]
    average = data.transpose("run", "layer").sel(layer=slice(1, None)).mean("layer")
    off = mean[~np.eye(c["samples"], dtype=bool)].mean()
    return xarray.Dataset(
        {"average": ("run", average.values), "apart": np.abs(grams - mean).max(), "off_diagonal": off},
        {"run": np.arange(c["runs"])},
    )
