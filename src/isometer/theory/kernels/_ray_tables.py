"""E φ′(√p X)φ′(√q Y) for all variances and angles, where φ has kinks at 0 only, from tables made as they are needed.

In polar coordinates, X = r cos α and Y = r cos(α − θ), such kinks are rays through the origin, wherever p and q are.
The expectation is therefore analytic in log p, log q and θ together, and products of short series on panels of log p
and log q hold it. Layers and pairs share the tables. One minus a cosine is that of parallel inputs plus

    (1 − cos θ)·D,  D = ∫₀^θ S(t) sin t dt/(1 − cos θ),  S = √(pq) E φ′φ′,

which has full relative accuracy.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from isometer.activations import Activation
from isometer.numerics._piecewise_legendre import legendre_rule
from isometer.theory.kernels._pair_rules import line_moments, polar_nodes

Floats = NDArray[np.float64]
_LOGS = 14  # degrees of log p and log q on a panel
_ANGLES = 28  # degrees of θ
_WIDTH = 1.0  # of a panel of log p
_ORDERS = ((11, 13), (12, 24))  # nodes between radii and between rays, tried in turn
_RULED = 3e-13  # error of a rule that is good enough
_TAIL = 3e-13  # last coefficients of a series that is
_CHUNK = 512  # pairs at a time


@cache
def _angle_rule() -> tuple[Floats, Floats]:
    """Nodes θ, and the matrix that takes S there to D there."""
    nodes, _, analysis = legendre_rule(_ANGLES)
    theta = (nodes + 1) * math.pi / 2
    inner, weights, _ = legendre_rule(48)
    t = theta[:, None] * (inner + 1) / 2  # (θ, node)
    basis = legendre.legvander(2 * t / math.pi - 1, _ANGLES - 1)
    moved = np.einsum("an,and->ad", weights * theta[:, None] / 2 * np.sin(t), basis)
    return theta, (moved / (2.0 * np.sin(theta / 2) ** 2)[:, None]) @ analysis


class RayTables:
    """The tables of one activation.

    Example:
        >>> from isometer import activation
        >>> found = RayTables(activation("relu")).pairs(np.array([4.0]), np.array([1.0]), np.array([np.pi / 2]))
        >>> found.round(12).tolist()  # D = 2(½ − 1/2π) and E φ′φ′ = ¼
        [[0.681690113816], [0.25]]
    """

    def __init__(self, phi: Activation) -> None:
        self.phi = phi
        self._kept: dict[tuple[int, int], Floats | None] = {}

    def pairs(self, p: Floats, q: Floats, theta: Floats) -> Floats | None:
        """D and E φ′φ′ of pairs, `(2, m)`; None where a series is not short enough."""
        p, q = np.maximum(p, q), np.minimum(p, q)  # both are symmetric
        logs = np.log(p) / _WIDTH, np.log(q) / _WIDTH
        panels = np.rint(logs[0]).astype(int), np.rint(logs[1]).astype(int)
        out = np.empty((2, len(theta)))
        angle = legendre.legvander(2 * theta / math.pi - 1, _ANGLES - 1)
        for a, b in sorted(set(zip(panels[0].tolist(), panels[1].tolist(), strict=True))):
            table = self._table(a, b)
            if table is None:
                return None
            some = np.flatnonzero((panels[0] == a) & (panels[1] == b))
            for start in range(0, len(some), _CHUNK):
                part = some[start : start + _CHUNK]
                left = legendre.legvander(2 * (logs[0][part] - a), _LOGS - 1)
                right = legendre.legvander(2 * (logs[1][part] - b), _LOGS - 1)
                both = (left[:, :, None] * right[:, None, :]).reshape(len(part), -1)
                series = (both @ table).reshape(len(part), 2, _ANGLES)
                out[:, part] = np.einsum("mct,mt->cm", series, angle[part])
        out[1] /= np.sqrt(p * q)
        return out

    def _table(self, a: int, b: int) -> Floats | None:
        if (a, b) not in self._kept:
            self._kept[a, b] = self._made(a, b)
        return self._kept[a, b]

    def _made(self, a: int, b: int) -> Floats | None:
        """Coefficients of D and S in log p, log q and θ, `(log p · log q, 2 · θ)`."""
        nodes, _, analysis = legendre_rule(_LOGS)
        p, q = (np.exp(_WIDTH * (panel + nodes / 2)) for panel in (a, b))
        theta, to_mean = _angle_rule()
        slopes = self._slopes(p, q, theta)
        if slopes is None:
            return None
        both = np.stack([np.einsum("nt,abt->abn", to_mean, slopes), slopes], axis=2)  # (p, q, 2, θ)
        angle = legendre_rule(_ANGLES)[2]
        table = np.einsum("ia,jb,kt,abct->ijck", analysis, analysis, angle, both, optimize=True)
        most = np.abs(both).max()
        tails = (table[-2:], table[:, -2:], table[..., -3:])
        if not max(float(np.abs(tail).max()) for tail in tails) <= _TAIL * most:
            return None
        return np.asarray(table.reshape(_LOGS * _LOGS, -1))

    def _slopes(self, p: Floats, q: Floats, theta: Floats) -> Floats | None:
        """√(pq) E φ′φ′, `(p, q, θ)`."""
        slope = self.phi.derivative
        exact = [line_moments(slope, self.phi.kinks, v)[1] for v in (p, q)]
        root_p, root_q = np.sqrt(p)[:, None], np.sqrt(q)[:, None]
        for inner, outer in _ORDERS:
            out, error = np.empty((len(p), len(q), len(theta))), 0.0
            for k in range(len(theta)):
                x, y, weight = (one[0].ravel() for one in polar_nodes(theta[k : k + 1], inner, outer))
                with np.errstate(over="ignore", invalid="ignore"):
                    u, v = np.asarray(slope(root_p * x)), np.asarray(slope(root_q * y))
                    out[:, :, k] = root_p * ((u * weight) @ v.T) * root_q.T
                    for values, known in zip((u, v), exact, strict=True):
                        off = np.abs((values * values) @ weight - known) / np.where(known > 0.0, known, 1.0)
                        error = max(error, float(np.max(off))) if np.isfinite(off).all() else math.inf
                if error > _RULED:
                    break
            else:
                return out
        return None
