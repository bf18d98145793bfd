"""Random numbers of single entries at infinite width: dropout and additive noise, as in training."""

from __future__ import annotations

import numpy as np

from isometer.spec import Dropout, Noise
from isometer.theory.networks._covariance import Covariance, without_mean
from isometer.theory.networks._gradient import Gradient, Squares
from isometer.theory.networks._state import FeatureState, Process, gaussian
from isometer.theory.networks._weights import Run, Stepped


def drop(step: Dropout, state: FeatureState, run: Run) -> Stepped:
    """x ↦ x·m/(1 − r): mean squares grow by 1/(1 − r), products of different entries stay as they are."""
    if step.rate == 0.0:
        return state, (lambda gradient, _: gradient) if run.backward else None
    keep = 1.0 - step.rate
    second, mean, before = state.second(), state.mean(), state.tangent()
    size = second.gaps.shape[-1]
    own = np.where(np.eye(size, dtype=bool), 1.0 / keep, 1.0)  # E mm/(1 − r)²
    gaps = step.rate + keep * second.gaps
    gaps[:, np.arange(size), np.arange(size)] = 0.0
    covariance = without_mean(Covariance(second.variances / keep, gaps), mean)
    mixed = any(process.mixed for _, process in state.terms)
    tangent = None if before is None else before * own
    process = Process("opaque", mean, covariance, tangent, state.keys, mixed=mixed)
    out = FeatureState.of(process, state.layout, state.width, state.log_scale)

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        return Gradient.of(gradient.total() * own, gradient.layout, gradient.log)

    return out, back if run.backward else None


def disturb(step: Noise, state: FeatureState, run: Run) -> Stepped:
    """x ↦ x + z, z a Gaussian number for every entry: a process whose indices are independent."""
    like = np.ones(state.layout.size)
    apart = np.broadcast_to(1.0 - np.eye(like.shape[1]), (*like.shape, like.shape[1]))
    tangent = np.zeros(apart.shape) if run.tangent else None
    own = gaussian(Covariance(step.variance * like, apart), tangent)
    out = FeatureState(state.layout, state.width, (*state.terms, (like, own)), state.offset, state.log_scale)
    return out, (lambda gradient, _: gradient) if run.backward else None
