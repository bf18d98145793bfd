"""Activations at infinite width."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isometer.activations import Activation
from isometer.spec import Act
from isometer.theory.batch_norm._moments import slope_of
from isometer.theory.networks._columns import Activate, Affine, Maximum, NormalizeBatch, Operation
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._gradient import Gradient, Squares
from isometer.theory.networks._grouped import composite, extended, process_of
from isometer.theory.networks._state import FeatureState, Group, NotCovered, Process, given
from isometer.theory.networks._weights import Run, Stepped

Floats = NDArray[np.float64]
_CONSTANT = 1e-13  # relative spread of means that counts as none


def activate(step: Act, state: FeatureState, run: Run) -> Stepped:
    """x ↦ φ(αx): exact for Gaussian features, also for a function of a function of them."""
    phi, gain = run.moments.activation(step.activation), run.number(step, "gain")
    if run.watched is not None:
        run.watched.append(state)
    if not isinstance(gain, float):
        return _of_copies(replace(step, gain=1.0), gain, state, run)
    single = state.single
    if single is not None and single.features is not None:
        return _of_given(phi, gain, state, single.features, run)
    if run.tangent and phi.jumps:
        raise NotCovered(
            f"act({step.activation!r}) in a tangent kernel", "it jumps, and E φ′φ′ is infinite", "use kinds=('nngp',)"
        )
    if single is not None and single.kind == "operations":
        return _of_operations(phi, gain, state, run)
    if not state.is_gaussian:
        raise NotCovered(
            f"act({step.activation!r})",
            "the features before it are not Gaussian",
            "put a dense step before it, or simulate it",
        )
    shift, base = gaussian_law(state, f"act({step.activation!r})")
    operations: tuple[Operation, ...] = (Activate(phi, gain),)
    if shift != 0.0:
        operations = (Affine(np.full(base.variances.shape, -shift), np.ones(base.variances.shape)), *operations)
    moved = phi if shift == 0.0 else phi.shifted(gain * shift)
    return _elementwise(moved, gain, base, state, Group(base, operations, state.tangent()), run)


def _of_copies(step: Act, gain: Floats, state: FeatureState, run: Run) -> Stepped:
    """Gains that differ between copies, as a scaling before the function."""
    factor = np.broadcast_to(gain, state.layout.size)
    out, back = activate(step, state.scaled(factor, np.zeros(state.layout.size)), run)
    if back is None:
        return out, None

    def whole(gradient: Gradient, squares: Squares) -> Gradient:
        found = back(gradient, squares)
        return found.scaled(factor, Affine(np.zeros(state.layout.size), factor))

    return out, whole


def gaussian_law(state: FeatureState, step: str) -> tuple[float, Covariance]:
    """(μ, covariance) of features that are N(μ, covariance), μ the same at every index.

    What was given and had Gaussians added to it counts as Gaussian without mean, of the same second moments.
    """
    mean = state.mean()
    if not mean.any():
        return 0.0, state.centred()
    if not state.offset.any():
        return 0.0, state.second()
    base = state.centred()
    size = float(np.abs(mean).max())
    root = float(np.sqrt(base.variances.max()))
    if size <= _CONSTANT * root:  # what centring leaves
        return 0.0, base
    if float(np.ptp(mean)) <= _CONSTANT * max(size, root):
        return float(mean.mean()), base
    if any(process.kind == "given" for _, process in state.terms):
        return 0.0, state.second()
    raise NotCovered(step, "the samples have different means before it", "use a norm that recentres, or no shift")


def _elementwise(
    phi: Activation, gain: float, base: Covariance, state: FeatureState, group: Group, run: Run
) -> Stepped:
    found = run.moments.activated(phi, base.times(gain**2), slopes=run.slopes)
    slopes = None if found.slopes is None else gain**2 * found.slopes
    tangent = group.tangent
    tangent = tangent * slopes if run.tangent and tangent is not None and slopes is not None else None
    process = Process("operations", found.mean, found.covariance, tangent, state.keys, group)
    out = FeatureState.of(process, state.layout, state.width, state.log_scale)
    if not run.backward:
        return out, None
    assert slopes is not None
    steps = group.operations

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        if gradient.is_pending:
            for operation in reversed(steps):
                gradient = gradient.behind(operation)
            return gradient.averaged(base, state.layout)
        return Gradient.of(gradient.total() * slopes, gradient.layout, gradient.log)

    return out, back


def _of_operations(phi: Activation, gain: float, state: FeatureState, run: Run) -> Stepped:
    operation = Activate(phi, gain)
    group = extended(state, operation)
    whole = composite(group)
    joint = any(isinstance(one, NormalizeBatch | Maximum) for one in group.operations)
    if whole is None and state.layout.axes and not joint:
        raise NotCovered(
            f"act({phi.name!r})",
            "a norm over each position stands between it and the activation before",
            "put a dense step between the two",
        )
    if whole is not None:
        out, _ = _elementwise(whole, 1.0, group.base, state, group, run)
    else:
        process = process_of(group, state.keys, state.layout, run)
        out = FeatureState.of(process, state.layout, state.width, state.log_scale)
    return out, (lambda gradient, _: gradient.behind(operation)) if run.backward else None


def _of_given(phi: Activation, gain: float, state: FeatureState, features: Floats, run: Run) -> Stepped:
    """Numbers of the input: φ of each."""
    x = state.terms[0][0][..., None] * features + state.offset[..., None]
    operation = Activate(phi, gain)
    process = given(operation(x), tangent=run.tangent, sources=state.keys)
    out = FeatureState.of(process, state.layout, state.width, state.log_scale)
    if not run.backward:
        return out, None
    slope = gain * slope_of(phi, gain * x)
    slopes = np.einsum("sid,sjd->sij", slope, slope) / x.shape[-1]

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        if gradient.is_pending:
            return gradient.behind(operation).of_given(x, state.layout)
        return Gradient.of(gradient.total() * slopes, gradient.layout, gradient.log)

    return out, back
