"""Signs of trouble: one score each, which says how far a quantity has left its course, in tolerances.

A score of 1 is what ordinary training and three standard errors explain. `_course.py` says what a course is: it needs
no knowledge of the model, and a linear warm-up, or weights that grow like a power of the step, raise nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isometer.doctor.watch._course import NOTHING, CourseDeparture, CourseScale, Floats, RunCourse, SignScore

_LOG, _SHARE = CourseScale(0.0), CourseScale(None)
_RANK = CourseScale(0.05, 1.0)  # a rank of 1 is nothing left: what counts is what is above it
_ENTROPY = CourseScale(1e-3)
_STANDSTILL = CourseScale(1e-12)  # relative updates and gradients below this are none
_COUNTED = 0.02  # norm of a vector over that of matrices, from which on its growth counts
_TWICE = 2  # observations that make an overshoot more than chance
_ONE = 2.0  # tolerances that a single matrix may depart where all together may depart one


@dataclass(frozen=True)
class TroubleSign:
    """One sign of trouble.

    Attributes:
        id: ID of the warning.
        meaning: what it leads to.
        advice: what to do.
        score: score of the observations.
        least: no limit is set below it.
    """

    id: str
    meaning: str
    advice: str
    score: Callable[[RunCourse], SignScore]
    least: float = 1.0


def _worst(scores: Floats, chosen: NDArray[np.bool_], say: Callable[[int], str], names: Sequence[str]) -> SignScore:
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


def _said(words: str, found: CourseDeparture, form: str = ".3g") -> Callable[[int], str]:
    return lambda at: f"{words} is {found.now[at]:{form}}, and its course led to {found.expected[at]:{form}}"


def _layer_names(course: RunCourse) -> list[str]:
    return [layer.name or layer.op for layer in course.latest[-1].layers]


def _hidden(course: RunCourse) -> NDArray[np.bool_]:
    return course.hidden


def _everywhere(course: RunCourse) -> NDArray[np.bool_]:
    return np.ones(len(course.latest[-1].layers), dtype=bool)


def _outputs(course: RunCourse) -> NDArray[np.bool_]:
    found = np.zeros(len(course.latest[-1].layers), dtype=bool)
    found[list(course.latest[-1].outputs)] = True
    return found


def _of_layers(
    metric: str,
    words: str,
    sign: float,
    tolerance: float,
    where: Callable[[RunCourse], NDArray[np.bool_]] = _hidden,
    scale: CourseScale = _LOG,
    form: str = ".3g",
) -> Callable[[RunCourse], SignScore]:
    """A score: how far a metric is above its course somewhere, or below it with sign −1."""

    def score(course: RunCourse) -> SignScore:
        found = course.departure(metric, "values", sign, tolerance, scale)
        if found is None:
            return NOTHING
        return _worst(found.score, where(course), _said(words, found, form), _layer_names(course))

    return score


def _of_matrices(
    name: str, words: str, sign: float, tolerance: float, scale: CourseScale = _LOG
) -> Callable[[RunCourse], SignScore]:
    """The same of a number of each matrix of parameters."""

    def score(course: RunCourse) -> SignScore:
        found = course.departure(name, "parameters", sign, tolerance, scale)
        if found is None:
            return NOTHING
        number = len(found.score)
        return _worst(found.score, course.chosen(number), _said(words, found), course.named(number))

    return score


_output_growth = _of_layers("rms", "the rms of the output", 1.0, 0.1, _outputs)
_score_growth = _of_layers("attention_score_largest", "the largest attention score", 1.0, 0.1, _everywhere)


def _logits(course: RunCourse) -> SignScore:
    """The outputs, or the scores of attention, whichever grow more."""
    found = [one for one in (_output_growth(course), _score_growth(course)) if not math.isnan(one.value)]
    return max(found, key=lambda one: one.value, default=NOTHING)


def _overshoot(course: RunCourse) -> SignScore:
    """How far updates overshoot, all the last ones, where the loss has left its course upwards.

    At the edge of stability the loss falls, and nothing is said.
    """
    known = course.last("overshoot")
    loss = course.departure("loss", "scalars", 1.0, 0.05, _LOG)
    if len(known) < _TWICE or loss is None:
        return NOTHING
    rises = bool(loss.score[0] >= 1) or not np.isfinite(loss.now[0])
    words = f"updates overshoot the minimum along themselves {known.min():.1f} times, and {_said('the loss', loss)(0)}"
    return SignScore(float(min(known.min(), 1e3)) if rises else 0.0, (), words)


def _room(course: RunCourse) -> SignScore:
    """Decades that are missing to a distance of one from the largest number, in both of the last observations."""
    rows = [one.values.get("overflow_headroom", np.empty(0)) for one in course.latest]
    if not len(rows[-1]) or len({len(row) for row in rows}) > 1:
        return NOTHING
    now = np.maximum.reduce(rows)
    said = lambda at: f"the largest entry is {now[at]:.1f} decades below the largest number of its format"  # noqa: E731
    return _worst(2.0 - now, _everywhere(course), said, _layer_names(course))


def _standstill(course: RunCourse) -> SignScore:
    """A matrix that moves less than before, also beside the one that moves most: a schedule slows all alike."""
    number = len(course.latest[-1].parameters.get("update_ratio", ()))
    matrices = course.chosen(number)
    if matrices.sum() < 2:
        return NOTHING

    def beside_the_fastest(row: Floats) -> Floats:
        fastest = np.nanmax(row[matrices], initial=0.0) if len(row) == number else 0.0
        return row / fastest if 0 < fastest < math.inf else np.full(len(row), math.nan)

    found = course.departure("update_ratio", "parameters", -1.0, 0.3, _STANDSTILL)
    beside = course.departure("update_ratio", "parameters", -1.0, 0.3, _STANDSTILL, prepare=beside_the_fastest)
    if found is None or beside is None:
        return NOTHING
    slowed = np.minimum(found.score, beside.score)
    return _worst(slowed, matrices, _said("its relative update", found), course.named(number))


def _all_or_one(
    name: str, words: str, all_words: str, tolerance: float, scale: CourseScale
) -> Callable[[RunCourse], SignScore]:
    """How far a number of matrices rose: all together, in the median, or one of them, which may depart twice as far."""

    def score(course: RunCourse) -> SignScore:
        found = course.departure(name, "parameters", 1.0, tolerance, scale)
        if found is None:
            return NOTHING
        number = len(found.score)
        chosen = course.chosen(number)
        one = _worst(found.score / _ONE, chosen, _said(words, found), course.named(number))
        known = chosen & ~np.isnan(found.score)
        if not known.any() or float(np.median(found.score[known])) <= one.value:
            return one
        ratio = float(np.median(found.now[known] / np.maximum(found.expected[known], 1e-30)))
        said = f"{all_words} are {ratio:.2f} times what their course led to, in the median"
        return SignScore(float(np.median(found.score[known])), (), said)

    return score


def _vectors(course: RunCourse) -> SignScore:
    """Biases and gains whose norm runs away; what is next to nothing beside the matrices counts little."""
    norms = course.latest[-1].parameters.get("weight_norm", np.empty(0))
    matrices = course.chosen(len(norms))
    if matrices.all():
        return NOTHING
    counted = CourseScale(_COUNTED * float(np.median(norms[matrices])))
    found = course.departure("weight_norm", "parameters", 1.0, 0.1, counted)
    if found is None:
        return NOTHING
    return _worst(found.score, ~matrices, _said("its norm", found), course.named(len(norms)))


def _norm(row: Floats) -> Floats:
    return np.array([math.sqrt(np.nansum(np.square(row)))])


def _gradients(course: RunCourse) -> SignScore:
    found = course.departure("gradient_norm", "parameters", 1.0, 0.15, _LOG, prepare=_norm)
    if found is None or np.isnan(found.score).all():
        return NOTHING
    return SignScore(float(found.score[0]), (), _said("the norm of the gradient", found)(0))


def _input(course: RunCourse) -> SignScore:
    read = np.array([layer.kind == "input" for layer in course.latest[-1].layers], dtype=bool)
    both = [course.departure("rms", "values", sign, 0.03, _LOG, level=True) for sign in (1.0, -1.0)]
    told = [
        _worst(found.score, read, _said("the rms of the input", found), _layer_names(course))
        for found in both
        if found is not None
    ]
    return max((one for one in told if not math.isnan(one.value)), key=lambda one: one.value, default=NOTHING)


RULES: tuple[TroubleSign, ...] = (
    TroubleSign(
        "rank-loss",
        "samples become alike, and later layers cannot tell them apart",
        "lower the learning rate or the weight decay; add a normalisation or a skip connection before these layers",
        _of_layers("effective_rank", "the effective rank of the samples", -1.0, 0.12, scale=_RANK),
    ),
    TroubleSign(
        "growing-logits",
        "a softmax of large numbers saturates, its gradients vanish or jump",
        "add weight decay or z-loss on the readout, normalise queries and keys, or lower the rate of these layers",
        _logits,
    ),
    TroubleSign(
        "growing-signal",
        "activations grow from step to step and leave the range in which the layers after them work",
        "lower the learning rate, add weight decay, or normalise the input of these layers",
        _of_layers("rms", "the rms of the activations", 1.0, 0.08),
    ),
    TroubleSign(
        "shrinking-signal",
        "activations shrink from step to step, and with them the gradients of the layers after them",
        "lower the weight decay, or check the biases before these activations",
        _of_layers("rms", "the rms of the activations", -1.0, 0.05),
    ),
    TroubleSign(
        "growing-gradients",
        "the next updates are larger than the last, which is how a divergence begins",
        "clip the gradient norm, lower the learning rate, or go back to the last checkpoint and skip these batches",
        _gradients,
    ),
    TroubleSign(
        "vanishing-gradients",
        "the parameter no longer learns from its gradient",
        "check the loss scale and the number format of the gradients, dead units, and what is detached",
        _of_matrices("gradient_norm", "the norm of its gradient", -1.0, 0.3, _STANDSTILL),
    ),
    TroubleSign(
        "growing-updates",
        "steps grow relative to the weights, and a step that is too long ends in a divergence",
        "check the learning-rate schedule and the momentum; a warm-up is over when this ends",
        _all_or_one("update_ratio", "its relative update", "relative updates", 0.1, _STANDSTILL),
    ),
    TroubleSign(
        "growing-weights",
        "weights grow faster than they did, and signals and logits grow by their product",
        "check the sign of the weight decay, or add some",
        _all_or_one("weight_norm", "the norm of the weights", "the norms of the weights", 0.03, _LOG),
    ),
    TroubleSign(
        "growing-biases",
        "a bias or a gain outgrows the signal it is added to or multiplies",
        "lower its learning rate, or give it weight decay",
        _vectors,
    ),
    TroubleSign(
        "shrinking-weights",
        "the weights decay faster than they learn",
        "lower the weight decay; check that it is not multiplied by a large learning rate",
        _of_matrices("weight_norm", "the norm of the weights", -1.0, 0.03),
    ),
    TroubleSign(
        "input-shift",
        "the network sees inputs on another scale than those it was trained with",
        "check the normalisation of the data and the order of the batches",
        _input,
    ),
    TroubleSign(
        "entropy-collapse",
        "every query reads one key; the attention no longer learns",
        "normalise queries and keys, lower the rate of their weights, or add warm-up",
        _of_layers("attention_relative_entropy", "the relative entropy of attention", -1.0, 0.1, _everywhere, _ENTROPY),
    ),
    TroubleSign(
        "dead-units",
        "units that are zero on every sample receive no gradient and stay so",
        "lower the learning rate of these layers, or use an activation that is not flat below zero",
        _of_layers("dead_fraction", "the share of dead units", 1.0, 0.06, scale=_SHARE, form=".0%"),
    ),
    TroubleSign(
        "saturated-units",
        "units in the flat part of their activation pass no gradient",
        "lower the learning rate or add weight decay to these layers, or normalise before the activation",
        _of_layers("saturated_fraction", "the share of saturated entries", 1.0, 0.06, scale=_SHARE, form=".0%"),
    ),
    TroubleSign(
        "updates-too-large",
        "the curvature along the updates is too high for their size; the loss goes up the walls of the valley",
        "lower the learning rate or lengthen the warm-up; with momentum, lower that first",
        _overshoot,
        2.0,  # where a step gains nothing
    ),
    TroubleSign(
        "number-format",
        "the next growth overflows to infinity",
        "use bfloat16 or float32 for these layers, or scale them down",
        _room,  # 1 is a tenth of the largest number
    ),
    TroubleSign(
        "layer-stopped",
        "the parameter does not take part in training any more",
        "check its learning rate, its gradient and the number format of its update",
        _standstill,
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
