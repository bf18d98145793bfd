"""Compositions in the trajectory format, by the interpreter of networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.metrics import SEQUENCE_METRICS
from isometer.metrics._sequences import sequence_numbers
from isometer.spec import Spec
from isometer.theory.networks._expectations import Expectations
from isometer.theory.networks._inputs import gram_state, input_state
from isometer.theory.networks._interpreter import Passage, gradient_log_norms, passage
from isometer.theory.networks._weights import Run
from isometer.theory.networks._work import check_network_work
from isometer.theory.prediction._measures import GRADIENT, measured_by_layer
from isometer.theory.prediction._repeated_block import block_limits

Floats = NDArray[np.float64]


class NetworkValues(NamedTuple):
    """Metrics by name, `(1, layers + 1)` each, and attributes of the trajectory."""

    values: dict[str, Floats]
    attributes: dict[str, Any]


def network_values(
    spec: Spec,
    batch: ArrayLike | None,
    gram: Floats | None,
    names: Sequence[str],
    at: str,
    progress: Callable[[int, int], None] | None = None,
) -> NetworkValues:
    """What a composition of infinite width does to a batch, or to a Gram matrix, by layer.

    Example:
        >>> spec = Spec("input(4) > dense(gain=2**0.5) > act('relu') > dense")
        >>> found = network_values(spec, None, np.eye(2), ["mean_cosine"], "post")
        >>> found.values["mean_cosine"][0, 1:].round(4).tolist()
        [0.3183, 0.3183]
    """
    layers = list(spec.executed_layers())
    backward = GRADIENT in names
    if gram is None:
        assert batch is not None
        start = input_state(spec, batch, pairs=any(name in SEQUENCE_METRICS for name in names))
    else:
        start = gram_state(spec, gram)
    check_network_work(layers, start.layout, slopes=backward, kept=True)
    sequences = [name for name in names if name in SEQUENCE_METRICS]
    run = Run(Expectations(), backward=backward, watched=[], attention=[], pairs=bool(sequences))
    found = passage(layers, start, run, progress=progress)
    pairs = found.grams(at)
    measured = measured_by_layer(names, pairs, np.array(found.features(at), dtype=float))
    values = {}
    for name in names:
        full = np.full((1, len(layers) + 1), math.nan)
        if name == GRADIENT:
            if found.diverged < 0:
                full[0] = gradient_log_norms(found)
        elif name in sequences:
            continue
        else:
            full[0, : len(pairs)] = measured[name]
        values[name] = full
    if sequences:
        own = _sequence_values(found, len(layers))
        values |= {name: own[name] for name in sequences}
    attributes = {
        "first_nonfinite_layer": np.array([found.diverged]),
        **block_limits(spec, pairs[0][0] * math.exp(2 * pairs[0][1])).attributes(),
        "relative_error": run.moments.error,
    }
    return NetworkValues(values, attributes)


def _sequence_values(found: Passage, layers: int) -> dict[str, Floats]:
    """Numbers of tokens by layer, `(1, layers + 1)` each; nan where a layer has no attention."""
    out = {name: np.full((1, layers + 1), math.nan) for name in SEQUENCE_METRICS}
    for layer, state in enumerate(found.states):
        numbers = sequence_numbers(state.second().gram()[0], state.layout.samples)
        numbers["rms"] = numbers["rms"] * math.exp(state.log_scale)
        for name, value in numbers.items():
            out[name][0, layer] = float(value)
    for layer, readings in enumerate(found.attention, start=1):
        if readings:
            out["attention_entropy"][0, layer] = np.mean([one.entropy for one in readings])
            out["attention_participation"][0, layer] = np.mean([one.participation for one in readings])
    return out
