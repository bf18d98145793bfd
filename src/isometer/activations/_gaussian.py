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

from isometer.activations._expression import Expression, as_affine, evaluate, evaluate_all
from isometer.errors import ActivationError, InfiniteMomentError
from isometer.numerics._piecewise_legendre import Resolution, panel_nodes, resolve

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]

REACH = 60.0  # no registry or finite-moment function needs more; log-densities are used beyond underflow
_DECAY = 41.0  # e^-41 ≈ 1.6e-18: where φ√p counts as negligible
_WIDEST = 2.0  # widest panel: keeps the Gaussian factor itself resolved
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class NumericalEstimate:
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
    return gaussian_extent(functions, name, decay)[0]


def gaussian_extent(
    functions: Sequence[Function], name: str, decay: float = _DECAY, hints: Sequence[float] = ()
) -> tuple[tuple[float, float], float]:
    """`gaussian_domain`, and the largest log(|φ|√p) of the first function; −inf where it is zero.

    `hints` are points where something happens that a grid would miss.
    """
    grid = np.linspace(0.0, REACH, 961)[1:]
    left, right = 1.0, 1.0
    inside = np.linspace(-6.0, 6.0, 193) + 1e-3  # beside 0 and other round points, where functions vanish or break
    inside = np.concatenate([inside, [x for x in hints if abs(x) < REACH]])
    peaks: list[float] = []
    for function in functions:
        with np.errstate(all="ignore"):
            # log(φ√p) up to a constant: p itself underflows beyond x ≈ 38
            core = np.log(np.abs(call_checked(function, inside, name))) - inside**2 / 4
            peak = float(np.max(core, initial=-np.inf, where=np.isfinite(core)))
            ends = []
            for side in (-1.0, 1.0):
                values = np.abs(np.asarray(function(side * grid), dtype=float))
                finite = np.isfinite(values)
                # φ may overflow long after φ√p has died out: judge up to the first point that does
                known = len(grid) if finite.all() else int(np.argmin(finite))
                if known == 0:
                    raise ActivationError(f"{name} is not finite near x = {side * grid[0]:.3g}")
                level = np.log(values[:known]) - grid[:known] ** 2 / 4
                peak = max(peak, float(np.max(level, initial=-np.inf)))
                ends.append((level, known))
        peaks.append(peak)
        if peak == -np.inf:  # zero wherever we looked
            left, right = max(left, 9.0), max(right, 9.0)
            continue
        reach = []
        for side, (level, known) in zip((-1.0, 1.0), ends, strict=True):
            alive = np.flatnonzero(level > peak - decay)
            last = int(alive[-1]) if len(alive) else 0
            if last >= known - 1:  # still alive at the last point that can be judged
                end = side * grid[known - 1]
                with np.errstate(all="ignore"):
                    nan = known < len(grid) and np.isnan(np.asarray(function(side * grid[known : known + 1]))).any()
                if nan:
                    raise ActivationError(f"{name} is NaN at x = {side * grid[known]:.4g}; it overflows internally")
                raise InfiniteMomentError(
                    f"the second moment E φ(X)² of {name} is infinite (or too close to it to compute): φ(x)² times the "
                    f"Gaussian density does not fall up to x = {end:.4g} — use a function that grows more slowly than "
                    "exp(x²/4), or clip its argument"
                )
            reach.append(float(grid[last]) + 0.5)
        left, right = max(left, reach[0]), max(right, reach[1])
    return (-max(left, 9.2), max(right, 9.2)), peaks[0]


def roots(equations: Sequence[Expression], domain: tuple[float, float]) -> list[float]:
    """Zeros of the expressions inside the domain; exact for affine ones."""
    found, curved = [], []
    for equation in equations:
        affine = as_affine(equation)
        if affine is None:
            curved.append(equation)
        elif affine[0] != 0.0 and domain[0] < -affine[1] / affine[0] < domain[1]:
            found.append(-affine[1] / affine[0] + 0.0)  # no −0.0
    grid = np.linspace(domain[0], domain[1], 6007)
    for equation, values in zip(curved, evaluate_all(curved, grid), strict=True):
        found += _roots_on(equation, grid, np.asarray(values, dtype=float), np.array(sorted(set(found))))
    return found


def _roots_on(equation: Expression, grid: Floats, values: Floats, known: Floats) -> list[float]:
    """Zeros seen on a grid, refined; cells in which a known root is a root of this one too are left out."""
    good, zero = np.isfinite(values), values == 0.0
    # where the expression vanishes on a stretch, its ends; elsewhere single zeros and changes of sign
    lone = zero[1:-1] & ~zero[:-2] & ~zero[2:]
    edge = good[:-1] & good[1:] & (zero[:-1] != zero[1:])
    edge[:-1] &= ~lone
    edge[1:] &= ~lone
    crossing = good[:-1] & good[1:] & (np.sign(values[:-1]) * np.sign(values[1:]) < 0)
    for root in known[np.asarray(evaluate(equation, known)) == 0.0] if len(known) else ():
        cell = int(np.searchsorted(grid, root))
        crossing[max(cell - 2, 0) : cell + 1] = False
        edge[max(cell - 2, 0) : cell + 1] = False
    size = np.abs(values)
    dip = (
        good[1:-1]
        & (size[1:-1] < size[:-2])
        & (size[1:-1] <= size[2:])
        & (np.sign(values[:-2]) * np.sign(values[2:]) > 0)
    )
    found = [*grid[1:-1][lone]]
    found += [*_bisect(lambda x: evaluate(equation, x) > 0, grid[:-1][crossing], grid[1:][crossing])]
    found += [*_bisect(lambda x: evaluate(equation, x) == 0, grid[:-1][edge], grid[1:][edge])]
    found += [*_touching(lambda x: np.abs(evaluate(equation, x)), grid[:-2][dip], grid[2:][dip])]
    return [float(x) for x in found]


def _bisect(holds: Callable[[Floats], NDArray[np.bool_]], left: Floats, right: Floats) -> Floats:
    """Where a condition changes, in all intervals at once, to the last bit."""
    if not len(left):
        return left
    start = holds(left)
    for _ in range(64):  # more halvings than a float has bits
        middle = (left + right) / 2
        same = holds(middle) == start
        left, right = np.where(same, middle, left), np.where(same, right, middle)
    return np.asarray((left + right) / 2)


def _touching(size: Function, left: Floats, right: Floats) -> Floats:
    """Double roots, where |u| dips to zero without a change of sign, by ternary search in all intervals at once."""
    if not len(left):
        return left
    ends = np.minimum(size(left), size(right))
    for step in range(90):
        third = (right - left) / 3
        lower = size(left + third) < size(right - third)
        left, right = np.where(lower, left, left + third), np.where(lower, right - third, right)
        if step == 12:  # by now a double root is four orders below the ends of its interval
            promising = size((left + right) / 2) < 1e-2 * ends
            left, right = left[promising], right[promising]
            if not len(left):
                return left
    middle = (left + right) / 2
    return np.asarray(middle[size(middle) < 1e-12])


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
    anchor: float = 1e-26,
    area: float = 0.0,
    cuts: Sequence[float] = (),
) -> Floats:
    """Edges of panels on which φ√p is resolved by `order` Legendre coefficients, for Gauss rules of that order.

    A singularity at zero can be approached much closer than elsewhere, hence the tiny `anchor`. `cuts` are further
    edges, around steep places that the nodes of wide panels would miss.
    """
    inner = sorted({k for k in (*kinks, *cuts) if domain[0] < k < domain[1]})
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
            anchor=anchor,
            budget=6000 + 2 * len(cuts),
            guard=True,
            area=area,
        )
    if not np.isfinite(found.series.coefficients).all():
        bad = int(np.argmin(np.isfinite(found.series.coefficients).all(axis=1)))
        raise ActivationError(
            f"{name} is not finite near x = {found.series.edges[bad]:.6g}; "
            "an activation must be finite on the real line"
        )
    if found.exhausted:
        refuse(found, name)
    if len(found.unresolved):  # an integrable singularity has no mass in the panels that close in on it; a pole has
        height = np.abs(found.series.coefficients).max(axis=1)
        mass = (height / max(height.max(), 1e-300)) ** 2 * np.diff(found.series.edges)
        tiny = np.isin(found.series.edges[:-1], found.unresolved[:, 0])
        if mass[tiny].max() > 1e-6 * mass[~tiny].sum():
            raise _pole(name, float(found.unresolved[int(np.argmax(mass[tiny])), 0]))
    return found.series.edges


def _pole(name: str, place: float) -> InfiniteMomentError:
    return InfiniteMomentError(
        f"the second moment E φ(X)² of {name} is infinite, or too close to it: it has a pole near x = {place:.6g} — "
        "use a function without a pole on the real line"
    )


def refuse(found: Resolution, name: str) -> None:
    """Say why the panels ran out: a pole, where all the mass sits in narrow panels, or noise and oscillation."""
    width = np.diff(found.series.edges)
    height = np.abs(found.series.coefficients).max(axis=1)
    mass = (height / max(height.max(), 1e-300)) ** 2 * width
    narrow = width < 1e-3
    if mass[narrow].sum() > 0.5 * mass.sum() and width[narrow].sum() < 0.1 * width.sum():
        raise _pole(name, float(found.series.edges[int(np.argmax(mass))]))
    raise ActivationError(
        f"{name} could not be resolved with thousands of panels: it oscillates too fast, is noisy, or is not a "
        "function — smooth it, lower its frequency, or declare the kinks of a callable with activation(f, kinks=[...])"
    )


def integrate(integrand: Function, edges: Floats, order: int = 32) -> NumericalEstimate:
    """∫ over the panels; the error is ten times the change of panels under halving, plus rounding.

    Halving changes a smooth integrand's sum by nothing but rounding. At an algebraic singularity it takes off a fixed
    share of the error only, which the factor covers down to |x|^−0.85.
    """

    def rule(borders: Floats) -> tuple[Floats, float]:
        x, w = panel_nodes(borders[:-1], borders[1:], order)
        with np.errstate(all="ignore"):
            values = np.asarray(integrand(x.ravel()), dtype=float).reshape(x.shape) * w
        return values.sum(axis=1), float(np.sum(np.abs(values)))

    coarse, _ = rule(edges)
    fine, size = rule(halved(edges))
    if not math.isfinite(size):
        return NumericalEstimate(math.inf, math.inf)
    change = float(np.abs(fine[::2] + fine[1::2] - coarse).sum())
    rounding = 4 * _EPS * size
    return NumericalEstimate(float(fine.sum()), 10 * max(change - rounding, 0.0) + rounding)


def halved(edges: Floats) -> Floats:
    """Every panel cut in two."""
    return np.sort(np.concatenate([edges, (edges[1:] + edges[:-1]) / 2]))


def gaussian_expectation(function: Function, edges: Floats) -> NumericalEstimate:
    """E f(X) over panels that resolve f."""
    return integrate(lambda x: function(x) * density(x), edges)


def second_moment(function: Function, edges: Floats, other: Function | None = None) -> NumericalEstimate:
    """E f(X)² or E f(X)g(X), each factor with half of the density: squares of steep functions overflow without it."""

    def integrand(x: Floats) -> Floats:
        half = np.exp(-0.25 * x * x) / (2 * math.pi) ** 0.25
        first = function(x) * half
        return np.asarray(first * first if other is None else first * (other(x) * half))

    return integrate(integrand, edges)


def refined_expectation(function: Function, edges: Floats) -> NumericalEstimate:
    """E f(X) for an f that may have kinks of its own: panels are refined around them first."""

    def weighted(x: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(function(x) * density(x), dtype=float)

    found = resolve(weighted, edges, order=32, tolerance=1e-13, smallest=1e-13, budget=6000, guard=True)
    estimate = integrate(weighted, found.series.edges)
    return NumericalEstimate(estimate.value, estimate.error + (abs(estimate.value) if found.exhausted else 0.0))


def hermite_coefficients(function: Function, edges: Floats, order: int) -> Floats:
    """c_k = E φ(X) he_k(X), k = 0 … order, orthonormal he_k (001/def-5.5).

    The recurrence runs on he_k·√p, which neither over- nor underflows; panels are cut to the wavelength 2π/√k.
    """
    return hermite_with_sizes(function, edges, order, sizes=False)[0]


def hermite_with_sizes(function: Function, edges: Floats, order: int, *, sizes: bool = True) -> tuple[Floats, Floats]:
    """`hermite_coefficients`, and E |φ he_k|, which is what their rounding is relative to."""
    widest = 10.0 / math.sqrt(order + 1.0)  # one and a half wavelengths for 32 nodes
    pieces = np.maximum(1, np.ceil(np.diff(edges) / widest)).astype(int)
    fine = np.concatenate(
        [np.linspace(a, b, n + 1)[:-1] for a, b, n in zip(edges[:-1], edges[1:], pieces, strict=True)] + [edges[-1:]]
    )
    x, w = (v.ravel() for v in panel_nodes(fine[:-1], fine[1:], 32))
    # p is split evenly: φ√p against he_k√p
    half_weight = np.exp(-0.25 * x * x) / (2 * math.pi) ** 0.25
    with np.errstate(all="ignore"):
        weighted = function(x) * half_weight * w
    out, size = np.empty(order + 1), np.zeros(order + 1)
    previous, current = np.zeros_like(x), half_weight
    for k in range(order + 1):
        out[k] = weighted @ current
        if sizes:
            size[k] = np.abs(weighted) @ np.abs(current)
        # he_{k+1} = (x he_k − √k he_{k−1})/√(k + 1)
        previous, current = current, (x * current - math.sqrt(k) * previous) / math.sqrt(k + 1.0)
    return out, size
