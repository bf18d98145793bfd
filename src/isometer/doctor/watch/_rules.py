"""Signs of trouble: one score each, which compares the last observations with those around half as many steps.

A healthy run changes fast at first and ever more slowly, at most like the logarithm of the step: what happens between
t/2 and t is no more than what happened between t/4 and t/2. What fails by itself grows or decays exponentially and
changes more each time. So a change counts as far as it exceeds the change before it, which needs no knowledge of the
model; and a linear warm-up, or weights that grow like a power of the step, raise nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isometer.doctor.watch._comparison import NOTHING, Floats, NowAndBefore, SignScore, beyond, decades

EARLY = 150  # steps during which limits are higher, in proportion to 1/step: a network changes fast at first
_COUNTED = 0.02  # norm of a vector over that of matrices, from which on its growth counts
_STANDSTILL = 1e-12  # relative updates below this are no updates


@dataclass(frozen=True)
class TroubleSign:
    """One sign of trouble.

    Attributes:
        id: of the warning.
        meaning: what it leads to.
        advice: what to do.
        score: of the observations.
        least: no limit is set below it, since ordinary training reaches that much.
        early: whether the limit is higher during the first `EARLY` steps.
    """

    id: str
    meaning: str
    advice: str
    score: Callable[[NowAndBefore], SignScore]
    least: float
    early: bool = True

    def limit(self, limit: float, step: int) -> float:
        """The limit at a step."""
        return limit * max(1.0, EARLY / step) if self.early else limit


def _worst(
    window: NowAndBefore, scores: Floats, chosen: NDArray[np.bool_], say: Callable[[int], str], names: Sequence[str]
) -> SignScore:
    """The largest of some scores, with the places that come near it."""
    if len(scores) != len(chosen):
        return NOTHING
    scores = np.where(chosen, scores, math.nan)
    if np.isnan(scores).all():
        return NOTHING
    at = int(np.nanargmax(scores))
    near = np.flatnonzero(scores >= 0.8 * scores[at]) if scores[at] > 0 else np.array([at])
    places = tuple(dict.fromkeys(names[i] for i in near))[:8]
    return SignScore(float(scores[at]), places, say(at))


def _layer_names(window: NowAndBefore) -> list[str]:
    return [layer.name or layer.op for layer in window.now[-1].layers]


def _change(
    metric: str, words: str, sign: float, where: Callable[[NowAndBefore], NDArray[np.bool_]], floor: float = 0.0
) -> Callable[[NowAndBefore], SignScore]:
    """A score: by how many decades a metric rose (or fell, with sign −1) somewhere, beyond what it did before."""

    def score(window: NowAndBefore) -> SignScore:
        now, before = window.values(metric)
        if len(now) != len(before) or not len(now):
            return NOTHING
        return _worst(
            window,
            beyond(now, before, window.first(metric, "values"), sign, floor),
            where(window),
            lambda at: f"{words} went from {before[at]:.3g} to {now[at]:.3g}",
            _layer_names(window),
        )

    return score


def _difference(metric: str, words: str) -> Callable[[NowAndBefore], SignScore]:
    def score(window: NowAndBefore) -> SignScore:
        now, before = window.values(metric)
        if len(now) != len(before) or not len(now):
            return NOTHING
        said = lambda at: f"{words} went from {before[at]:.0%} to {now[at]:.0%}"  # noqa: E731
        return _worst(window, now - before, window.hidden, said, _layer_names(window))

    return score


def _rank(window: NowAndBefore) -> SignScore:
    now, before = window.values("effective_rank")
    if len(now) != len(before) or not len(now):
        return NOTHING
    # A rank of 1 is nothing left: what counts is what is above it.
    earlier = window.first("effective_rank", "values")
    fallen = beyond(now - 1, before - 1, None if earlier is None else earlier - 1, -1.0, 0.05)
    said = lambda at: f"the effective rank of the samples went from {before[at]:.2f} to {now[at]:.2f}"  # noqa: E731
    return _worst(window, fallen, window.hidden, said, _layer_names(window))


def _everywhere(window: NowAndBefore) -> NDArray[np.bool_]:
    return np.ones(len(window.now[-1].layers), dtype=bool)


def _outputs(window: NowAndBefore) -> NDArray[np.bool_]:
    found = np.zeros(len(window.now[-1].layers), dtype=bool)
    found[list(window.now[-1].outputs)] = True
    return found


_output_growth = _change("rms", "the rms of the output", 1.0, _outputs)
_score_growth = _change("attention_score_largest", "the largest attention score", 1.0, _everywhere)


def _logits(window: NowAndBefore) -> SignScore:
    """The outputs, or the scores of attention, whichever grow more."""
    found = [one for one in (_output_growth(window), _score_growth(window)) if not math.isnan(one.value)]
    return max(found, key=lambda one: one.value, default=NOTHING)


def _gradients(window: NowAndBefore) -> SignScore:
    now, before = window.parameters("gradient_norm")
    total = [float(np.sqrt(np.nansum(np.square(one)))) if len(one) else math.nan for one in (now, before)]
    if any(math.isnan(one) for one in total):
        return NOTHING
    grown = float(decades(np.array([total[0]]), np.array([total[1]]))[0])
    return SignScore(grown, (), f"the norm of the gradient went from {total[1]:.3g} to {total[0]:.3g}")


def _overshoot(window: NowAndBefore) -> SignScore:
    """How far updates overshoot, where the loss rises; at the edge of stability the loss falls, and nothing is said."""
    now, _ = window.scalars("overshoot")
    loss, earlier = window.scalars("loss")
    if math.isnan(now) or math.isnan(earlier):
        return NOTHING
    rises = not loss <= earlier  # a loss that is not finite has risen
    words = f"updates overshoot the minimum along themselves {now:.1f} times, and the loss rose from {earlier:.3g} to"
    return SignScore(min(now, 1e3) if rises else 0.0, (), f"{words} {loss:.3g}")


def _room(window: NowAndBefore) -> SignScore:
    now, _ = window.values("overflow_headroom")
    if not len(now):
        return NOTHING
    said = lambda at: f"the largest entry is {now[at]:.1f} decades below the largest number of its format"  # noqa: E731
    return _worst(window, -now, _everywhere(window), said, _layer_names(window))


def _updates_changed(window: NowAndBefore) -> tuple[Floats, Floats, Floats]:
    """Relative updates now and before, and the decades between them; nan for what did not move before."""
    now, before = window.parameters("update_ratio")
    if len(now) != len(before) or not len(now):
        return np.empty(0), np.empty(0), np.empty(0)
    change = decades(np.maximum(now, _STANDSTILL), np.maximum(before, _STANDSTILL))
    return now, before, np.where(before > _STANDSTILL, change, math.nan)


def _standstill(window: NowAndBefore) -> SignScore:
    """A matrix that moves much less than it did, compared with what slows down least: a schedule slows all alike."""
    now, before, change = _updates_changed(window)
    if np.sum(~np.isnan(change)) < 2:
        return NOTHING
    slowed = -change + min(0.0, float(np.nanmax(change)))
    said = lambda at: f"its relative update went from {before[at]:.2g} to {now[at]:.2g}"  # noqa: E731
    return _worst(window, slowed, window.chosen(len(now)), said, window.named(len(now)))


def _growing_updates(window: NowAndBefore) -> SignScore:
    now, before, change = _updates_changed(window)
    if not len(now):
        return NOTHING
    said = lambda at: f"the relative update went from {before[at]:.2g} to {now[at]:.2g}"  # noqa: E731
    grown = beyond(now, before, window.first("update_ratio", "parameters"), floor=_STANDSTILL)
    return _worst(
        window, np.where(np.isnan(change), math.nan, grown), window.chosen(len(now)), said, window.named(len(now))
    )


def _weights(sign: float) -> Callable[[NowAndBefore], SignScore]:
    """By how many decades norms of matrices rose, in the median, or the worst of them fell, beyond what they did."""

    def score(window: NowAndBefore) -> SignScore:
        now, before = window.parameters("weight_norm")
        if len(now) != len(before) or not len(now):
            return NOTHING
        earlier, chosen = window.first("weight_norm", "parameters"), window.chosen(len(now))
        change = beyond(now, before, earlier, sign)
        if sign < 0:
            said = lambda at: f"the norm of the weights went from {before[at]:.3g} to {now[at]:.3g}"  # noqa: E731
            return _worst(window, change, chosen, said, window.named(len(now)))
        known = change[chosen & ~np.isnan(change)]
        if not known.size:
            return NOTHING
        middle = float(np.median(known))
        return SignScore(middle, (), f"the norms of the weights grew by a factor of {10**middle:.2f} in the median")

    return score


def _vectors(window: NowAndBefore) -> SignScore:
    """Biases and gains whose norm runs away; those that are next to nothing beside the matrices are left out."""
    now, before = window.parameters("weight_norm")
    matrices = window.chosen(len(now))
    if len(now) != len(before) or not len(now) or matrices.all():
        return NOTHING
    grown = beyond(now, before, window.first("weight_norm", "parameters"))
    counted = ~matrices & (before > _COUNTED * np.median(before[matrices]))
    said = lambda at: f"its norm went from {before[at]:.3g} to {now[at]:.3g}"  # noqa: E731
    return _worst(window, grown, counted, said, window.named(len(now)))


def _input(window: NowAndBefore) -> SignScore:
    now, before = window.values("rms")
    if len(now) != len(before) or not len(now):
        return NOTHING
    read = np.array([layer.kind == "input" for layer in window.now[-1].layers], dtype=bool)
    said = lambda at: f"the rms of the input went from {before[at]:.3g} to {now[at]:.3g}"  # noqa: E731
    return _worst(window, np.abs(decades(now, before)), read, said, _layer_names(window))


def _vanishing(window: NowAndBefore) -> SignScore:
    now, before = window.parameters("gradient_norm")
    if len(now) != len(before) or not len(now):
        return NOTHING
    fallen = -decades(np.maximum(now, _STANDSTILL), np.maximum(before, _STANDSTILL))
    said = lambda at: f"the norm of its gradient went from {before[at]:.2g} to {now[at]:.2g}"  # noqa: E731
    return _worst(window, fallen, window.chosen(len(now)), said, window.named(len(now)))


RULES: tuple[TroubleSign, ...] = (
    TroubleSign(
        "rank-loss",
        "samples become alike, and later layers cannot tell them apart",
        "lower the learning rate or the weight decay; add a normalisation or a skip connection before these layers",
        _rank,
        0.3,
    ),
    TroubleSign(
        "growing-logits",
        "a softmax of large numbers saturates, its gradients vanish or jump",
        "add weight decay or z-loss on the readout, normalise queries and keys, or lower the rate of these layers",
        _logits,
        0.3,
    ),
    TroubleSign(
        "growing-signal",
        "activations grow from step to step and leave the range in which the layers behind them work",
        "lower the learning rate, add weight decay, or normalise the input of these layers",
        _change("rms", "the rms of the activations", 1.0, lambda window: window.hidden),
        0.3,
    ),
    TroubleSign(
        "shrinking-signal",
        "activations shrink from step to step, and with them the gradients of the layers behind",
        "lower the weight decay, or check the biases before these activations",
        _change("rms", "the rms of the activations", -1.0, lambda window: window.hidden),
        0.12,
    ),
    TroubleSign(
        "growing-gradients",
        "the next updates are larger than the last, which is how a divergence begins",
        "clip the gradient norm, lower the learning rate, or go back to the last checkpoint and skip these batches",
        _gradients,
        0.5,
    ),
    TroubleSign(
        "vanishing-gradients",
        "the parameter no longer learns from its gradient",
        "check the loss scale and the number format of the gradients, dead units, and what is detached",
        _vanishing,
        0.7,
    ),
    TroubleSign(
        "growing-updates",
        "steps grow relative to the weights, and a step that is too long ends in a divergence",
        "check the learning-rate schedule and the momentum; a warm-up is over when this ends",
        _growing_updates,
        0.2,
    ),
    TroubleSign(
        "growing-weights",
        "all weights grow, so signals and logits grow by their product",
        "check the sign of the weight decay, or add some",
        _weights(1.0),
        0.12,
    ),
    TroubleSign(
        "growing-biases",
        "a bias or a gain outgrows the signal it is added to or multiplies",
        "lower its learning rate, or give it weight decay",
        _vectors,
        0.5,
    ),
    TroubleSign(
        "shrinking-weights",
        "the weights decay faster than they learn",
        "lower the weight decay; check that it is not multiplied by a large learning rate",
        _weights(-1.0),
        0.1,
    ),
    TroubleSign(
        "input-shift",
        "the network sees inputs on another scale than those it was trained with",
        "check the normalisation of the data and the order of the batches",
        _input,
        0.1,
    ),
    TroubleSign(
        "entropy-collapse",
        "every query reads one key; the attention no longer learns",
        "normalise queries and keys, lower the rate of their weights, or add warm-up",
        _change("attention_relative_entropy", "the relative entropy of attention", -1.0, _everywhere, 1e-3),
        0.2,
    ),
    TroubleSign(
        "dead-units",
        "units that are zero on every sample receive no gradient and stay so",
        "lower the learning rate of these layers, or use an activation that is not flat below zero",
        _difference("dead_fraction", "the share of dead units"),
        0.1,
    ),
    TroubleSign(
        "saturated-units",
        "units in the flat part of their activation pass no gradient",
        "lower the learning rate or add weight decay to these layers, or normalise before the activation",
        _difference("saturated_fraction", "the share of saturated entries"),
        0.1,
    ),
    TroubleSign(
        "updates-too-large",
        "the curvature along the updates is too high for their size; the loss goes up the walls of the valley",
        "lower the learning rate or lengthen the warm-up; with momentum, lower that first",
        _overshoot,
        2.0,  # where a step gains nothing
        early=False,
    ),
    TroubleSign(
        "number-format",
        "the next growth overflows to infinity",
        "use bfloat16 or float32 for these layers, or scale them down",
        _room,
        -1.0,  # within a tenth of the largest number
        early=False,
    ),
    TroubleSign(
        "layer-stopped",
        "the parameter does not take part in training any more",
        "check its learning rate, its gradient and the number format of its update",
        _standstill,
        1.0,
        early=False,
    ),
)
NEEDED = (
    "effective_rank",
    "rms",
    "attention_score_largest",
    "attention_relative_entropy",
    "dead_fraction",
    "saturated_fraction",
    "overflow_headroom",
)
"""Metrics that the rules read."""
