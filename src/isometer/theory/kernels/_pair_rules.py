"""E φ(√p X)φ(√q Y) for many pairs at a time, where φ has kinks or jumps: fixed rules, refined where they err.

1 − cosine is taken as half the mean square of the difference of the two factors over their sizes, which does not
cancel. A rule integrates the squares of the factors too, whose values are known: what it gets wrong there is its error.

- Kinks at 0 only: polar coordinates, X = r cos α, Y = r cos(α − θ). The kinks are four rays, and between them all is
  smooth in r and α, for any θ.
- Kinks elsewhere: X = y + w, Y = y − w with independent y and w. For given w the kinks in y are known points, and the
  integral over y is smooth in w except where two of them meet. Beyond a right angle −Y takes the place of Y.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isometer.numerics._piecewise_legendre import panel_nodes

Floats = NDArray[np.float64]
_NODES = 1 << 18  # evaluated at a time: the working set stays in cache
_FAR = 9.5  # deviations that count; the density falls to e^−45 there
_RADII = np.array([0.0, 0.8, 2.0, 3.6, 6.0, _FAR])
LINE = np.linspace(-_FAR, _FAR, 8)
_ORDERS = (
    (11, 13),
    (12, 24),
    (24, 40),
)  # nodes between radii (or along y) and between rays (or along w), tried in turn


@dataclass(frozen=True)
class Factor:
    """φ(√p ·) of some inputs: the roots √p, what is subtracted, and what it is divided by; `(m,)` each."""

    roots: Floats
    means: Floats
    sizes: Floats

    def taken(self, which: NDArray[np.intp]) -> Factor:
        """Some of them."""
        return Factor(self.roots[which], self.means[which], self.sizes[which])

    def unit(self, values: Floats) -> Floats:
        """Values of φ without their mean, over their size."""
        return (values - self.means[:, None, None]) / self.sizes[:, None, None]


class PairRule:
    """Expectations of pairs of Gaussians through φ.

    Args:
        phi: the activation.
        slope: its derivative, None where it is not requested.
        kinks: where φ is not smooth.

    Example:
        >>> rule = PairRule(lambda x: np.maximum(x, 0.0), None, (0.0,))
        >>> one = Factor(np.ones(1), np.zeros(1), np.full(1, 0.5**0.5))
        >>> gap, _, error = rule.pairs(one, one, np.array([np.pi / 2]))
        >>> round(float(1 - gap[0]), 12), error < 1e-12  # κ(0) = 1/π
        (0.318309886184, True)
    """

    def __init__(
        self, phi: Callable[[Floats], Floats], slope: Callable[[Floats], Floats] | None, kinks: tuple[float, ...]
    ) -> None:
        self.phi, self.slope, self.kinks = phi, slope, np.array(kinks)
        self.polar = not self.kinks.any()

    def nodes(self, level: int = 0) -> int:
        """Points that a pair takes."""
        inner, outer = _ORDERS[level]
        if self.polar:
            return 4 * outer * (len(_RADII) - 1) * inner
        count = len(self.kinks)
        return (len(LINE) - 1 + count**2) * outer * (len(LINE) - 1 + 2 * count) * inner

    def pairs(
        self, left: Factor, right: Factor, theta: Floats, tolerance: float = 3e-13
    ) -> tuple[Floats, Floats, float]:
        """(1 − cosine, E φ′φ′ or zeros, largest error of the rule) of pairs at angles θ, `(m,)` each."""
        found = np.zeros((3, len(theta)))
        todo = np.arange(len(theta))
        near = np.abs(self.kinks) <= _FAR * max(np.max(left.roots, initial=0.0), np.max(right.roots, initial=0.0))
        if not near.all():  # no input reaches the others, and points grow with the cube of their number
            return PairRule(self.phi, self.slope, tuple(self.kinks[near])).pairs(left, right, theta, tolerance)
        for level in range(len(_ORDERS)):
            step = max(1, _NODES // self.nodes(level))
            for start in range(0, len(todo), step):
                part = todo[start : start + step]
                found[:, part] = self._block(left.taken(part), right.taken(part), theta[part], *_ORDERS[level])
            # negated, so that NaN counts as an error too
            todo = todo[~(found[2, todo] <= tolerance)]
            if not len(todo):
                break
        return found[0], found[1], float(np.max(found[2], initial=0.0))

    def _block(self, f: Factor, g: Factor, theta: Floats, inner: int, outer: int) -> Floats:
        x, y, weight = polar_nodes(theta, inner, outer) if self.polar else self._lines(f, g, theta, inner, outer)
        x, y = f.roots[:, None, None] * x, g.roots[:, None, None] * y
        with np.errstate(over="ignore", invalid="ignore"):
            u, v = f.unit(self.phi(x)), g.unit(self.phi(y))
            gap = 0.5 * _mean((u - v) ** 2, weight)
            error = np.maximum(np.abs(_mean(u * u, weight) - 1.0), np.abs(_mean(v * v, weight) - 1.0))
        slope = np.zeros_like(gap)
        if self.slope is not None:
            slope = _mean(self.slope(x) * self.slope(y), weight)
        return np.stack([gap, slope, error])

    def _lines(self, f: Factor, g: Factor, theta: Floats, inner: int, outer: int) -> tuple[Floats, Floats, Floats]:
        """Points x, y and weights, `(m, w, y)`."""
        sign = np.where(theta > math.pi / 2, -1.0, 1.0)
        half = np.where(theta > math.pi / 2, math.pi - theta, theta)[:, None] / 2
        c, s = np.cos(half), np.sin(half)  # (m, 1), deviations of y and w
        one = self.kinks / f.roots[:, None]  # (m, kink)
        two = sign[:, None] * self.kinks / g.roots[:, None]
        with np.errstate(over="ignore"):
            meeting = (one[:, :, None] - two[:, None, :]).reshape(len(theta), -1) / (2.0 * np.maximum(s, 1e-300))
        v, around = between(np.concatenate([_spread(LINE, s), meeting], axis=1), outer)  # (m, node)
        w = s * v
        places = (
            np.concatenate([one[:, None, :] - w[:, :, None], two[:, None, :] + w[:, :, None]], axis=2) / c[:, :, None]
        )
        t, along = between(np.concatenate([_spread(LINE, w), places], axis=2), inner)  # (m, w, node)
        y = c[:, :, None] * t
        weight = (around * np.exp(-0.5 * v * v))[:, :, None] * along * np.exp(-0.5 * t * t) / (2.0 * math.pi)
        shift = w[:, :, None]
        return y + shift, sign[:, None, None] * (y - shift), weight


def line_moments(
    phi: Callable[[Floats], Floats], kinks: tuple[float, ...], variances: Floats, order: int = 24
) -> tuple[Floats, Floats, float]:
    """(E φ(√q X), E φ(√q X)², largest relative error of the second) for many variances q > 0 at a time.

    Example:
        >>> mean, second, error = line_moments(lambda x: np.maximum(x, 0.0), (0.0,), np.array([1.0, 4.0]))
        >>> second.round(12).tolist(), error < 1e-13
        ([0.5, 2.0], True)
    """
    roots = np.sqrt(variances)[:, None]
    borders = np.concatenate([np.broadcast_to(LINE, (len(roots), len(LINE))), np.array(kinks) / roots], axis=1)
    found = []
    for nodes in (order, order * 2 // 3):
        x, weight = between(borders, nodes)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(phi(roots * x), dtype=float)
            weight = weight * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
            found.append((np.sum(values * weight, axis=1), np.sum(values * values * weight, axis=1)))
    (mean, second), (_, rough) = found
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.abs(second - rough) / np.where(second > 0.0, second, 1.0)
    return mean, second, float(np.max(error, initial=0.0))


def polar_nodes(theta: Floats, inner: int, outer: int) -> tuple[Floats, Floats, Floats]:
    """Points x, y and weights, `(m, ray, radius)`, over a full turn from −π/2, the first kink of the first factor."""
    quarter = np.full_like(theta, math.pi / 2)
    borders = np.stack([-quarter, theta - quarter, quarter, theta + quarter, 3.0 * quarter], axis=1)
    alpha, around = panel_nodes(borders[:, :-1], borders[:, 1:], outer)
    alpha, around = alpha.reshape(len(theta), -1, 1), around.reshape(len(theta), -1, 1)
    radius, along = (one.ravel() for one in panel_nodes(_RADII[:-1], _RADII[1:], inner))
    weight = around * (along * radius * np.exp(-0.5 * radius**2) / (2.0 * math.pi))
    return radius * np.cos(alpha), radius * np.cos(alpha - theta[:, None, None]), weight


def _mean(values: Floats, weight: Floats) -> Floats:
    return np.asarray(np.einsum("mar,mar->m", values, weight))


def _spread(line: Floats, like: Floats) -> Floats:
    """The same numbers for all of `like`, on a new axis; on the last one where that has length 1."""
    shape = like.shape[:-1] if like.shape[-1] == 1 else like.shape
    return np.broadcast_to(line, (*shape, len(line)))


def between(borders: Floats, order: int) -> tuple[Floats, Floats]:
    """Nodes and weights between borders, sorted and cut where the density ends; nodes and panels on one axis."""
    ends = np.sort(np.clip(borders, -_FAR, _FAR), axis=-1)
    nodes, weights = panel_nodes(ends[..., :-1], ends[..., 1:], order)
    shape = (*ends.shape[:-1], -1)
    return nodes.reshape(shape), weights.reshape(shape)
