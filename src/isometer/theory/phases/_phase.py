"""Order and chaos: where variances and cosines go for weights of variance σ_w² and biases of variance σ_b².

The length map has a fixed point q*; there the cosine map has slope χ = σ_w² E φ′(√q* X)² at one. Below one nearby
inputs are drawn together (ordered), above one apart (chaotic); the curve χ = 1 is the edge of chaos.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

from isometer._display import Drawn
from isometer.activations import Activation
from isometer.errors import ActivationError, IsometerError
from isometer.serialize import json_data
from isometer.theory.kernels._length_map import UNIT, LengthMap, SignalFamily, checked_variance, scan

Floats = NDArray[np.float64]
Phase = Literal["ordered", "critical", "chaotic", "unbounded"]
CRITICAL = 1e-9
_ROUNDING = 1e-12  # a cosine below this is the rounding of a zero
"""|χ − 1| below this is the edge of chaos."""


@dataclass(frozen=True)
class PhasePoint:
    """What depth does at one (σ_w², σ_b²).

    Example:
        >>> from isometer.theory.phases import phase_point
        >>> point = phase_point("tanh", 2.0, 0.1)
        >>> point.phase, round(point.cosine, 4)
        ('chaotic', 0.988)
    """

    activation: str
    weight_variance: float
    bias_variance: float
    variance: float  # q*, where the variance of pre-activations goes; 0 dies, inf diverges
    chi: float  # χ = σ_w² E φ'(√q* X)²
    phase: Phase
    cosine: float | None  # c*, where cosines go; None when they are kept (a linear layer) or have no limit
    length_scale: float  # layers over which |q − q*| falls by e
    correlation_scale: float  # layers over which |c − c*| falls by e; inf at the edge

    @property
    def verdict(self) -> str:
        """One sentence.

        Example:
            >>> from isometer.theory.phases import phase_point
            >>> phase_point("relu", 2.0, 0.0).verdict
            'At the edge of chaos: cosines change slower than exponentially, gradients keep their size.'
        """
        return verdict(self.phase, self.variance, self.chi, self.cosine, self.correlation_scale)


def verdict(phase: Phase, variance: float, chi: float, cosine: float | None, depth_scale: float) -> str:
    """One sentence on what happens at great depth.

    Example:
        >>> verdict("unbounded", math.inf, 3.0, None, math.inf)
        'The variance grows without bound: signals overflow after finitely many layers.'
    """
    if phase == "unbounded":
        return "The variance grows without bound: signals overflow after finitely many layers."
    if variance == 0.0:
        return "Signals die out: the variance goes to zero layer by layer."
    if phase == "critical":
        return "At the edge of chaos: cosines change slower than exponentially, gradients keep their size."
    scale = "within a layer" if depth_scale < 1 else f"within about {depth_scale:.3g} layers"
    if phase == "ordered":
        shrinkage = f"squared gradients shrink by ×{chi:.4g} per layer"
        return f"Ordered: all inputs become alike {scale} (rank collapse), and {shrinkage}."
    reached = 0.0 if cosine is None or abs(cosine) < _ROUNDING else cosine
    growth = "diverge" if math.isinf(chi) else f"grow by ×{chi:.4g} per layer"
    return f"Chaotic: nearby inputs separate to cosine {reached:.4g} {scale}, and squared gradients {growth}."


def phase_point(
    source: str | Activation | SignalFamily | Any,
    weight_variance: float,
    bias_variance: float = 0.0,
    *,
    mean_square: float = 1.0,
) -> PhasePoint:
    """Fixed points, χ, phase and depth scales at one point of the plane, for inputs of one mean square.

    Example:
        >>> from isometer.theory.phases import phase_point
        >>> phase_point("erf", 0.5, 0.1).phase
        'ordered'
    """
    lengths = LengthMap(source, weight_variance=weight_variance, bias_variance=bias_variance)
    family = lengths.family
    if lengths.weight_variance == 0.0:
        raise IsometerError("a weight variance of 0 passes no signal; give a positive one")
    sigma, shift = lengths.weight_variance, lengths.bias_variance
    start = sigma * checked_variance(mean_square, "the mean square of the input") + shift  # first pre-activations
    variance, length_slope = _destination(lengths, start)
    name = family.activation.name
    if math.isinf(variance):
        chi = sigma * family.slope_second(1.0) if family.homogeneous else math.inf
        return PhasePoint(name, sigma, shift, math.inf, chi, "unbounded", None, math.inf, math.inf)
    chi = sigma * family.slope_second(variance)
    length_scale = _scale(length_slope)
    if variance == 0.0:
        phase: Phase = "critical" if abs(chi - 1.0) <= CRITICAL else "ordered"
        return PhasePoint(name, sigma, shift, 0.0, chi, phase, None, length_scale, math.inf)
    if abs(chi - 1.0) <= CRITICAL:
        linear = family.activation.is_affine
        kept = None if linear else _limit(family, variance, sigma, shift)[0]
        return PhasePoint(name, sigma, shift, variance, chi, "critical", kept, length_scale, math.inf)
    cosine, rate = (1.0, chi) if chi < 1.0 else _limit(family, variance, sigma, shift)
    return PhasePoint(
        name, sigma, shift, variance, chi, "ordered" if chi < 1.0 else "chaotic", cosine, length_scale, _scale(rate)
    )


def phase_slope(
    source: str | Activation | SignalFamily | Any,
    weight_variance: float,
    bias_variance: float = 0.0,
    *,
    mean_square: float = 1.0,
) -> float:
    """χ of `phase_point` alone: inf where the variance diverges, unless φ is homogeneous.

    Example:
        >>> from isometer.theory.phases._phase import phase_slope
        >>> phase_slope("relu", 2.0)
        1.0
    """
    lengths = LengthMap(source, weight_variance=weight_variance, bias_variance=bias_variance)
    family, sigma = lengths.family, lengths.weight_variance
    variance, _ = _destination(lengths, sigma * mean_square + lengths.bias_variance)
    if math.isinf(variance):
        return sigma * family.slope_second(1.0) if family.homogeneous else math.inf
    return sigma * family.slope_second(variance)


def _scale(slope: float) -> float:
    """Layers per factor e for a map of this slope."""
    size = abs(slope)
    if size <= 1e-300:
        return 0.0
    return -1.0 / math.log(size) if size < 1.0 - 1e-15 else math.inf


def _destination(lengths: LengthMap, start: float) -> tuple[float, float]:
    """(q*, slope) reached from `start`: the next fixed point in the direction of the first step."""
    if lengths.family.homogeneous and abs(lengths.weight_variance * lengths.family.activation.second_moment - 1) < UNIT:
        # a line of fixed points: every length is kept, or the bias adds up without end
        return (start, 1.0) if lengths.bias_variance == 0.0 else (math.inf, 1.0)
    points = lengths.fixed_points
    here = lengths(start)
    if abs(here - start) <= UNIT * start:
        return start, lengths.slope(start)
    up = here > start
    ahead = [p for p in (points if up else points[::-1]) if (p.variance > start) == up]
    if not ahead:
        return (math.inf, math.inf) if here > start else (0.0, 0.0)
    return ahead[0].variance, ahead[0].slope


def _limit(family: SignalFamily, variance: float, sigma: float, shift: float) -> tuple[float, float]:
    """(c*, slope there) of the cosine map at q*, attracting, in [0, 1]."""
    view = family.at(variance)
    whole = view.dual.second_moment
    share = sigma * view.second_moment / variance

    def after(gap: float) -> float:
        return share * float(view.dual.deficit(np.array(gap))) / whole

    gap = fixed_gap(after)
    if gap == 0.0:
        return 1.0, 1.0  # χ is 1 up to rounding, and so is c*
    slope = share * float(view.dual.slope_at_gap(np.array(gap))) / whole
    return 1.0 - gap, slope


def fixed_gap(after: Callable[[float], float]) -> float:
    """The attracting fixed point in [0, 1] of a map of 1 − ρ that drives nearby inputs apart; 0 where it does not.

    Example:
        >>> round(fixed_gap(lambda gap: 2.0 * gap / (1.0 + 2.0 * gap)), 12)
        0.5
    """

    def excess(log_gap: float) -> float:
        gap = math.exp(log_gap)
        return after(gap) / gap - 1.0

    if excess(0.0) >= -1e-13:  # κ(0) = 0: orthogonal inputs stay so
        return 1.0
    low = -34.0
    while excess(low) <= 0.0 and low < -1e-3:
        low /= 2
    if low >= -1e-3:
        return 0.0  # no change of sign: the slope at one is 1 up to rounding
    return math.exp(float(brentq(excess, low, 0.0, xtol=1e-14)))


@dataclass(frozen=True)
class EdgeOfChaos:
    """The curve χ = 1, parametrised by its q*: σ_w² = 1/E φ′(√q X)², σ_b² = q − σ_w² E φ(√q X)².

    Example:
        >>> from isometer.theory.phases import edge_of_chaos
        >>> edge = edge_of_chaos("tanh")
        >>> bool(edge.weight_variance[0] < 1.01), bool(edge.bias_variance[0] < 1e-3)
        (True, True)
    """

    variance: Floats
    weight_variance: Floats
    bias_variance: Floats

    def weight_at(self, bias_variance: float) -> float:
        """σ_w² of the edge at a bias variance; NaN where the curve does not pass.

        Example:
            >>> from isometer.theory.phases import edge_of_chaos
            >>> round(edge_of_chaos("relu").weight_at(0.0), 12)
            2.0
        """
        b, w = self.bias_variance, self.weight_variance
        if len(b) == 0 or not b.min() <= bias_variance <= b.max():
            return math.nan
        hit = np.flatnonzero(b == bias_variance)
        if len(hit):
            return float(w[hit[0]])
        inside = self.variance > 0
        log_q = np.log(self.variance[inside])
        k = int(np.flatnonzero((b[:-1] - bias_variance) * (b[1:] - bias_variance) < 0)[0])
        # a spline in log q needs a few points and cannot reach q = 0: a chord there
        if len(log_q) < 4 or self.variance[k] == 0.0:
            return float(np.interp(bias_variance, b[k : k + 2], w[k : k + 2]))
        across = CubicSpline(log_q, b[inside])
        at = brentq(lambda t: float(across(t)) - bias_variance, *np.log(self.variance[k : k + 2]), xtol=1e-14)
        return float(CubicSpline(log_q, w[inside])(at))


def edge_of_chaos(source: str | Activation | SignalFamily | Any) -> EdgeOfChaos:
    """The edge of chaos, exactly, without a search: every q > 0 gives the one point that has it as fixed point.

    Only points with σ_b² ≥ 0 and a stable q are kept. A homogeneous activation has the single point σ_b² = 0; one that
    jumps has none.

    Example:
        >>> from isometer.theory.phases import edge_of_chaos
        >>> edge_of_chaos("sign").variance.size
        0
    """
    family = source if isinstance(source, SignalFamily) else SignalFamily(source)
    empty = np.empty(0)
    if family.activation.jumps:
        return EdgeOfChaos(empty, empty, empty)
    if family.homogeneous:
        return EdgeOfChaos(np.ones(1), np.array([1.0 / family.slope_second(1.0)]), np.zeros(1))
    q, moments, slopes = _tabulated(family)
    weight = 1.0 / slopes
    bias = q - weight * moments
    # slope of the length map, dE φ²/dq by differences in logarithms
    gradient = weight * np.gradient(np.log(np.maximum(moments, 1e-300)), np.log(q)) * moments / q
    keep = (bias >= -1e-12 * q) & (gradient <= 1.0 + 1e-6)
    curve = [q[keep], weight[keep], np.maximum(bias[keep], 0.0)]
    start = family.slope_second(0.0)
    if family.activation(0.0) == 0.0 and 0.0 < start < math.inf and keep[0]:  # its end at q → 0
        curve = [np.concatenate([[end], values]) for end, values in zip((0.0, 1.0 / start, 0.0), curve, strict=True)]
    return EdgeOfChaos(*curve)


def _tabulated(family: SignalFamily) -> tuple[Floats, Floats, Floats]:
    """(q, E φ², E φ′²) on the scan grid where all are finite; kept with the family."""
    cached: tuple[Floats, Floats, Floats] | None = family.__dict__.get("_phase_table")
    if cached is None:
        grid, moments = scan(family)
        slopes = []
        for q in grid:
            try:
                slopes.append(family.slope_second(float(q)))
            except (ActivationError, OverflowError):
                break
        size = len(slopes)
        if size < 2:
            raise ActivationError(
                f"{family.activation.name} has no phases: E φ² or E φ′² is infinite for Gaussian signals of almost any "
                "variance — use an activation that grows more slowly and has no poles"
            )
        cached = grid[:size], moments[:size], np.array(slopes)
        family.__dict__["_phase_table"] = cached
    return cached


@dataclass(frozen=True, repr=False)
class PhaseDiagram(Drawn):
    """q* and χ over a grid of σ_w² (columns) and σ_b² (rows), with the edge of chaos.

    Example:
        >>> from isometer.theory.phases import phase_diagram
        >>> diagram = phase_diagram("tanh", points=5)
        >>> diagram.chi.shape
        (5, 5)
    """

    activation: str
    weight_variances: Floats  # (columns,)
    bias_variances: Floats  # (rows,)
    variance: Floats  # (rows, columns): q*; inf where it diverges
    chi: Floats  # (rows, columns)
    edge: EdgeOfChaos
    table: tuple[PhasePoint, ...]  # a few exact points along σ_w² at σ_b² = 0 and in the middle

    def __repr__(self) -> str:
        rows, columns = self.chi.shape
        reach = f"σ_w² up to {self.weight_variances[-1]:.4g}, σ_b² up to {self.bias_variances[-1]:.4g}"
        return f"PhaseDiagram({self.activation!r}, {columns} × {rows} points, {reach})"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON; infinities as text.

        Example:
            >>> from isometer.theory.phases import phase_diagram
            >>> sorted(phase_diagram("tanh", points=3).to_dict())[:3]
            ['activation', 'bias_variances', 'chi']
        """
        record: dict[str, Any] = json_data(
            {
                "activation": self.activation,
                "weight_variances": self.weight_variances,
                "bias_variances": self.bias_variances,
                "variance": self.variance,
                "chi": self.chi,
                "edge_of_chaos": {
                    "weight_variance": self.edge.weight_variance,
                    "bias_variance": self.edge.bias_variance,
                    "variance": self.edge.variance,
                },
                "points": [{name: getattr(point, name) for name in _POINT} for point in self.table],
            }
        )
        return record


_POINT = (  # what the table says of a point
    "weight_variance",
    "bias_variance",
    "variance",
    "chi",
    "phase",
    "cosine",
    "length_scale",
    "correlation_scale",
    "verdict",
)


def phase_diagram(
    source: str | Activation | SignalFamily | Any,
    *,
    weight_limit: float | None = None,
    bias_limit: float = 0.5,
    points: int = 61,
    mean_square: float = 1.0,
) -> PhaseDiagram:
    """q*, χ and the edge of chaos over (0, weight_limit] × [0, bias_limit], for inputs of one mean square.

    The default weight limit is four times the σ_w² of the edge at σ_b² = 0.

    Example:
        >>> from isometer.theory.phases import phase_diagram
        >>> {p.phase for p in phase_diagram("tanh", points=5).table} >= {"ordered", "chaotic"}
        True
    """
    family = source if isinstance(source, SignalFamily) else SignalFamily(source)
    if points < 2:
        raise IsometerError(f"a diagram needs at least 2 points a side; got {points}")
    edge = edge_of_chaos(family)
    if weight_limit is None:
        weight_limit = 4.0 * float(edge.weight_variance[0]) if edge.weight_variance.size else 4.0
        weight_limit = min(max(weight_limit, 0.05), 50.0)
    limit = checked_variance(weight_limit, "the weight limit")
    top = checked_variance(bias_limit, "the bias limit")
    weights, biases = np.linspace(limit / points, limit, points), np.linspace(0.0, top, points)
    # every cell reads q* off one interpolated table; only the points of `table` are solved for
    fine, moment, slope = _fine(family)
    variance, chi = np.empty((points, points)), np.empty((points, points))
    for row, shift in enumerate(biases):
        for column, sigma in enumerate(weights):
            q = _reached(fine, sigma * moment + shift - fine, sigma * mean_square + shift)
            variance[row, column] = q
            inside = min(max(q, fine[0]), fine[-1])
            chi[row, column] = sigma * float(np.interp(math.log(inside), np.log(fine), slope))
    middle = float(edge.weight_variance[0]) if edge.weight_variance.size else limit / 2
    chosen = [0.25 * limit, 0.5 * limit, 0.75 * limit, limit]
    if 0.01 * limit < middle < limit and all(abs(middle - v) > 1e-6 * limit for v in chosen):
        chosen = sorted([*chosen, middle])
    table = tuple(
        phase_point(family, sigma, shift, mean_square=mean_square) for shift in (0.0, top / 2) for sigma in chosen
    )
    return PhaseDiagram(family.activation.name, weights, biases, variance, chi, edge, table)


def _fine(family: SignalFamily) -> tuple[Floats, Floats, Floats]:
    """E φ² and E φ′² on a dense grid of variances."""
    q, moments, slopes = _tabulated(family)
    dense = np.geomspace(q[0], q[-1], 1500)
    # in logarithms powers of q are straight lines, and the moment stays positive
    moment = np.exp(CubicSpline(np.log(q), np.log(np.maximum(moments, 1e-300)))(np.log(dense)))
    finite = np.isfinite(slopes).all() and (slopes > 0).all()
    slope = np.exp(CubicSpline(np.log(q), np.log(slopes))(np.log(dense))) if finite else np.interp(dense, q, slopes)
    return dense, moment, slope


def _reached(grid: Floats, excess: Floats, start: float) -> float:
    """The first zero of the excess from `start` in the direction it points."""
    begin = int(np.clip(np.searchsorted(grid, start), 1, len(grid) - 1))
    up = excess[begin] > 0
    # at a fixed point already, or on a line of them
    if abs(excess[begin]) <= 1e-9 * start:
        return start
    if up:
        later = np.flatnonzero(excess[begin:] <= 0)
        if len(later) == 0:
            return math.inf
        k = begin + int(later[0])
        a, b = k - 1, k
    else:
        earlier = np.flatnonzero(excess[: begin + 1] >= 0)
        if len(earlier) == 0:
            return 0.0
        a, b = int(earlier[-1]), int(earlier[-1]) + 1
        b = min(b, len(grid) - 1)
    drop = excess[a] - excess[b]
    return float(grid[a] + (grid[b] - grid[a]) * (excess[a] / drop if drop else 0.0))
