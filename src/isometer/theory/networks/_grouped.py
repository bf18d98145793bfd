"""Operations on Gaussian features that no formula for pairs covers: batch norm, and activations behind it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isometer.activations import Activation, activation
from isometer.activations._closed_forms import as_two_rays
from isometer.errors import IsometerError
from isometer.theory.batch_norm._laplace import two_ray_gram
from isometer.theory.batch_norm._layer_map import batch_norm_map
from isometer.theory.batch_norm._parts import Kind, Position
from isometer.theory.networks._columns import (
    Activate,
    Affine,
    Columns,
    NormalizeBatch,
    Operation,
    evaluate,
    odd_operations,
    seen_covariance,
)
from isometer.theory.networks._covariance import Covariance, without_mean
from isometer.theory.networks._gradient import averaged_push
from isometer.theory.networks._points import gaussian_batches, half_batches
from isometer.theory.networks._state import FeatureState, Group, NotCovered, Process
from isometer.theory.networks._weights import Run

Floats = NDArray[np.float64]
POINTS = 1 << 14
_UNEVEN = 1e-10  # relative spread of the entries of a Gram matrix that counts as none
SAMPLED = 1e-3  # relative error of a sampled expectation, about
_CONTROLLED = 200  # samples up to which an integral per pair costs less than the points


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


def process_of(group: Group, sources: frozenset[int], run: Run) -> Process:
    """The features that a group of operations makes."""
    size = group.base.gaps.shape
    second, mean = np.empty(size), np.empty(size[:2])
    push = np.empty(size) if run.tangent else None
    if run.dry:
        like = np.ones(size[:2])
        return Process("operations", 0.4 * like, Covariance(like, group.base.gaps), push, sources, group)
    error = 0.0
    for copy in range(size[0]):
        columns = group.columns(copy)
        second[copy], mean[copy], own = grouped_statistics(columns, run.scramble)
        error = max(error, own)
        if push is not None:
            assert group.tangent is not None
            pushed = averaged_push(columns.operations, columns.covariance, group.tangent[copy], run.scramble)
            if pushed is None:
                reason = "the tangent kernel of samples of so low a rank is infinite"
                raise NotCovered("batch norm", reason, "pass samples of rank 3 at least")
            push[copy] = pushed
            error = max(error, SAMPLED)
    run.moments.error += error
    run.moments.sampled |= error >= SAMPLED
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
        return *controlled_statistics(columns, scramble), SAMPLED
    return found, sampled_statistics(columns, scramble)[1], 1e-11


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
    if not apart.any():
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


def sampled_statistics(columns: Columns, scramble: int = 0) -> tuple[Floats, Floats]:
    """E yyᵀ and E y by quasi-Monte Carlo."""
    covariance = seen_covariance(columns.operations, columns.covariance)
    n, count = len(covariance), 0
    gram, mean = np.zeros((n, n)), np.zeros(n)
    odd = odd_operations(columns.operations)
    first, rest = columns.operations[:odd], columns.operations[odd:]
    for half in half_batches(covariance, POINTS, scramble):
        x = evaluate(first, half)
        for side in (x, -x):
            y = evaluate(rest, side)
            gram, mean, count = gram + y.T @ y, mean + y.sum(axis=0), count + len(y)
    return gram / count, mean / count


def controlled_statistics(columns: Columns, scramble: int = 0) -> tuple[Floats, Floats]:
    """As `sampled_statistics`, but of φ behind a rescaling batch norm only what the nearest φ of two slopes leaves is
    sampled, whose own E yyᵀ is an integral: with ten samples the error of gelu falls to a fifth.
    """
    operations, kind = columns.operations, _rescaling(columns.operations)
    if kind is None or len(columns.covariance) > _CONTROLLED:
        return sampled_statistics(columns, scramble)
    x = evaluate(operations[:1], gaussian_batches(seen_covariance(operations, columns.covariance), POINTS, scramble)[0])
    y = evaluate(operations[1:], x)
    gram, mean = y.T @ y / len(y), y.mean(axis=0)
    up, down = np.maximum(x, 0.0), np.minimum(x, 0.0)
    right, left = (float(np.vdot(side, y)) / max(float(np.vdot(side, side)), 1e-300) for side in (up, down))
    near = right * up + left * down
    try:
        exact = two_ray_gram(columns.covariance, (right, left), kind)[0]
    except IsometerError:  # no second moment
        return gram, mean
    return gram + (exact - near.T @ near / len(near)), mean


def _rescaling(operations: tuple[Operation, ...]) -> Kind | None:
    """Of a plain rescaling batch norm with one activation behind it; None of other operations."""
    match operations:
        case (NormalizeBatch(norm), Activate()) if norm == replace(norm, eps=0.0, scale=1.0, shift=0.0):
            if norm.rescale and norm.size == "mean-square" and not norm.whiten:
                if norm.recenter:
                    return "full" if norm.divisor == "std" else None
                return "rms" if norm.divisor == "rms" else "std"
    return None


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
        if isinstance(operation, NormalizeBatch):
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
