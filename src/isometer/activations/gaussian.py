"""Expectations under a standard Gaussian, with error estimates that mean something.

The line is cut into panels at the kinks of the function and refined until φ(x)·√p(x) is a short Legendre series on
each panel. An expectation is then a composite Gauss–Legendre sum; its error estimate is the change when every panel is
halved, plus what rounding can do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from isometer._numerics.piecewise import panel_nodes, resolve
from isometer.activations.expression import Expression, as_affine, evaluate
from isometer.errors import ActivationError, InfiniteMomentError

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]

REACH = 60.0  # no registry or finite-moment function needs more; log-densities are used beyond underflow
_DECAY = 41.0  # e^-41 ≈ 1.6e-18: where φ√p counts as negligible
_WIDEST = 2.0  # widest panel: keeps the Gaussian factor itself resolved
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Estimate:
    """A number and a bound on its error.

    Example:
        >>> from isometer.activations import activation, expectation
        >>> moment = expectation(lambda x: x**4)
        >>> abs(moment.value - 3.0) <= moment.error < 1e-12
        True
    """

    value: float
    error: float

    def __float__(self) -> float:
        return self.value


def density(x: Floats) -> Floats:
    """Standard normal density p(x)."""
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def call_checked(function: Function, x: Floats, name: str) -> Floats:
    """Evaluate and refuse NaN, naming the point."""
    with np.errstate(all="ignore"):
        y = np.asarray(function(x), dtype=float)
    if np.isnan(y).any():
        where = float(x.ravel()[np.flatnonzero(np.isnan(y).ravel())[0]])
        raise ActivationError(
            f"{name} returned NaN at x = {where:.6g}; an activation must be defined on the whole real line — "
            "guard the argument, for example log(abs(x) + 1) instead of log(x)"
        )
    return y


def gaussian_domain(functions: Sequence[Function], name: str, decay: float = _DECAY) -> tuple[float, float]:
    """Interval outside of which |φ|√p is below e^−decay of its largest value, for all the given functions."""
    grid = np.linspace(0.0, REACH, 961)[1:]
    left, right = 1.0, 1.0
    inside = np.linspace(-6.0, 6.0, 193) + 1e-3
    for function in functions:
        with np.errstate(all="ignore"):
            core = np.log(np.abs(call_checked(function, inside, name))) - inside**2 / 4
            peak = float(np.max(core, initial=-np.inf, where=np.isfinite(core)))
            ends = []
            for side in (-1.0, 1.0):
                values = np.abs(np.asarray(function(side * grid), dtype=float))
                finite = np.isfinite(values)
                known = len(grid) if finite.all() else int(np.argmin(finite))
                if known == 0:
                    raise ActivationError(f"{name} is not finite near x = {side * grid[0]:.3g}")
                level = np.log(values[:known]) - grid[:known] ** 2 / 4
                peak = max(peak, float(np.max(level, initial=-np.inf)))
                ends.append((level, known))
        if peak == -np.inf:  # zero wherever we looked
            left, right = max(left, 9.0), max(right, 9.0)
            continue
        reach = []
        for side, (level, known) in zip((-1.0, 1.0), ends, strict=True):
            alive = np.flatnonzero(level > peak - decay)
            last = int(alive[-1]) if len(alive) else 0
            if last >= known - 1:
                end = side * grid[known - 1]
                with np.errstate(all="ignore"):
                    nan = known < len(grid) and np.isnan(np.asarray(function(side * grid[known : known + 1]))).any()
                if nan:
                    raise ActivationError(f"{name} is NaN at x = {side * grid[known]:.4g}; it overflows inside itself")
                raise InfiniteMomentError(
                    f"the second moment E φ(X)² of {name} is infinite (or too close to it to compute): φ(x)² does not "
                    f"fall against the Gaussian density up to x = {end:.4g} — use a function that grows slower than "
                    "exp(x²/4), or clip its argument"
                )
            reach.append(float(grid[last]) + 0.5)
        left, right = max(left, reach[0]), max(right, reach[1])
    return -max(left, 9.2), max(right, 9.2)


def roots(equation: Expression, domain: tuple[float, float]) -> list[float]:
    """Zeros of an expression inside the domain; exact when it is affine."""
    affine = as_affine(equation)
    if affine is not None:
        slope, intercept = affine
        return [-intercept / slope + 0.0] if slope != 0.0 and domain[0] < -intercept / slope < domain[1] else []
    grid = np.linspace(domain[0], domain[1], 6007)
    values = np.asarray(evaluate(equation, grid), dtype=float)
    good = np.isfinite(values)
    found = [float(x) for x in grid[good & (values == 0.0)]]

    def scalar(x: float) -> float:
        return float(evaluate(equation, np.float64(x)))

    for i in np.flatnonzero(good[:-1] & good[1:] & (values[:-1] * values[1:] < 0)):
        found.append(float(brentq(scalar, grid[i], grid[i + 1], xtol=1e-15, rtol=8.9e-16)))
    size = np.abs(values)
    touching = good[1:-1] & (size[1:-1] < size[:-2]) & (size[1:-1] <= size[2:]) & (values[:-2] * values[2:] > 0)
    for i in np.flatnonzero(touching) + 1:  # double roots: |u| dips to zero without a change of sign
        a, b = grid[i - 1], grid[i + 1]
        for _ in range(90):
            third = (b - a) / 3
            a, b = (a, b - third) if abs(scalar(a + third)) < abs(scalar(b - third)) else (a + third, b)
        if abs(scalar((a + b) / 2)) < 1e-12:
            found.append(float((a + b) / 2))
    return found


def distinct(points: Sequence[float], tolerance: float = 1e-13) -> tuple[float, ...]:
    """Sorted points, near-coincident ones merged."""
    kept: list[float] = []
    for point in sorted(0.0 if abs(point) < 1e-15 else point for point in points):
        if not kept or point - kept[-1] > tolerance * max(1.0, abs(point)):
            kept.append(point)
    return tuple(kept)


def panel_edges(
    function: Function,
    kinks: Sequence[float],
    domain: tuple[float, float],
    name: str,
    *,
    order: int = 32,
    tolerance: float = 1e-12,
    floor: float = 0.0,
    smallest: float = 1e-14,
) -> Floats:
    """Edges of panels on which φ√p is resolved by `order` Legendre coefficients, for Gauss rules of that order."""
    inner = [k for k in kinks if domain[0] < k < domain[1]]
    breaks = [domain[0], *inner, domain[1]]
    filled = [breaks[0]]
    for right in breaks[1:]:
        pieces = max(1, math.ceil((right - filled[-1]) / _WIDEST))
        filled += list(np.linspace(filled[-1], right, pieces + 1)[1:])

    def weighted(x: Floats) -> Floats:
        return call_checked(function, x, name) * np.exp(-0.25 * x * x)

    with np.errstate(all="ignore"):
        found = resolve(
            weighted,
            np.array(filled),
            order=order,
            tolerance=tolerance,
            floor=floor,
            smallest=smallest,
            budget=6000,
            guard=True,
        )
    if not np.isfinite(found.series.coefficients).all():
        bad = int(np.argmin(np.isfinite(found.series.coefficients).all(axis=1)))
        raise ActivationError(
            f"{name} is not finite near x = {found.series.edges[bad]:.6g}; "
            "an activation must be finite on the real line"
        )
    if found.exhausted:
        raise ActivationError(
            f"{name} could not be resolved with 6000 panels: it oscillates too fast, is noisy, or is not a function — "
            "smooth it, declare its kinks, or lower its frequency"
        )
    if len(found.unresolved):
        height = np.abs(found.series.coefficients).max(axis=1)
        width = np.diff(found.series.edges)
        mass = height**2 * width
        tiny = np.isin(found.series.edges[:-1], found.unresolved[:, 0])
        if mass[tiny].max() > 1e-6 * mass[~tiny].sum():
            pole = float(found.unresolved[int(np.argmax(mass[tiny])), 0])
            raise InfiniteMomentError(
                f"the second moment E φ(X)² of {name} is infinite: it has a pole near x = {pole:.6g} — "
                "use a function without a pole on the real line"
            )
    return found.series.edges


def integrate(integrand: Function, edges: Floats, order: int = 32) -> Estimate:
    """∫ over the panels; the error is the change under halving plus rounding."""

    def rule(borders: Floats) -> tuple[float, float]:
        x, w = panel_nodes(borders[:-1], borders[1:], order)
        with np.errstate(all="ignore"):
            values = np.asarray(integrand(x.ravel()), dtype=float).reshape(x.shape) * w
        return float(np.sum(values)), float(np.sum(np.abs(values)))

    coarse, _ = rule(edges)
    fine, size = rule(halved(edges))
    return Estimate(fine, abs(fine - coarse) + 4 * _EPS * size)


def halved(edges: Floats) -> Floats:
    """Every panel cut in two."""
    return np.sort(np.concatenate([edges, (edges[1:] + edges[:-1]) / 2]))


def gaussian_expectation(function: Function, edges: Floats) -> Estimate:
    """E f(X) over panels that resolve f."""
    return integrate(lambda x: function(x) * density(x), edges)


def hermite_coefficients(function: Function, edges: Floats, order: int) -> Floats:
    """c_k = E φ(X) he_k(X), k = 0 … order, orthonormal he_k (001/def-5.5).

    The recurrence runs on he_k·√p, which neither over- nor underflows; panels are cut to the wavelength 2π/√k.
    """
    widest = 10.0 / math.sqrt(order + 1.0)
    pieces = np.maximum(1, np.ceil(np.diff(edges) / widest)).astype(int)
    fine = np.concatenate(
        [np.linspace(a, b, n + 1)[:-1] for a, b, n in zip(edges[:-1], edges[1:], pieces, strict=True)] + [edges[-1:]]
    )
    x, w = (v.ravel() for v in panel_nodes(fine[:-1], fine[1:], 32))
    half_weight = np.exp(-0.25 * x * x) / (2 * math.pi) ** 0.25
    with np.errstate(all="ignore"):
        weighted = function(x) * half_weight * w
    out = np.empty(order + 1)
    previous, current = np.zeros_like(x), half_weight
    for k in range(order + 1):
        out[k] = weighted @ current
        previous, current = current, (x * current - math.sqrt(k) * previous) / math.sqrt(k + 1.0)
    return out
