"""Normalisations at infinite width: over features affine, over samples one function of all samples."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from isometer.activations._closed_forms import as_two_rays
from isometer.spec import Norm, Scaling
from isometer.theory.networks._columns import Activate, Affine, NormalizeBatch
from isometer.theory.networks._gradient import Gradient, Squares
from isometer.theory.networks._grouped import apply_whole
from isometer.theory.networks._state import FeatureState, NotCovered, given
from isometer.theory.networks._weights import Run, Stepped

Floats = NDArray[np.float64]


def normalise(step: Norm, state: FeatureState, run: Run) -> Stepped:
    """A norm over features, groups of them or samples."""
    if step.over == "batch":
        return _over_samples(step, state, run)
    single = state.single
    if step.over == "groups" and step.groups > 1:
        if single is not None and single.features is not None:
            return _grouped_features(step, state, single.features, run)
        if any(process.mixed for _, process in state.terms):
            raise NotCovered("group norm", "features of several laws stand before it", "use a layer norm")
    return _over_features(step, state, run)


def scale(step: Scaling, state: FeatureState, run: Run) -> Stepped:
    """x ↦ factor·x."""
    factor = run.number(step, "factor")
    return _linear(state, np.full(state.layout.size, factor), np.zeros(state.layout.size), run)


def _linear(state: FeatureState, factor: Floats, shift: Floats, run: Run) -> Stepped:
    out = state.scaled(factor, shift)
    if not run.backward:
        return out, None
    step = Affine(-shift / np.where(factor != 0.0, factor, 1.0), factor)
    return out, lambda gradient, _: gradient.scaled(factor, step)


def _over_features(norm: Norm, state: FeatureState, run: Run) -> Stepped:
    """(x − μ)/√(s² + ε): μ and s² are constants, what is projected out one direction of as many as features."""
    mean = state.mean()
    variances = np.zeros_like(mean)
    for weight, process in state.terms:
        variances = variances + weight * weight * process.covariance.variances
    factor, shift = feature_statistics(norm, variances, mean, state.width)
    return _linear(state, factor, shift, run)


def feature_statistics(norm: Norm, variances: Floats, mean: Floats, width: int) -> tuple[Floats, Floats]:
    """(factor, shift) of a norm over features that have these variances and means: x ↦ factor·x + shift.

    Example:
        >>> factor, shift = feature_statistics(Norm.named("layer"), np.array([4.0]), np.array([1.0]), 8)
        >>> (factor * 3.0 + shift).tolist()
        [1.0]
    """
    size = (variances if norm.divisor == "std" else variances + mean * mean) + norm.eps
    factor = np.where(size > 0.0, 1.0, 0.0) / np.sqrt(np.where(size > 0.0, size, 1.0))
    if not norm.rescale:
        factor = np.ones_like(variances)
    unit = 1.0 if norm.size == "mean-square" else 1.0 / math.sqrt(width / norm.groups)
    factor = factor * norm.scale * unit
    return factor, norm.shift - (factor * mean if norm.recenter else np.zeros_like(mean))


def _grouped_features(norm: Norm, state: FeatureState, features: Floats, run: Run) -> Stepped:
    """Groups of features of the input, each with statistics of its own."""
    x = state.terms[0][0][..., None] * features + state.offset[..., None]
    parts = x.reshape(*x.shape[:2], norm.groups, -1)
    mean, variances = parts.mean(axis=-1), parts.var(axis=-1)
    factor, shift = feature_statistics(norm, variances, mean, state.width)
    made = (parts * factor[..., None] + shift[..., None]).reshape(x.shape)
    process = given(made, tangent=run.tangent, sources=state.keys)
    out = FeatureState.of(process, state.layout, state.width, state.log_scale)
    slopes = np.einsum("sig,sjg->sij", factor, factor) / norm.groups

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        return Gradient.of(gradient.total() * slopes, gradient.layout, gradient.log)

    return out, back if run.backward else None


# --- over samples -----------------------------------------------------------------------------------------------------


def _over_samples(norm: Norm, state: FeatureState, run: Run) -> Stepped:
    _check_over_samples(norm, state, run)
    return apply_whole(NormalizeBatch(norm), state, state.layout, run)


def _check_over_samples(norm: Norm, state: FeatureState, run: Run) -> None:
    if state.layout.exchangeable:
        reason = "its statistics are those of all tokens of a batch"
        raise NotCovered("batch norm of exchangeable tokens", reason, "pass a batch, or use norm('layer')")
    samples = state.layout.samples * state.layout.positions
    _check_activations(norm, state, run)
    if samples < 2:
        raise NotCovered("batch norm", "batch statistics need at least 2 samples", "use norm('layer')")
    if not norm.rescale or norm.eps > 0:
        return
    if not norm.recenter and norm.divisor == "std" and samples < 4:
        reason = f"with {samples} samples the mean over the deviation has no second moment"
        raise NotCovered("batch norm", reason, "pass at least 4 samples")
    least = 3 if not norm.recenter and norm.divisor == "rms" else 4
    if run.slopes and samples < least:
        reason = f"with {samples} samples the mean square of gradients through this norm is infinite"
        raise NotCovered("batch norm", reason, f"pass at least {least} samples")


def _check_activations(norm: Norm, state: FeatureState, run: Run) -> None:
    """Norms of activations that have no second moment, or no gradient of finite mean square."""
    group = None if state.single is None else state.single.group
    before = [] if group is None else [operation for operation in group.operations if isinstance(operation, Activate)]
    if not before or not norm.rescale:
        return
    if not norm.recenter and norm.divisor == "std":
        reason = "the mean over the deviation of activations has no second moment or too heavy a tail to be sampled"
        raise NotCovered("batch norm", reason, "use norm('batch')")
    rays = as_two_rays(before[-1].phi.expression)
    if run.slopes and norm.eps == 0.0 and rays is not None and 0.0 in rays:
        reason = "gradients through a batch norm of activations that vanish on a half-line have an infinite mean square"
        raise NotCovered("batch norm", reason, "put the norm before the activation")
