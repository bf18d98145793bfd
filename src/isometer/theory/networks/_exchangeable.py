"""Two numbers per layer: the recursion of lengths and cosines for samples of one length and one cosine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.checks import whole_number
from isometer.errors import IsometerError
from isometer.spec import Spec
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._expectations import Expectations
from isometer.theory.networks._interpreter import Passage, passage
from isometer.theory.networks._layout import Layout
from isometer.theory.networks._state import FeatureState, gaussian
from isometer.theory.networks._weights import Run

Floats = NDArray[np.float64]


class ExchangeablePath(NamedTuple):
    """Lengths and cosines by layer, the input first.

    `variance`: mean square of a feature. `gap`: 1 − cosine, with relative accuracy where it is small. `diverged`: the
    layer from which on numbers are nan, −1 if none.
    """

    variance: Floats  # (layer, start)
    gap: Floats  # (layer, start)
    diverged: int

    @property
    def cosine(self) -> Floats:
        """1 − gap."""
        return np.asarray(1.0 - self.gap)


def exchangeable_path(spec: Spec, gaps: ArrayLike, variances: ArrayLike = 1.0, *, samples: int = 2) -> ExchangeablePath:
    """How samples of one length and one cosine fare in a network of infinite width without positions.

    Args:
        spec: the network; the features of its input count as Gaussian.
        gaps: 1 − cosine of the input, one number per recursion.
        variances: mean squares of the input, which are broadcast against `gaps`.
        samples: samples in the batch, which matters to norms over samples.

    Returns:
        One column per starting value; all of them run side by side.

    Example:
        >>> spec = Spec("input(8) > repeat(dense(gain=2**0.5) > act('relu'), 3)")
        >>> exchangeable_path(spec, [1.0, 1e-12]).cosine[1].round(6).tolist()  # κ(0) = 1/π
        [0.31831, 1.0]
        >>> float(exchangeable_path(spec, [1e-12]).gap[1, 0].round(19))  # as accurate as the input's
        9.999997e-13
    """
    if spec.shape.axes:
        raise IsometerError(
            f"the network has {spec.shape.positions} positions; expected none — pass a batch to predict(spec, batch)"
        )
    count = whole_number(samples, "samples", high=10_000, fix="pass the size of the batch")
    gap, variance = np.broadcast_arrays(np.asarray(gaps, dtype=float), np.asarray(variances, dtype=float))
    gap, variance = np.atleast_1d(gap).ravel(), np.atleast_1d(variance).ravel()
    highest = 1.0 + 1.0 / max(count - 1, 1)
    if not ((gap >= 0.0) & (gap <= highest + 1e-12)).all():
        raise IsometerError(
            f"gaps lie in [{gap.min():.4g}, {gap.max():.4g}]; expected 1 − cosine of {count} "
            f"samples, from 0 to {highest:.4g}"
        )
    if not ((variance > 0.0) & np.isfinite(variance)).all():
        raise IsometerError("variances must be positive numbers; pass the mean square of a feature")
    matrices = gap[:, None, None] * (1.0 - np.eye(count))
    start = gaussian(Covariance(np.repeat(variance[:, None], count, axis=1), matrices), None)
    layers = list(spec.executed_layers())
    state = FeatureState.of(start, Layout(count, copies=len(gap)), spec.shape.width)
    return _read(passage(layers, state, Run(Expectations())), len(layers))


def _read(found: Passage, layers: int) -> ExchangeablePath:
    copies = found.states[0].layout.copies
    variance, gap = np.full((2, layers + 1, copies), np.nan)
    for layer, state in enumerate(found.states):
        second = state.second()
        variance[layer] = second.variances[:, 0] * np.exp(2 * state.log_scale)
        gap[layer] = second.gaps[:, 0, -1]
    return ExchangeablePath(variance, gap, found.diverged)
