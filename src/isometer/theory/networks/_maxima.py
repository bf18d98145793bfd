"""Maxima over windows of positions at infinite width: expectations over the Gaussian that the windows see, sampled."""

from __future__ import annotations

import numpy as np

from isometer.spec import Pool
from isometer.theory.networks._columns import Maximum
from isometer.theory.networks._grouped import apply_whole
from isometer.theory.networks._pooling import pooled_axes
from isometer.theory.networks._state import FeatureState, NotCovered
from isometer.theory.networks._weights import Run, Stepped
from isometer.theory.networks._windows import pool_lines, table


def pool_maxima(step: Pool, state: FeatureState, run: Run) -> Stepped:
    """The maximum over windows of Gaussian features, or of functions of them."""
    layout = state.layout
    if layout.exchangeable:
        raise NotCovered("pool('max') of exchangeable tokens", "it is not derived here", "pass a batch")
    along = pool_lines(layout.axes, step.size, step.stride)
    places = table(along)  # (positions that leave, offsets)
    samples = np.arange(layout.samples)[:, None, None]
    rows = (samples * layout.positions + places).reshape(-1, places.shape[1])
    return apply_whole(Maximum(rows), state, layout.at(pooled_axes(step, along)), run)
