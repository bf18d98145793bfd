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

from isometer.doctor.watch._observation import StepReading

Floats = NDArray[np.float64]
HIDDEN = frozenset({"activation", "norm", "add", "attention", "recurrent", "other"})
_LATEST = 3  # observations whose median is "now", so that one outlier raises nothing
_EARLIER, _FROM, _TO = 0.09, 0.3, 0.6  # of the steps so far: "earlier" ends where "before" begins
_MOST = 6.0  # decades that a score tells apart
EARLY = 150  # steps during which limits are higher, in proportion to 1/step: a network changes fast at first
_COUNTED = 0.02  # norm of a vector over that of matrices, from which on its growth counts
_STANDSTILL = 1e-12  # relative updates below this are no updates


@dataclass(frozen=True)
class NowAndBefore:
    """Observations of now, of before, and of earlier than that."""

    now: Sequence[StepReading]
    before: Sequence[StepReading]
    earlier: Sequence[StepReading] = ()
    parameter_names: Sequence[str] = ()
    matrices: Sequence[bool] | None = None

    @classmethod
    def of(
        cls,
        observations: Sequence[StepReading],
        parameter_names: Sequence[str] = (),
        matrices: Sequence[bool] | None = None,
    ) -> NowAndBefore | None:
        """`None` while there is too little to compare; `matrices` says which parameters are, all unless given."""
        now = observations[-_LATEST:]
        step = observations[-1].step
        before = [one for one in observations[:-_LATEST] if _FROM * step <= one.step <= _TO * step]
        earlier = [one for one in observations[:-_LATEST] if _EARLIER * step <= one.step < _FROM * step]
        known = len(now) == _LATEST and bool(before)
        return cls(now, before, earlier, parameter_names, matrices) if known else None

    def values(self, metric: str) -> tuple[Floats, Floats]:
        """Medians by layer of now, and of before."""
        return _medians(self.now, metric, "values"), _medians(self.before, metric, "values")

    def first(self, name: str, table: str) -> Floats | None:
        """Medians of earlier, `None` where there are none of as many places."""
        found = _medians(self.earlier, name, table)
        return found if len(found) and len(found) == len(_medians(self.now, name, table)) else None

    def parameters(self, name: str) -> tuple[Floats, Floats]:
        """Medians by parameter of now, and of before."""
        return _medians(self.now, name, "parameters"), _medians(self.before, name, "parameters")

    def scalars(self, name: str) -> tuple[float, float]:
        """Medians of now, and of before."""
        now, before = (
            np.array([one.scalars.get(name, math.nan) for one in some], dtype=np.float64)
            for some in (self.now, self.before)
        )
        return _median(now), _median(before)

    def chosen(self, number: int) -> NDArray[np.bool_]:
        """The matrices among some number of parameters; all where it is not known which are, or none is."""
        found = np.zeros(number, dtype=bool) if self.matrices is None else np.array(self.matrices, dtype=bool)
        return found if len(found) == number and found.any() else np.ones(number, dtype=bool)

    def named(self, number: int) -> Sequence[str]:
        """Names of parameters, or their numbers."""
        return self.parameter_names if len(self.parameter_names) == number else list(map(str, range(number)))

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Layers of hidden representations, the outputs left out."""
        last = self.now[-1]
        found = np.array([layer.kind in HIDDEN for layer in last.layers], dtype=bool)
        found[list(last.outputs)] = False
        return found


def _medians(some: Sequence[StepReading], name: str, table: str) -> Floats:
    """Of those with as many places as the last one: a model that runs otherwise is another model."""
    rows = [getattr(one, table)[name] for one in some if name in getattr(one, table)]
    rows = [row for row in rows if len(row) == len(rows[-1])]
    if not rows or not len(rows[0]):
        return np.empty(0)
    stacked: Floats = np.sort(np.stack(rows), axis=0)  # nan last
    known = np.sum(~np.isnan(stacked), axis=0)
    middle = np.maximum(known - 1, 0) // 2
    found: Floats = np.take_along_axis(stacked, middle[None], axis=0)[0]
    return found


def _median(numbers: Floats) -> float:
    known = numbers[~np.isnan(numbers)]
    return float(np.median(known)) if known.size else math.nan


@dataclass(frozen=True)
class SignScore:
    """How strong a sign is, where it is seen, and in which words."""

    value: float
    places: tuple[str, ...] = ()
    reason: str = ""


NOTHING = SignScore(math.nan)


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


def _decades(now: Floats, before: Floats) -> Floats:
    """log₁₀ of now over before, within ±6; nan where one of them is not known."""
    with np.errstate(all="ignore"):
        found = np.log10(now) - np.log10(before)
    found = np.where(np.isnan(now) | np.isnan(before) | (now == before), np.where(now == before, 0.0, math.nan), found)
    clipped: Floats = np.clip(found, -_MOST, _MOST)
    return clipped


def _beyond(now: Floats, before: Floats, earlier: Floats | None, sign: float = 1.0, floor: float = 0.0) -> Floats:
    """Decades that a quantity rose (or fell, with sign −1) beyond what it did before; `floor` is added to all."""
    change = sign * _decades(np.maximum(now, 0) + floor, np.maximum(before, 0) + floor)
    if earlier is None:
        return change
    usual = sign * _decades(np.maximum(before, 0) + floor, np.maximum(earlier, 0) + floor)
    return change - np.maximum(0.0, np.nan_to_num(usual, nan=0.0))


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
            _beyond(now, before, window.first(metric, "values"), sign, floor),
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
    fallen = _beyond(now - 1, before - 1, None if earlier is None else earlier - 1, -1.0, 0.05)
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
    grown = float(_decades(np.array([total[0]]), np.array([total[1]]))[0])
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
    change = _decades(np.maximum(now, _STANDSTILL), np.maximum(before, _STANDSTILL))
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
    grown = _beyond(now, before, window.first("update_ratio", "parameters"), floor=_STANDSTILL)
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
        change = _beyond(now, before, earlier, sign)
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
    grown = _beyond(now, before, window.first("weight_norm", "parameters"))
    counted = ~matrices & (before > _COUNTED * np.median(before[matrices]))
    said = lambda at: f"its norm went from {before[at]:.3g} to {now[at]:.3g}"  # noqa: E731
    return _worst(window, grown, counted, said, window.named(len(now)))


def _input(window: NowAndBefore) -> SignScore:
    now, before = window.values("rms")
    if len(now) != len(before) or not len(now):
        return NOTHING
    read = np.array([layer.kind == "input" for layer in window.now[-1].layers], dtype=bool)
    said = lambda at: f"the rms of the input went from {before[at]:.3g} to {now[at]:.3g}"  # noqa: E731
    return _worst(window, np.abs(_decades(now, before)), read, said, _layer_names(window))


def _vanishing(window: NowAndBefore) -> SignScore:
    now, before = window.parameters("gradient_norm")
    if len(now) != len(before) or not len(now):
        return NOTHING
    fallen = -_decades(np.maximum(now, _STANDSTILL), np.maximum(before, _STANDSTILL))
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
