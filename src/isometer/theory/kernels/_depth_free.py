"""Kernels of depth L as functions of one angle, composed once, at a cost that does not grow with depth.

On inputs of one length the NNGP and the NTK at depth L depend on the cosine ρ of two inputs only. The variable is
s = log tan(θ/2) = ½ log((1 − ρ)/(1 + ρ)): it is log θ near 0 and −log(π − θ) near π, where deep maps are steep, and in
it a layer never expands (κ is convex on [0, 1]), so rounding does not grow with depth. Layers that differ (a variance
still on its way to its fixed point) are applied one by one; a run of equal layers is composed by doubling,

    F_2k = F_k ∘ F_k,  P_2k = P_k·(P_k ∘ F_k),  A_2k = (1 − w)·(P_k ∘ F_k)·A_k + w·(A_k ∘ F_k),

F the map of s, P the product of slopes relative to its value at ρ = 1, A the NTK of the block relative to its own
diagonal: each held as a piecewise Legendre series in s.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray

from isometer.activations import Activation
from isometer.checks import whole_number
from isometer.errors import IsometerError
from isometer.numerics._piecewise_legendre import legendre_rule
from isometer.theory.kernels._kernel_map import Norm
from isometer.theory.kernels._layer_maps import Layers, Place, Stage, coordinates, cosine_of, gaps
from isometer.theory.kernels._length_map import SignalFamily

Floats = NDArray[np.float64]
REACH = 37.0  # |s| up to here is tabulated: angles from 2e-16
LARGEST_DEPTH = 10**9
"""Hidden layers, at most; where layers share a map, the cost grows with the logarithm of their number."""
_BLOCK = 32  # layers iterated one by one before doubling starts
_CHUNK = 1 << 13  # values per block in evaluation: the working set stays in cache
_TOLERANCE = 2e-14  # of a block; a hundred blocks may follow each other


# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Several functions of s on uniform panels over [−REACH, REACH], as polynomials in the local variable."""

    coefficients: Floats  # (channel, degree, panel), powers of t in [−1, 1]

    @classmethod
    def fit(cls, function: Callable[[Floats], Floats], *, tolerance: float, width: float = 1.0) -> Table:
        """Halve the panels until the last Legendre coefficients of every channel are below the tolerance."""
        order = 20 if width >= 0.5 else 12
        nodes, _, analysis = legendre_rule(order)
        to_powers = _powers(order)
        panels, previous = round(2 * REACH / width), math.inf
        while True:
            half = REACH / panels
            centres = -REACH + half * (2 * np.arange(panels) + 1)
            values = function((centres[:, None] + half * nodes).ravel())  # (channel, panel·node)
            series = values.reshape(len(values), panels, order) @ analysis.T  # (channel, panel, degree)
            # channel 0 of a block is a shift of up to 2·REACH, and carries that much more rounding
            scale = np.maximum(1.0, np.abs(values).max(axis=1) / 4.0)
            tail = float(np.max(np.abs(series[:, :, -2:]) / scale[:, None, None]))
            if tail <= tolerance or tail > 0.25 * previous or panels >= 1024:  # resolved, or nothing left but rounding
                return cls(np.ascontiguousarray(np.einsum("cpk,kj->cjp", series, to_powers)))
            panels, previous = 2 * panels, tail

    def __call__(self, s: Floats, channels: Sequence[int] | None = None) -> Floats:
        """Values (channel, …); constant beyond the ends."""
        chosen = range(len(self.coefficients)) if channels is None else channels
        out = np.empty((len(chosen), s.size))
        flat = np.ravel(s)
        panels = self.coefficients.shape[2]
        for start in range(0, flat.size, _CHUNK):
            block = flat[start : start + _CHUNK]
            place = (block + REACH) * (panels / (2 * REACH))
            index = np.clip(place, 0, panels - 1).astype(np.intp)
            t = 2.0 * (place - index) - 1.0
            inner = np.clip(t, -1.0, 1.0)
            for row, channel in enumerate(chosen):
                table = self.coefficients[channel]
                total = table[-1].take(index)
                for degree in range(len(table) - 2, -1, -1):
                    total *= inner
                    total += table[degree].take(index)
                out[row, start : start + _CHUNK] = total
        return out.reshape(len(chosen), *np.shape(s))

    def ends(self, channel: int) -> tuple[tuple[float, float], tuple[float, float]]:
        """(value, slope in s) at both ends."""
        panels = self.coefficients.shape[2]
        found = []
        for t, panel in ((-1.0, 0), (1.0, panels - 1)):
            series = self.coefficients[channel, :, panel]
            slope = np.polynomial.polynomial.polyval(t, np.polynomial.polynomial.polyder(series)) * panels / REACH
            found.append((float(np.polynomial.polynomial.polyval(t, series)), float(slope)))
        return found[0], found[1]


def _powers(order: int) -> Floats:
    """Row k: the powers of t in P_k."""
    out = np.zeros((order, order))
    for k in range(order):
        out[k, : k + 1] = legendre.leg2poly(np.eye(k + 1)[k])
    return out


@dataclass(frozen=True)
class LayerTables:
    """k equal layers at once: tables of F(s) − s, P(s) and A(s), and the logarithms that weigh them."""

    table: Table
    layers: int
    log_growth: float  # k·log growth
    log_sum: float  # log (1 − skip)Σ_{j<k} growth^j

    @cached_property
    def _edges(self) -> tuple[tuple[float, float], tuple[float, float]]:
        return self.table.ends(0)

    def move(self, s: Floats) -> Floats:
        """F(s), continued by straight lines."""
        return self._shifted(s, self.table(s, [0])[0])

    def _shifted(self, s: Floats, shift: Floats) -> Floats:
        (_, low), (_, high) = self._edges
        shift = shift + low * np.minimum(s + REACH, 0.0) + high * np.maximum(s - REACH, 0.0)
        # lines iterated many times run off; this far out ρ = −tanh s is ±1 and s stays a number
        return np.clip(s + shift, -1e6, 1e6)

    def apply(self, state: AngleState) -> AngleState:
        """The state after these layers."""
        if state.tangent is None:
            return replace(state, s=self.move(state.s))
        shift, product, own = self.table(state.s)
        log_ratio = float(np.logaddexp(self.log_sum, self.log_growth + state.log_ratio))
        # R′ = sum + growth^k·R: the block's own weights have this share of the new diagonal
        weight = math.exp(self.log_sum - log_ratio)
        tangent = weight * own + (1.0 - weight) * product * state.tangent
        return AngleState(self._shifted(state.s, shift), tangent, log_ratio)

    def doubled(self, tolerance: float) -> LayerTables:
        """Twice as many layers."""
        # w = 1/(1 + growth^k), in logarithms because growth^k may overflow
        weight = math.exp(self.log_sum - float(np.logaddexp(self.log_sum, self.log_sum + self.log_growth)))
        tangent = len(self.table.coefficients) == 3

        def twice(s: Floats) -> Floats:
            if not tangent:
                first = self.move(s)
                return (self.move(first) - s)[None]
            shift, product, own = self.table(s)
            first = self._shifted(s, shift)
            shift2, product2, own2 = self.table(first)
            after = self._shifted(first, shift2)
            return np.stack([after - s, product * product2, weight * own2 + (1.0 - weight) * product2 * own])

        panels = self.table.coefficients.shape[2]
        log_sum = float(np.logaddexp(self.log_sum, self.log_sum + self.log_growth))
        table = Table.fit(twice, tolerance=tolerance, width=2 * REACH / panels)
        return LayerTables(table, 2 * self.layers, 2 * self.log_growth, log_sum)


@dataclass(frozen=True)
class AngleState:
    """Where a set of angles is: s of the pre-activations, the NTK over its diagonal, log of the ratio of diagonals."""

    s: Floats
    tangent: Floats | None
    log_ratio: float  # log (NTK diagonal / variance)


def through(stage: Stage, state: AngleState, times: int = 1) -> AngleState:
    """The same layer several times, one by one."""
    gap, mirror = gaps(state.s)
    tangent, log_ratio = state.tangent, state.log_ratio
    # growth 0 carries nothing over; infinite growth has no NTK, and the value is not used
    log_growth = math.log(stage.growth) if 0.0 < stage.growth < math.inf else -math.inf
    for _ in range(times):
        after = stage.forward(gap, mirror)
        if tangent is not None:
            log_ratio = float(np.logaddexp(stage.log_source, log_growth + log_ratio))
            weight = math.exp(stage.log_source - log_ratio)
            own = stage.branch_cosine(cosine_of(gap, mirror), cosine_of(*after))
            tangent = weight * own + (1.0 - weight) * stage.slope_ratio(gap, mirror) * tangent
        gap, mirror = after
    return AngleState(coordinates(gap, mirror), tangent, log_ratio)


def first_block(stage: Stage, tangent: bool, tolerance: float) -> LayerTables:
    """_BLOCK equal layers, iterated at the nodes."""

    def function(s: Floats) -> Floats:
        gap, mirror = gaps(s)
        product, own, log_sum = np.ones_like(s), np.zeros_like(s), -math.inf
        for _ in range(_BLOCK):
            after = stage.forward(gap, mirror)
            if tangent:
                ratio = stage.slope_ratio(gap, mirror)
                log_sum = float(np.logaddexp(stage.log_source, math.log(stage.growth) + log_sum))
                weight = math.exp(stage.log_source - log_sum)
                branch = stage.branch_cosine(cosine_of(gap, mirror), cosine_of(*after))
                own = weight * branch + (1 - weight) * ratio * own
                product = product * ratio
            gap, mirror = after
        shift = coordinates(gap, mirror) - s
        return np.stack([shift, product, own]) if tangent else shift[None]

    log_growth = math.log(stage.growth) if tangent else 0.0
    log_sum = -math.inf
    for _ in range(_BLOCK):
        log_sum = float(np.logaddexp(stage.log_source, log_growth + log_sum))
    return LayerTables(Table.fit(function, tolerance=tolerance), _BLOCK, _BLOCK * log_growth, log_sum)


class SphereKernel:
    """NNGP and NTK of a network of any depth on inputs of one length, as functions of the cosine.

    Depth L is L hidden layers of the activation as given, weights of unit variance in the NTK parametrisation, a linear
    readout; the NTK counts all L + 1 weight matrices. With `residual` γ it is h_0 = W_0x, L layers
    h + γ(Wφ(h)/√m + b) and a readout of h_L without activation or bias: L + 2 weight matrices. Values are relative to
    the diagonal, whose logarithm is apart.

    Implements 004/def-K, 004/def-NTK, 004/eq-7, 004/eq-NTKdiag.

    Example:
        >>> import math
        >>> from isometer.theory.kernels import SphereKernel
        >>> deep = SphereKernel("unit(relu)", depth=1_000_000)
        >>> round(math.exp(deep.log_diagonal("ntk")))
        1000001
    """

    def __init__(
        self,
        source: str | Activation | SignalFamily | Any,
        depth: int,
        *,
        squared_length: float = 1.0,
        bias: float = 0.0,
        norm: Norm = "none",
        norm_position: Place = "pre",
        residual: float | None = None,
        entry_bias: float | None = None,
        tangent: bool | None = None,
    ) -> None:
        self.depth = checked_depth(depth)
        self.layers = Layers(
            source,
            squared_length=squared_length,
            bias=bias,
            norm=norm,
            norm_position=norm_position,
            residual=residual,
            entry_bias=entry_bias,
        )
        self.transient, self.constant = self.layers.stages(self.depth)
        stages = [*self.transient, *([self.constant] if self.constant else [])]
        self.has_tangent = all(math.isfinite(stage.growth) for stage in stages)
        self.tangent = self.has_tangent if tangent is None else tangent and self.has_tangent
        self._ladder: list[LayerTables] = []  # blocks of _BLOCK·2^j layers, shared between depths

    def at_depth(self, depth: int) -> SphereKernel:
        """The same network at another depth; what was composed for one depth is used for the other.

        Example:
            >>> from isometer.theory.kernels import SphereKernel
            >>> SphereKernel("unit(relu)", 100).at_depth(3).depth
            3
        """
        other = copy.copy(self)
        # cached properties are copied along and belong to the old depth; the ladder stays shared on purpose
        for name in ("_blocks", "_table"):
            other.__dict__.pop(name, None)
        other.depth = checked_depth(depth)
        if other.depth < len(self.transient) or self.constant is None:
            other.transient, other.constant = self.layers.stages(other.depth)
        # a ladder composes one constant stage
        if other.constant is not self.constant:
            other._ladder = []
        return other

    @property
    def _repeats(self) -> int:
        return self.depth - len(self.transient) if self.constant is not None else 0

    @cached_property
    def _blocks(self) -> list[LayerTables]:
        """Blocks of _BLOCK·2^j layers that are needed for the bits of the repeat count."""
        count = self._repeats // _BLOCK
        if count == 0 or self.constant is None:
            return []
        if not self._ladder:
            self._ladder.append(first_block(self.constant, self.tangent, _TOLERANCE))
        while len(self._ladder) < count.bit_length():
            self._ladder.append(self._ladder[-1].doubled(_TOLERANCE))
        return [self._ladder[j] for j in range(count.bit_length()) if count >> j & 1]

    def _run(self, s: Floats) -> AngleState:
        gap, mirror = gaps(s)
        share = self.layers.first_share
        # the first bias is common to both inputs: it adds to 1 + ρ only
        gap, mirror = share * gap, share * mirror + 2.0 * (1.0 - share)
        # Θ_0 = K_0: over its diagonal it is the cosine, and the ratio of diagonals is 1
        state = AngleState(coordinates(gap, mirror), cosine_of(gap, mirror) if self.tangent else None, 0.0)
        for stage in self.transient:
            state = through(stage, state)
        if self.constant is not None:
            state = through(self.constant, state, self._repeats % _BLOCK)
            for block in self._blocks:
                state = block.apply(state)
        if self.layers.residual is not None and state.tangent is not None:  # the readout's own weights
            log_ratio = float(np.logaddexp(0.0, state.log_ratio))
            weight = math.exp(-log_ratio)
            state = AngleState(state.s, weight * -np.tanh(state.s) + (1.0 - weight) * state.tangent, log_ratio)
        return state

    def values(self, s: Floats) -> tuple[Floats, Floats | None]:
        """(NNGP, NTK) over their diagonals at s = ½ log((1 − ρ)/(1 + ρ)), layer by layer or block by block.

        Example:
            >>> import numpy as np
            >>> from isometer.theory.kernels import SphereKernel
            >>> nngp, ntk = SphereKernel("unit(relu)", 1).values(np.array([0.0]))  # orthogonal inputs
            >>> round(float(nngp[0]), 9), round(float(ntk[0]), 9)  # 1/π and 1/2π
            (0.318309886, 0.159154943)
        """
        finite = np.clip(s, -345.0, 345.0)  # e^−690, the smallest gap, is about 1e-300
        state = self._run(finite)
        same = s == -np.inf
        nngp = np.where(same, 1.0, -np.tanh(state.s))
        return nngp, None if state.tangent is None else np.where(same, 1.0, state.tangent)

    @cached_property
    def _table(self) -> Table:
        def function(s: Floats) -> Floats:
            nngp, tangent = self.values(s)
            return nngp[None] if tangent is None else np.stack([nngp, tangent])

        return Table.fit(function, tolerance=1e-12, width=0.25)

    def tabulated(self, s: Floats, kind: str | None = None) -> Floats:
        """As `values`, (channel, …), from the interpolant: what to call on n² entries.

        Example:
            >>> import numpy as np
            >>> from isometer.theory.kernels import SphereKernel
            >>> kernel, s = SphereKernel("unit(relu)", 1000), np.linspace(-20, 20, 7)
            >>> bool(np.max(np.abs(kernel.tabulated(s)[0] - kernel.values(s)[0])) < 1e-11)
            True
        """
        if kind == "ntk" and not self.tangent:
            raise self.no_tangent()
        channels = None if kind is None else [0 if kind == "nngp" else 1]
        out = self._table(s, channels)
        outside = np.abs(s) > REACH  # rare: exact duplicates, antipodes, angles below 2e-16
        if outside.any():
            both = self.values(s[outside])
            for row, channel in enumerate(range(len(out)) if channels is None else channels):
                exact = both[channel]
                assert exact is not None
                out[row][outside] = exact
        return out

    def at_cosine(self, rho: ArrayLike, kind: str = "nngp") -> Any:
        """The kernel over its diagonal at cosines.

        Example:
            >>> from isometer.theory.kernels import SphereKernel
            >>> SphereKernel("unit(relu)", 50).at_cosine([1.0], "ntk")
            array([1.])
        """
        cosine = np.asarray(rho, dtype=float)
        if not (np.abs(cosine) <= 1.0).all():
            raise IsometerError("cosines must lie in [−1, 1]; divide by the norms first")
        return self._at(coordinates(1.0 - cosine, 1.0 + cosine), kind, rho)

    def at_gap(self, gap: ArrayLike, kind: str = "nngp") -> Any:
        """The kernel over its diagonal at gaps 1 − ρ, as small as 1e-300.

        Example:
            >>> from isometer.theory.kernels import SphereKernel
            >>> round(SphereKernel("sign", 10).at_gap(1e-100), 3)
            0.307
        """
        small = np.asarray(gap, dtype=float)
        if not ((small >= 0) & (small <= 2)).all():
            raise IsometerError("a gap 1 − ρ must lie in [0, 2]; pass 1 minus a cosine")
        return self._at(coordinates(small, 2.0 - small), kind, gap)

    def _at(self, s: Floats, kind: str, like: ArrayLike) -> Any:
        if kind not in ("nngp", "ntk"):
            raise IsometerError(f"kind must be 'nngp' or 'ntk'; got {kind!r}")
        nngp, tangent = self.values(np.atleast_1d(s))
        chosen = nngp if kind == "nngp" else tangent
        if chosen is None:
            raise self.no_tangent()
        return float(chosen[0]) if np.ndim(like) == 0 else chosen

    def log_diagonal(self, kind: str = "nngp") -> float:
        """log of the kernel of an input with itself; the NTK's is log Σ_h σ̂′(1)^h for unit second moment.

        Example:
            >>> from isometer.theory.kernels import SphereKernel
            >>> SphereKernel("relu", 2).log_diagonal() / __import__("math").log(2)
            -2.0
        """
        log_p, log_ratio = math.log(self.layers.start), 0.0
        runs: list[tuple[Stage, int]] = [(stage, 1) for stage in self.transient]
        if self.constant is not None:
            runs.append((self.constant, self._repeats))
        for stage, times in runs:
            # a constant stage of a homogeneous φ still multiplies the variance, by the same factor every time
            first = stage.log_variance - log_p
            log_p = log_p + times * first if stage is self.constant else stage.log_variance
            if kind == "ntk":
                log_ratio = _log_diagonal_ratio(stage, log_ratio, times)
        if kind == "ntk" and self.layers.residual is not None:
            log_ratio = float(np.logaddexp(0.0, log_ratio))
        if kind == "ntk" and not self.has_tangent:
            raise self.no_tangent()
        return log_p + (log_ratio if kind == "ntk" else 0.0)

    def no_tangent(self) -> IsometerError:
        """Why there is no NTK."""
        return IsometerError(
            f"{self.layers.family.activation.name} jumps: its kernel has infinite slope at ρ = 1 and the NTK an "
            "infinite diagonal — pass kind='nngp', or smooth the jump"
        )


def _log_diagonal_ratio(stage: Stage, start: float, times: int) -> float:
    """log of R after R ↦ 1 − skip + growth·R, `times` times: growth^m R₀ + (1 − skip)(growth^m − 1)/(growth − 1)."""
    if times == 0:
        return start
    if not 0.0 < stage.growth < math.inf:
        return 0.0 if stage.growth == 0.0 else math.inf  # growth 0 means skip 0, and R = 1
    log_growth = math.log(stage.growth)
    if abs(log_growth) * times < 1e-9:  # growth = 1 up to rounding: Σ growth^j = m(1 + (m − 1)/2·log growth)
        log_sum = math.log(times)
    elif log_growth > 0:
        # (g^m − 1)/(g − 1) with g^{m−1} taken out, so that no power overflows
        log_sum = (times - 1) * log_growth + math.log(-math.expm1(-times * log_growth) / -math.expm1(-log_growth))
    else:
        log_sum = math.log(-math.expm1(times * log_growth) / -math.expm1(log_growth))
    return float(np.logaddexp(times * log_growth + start, stage.log_source + log_sum))


def checked_depth(depth: int) -> int:
    """A whole number from 0 to `LARGEST_DEPTH`."""
    if isinstance(depth, float | np.floating) and float(depth).is_integer():
        depth = int(depth)
    return whole_number(depth, "depth", low=0, high=LARGEST_DEPTH, fix="pass the number of hidden layers")
