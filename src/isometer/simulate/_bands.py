"""Bands by simulation: where single networks of a width are, from a stated number of draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from isometer.errors import IsometerError
from isometer.simulate._engine import checked_batch, checked_engine, simulate, sizes_of
from isometer.simulate._measure import Recorder
from isometer.simulate._network_work import network_work
from isometer.simulate._steps import check_covered
from isometer.simulate._work import Sizes, simulation_work
from isometer.spec import Spec
from isometer.trajectory import spread
from isometer.work import time_text

if TYPE_CHECKING:
    import xarray

_SEED = 0x15_0B_A4_D  # of its own, so that a simulation beside it is another sample
_DRAWS = 100
_FEWEST = 40  # draws below which the ends of 95 % say little
_SECONDS = 30.0  # that a band may take


def simulated_band(
    spec: Spec,
    batch: Any,
    *,
    metrics: Sequence[str],
    level: float = 0.95,
    at: Literal["post", "pre"] = "post",
    progress: Callable[[int, int], None] | None = None,
) -> xarray.Dataset:
    """Mean and interval of single networks, in the form of `isometer.theory.prediction.finite_width`, from draws.

    For what finite-width theory does not cover: skips, positions, large batches, gradients. 100 networks are drawn, or
    fewer, at least 40, if those would take longer than half a minute.

    Args:
        spec: the network.
        batch: the input, as in `simulate`.
        metrics: names, as in `simulate`.
        level: coverage of the interval.
        at: as in `simulate`.
        progress: called as `progress(done, total)`.

    Returns:
        `statistic` (`mean`, `low`, `high`) × `layer`; the attribute `draws` is the number of networks.

    Raises:
        IsometerError: even 40 networks would take too long, or `simulate` does not cover the network.

    Example:
        >>> import numpy as np
        >>> spec = Spec("input(8) > repeat(residual(act('relu') > dense, scale=0.5), 3)")
        >>> band = simulated_band(spec, np.eye(8)[:4], metrics=["mean_cosine"])
        >>> band.attrs["draws"], dict(band.sizes)
        (100, {'layer': 4, 'statistic': 3})
    """
    draws = _affordable(spec, batch, metrics, at)
    found = simulate(spec, batch, runs=draws, metrics=metrics, seed=_SEED, at=at, progress=progress)
    return spread(found, level=level).assign_attrs(band_from="simulation", draws=draws)


def _affordable(spec: Spec, batch: Any, metrics: Sequence[str], at: str) -> int:
    """How many networks fit into the time."""
    check_covered(spec)
    inputs, engine = checked_batch(spec, batch, 1, "cpu", "float64"), checked_engine(spec, "auto")
    backward = Recorder(metrics, 1, 1, at).needs_backward

    def seconds(runs: int) -> float:
        sizes = sizes_of(spec, engine, inputs, backward, runs=runs, metrics=len(metrics))
        return (simulation_work(sizes) if isinstance(sizes, Sizes) else network_work(sizes)).seconds

    found = next((draws for draws in range(_DRAWS, _FEWEST - 1, -20) if seconds(draws) <= _SECONDS), None)
    if found is None:
        raise IsometerError(
            f"{_FEWEST} networks take about {time_text(seconds(_FEWEST))} to simulate; a band may take "
            f"{time_text(_SECONDS)} — simulate them"
        )
    return found
