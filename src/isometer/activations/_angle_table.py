"""E f(X)f(Y) at every angle from one table, however steep f is.

With X = y + w and Y = y − w, y and w are independent Gaussians of deviations cos(θ/2) and sin(θ/2):

    E f(X)f(Y) = ∫ p_s(w) A(w; τ) dw,  A(w; τ) = ∫ f(y + w)f(y − w) p(y√(1 + τ)) dy·√(1 + τ),  τ = tan²(θ/2).

f is evaluated for A only, and A depends on θ through τ alone, smoothly: a few values of τ in [0, 1] and a polynomial
between them serve all angles up to π/2. In w it is smooth except near half the distance of two places where f is not,
so panels close in on those geometrically. Beyond π/2, −Y takes the place of Y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy.special import ive

from isometer.activations._gaussian import Function, distinct
from isometer.numerics._piecewise_legendre import legendre_rule, panel_nodes

Floats = NDArray[np.float64]
_CHUNK = 1 << 14  # points of (w, y) worked on at a time: they stay in cache
_INNER = 16  # nodes along y between two edges
# widths of panels along y, and the nodes that a Gaussian of deviation 0.7 or more takes there
_GAUSSIAN_NODES = ((0.02, 6), (0.1, 9), (0.4, 14), (math.inf, 16))
_OUTER = 16  # and along w
_FINE = 24  # of the rule that integrates A against a Gaussian
_FAR = 9.5  # deviations that count; the density falls to e^−45 there
_RATIO = 4.0  # of neighbouring panels that close in on a place
_NARROW = 0.2  # panels below this width mark a steep place
_NOISE = 1e-10  # of A: larger changes are structure, and followed to the end
_NOTHING = 1e-19  # of the scale: products of f on a panel that do not matter
_ANGLES = 64  # worked on at a time


@dataclass(frozen=True)
class PiecewiseFunction:
    """A function with the edges of panels that resolve it; `kinks` are the edges where it is not smooth.

    It is zero, or as good as zero, outside the edges; `domain` is where the Gaussian has mass. `steep` has the places
    and widths of fronts that are known.
    """

    function: Function
    edges: Floats
    kinks: tuple[float, ...]
    domain: tuple[float, float]
    steep: tuple[tuple[float, float], ...] = ()

    def mirrored(self) -> PiecewiseFunction:
        """x ↦ f(−x)."""
        low, high = self.domain
        return PiecewiseFunction(
            lambda x: self.function(-x), -self.edges[::-1], tuple(-kink for kink in self.kinks[::-1]), (-high, -low)
        )

    def pruned(self) -> PiecewiseFunction:
        """Without panels that add nothing: all of a steep front is in a few narrow ones."""
        x, weight = panel_nodes(self.edges[:-1], self.edges[1:], 16)
        with np.errstate(all="ignore"):
            values = np.abs(self.function(x.ravel()).reshape(x.shape)) * np.exp(-0.25 * x * x)
        mass = np.sum(values * weight, axis=1)
        alive = mass > 1e-18 * mass.sum()
        if not alive.any() or alive.all():
            return self
        # an edge stays where a panel beside it does; what lies between two fronts becomes one empty panel
        keep = np.concatenate([alive, [False]]) | np.concatenate([[False], alive])
        edges = self.edges[keep]
        inside = tuple(k for k in self.kinks if edges[0] <= k <= edges[-1])
        return replace(self, edges=edges, kinks=inside)

    def places(self) -> list[tuple[float, float]]:
        """(place, width) of kinks, of width 0, of known fronts, and of what else narrow panels close in on."""
        low, high = self.edges[0], self.edges[-1]
        found = _merged([*((kink, 0.0) for kink in self.kinks), *(one for one in self.steep if low <= one[0] <= high)])
        width, middle = np.diff(self.edges), (self.edges[1:] + self.edges[:-1]) / 2
        for i in np.argsort(width):
            if width[i] > _NARROW:
                break
            # panels around a place are as wide as they are far from it, up to a factor
            if all(width[i] < 0.05 * (wide + abs(middle[i] - at)) for at, wide in found):
                found.append((self._centre(width, int(i)), float(width[i])))
        return found

    def _centre(self, width: Floats, i: int) -> float:
        """The middle of the panels about as narrow as one, next to it."""
        alike = width < 1.5 * width[i]
        first = i - int(np.argmin(np.append(alike[i::-1], False))) + 1
        last = i + int(np.argmin(np.append(alike[i:], False)))
        return float(self.edges[first] + self.edges[last]) / 2


def _merged(places: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places and widths, without those inside the width of a narrower one beside them."""
    kept: list[tuple[float, float]] = []
    for place, width in sorted(places):
        if kept and place - kept[-1][0] <= max(2 * max(width, kept[-1][1]), 1e-14 * abs(place)):
            kept[-1] = min(kept[-1], (place, width), key=lambda one: one[1])
        else:
            kept.append((place, width))
    return kept


class TooManySamples(Exception):
    """The samples of κ′ would take minutes."""


@dataclass
class SampleCount:
    """Counts evaluations, and ends a computation that takes too many."""

    left: float

    def take(self, evaluations: float) -> None:
        self.left -= evaluations
        if self.left < 0:
            raise TooManySamples


class AngleTable:
    """E f(X)f(±Y) for corr(X, Y) = cos θ, θ in [0, π/2].

    Args:
        f: the function.
        sign: that of Y.
        scale: errors of ∫ E f(X)f(Y) sin θ dθ far below this do not matter.
        work: how often f may be evaluated.
        noise: relative error of the values of f.

    Example:
        >>> f = PiecewiseFunction(lambda x: (x > 0) * 1.0, np.array([-9.0, 0.0, 9.0]), (0.0,), (-9.0, 9.0))
        >>> table = AngleTable(f, 1, 1.0, SampleCount(1e9))
        >>> table(np.array([1e-9, math.pi / 3])).round(12)  # ½ − θ/2π
        array([0.5       , 0.33333333])
    """

    def __init__(self, f: PiecewiseFunction, sign: int, scale: float, work: SampleCount, noise: float = 0.0) -> None:
        self.f, self.sign, self.scale, self.work, self.noise = f, sign, scale, work, noise
        self.other = f.edges if sign > 0 else -f.edges[::-1]
        count = self._count()
        k = np.arange(count)
        self.tau = (1.0 - np.cos((k + 0.5) * math.pi / count)) / 2
        # of barycentric interpolation in Chebyshev points of the first kind
        self.barycentric = (-1.0) ** k * np.sin((k + 0.5) * math.pi / count)
        x, _ = panel_nodes(f.edges[:-1], f.edges[1:], _INNER)
        with np.errstate(all="ignore"):
            self.peaks = 2.0 * np.abs(f.function(x.ravel()).reshape(x.shape)).max(axis=1)
        self.truncation = 0.0
        self.edges, self.coefficients = self._resolved(self._breaks())  # (panel, degree, τ + 1)
        self._lay_nodes()

    def _count(self) -> int:
        """How many values of τ: e^−zτ, z = y²/2, weighted by f² e^−z, to rounding."""
        x = np.linspace(self.f.edges[0], self.f.edges[-1], 200)
        with np.errstate(all="ignore"):
            size = np.abs(np.nan_to_num(self.f.function(x), posinf=0.0, neginf=0.0)) ** 2
        z = x * x / 2
        weight = size * np.exp(-z)
        weight /= max(float(weight.max()), 1e-300)
        # a Chebyshev series of e^−zτ on [0, 1] has the coefficients 2e^{−z/2} I_k(z/2)
        return next((k for k in range(12, 120, 4) if float(np.max(weight * ive(k, z / 2))) < 1e-18), 120)

    def _breaks(self) -> Floats:
        """Where panels of w start: from each place at which steep places of the two factors meet, geometrically."""
        low, high = self.f.edges[0], self.f.edges[-1]
        first, last = (0.0, (high - low) / 2) if self.sign > 0 else (low, high)
        if max(-low, high) < _FAR:  # f does not grow much, and w has the deviation √½ at most
            first, last = max(first, -_FAR * math.sqrt(0.5)), min(last, _FAR * math.sqrt(0.5))
        # every two kinks meet somewhere, and a panel starts there: what cannot be had is not started
        if len(self.f.kinks) ** 2 * _OUTER * _INNER * len(self.f.edges) > self.work.left:
            raise TooManySamples
        places = self.f.places()
        if len(places) ** 2 * _OUTER * _INNER * len(self.f.edges) > self.work.left:
            raise TooManySamples
        breaks = [*np.linspace(first, last, max(2, math.ceil((last - first) / 1.2) + 1)), 0.0]
        meeting = [((a - self.sign * b) / 2, max(wide, other) / 2) for a, wide in places for b, other in places]
        for at, width in _merged([(at, width) for at, width in meeting if first <= at <= last]):
            breaks.append(at)
            if width > 0.0:
                steps = width * _RATIO ** np.arange(max(0, math.ceil(math.log(0.6 / width, _RATIO))))
                breaks += [*(at + steps), *(at - steps)]
        return np.array(distinct([b for b in breaks if first <= b <= last], 1e-14))

    def _resolved(self, breaks: Floats) -> tuple[Floats, Floats]:
        """Panels of w on which A is a short Legendre series."""
        nodes, _, analysis = legendre_rule(_OUTER)
        pending = np.stack([breaks[:-1], breaks[1:]], axis=1)
        before = np.full(len(pending), math.inf)
        done: list[tuple[float, float, Floats]] = []
        for depth in range(60):
            centre, half = pending.mean(axis=1, keepdims=True), np.diff(pending, axis=1) / 2
            found = self._inner((centre + half * nodes).ravel()).reshape(len(pending), _OUTER, -1)
            coefficients = np.einsum("dn,pnk->pdk", analysis, found)
            tail = np.abs(coefficients[:, -3:, :-1]).max(axis=(1, 2))
            rounding = (1e-14 + self.noise) * found[..., -1].max(axis=1)
            size = np.abs(found[..., :-1]).max(axis=(1, 2))
            allowed = np.maximum(4e-14 * size, rounding)
            # what halving does not improve is noise
            allowed = np.where((tail > before / 4) & (tail <= _NOISE * size), np.inf, allowed)
            nearest = np.maximum(np.abs(centre) - half, 0.0)[:, 0]
            # what a panel misses moves κ by its width times that, and less where the Gaussian of w is faint
            matters = tail * 2 * half[:, 0] * np.exp(-np.minimum(nearest**2, 700.0))
            tiny = half[:, 0] < 1e-15 * np.maximum(1.0, np.abs(centre[:, 0]))
            good = (tail <= allowed) | (matters <= 1e-16 * self.scale) | tiny | (depth == 59)
            self.truncation += float(matters[good].sum())
            done += [(a, b, series) for (a, b), series in zip(pending[good], coefficients[good], strict=True)]
            split = pending[~good]
            if not len(split):
                break
            middle = split.mean(axis=1)
            pending = np.concatenate([np.stack([split[:, 0], middle], 1), np.stack([middle, split[:, 1]], 1)])
            before = np.tile(tail[~good], 2)
        done.sort(key=lambda panel: panel[0])
        edges = np.array([panel[0] for panel in done] + [done[-1][1]])
        return edges, np.stack([panel[2] for panel in done])

    def _inner(self, w: Floats) -> Floats:
        """A at some w and all τ, and ∫ |f(y + w)f(y − w)| p dy, which its rounding is relative to: `(w, τ + 1)`."""
        step = max(1, _CHUNK // (_INNER * (2 * len(self.f.edges) - 1)))
        return np.concatenate([self._inner_block(w[start : start + step]) for start in range(0, len(w), step)])

    def _inner_block(self, w: Floats) -> Floats:
        one, two = self.f.edges - w[:, None], self.other + w[:, None]
        bottom, top = np.maximum(one[:, :1], two[:, :1]), np.minimum(one[:, -1:], two[:, -1:])
        ends = np.sort(np.clip(np.concatenate([one, two], axis=1), bottom, np.maximum(bottom, top)), axis=1)
        width, middle = np.diff(ends, axis=1), (ends[:, 1:] + ends[:, :-1]) / 2
        # between steep places f may be zero or nearly so: what cannot matter is left out
        with np.errstate(over="ignore", invalid="ignore"):
            most = self._peak(middle + w[:, None]) * self._peak(self.sign * (middle - w[:, None])) * width
        row, column = np.nonzero((width > 0.0) & ~(most <= _NOTHING * self.scale))
        if not len(row):
            return np.zeros((len(w), len(self.tau) + 1))
        left, right = ends[row, column], ends[row, column + 1]
        y, weight = panel_nodes(left, right, _INNER)  # (panel, node)
        shift = w[row, None]
        self.work.take(2 * y.size)
        with np.errstate(all="ignore"):
            values = self.f.function((y + shift).ravel()) * self.f.function((self.sign * (y - shift)).ravel())
        values = values.reshape(y.shape) * weight
        out = np.zeros((len(w), len(self.tau) + 1))
        narrower = 0.0
        for widest, order in _GAUSSIAN_NODES:
            some = np.flatnonzero((right - left > narrower) & (right - left <= widest))
            narrower = widest
            if len(some):
                # on a narrow panel the Gaussian is a short polynomial, known from its values at few nodes
                few, _ = panel_nodes(left[some], right[some], order)
                moved = values[some] @ _to_fewer(order)
                rows, first = np.unique(row[some], return_index=True)
                square = -0.5 * few * few
                for k, tau in enumerate(self.tau):
                    sums = np.einsum("py,py->p", moved, np.exp((1.0 + tau) * square))
                    out[rows, k] += np.add.reduceat(sums, first)
                sums = (np.abs(values[some]) * np.exp(-0.5 * y[some] ** 2)).sum(axis=1)
                out[rows, -1] += np.add.reduceat(sums, first)
        return out

    def _peak(self, x: Floats) -> Floats:
        """A bound of |f| on the panels that points are in."""
        return np.asarray(self.peaks[np.clip(np.searchsorted(self.f.edges, x) - 1, 0, len(self.peaks) - 1)])

    def _lay_nodes(self) -> None:
        """Nodes of w that resolve Gaussians of every deviation, with A there."""
        left, right, panel = [], [], []
        for i, (low, high) in enumerate(pairwise(self.edges)):
            cuts = _doubling(abs(low), abs(high)) if low >= 0 else -_doubling(abs(high), abs(low))[::-1]
            left += [*cuts[:-1]]
            right += [*cuts[1:]]
            panel += [i] * (len(cuts) - 1)
        index = np.array(panel)
        w, weight = panel_nodes(np.array(left), np.array(right), _FINE)
        a, b = self.edges[index][:, None], self.edges[index + 1][:, None]
        basis = legendre.legvander((2 * w - a - b) / (b - a), _OUTER - 1)  # (sub-panel, node, degree)
        self.w, self.weight = w.ravel(), weight.ravel()
        self.values = np.einsum("snd,sdk->snk", basis, self.coefficients[index]).reshape(len(self.w), -1)
        inner = np.abs(self.edges[self.edges != 0.0])
        self.nearest = float(inner.min(initial=math.inf)) if 0.0 in self.edges else 0.0

    def __call__(self, theta: Floats) -> Floats:
        """At angles in [0, π/2]."""
        out = np.empty(len(theta))
        for start in range(0, len(theta), _ANGLES):
            part = theta[start : start + _ANGLES]
            tau = np.tan(part / 2) ** 2
            # p(y√(1 + τ))·√(1 + τ)
            out[start : start + _ANGLES] = np.sqrt(1 + tau) * self._between(tau, self._means(part)[:, :-1])
        return out

    def size(self, theta: Floats) -> Floats:
        """About E |f(X)f(Y)|, which the rounding of a value is relative to."""
        return np.abs(self._means(theta)[:, -1])

    def _means(self, theta: Floats) -> Floats:
        """∫ p_s A dw for every τ, and the same of the absolute values."""
        s = np.maximum(np.sin(theta / 2), 1e-150)
        means = np.empty((len(s), len(self.tau) + 1))
        small = s * _FAR <= self.nearest
        means[~small] = self._broad(s[~small])
        means[small] = self._slim(s[small])
        return means / math.sqrt(2 * math.pi)

    def _broad(self, s: Floats) -> Floats:
        """∫ p_s A dw by the rule."""
        density = np.exp(-0.5 * (self.w / s[:, None]) ** 2) / (math.sqrt(2 * math.pi) * s[:, None])
        found: Floats = (density * self.weight) @ self.values
        return found * (2.0 if self.sign > 0 else 1.0)

    def _slim(self, s: Floats) -> Floats:
        """The same where the Gaussian is inside the panels at w = 0, on which A is a polynomial."""
        v, weight = (one.ravel() for one in panel_nodes(np.array([0.0, 2.0, 5.0]), np.array([2.0, 5.0, _FAR]), _FINE))
        weight = weight * np.exp(-0.5 * v * v) / math.sqrt(2 * math.pi)
        at = int(np.searchsorted(self.edges, 0.0))
        total = np.zeros((len(s), len(self.tau) + 1))
        for panel, side in ((at, 1.0), (at - 1, -1.0)):
            if 0 <= panel < len(self.coefficients):
                a, b = self.edges[panel], self.edges[panel + 1]
                basis = legendre.legvander((2 * side * s[:, None] * v - a - b) / (b - a), _OUTER - 1)
                total += np.einsum("n,snd,dk->sk", weight, basis, self.coefficients[panel])
        return total * (2.0 if self.sign > 0 else 1.0)

    def _between(self, tau: Floats, means: Floats) -> Floats:
        apart = tau[:, None] - self.tau
        exact = apart == 0.0
        share = self.barycentric / np.where(exact, 1.0, apart)
        share = np.where(exact.any(axis=1, keepdims=True), exact, share)
        return np.asarray((share * means).sum(axis=1) / share.sum(axis=1))


@cache
def _to_fewer(order: int) -> Floats:
    """Takes weighted values at `_INNER` nodes to those at `order` nodes that integrate smooth functions alike."""
    nodes, _, _ = legendre_rule(_INNER)
    _, _, analysis = legendre_rule(order)
    return np.asarray(legendre.legvander(nodes, order - 1) @ analysis)


def _doubling(near: float, far: float) -> Floats:
    """Cuts of [near, far], 0 ≤ near < far, each at most twice the one before; from far/16 on where near is 0."""
    least = near if near > 0.0 else far / 16
    steps = max(1, math.ceil(math.log2(far / least) - 1e-9))
    cuts = least * (far / least) ** (np.arange(steps + 1) / steps)
    cuts[0], cuts[-1] = least, far
    return np.concatenate([[near], cuts]) if near < least else cuts
