"""Bands around drawn trajectories that hold for all layers and all metrics at once.

On a scale where draws are roughly normal, each draw is compared with the others, in units of their deviation at each
layer of each metric; T is its largest departure. A new draw departs by a T of the same law, whatever the dependence
between layers and metrics. Each single departure of R draws follows Student's law F with R − 2 degrees of freedom. If m
of them were independent, F(T) would have the law of the largest of m uniform numbers, and the likeliest m given the
draws' own T is `−R / Σ log F(T)`, with a relative error of 1/√R: the effective number of comparisons, taken two errors
larger. The band is where a new draw, compared with all R, stays with probability 0.95 in as many comparisons;
and that of each metric is at least so wide that it holds the share of the draws which exchangeability asks for, the
⌈0.95 (R + 1)⌉-th smallest T, since tails can be heavier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from isometer.metrics._catalogue import describe

Floats = NDArray[np.float64]
LEVEL = 0.95
"""Chance that a network of the law stays inside all its bands."""

_SMALL = 1e-12
_FLAT = 1e-9  # deviations below this are none: every draw has the same number there


@dataclass(frozen=True, eq=False)
class Band:
    """A predicted trajectory of one metric, `(layers,)` each: the mean over draws, and the band around it.

    Example:
        >>> band = Band(np.zeros(2), -np.ones(2), np.ones(2))
        >>> band.leaves(np.array([0.5, 3.0])).tolist()
        [False, True]
    """

    mean: Floats
    low: Floats
    high: Floats

    def leaves(self, measured: Floats) -> NDArray[np.bool_]:
        """Where a measured trajectory is outside; nowhere where either is not defined.

        Example:
            >>> band = Band(np.zeros(2), np.full(2, -1.0), np.full(2, 1.0))
            >>> band.leaves(np.array([0.5, 2.0])).tolist()
            [False, True]
        """
        with np.errstate(invalid="ignore"):
            return np.asarray((measured < self.low) | (measured > self.high))


_Pair = tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]


def _exp(x: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(x, -745.0, 709.0)))  # logarithms of the smallest and largest double


def _positive(floor: float) -> _Pair:
    return (lambda x: np.log(np.maximum(x, floor))), _exp


def _share(floor: float) -> _Pair:
    """Of numbers from 0 to 1, logits."""

    def forward(x: Floats) -> Floats:
        return np.asarray(np.log(np.maximum(x, floor)) - np.log(np.maximum(1.0 - x, floor)))

    return forward, lambda x: 1.0 / (1.0 + _exp(-x))


def _fisher(floor: float) -> _Pair:
    """Of cosines, Fisher's z: near 1 it is the logarithm of what is left."""
    return (lambda x: np.arctanh(np.clip(x, floor - 1.0, 1.0 - floor))), np.tanh


def _above_one(floor: float) -> _Pair:
    return (lambda x: np.log(np.maximum(x - 1.0, floor))), (lambda x: 1.0 + _exp(x))


def _gap(floor: float, samples: int) -> _Pair:
    """The orthogonality gap is √(1/r − 1/n), r the stable rank: minus the scale of r, so that it increases."""
    forward, back = _above_one(floor)
    least = 1.0 / samples
    return (
        (lambda x: -forward(1.0 / (x * x + least))),
        (lambda x: np.sqrt(np.maximum(1.0 / back(-x) - least, 0.0))),
    )


def _scale(name: str, samples: int, resolution: float) -> _Pair:
    """A scale on which draws are roughly normal, and the way back; what is not resolved is all the same on it."""
    floor = max(resolution, 1e-15)
    if name in ("token_cosine", "sample_cosine"):
        return _fisher(floor)
    if not _from_zero(name):
        return (lambda x: x), (lambda x: x)
    if name == "mean_abs_cosine":
        return _share(floor)
    if name in ("stable_rank", "effective_rank"):
        return _above_one(floor)
    if name == "orthogonality_gap":
        return _gap(floor, samples)
    return _positive(_angle(floor) if name == "mean_angle_deg" else floor if name == "isometry_gap" else 1e-300)


def _from_zero(name: str) -> bool:
    """Whether a quantity is never negative."""
    lower = describe(name).lower
    return lower is not None and lower >= 0


def _angle(resolution: float) -> float:
    """An angle is the root of a difference of inner products."""
    return math.degrees(math.sqrt(2 * resolution))


def bands(draws: Mapping[str, Floats], *, samples: int, resolution: float, level: float = LEVEL) -> dict[str, Band]:
    """Bands of several metrics of the same draws.

    Args:
        draws: `(runs, layers)` per metric, at least 4 runs; the metric decides on the scale.
        samples: n of the Gram matrices behind the numbers.
        resolution: relative precision of what will be compared; bands are wider by it.
        level: chance to stay inside all bands.

    Returns:
        The bands. Where a draw is not finite there is no band (nan), and the mean is that of the numbers as they are.

    Example:
        >>> draws = np.exp(np.random.default_rng(0).standard_normal((32, 1)) * 0.1)
        >>> found = bands({"rms": draws}, samples=1, resolution=0.0)["rms"]
        >>> bool(0.7 < found.low[0] < 0.9 < 1.1 < found.high[0] < 1.4)
        True
    """
    scales = {name: _scale(name, samples, resolution) for name in draws}
    scaled: dict[str, Floats] = {}
    moving: dict[str, NDArray[np.bool_]] = {}
    for name, values in draws.items():
        finite = np.isfinite(values).all(0)
        # 2 stands in where there is no band: every scale takes it.
        scaled[name] = scales[name][0](np.where(finite, values, 2.0))
        spread = scaled[name].std(0, ddof=1)
        moving[name] = finite & (spread > _FLAT * (1.0 + np.abs(scaled[name].mean(0))))
    departures = {name: _departures(scaled[name][:, moving[name]]) for name in draws}
    student = _student(np.max(list(departures.values()), axis=0), level)
    found = {}
    for name, own in departures.items():
        ranked = float(np.sort(own)[min(len(own), math.ceil((len(own) + 1) * level)) - 1])
        factor = max(student, ranked)
        found[name] = _band(name, draws[name], scales[name][1], scaled[name], moving[name], factor, resolution)
    return found


def _band(
    name: str,
    draws: Floats,
    back: Callable[[Floats], Floats],
    scaled: Floats,
    moving: NDArray[np.bool_],
    factor: float,
    resolution: float,
) -> Band:
    finite = np.isfinite(draws).all(0)
    with np.errstate(invalid="ignore"):
        average = np.where(np.isnan(draws).any(0), math.nan, draws.mean(0))
    mean, deviation = scaled.mean(0), scaled.std(0, ddof=1)
    # A new draw minus the mean of R has variance σ² (1 + 1/R).
    half = factor * deviation * math.sqrt(1 + 1 / len(draws))
    slack = _slack(name, average, resolution)
    low = np.where(finite, np.where(moving, back(mean - half), average) - slack, math.nan)
    high = np.where(finite, np.where(moving, back(mean + half), average) + slack, math.nan)
    if name == "mean_angle_deg":
        high = np.minimum(high, 180.0)
    return Band(average, np.maximum(low, 0.0) if _from_zero(name) else low, high)


def _departures(scaled: Floats) -> Floats:
    """T of each draw: its largest departure from the others, in their deviations."""
    runs, numbers = scaled.shape
    if not numbers:
        return np.zeros(runs)
    errors = scaled - scaled.mean(0)
    squares = (errors**2).sum(0)
    # each draw against the mean and deviation of the others, in closed form
    others = np.maximum(squares - errors**2 * runs / (runs - 1), 1e-4 * squares) / (runs - 2)
    # x_i minus the mean of the others is e_i R/(R − 1), with variance σ² R/(R − 1).
    return np.asarray(np.abs(errors / np.sqrt(others * (1 - 1 / runs))).max(1))


def _student(largest: Floats, level: float) -> float:
    """How many deviations a new draw stays within everywhere, with probability `level`."""
    runs = len(largest)
    tails = -np.log1p(-2.0 * special.stdtr(runs - 2, -largest))  # −log F(T)
    comparisons = max(1.0, (runs + 2 * math.sqrt(runs)) / max(_SMALL, float(tails.sum())))
    # 1 − level^(1/m) over both tails; expm1 keeps its digits when m is large.
    return -float(special.stdtrit(runs - 1, -math.expm1(math.log(level) / comparisons) / 2))


def _slack(name: str, average: Floats, resolution: float) -> Floats:
    if name == "mean_angle_deg":
        return np.full_like(average, _angle(resolution))
    # A relative error of the quantity is an absolute one of its logarithm.
    if describe(name).scaling == "logarithmic":
        return np.full_like(average, resolution)
    if name == "rms":
        return np.asarray(resolution * average)
    return np.asarray(resolution * (1.0 + np.abs(np.where(np.isfinite(average), average, 0.0))))
