"""Piecewise Legendre series: resolve a function to a tolerance on panels, then evaluate or integrate it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_CHUNK = 1 << 14  # values per block in evaluation: the working set stays in cache


def _gauss_legendre(order: int) -> tuple[Floats, Floats]:
    """`numpy.polynomial.legendre.leggauss` polished in extended precision: its weights are off by up to 1e-12."""
    x: NDArray[Any] = legendre.leggauss(order)[0].astype(np.longdouble)
    for _ in range(3):  # two Newton steps for the nodes, a last pass for the slope at them
        before, here = np.ones_like(x), x
        for k in range(1, order):
            before, here = here, ((2 * k + 1) * x * here - k * before) / (k + 1)
        # P_m′ = m(P_{m−1} − xP_m)/(1 − x²)
        slope = order * (before - x * here) / (1 - x * x)
        x = x - here / slope
    weights = 2 / ((1 - x * x) * slope * slope)
    return x.astype(float), weights.astype(float)


@cache
def legendre_rule(order: int) -> tuple[Floats, Floats, Floats]:
    """Gauss–Legendre nodes and weights on [−1, 1] and the matrix that turns node values into coefficients."""
    nodes, weights = _gauss_legendre(order)
    basis = legendre.legvander(nodes, order - 1)  # (node, k)
    # a_k = (k + ½) Σ w f P_k: exact for polynomials of degree below `order`
    analysis = (basis * weights[:, None]).T * (np.arange(order) + 0.5)[:, None]
    return nodes, weights, analysis


def panel_nodes(left: Floats, right: Floats, order: int) -> tuple[Floats, Floats]:
    """Nodes and weights of the composite Gauss–Legendre rule on panels, each (…, panel, order).

    Args:
        left: left ends of the panels.
        right: right ends.
        order: nodes per panel.

    Returns:
        Nodes and weights; the weights are exact to the last digit.

    Example:
        >>> from isometer.numerics import panel_nodes
        >>> x, weight = panel_nodes(np.array([0.0, 1.0]), np.array([1.0, 2.0]), 8)
        >>> round(float((weight * x**3).sum()), 12)
        4.0
    """
    nodes, weights, _ = legendre_rule(order)
    centre, half = (left + right)[..., None] / 2, (right - left)[..., None] / 2
    return centre + half * nodes, half * weights


def _clenshaw(t: Floats, coefficients: Floats, panel: NDArray[np.intp]) -> Floats:
    """Σ_k coefficients[panel, k] P_k(t), every point with the coefficients of its own panel."""
    # one contiguous row per degree to gather from
    by_degree = np.ascontiguousarray(coefficients.T)
    later, last = np.zeros_like(t), np.zeros_like(t)
    for k in range(len(by_degree) - 1, 0, -1):
        # b_k = a_k + (2k + 1)/(k + 1) t b_{k+1} − (k + 1)/(k + 2) b_{k+2}
        later, last = by_degree[k][panel] + ((2 * k + 1) / (k + 1)) * t * later - ((k + 1) / (k + 2)) * last, later
    return np.asarray(by_degree[0][panel] + t * later - 0.5 * last)


@dataclass(frozen=True)
class Piecewise:
    """A function held as Legendre coefficients on panels; outside the panels it is extrapolated linearly."""

    edges: Floats  # (panels + 1,)
    coefficients: Floats  # (panels, order)

    def __call__(self, x: Floats) -> Floats:
        flat = np.ravel(x)
        out = np.empty(flat.shape)
        for start in range(0, flat.size, _CHUNK):
            block = flat[start : start + _CHUNK]
            out[start : start + _CHUNK] = self._block(block)
        return out.reshape(np.shape(x))

    def _block(self, x: Floats) -> Floats:
        panels = len(self.edges) - 1
        index = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, panels - 1)
        left, right = self.edges[index], self.edges[index + 1]
        t = (2.0 * x - left - right) / (right - left)
        out = _clenshaw(t, self.coefficients, index) if panels > 1 else legendre.legval(t, self.coefficients[0])
        beyond = np.abs(t) > 1.0
        if beyond.any():
            # P_k grows like |t|^k outside its panel: follow the tangent at the end
            for position in np.flatnonzero(beyond):
                series, side = self.coefficients[index[position]], np.sign(t[position])
                slope = legendre.legval(side, legendre.legder(series))
                out[position] = legendre.legval(side, series) + slope * (t[position] - side)
        return out

    def derivative(self) -> Piecewise:
        """The derivative panel by panel."""
        width = np.diff(self.edges)
        return Piecewise(self.edges, legendre.legder(self.coefficients, axis=1) * (2.0 / width)[:, None])

    def trimmed(self, tolerance: float = 1e-17) -> Piecewise:
        """Without the trailing degrees that are negligible on every panel."""
        size = np.abs(self.coefficients).max(axis=0)
        keep = int(np.flatnonzero(size > tolerance * size.max(initial=0.0))[-1]) + 1 if size.any() else 1
        return Piecewise(self.edges, self.coefficients[:, :keep])

    def integral(self) -> float:
        """Integral over all panels."""
        # ∫ P_k = 0 for k ≥ 1: only the mean of each panel counts
        return float(np.sum(self.coefficients[:, 0] * np.diff(self.edges)))


@dataclass(frozen=True)
class Resolution:
    """What `resolve` found: the series, its worst truncation and the panels that stayed unresolved."""

    series: Piecewise
    truncation: float  # largest trailing coefficient, relative to the largest value
    unresolved: Floats  # (k, 2) panels at the smallest width
    exhausted: bool  # the panel budget ran out


def resolve(
    function: Callable[[Floats], Floats],
    breaks: Floats,
    *,
    order: int = 32,
    tolerance: float = 4e-15,
    floor: float = 0.0,
    smallest: float = 1e-13,
    anchor: float = 1.0,
    budget: int = 4000,
    guard: bool = False,
    area: float = 0.0,
    local: Callable[[Floats, Floats], Floats] | None = None,
) -> Resolution:
    """Bisect panels, all pending ones in one call of `function`, until each is a short Legendre series.

    A panel is resolved when its last four coefficients are below `tolerance` times the largest value seen, or below
    `floor`, the noise that the function is known to carry. With `local`, a function of the panels' ends, `tolerance` is
    relative to the larger of its value and the panel's own values instead. With `guard` the series must also predict
    the function at the very ends of the panel, where a kink can hide behind the last node. Panels are not cut below
    `smallest` times the larger of `anchor` and their place. With `area` a panel is good enough, too, when what its
    series misses adds less than that share of the largest value to an integral: rounding is not chased.
    """
    nodes, _, analysis = legendre_rule(order)
    # just inside, so that a jump at an edge is not read from the wrong side
    ends = np.array([-1.0, 1.0]) * (1 - 1e-9)
    at_ends = legendre.legvander(ends, order - 1)
    pending = np.stack([breaks[:-1], breaks[1:]], axis=1)
    done: list[tuple[float, float, Floats]] = []
    unresolved: list[tuple[float, float]] = []
    scale, truncation, exhausted = 0.0, 0.0, False
    while len(pending):
        centre, half = pending.mean(axis=1, keepdims=True), np.diff(pending, axis=1) / 2
        values = np.asarray(function((centre + half * nodes).ravel()), dtype=float).reshape(-1, order)
        scale = max(scale, float(np.max(np.abs(values), initial=0.0)))
        coefficients = values @ analysis.T
        # several, since every second coefficient of an odd or even function is zero
        tail = np.max(np.abs(coefficients[:, -4:]), axis=1)
        largest: Floats | float = scale
        if local is not None:
            largest = np.maximum(np.max(np.abs(values), axis=1), local(pending[:, 0], pending[:, 1]))
        allowed = np.maximum(tolerance * largest, floor)
        resolved = tail <= allowed
        missed = tail
        if guard:
            seen = np.asarray(function((centre + half * ends).ravel()), dtype=float).reshape(-1, 2)
            missed = np.max(np.abs(seen - coefficients @ at_ends.T), axis=1)
            resolved &= missed <= 50 * allowed
        if area:
            resolved |= 2 * half[:, 0] * np.maximum(tail, missed) <= area * scale
        tiny = (2 * half[:, 0] <= smallest * np.maximum(anchor, np.abs(centre[:, 0]))) & ~resolved
        exhausted = exhausted or len(done) + 2 * len(pending) > budget
        # with the budget spent every pending panel is taken as it is, and its tail counts as truncation
        stop = resolved | tiny | exhausted
        for (left, right), series, bad, rest in zip(
            pending[stop], coefficients[stop], tiny[stop], tail[stop], strict=True
        ):
            done.append((left, right, series))
            if bad:
                unresolved.append((left, right))
            else:
                truncation = max(truncation, float(rest))
        split = pending[~stop]
        middle = split.mean(axis=1)
        pending = np.concatenate([np.stack([split[:, 0], middle], 1), np.stack([middle, split[:, 1]], 1)])
    done.sort(key=lambda panel: panel[0])
    edges = np.array([panel[0] for panel in done] + [done[-1][1]])
    series = Piecewise(edges, np.stack([panel[2] for panel in done]))
    return Resolution(series, truncation / scale if scale else 0.0, np.array(unresolved).reshape(-1, 2), exhausted)
