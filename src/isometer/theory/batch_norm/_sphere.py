"""Expectations over two coordinates of a uniform point on a sphere: what batch norm makes of a Gaussian batch.

For h ~ N(0, aI + b11ᵀ) the normalised batch is v = √n Mh/‖Mh‖, M = I − 11ᵀ/n, and Mh/‖Mh‖ is uniform on the unit
sphere of 1^⊥, whatever a and b: m = n − 1 dimensions, and coordinates v_i = √m eᵢ·u along unit vectors e_i at the
cosine −1/(n−1). In general, `v_i = √m sin β` with density ∝ cos^{m−2} β, and given it
`v_j = √m (cos θ sin β + sin θ cos β sin α)` with density ∝ cos^{m−3} α. Panels in β and α are broken at the kinks of
the functions. The inner integral is smooth in β but where a kink leaves the range of v_j, at `sin(β ± θ) = kink/√m`, a
branch point of order (m−2)/2 towards which panels shrink. For m → ∞ the coordinates are Gaussian, correlated by cos θ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from isometer.activations import NumericalEstimate
from isometer.activations._gaussian import REACH, call_checked, halved
from isometer.errors import IsometerError
from isometer.numerics._piecewise_legendre import panel_nodes, resolve

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]

_EPS = float(np.finfo(float).eps)
_ORDER = 24
_TOLERANCE = 1e-13
_DECAY = 41.0  # e^−41 of the largest f·√weight is left out
_SHRINK = 0.15  # ratio of neighbouring panels at a branch point
_BLOCK = 1 << 20  # values computed together
_GAUSSIAN = 1e14


class SphereRule:
    """Quadrature for E f(v_i) and E f(v_i) g(v_j), for functions smooth between the given kinks.

    Args:
        dimension: m; `inf` for Gaussian coordinates.
        cosine: cos θ between the two directions.
        functions: what the panels must resolve.
        kinks: where the functions are not smooth.
        name: name of the functions, for messages.
        panels: edges in v that are known to resolve the functions, kinks included; otherwise they are found.

    Example:
        >>> rule = SphereRule(6, -1 / 6, [np.tanh], ())  # a batch of n = 7
        >>> round(rule.single(lambda v: v**2).value, 12)
        1.0
        >>> square = lambda v: v**2
        >>> round(rule.pairs([square], [(0, 0)])[0].value, 12)  # (1 + 2 cos² θ) m/(m + 2)
        0.791666666667
    """

    def __init__(
        self,
        dimension: float,
        cosine: float,
        functions: Sequence[Function],
        kinks: Sequence[float],
        name: str = "the function",
        *,
        panels: Floats | None = None,
    ) -> None:
        # cos^m of a sphere of 1e14 dimensions differs from the Gaussian density by less than rounding
        self.dimension = min(float(dimension), _GAUSSIAN)
        self.cosine = cosine
        self.radius = math.sqrt(self.dimension)
        self.kinks = np.array([kink for kink in kinks if abs(kink) < self.radius])
        self.name = name
        self._digits = 14.0 if panels is None else 11.0  # tables of many rules need not be as precise as one
        self.edges = np.zeros(0)
        if dimension > 1:
            self.edges = self._panels(functions) if panels is None else self._given(panels)
        # from m = 200 on branch points have order 99, smooth to rounding
        self._outer = self._graded(self.edges) if 1 < dimension < 200 else self.edges

    # --- panels ---------------------------------------------------------------------------------------------------

    def _reach(self, functions: Sequence[Function]) -> float:
        """The β beyond which f·√weight is negligible for all the functions."""
        top = min(self.radius, REACH)
        grid = top * np.sin(np.linspace(0.0, math.pi / 2, 961))[1:-1]
        # log of the root of the weight cos^{m−2} β
        fall = 0.25 * (self.dimension - 2) * np.log1p(-((grid / self.radius) ** 2))
        last = 0.0
        for function in functions:
            values = np.maximum(*(np.abs(call_checked(function, side * grid, self.name)) for side in (-1.0, 1.0)))
            with np.errstate(divide="ignore"):
                level = np.log(values) + fall
            alive = np.flatnonzero(level > float(level.max()) - _DECAY)
            if len(alive) and np.isfinite(level[alive]).all():
                last = max(last, float(grid[min(int(alive[-1]) + 1, len(grid) - 1)]))
            elif len(alive):
                last = math.inf
        if last < grid[-1]:
            return math.asin(last / self.radius)
        if self.radius <= REACH and math.isfinite(last):
            return math.pi / 2
        raise IsometerError(
            f"{self.name} grows too fast for this batch size: its second moment under batch norm cannot be "
            "computed — expected growth slower than exp(x²/4); use a smaller batch or clip the activation's argument"
        )

    def _panels(self, functions: Sequence[Function]) -> Floats:
        reach = self._reach([_one, *functions])
        inner = np.arcsin(self.kinks / self.radius)
        edges = np.unique(np.concatenate([[-reach, reach], inner[np.abs(inner) < reach]]))
        power = (self.dimension - 2) // 2  # about a root of the weight, and smooth at β = ±π/2

        def weighted(function: Function) -> Function:
            def value(beta: Floats) -> Floats:
                sine = np.sin(beta)
                return call_checked(function, self.radius * sine, self.name) * np.exp(power * _log_cosine(sine))

            return value

        for function in (_one, *functions):
            found = resolve(
                weighted(function), edges, order=_ORDER, tolerance=_TOLERANCE, smallest=1e-9 * reach, anchor=1.0
            )
            if found.exhausted:
                raise IsometerError(
                    f"{self.name} could not be resolved with thousands of panels — smooth it or lower its frequency"
                )
            edges = found.series.edges
        return edges

    def _given(self, panels: Floats) -> Floats:
        reach = min(math.pi / 2, 13.0 / self.radius)
        inner = np.arcsin(panels[np.abs(panels) < self.radius] / self.radius)
        edges = np.unique(
            np.concatenate([np.linspace(-reach, reach, 3 if self.dimension < 25 else 7), inner[np.abs(inner) < reach]])
        )
        return np.asarray(edges[np.concatenate([[True], np.diff(edges) > 1e-12])])

    def _graded(self, edges: Floats) -> Floats:
        """The panels of the outer integral: also broken where a kink leaves the range of the inner one."""
        angle = math.acos(self.cosine)
        places = []
        for kink in np.arcsin(self.kinks / self.radius):
            for turn in (angle, -angle):
                for place in (kink - turn, math.pi - kink - turn):
                    place = math.remainder(place, 2 * math.pi)
                    if abs(place) < edges[-1] and (self.dimension - 2) * math.log(math.cos(place)) > -_DECAY:
                        places.append(place)
        for place in places:
            distance = np.abs(edges - place)
            width = float(distance[distance > 1e-12].min()) / 2
            # the innermost panel misses about its width to the power m/2
            levels = math.ceil(self._digits / ((self.dimension / 2) * -math.log10(_SHRINK)))
            steps = width * _SHRINK ** np.arange(levels)
            edges = np.concatenate([edges, place - steps, [place], place + steps])
        edges = np.unique(np.clip(edges, edges.min(), edges.max()))
        return np.asarray(edges[np.concatenate([[True], np.diff(edges) > 1e-14])])

    # --- integrals ------------------------------------------------------------------------------------------------

    def single(self, function: Function) -> NumericalEstimate:
        """E f(v_i)."""
        if self.dimension == 1:
            # in one dimension the sphere is two points
            values = np.asarray(function(np.array([-1.0, 1.0])), dtype=float)
            return NumericalEstimate(float(values.mean()), 4 * _EPS * float(np.abs(values).max()))
        sums = []
        for edges in (self.edges, halved(self.edges)):
            v, weight = self._outer_rule(edges)[1:]
            terms = weight * np.asarray(function(v), dtype=float)
            sums.append((float(terms.sum()), float(np.abs(terms).sum())))
        return _estimate(sums[0][0], *sums[1])

    def values(
        self, functions: Sequence[Function], singles: Sequence[tuple[int, int]], products: Sequence[tuple[int, int]]
    ) -> Floats:
        """E f_p(v_i) f_q(v_i) for every (p, q) of `singles`, E f_p(v_i) f_q(v_j) of `products`; no error estimates."""
        if self.dimension == 1:
            first = [np.asarray(function(np.array([-1.0, 1.0])), dtype=float) for function in functions]
            other = [np.asarray(f(self.cosine * np.array([-1.0, 1.0])), dtype=float) for f in functions]
            own = [float((first[p] * first[q]).mean()) for p, q in singles]
            return np.array(own + [float((first[p] * other[q]).mean()) for p, q in products])
        _, v, weight = self._outer_rule(self.edges)
        at = [np.asarray(function(v), dtype=float) for function in functions]
        own = [float(np.sum(weight * at[p] * at[q])) for p, q in singles]
        cross = self._pair_sums(self._outer, self.edges, functions, products)[0] if products else np.zeros(0)
        return np.concatenate([own, cross])

    def pairs(self, functions: Sequence[Function], products: Sequence[tuple[int, int]]) -> list[NumericalEstimate]:
        """E f_p(v_i) f_q(v_j), i ≠ j, for every (p, q) of `products`."""
        if self.dimension == 1:
            ends = np.array([[-1.0, 1.0], [-self.cosine, self.cosine]])
            table = [np.asarray(function(ends), dtype=float) for function in functions]
            values = [table[p][0] * table[q][1] for p, q in products]
            return [NumericalEstimate(float(v.mean()), 8 * _EPS * float(np.abs(v).max())) for v in values]
        coarse = self._pair_sums(self._outer, self.edges, functions, products)[0]
        fine, size = self._pair_sums(halved(self._outer), halved(self.edges), functions, products)
        return [_estimate(float(c), float(f), float(s)) for c, f, s in zip(coarse, fine, size, strict=True)]

    def _outer_rule(self, edges: Floats) -> tuple[Floats, Floats, Floats]:
        """β, v and weights that sum to 1, flat."""
        beta, weight = (part.ravel() for part in panel_nodes(edges[:-1], edges[1:], _ORDER))
        sine = np.sin(beta)
        weight = weight * np.exp((self.dimension - 2) * _log_cosine(sine))
        return beta, self.radius * sine, weight / weight.sum()

    def _pair_sums(
        self, outer: Floats, inner: Floats, functions: Sequence[Function], products: Sequence[tuple[int, int]]
    ) -> tuple[Floats, Floats]:
        beta, v, weight = self._outer_rule(outer)
        total, size = np.zeros(len(products)), np.zeros(len(products))
        left, right = sorted({p for p, _ in products}), sorted({q for _, q in products})
        first = {p: np.asarray(functions[p](v), dtype=float) * weight for p in left}
        for block, second, second_weight in self._inner_rule(beta, inner):
            values = {q: np.asarray(functions[q](second), dtype=float) * second_weight for q in right}
            means = {q: value.sum(axis=1) for q, value in values.items()}
            sizes = {q: np.abs(value).sum(axis=1) for q, value in values.items()}
            for k, (p, q) in enumerate(products):
                total[k] += float(first[p][block] @ means[q])
                size[k] += float(np.abs(first[p][block]) @ sizes[q])
        return total, size

    def _inner_rule(self, beta: Floats, edges: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
        """For blocks of outer nodes: v_j given v_i, `(outer, nodes)`, and weights that sum to 1 along the nodes."""
        cosine, sine = self.cosine, math.sqrt((1.0 - self.cosine) * (1.0 + self.cosine))
        nodes = 2 if self.dimension == 2 else _ORDER * (len(edges) - 1)
        step = max(1, _BLOCK // nodes)
        for start in range(0, len(beta), step):
            block = slice(start, start + step)
            along, across = cosine * np.sin(beta[block])[:, None], sine * np.cos(beta[block])[:, None]
            if self.dimension == 2:
                # on a circle v_i leaves two values of v_j, α = ±π/2
                yield block, self.radius * (along + across * np.array([-1.0, 1.0])), np.full((len(along), 2), 0.5)
                continue
            # edges outside the range of v_j become panels without width
            ends = np.arcsin(np.clip((np.sin(edges) - along) / across, -1.0, 1.0))
            alpha, weight = (part.reshape(len(ends), -1) for part in panel_nodes(ends[:, :-1], ends[:, 1:], _ORDER))
            tilt = np.sin(alpha)
            weight = weight * np.exp((self.dimension - 3) * _log_cosine(tilt))
            yield block, self.radius * (along + across * tilt), weight / weight.sum(axis=1, keepdims=True)


def batch_rule(
    n: int, functions: Sequence[Function], kinks: Sequence[float], name: str, *, panels: Floats | None = None
) -> SphereRule:
    """The rule for two samples of a batch of n under full batch norm.

    Example:
        >>> batch_rule(2, [np.tanh], (), "tanh").pairs([lambda v: v], [(0, 0)])[0].value
        -1.0
    """
    return SphereRule(n - 1, -1.0 / (n - 1), functions, kinks, name, panels=panels)


def _one(x: Floats) -> Floats:
    return np.ones_like(x)


def _log_cosine(sine: Floats) -> Floats:
    """log cos β from sin β, without loss for small β."""
    # clamped, so that the logarithm is finite at β = ±π/2
    return np.asarray(0.5 * np.log1p(-np.minimum(sine * sine, 1.0 - 0.5 * _EPS)))


def _estimate(coarse: float, fine: float, size: float) -> NumericalEstimate:
    rounding = 8 * _EPS * size
    return NumericalEstimate(fine, 2 * max(abs(fine - coarse) - rounding, 0.0) + rounding)
