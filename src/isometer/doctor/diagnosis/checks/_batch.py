"""The batch, and what batch statistics make of it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from isometer.doctor.conditions._condition import Condition
from isometer.doctor.diagnosis.checks._case import Case, Sign
from isometer.errors import IsometerError

_INFINITE = 3  # values per statistic up to which the expected squared gradient is infinite
_LARGE = 4096  # values per statistic: a batch so large that its statistics are those of the population
_SAME = 1e-6  # of squared distance over squared length: rounding of float32


def degenerate_batch(case: Case, condition: Condition) -> Iterator[Sign]:
    """`degenerate-batch`: samples that repeat, or are zero."""
    view = case.view
    gram = view.examination.gram(view.first)
    if gram is None or gram.shape[0] < 2 or not np.isfinite(gram).all():
        return
    distinct = _distinct(gram)
    n = gram.shape[0]
    if distinct == n:
        return
    statistics = [layer for layer, site in enumerate(view.sites) if site.statistics]
    yield Sign(
        condition.limits.severity((n - distinct) / n) or "moderate",
        (view.first, *statistics),
        {"samples": n, "distinct_samples": distinct, "layers_with_batch_statistics": len(statistics)},
        f"Only {distinct} of the {n} samples are distinct.",
        variant="batch-statistics" if statistics else "",
    )


def _distinct(gram: np.ndarray) -> int:
    """Number of different samples; a zero sample counts as none."""
    lengths = np.diag(gram)
    top = float(lengths.max(initial=0.0))
    if top <= 0:
        return 0
    # Distances from inner products lose what is small beside the lengths, so equality is relative to them.
    squared = lengths[:, None] + lengths[None, :] - 2 * gram
    same = squared <= _SAME * (lengths[:, None] + lengths[None, :])
    kept: list[int] = []
    for i in range(len(lengths)):
        if lengths[i] > 1e-12 * top and not any(same[i, j] for j in kept):
            kept.append(i)
    return len(kept)


def small_batch(case: Case, condition: Condition) -> Iterator[Sign]:
    """`small-batch-bn`: batch statistics over so few values that what a layer gives depends on the batch-mates."""
    view = case.view
    layers = [layer for layer, site in enumerate(view.sites) if site.statistics and site.depth <= view.hidden_depth]
    counts = [view.sites[layer].statistics for layer in layers]
    harm = sum(1.0 / count**2 for count in counts)
    severity = condition.limits.severity(harm)
    if severity is None:
        return
    smallest = min(counts)
    few = tuple(layer for layer, count in zip(layers, counts, strict=True) if count == smallest)
    # The theory is of one activation repeated, so the first that is known stands for all.
    text = next((site.activation for site in view.sites if site.kind == "activation" and site.activation), "identity")
    own, large = _growth(text, smallest), _growth(text, _LARGE)
    yield Sign(
        severity,
        few,
        {
            "values_per_statistic": smallest,
            "layers_with_batch_statistics": len(layers),
            "sum_of_inverse_squares": harm,
            "limit_of_sum": condition.limits.moderate,
            "predicted_gradient_factor_per_layer": own,
            "predicted_gradient_factor_per_layer_large_batch": large,
            "measured_gradient_factor_per_layer": math.exp(view.gradient_rate),
        },
        f"Batch statistics come from only {smallest} values in {len(few)} layers, so the output for a sample depends "
        "on the few other samples in its batch.",
        f"Theory predicts that gradients grow by a factor of {own:.3g} per layer toward the input, against {large:.3g} "
        "for a large batch.",
    )


def _growth(text: str, count: int) -> float:
    """Predicted factor of the gradient's norm per layer at these many values per statistic, Gaussian weights."""
    from isometer.theory.batch_norm import gradient_growth

    if count <= _INFINITE:
        return math.inf
    try:
        return math.exp(gradient_growth(text, count))
    except IsometerError:  # no prediction for this activation: say what a linear network would do
        return math.exp(gradient_growth("identity", count))
