"""Could chance have done it? The same architecture with its weights redrawn.

What is measured in one network is one draw. Each redraw permutes the entries of every weight matrix, so that their
values, and with them mean and scale, stay and only the arrangement changes. (Independent entries of one law have that
law in any order, so large matrices of one size share a permutation, up to a shift.) Let `s` be the standard deviation
of a statistic over `K` redraws, `t` its value in the network at hand, `m` the mean of all `K + 1`, and `t₀` a neutral
value. If nothing is there, all are Gaussian with mean `t₀`, and both

    (t − t₀) / s   and   (m − t₀) √(K + 1) / s′     (s′ over all K + 1)

have Student's law, with K − 1 and K degrees of freedom. The first is large if this network is unlike its redraws, the
second if all of them share the effect. Twice the smaller of the two p-values is a p-value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from scipy import special
from torch import nn

from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.probe._examination import Examination

_LARGE = 1 << 17  # entries beyond which matrices of one size share a permutation, which takes longer than a pass
Statistic = Callable[[View], float]
Examine = Callable[[Callable[[nn.Module], None], bool], Examination]


def redraw_(model: nn.Module, seed: int) -> None:
    """Permute the entries of a model's weight matrices; their old memory is left as it was.

    Example:
        >>> layer = nn.Linear(3, 2)
        >>> before = layer.weight.detach().clone()
        >>> redraw_(layer, 1)
        >>> torch.equal(layer.weight, before), torch.equal(layer.weight.flatten().sort()[0], before.flatten().sort()[0])
        (False, True)
    """
    generator = torch.Generator().manual_seed(seed)
    shared: dict[int, torch.Tensor] = {}
    for parameter in dict.fromkeys(model.parameters()):  # shared ones once
        # Vectors are biases and scales of norms: they belong to units, and have no arrangement to redraw.
        if parameter.dim() > 1 and parameter.layout is torch.strided:
            entries = parameter.data.reshape(-1)
            order = shared.get(entries.numel())
            if order is None:
                order = _permutation(entries.numel(), generator)
                if entries.numel() > _LARGE:
                    shared[entries.numel()] = order
            else:
                # Two permutations in a row are one; the shift keeps layers which are copies from staying copies.
                entries = entries.roll(int(torch.randint(entries.numel(), (), generator=generator)))
            parameter.data = entries.index_select(0, order.to(parameter.device)).reshape(parameter.shape)


def _permutation(count: int, generator: torch.Generator) -> torch.Tensor:
    # Half the time with indices of 32 bits, and the same permutation.
    return torch.randperm(count, generator=generator, dtype=torch.int32 if count < 2**31 else torch.int64)


class Redraws:
    """Examinations of redrawn networks, made when first requested.

    Each is one pass. Gradients come from one backward pass, of the loss with the factor that the network at hand
    needed; statistics that read none do with the forward pass, unless gradients will be asked for later.

    Args:
        examine: examines the model once after a function has changed it, with the backward pass or without, and leaves
            the model as it was.
        own: the network at hand.
        number: of redraws, at least 3.
        seed: seed of the permutations.
        gradients_too: whether statistics of gradients are going to be requested.
    """

    def __init__(
        self,
        examine: Examine,
        own: View,
        *,
        number: int = 8,
        seed: int = 0,
        gradients_too: Callable[[], bool] = lambda: False,
    ) -> None:
        self._examine, self._number, self._seed = examine, number, seed
        self._own, self._gradients_too = own, gradients_too
        self._forward: list[View] | None = None
        self._whole: list[View] | None = None

    def views(self, statistic: Statistic) -> list[View]:
        """One view per redraw, with what a statistic reads."""
        if self._whole is not None:
            return self._whole
        if reads_gradients(statistic, self._own) or (self._forward is None and self._gradients_too()):
            self._whole = self._redrawn(True)
            return self._whole
        if self._forward is None:
            self._forward = self._redrawn(False)
        return self._forward

    def _redrawn(self, gradients: bool) -> list[View]:
        # A prime apart from the caller's seeds.
        seeds = [self._seed + 7919 * (index + 1) for index in range(self._number)]
        return [View(self._examine(partial(redraw_, seed=seed), gradients)) for seed in seeds]

    def p_value(self, value: float, neutral: float, statistic: Statistic) -> float:
        """Probability of a deviation from `neutral` as large as that of `value`, from fluctuations over redraws alone.

        1 where the statistic is undefined in the network or in all but two of the redraws; 0 where redrawing does not
        change it.
        """
        values = np.array([statistic(view) for view in self.views(statistic)])
        values = values[np.isfinite(values)]
        if values.size < 3 or math.isnan(value):
            return 1.0
        if math.isinf(value):
            return 0.0  # no spread of finite numbers reaches it
        own = _two_sided(value - neutral, float(values.std(ddof=1)), values.size - 1)
        together = np.append(values, value)
        error = float(together.std(ddof=1)) / math.sqrt(together.size)
        shared = _two_sided(float(together.mean()) - neutral, error, values.size)
        return min(1.0, 2 * min(own, shared))  # two tests were made, so Bonferroni's factor is 2


def reads_gradients(statistic: Statistic, view: View) -> bool:
    """Whether a statistic is another, or none, where nothing is known of gradients.

    Example:
        >>> from isometer.doctor import probe
        >>> view = View(probe(nn.Sequential(*[nn.Linear(4, 4) for _ in range(5)]), torch.eye(3, 4)))
        >>> reads_gradients(lambda view: view.gradient_rate, view), reads_gradients(lambda view: view.depth, view)
        (True, False)
    """
    try:
        return statistic(view.without_gradients) != statistic(view)  # nan is not equal to itself
    except Exception:
        return True  # what a check of the user's own raises without them


def _two_sided(distance: float, error: float, freedom: int) -> float:
    """p-value of a distance with this standard error; without one, any distance is certain."""
    if error == 0:
        return 0.0 if distance else 1.0
    return float(2 * special.stdtr(freedom, -abs(distance) / error))
