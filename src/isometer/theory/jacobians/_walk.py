"""From a network spec to the free factors of its Jacobian, with the mean square of the signal at every step.

Why the factors are free: between two diagonal matrices of slopes stands a matrix of independent Gaussian or Haar
weights. A skip removes it. In s + A the branch A is R-diagonal through its own weights, so |s + A|² is a free
convolution, exactly so for branches that begin and end with weights. A branch that ends with an activation shows its
slopes to the next block. Those are independent of the next ones but commute with them instead of being free: moments
feel that from the eighth power of the branch on, simulation does not, and the law says so. A branch that begins with
one shows slopes of the trunk's own signal, which the next block reads again: four blocks of residual(act > dense) have
a second moment 13 % above that of free blocks, and theory stops, as it does for an activation behind a skip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from isometer.spec import Act, Bias, Dense, Join, Norm, Residual, Scaling, Spec, Step
from isometer.spec._activation import resolved
from isometer.theory.jacobians._factors import Factor, FreePoisson, FreeProduct, Projection, ScaledIsometry, SkipSum
from isometer.theory.jacobians._slopes import slope_law
from isometer.theory.kernels._length_map import SignalFamily
from isometer.theory.networks._activation_moments import ActivationMoments
from isometer.theory.networks._state import NotCovered
from isometer.theory.networks._weights import weight_variance

_SAME = 1e-13  # relative difference of variances that share a law of slopes
_SIMULATE = "simulate it: isometer.simulate.jacobian_spectrum"
_INDEPENDENT = ("gaussian", "uniform", "he", "xavier-normal", "xavier-uniform", "pytorch")


@dataclass(frozen=True)
class Signal:
    """One feature at a place: mean, mean square, mean product over two samples of the batch; whether it is Gaussian."""

    width: int
    square: float
    cross: float
    mean: float = 0.0
    gaussian: bool = True

    def scaled(self, factor: float) -> Signal:
        square, cross = factor**2 * self.square, factor**2 * self.cross
        return replace(self, square=square, cross=cross, mean=factor * self.mean)


@dataclass
class Walk:
    """Factors so far, and what stands open on the trunk: slopes that no weights separate from what follows.

    Attributes:
        signal: where the walk is.
        parts: factors, ratios of widths, times.
        entry: the width that ratios refer to.
        exposed: "none", "fresh" (slopes behind weights of their own), or "read" (slopes of the trunk's own signal).
        exact: every pair of factors met so far is free in the limit.
        lost: directions that norms take away, in units of a sample's features.
        batch_lost: share of directions that batch norm takes away, times the batch size.
    """

    signal: Signal
    entry: int
    parts: list[tuple[Factor, float, int]] = field(default_factory=list)
    exposed: str = "none"
    exact: bool = True
    lost: float = 0.0
    batch_lost: int = 0
    laws: dict[tuple[str, float], tuple[float, Factor]] = field(default_factory=dict)

    @property
    def product(self) -> FreeProduct:
        return FreeProduct(tuple(self.parts), self.signal.width / self.entry)

    def take(self, steps: Sequence[Step]) -> None:
        """Follow executed steps."""
        for step in steps:
            match step:
                case Dense():
                    self._dense(step)
                case Bias():
                    own = step.variance
                    now = self.signal
                    self.signal = replace(now, square=now.square + own, cross=now.cross + own)
                case Scaling():
                    self._scale(float(step.factor))  # type: ignore[arg-type]
                case Act():
                    self._activate(step)
                case Norm():
                    self._normalise(step)
                case Residual():
                    self._residual(step)
                case Join():
                    raise NotCovered(f"join by {step.by} in Jacobian spectra", "branches share their input", _SIMULATE)
                case _:
                    name = type(step).__name__.lower()
                    raise NotCovered(f"{name} in Jacobian spectra", "its Jacobian has no such limit here", _SIMULATE)

    def _add(self, factor: Factor, ratio: float) -> None:
        if self.parts and self.parts[-1][0] is factor and self.parts[-1][1] == ratio:
            self.parts[-1] = (factor, ratio, self.parts[-1][2] + 1)
            return
        for at, (one, own, times) in enumerate(self.parts):
            if own == ratio and (one is factor or (one == factor and isinstance(one, FreePoisson | ScaledIsometry))):
                self.parts[at] = (one, own, times + 1)
                return
        self.parts.append((factor, ratio, 1))

    def _scale(self, factor: float) -> None:
        if factor == 0.0:
            raise NotCovered("a factor of 0 in Jacobian spectra", "the Jacobian is zero", "pass another factor")
        self.signal = self.signal.scaled(factor)
        self._add(ScaledIsometry(2 * math.log(abs(factor))), 1.0)

    def _dense(self, step: Dense) -> None:
        fan_in, fan_out = self.signal.width, step.width
        assert fan_out is not None
        gain = float(step.gain)  # type: ignore[arg-type]
        if step.weights not in (*_INDEPENDENT, "orthogonal", "orthogonalized-xavier"):
            reason = "its entries have a mean, which adds one large singular value a layer"
            raise NotCovered(f"weights of the law {step.weights} in Jacobian spectra", reason, "use gaussian ones")
        if gain == 0.0:
            raise NotCovered("weights of gain 0 in Jacobian spectra", "the Jacobian is zero", "pass another gain")
        variance = weight_variance(step.weights, fan_in, fan_out, gain, step.weight_scaling)
        ratio, rate = fan_in / self.entry, fan_out / fan_in
        if step.weights in _INDEPENDENT:
            self._add(FreePoisson(math.log(variance * rate), rate), ratio)
        elif rate >= 1.0:
            self._add(ScaledIsometry(math.log(variance * rate)), ratio)
        else:
            self._add(Projection(math.log(variance), rate), ratio)
        now = self.signal
        self.signal = Signal(fan_out, variance * now.square, variance * now.cross)
        self.exposed = "none"

    def _activate(self, step: Act) -> None:
        now = self.signal
        if not now.gaussian or now.mean != 0.0:
            reason = "what it reads is not Gaussian: no weights stand before it"
            raise NotCovered(f"{step.activation} in Jacobian spectra at this place", reason, "put weights before it")
        self._read(step.activation)
        gain = float(step.gain)  # type: ignore[arg-type]
        phi = resolved(step.activation)
        self._add(self._law(step.activation, gain, now.square), now.width / self.entry)
        now = now.scaled(gain)
        family = SignalFamily(phi)
        square = family.second_moment(now.square)
        mean = phi.gain(math.sqrt(now.square)).mean if not phi.is_odd else 0.0
        self.signal = Signal(now.width, square, _cross(family, now, square, mean), mean, gaussian=False)

    def _read(self, name: str) -> None:
        """Slopes of the trunk's signal: once between two matrices of weights."""
        if self.exposed == "read":
            reason = "its slopes depend on those of the activation before it, through the skip"
            fix = f"begin and end branches with weights, or {_SIMULATE}"
            raise NotCovered(f"{name} after a skip in Jacobian spectra", reason, fix)
        self.exact = self.exact and self.exposed == "none"
        self.exposed = "read"

    def _law(self, text: str, gain: float, square: float) -> Factor:
        """φ(αx) has slopes α φ′(αx); variances that have settled share one law."""
        known = self.laws.get((text, gain))
        if known is not None and abs(known[0] - square) <= _SAME * square:
            return known[1]
        phi = resolved(text)
        homogeneous = SignalFamily(phi).homogeneous
        if known is not None and homogeneous:
            return known[1]
        law = slope_law(phi, 1.0 if homogeneous else gain**2 * square)
        if gain != 1.0:
            law = replace(law, log_mean=law.log_mean + 2 * math.log(abs(gain)))
        self.laws[text, gain] = (square, law)
        return law

    def _normalise(self, step: Norm) -> None:
        now = self.signal
        if step.shift != 0.0:
            raise NotCovered("a norm with a shift in Jacobian spectra", "features get a mean", "drop the shift")
        if step.over == "batch":
            self._batch_norm(step)
            return
        centred = now.square - now.mean**2
        size = now.square if step.divisor == "rms" else centred
        factor = _factor(step, size, now.width)
        keep = centred if step.recenter else now.square
        cross = now.cross - now.mean**2 if step.recenter else now.cross
        mean = 0.0 if step.recenter else now.mean
        self.signal = replace(now, square=keep, cross=cross, mean=mean).scaled(factor)
        self._add(ScaledIsometry(2 * math.log(factor)), 1.0)
        self.lost += step.groups * ((1 if step.recenter else 0) + (1 if step.rescale else 0)) / now.width

    def _batch_norm(self, step: Norm) -> None:
        """A large batch: every feature less its mean over the batch, over its deviation, √(square − cross)."""
        now = self.signal
        if step.whiten:
            raise NotCovered("whitening in Jacobian spectra", "it mixes all features", _SIMULATE)
        if not step.recenter and now.cross != 0.0:
            reason = "samples have a part in common, so features are divided by different numbers"
            raise NotCovered("batch norm without recentring in Jacobian spectra", reason, "recentre, or simulate it")
        if not now.gaussian:
            reason = "features differ in their deviation over the batch"
            raise NotCovered("batch norm after an activation in Jacobian spectra", reason, "put it before")
        if step.size == "length":
            reason = "it divides by the root of the batch size, which has no limit"
            raise NotCovered("batch norm to length 1 in Jacobian spectra", reason, "use mean square 1")
        own = now.square - now.cross
        if not own > 1e-12 * now.square:
            raise NotCovered(
                "batch norm of equal samples in Jacobian spectra",
                "they have no deviation",
                "pass a cosine below 1",
            )
        factor = _factor(step, own, now.width)
        self.signal = replace(now, square=own, cross=0.0, mean=0.0).scaled(factor)
        self._add(ScaledIsometry(2 * math.log(factor)), 1.0)
        self.batch_lost += (1 if step.recenter else 0) + (1 if step.rescale else 0)

    def _residual(self, step: Residual) -> None:
        scale, skip = float(step.scale), float(step.skip)  # type: ignore[arg-type]
        if math.isinf(scale):
            self.take(step.branch)
            return
        if scale == 0.0 or skip == 0.0:
            if skip:
                self._scale(skip)
            else:
                self.take((*step.branch, Scaling(scale)))
            return
        first, last = _ends(step.branch)
        if not isinstance(first, Dense | Act) or not isinstance(last, Dense | Act):
            raise NotCovered("this branch in Jacobian spectra", "no weights separate it from its skip", _SIMULATE)
        branch = Walk(self.signal, self.signal.width, laws=self.laws)
        branch.take((*step.branch, Scaling(scale)))
        self.exact = self.exact and branch.exact
        if isinstance(first, Act):
            self._read(first.activation)
        elif isinstance(last, Act):
            self.exact = self.exact and self.exposed == "none"
            self.exposed = "fresh" if self.exposed == "none" else self.exposed
        self._add(self._sum(abs(skip), branch.product), self.signal.width / self.entry)
        self.lost += branch.lost
        self.batch_lost += branch.batch_lost
        a, b = self.signal.scaled(skip), branch.signal
        twice = 2 * a.mean * b.mean
        self.signal = Signal(
            a.width,
            a.square + b.square + twice,
            a.cross + b.cross + twice,
            a.mean + b.mean,
            a.gaussian and b.gaussian,
        )

    def _sum(self, skip: float, branch: FreeProduct) -> Factor:
        """One value for equal blocks, so that they are solved once."""
        for one, _, _ in self.parts:
            if isinstance(one, SkipSum) and one.skip == skip and one.branch.parts == branch.parts:
                return one
        return SkipSum(skip, branch)


def _factor(step: Norm, square: float, width: int) -> float:
    if not step.rescale:
        return step.scale
    if not square + step.eps > 0:
        raise NotCovered("a norm of a constant signal in Jacobian spectra", "it has no size", "put weights before it")
    return abs(step.scale) / math.sqrt(square + step.eps) / (math.sqrt(width) if step.size == "length" else 1.0)


def _ends(branch: Sequence[Step]) -> tuple[Step | None, Step | None]:
    """The first and the last step that is a matrix of its own; none without weights."""
    matrices = [step for step in branch if isinstance(step, Dense | Act | Residual)]
    return (matrices[0], matrices[-1]) if any(isinstance(one, Dense) for one in matrices) else (None, None)


def _cross(family: SignalFamily, signal: Signal, square: float, mean: float) -> float:
    """E φ(u)φ(v) over two samples."""
    if signal.cross == 0.0:
        return mean**2
    if signal.cross == signal.square:
        return square
    covariance = np.array([[signal.square, signal.cross], [signal.cross, signal.square]])
    found = ActivationMoments(family).activated(covariance)
    if found is None:
        raise NotCovered("this activation in Jacobian spectra", "its mean product has no fast formula", _SIMULATE)
    return float(found[0][0, 1])


def factors_of(spec: Spec, *, mean_square: float, cosine: float) -> Walk:
    """Walk through a spec.

    Args:
        spec: the network.
        mean_square: mean square of the input's features, which are Gaussian.
        cosine: between two samples of the batch; batch norm needs it.
    """
    width = spec.shape.width
    if spec.shape.axes:
        raise NotCovered("positions in Jacobian spectra", "weights are shared between them", _SIMULATE)
    walk = Walk(Signal(width, mean_square, cosine * mean_square), width)
    for steps, _ in spec.executed_layers():
        walk.take(steps)
    return walk
