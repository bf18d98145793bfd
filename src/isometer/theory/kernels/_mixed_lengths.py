"""Kernels of inputs of several lengths, layer by layer, with angles kept to relative accuracy.

The state of a pair is s = ½ log((1 − ρ)/(1 + ρ)), of an input its variance. Every layer is a sum of independent parts
(φ of the last signal, a bias, a skip connection), and for parts of amplitudes α_c and cosines ρ_c

    1 ∓ ρ = (1 − ⟨α̂_i, α̂_j⟩) + Σ_c α̂_ci α̂_cj (1 ∓ ρ_c),  α̂ = α/|α|,

a sum of terms ≥ 0, the first taken from differences of the unit vectors α̂. A smooth φ is itself such a sum, over its
Hermite coefficients at the variance of each input (004/eq-15). Angles are then known to about 1e-15, however small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isometer.activations import Activation
from isometer.activations import _gaussian as gaussian
from isometer.activations._angle_table import PiecewiseFunction
from isometer.activations._dual import angle_of_gap, pair_expectation
from isometer.activations._gaussian import density
from isometer.errors import InfiniteMomentError, IsometerError
from isometer.numerics._piecewise_legendre import legendre_rule, panel_nodes
from isometer.theory.kernels._hermite_tables import HermiteTables
from isometer.theory.kernels._kernel_map import Norm
from isometer.theory.kernels._layer_maps import Place, coordinates, cosine_of, gaps
from isometer.theory.kernels._length_map import OVERFLOW, GaussianView, RaysDual, SignalFamily, diverging
from isometer.theory.kernels._pair_rules import LINE, Factor, PairRule, between, line_moments
from isometer.theory.kernels._quadratic_pairs import QuadraticPieces
from isometer.theory.kernels._ray_tables import RayTables

Floats = NDArray[np.float64]
ROWS = 128  # rows of a matrix worked on at a time: scratch stays far below n × n
NEAR = 1e-3  # gaps below this are taken from differences of the vectors
_SAME = 1e-30  # and below this the directions are equal up to the rounding of the inputs
_SLOW_PAIRS = 40_000  # quadratures pair by pair: about a millisecond each
_FAINT = 1e-280
_RULED = 1e-10  # error of a fixed rule beyond which pairs are integrated one by one
_EXACT = 1e-12  # relative error of a moment, below which that of the finer of two rules is rounding
_TERMS = 1 << 15  # of series worked on at a time: they stay in cache
_SETTLED = 1e-13  # relative spread of variances that counts as none


def unit_gaps(left: Floats, right: Floats) -> Floats:
    """1 − ⟨u, v⟩ of rows of unit vectors to relative accuracy, exactly 0 where they are equal up to rounding."""
    gap: Floats = 1.0 - left @ right.T
    sharpen(gap, left, right, -1.0)
    return gap


def sharpen(values: Floats, left: Floats, right: Floats, sign: float) -> None:
    """Replace small values of 1 + sign·⟨u, v⟩ by ½|u + sign·v|², which does not cancel."""
    i, j = np.nonzero(values < NEAR)
    step = max(1, (1 << 20) // left.shape[1])
    for start in range(0, len(i), step):
        a, b = i[start : start + step], j[start : start + step]
        apart = left[a] + sign * right[b]
        exact = 0.5 * np.einsum("kd,kd->k", apart, apart)
        values[a, b] = np.where(exact < _SAME, 0.0, exact)


@dataclass(frozen=True)
class Architecture:
    """What a layer is, beside its activation."""

    bias: float = 0.0
    norm: Norm = "none"
    norm_position: Place = "pre"
    residual: float | None = None
    entry: float | None = None  # of the first weights, where their biases are others

    @property
    def entry_bias(self) -> float:
        """The variance of the biases of the first weights."""
        return self.bias if self.entry is None else self.entry

    @property
    def renewing(self) -> bool:
        """Whether a norm follows the addition of the skip."""
        return self.norm != "none" and self.norm_position == "sum"

    @property
    def before(self) -> bool:
        """Whether a norm precedes φ."""
        return self.norm != "none" and self.norm_position == "pre"

    @property
    def after(self) -> bool:
        """Whether a norm follows φ."""
        return self.norm != "none" and self.norm_position == "post"

    @property
    def centring(self) -> bool:
        """Whether that norm removes the mean."""
        return self.after and self.norm == "layer"


@dataclass(frozen=True)
class Signals:
    """Covariances of a batch: a variance per input, s of every pair (−inf on the diagonal), and the NTK."""

    variances: Floats  # (n,)
    s: Floats  # (n, n)
    tangent: Floats | None  # (n, n)

    def covariance(self) -> Floats:
        """E h_i h_j."""
        root = np.sqrt(self.variances)
        out: Floats = -np.tanh(self.s)
        out *= root[:, None]
        out *= root[None, :]
        return out


def mixed_kernels(
    family: SignalFamily,
    first: Signals,
    depth: int,
    architecture: Architecture,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Signals, Floats | None]:
    """(the signals after `depth` layers, the NTK), from those of the first pre-activations.

    Rows of variance zero are inputs at the origin: φ(0) is all that the next layer sees of them.
    """
    name = family.activation.name
    state, views = first, _Views(family)
    for layer in range(1, depth + 1):
        if not np.max(state.variances) <= OVERFLOW:
            raise diverging(name, layer - 1)
        if np.min(state.variances[state.variances > 0.0], initial=math.inf) < _FAINT:
            raise IsometerError(
                f"the signal dies: a variance of {name} falls below {_FAINT:g} at layer {layer} — scale it with "
                "unit(…), normalise the inputs to one length, or use norm='rms'"
            )
        try:
            state = _layer(family, state, architecture, depth, layer, views)
        except (InfiniteMomentError, OverflowError):
            raise diverging(name, layer) from None
        if progress is not None:
            progress(layer, depth)
    tangent = state.tangent
    if tangent is not None and architecture.residual is not None:
        tangent = tangent + state.covariance()  # the readout's own weights
    if (tangent is not None and not np.isfinite(tangent).all()) or not np.max(state.variances) <= OVERFLOW:
        raise diverging(name, depth)
    return state, tangent


class _Views:
    """What layers share: tables, and what a Gaussian sees of φ once all variances are one."""

    def __init__(self, family: SignalFamily) -> None:
        self.family = family
        self._kept: GaussianView | None = None

    @cached_property
    def hermite(self) -> HermiteTables:
        """Of a smooth φ."""
        return HermiteTables(self.family)

    @cached_property
    def rays(self) -> RayTables | None:
        """Tables for kinks at 0 only."""
        phi = self.family.activation
        return RayTables(phi) if phi.kinks == (0.0,) and not phi.jumps else None

    @cached_property
    def quadratic(self) -> QuadraticPieces | None:
        """φ as pieces of degree two at most, if that is what it is."""
        return QuadraticPieces.of(self.family.activation)

    def of(self, variances: Floats) -> GaussianView | None:
        """The view that all share; None while variances differ, or where one dual costs more than it saves."""
        low, high = float(variances.min()), float(variances.max())
        if not 0.0 < low <= high <= (1.0 + _SETTLED) * low or not self.family.activation.kinks:
            return None
        if self._kept is None or abs(self._kept.variance - low) > _SETTLED * low:
            self._kept = self.family.at(low)
        return self._kept


def _layer(family: SignalFamily, state: Signals, net: Architecture, depth: int, layer: int, views: _Views) -> Signals:
    moments = PairMoments(family, state.variances, net, depth, views)
    power = moments.power  # E of the squared activations, centred where the norm centres
    if not (power[state.variances > 0.0] > 0.0).all():
        raise IsometerError(
            f"{family.activation.name} leaves no signal at layer {layer}: its output is zero or constant"
        )
    # an input at the origin may have no power; 1 stands in to avoid 0/0
    scale = np.where(power > 0.0, power, 1.0) if net.after else np.ones_like(power)
    strength = 1.0 if net.residual is None else net.residual**2
    skip = np.zeros_like(power) if net.residual is None else state.variances
    parts = np.stack([strength * power / scale, np.full_like(power, strength * net.bias), skip], axis=1)
    total = parts.sum(axis=1)
    amplitudes = np.sqrt(parts / np.where(total > 0.0, total, 1.0)[:, None])  # (n, part), unit rows
    s, tangent = np.empty_like(state.s), None if state.tangent is None else np.empty_like(state.s)
    for start in range(0, len(power), ROWS):
        rows = slice(start, start + ROWS)
        gap, mirror = gaps(state.s[rows])
        own_gap, own_mirror, slope = moments.block(rows, gap, mirror, tangent is not None)
        common = unit_gaps(amplitudes[rows], amplitudes)
        weights = amplitudes[rows, None, :] * amplitudes[None, :, :]  # (row, n, part)
        # a bias is common to both inputs, 1 − ρ = 0 and 1 + ρ = 2: it is absent from the first sum
        new_gap = common + weights[..., 0] * own_gap + weights[..., 2] * gap
        new_mirror = common + weights[..., 0] * own_mirror + 2.0 * weights[..., 1] + weights[..., 2] * mirror
        s[rows] = coordinates(np.clip(new_gap, 0.0, 2.0), np.clip(new_mirror, 0.0, 2.0))
        if tangent is not None and state.tangent is not None:
            assert slope is not None
            slope *= strength / np.sqrt(scale[rows, None] * scale[None, :])
            # Θ ← Θ·γ²E φ′φ′ + γ²(E φφ + V), with Θ itself added where there is a skip (004/eq-7)
            carried = state.tangent[rows] * (slope if net.residual is None else 1.0 + slope)
            size = np.sqrt(total[rows, None] * total[None, :])
            branch = weights[..., 0] * cosine_of(own_gap, own_mirror) + weights[..., 1]
            tangent[rows] = carried + size * branch
    s = np.minimum(s, s.T)  # equal up to rounding; the diagonal is exact
    np.fill_diagonal(s, -np.inf)
    if tangent is not None:
        tangent = (tangent + tangent.T) / 2
    if net.renewing:
        root = np.sqrt(np.where(total > 0.0, total, 1.0))
        tangent = None if tangent is None else tangent / np.outer(root, root)
        total = np.where(total > 0.0, 1.0, 0.0)
    return Signals(total, s, tangent)


def _series_sums(left: Floats, right: Floats, cosine: Floats, *, odd: bool, want: bool) -> tuple[Floats, Floats | None]:
    """Σ_j ρ^j Σ_{k>j} a_k b_k and, if wanted, Σ_k k a_k b_k ρ^{k−1} of rows a and b; odd ones have odd degrees only."""
    total, slope = np.zeros_like(cosine), np.zeros_like(cosine) if want else None
    # of a whole matrix half is enough
    i, j = np.triu_indices(len(left)) if left is right else (one.ravel() for one in np.indices(cosine.shape))
    stride = 2 if odd else 1
    degrees = np.arange(1.0, right.shape[1], stride)
    one, two = left[:, 1::stride], right[:, 1::stride]
    step = max(1, _TERMS // max(1, len(degrees)))
    for start in range(0, len(i) if len(degrees) else 0, step):
        a, b = i[start : start + step], j[start : start + step]
        terms, rho = one[a] * two[b], cosine[a, b]  # (pair, degree)
        powers = np.empty_like(terms)
        powers[:, 0] = 1.0
        powers[:, 1:] = (rho**stride)[:, None]
        np.multiply.accumulate(powers, axis=1, out=powers)
        if slope is not None:
            slope[a, b] = np.einsum("pk,pk,k->p", terms, powers, degrees)
        tails = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
        if odd:  # each sum of odd degrees stands beside two powers of ρ
            total[a, b] = tails[:, 0] + (1.0 + rho) * rho * np.einsum("pk,pk->p", tails[:, 1:], powers[:, :-1])
        else:
            total[a, b] = np.einsum("pk,pk->p", tails, powers)
    if left is right:
        for found in (total, slope):
            if found is not None:
                found[j, i] = found[i, j]
    return total, slope


class PairMoments:
    """The cosine of φ(u) and φ(v) and E φ′(u)φ′(v) for Gaussians of given variances, block by block."""

    def __init__(
        self, family: SignalFamily, variances: Floats, net: Architecture, depth: int, views: _Views | None = None
    ) -> None:
        self.family, self.variances, self.net = family, variances, net
        self.views = _Views(family) if views is None else views
        phi = family.activation
        self.coefficients: Floats | None = None
        self.one_dual = net.before or family.homogeneous or family.sign_like
        self.shared = net.before or not family.homogeneous  # a dual of u/√q, not of u
        self.alive = variances > 0.0
        at_origin = float(phi(0.0))
        if self.one_dual:
            view = family.at(1.0)
            self.dual, self.mean = view.dual, phi.mean
            factor = np.ones(len(variances)) if self.shared else variances
            self.power = factor * (view.dual.second_moment - (self.dual.at_zero if net.centring else 0.0))
            self.rotation = np.where(self.alive, 0.0, 1.0)  # inputs at the origin see φ(0) instead
            self.power[~self.alive] = 0.0 if net.centring else at_origin**2
            self.sign = math.copysign(1.0, at_origin)
            return
        self.parts: Floats | None = None
        if family.affine_rays is not None:
            self._use_parts(*family.affine_rays)
            return
        common = self.views.of(variances)
        if common is not None:
            self.one_dual, self.dual, self.shared = True, common.dual, True
            lost = common.dual.at_zero if net.centring else 0.0
            self.power = np.full(len(variances), common.dual.second_moment - lost)
            return
        if not np.any(self.alive):  # all inputs are at the origin, where φ is a constant: a series of degree 0
            self._use_series(np.zeros((0, 1)), at_origin)
            return
        found = None if phi.kinks else self.views.hermite.coefficients(variances[self.alive])
        if found is not None:
            self._use_series(found, at_origin)
            return
        self._use_quadrature(depth, at_origin)

    def _use_parts(self, scale: float, shift: float, dual: RaysDual) -> None:
        """scale·ψ + shift with ψ(tx) = tψ(x): ψ without its mean, and a constant, which are uncorrelated."""
        self.rays, self.gain = dual, scale * scale
        self.own = dual.second_moment - dual.at_zero
        roots = scale * np.sqrt(self.variances)
        means = np.zeros_like(roots) if self.net.centring else roots * self.family.rays_mean + shift
        parts = np.stack([np.abs(roots) * math.sqrt(self.own), means], axis=1)
        self.power = (parts**2).sum(axis=1)
        self.parts = parts / np.sqrt(np.where(self.power > 0.0, self.power, 1.0))[:, None]

    def _use_series(self, found: Floats, at_origin: float) -> None:
        """Hermite coefficients over their length, (n, degree); at the origin φ is the constant φ(0)."""
        # weighted by 1 + k: what is cut matters neither to κ nor to κ′
        weight = (found**2 * (1 + np.arange(found.shape[1]))).max(axis=0, initial=0.0)
        keep = int(np.max(np.flatnonzero(weight > 1e-18 * weight.sum()), initial=0)) + 1
        table = np.zeros((len(self.variances), keep))
        table[self.alive] = found[:, :keep]
        table[~self.alive, 0] = at_origin
        if self.net.centring:
            table[:, 0] = 0.0  # degree 0 is the mean
        self.power = (table**2).sum(axis=1)
        self.lengths = np.sqrt(self.power)
        table /= np.where(self.lengths > 0.0, self.lengths, 1.0)[:, None]
        self.coefficients = table

    def _use_quadrature(self, depth: int, at_origin: float) -> None:
        phi = self.family.activation
        self.depth = depth
        second, self.means = np.full_like(self.variances, at_origin**2), np.full_like(self.variances, at_origin)
        means, found, error = line_moments(phi, phi.kinks, self.variances[self.alive])
        if not error <= _EXACT:
            scaled = [f for f in self.scaled if f is not None]
            with np.errstate(over="ignore", invalid="ignore"):
                found = np.array([f.second_moment for f in scaled])
            means = np.array([f.mean for f in scaled]) if np.max(found, initial=0.0) <= OVERFLOW else found
        second[self.alive], self.means[self.alive] = found, means
        if not np.max(second) <= OVERFLOW:
            raise InfiniteMomentError(f"E φ(√q X)² of {phi.name} overflows at q = {float(np.max(self.variances)):.6g}")
        self.power = second - (self.means**2 if self.net.centring else 0.0)
        self.pieces: list[PiecewiseFunction | None] | None = None
        self.slopes: list[PiecewiseFunction | None] | None = None
        n = len(self.variances)
        self.known = np.full((2, n, n), math.nan)  # of rows that are done, for their columns

    @cached_property
    def scaled(self) -> list[Activation | None]:
        """φ(√q ·) of every input; None at the origin."""
        phi = self.family.activation
        return [phi.gain(math.sqrt(v)) if v > 0.0 else None for v in self.variances]

    def block(self, rows: slice, gap: Floats, mirror: Floats, want: bool) -> tuple[Floats, Floats, Floats | None]:
        """(1 − cosine, 1 + cosine, E φ′φ′) of some rows against all columns; cosines after centring, if any."""
        if self.one_dual:
            return self._by_dual(rows, gap, mirror, want)
        if self.parts is not None:
            return self._by_parts(rows, gap, mirror, want)
        if self.coefficients is not None:
            return self._by_series(rows, gap, mirror, want)
        return self._by_quadrature(rows, gap, mirror, want)

    def _by_dual(self, rows: slice, gap: Floats, mirror: Floats, want: bool) -> tuple[Floats, Floats, Floats | None]:
        odd = self.family.activation.is_odd
        whole = self.dual.second_moment - (self.dual.at_zero if self.net.centring else 0.0)
        near = np.minimum(gap, mirror) if odd else gap
        after = self.dual.deficit(near) / whole
        rest = 2.0 - after
        if odd:
            after, rest = np.where(gap <= mirror, after, rest), np.where(gap <= mirror, rest, after)
        slope = None
        if want:
            base = getattr(self.dual, "base", self.dual)
            if isinstance(base, RaysDual):
                angle = 2.0 * np.arctan2(np.sqrt(gap), np.sqrt(mirror))
                # the ratio is the gain of an affine image of the rays
                slope = base.slope_of_angle(angle) * (self.dual.slope_at_one / base.slope_at_one)
            else:
                slope = np.asarray(self.dual.slope_at_gap(near))
            if self.shared:
                # chain rule of u ↦ u/√q
                root = np.sqrt(np.where(self.alive, self.variances, 1.0))
                slope = slope / (root[rows, None] * root[None, :])
        dead = ~self.alive
        if dead.any():  # E φ(0)φ(v) = φ(0)·E φ: a cosine that does not depend on the angle
            cosine = 0.0 if self.net.centring else self.sign * self.mean / math.sqrt(self.dual.second_moment)
            for mask in (dead[rows, None] & ~dead[None, :], ~dead[rows, None] & dead[None, :]):
                after, rest = np.where(mask, 1.0 - cosine, after), np.where(mask, 1.0 + cosine, rest)
            both = dead[rows, None] & dead[None, :]
            after, rest = np.where(both, 0.0, after), np.where(both, 2.0, rest)
        return after, rest, slope

    def _by_parts(self, rows: slice, gap: Floats, mirror: Floats, want: bool) -> tuple[Floats, Floats, Floats | None]:
        assert self.parts is not None
        left, right = self.parts[rows], self.parts
        after = unit_gaps(left, right) + np.outer(left[:, 0], right[:, 0]) * self.rays.deficit(gap) / self.own
        silent = self.power == 0.0
        after = np.where(silent[rows, None] & silent[None, :], 0.0, after)
        slope = self.gain * self.rays.slope_of_angle(2.0 * np.arctan2(np.sqrt(gap), np.sqrt(mirror))) if want else None
        return after, 2.0 - after, slope

    def _by_series(self, rows: slice, gap: Floats, mirror: Floats, want: bool) -> tuple[Floats, Floats, Floats | None]:
        """1 − Σ â_k b̂_k ρ^k = (1 − ⟨â, b̂⟩) + (1 − ρ)Σ_j ρ^j Σ_{k>j} â_k b̂_k."""
        assert self.coefficients is not None
        right = self.coefficients
        left = right if len(gap) == len(right) else right[rows]
        odd = self.family.activation.is_odd
        flipped = odd & (mirror < gap)  # κ(−ρ) = −κ(ρ)
        near = np.where(flipped, mirror, gap)
        total, slope = _series_sums(left, right, 1.0 - near, odd=odd, want=want)
        after = unit_gaps(left, right) + near * total
        rest = 2.0 - after
        after, rest = np.where(flipped, rest, after), np.where(flipped, after, rest)
        if slope is not None:
            # E φ′φ′ = Σ k a_k b_k ρ^{k−1}/√(pq), and the table holds a and b over their lengths
            root = self.lengths / np.sqrt(np.where(self.alive, self.variances, 1.0))
            slope *= root[rows, None] * root[None, :]
        return after, rest, slope

    def _by_quadrature(
        self, rows: slice, gap: Floats, mirror: Floats, want: bool
    ) -> tuple[Floats, Floats, Floats | None]:
        """All pairs of some rows by a fixed rule; one by one where that is not good enough."""
        n = len(self.variances)
        i, j = (part.ravel() for part in np.indices(gap.shape))
        later = (j > i + rows.start) & self.alive[i + rows.start] & self.alive[j]
        later &= (self.power[i + rows.start] > 0.0) & (self.power[j] > 0.0)
        i, j = i[later], j[later]
        phi = self.family.activation
        slope = None if not want or phi.jumps else phi.derivative
        # κ(−ρ) = −κ(ρ)
        flipped = phi.is_odd & (mirror[i, j] < gap[i, j])
        near = np.where(flipped, mirror[i, j], gap[i, j]), np.where(flipped, gap[i, j], mirror[i, j])
        found = self._by_rule(i + rows.start, j, 2.0 * np.arctan2(np.sqrt(near[0]), np.sqrt(near[1])), want)
        if found is None:
            return self._one_by_one(rows, gap, want)
        first, second = np.where(flipped, 2.0 - found[0], found[0]), found[1]
        self.known[0, i + rows.start, j] = self.known[0, j, i + rows.start] = first
        self.known[1, i + rows.start, j] = self.known[1, j, i + rows.start] = second
        after, slopes = self.known[0, rows].copy(), self.known[1, rows].copy()
        diagonal = np.zeros(n)
        if slope is not None:
            _, own, wrong = line_moments(slope, phi.kinks, self.variances[self.alive])
            if not wrong <= _EXACT:
                own = np.array([f.kernel_slope_at_one for f in self.scaled if f is not None])
                own = own / self.variances[self.alive]
            diagonal[self.alive] = own
        for a in range(len(after)):
            for b in np.flatnonzero(np.isnan(after[a])):
                here = a + rows.start
                after[a, b] = self._pair_gap(here, int(b), float(gap[a, b]))
                slopes[a, b] = diagonal[here] if here == b else 0.0
        return after, 2.0 - after, slopes if want else None

    def _by_rule(
        self, i: NDArray[np.intp], j: NDArray[np.intp], theta: Floats, want: bool
    ) -> tuple[Floats, Floats] | None:
        """(1 − cosine, E φ′φ′) of some pairs: by formula, by a table, or by a fixed rule; None if all are too rough."""
        phi = self.family.activation
        shift = self.means if self.net.centring else np.zeros_like(self.means)
        root = np.sqrt(np.where(self.power > 0.0, self.power, 1.0))
        p, q = self.variances[i], self.variances[j]
        if self.views.quadratic is not None:
            return self.views.quadratic.pairs(p, q, (shift[i], shift[j]), (root[i], root[j]), theta)
        table = None if self.views.rays is None else self.views.rays.pairs(p, q, theta)
        if table is not None:
            apart = self._parallel_gaps[i, j]
            return apart + 2.0 * np.sin(theta / 2) ** 2 * table[0] / (root[i] * root[j]), table[1]
        side = Factor(np.sqrt(self.variances), shift, root)
        rule = PairRule(phi, phi.derivative if want and not phi.jumps else None, phi.kinks)
        first, second, error = rule.pairs(side.taken(i), side.taken(j), theta)
        return (first, second) if error <= _RULED else None

    @cached_property
    def _parallel_gaps(self) -> Floats:
        """1 − cosine of φ(√p X) and φ(√q X) for all pairs, kinks at 0."""
        x, weight = between(np.append(LINE, 0.0), 24)
        weight = np.sqrt(weight * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi))
        values = np.asarray(self.family.activation(np.sqrt(self.variances)[:, None] * x))
        unit = (values - (self.means[:, None] if self.net.centring else 0.0)) * weight
        size = np.linalg.norm(unit, axis=1)[:, None]
        unit /= np.where(size > 0.0, size, 1.0)
        return unit_gaps(unit, unit)

    def _one_by_one(self, rows: slice, gap: Floats, want: bool) -> tuple[Floats, Floats, Floats | None]:
        phi, n = self.family.activation, len(self.variances)
        pairs = n * (n + 1) // 2 * self.depth
        if pairs > _SLOW_PAIRS:
            raise IsometerError(
                f"{phi.name} is steep, and the inputs have different lengths: {pairs} pairs would each need a "
                f"quadrature of its own (at most {_SLOW_PAIRS}) — normalise the inputs to one length, take fewer, or "
                "use norm='rms'"
            )
        if self.pieces is None:
            self.pieces = [None if f is None else pieces_of(f) for f in self.scaled]
            if not phi.jumps:
                self.slopes = [None if f is None else pieces_of(f.derivative) for f in self.scaled]
        after = np.empty_like(gap)
        slope = np.zeros_like(gap) if want else None
        start = rows.start
        for i in range(len(gap)):
            for j in range(gap.shape[1]):
                if start <= j < start + i:  # inside the block the other half is known
                    after[i, j] = after[j - start, i + start]
                    if slope is not None:
                        slope[i, j] = slope[j - start, i + start]
                    continue
                after[i, j] = self._pair_gap(start + i, j, float(gap[i, j]))
                if slope is not None:
                    slope[i, j] = self._pair_slope(start + i, j, float(gap[i, j]))
        return after, 2.0 - after, slope

    def _pair_gap(self, i: int, j: int, gap: float) -> float:
        size = math.sqrt(self.power[i] * self.power[j])
        product = float(self.means[i] * self.means[j])
        centre = product if self.net.centring else 0.0
        if size == 0.0 or i == j:
            return 0.0 if i == j else 1.0
        if not (self.alive[i] and self.alive[j]):
            return 1.0 - (product - centre) / size
        assert self.pieces is not None
        f, g = self.pieces[i], self.pieces[j]
        assert f is not None
        assert g is not None
        if gap > NEAR or self.slopes is None:
            return 1.0 - (_pair(f, g, gap) - centre) / size
        # for close directions: 1 − cosine at ρ = 1, plus ∫ E f′g′ dρ
        theta = float(angle_of_gap(np.array(gap)))
        # θ is below 0.05 here, where six nodes are plenty
        nodes, weights, _ = legendre_rule(6)
        t = theta * (nodes + 1) / 2
        angles = [self._slope_at(i, j, 2.0 * math.sin(x / 2) ** 2) for x in t]
        return self._parallel_gap(i, j) + theta / 2 * float(weights @ (np.array(angles) * np.sin(t))) / size

    def _parallel_gap(self, i: int, j: int) -> float:
        """1 − cosine of φ(√p X) and φ(√q X): half the mean square of the difference of the two over their norms."""
        assert self.pieces is not None
        f, g = self.pieces[i], self.pieces[j]
        assert f is not None
        assert g is not None
        edges = np.unique(np.concatenate([f.edges, g.edges]))
        x, weight = panel_nodes(edges[:-1], edges[1:], 24)
        shift = self.means if self.net.centring else np.zeros_like(self.means)
        one = (f.function(x.ravel()) - shift[i]) / math.sqrt(self.power[i])
        two = (g.function(x.ravel()) - shift[j]) / math.sqrt(self.power[j])
        return 0.5 * float(np.sum((one - two) ** 2 * density(x.ravel()) * weight.ravel()))

    def _slope_at(self, i: int, j: int, gap: float) -> float:
        assert self.slopes is not None
        f, g = self.slopes[i], self.slopes[j]
        return 0.0 if f is None or g is None else _pair(f, g, gap)

    def _pair_slope(self, i: int, j: int, gap: float) -> float:
        product = math.sqrt(self.variances[i] * self.variances[j])
        return self._slope_at(i, j, gap) / product if product > 0.0 else 0.0


def pieces_of(function: Activation) -> PiecewiseFunction:
    """A function with panels that resolve it for quadrature against a pair of Gaussians."""
    domain = gaussian.gaussian_domain([function], function.name)
    edges = gaussian.panel_edges(function, function.kinks, domain, function.name, order=16, tolerance=1e-9)
    return PiecewiseFunction(function, edges, function.kinks, domain)


def _pair(f: PiecewiseFunction, g: PiecewiseFunction, gap: float) -> float:
    """E f(X)g(Y) for corr(X, Y) = 1 − gap."""
    if gap <= 1.0:
        return pair_expectation(f, g, 2.0 * math.atan2(math.sqrt(gap), math.sqrt(2.0 - gap)))
    # the quadrature needs a cosine ≥ 0: −Y in place of Y
    return pair_expectation(f, g.mirrored(), 2.0 * math.atan2(math.sqrt(2.0 - gap), math.sqrt(gap)))
