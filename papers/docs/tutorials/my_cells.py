"""The cell of the study in `add_a_claim_and_a_study.py`: workers import it by name, so it has its own file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray


def gap_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The orthogonality gap over depth for one activation."""
    from isometer import Spec
    from isometer.data import make_batch
    from isometer.simulate import simulate

    spec = Spec(width=64, depth=20, activation=configuration["activation"], norm="batch-rescale")
    batch = make_batch("correlated:0.9", 4, 64, seed=seed)
    return simulate(spec, batch, runs=configuration["runs"], metrics=["orthogonality_gap"], seed=seed)
