"""Expectations of ratios over an exchangeable Gaussian batch, for norms that follow the activation.

For G = aI + b11ᵀ the samples of h ~ N(0, G) are independent given one number. With b ≥ 0 it is their common part,
h_i = √a z_i + √b z_0. With b < 0 the density is that of independent samples times exp(−κ(Σh)²/2), a mixture of
exp(iqΣh): independent again, under complex weights. A ratio of sums becomes such a product as well, by
`1/s^{k+1} = ∫ t^k/k! exp(−ts) dt`, and for s = ‖Mφ‖², the centred size, by

    exp(−t‖Mφ‖²) = √(tn/π) ∫ exp(−t Σ(φ_i − m)²) dm.

What is left are integrals over one sample, matrix products over all m and q at once; all outer rules are trapezoidal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from isometer.activations import Activation, NumericalEstimate
from isometer.numerics._piecewise_legendre import panel_nodes, resolve
from isometer.theory.batch_norm._moments import slope_of
from isometer.theory.batch_norm._sphere import Floats

_ORDER = 16
_REACH = 8.5  # deviations of a Gaussian that count
_NODES = 1 << 13  # of one sample; more are not attempted
_TOGETHER = 32  # values of m at once
_BLOCK = 1 << 22  # entries of a matrix held together
_LATEST = 44.0  # log t past which a term that does not fall is infinite

Powers = tuple[int, int]
Prepared = tuple[Floats, Floats, Floats, Floats]
Term = Callable[["Sums"], NDArray[np.complex128]]


class Sums:
    """Moments of sums over samples given t, m and the common number: `of((p, k), …) = E Π Σ_i (φ_i − m)^p φ′_i^k`.

    Args:
        n: samples.
        table: E (φ − m)^p φ′^k of one sample, by (p, k).
        t: of the outer integral.
        m: `(points, 1)`.
    """

    def __init__(self, n: int, table: dict[Powers, NDArray[np.complex128]], t: float, m: Floats) -> None:
        self.n, self.table, self.t, self.m = n, table, t, m

    def of(self, *factors: Powers) -> NDArray[np.complex128]:
        """A product of sums, by the partitions of its factors into those that fall on the same sample."""
        total = np.zeros_like(self.table[0, 0])
        for partition in _partitions(len(factors)):
            if len(partition) > self.n:
                continue
            product = math.perm(self.n, len(partition)) * self.table[0, 0] ** (self.n - len(partition))
            for block in partition:
                product = product * self.table[sum(factors[i][0] for i in block), sum(factors[i][1] for i in block)]
            total = total + product
        return total

    @staticmethod
    def needs(*products: Sequence[Powers]) -> set[Powers]:
        """The entries of the table that these products need."""
        found = {(0, 0)}
        for factors in products:
            for partition in _partitions(len(factors)):
                found |= {(sum(factors[i][0] for i in b), sum(factors[i][1] for i in b)) for b in partition}
        return found


@lru_cache(maxsize=8)
def _partitions(size: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """All partitions of range(size) into blocks."""
    if size == 0:
        return ((),)
    found = []
    for smaller in _partitions(size - 1):
        for place in range(len(smaller)):
            grown = (*smaller[:place], (*smaller[place], size - 1), *smaller[place + 1 :])
            found.append(grown)
        found.append((*smaller, (size - 1,)))
    return tuple(found)


class SharedMean:
    """Expectations over h ~ N(0, G), G exchangeable, of functions of sums over samples.

    Args:
        phi: the activation.
        n: samples.
        across: a, the variance across 1, above 0.
        along: a + nb, the variance along 1.
        tolerance: relative to the largest term.

    Example:
        >>> from isometer import activation
        >>> law = SharedMean(activation("identity"), 6, 1.0, 1.0)
        >>> found = law.integral([lambda s: s.of((0, 0))], {(0, 0)}, centred=False)[0]  # ∫ E e^{−ts}, s ~ χ²_6
        >>> round(found.value, 9)  # E 1/s = 1/4, times Σ 1 = 6
        1.5
    """

    def __init__(self, phi: Activation, n: int, across: float, along: float, tolerance: float = 1e-12) -> None:
        self.phi, self.n, self.across, self.along = phi, n, across, along
        # e^{−x²} reaches the tolerance at x = _digits
        self.tolerance, self._digits = tolerance, math.sqrt(-math.log(tolerance))
        self._step = 1.6 / self._digits  # of the outer rule, in x with t = exp(x − e^−x)
        self._nodes = _NODES if tolerance < 1e-10 else _NODES // 4
        self.shared = max(along - across, 0.0) / n
        self.reach = _REACH * (math.sqrt(across) + math.sqrt(self.shared))
        self.is_mixture = along >= across * (1 - 1e-12)
        inner = [kink for kink in phi.kinks if abs(kink) < self.reach]
        width = math.sqrt(across)
        count = max(2, math.ceil(2 * self.reach / width))
        breaks = np.unique(np.concatenate([np.linspace(-self.reach, self.reach, count), inner]))
        # a kink next to a grid point would leave a panel without width
        breaks = breaks[np.concatenate([[True], np.diff(breaks) > 1e-12 * self.reach])]
        scale = 4 * (across + self.shared)

        def weighted(x: Floats) -> Floats:
            return np.asarray(phi(x)) * np.exp(-x * x / scale)  # φ√p: moments of second order are what is integrated

        self.edges = resolve(
            weighted, breaks, order=_ORDER, tolerance=1e-13, smallest=1e-12, anchor=self.reach, budget=2000
        ).series.edges
        h, weight = (part.ravel() for part in panel_nodes(self.edges[:-1], self.edges[1:], _ORDER))
        chance = weight * np.exp(-h * h / (2 * (across + self.shared)))
        chance = chance / chance.sum()
        value = np.asarray(phi(h))
        self.mean = float(chance @ value)
        self.variance = float(chance @ (value - self.mean) ** 2)
        self.size = float(chance @ value**2)
        self.flat = tuple(flat_pieces(phi, self.reach))
        self._fixed: Prepared | None = None

    # --- the common number --------------------------------------------------------------------------------------------

    def _common(self, q_reach: float) -> tuple[Floats, Floats]:
        """Nodes of c or q and weights such that E f = Σ weight · Re f."""
        if self.is_mixture:
            root = math.sqrt(self.shared)
            if root == 0.0:
                return np.zeros(1), np.ones(1)
            step = 2 * math.pi / (1.2 * self._digits * (math.sqrt(self.n * self.shared / self.across) + 1))
            z = np.asarray(step * np.arange(-math.ceil(_REACH / step), math.ceil(_REACH / step) + 1), dtype=float)
            weight = np.exp(-z * z / 2)
            return root * z, weight / weight.sum()
        step = 2 * math.pi / (9.5 * math.sqrt(self.n * self.across))
        q = np.asarray(step * np.arange(math.ceil(q_reach / step) + 1), dtype=float)
        # κ = pull/n; along = 0 is the limit Σh = 0, which weighs all q alike
        pull = 1 / self.along - 1 / self.across if self.along > 0 else math.inf
        # −q gives the conjugate: half of the nodes, counted twice
        weight = np.exp(-q * q * self.n / (2 * pull)) * np.where(q > 0, 2.0, 1.0)
        # so that E 1 = 1: independent samples have E exp(iqΣh) = exp(−naq²/2)
        return q, weight / float(np.sum(weight * np.exp(-self.n * self.across * q * q / 2)))

    def _densities(self, h: Floats, weight: Floats, common: Floats) -> Floats:
        """Real and, under complex weights, imaginary parts of one sample's law, `(nodes, columns)`."""
        scale = 1 / math.sqrt(2 * math.pi * self.across)
        if self.is_mixture:
            return np.asarray((scale * weight)[:, None] * np.exp(-((h[:, None] - common) ** 2) / (2 * self.across)))
        plain = scale * weight * np.exp(-h * h / (2 * self.across))
        phase = h[:, None] * common
        return np.concatenate([plain[:, None] * np.cos(phase), plain[:, None] * np.sin(phase)], axis=1)

    # --- one sample ---------------------------------------------------------------------------------------------------

    def _refined(self, t: float, q_reach: float, focus: Sequence[float] | None) -> Floats | None:
        """Panels on which exp(−t(φ − m)² + iqh) is smooth: for m near one of `focus` or, if None, for all m."""
        edges, root = self.edges, math.sqrt(t)
        for _ in range(60):
            left, right = edges[:-1], edges[1:]
            inside = left[:, None] + (right - left)[:, None] * np.linspace(1e-9, 1 - 1e-9, 7)
            value = np.asarray(self.phi(inside))
            spread = np.ptp(value, axis=1)
            cut = spread * root > 3.0
            if focus is not None:
                near = np.abs(value[:, :, None] - np.asarray(focus)).min(axis=(1, 2)) - spread
                # 30 widths away exp(−t(φ − m)²) is 0 in float64
                cut &= near * root < 30.0
            # less than a period of exp(iqh) per panel
            cut |= (right - left) * q_reach > 4.0
            cut &= (right - left) > 1e-14 * self.reach
            if not cut.any():
                return edges
            edges = np.sort(np.concatenate([edges, (left[cut] + right[cut]) / 2]))
            if len(edges) * _ORDER > self._nodes:
                return None
        return edges

    def _graded(self) -> Floats:
        """Panels on which exp(−tφ²) is smooth for every t: as wide as φ is far from 0."""
        edges = self.edges
        least = 3.0 * math.exp(-_LATEST / 2) * math.sqrt(self.n * self.size)
        for _ in range(60):
            left, right = edges[:-1], edges[1:]
            inside = left[:, None] + (right - left)[:, None] * np.linspace(1e-9, 1 - 1e-9, 7)
            value = np.asarray(self.phi(inside))
            spread = np.ptp(value, axis=1)
            cut = (spread > 0.46 * np.abs(value).min(axis=1)) & (spread > least)
            cut &= (right - left) > 1e-14 * self.reach
            if not cut.any() or len(edges) * _ORDER > self._nodes:
                break
            edges = np.sort(np.concatenate([edges, (left[cut] + right[cut]) / 2]))
        return edges

    def _q_reach(self, t: float, places: Floats) -> float:
        """Beyond it the weights exp(iqh) average to nothing, at m among `places`."""
        if self.is_mixture:
            return 0.0
        top = 7.0 / math.sqrt(self.n * self.across)
        edges = self._refined(t, 0.0, None)
        if edges is None:
            return math.inf
        for _ in range(14):
            top *= 2
            fine = self._refined(t, top, None)
            if fine is None:
                return math.inf
            h, weight = (part.ravel() for part in panel_nodes(fine[:-1], fine[1:], _ORDER))
            q = np.linspace(top / 2, top, 24)
            law = self._densities(h, weight, np.concatenate([[0.0], q]))
            fall = np.exp(-t * (np.asarray(self.phi(h)) - places[:, None]) ** 2)
            both = fall @ law
            size = np.hypot(both[:, :25], both[:, 25:])
            with np.errstate(divide="ignore"):
                logs = (self.n - 2) * (np.log(size[:, 1:]) - np.log(size[:, :1].max()))
            if logs.max() < math.log(0.01 * self.tolerance):
                kept = np.flatnonzero(logs.max(axis=0) >= math.log(0.01 * self.tolerance))
                return float(q[kept[-1] + 1]) if len(kept) else top / 2
        return math.inf

    # --- outer integrals ----------------------------------------------------------------------------------------------

    def integral(self, terms: Sequence[Term], needs: set[Powers], *, centred: bool) -> list[NumericalEstimate]:
        """∫_0^∞ E term dt for each term, with exp(−t‖φ‖²) or, `centred`, exp(−t‖Mφ‖²) in it.

        The value is inf where the integrand does not fall. The error is what the last point that could be computed
        leaves open (inf if that is all) plus the difference of two rules.
        """
        unit = self.n * ((self.variance if centred else self.size) or 1.0)
        size = len(terms)
        peak = np.zeros(size)
        found: dict[int, Floats] = {}
        ended: Floats | None = None
        # t = exp(x − e^−x) is e^−40 at x = −3.6, and dt = t(1 + e^−x) dx
        index = math.floor(-3.6 / self._step)
        while True:
            x = self._step * index
            log_t = x - math.exp(-x)
            t = math.exp(log_t) / unit
            row = self._at(t, terms, needs, centred)
            if row is None or log_t > _LATEST:
                ended = found.get(index - 1, np.zeros(size))
                break
            found[index] = row * t * (1 + math.exp(-x))
            peak = np.maximum(peak, np.abs(found[index]))
            if x > 1.0 and (np.abs(found[index]) <= self.tolerance * peak).all():
                break
            index += 1
        if len(found) < 10:
            return [NumericalEstimate(0.0, math.inf)] * size
        keys = sorted(found)
        table = np.array([found[k] for k in keys])
        tail, open_end = np.zeros(size), np.zeros(size)
        if ended is not None:
            tail, open_end = _tail(table, self._step, proven=log_t > _LATEST)
        out = []
        for k in range(size):
            halves = self._step * 2 * table[::2, k].sum(), self._step * 2 * table[1::2, k].sum()
            value = float((halves[0] + halves[1]) / 2 + tail[k])
            jump = abs(halves[0] - halves[1]) if ended is None else 0.0
            # halving the step of a trapezoidal rule squares its relative error; jump is the error of the coarse one
            error = min(jump, jump**2 / max(abs(value), 1e-300) * 100) + open_end[k]
            out.append(NumericalEstimate(value, float(error) + 1e-13 * self._step * float(np.abs(table[:, k]).sum())))
        return out

    def _at(self, t: float, terms: Sequence[Term], needs: set[Powers], centred: bool) -> Floats | None:
        """All terms at one t, over m and the common number; None if it would take too many nodes."""
        if not centred:
            return self._uncentred(t, terms, needs)
        # the rule errs by exp(−π²/(tn·step²)) for exp(−tn(m − φ̄)²): below the tolerance
        step = math.pi / ((self._digits + 0.5) * math.sqrt(self.n * t))
        spread = math.sqrt(self.variance / self.n + 1 / (2 * self.n * t))
        places = self.mean + spread * np.array([-3.0, -1.5, -0.5, 0.0, 0.5, 1.5, 3.0])
        q_reach = self._q_reach(t, places)
        if math.isinf(q_reach):
            return None
        prepared, centres = self._prepared(t, self._refined(t, q_reach, None), q_reach), [self.mean]
        if prepared is None and self.is_mixture and self.flat:  # only m near a dead zone's value still count
            prepared, centres = self._prepared(t, self._refined(t, q_reach, self.flat), q_reach), []
        if prepared is None:
            return None
        total, size = np.zeros(len(terms)), np.zeros(len(terms))
        seen: list[tuple[int, int]] = []  # runs of the common grid of m that are summed, so that none counts twice
        for place in (*centres, *self.flat):
            centre = round(place / step)
            if any(low <= centre <= high for low, high in seen):
                continue
            ends = []
            for side in (1, -1):
                start = 0 if side == 1 else 1
                while True:
                    index = centre + side * np.arange(start, start + _TOGETHER)
                    index = index[[not any(low <= i <= high for low, high in seen) for i in index.tolist()]]
                    start += _TOGETHER
                    if not len(index):
                        break
                    rows = self._rows(t, np.asarray(step * index, dtype=float), terms, needs, prepared)
                    total += rows.sum(axis=0)
                    size += np.abs(rows).sum(axis=0)
                    if (np.abs(rows[-4:]).max(axis=0) <= 0.01 * self.tolerance * size).all() or start > 1 << 16:
                        break
                ends.append(centre + side * (start - 1))
            seen.append((ends[1], ends[0]))
        return total * step * math.sqrt(t * self.n / math.pi)

    def _uncentred(self, t: float, terms: Sequence[Term], needs: set[Powers]) -> Floats | None:
        if self.is_mixture:
            if self._fixed is None:
                # graded panels hold for every t
                self._fixed = self._prepared(t, self._graded(), 0.0)
            prepared = self._fixed
        else:
            q_reach = self._q_reach(t, np.zeros(1))
            prepared = None if math.isinf(q_reach) else self._prepared(t, self._refined(t, q_reach, (0.0,)), q_reach)
        return None if prepared is None else self._rows(t, np.zeros(1), terms, needs, prepared)[0]

    def _prepared(self, t: float, edges: Floats | None, q_reach: float) -> Prepared | None:
        if edges is None:
            return None
        h, weight = (part.ravel() for part in panel_nodes(edges[:-1], edges[1:], _ORDER))
        common, common_weight = self._common(q_reach)
        if len(h) * len(common) > 2 * _BLOCK:
            return None
        return np.asarray(self.phi(h)), slope_of(self.phi, h), self._densities(h, weight, common), common_weight

    def _rows(
        self, t: float, m: Floats, terms: Sequence[Term], needs: set[Powers],
        prepared: Prepared,
    ) -> Floats:  # fmt: skip
        """Every term at every m, `(points, terms)`."""
        value, slope, law, weight = prepared
        half = len(weight)
        away = value - m[:, None]
        fall = np.exp(-t * away * away)
        by_slope = {k: law * (slope**k)[:, None] if k else law for k in sorted({k for _, k in needs})}
        table: dict[Powers, NDArray[np.complex128]] = {}
        raised = fall
        for p in range(max(p for p, _ in needs) + 1):
            raised = raised if p == 0 else raised * away
            for k in [k for q, k in needs if q == p]:
                both = raised @ by_slope[k]
                table[p, k] = np.asarray(
                    both if self.is_mixture else both[:, :half] + 1j * both[:, half:], dtype=complex
                )
        sums = Sums(self.n, table, t, m[:, None])
        return np.stack([np.real(term(sums)) @ weight for term in terms], axis=1)

    def chance_of(self, pieces: Sequence[tuple[float, float]]) -> float:
        """Probability that all samples are in the union of these intervals."""
        one_sided = not pieces or max(high for _, high in pieces) <= 0.0 or min(low for low, _ in pieces) >= 0.0
        if not pieces or (one_sided and self.along <= 1e-12 * self.across):  # samples that sum to 0 are not all there
            return 0.0
        edges = np.unique(np.clip(np.concatenate([self.edges, np.ravel(pieces)]), -self.reach, self.reach))
        q_reach = 0.0 if self.is_mixture else 60.0 / math.sqrt(self.across)
        rows = []
        for left, right in pairwise(edges):
            middle = (left + right) / 2
            if any(low <= middle <= high for low, high in pieces):
                count = max(1, math.ceil((right - left) * q_reach / 4.0))
                rows.append(np.linspace(left, right, count + 1))
        if not rows:
            return 0.0
        starts, ends = np.concatenate([r[:-1] for r in rows]), np.concatenate([r[1:] for r in rows])
        h, weight = (part.ravel() for part in panel_nodes(starts, ends, _ORDER))
        common, common_weight = self._common(q_reach)
        sums = self._densities(h, weight, common).sum(axis=0)
        one = sums if self.is_mixture else sums[: len(common)] + 1j * sums[len(common) :]
        return float(min(max(np.real(one**self.n) @ common_weight, 0.0), 1.0))


def _tail(table: Floats, step: float, *, proven: bool) -> tuple[Floats, Floats]:
    """What lies beyond the last rows, taken to go on falling exponentially; inf where they do not fall up to the end.

    Not `proven`: the rows end for another reason, and where they do not fall nothing is known.
    """
    last, before = np.abs(table[-1]), np.abs(table[-5])
    total = step * np.abs(table).sum(axis=0)
    value, error = np.zeros(table.shape[1]), np.zeros(table.shape[1])
    for k in range(table.shape[1]):
        if last[k] <= 1e-14 * total[k]:
            continue
        rate = math.log(before[k] / last[k]) / (4 * step) if last[k] > 0 < before[k] else 0.0
        if rate < 0.05:
            value[k], error[k] = (math.inf, 0.0) if proven else (0.0, math.inf)
            continue
        rest = float(table[-1, k]) / math.expm1(rate * step) * step
        value[k], error[k] = rest, abs(rest)
    return value, error


def flat_pieces(phi: Activation, reach: float) -> dict[float, list[tuple[float, float]]]:
    """Intervals within ±reach on which φ is constant, by its value there.

    Example:
        >>> from isometer import activation
        >>> flat_pieces(activation("relu"), 9.0)
        {0.0: [(-9.0, 0.0)]}
    """
    edges = [-reach, *(kink for kink in sorted(phi.kinks) if abs(kink) < reach), reach]
    found: dict[float, list[tuple[float, float]]] = {}
    for left, right in pairwise(edges):
        values = np.asarray(phi(left + (right - left) * np.array([1e-6, 0.21, 0.5, 0.83, 1 - 1e-6])))
        if np.ptp(values) <= 1e-14 * max(1.0, float(np.abs(values).max())):
            found.setdefault(float(values[2]), []).append((left, right))
    return found
