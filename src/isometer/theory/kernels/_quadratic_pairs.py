"""Pairs through a continuous φ made of pieces of degree two at most, by integrals over one angle.

Let f = φ(√p ·), g = φ(√q ·) and F(ρ) = E f(X)g(Y). Then F″ = E f″(X)g″(Y) (Price), and

    F(1) − F(ρ) = (1 − ρ)F′(1) − ∫_ρ¹ (r − ρ)F″(r) dr.

f″ is a step function plus a point mass at each kink. Two masses at h and k contribute the density of (X, Y) there,

    exp(−(h − k)²/2 sin²t − hk/(1 + cos t))/2π dt,  r = cos t;

a mass and a step contribute a normal distribution function; and of two steps again only the densities remain after one
more integration by parts. Nothing cancels as θ → 0. The integrands turn on where t is about |h − k|, so panels are
geometric in t from there on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from isometer.activations import Activation
from isometer.numerics._piecewise_legendre import legendre_rule
from isometer.theory.kernels._pair_rules import LINE, between

Floats = NDArray[np.float64]
_NODES = 12  # of a panel, over which t doubles
_FIRST = 9.0  # |h − k|/t beyond which a density is below e^−40
_LEAST = 1e-14  # smallest t over θ that matters
_PANELS = (1, 6, 14, 28, 48)  # pairs are sorted by how many they need
_INNER = 12  # nodes between kinks, of integrals along a line
_POINTS = 1 << 16  # worked on at a time


@dataclass(frozen=True)
class QuadraticPieces:
    """φ″ as steps and masses: `masses[k]` jumps of φ′ and `steps[k]` jumps of φ″ at `kinks[k]`, `start` on the left.

    Example:
        >>> from isometer import activation
        >>> QuadraticPieces.of(activation("hardtanh")).masses.tolist()
        [1.0, -1.0]
        >>> QuadraticPieces.of(activation("elu")) is None
        True
    """

    phi: Activation
    kinks: Floats
    masses: Floats
    steps: Floats
    start: float

    @classmethod
    def of(cls, phi: Activation) -> QuadraticPieces | None:
        """None unless φ is continuous and made of such pieces."""
        if not phi.kinks or phi.jumps or len(phi.kinks) > 8:
            return None
        kinks = np.array(phi.kinks)
        ends = np.concatenate([[kinks[0] - 20.0], kinks, [kinks[-1] + 20.0]])
        inside = ends[:-1, None] + np.diff(ends)[:, None] * np.array([1e-6, 0.1, 0.37, 0.64, 0.9, 1.0 - 1e-6])
        with np.errstate(all="ignore"):
            slope, bend = (np.asarray(f(inside)) for f in (phi.derivative, phi.derivative.derivative))
        bends = bend[:, 2]
        # φ′ of every piece as a straight line through its middle
        lines = slope[:, 2:3] + bends[:, None] * (inside - inside[:, 2:3])
        size = np.abs(slope).max() + np.abs(bend).max()
        if (
            not (np.abs(bend - bends[:, None]) <= 1e-14 * size).all()
            or not (np.abs(slope - lines) <= 1e-13 * size * np.maximum(1.0, np.abs(inside))).all()
        ):
            return None
        at = slope[:, 2:3] + bends[:, None] * (np.stack([ends[:-1], ends[1:]], axis=1) - inside[:, 2:3])
        masses = at[1:, 0] - at[:-1, 1]
        masses[np.abs(masses) <= 1e-13 * size] = 0.0
        return cls(phi, kinks, masses, np.diff(bends), float(bends[0]))

    def pairs(
        self, p: Floats, q: Floats, means: tuple[Floats, Floats], sizes: tuple[Floats, Floats], theta: Floats
    ) -> tuple[Floats, Floats]:
        """(1 − cosine, E φ′φ′) of pairs of variances p and q at angles θ; means are taken off, sizes divided by."""
        parallel, first, second = self._parallel(p, q, means, sizes)
        densities, slopes = self._bends(p, q, theta)
        root, gap = np.sqrt(p * q), 2.0 * np.sin(theta / 2) ** 2
        # (1 − ρ)F′(1) − ½(1 − ρ)²·E of the two step functions − the integral of all else
        lost = gap * root * first - 0.5 * gap * gap * p * q * second - densities
        slope = first - (gap * p * q * second + slopes) / root
        return parallel + lost / (sizes[0] * sizes[1]), slope

    def _parallel(
        self, p: Floats, q: Floats, means: tuple[Floats, Floats], sizes: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats, Floats]:
        """At θ = 0: 1 − cosine, E φ′φ′ and E φ″φ″ without masses."""
        step = max(1, _POINTS // (_INNER * (len(LINE) + 2 * len(self.kinks))))
        out = np.empty((3, len(p)))
        for start in range(0, len(p), step):
            part = slice(start, start + step)
            roots = np.sqrt(p[part])[:, None], np.sqrt(q[part])[:, None]
            line = np.broadcast_to(LINE, (len(roots[0]), len(LINE)))
            x, weight = between(np.concatenate([line, *(self.kinks / root for root in roots)], axis=1), _INNER)
            weight = weight * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
            u, v = (
                (np.asarray(self.phi(root * x)) - mean[part, None]) / size[part, None]
                for root, mean, size in zip(roots, means, sizes, strict=True)
            )
            out[0, part] = 0.5 * np.einsum("mx,mx->m", (u - v) ** 2, weight)
            slopes = [np.asarray(self.phi.derivative(root * x)) for root in roots]
            out[1, part] = np.einsum("mx,mx,mx->m", *slopes, weight)
            bends = [self._bend(root * x) for root in roots]
            out[2, part] = np.einsum("mx,mx,mx->m", *bends, weight) if self.steps.any() or self.start else 0.0
        return out[0], out[1], out[2]

    def _bend(self, x: Floats) -> Floats:
        return np.asarray(self.start + (self.steps * (x[..., None] > self.kinks)).sum(axis=-1))

    def _bends(self, p: Floats, q: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """∫ (r − ρ)F″ dr and ∫ F″ dr from ρ to 1, without the part of E of the two step functions at ρ = 1."""
        out = np.zeros((2, len(theta)))
        curved = bool(self.steps.any() or self.start)
        for k, at in enumerate(self.kinks):
            for m, other in enumerate(self.kinks):
                h, g = at / np.sqrt(p), other / np.sqrt(q)
                out += self._kink_pair(k, m, h, g, p, q, theta, curved)
        return out[0], out[1]

    def _kink_pair(
        self, k: int, m: int, h: Floats, g: Floats, p: Floats, q: Floats, theta: Floats, curved: bool
    ) -> Floats:
        out = np.zeros((2, len(theta)))
        masses = self.masses[k] * self.masses[m] * np.sqrt(p * q)
        steps = self.steps[k] * self.steps[m] * p * q
        # a mass of one factor and the step function of the other, once for each mass
        mixed = self.masses[m] * p * np.sqrt(q), self.masses[k] * q * np.sqrt(p)
        for part, t, weight in _panels(np.abs(h - g), np.abs(h + g), theta):
            a, b = h[part, None], g[part, None]
            cosine, sine = np.cos(t), np.sin(t)
            far = 2.0 * np.sin((theta[part, None] - t) / 2) * np.sin((theta[part, None] + t) / 2)  # cos t − cos θ
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                near = np.where(
                    cosine > 0.0,
                    0.5 * ((a - b) / sine) ** 2 + a * b / (1.0 + cosine),
                    0.5 * ((a + b) / sine) ** 2 - a * b / (1.0 - cosine),
                )
            density = np.exp(-near) / (2.0 * math.pi) * weight
            one, two = masses[part, None], steps[part, None]
            out[0, part] += np.sum(density * far * (one - 0.5 * two * far), axis=1)
            out[1, part] += np.sum(density * (one - two * far), axis=1)
            if curved:
                values = np.zeros_like(t)
                for x, y, factor, kink in ((b, a, mixed[0], k), (a, b, mixed[1], m)):
                    step = self.steps[kink] * ndtr((x * cosine - y) / np.maximum(sine, 1e-300))
                    first = self.start if kink == 0 else 0.0  # once for all steps
                    values += factor[part, None] * np.exp(-0.5 * x * x) * (step + first)
                values *= weight * sine / math.sqrt(2.0 * math.pi)
                out[0, part] += np.sum(values * far, axis=1)
                out[1, part] += np.sum(values, axis=1)
        return out


def _panels(apart: Floats, mirrored: Floats, theta: Floats) -> list[tuple[NDArray[np.intp], Floats, Floats]]:
    """(which pairs, nodes t, weights) of rules on [0, θ], geometric from |h − k| on and toward π − t = |h + k|."""
    pi = math.pi
    half = np.minimum(theta, pi / 2)
    found = _geometric(np.zeros_like(theta), half, apart)
    some = np.flatnonzero(theta > pi / 2)
    if len(some):
        rest = _geometric(pi - theta[some], np.full(len(some), pi / 2), mirrored[some])
        found += [(some[part], pi - t, weight) for part, t, weight in rest]
    return found


def _geometric(low: Floats, high: Floats, turn: Floats) -> list[tuple[NDArray[np.intp], Floats, Floats]]:
    """Rules on [low, high] for integrands that turn on at `turn`, smooth below it where that is zero."""
    # from a ninth of the turning point on there is something; below the rest is a panel of its own
    first = np.where(turn > 0.0, np.clip(turn / _FIRST, np.maximum(low, _LEAST * high), high), high)
    first = np.maximum(first, low)
    with np.errstate(divide="ignore"):
        count = np.ceil(np.log2(high / np.maximum(first, 1e-300))) + 1
    nodes, weights, _ = legendre_rule(_NODES)
    found, fewer = [], 0
    for panels in _PANELS:
        part = np.flatnonzero((count > fewer) & ((count <= panels) | (panels == _PANELS[-1])))
        fewer = panels
        if len(part):
            ratio = (high[part] / first[part])[:, None]
            ends = first[part, None] * ratio ** (np.arange(panels) / max(1, panels - 1))
            if panels == 1:
                ends = high[part, None]
            ends = np.concatenate([low[part, None], ends], axis=1)
            centre, width = (ends[:, 1:] + ends[:, :-1])[..., None] / 2, np.diff(ends, axis=1)[..., None] / 2
            shape = (len(part), -1)
            found.append((part, (centre + width * nodes).reshape(shape), (width * weights).reshape(shape)))
    return found
