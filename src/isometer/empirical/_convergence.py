"""How kernels of finite networks approach the kernel at infinite width.

Over draws of the weights a kernel at width d has a mean and a spread. The spread of one draw shrinks like 1/√d, the
distance of the mean from the limit, the bias, like 1/d. The squared distance of an average over R draws contains 1/R of
the variance of one; that is subtracted. If the bias is c/d, the means at d and at 2d are c/2d apart: that follows the
same power and needs no limit, which theory knows to a few digits only where it samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.checks import whole_number
from isometer.empirical._many_draws import kernels_of_draws
from isometer.empirical._result import Kind
from isometer.errors import IsometerError
from isometer.spec import Spec
from isometer.theory.chains import kernels_of

Floats = NDArray[np.float64]
_BLOCKS = 20  # of draws, each left out once, whose spread tells the error


@dataclass(frozen=True, eq=False)
class WidthConvergence:
    """Distances of finite kernels from the limit, over its norm.

    Attributes:
        kind: "ntk" or "nngp".
        widths: ascending.
        draws: draws of the weights at each width.
        single: root mean square distance of a single draw.
        single_error: its standard error.
        bias: distance of the mean over all draws there could be; 0 where chance hides it.
        bias_error: its standard error.
        steps: distance between the means over all draws at each width and the next; 0 where chance hides it.
        steps_error: its standard error.
        limit_error: error of the theory, relative to the largest diagonal entry.
    """

    kind: Kind
    widths: tuple[int, ...]
    draws: int
    single: Floats
    single_error: Floats
    bias: Floats
    bias_error: Floats
    steps: Floats
    steps_error: Floats
    limit_error: float

    @property
    def single_slope(self) -> tuple[float, float]:
        """The power of the width that `single` follows, and its standard error; −1/2 is expected."""
        return _slope(self.widths, self.single, self.single_error)

    @property
    def bias_slope(self) -> tuple[float, float]:
        """The power of the width that `bias` follows, and its standard error; −1 is expected."""
        return _slope(self.widths, self.bias, self.bias_error)

    @property
    def steps_slope(self) -> tuple[float, float]:
        """The power of the width that `steps` follows, and its standard error; −1 for widths of a constant ratio."""
        return _slope(self.widths[:-1], self.steps, self.steps_error)


def width_convergence(
    network: Callable[[int], Spec | str],
    batch: ArrayLike,
    *,
    kind: Kind = "ntk",
    widths: Sequence[int] = (8, 16, 32, 64),
    draws: int = 100,
    seed: int = 0,
) -> WidthConvergence:
    """Draw networks of several widths and compare their kernels with the one at infinite width.

    Args:
        network: the spec for a width, with Gaussian weights and a linear readout at its end.
        batch: (n, …) as the spec's input has it.
        kind: "ntk", or "nngp" of what the readout reads.
        widths: at least two.
        draws: at each width, at least 20.
        seed: seed of the draws.

    Raises:
        IsometerError: the theory has no such kernel, weights are not Gaussian, or there are too few widths or draws.

    Example:
        >>> import numpy as np
        >>> found = width_convergence(lambda d: f"input(2) > dense({d}) > act('relu') > dense(1)", np.eye(2), draws=20,
        ...                           widths=(4, 64))
        >>> bool(2.0 < found.single[0] / found.single[1] < 8.0)  # 16 times as wide, 4 times as near
        True
    """
    draws = whole_number(draws, "draws", low=_BLOCKS)
    several = tuple(sorted(whole_number(one, "widths") for one in widths))
    if len(set(several)) < 2:
        raise IsometerError(
            f"widths are {widths!r}; expected at least two that differ — pass (8, 16, 32, 64), for example"
        )
    inputs = np.asarray(batch, dtype=np.float64)
    theory = kernels_of(_spec(network(several[-1])), inputs, kinds=(kind,)).matrices[kind]
    limit = theory.matrix * float(np.exp(theory.log_diagonal.max()))
    rows, steps = [], []
    before: Floats | None = None
    for place, width in enumerate(several):
        own = int(np.random.SeedSequence([seed, place]).generate_state(1)[0])
        kernels = np.concatenate(list(kernels_of_draws(_spec(network(width)), inputs, kind, draws, own)))
        off = (kernels - limit) / np.linalg.norm(limit)
        rows.append(_distances(off))
        if before is not None:
            steps.append(_distances(before - off)[2:])  # independent draws: their differences have both variances
        before = off
    single, single_error, bias, bias_error = np.array(rows).T
    apart, apart_error = np.array(steps).T
    return WidthConvergence(
        kind, several, draws, single, single_error, bias, bias_error, apart, apart_error, float(theory.error)
    )


def _spec(given: Spec | str) -> Spec:
    return Spec(given) if isinstance(given, str) else given


def _distances(off: Floats) -> tuple[float, float, float, float]:
    """Of deviations (draws, n, n): root mean square and bias, with standard errors by leaving out blocks of draws."""
    blocks = np.array_split(np.arange(len(off)), _BLOCKS)
    whole = _squares(off)
    parts = np.array([_squares(np.delete(off, block, axis=0)) for block in blocks])
    spread = np.sqrt((_BLOCKS - 1) / _BLOCKS * ((parts - parts.mean(0)) ** 2).sum(0))
    single = math.sqrt(whole[0])
    bias = math.sqrt(max(whole[1], 0.0))
    # From squares to roots; where the bias is not above its own error, that error is all there is to say.
    bias_error = spread[1] / (2.0 * bias) if whole[1] > spread[1] else math.sqrt(spread[1])
    return single, spread[0] / (2.0 * single), bias, bias_error


def _squares(off: Floats) -> Floats:
    mean_square = float((off**2).sum((1, 2)).mean())
    mean = off.mean(0)
    variance = float(((off - mean) ** 2).sum((1, 2)).sum() / (len(off) - 1))
    return np.array([mean_square, float((mean**2).sum()) - variance / len(off)])


def _slope(widths: Sequence[int], values: Floats, errors: Floats) -> tuple[float, float]:
    """A weighted line through logarithms."""
    if not (values > 0).all():
        return math.nan, math.inf
    x, y = np.log(np.asarray(widths, dtype=np.float64)), np.log(values)
    weight = (values / errors) ** 2
    centre = float((weight * x).sum() / weight.sum())
    spread = float((weight * (x - centre) ** 2).sum())
    return float((weight * (x - centre) * y).sum() / spread), 1.0 / math.sqrt(spread)
