"""Rescaling without recentring, as a mixture of full batch norms.

For h ~ N(0, aI + b11ᵀ) write r = (a + nb)/a for the ratio of its two variances, along 1 and across. With v the batch
under full batch norm, independent of γ, where `tan γ = √r tan τ` and τ has density ∝ cos^{n−2} τ:

- divided by the root mean square, `√n h/‖h‖ = sin γ + cos γ v`;
- divided by the centred deviation, `√n h/‖Mh‖ = tan γ + v`.

Moments of functions of one or two samples given γ do not depend on r: they are tabulated in γ once, as Legendre series.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from isometer.errors import IsometerError
from isometer.numerics._piecewise_legendre import Piecewise, panel_nodes, resolve
from isometer.theory.batch_norm._sphere import Floats, Function, batch_rule

_ORDER = 24
_STEEPER = 25.0  # by how much tables grow, in the ratio r that they serve
_REACH = 40.0  # beyond, a function is taken to be as smooth as at this place


class Mixture:
    """Moments of `functions(shift + scale·v)` given γ, and their means over γ.

    Args:
        n: samples.
        kind: `"rms"` or `"std"`, the divisor.
        function: φ or φ′, the moments of which are `E f²` (of `f·f_k`, f_k = vᵏf) and `E f_i f_j`.
        kinks: of the function.
        powers: (k, l) of the single moments E vᵏf·vˡf and, second, of the pair moments E v_iᵏf_i·v_jˡf_j.
        name: for messages.
        tolerance: of the tables, relative to the largest moment.

    Example:
        >>> mixture = Mixture(5, "rms", lambda y: y, (), ([(0, 0)], [(0, 0)]), "identity")
        >>> mixture.means(1.0).round(12) + 0.0  # G = I stays I
        array([1., 0.])
    """

    def __init__(
        self,
        n: int,
        kind: Literal["rms", "std"],
        function: Function,
        kinks: Sequence[float],
        powers: tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]],
        name: str,
        tolerance: float = 2e-11,
    ) -> None:
        self.n, self.kind, self.function, self.kinks, self.name = n, kind, function, kinks, name
        self.powers, self.tolerance = powers, tolerance
        self.order = max(k for pair in (*powers[0], *powers[1]) for k in pair) + 1
        self.growth = self._growth() if kind == "std" else 0.0
        self.panels = resolve(
            lambda y: np.asarray(function(y) * np.exp(-y * y / 16)),
            np.unique(np.concatenate([np.linspace(-_REACH, _REACH, 9), kinks])),
            order=24, tolerance=1e-13, smallest=1e-9, budget=400,
        ).series.edges  # fmt: skip
        self._seen: dict[float, Floats] = {}
        probes = [float(np.abs(self._moments(gamma)).max()) for gamma in (-1.2, -0.6, 0.1, 0.7, 1.3)]
        self.floor = tolerance * max(probes)  # moments that vanish are noise
        self.table: list[Piecewise] = []
        self.served, self.end = 0.0, 0.0
        self._serve(4.0)

    def _serve(self, ratio: float) -> None:
        """Tables for variance ratios up to this one: γ beyond `end` has no weight there."""
        if ratio <= self.served:
            return
        self.served = max(ratio, _STEEPER * self.served)
        last = math.acos(min(1.0, math.exp(-31.0 / max(self.n - 2, 0.1))))  # cos^{n−2} τ = e^−31
        turn = math.sqrt(self.served) * math.tan(last)
        bounded = self.kind == "std" and self.growth == 0.0  # may oscillate up to γ = ±π/2
        self.end = math.atan(turn) if bounded and turn < 1e4 else math.pi / 2
        self.served = self.served if self.end < math.pi / 2 else math.inf
        self.table = [self._tabulated(k) for k in range(len(self.powers[0]) + len(self.powers[1]))]

    def _growth(self) -> float:
        """p with f = O(|x|^p), rounded up to ½; the Student law of tan γ must have 2p moments."""
        with np.errstate(all="ignore"):
            far = [np.abs(np.asarray(self.function(s * np.array([1e5, 1e6])), dtype=float)) for s in (-1.0, 1.0)]
            slopes = [math.log10(v[1] / v[0]) if v[0] > 0 and np.isfinite(v).all() else 0.0 for v in far]
        # 0.02 of slack: at 1e6 a power has not quite reached its exponent
        growth = max(0.0, math.ceil(2 * max(slopes) - 0.02) / 2)
        if not all(np.isfinite(v).all() for v in far) or 2 * growth >= self.n - 1:
            raise IsometerError(
                f"{self.name} divided by the centred deviation with the mean kept has no second moment for batches of "
                f"{self.n}: the mean over the deviation is Student-distributed with {self.n - 1} degrees of freedom — "
                "use a larger batch, an activation that grows more slowly, or recentre"
            )
        return growth

    def _moments(self, gamma: float) -> Floats:
        if gamma not in self._seen:
            shift, scale = (math.sin(gamma), math.cos(gamma)) if self.kind == "rms" else (math.tan(gamma), 1.0)

            def weighted(power: int) -> Function:
                return lambda v: np.asarray(v**power * self.function(shift + scale * v))

            functions = [weighted(power) for power in range(self.order)]
            kinks = [(kink - shift) / scale for kink in self.kinks]
            rule = batch_rule(self.n, functions[:1], kinks, self.name, panels=(self.panels - shift) / scale)
            values = rule.values(functions, *self.powers)
            # with `std` moments grow like tan^{2p} γ: the factor keeps tables bounded, `given` divides it out
            self._seen[gamma] = values * math.cos(gamma) ** (2 * self.growth)
        return self._seen[gamma]

    def _tabulated(self, index: int) -> Piecewise:
        def column(gammas: Floats) -> Floats:
            return np.array([self._moments(float(gamma))[index] for gamma in gammas])

        return resolve(
            column, self._breaks(), order=_ORDER, tolerance=self.tolerance, floor=self.floor, smallest=1e-5, budget=200
        ).series

    def _breaks(self) -> Floats:
        """γ at which a kink leaves the range of a sample."""
        radius, end = math.sqrt(self.n - 1.0), self.end
        places = [-end, 0.0, end]
        for kink in self.kinks:
            for side in (radius, -radius):
                if self.kind == "std":
                    places.append(math.atan(kink - side))
                elif abs(kink) < math.sqrt(self.n):
                    turn, level = math.atan(side), math.asin(kink / math.sqrt(self.n))
                    places += [math.remainder(p, 2 * math.pi) for p in (level - turn, math.pi - level - turn)]
        inside = np.unique([p for p in places if abs(p) <= end])
        return np.asarray(inside[np.concatenate([[True], np.diff(inside) > 1e-9])])

    def rule(self, ratio: float) -> tuple[Floats, Floats, Floats]:
        """τ, γ and weights that sum to 1 over the law of γ for the variance ratio r."""
        self._serve(ratio)
        root = math.sqrt(ratio)
        edges = np.unique(np.concatenate([series.edges for series in self.table]))
        reach = min(math.pi / 2, 12.0 / math.sqrt(max(self.n - 2, 1)))
        # tan τ = tan γ/√r, without the pole at ±π/2
        mapped = np.arctan2(np.sin(edges), root * np.cos(edges))
        # where γ turns fast, around τ ~ 1/√r, panels shrink with it
        turning = np.arctan(np.geomspace(0.05, 20.0, 7) / max(root, 1.0))
        grid = np.concatenate([mapped, np.linspace(-reach, reach, 13), turning, -turning])
        grid = np.unique(grid[np.abs(grid) <= reach])
        tau, weight = (part.ravel() for part in panel_nodes(grid[:-1], grid[1:], 24))
        weight = weight * np.cos(tau) ** (self.n - 2)
        return tau, np.arctan2(root * np.sin(tau), np.cos(tau)), weight / weight.sum()

    def given(self, gamma: Floats) -> Floats:
        """All moments given γ, `(…, moments)`."""
        gamma = np.clip(gamma, -self.end, self.end)
        columns = np.stack([series(gamma) for series in self.table], axis=-1)
        return np.asarray(columns / np.cos(gamma)[:, None] ** (2 * self.growth) if self.growth else columns)

    def means(self, ratio: float) -> Floats:
        """Means of all moments over γ, `(moments,)`."""
        _, gamma, weight = self.rule(ratio)
        return np.asarray(weight @ self.given(gamma))
