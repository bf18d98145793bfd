"""The Gram matrices of a chain at infinite width, layer by layer, from the one that was measured at its start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isometer.metrics import Metric
from isometer.metrics._catalogue import probed
from isometer.spec import Chain
from isometer.theory.networks._expectations import Expectations
from isometer.theory.networks._inputs import gram_state
from isometer.theory.networks._interpreter import gradient_norms, passage
from isometer.theory.networks._weights import Run

Floats = NDArray[np.float64]
_EQUAL = 1e-4  # relative differences of variances below this are left out: measured samples have some
_COST = 36_000  # samples squared times layers of batch norm: about three seconds
_SMALLEST = ("isometry_gap", "effective_rank")  # hang on small eigenvalues, which the fast series do not resolve


def _of_gram(samples: int) -> list[Metric]:
    """Metrics that are read off a Gram matrix of infinite width."""
    known = [one for one in probed("gram") if one.scaling == "invariant" and one.name not in _SMALLEST]
    return sorted(known, key=lambda one: one.name) if samples > 1 else []


def _rms(gram: Floats) -> float:
    return math.sqrt(max(0.0, float(np.trace(gram)) / len(gram)))


def covered(spec: Chain) -> bool:
    """Whether a spec has a kernel of two samples and Gaussian pre-activations at infinite width.

    Without skips the weights come first; with them the layer is `H + γ W φ(H)`, a normalisation of samples allowed
    before or after φ.

    Example:
        >>> from isometer import Spec
        >>> covered(Spec(width=8, depth=2)), covered(Spec(width=8, depth=2, norm="batch"))
        (True, False)
    """
    norm = spec.norm
    if norm is not None and (norm.over == "batch" or norm.shift != 0 or not norm.rescale):
        return False
    steps = [step for step in spec.steps if step in spec.operations]
    return steps[-1] == "residual" and steps[-2] == "weights" if spec.has_skip else steps[0] == "weights"


def infinite_width(spec: Chain, gram: Floats, at: Sequence[int] | None = None) -> dict[str, Floats]:
    """Metrics of the chain's Gram matrices at infinite width; empty where theory has none.

    From the layer on at which variances vanish, diverge or leave the range of the fast series the numbers are nan.
    Activations with kinks that are not homogeneous need samples of one length, or a normalisation before them. Batch
    norm costs time at each layer; beyond a few seconds its layers are nan.

    Args:
        spec: the chain.
        gram: `H Hᵀ / d` at its start.
        at: the layers to read, all from 0 to the last by default.

    Returns:
        `rms`, `mean_abs_cosine`, `mean_angle_deg`, `orthogonality_gap`, `stable_rank`, and probed metrics of the Gram
        matrix that were registered at run time; without normalisation also `output_gradient_log_norm`, up to a
        constant, for gradients of one size at the end.

    Example:
        >>> from isometer import Spec
        >>> spec = Spec(width=8, depth=2, gain=2**0.5)
        >>> infinite_width(spec, np.eye(2))["mean_abs_cosine"].round(4).tolist()  # κ(0) = 1/π, κ(1/π)
        [0.0, 0.3183, 0.4937]

    Implements: 001/eq-5.11, 001/eq-5.12 and 002/eq-rec-vanilla at infinite width, through the duals of the activation.
    """
    layers = range(spec.layers + 1) if at is None else at
    if not covered(spec):
        return _by_theory(spec, gram, layers)
    backward = spec.norm is None
    moments = Expectations(same=_EQUAL, most_entries=0)
    start = gram_state(spec, (gram + gram.T) / 2)
    found = passage(list(spec.executed_layers()), start, Run(moments, backward=backward))
    if len(found.states) < 2:
        return {}
    metrics = _of_gram(len(gram))
    values = {name: np.full(len(layers), math.nan) for name in ("rms", *(one.name for one in metrics))}
    grams = found.grams()
    for place, layer in enumerate(layers):
        if layer < len(grams):
            matrix, log_scale = grams[layer]
            values["rms"][place] = _rms(matrix) * math.exp(log_scale)
            for one in metrics:
                values[one.name][place] = float(one.of_gram(matrix))
    if backward and len(grams) == spec.layers + 1:
        outputs = gradient_norms(found).outputs
        values["output_gradient_log_norm"] = (outputs - outputs[-1])[list(layers)]
    return values


def _by_theory(spec: Chain, gram: Floats, layers: Sequence[int]) -> dict[str, Floats]:
    """The same from `theory.prediction.predict`, for as many layers as a few seconds allow; later ones are nan."""
    # Imported here: it brings all that trajectories need, and few chains ask for it.
    from isometer.theory.prediction import coverage, predict

    depth = min(spec.layers, _COST // len(gram) ** 2)
    if len(gram) < 2 or depth < 2 or not coverage(spec, len(gram)).is_covered:
        return {}
    if depth < spec.layers:
        # Schedules by layer would no longer have the length of the shortened spec.
        if any(isinstance(getattr(spec, name), tuple) for name in ("gain", "activation_gain", "residual")):
            return {}
        spec = replace(spec, width=spec.widths[:depth], depth=None)
    names = [one.name for one in _of_gram(len(gram))]
    found = predict(spec, gram=(gram + gram.T) / 2, metrics=[*names, "second_moment"])
    reached = [layer for layer in layers if layer <= depth]
    values = {name: np.full(len(layers), math.nan) for name in ("rms", *names)}
    for name in names:
        values[name][: len(reached)] = found[name].values[0, reached]
    values["rms"][: len(reached)] = np.sqrt(found["second_moment"].values[0, reached])
    return values
