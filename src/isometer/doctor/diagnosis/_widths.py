"""The same model at several widths: which measurements grow or shrink with the width, before and during training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray
from numpy.typing import NDArray
from torch import nn

from isometer.doctor.probe._examine import probe
from isometer.errors import IsometerError, unknown_name

Floats = NDArray[np.float64]
FLAT = 0.1
"""A slope of log metric against log width is taken for zero up to this, and up to three standard errors."""


@dataclass(frozen=True, eq=False)
class WidthCheck:
    """Measurements of one model at several widths.

    Example:
        >>> def factory(width: int) -> nn.Module:
        ...     model = nn.Sequential(nn.Linear(4, width), nn.Linear(width, width))
        ...     nn.init.normal_(model[1].weight, std=1.0)  # should be 1/√width
        ...     return model
        >>> name, slope = width_check(factory, [32, 128], torch.ones(2, 4)).worst
        >>> name, 0.3 < slope < 0.7
        ('1', True)

    Attributes:
        metric: what was measured.
        widths: the widths.
        names: module names of the sites, the same at all widths.
        ops: their operations.
        values: `(width, seed, step, site)`.
        slopes: of log metric against log width after the last step, one per site; nan where it is not positive.
        errors: their standard errors.
    """

    metric: str
    widths: tuple[int, ...]
    names: tuple[str, ...]
    ops: tuple[str, ...]
    values: Floats
    slopes: Floats
    errors: Floats

    @property
    def flat(self) -> bool:
        """Whether no site's slope is distinguishable from zero by more than `FLAT`."""
        known = np.isfinite(self.slopes)
        room = np.maximum(FLAT, 3 * np.where(np.isfinite(self.errors), self.errors, 0.0))
        return bool((np.abs(self.slopes[known]) <= room[known]).all())

    @property
    def worst(self) -> tuple[str, float]:
        """Name and slope of the site that depends most on the width."""
        known = np.where(np.isfinite(self.slopes), np.abs(self.slopes), -1.0)
        at = int(np.argmax(known))
        return self.names[at], float(self.slopes[at])

    def to_dataset(self) -> xarray.Dataset:
        """All values, with their coordinates."""
        dims = ("width", "seed", "step", "site")
        return xarray.Dataset(
            {self.metric: (dims, self.values), "slope": ("site", self.slopes), "slope_error": ("site", self.errors)},
            coords={
                "width": list(self.widths),
                "name": ("site", np.array(self.names, dtype=object)),
                "op": ("site", np.array(self.ops, dtype=object)),
            },
        )


def width_check(
    factory: Callable[[int], nn.Module],
    widths: Sequence[int],
    batch: Any,
    *,
    metric: str = "rms",
    target: Any = None,
    loss: Callable[..., torch.Tensor] | None = None,
    steps: int = 0,
    learning_rate: float = 0.01,
    optimizer: str = "sgd",
    seeds: Sequence[int] = (0, 1, 2),
) -> WidthCheck:
    """Measure a model at several widths, in the manner of muP's coordinate check.

    In a parametrisation that transfers between widths, the coordinates of every representation keep their size as the
    width grows, at initialisation and after each step of training; where they do not, a learning rate found at one
    width fails at another.

    Args:
        factory: makes the model of a width; torch's generator is seeded before each call.
        widths: at least two.
        batch: what every model is called with.
        metric: a measurement of `isometer.probe`.
        target: second argument of the loss.
        loss: needed for steps; as for `isometer.probe`.
        steps: of training between the first and the last measurement, one measurement after each.
        learning_rate: of those steps.
        optimizer: `sgd` or `adam`.
        seeds: of the weights.

    Returns:
        A `WidthCheck`.

    Raises:
        IsometerError: fewer than two widths, steps without a loss, models whose sites differ, or an unknown metric.

    Example:
        >>> def factory(width: int) -> nn.Module:
        ...     return nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width))
        >>> check = width_check(factory, [32, 64, 128], torch.randn(16, 8), seeds=[0, 1])
        >>> check.flat, check.names
        (True, ('0', '1', '2'))
    """
    wide = tuple(int(width) for width in widths)
    if len(set(wide)) < 2 or min(wide, default=0) < 1:
        raise IsometerError(f"widths are {list(widths)}; expected at least two different ones — pass [64, 128, 256]")
    if steps < 0 or (steps and loss is None):
        raise IsometerError("steps need a loss to train on; expected loss=… (and target=…) — pass them or steps=0")
    if optimizer not in ("sgd", "adam"):
        raise IsometerError(f"optimizer is {optimizer!r}; expected sgd or adam")
    names: tuple[str, ...] | None = None
    ops: tuple[str, ...] = ()
    rows: list[list[list[Floats]]] = []
    for width in wide:
        row = []
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed)
                model = factory(width)
                measured = []
                stepper = _stepper(model, optimizer, learning_rate)
                for step in range(steps + 1):
                    found = probe(model, batch, target=target, loss=loss, seed=seed)
                    if metric not in found.values:
                        raise unknown_name("metric", metric, found.values)
                    here = tuple(site.name for site in found.sites[1:])
                    if names is None:
                        names, ops = here, tuple(site.op for site in found.sites[1:])
                    elif here != names:
                        raise IsometerError(
                            f"the model of width {width} has other sites than that of width {wide[0]}; expected the "
                            "same modules at every width"
                        )
                    measured.append(np.asarray(found.values[metric][1:], dtype=np.float64))
                    if step < steps:
                        assert loss is not None
                        _train(model, batch, target, loss, stepper)
            row.append(measured)
        rows.append(row)
    values = np.asarray(rows)
    slopes, errors = _slopes(np.log(np.array(wide, dtype=np.float64)), values[:, :, -1, :])
    return WidthCheck(metric, wide, names or (), ops, values, slopes, errors)


def _stepper(model: nn.Module, optimizer: str, rate: float) -> torch.optim.Optimizer:
    parameters = list(model.parameters())
    return torch.optim.SGD(parameters, rate) if optimizer == "sgd" else torch.optim.Adam(parameters, rate)


def _train(
    model: nn.Module, batch: Any, target: Any, loss: Callable[..., torch.Tensor], stepper: torch.optim.Optimizer
) -> None:
    from isometer.doctor.probe._calling import call

    stepper.zero_grad()
    output = call(model, batch)
    value = loss(output) if target is None else loss(output, target)
    value.backward()  # type: ignore[no-untyped-call]
    stepper.step()


def _slopes(logs: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Least squares of log value against log width over all seeds, per site, with standard errors."""
    sites = values.shape[-1]
    slopes, errors = np.full(sites, math.nan), np.full(sites, math.nan)
    x = np.repeat(logs, values.shape[1])
    for site in range(sites):
        y = values[:, :, site].reshape(-1)
        if not (np.isfinite(y) & (y > 0)).all():
            continue
        centred = x - x.mean()
        spread = float(centred @ centred)
        slope = float(centred @ np.log(y)) / spread
        rest = np.log(y) - np.log(y).mean() - slope * centred
        slopes[site] = slope
        if len(y) > 2:
            errors[site] = math.sqrt(float(rest @ rest) / (len(y) - 2) / spread)
    return slopes, errors
