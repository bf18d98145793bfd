"""What people read off the kernel of a model: conditioning, alignment, stable rates, drift, distance to the limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from isometer.empirical._comparison import KernelDrift
from isometer.empirical._curvature import StableRate, largest_stable_rate
from isometer.empirical._kernel import empirical_kernel
from isometer.empirical._limit import LimitComparison
from isometer.empirical._result import EmpiricalKernel, Kind

Loss = Callable[[Any, Any], torch.Tensor]
_MOMENTUM = 0.9


@dataclass(frozen=True, eq=False)
class KernelSummary:
    """A kernel with the numbers beside it.

    Attributes:
        kernel: by layer.
        alignment: cosine of the centred kernel with the Gram matrix of the "inputs", and with the "labels".
        loss: what the rates are for.
        rates: largest stable rates of "sgd", "sgd_momentum" and, where there are labels, "adam"; empty for "nngp".
        drift: by layer since an earlier checkpoint, where one was given.
        limit: beside the kernel at infinite width, where requested.
    """

    kernel: EmpiricalKernel
    alignment: dict[str, float]
    loss: str
    rates: dict[str, StableRate]
    drift: dict[str, KernelDrift] = field(default_factory=dict)
    limit: LimitComparison | None = None

    def to_dict(self) -> dict[str, Any]:
        """Numbers for JSON and pictures."""
        rates: dict[str, Any] = {"loss": self.loss} if self.rates else {}
        for name, one in self.rates.items():
            rate = one.rate if math.isfinite(one.rate) else None
            rates[name] = {"rate": rate, "curvature": one.curvature, "error_estimate": one.error_estimate}
        found = {**self.kernel.to_dict(), "alignment": self.alignment, "rates": rates}
        if self.drift:
            found["drift"] = {name: asdict(moved) for name, moved in self.drift.items()}
        if self.limit is not None:
            limit = self.limit
            found["limit"] = {
                "spec": limit.spec,
                "distance": limit.distance,
                "turned": limit.turned,
                "note": limit.note,
            }
        return found


def kernel_summary(
    model: nn.Module,
    batch: Any,
    labels: Any = None,
    *,
    loss: Loss | None = None,
    kind: Kind = "ntk",
    mode: Literal["train", "eval"] = "train",
    seed: int = 0,
    **options: Any,
) -> KernelSummary:
    """The kernel of a model on a batch by layer, with alignment and the largest stable rates.

    Args:
        model: any `torch.nn.Module`; it is not changed.
        batch: as for `empirical_kernel`.
        labels: targets of the loss, if there are any.
        loss: a function of outputs and labels; the mean squared error of outputs without labels, whose curvature does
            not depend on the target, if there is none.
        kind: "ntk" or "nngp".
        mode: "train" or "eval".
        seed: seed of dropout and sketches.
        options: others of `empirical_kernel`: `method`, `vectors`, `draws`, `site`.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0], [-1.0], [2.0], [-2.0]])
        >>> found = kernel_summary(torch.nn.Linear(1, 1, bias=False), x)
        >>> round(found.alignment["inputs"], 6), round(found.rates["sgd"].rate, 3)  # λ = 2 · mean square of x = 5
        (1.0, 0.4)
    """
    found = empirical_kernel(model, batch, kind=kind, mode=mode, by="layer", seed=seed, **options)
    judged = loss is not None and labels is not None
    return KernelSummary(
        found,
        _alignment(found, batch, labels),
        "the loss of the labels" if judged else "mean squared error",
        _rates(model, batch, labels, loss if judged else None, mode, seed) if kind == "ntk" else {},
    )


def _alignment(found: EmpiricalKernel, batch: Any, labels: Any) -> dict[str, float]:
    alignment: dict[str, float] = {}
    if isinstance(batch, torch.Tensor) and batch.is_floating_point():
        flat = batch.detach().double().flatten(1).cpu().numpy()
        alignment["inputs"] = found.alignment(flat @ flat.T)
    if isinstance(labels, torch.Tensor) and labels.dim() <= 2 and len(labels) == len(found.matrix):
        alignment["labels"] = found.alignment(np.asarray(labels.detach().cpu().numpy()))
    return alignment


def _rates(
    model: nn.Module, batch: Any, labels: Any, loss: Loss | None, mode: Literal["train", "eval"], seed: int
) -> dict[str, StableRate]:
    def squared(outputs: Any, _: Any) -> torch.Tensor:
        return outputs.square().mean()  # type: ignore[no-any-return]

    def limit(optimizer: Literal["sgd", "adam"]) -> StableRate:
        chosen = loss or squared
        return largest_stable_rate(model, batch, labels, loss=chosen, optimizer=optimizer, mode=mode, seed=seed)

    plain = limit("sgd")
    factor = (1.0 + _MOMENTUM) * plain.factor  # of the same curvature
    heavy = replace(plain, rate=(1.0 + _MOMENTUM) * plain.rate, factor=factor)
    found = {"sgd": plain, "sgd_momentum": heavy}
    if loss is not None:  # Adam's scale is that of the gradient, which depends on the target
        found["adam"] = limit("adam")
    return found
