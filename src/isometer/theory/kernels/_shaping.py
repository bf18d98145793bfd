"""Activation shaping: choose input and output scale and shift so that a deep network keeps a target kernel.

φ̂(x) = output_scale·(φ(input_scale·x + input_shift) + output_shift). Deep kernel shaping asks for
κ(0) = 0, Q(1) = 1, Q'(1) = 1 and a slope κ_L'(1) of the whole network; tailored transformations ask for Q(1) = 1,
Q'(1) = 1, κ'(1) = 1 and a cosine κ_L(ρ₀) at the output. Q is the length map, Q(q) = E φ̂(√q X)².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isometer.activations import Activation, activation
from isometer.activations._closed_forms import as_two_rays
from isometer.errors import IsometerError
from isometer.theory.kernels._kernel_map import KernelMap


def length_slope(source: str | Activation | Any) -> float:
    """Q'(1) = E φ(X)φ'(X)X: how a small error of the signal's second moment grows per layer, relative to Q(1) = 1.

    Example:
        >>> from isometer.theory import length_slope
        >>> round(length_slope("unit(relu)"), 12)
        1.0
    """
    phi = activation(source)
    slope = phi.derivative
    value = phi.expectation(lambda x, y: x * y * slope(x)).value
    # the distributional part of φ' at a jump: E φφ'X = ½E (φ²)'X
    extra = 0.0
    for place, size in phi.jumps:
        near = 1e-13 * max(1.0, abs(place))
        middle = (phi(place + near) + phi(place - near)) / 2
        extra += place * size * middle * math.exp(-place * place / 2) / math.sqrt(2 * math.pi)
    return value + extra


@dataclass(frozen=True)
class ShapedActivation:
    """A shaped activation, its four constants and what it achieves at the given depth.

    Example:
        >>> from isometer.theory import shape_activation
        >>> shaped = shape_activation("tanh", depth=100, output_slope=1.5)
        >>> round(shaped.output_slope, 9)
        1.5
    """

    activation: Activation
    input_scale: float
    input_shift: float
    output_scale: float
    output_shift: float
    depth: int
    output_slope: float  # κ_L'(1) = κ'(1)^L
    output_value: float  # κ_L(input_cosine)
    input_cosine: float
    length_slope: float  # Q'(1)
    residual: float  # largest violation of the conditions


def _transformed(base: Activation, scale: float, shift: float) -> Activation:
    """x ↦ φ(scale·x + shift)."""
    return base.shifted(shift).gain(scale) if shift else base.gain(scale)


def shape_activation(
    source: str | Activation | Any,
    depth: int,
    *,
    output_slope: float | None = None,
    output_value: float | None = None,
    input_cosine: float = 0.0,
) -> ShapedActivation:
    """Find the input/output scale and shift of an activation that meet a target for a network of `depth` layers.

    Args:
        source: the activation to shape; not positively homogeneous (see `tailored_leaky_relu` for that family).
        depth: number of layers.
        output_slope: target κ_L'(1) > 1 with κ(0) = 0, Q(1) = Q'(1) = 1 (deep kernel shaping; 1.5 is customary).
        output_value: target κ_L(input_cosine) with Q(1) = Q'(1) = κ'(1) = 1 (tailored transformation; 0.9 is
            customary).
        input_cosine: ρ₀ for `output_value`.

    Returns:
        A `ShapedActivation`.

    Example:
        >>> from isometer.theory import shape_activation
        >>> shaped = shape_activation("softplus", depth=50, output_slope=1.5)
        >>> abs(shaped.activation.mean) < 1e-10, abs(shaped.activation.second_moment - 1) < 1e-10
        (True, True)
    """
    if (output_slope is None) == (output_value is None):
        raise IsometerError("give exactly one target: output_slope or output_value")
    if depth < 1 or depth != int(depth):
        raise IsometerError(f"depth must be a whole number ≥ 1; got {depth!r}")
    base = activation(source)
    if base.is_affine:
        raise IsometerError(f"{base.name} is affine: its kernel map is a straight line and cannot be shaped")
    if as_two_rays(base.expression) is not None:
        raise IsometerError(
            f"{base.name} is positively homogeneous: input scales do nothing to it — "
            "use tailored_leaky_relu(depth, value)"
        )
    if base.jumps:
        raise IsometerError(
            f"{base.name} jumps, so κ'(1) is infinite whatever the scale; shape a continuous activation"
        )
    if output_slope is not None:
        return _kernel_shaping(base, int(depth), output_slope, input_cosine)
    assert output_value is not None
    return _tailored(base, int(depth), output_value, input_cosine)


def _finish(
    base: Activation,
    scale: float,
    shift: float,
    constants: tuple[float, float],
    depth: int,
    cosine: float,
    worst: float,
) -> ShapedActivation:
    factor, offset = constants
    inner = _transformed(base, scale, shift)
    shaped = Activation(
        factor * (inner.expression + offset),
        f"shaped({base.name}, {scale:.6g}, {shift:.6g}, {factor:.6g}, {offset:.6g})",
    )
    kernel = KernelMap(shaped)
    return ShapedActivation(
        activation=shaped,
        input_scale=scale,
        input_shift=shift,
        output_scale=factor,
        output_shift=offset,
        depth=depth,
        output_slope=kernel.slope_at_one**depth,
        output_value=float(kernel.iterate(cosine, depth).cosine[-1]),
        input_cosine=cosine,
        length_slope=length_slope(shaped),
        residual=worst,
    )


def _solve(
    conditions: Callable[[np.ndarray], np.ndarray], starts: Sequence[tuple[float, ...]], name: str, wanted: str
) -> tuple[np.ndarray, float]:
    from scipy.optimize import least_squares  # slow to load, seldom needed

    best: Any = None
    for start in starts:
        try:
            found = least_squares(conditions, start, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=200)
        except IsometerError:  # a function without usable moments on the way: next start
            continue
        if best is None or found.cost < best.cost:
            best = found
        if best.cost < 1e-24:  # conditions met to about 1e-12
            break
    worst = math.inf if best is None else float(np.max(np.abs(best.fun)))
    if worst > 1e-8:
        raise IsometerError(
            f"no input/output scale and shift of {name} meets {wanted}; the closest violates a condition by "
            f"{worst:.2g} — choose a target closer to linear (a slope nearer to 1, a value nearer to the input cosine) "
            "or another activation"
        )
    return best.x, worst


def _kernel_shaping(base: Activation, depth: int, target: float, cosine: float) -> ShapedActivation:
    if not target > 1.0:
        raise IsometerError(f"output_slope must exceed 1, the slope of a linear network; got {target!r}")
    slope = target ** (1.0 / depth)

    def conditions(unknown: np.ndarray) -> np.ndarray:
        # the scale as exp: positive without a constraint
        inner = _transformed(base, math.exp(unknown[0]), float(unknown[1])).normalized()
        # κ'(1) − 1 is small in deep networks: compare logarithms so that the target is met after `depth` powers
        reached = math.log(inner.moments["slope_second"].value) * depth
        return np.array([reached - math.log(slope) * depth, length_slope(inner) - 1.0])

    near = 0.5 * math.log(max(slope - 1.0, 1e-12))  # κ'(1) − 1 = O(scale²)
    starts = [(near, 0.0), (near, 0.3), (near, -0.3), (near + 1, 1.0), (near + 1, -1.0), (near - 1, 0.5), (0.0, 0.5)]
    found, worst = _solve(conditions, starts, base.name, f"κ_L'(1) = {target:g} at depth {depth}")
    scale, shift = math.exp(found[0]), float(found[1])
    inner = _transformed(base, scale, shift)
    constants = (inner.unit_variance_gamma, -inner.mean)
    return _finish(base, scale, shift, constants, depth, cosine, worst)


def _tailored(base: Activation, depth: int, target: float, cosine: float) -> ShapedActivation:
    if not cosine < target < 1.0:
        raise IsometerError(
            f"output_value must lie between the input cosine {cosine:g} and 1, since with κ'(1) = 1 cosines only rise; "
            f"got {target!r}"
        )

    def conditions(unknown: np.ndarray) -> np.ndarray:
        inner = _transformed(base, math.exp(unknown[0]), float(unknown[1]))
        shaped = Activation(inner.expression + float(unknown[2])).unit()
        kernel = KernelMap(shaped)
        value = float(kernel.iterate(cosine, depth).cosine[-1])
        return np.array(
            [
                # times depth: what is left of κ'(1) − 1 compounds over the layers
                depth * (shaped.moments["slope_second"].value - 1.0),
                length_slope(shaped) - 1.0,
                value - target,
            ]
        )

    starts = []
    for scale in (0.3, 0.1, 0.6, 0.03, 1.0):
        for shift in (0.5, -0.5, 1.0, -1.0):
            inner = _transformed(base, scale, shift)
            # κ'(1) = 1 fixes E φ² = E φ'², which gives the output shift
            gap = inner.moments["slope_second"].value - inner.variance
            if gap > 0:
                starts.append((math.log(scale), shift, math.sqrt(gap) - inner.mean))
                starts.append((math.log(scale), shift, -math.sqrt(gap) - inner.mean))
    found, worst = _solve(conditions, starts, base.name, f"κ_L({cosine:g}) = {target:g} at depth {depth}")
    scale, shift, offset = math.exp(found[0]), float(found[1]), float(found[2])
    inner = _transformed(base, scale, shift)
    constants = (Activation(inner.expression + offset).gain_forward, offset)
    return _finish(base, scale, shift, constants, depth, cosine, worst)


def tailored_leaky_relu(depth: int, output_value: float = 0.9, input_cosine: float = 0.0) -> Activation:
    """unit(leaky_relu(a)) with a chosen so that κ_L(input_cosine) = output_value after `depth` layers.

    Every such activation has Q(q) = q and κ'(1) = 1; the negative slope a alone sets how fast cosines rise.

    Example:
        >>> from isometer.theory import kernel_map, tailored_leaky_relu
        >>> phi = tailored_leaky_relu(depth=100, output_value=0.9)
        >>> round(float(kernel_map(phi).iterate(0.0, 100).cosine[-1]), 9)
        0.9
    """
    from scipy.optimize import brentq  # slow to load, seldom needed

    if depth < 1 or depth != int(depth):
        raise IsometerError(f"depth must be a whole number ≥ 1; got {depth!r}")

    def reached(slope: float) -> float:
        kernel = KernelMap(activation(f"leaky_relu({slope!r})"))
        return float(kernel.iterate(input_cosine, int(depth)).cosine[-1])

    highest = reached(0.0)
    if not input_cosine < output_value <= highest:
        raise IsometerError(
            f"with {depth} layers a leaky ReLU can bring the cosine {input_cosine:g} to at most {highest:.6g} "
            f"(plain ReLU); got {output_value!r}"
        )
    # a → 1 is linear and leaves the cosine alone; the value falls monotonically in a
    slope = float(brentq(lambda a: reached(a) - output_value, 0.0, 1.0 - 1e-12, xtol=1e-15, rtol=8.9e-16))
    return activation(f"leaky_relu({slope!r})").unit()
