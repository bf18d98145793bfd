"""Operations on Gaussian features that no formula for pairs covers: batch norm, maxima, and what is behind them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from isometer.activations import Activation, activation
from isometer.activations._closed_forms import as_two_rays
from isometer.errors import IsometerError
from isometer.theory.batch_norm._layer_map import batch_norm_map
from isometer.theory.batch_norm._parts import Position
from isometer.theory.networks._columns import (
    Activate,
    Affine,
    Columns,
    Maximum,
    NormalizeBatch,
    Operation,
    Whole,
)
from isometer.theory.networks._covariance import Covariance, without_mean
from isometer.theory.networks._gradient import Gradient, Squares, averaged_push
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._sampled import sampled_statistics
from isometer.theory.networks._state import FeatureState, Group, NotCovered, Process, given
from isometer.theory.networks._weights import Run, Stepped

Floats = NDArray[np.float64]
_UNEVEN = 1e-10  # relative spread of the entries of a Gram matrix that counts as none
_SAMPLED_SLOPES = 1e-3  # relative error of sampled Jacobians, about
_FORMULA = 1e-11  # relative error of an integral
_INTEGRATED = 512  # rows up to which an integral for each pair is taken


def extended(state: FeatureState, operation: Operation) -> Group:
    """The operations behind the only process of a state, with one more."""
    ((scale, process),) = state.terms
    group = process.group
    assert group is not None
    return Group(group.base, (*group.operations, *_affine(scale, state.offset), operation), group.tangent)


def begun(state: FeatureState, operation: Operation) -> Group:
    """One operation on Gaussian features."""
    base, mean = state.centred(), state.mean()
    if not state.offset.any() and mean.any():  # what was given counts as Gaussian
        base, mean = state.second(), np.zeros_like(mean)
    return Group(base, (*_affine(np.ones_like(mean), mean), operation), state.tangent())


def _affine(scale: Floats, offset: Floats) -> tuple[Affine, ...]:
    if not offset.any() and (scale == 1.0).all():
        return ()
    return (Affine(-offset / np.where(scale != 0.0, scale, 1.0), scale),)


def apply_whole(operation: Whole, state: FeatureState, layout: Layout, run: Run) -> Stepped:
    """An operation on all entries of a feature together, which leaves a state of the given layout.

    What stands before it is Gaussian, a function of a Gaussian, or given.
    """
    single = state.single
    if single is not None and single.features is not None:
        return _of_given(operation, state, single.features, layout, run)
    begins = single is None or single.group is None
    if begins and not state.is_gaussian:
        name = "batch norm" if isinstance(operation, NormalizeBatch) else "pool('max')"
        raise NotCovered(name, "the features before it are not Gaussian", "put a dense step before it")
    group = begun(state, operation) if begins else extended(state, operation)
    process = process_of(group, state.keys, layout, run)
    out = FeatureState.of(process, layout, state.width, state.log_scale)
    if not run.backward:
        return out, None
    steps = group.operations if begins else (operation,)

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        for one in reversed(steps):
            gradient = gradient.behind(one)
        return gradient.averaged(group.base, state.layout) if begins else gradient

    return out, back


def _of_given(operation: Whole, state: FeatureState, features: Floats, layout: Layout, run: Run) -> Stepped:
    x = state.terms[0][0][..., None] * features + state.offset[..., None]
    made = np.stack([operation(rows.T).T for rows in x])
    process = given(made, tangent=run.tangent, sources=state.keys)
    out = FeatureState.of(process, layout, state.width, state.log_scale)
    if not run.backward:
        return out, None
    return out, lambda gradient, _: gradient.behind(operation).of_given(x, state.layout)


def process_of(group: Group, sources: frozenset[int], layout: Layout, run: Run) -> Process:
    """The features that a group of operations makes, in the layout that they have."""
    stack, rows = layout.size
    second, mean = np.empty((stack, rows, rows)), np.empty((stack, rows))
    push = np.empty_like(second) if run.tangent else None
    if run.dry:
        like = np.ones_like(mean)
        gaps = np.broadcast_to(1.0 - np.eye(rows), second.shape)
        return Process("operations", 0.4 * like, Covariance(like, gaps), push, sources, group)
    error = 0.0
    for copy in range(stack):
        columns = group.columns(copy)
        second[copy], mean[copy], own = grouped_statistics(columns, run.scramble)
        error = max(error, own)
        if push is not None:
            assert group.tangent is not None
            pushed = averaged_push(columns.operations, columns.covariance, group.tangent[copy], run.scramble)
            if pushed is None:
                reason = "the tangent kernel of samples of so low a rank is infinite"
                raise NotCovered("batch norm", reason, "pass samples of rank 3 or more")
            push[copy] = pushed
            error = max(error, _SAMPLED_SLOPES)
    run.moments.error += error
    run.moments.sampled |= error > _FORMULA
    return Process("operations", mean, without_mean(Covariance.of_gram(second), mean), push, sources, group)


def grouped_statistics(columns: Columns, scramble: int = 0) -> tuple[Floats, Floats, float]:
    """E yyᵀ, E y and a relative error; exact where there is a formula, sampled otherwise."""
    operations = columns.operations
    last = operations[-1]
    if isinstance(last, Affine):
        gram, mean, error = grouped_statistics(Columns(columns.covariance, operations[:-1]), scramble)
        return affine_gram(gram, mean, last), last(mean), error
    found = batch_norm_formula(columns)
    if found is None:
        gram, mean, error = sampled_statistics(columns, scramble)
        return gram, mean, max(error, 2 * _FORMULA)
    return found, sampled_statistics(columns, scramble).mean, _FORMULA


def batch_norm_formula(columns: Columns) -> Floats | None:
    """E yyᵀ after a batch norm and at most one activation, where it is an integral; None otherwise.

    Example:
        >>> from isometer.spec import Norm
        >>> found = batch_norm_formula(Columns(np.eye(3), (NormalizeBatch(Norm()),)))
        >>> found.round(12).tolist()[0]
        [1.0, -0.5, -0.5]
    """
    operations, covariance = columns.operations, columns.covariance
    known = [type(operation) for operation in operations]
    if known not in ([NormalizeBatch], [NormalizeBatch, Activate], [Activate, NormalizeBatch]):
        return None
    norm = next(operation.norm for operation in operations if isinstance(operation, NormalizeBatch))
    phi: Activation | None = next((o.phi.gain(o.gain) for o in operations if isinstance(o, Activate)), None)
    position: Position = "pre" if isinstance(operations[0], NormalizeBatch) else "post"
    apart = ~np.eye(len(covariance), dtype=bool)
    if not apart.any() or len(covariance) > _INTEGRATED:
        return None
    uneven = max(np.ptp(np.diag(covariance)), np.ptp(covariance[apart]))
    rays = phi is None or as_two_rays(phi.expression) is not None
    quick = position == "pre" or norm.recenter or norm.divisor == "rms"
    exact = uneven <= _UNEVEN * np.abs(covariance).max() and quick
    if not (exact or (rays and position == "pre")):
        return None
    if uneven <= _UNEVEN * np.abs(covariance).max():
        # batch_norm_map counts as exchangeable what is so to 1e-12; make it exact
        covariance = np.where(apart, covariance[apart].mean(), np.diag(covariance).mean())
    try:
        found = batch_norm_map(covariance, "identity" if phi is None else phi, norm=norm, position=position)
    except IsometerError:
        return None
    # sampled with the fixed points of every layer instead, which keep the map deterministic
    return None if found.method == "quasi-Monte Carlo" else found.gram


def affine_gram(gram: Floats, mean: Floats, own: Affine) -> Floats:
    """E yyᵀ behind an affine operation, from E xxᵀ and E x."""
    sizes = np.outer(own.scale, own.scale)
    if not own.shift.any() and own.offset == 0.0:
        return np.asarray(gram * sizes)
    cross = np.outer(mean, own.shift)
    new = (mean - own.shift) * own.scale
    spread = (gram - cross - cross.T + np.outer(own.shift, own.shift)) * sizes
    return np.asarray(spread + own.offset * (new[:, None] + new) + own.offset**2)


def composite(group: Group) -> Activation | None:
    """The operations of a group as one function of each entry; None where entries differ or affect each other."""
    found: Activation | None = None
    for operation in group.operations:
        if isinstance(operation, NormalizeBatch | Maximum):
            return None
        if isinstance(operation, Affine):
            scale, shift = float(operation.scale.flat[0]), float(operation.shift.flat[0])
            if np.ptp(operation.scale) > 1e-13 * abs(scale) or np.ptp(operation.shift) > 1e-13 * max(abs(shift), 1.0):
                return None
            step = activation("identity").shifted(-shift).scaled(scale)
            if operation.offset:
                return None
        else:
            step = operation.phi.gain(operation.gain) if operation.gain != 1.0 else operation.phi
        found = step if found is None else step.compose(found)
    return found if found is not None and math.isfinite(found(0.0)) else None
