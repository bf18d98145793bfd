"""Could chance have done it? The same architecture with its weights redrawn.

What is measured in one network is one draw. Each redraw permutes the entries of every weight matrix, so that their
values, and with them mean and scale, stay and only the arrangement changes. From `K` redraws the fluctuation `s` of a
statistic is known, and a value `t` of the network at hand is compared with a stated neutral value `t₀`:

    |t − t₀| / s  has Student's law with K − 1 degrees of freedom

if the statistic is Gaussian with mean `t₀`. For totals of log-norms over many layers that holds by the central limit
theorem. The probability of a larger deviation is the p-value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from scipy import stats
from torch import nn

from isometer.doctor.examination import Examination
from isometer.doctor.view import View

Statistic = Callable[[View], float]


@contextmanager
def redrawn(model: nn.Module, seed: int) -> Iterator[None]:
    """The model with the entries of its weight matrices permuted; afterwards they are what and where they were.

    Example:
        >>> layer = nn.Linear(3, 2)
        >>> before = layer.weight.detach().clone()
        >>> with redrawn(layer, 1):
        ...     changed = not torch.equal(layer.weight, before)
        >>> changed, torch.equal(layer.weight, before)
        (True, True)
    """
    generator = torch.Generator().manual_seed(seed)
    kept: list[tuple[nn.Parameter, torch.Tensor]] = []
    try:
        for parameter in dict.fromkeys(model.parameters()):
            if parameter.dim() > 1 and parameter.layout is torch.strided:
                order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
                kept.append((parameter, parameter.data))
                parameter.data = parameter.data.reshape(-1)[order].reshape(parameter.shape)
        yield
    finally:
        for parameter, data in kept:
            parameter.data = data


class Redraws:
    """Examinations of redrawn networks, made when first asked for.

    Args:
        examine: examines the model as it is now.
        model: whose weights are redrawn.
        number: of redraws, at least 3.
        seed: of the permutations.
    """

    def __init__(self, examine: Callable[[], Examination], model: nn.Module, *, number: int = 8, seed: int = 0) -> None:
        self._examine, self._model, self._number, self._seed = examine, model, number, seed
        self._views: list[View] | None = None

    @property
    def views(self) -> list[View]:
        """One view per redraw."""
        if self._views is None:
            self._views = []
            for index in range(self._number):
                with redrawn(self._model, self._seed + 7919 * (index + 1)):
                    self._views.append(View(self._examine()))
        return self._views

    def p_value(self, value: float, neutral: float, statistic: Statistic) -> float:
        """Probability of a deviation from `neutral` as large as that of `value`, from fluctuations over redraws alone.

        1 where the statistic is undefined in the network or in all but two of the redraws; 0 where redrawing does not
        change it.
        """
        values = np.array([statistic(view) for view in self.views])
        values = values[np.isfinite(values)]
        if values.size < 3 or math.isnan(value):
            return 1.0
        if math.isinf(value):
            return 0.0
        spread = float(values.std(ddof=1))
        if spread == 0:
            return 0.0 if value != neutral else 1.0
        return float(2 * stats.t.sf(abs(value - neutral) / spread, values.size - 1))
