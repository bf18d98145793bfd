"""Duals that have a formula, recognised from the shape of the expression (004/tab-mu, 001/def-5.3)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial import hermite_e
from numpy.typing import NDArray

from isometer.activations._dual import ClosedDual, Dual, SeriesDual, angle_of, angle_of_gap
from isometer.activations._expression import Constant, Expression, FunctionCall, Variable, as_affine

Floats = NDArray[np.float64]


def closed_dual(core: Expression, exponent: int = 0) -> Dual | None:
    """The dual of `core`·2^−exponent by formula, or None. `core` has no outer scale or shift left."""
    polynomial = as_polynomial(core)
    if polynomial is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            dual = _polynomial_dual(np.ldexp(polynomial, -exponent))
        return dual if math.isfinite(dual.slope_at_one) else None
    ray = as_two_rays(core)
    if ray is not None:
        return two_rays_dual(*(math.ldexp(slope, -exponent) for slope in ray))
    if isinstance(core, FunctionCall) and core.name == "power" and core.arguments[1] == Constant(2.0):
        inner = core.arguments[0]
        if isinstance(inner, FunctionCall) and inner.name == "relu":
            gain = _pure_gain(inner.arguments[0])
            return None if gain is None else _squared_relu_dual(gain * 2.0 ** (-exponent / 2))
    if isinstance(core, FunctionCall) and core.name == "exp":
        bump = as_polynomial(core.arguments[0])
        if bump is not None and len(bump) == 3 and bump[0] == bump[1] == 0.0 and -1e100 < bump[2] < 0:
            return _bump_dual(-bump[2]) if exponent == 0 else None
        affine = as_affine(core.arguments[0])
        return None if affine is None else _exponential_dual(affine[0], affine[1] - exponent * math.log(2.0))
    if exponent != 0:
        return None
    if isinstance(core, FunctionCall) and core.name in ("sin", "cos", "erf", "step", "sign"):
        gain = _pure_gain(core.arguments[0])
        if gain is None:
            return None
        if core.name in ("sin", "cos"):
            return _wave_dual(gain, odd=core.name == "sin")
        if core.name == "erf":
            return _erf_dual(gain)
        return _sign_dual(1.0, 0.0) if core.name == "sign" else _sign_dual(0.5, 0.5)
    return None


def _pure_gain(expression: Expression) -> float | None:
    """g when the expression is g·x, g ≠ 0."""
    affine = as_affine(expression)
    return affine[0] if affine is not None and affine[1] == 0.0 and affine[0] != 0.0 else None


@lru_cache(maxsize=65536)
def as_polynomial(expression: Expression) -> Floats | None:
    """Coefficients (ascending) when the tree is a polynomial of degree ≤ 24 by construction."""
    if isinstance(expression, Variable):
        return np.array([0.0, 1.0])
    if isinstance(expression, Constant):
        return np.array([expression.value])
    if not isinstance(expression, FunctionCall):
        return None
    if expression.name == "power":
        base, exponent = as_polynomial(expression.arguments[0]), expression.arguments[1]
        assert isinstance(exponent, Constant)
        k = exponent.value
        if base is None or not k.is_integer() or not 0 <= k * (len(base) - 1) <= 24:
            return None
        return np.asarray(np.polynomial.polynomial.polypow(base, int(k)))
    if expression.name not in ("add", "subtract", "multiply", "negative", "divide"):
        return None
    parts = [as_polynomial(argument) for argument in expression.arguments]
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    if expression.name == "negative":
        return -known[0]
    a, b = known
    if expression.name == "multiply":
        product: Floats = np.asarray(np.polynomial.polynomial.polymul(a, b), dtype=float)
        return product if len(product) <= 25 else None
    if expression.name == "divide":
        return a / b[0] if len(b) == 1 and b[0] != 0 else None
    combined = np.polynomial.polynomial.polyadd(a, b if expression.name == "add" else -b)
    return np.asarray(combined)


def _polynomial_dual(polynomial: Floats) -> SeriesDual:
    factorials = np.array([float(math.factorial(k)) for k in range(len(polynomial))])
    series = hermite_e.poly2herme(polynomial)
    # every power has Hermite coefficients ≥ 0: this is what the sum of c_k is made of, and what it rounds at
    rounding = 1e-15 * hermite_e.poly2herme(np.abs(polynomial))
    series = np.where(np.abs(series) <= rounding, 0.0, series)
    squares = series**2 * factorials  # c_k = series_k √k!
    if len(squares) == 1:
        squares = np.append(squares, 0.0)
    moment = math.fsum(squares)
    slope = math.fsum(squares * np.arange(len(squares)))
    error = 4e-16 * moment + float(np.abs(series) * factorials @ rounding)
    return SeriesDual(squares, moment, slope, error, method="closed form")


@lru_cache(maxsize=65536)
def as_two_rays(expression: Expression) -> tuple[float, float] | None:
    """(right slope, left slope) when the tree is positively homogeneous of degree one by construction."""
    if isinstance(expression, Variable):
        return 1.0, 1.0
    if not isinstance(expression, FunctionCall):
        return None
    if expression.name in ("relu", "abs", "negative"):
        inner = as_two_rays(expression.arguments[0])
        if inner is None:
            return None
        right, left = inner
        if expression.name == "negative":
            return -right, -left
        if expression.name == "abs":
            return abs(right), -abs(left)  # |left·x| = −|left|·x on x < 0
        return max(right, 0.0), min(left, 0.0)  # on x < 0 the value is left·x
    if expression.name in ("add", "subtract"):
        first, second = (as_two_rays(argument) for argument in expression.arguments)
        if first is None or second is None:
            return None
        sign = 1.0 if expression.name == "add" else -1.0
        return first[0] + sign * second[0], first[1] + sign * second[1]
    if expression.name in ("multiply", "divide"):
        a, b = expression.arguments
        if isinstance(b, Constant):
            inner = as_two_rays(a)
            factor = b.value if expression.name == "multiply" else 1.0 / b.value if b.value else math.nan
        elif isinstance(a, Constant) and expression.name == "multiply":
            inner, factor = as_two_rays(b), a.value
        else:
            return None
        return None if inner is None else (inner[0] * factor, inner[1] * factor)
    if expression.name in ("maximum", "minimum"):
        first, second = (
            (0.0, 0.0) if argument == Constant(0.0) else as_two_rays(argument) for argument in expression.arguments
        )
        if first is None or second is None:
            return None
        # on x < 0 the larger value has the smaller slope
        pick, other = (max, min) if expression.name == "maximum" else (min, max)
        return pick(first[0], second[0]), other(first[1], second[1])
    return None


def _excess(theta: Floats) -> Floats:
    """sin θ − θ cos θ without cancellation at small θ (≈ θ³/3)."""
    theta = np.asarray(theta, dtype=float)
    square = theta * theta
    # Σ (−1)^{k+1} 2k θ^{2k+1}/(2k + 1)!, by Horner's rule
    series = np.zeros_like(theta)
    for denominator in (518918400, 3991680, 45360, 840, 30, 3):
        series = 1 / denominator - square * series
    series = series * theta**3
    return np.where(theta < 0.5, series, np.sin(theta) - theta * np.cos(theta))


def two_rays_dual(right: float, left: float) -> ClosedDual:
    """φ(x) = right·x for x > 0, left·x for x < 0: odd part a·x plus even part b·|x| (arc-cosine kernel, order one)."""
    a, b = (right + left) / 2, (right - left) / 2

    def even(theta: Floats) -> Floats:  # E |X||Y| = (2/π)(sin θ + (π/2 − θ) cos θ)
        return (2 / math.pi) * (np.sin(theta) + (math.pi / 2 - theta) * np.cos(theta))

    def deficit(gap: Floats) -> Floats:
        # 1 − E|X||Y| = (1 − ρ) − (2/π)(sin θ − θ cos θ)
        return (a * a + b * b) * gap - b * b * (2 / math.pi) * _excess(angle_of_gap(gap))

    return ClosedDual(
        second_moment=a * a + b * b,
        at_zero=b * b * 2 / math.pi,
        slope_at_zero=a * a,
        slope_at_one=a * a + b * b,
        value_of=lambda rho: a * a * rho + b * b * even(angle_of(rho)),
        slope_of=lambda rho: a * a + b * b * (1 - 2 * angle_of(rho) / math.pi),
        deficit_of=deficit,
        slope_of_gap=lambda gap: a * a + b * b * (1 - 2 * angle_of_gap(gap) / math.pi),
    )


def _squared_relu_dual(gain: float) -> ClosedDual:
    """relu(g x)²: arc-cosine kernel of order two, J₂ = 3 sin θ cos θ + (π − θ)(1 + 2cos²θ)."""
    g4 = gain**4
    unit = g4 / (2 * math.pi)

    def value(rho: Floats) -> Floats:
        theta = angle_of(rho)
        return unit * (3 * np.sin(theta) * rho + (math.pi - theta) * (1 + 2 * rho * rho))

    def slope(rho: Floats) -> Floats:  # E 2relu(X) 2relu(Y)
        return slope_at(angle_of(rho))

    def slope_at(theta: Floats) -> Floats:
        return 4 * unit * (np.sin(theta) + (math.pi - theta) * np.cos(theta))

    def deficit(gap: Floats) -> Floats:
        theta, rho = angle_of_gap(gap), 1.0 - gap
        # 3π − J₂ = 2π(1 − ρ²) − [3 sin θ cos θ − θ(1 + 2cos²θ)]; the bracket is O(θ⁵)
        # Σ_{k≥2} (−1)^k (1 − k)(2θ)^{2k+1}/(2k + 1)!, without the cancellation of the bracket
        square = theta * theta
        small = theta**5 * (-4 / 15 + square * (16 / 315 - square * (4 / 945 - square * 2048 / 9979200)))
        bracket = np.where(theta < 0.1, small, 3 * np.sin(theta) * rho - theta * (1 + 2 * rho * rho))
        return unit * (2 * math.pi * gap * (1 + rho) - bracket)

    return ClosedDual(
        1.5 * g4, 0.25 * g4, 2 * g4 / math.pi, 2.0 * g4, value, slope, deficit, lambda gap: slope_at(angle_of_gap(gap))
    )


def _exponential_dual(gain: float, shift: float) -> ClosedDual | None:
    """exp(g x + h): e^{2h + g²} e^{g² ρ}."""
    q = gain * gain
    if not abs(2 * shift + q) + q < 700:
        return None
    front = math.exp(2 * shift + q)
    return ClosedDual(
        second_moment=front * math.exp(q),
        at_zero=front,
        slope_at_zero=front * q,
        slope_at_one=front * q * math.exp(q),
        value_of=lambda rho: front * np.exp(q * rho),
        slope_of=lambda rho: front * q * np.exp(q * rho),
        deficit_of=lambda gap: -front * math.exp(q) * np.expm1(-q * gap),
        error=4e-16 * front * math.exp(q),
    )


def _wave_dual(gain: float, *, odd: bool) -> ClosedDual | None:
    """sin(g x): e^{−q} sinh(qρ); cos(g x): e^{−q} cosh(qρ); q = g², written with decaying exponentials."""
    q = gain * gain
    if q > 1e6:  # more waves than panels
        return None
    sign = -1.0 if odd else 1.0

    def pair(rho: Floats, flip: float) -> Floats:
        return 0.5 * (np.exp(q * (rho - 1)) + flip * np.exp(-q * (rho + 1)))

    def deficit(gap: Floats) -> Floats:
        # e^{−q}[sinh q − sinh qρ] = ½(1 + e^{−2m})(1 − e^{−q·gap}), m = q(1 − gap/2); cos has the other sign
        return -0.5 * np.expm1(-q * gap) * (1.0 - sign * np.exp(-q * (2.0 - gap)))

    return ClosedDual(
        second_moment=0.5 * (1 + sign * math.exp(-2 * q)),
        at_zero=0.0 if odd else math.exp(-q),
        slope_at_zero=q * math.exp(-q) if odd else 0.0,
        slope_at_one=0.5 * q * (1 - sign * math.exp(-2 * q)),
        value_of=lambda rho: pair(rho, sign),
        slope_of=lambda rho: q * pair(rho, -sign),
        deficit_of=deficit,
    )


def _erf_dual(gain: float) -> ClosedDual:
    """erf(g x): (2/π) arcsin(rρ), r = 2g²/(1 + 2g²)."""
    r = 2 * gain * gain / (1 + 2 * gain * gain)
    rest = (1 + 4 * gain * gain) / (1 + 2 * gain * gain) ** 2  # 1 − r²
    front = 2 / math.pi

    def root(gap: Floats) -> Floats:
        # 1 − r²ρ² = 1 − r² + r²(1 − ρ²): steep functions have r so close to 1 that the left has no digits
        return np.sqrt(rest + r * r * gap * (2.0 - gap))

    def deficit(gap: Floats) -> Floats:
        rho, here, end = 1.0 - gap, root(gap), math.sqrt(rest)
        # arcsin r − arcsin rρ = arctan2(sin, cos) of the difference
        # root − ρ·end = (1 − ρ²)/(root + ρ·end): the left cancels for ρ > 0, the right for ρ < 0
        sine = r * np.where(rho > 0, gap * (1 + rho) / (here + np.abs(rho) * end), here - rho * end)
        return front * np.arctan2(sine, end * here + r * r * rho)

    return ClosedDual(
        second_moment=front * math.atan2(r, math.sqrt(rest)),
        at_zero=0.0,
        slope_at_zero=front * r,
        slope_at_one=front * r / math.sqrt(rest),
        value_of=lambda rho: front * np.arctan2(r * rho, root(1.0 - rho)),
        slope_of=lambda rho: front * r / root(1.0 - rho),
        deficit_of=deficit,
        slope_of_gap=lambda gap: front * r / root(gap),
    )


def _sign_dual(scale: float, shift: float) -> ClosedDual:
    """scale·sign(x) + shift: scale²(1 − 2θ/π) + shift²."""
    front = scale * scale

    def slope(rho: Floats) -> Floats:
        return front * (2 / math.pi) / np.sqrt((1 - rho) * (1 + rho))

    return ClosedDual(
        second_moment=front + shift * shift,
        at_zero=shift * shift,
        slope_at_zero=front * 2 / math.pi,
        slope_at_one=math.inf,
        value_of=lambda rho: front * (2 / math.pi) * np.arcsin(rho) + shift * shift,
        slope_of=slope,
        deficit_of=lambda gap: front * (2 / math.pi) * angle_of_gap(gap),
        slope_of_gap=lambda gap: front * (2 / math.pi) / np.sqrt(gap * (2 - gap)),
    )


def _bump_dual(a: float) -> ClosedDual:
    """exp(−a x²): ((1 + 2a)² − 4a²ρ²)^{−1/2}."""
    p, q, rest = (1 + 2 * a) ** 2, 4 * a * a, 1 + 4 * a  # rest = p − q, without cancellation

    def inside(gap: Floats) -> Floats:  # p − qρ² with 1 − ρ² = gap(2 − gap)
        return rest + q * gap * (2.0 - gap)

    def deficit(gap: Floats) -> Floats:
        top, here = math.sqrt(rest), np.sqrt(inside(gap))
        # 1/top − 1/here without cancellation: here² − top² = q(1 − ρ²)
        return q * gap * (2.0 - gap) / (top * here * (top + here))

    return ClosedDual(
        second_moment=rest**-0.5,
        at_zero=p**-0.5,
        slope_at_zero=0.0,
        slope_at_one=q * rest**-1.5,
        value_of=lambda rho: inside(1.0 - rho) ** -0.5,
        slope_of=lambda rho: q * rho * inside(1.0 - rho) ** -1.5,
        deficit_of=deficit,
        slope_of_gap=lambda gap: q * (1.0 - gap) * inside(gap) ** -1.5,
    )
