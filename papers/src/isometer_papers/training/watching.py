"""The doctor's instruments in the training loop: what its monitor sees, and why a run that diverged did."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.run import observes

Tensor = torch.Tensor
MONITORED = (
    "effective_rank/last",
    "mean_abs_cosine/last",
    "rms/last",
    "gradient_log_norm/first",
    "gradient_growth_per_layer",
    "gradient_alignment/median",
    "dead_fraction/largest",
    "saturated_fraction/largest",
    "weight_gain/median",
)
SAMPLES = 32  # that the monitor looks at


@observes("watch")
def watched(inputs: Tensor, labels: Tensor) -> Callable[[nn.Module], np.ndarray[Any, Any]]:
    """A measure for `fit`: what `SignalMonitor` logs of the network on some samples, in the order of `MONITORED`.

    Example:
        >>> from isometer_papers.architectures import mlp
        >>> found = watched(torch.randn(8, 4), torch.arange(8) % 2)(mlp(4, 2, depth=2, width=6))
        >>> found.shape, bool(1 <= found[0] <= 6)
        ((9,), True)
    """
    from isometer.doctor import SignalMonitor

    some, few = inputs[:SAMPLES], labels[:SAMPLES]

    def measure(model: nn.Module) -> np.ndarray[Any, Any]:
        monitor = SignalMonitor(model, when=1, samples=SAMPLES, budget=None)
        monitor.step(batch=some, target=few, criterion=nn.functional.cross_entropy)
        return np.array([monitor.latest.get(name, math.nan) for name in MONITORED])

    return measure


@observes()
def divergence_reason(model: nn.Module, inputs: Tensor, labels: Tensor) -> str:
    """Where a batch whose loss is not finite stops being finite: in a parameter, on the way forward, or in the loss.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
        >>> with torch.no_grad():
        ...     _ = model[0].weight.fill_(1e30), model[2].weight.fill_(1e30)
        >>> divergence_reason(model, torch.ones(2, 2), torch.tensor([0, 1]))
        'values are not finite from 2 (Linear) on, layer 3 of 3; largest before: 2e+30'
        >>> with torch.no_grad():
        ...     _ = model[2].weight.fill_(math.nan)
        >>> divergence_reason(model, torch.ones(2, 2), torch.tensor([0, 1]))
        'the step before left 1 of 4 parameters not finite, the first 2.weight'
    """
    from isometer.doctor import probe

    broken = [name for name, parameter in model.named_parameters() if not bool(parameter.isfinite().all())]
    if broken:
        count = sum(1 for _ in model.parameters())
        return f"the step before left {len(broken)} of {count} parameters not finite, the first {broken[0]}"
    try:
        found = probe(model, inputs, target=labels, loss=nn.functional.cross_entropy)
    except Exception as problem:  # the curves of the run are worth more than the reason for its end
        return f"the loss is not finite; the network could not be examined: {type(problem).__name__}: {problem}"
    largest = found.values["max_abs"]
    layer = found.nonfinite_layer
    if layer is None:
        return f"the outputs are finite, up to {largest[-1]:.1g}, and the loss is not"
    site = found.sites[layer]
    before = float(np.nanmax(largest[:layer], initial=0.0))
    return (
        f"values are not finite from {site.name} ({site.op}) on, layer {layer} of {len(found) - 1}; "
        f"largest before: {before:.1g}"
    )
