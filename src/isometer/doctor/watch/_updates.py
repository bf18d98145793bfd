"""What an optimizer does to the parameters: sizes of weights, gradients and updates, and how far a step overshoots.

With the update s = θ₊ − θ and the gradients g before and g₊ after it, the loss along s is, up to third order,
L(θ) + sᵀg + ½ sᵀHs, and sᵀHs ≈ sᵀ(g₊ − g). The *overshoot* sᵀHs / (−sᵀg) = 1 − sᵀg₊/sᵀg is 1 where a step ends in the
minimum along its direction and 2 where it gains nothing: above 2 the update is too large for the curvature, whatever
the optimizer is. Gradients of different batches only bring it closer to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Tensor = torch.Tensor
Floats = NDArray[np.float64]
PER_PARAMETER = ("weight_norm", "gradient_norm", "update_ratio", "update_alignment")
PER_GROUP = ("group_update_ratio", "group_update_alignment")


class Updates:
    """Weights before a step, and what became of them.

    Args:
        model: whose parameters are watched; a tied one counts once.
        optimizer: whose groups they belong to; one group by default.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> optimizer = torch.optim.SGD(model.parameters(), 0.1)
        >>> updates = Updates(model, optimizer)
        >>> model(torch.ones(1, 1)).square().sum().backward()
        >>> updates.before()
        >>> optimizer.step()
        >>> updates.after()
        >>> parameters, groups = updates.numbers()
        >>> parameters["update_ratio"].round(4), parameters["update_alignment"].round(4)
        (array([0.2]), array([1.]))
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
        named = [(name, one) for name, one in model.named_parameters() if one.is_floating_point()]
        self.names = [name for name, _ in named]
        self.parameters = [one for _, one in named]
        self.matrices = [one.dim() > 1 for one in self.parameters]
        self.trained = np.array([one.requires_grad for one in self.parameters], dtype=bool)
        self.groups, self._group_of = _groups(self.parameters, optimizer)
        self._before: list[Tensor] | None = None
        self._step: list[Tensor] | None = None
        self._sums: Floats | None = None
        self._descent = math.nan

    @torch.no_grad()
    def before(self) -> None:
        """Keep the weights, just before the step."""
        self._before = [_local(one).clone() for one in self.parameters]

    @torch.no_grad()
    def after(self) -> None:
        """Compare, just after the step, while the gradients are still there."""
        if self._before is None:
            return
        step = torch._foreach_sub([_local(one) for one in self.parameters], self._before)
        gradients = [_gradient(one) for one in self.parameters]
        self._sums = _summed(
            self.parameters,
            [_squares(self._before), _squares(step), _squares(gradients), _dots(step, gradients)],
        )
        self._descent = float(np.nansum(self._sums[3]))
        self._before, self._step = None, list(step)

    @torch.no_grad()
    def overshoot(self) -> float:
        """Of the last update, by the gradients of the step after it; nan where there is none of the two."""
        if self._step is None:
            return math.nan
        after = _summed(self.parameters, [_dots(self._step, [_gradient(one) for one in self.parameters])])
        self._step = None
        if np.isnan(after).all() or not self._descent:
            return math.nan
        return 1.0 - float(np.nansum(after)) / self._descent

    @property
    def following(self) -> bool:
        """Whether an update waits for the gradients of the next step."""
        return self._step is not None

    def numbers(self) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """By parameter and by group, of the last update."""
        if self._sums is None:
            return {}, {}
        return self._table(self._sums), self._table(self._by_group(self._sums), group=True)

    def _by_group(self, sums: Floats) -> Floats:
        total = np.zeros((len(sums), len(self.groups)))
        known = np.nan_to_num(sums, posinf=math.inf)
        for group in range(len(self.groups)):
            total[:, group] = known[:, self._group_of == group].sum(1)
        return total

    def _table(self, sums: Floats, *, group: bool = False) -> dict[str, Floats]:
        weights, steps, gradients, dots = sums
        with np.errstate(all="ignore"):
            # Weights of zero that move have moved by infinitely much of themselves; those that stay, by nothing.
            ratio = np.where(steps > 0, np.sqrt(steps / weights), np.where(np.isnan(steps), math.nan, 0.0))
            alignment = np.where(steps * gradients > 0, -dots / np.sqrt(steps * gradients), math.nan)
            norms = (np.sqrt(weights), np.sqrt(gradients))
        if group:
            return dict(zip(PER_GROUP, (ratio, alignment), strict=True))
        return dict(zip(PER_PARAMETER, (*norms, ratio, alignment), strict=True))


def _groups(
    parameters: Sequence[Tensor], optimizer: torch.optim.Optimizer | None
) -> tuple[list[str], NDArray[np.int64]]:
    """Names of the groups and the group of each parameter, −1 for none."""
    if optimizer is None:
        return ["all"], np.zeros(len(parameters), dtype=np.int64)
    names, of = [], {}
    for index, group in enumerate(optimizer.param_groups):
        names.append(str(group.get("name", index)))
        of.update({id(one): index for one in group["params"]})
    return names, np.array([of.get(id(one), -1) for one in parameters], dtype=np.int64)


def _local(tensor: Tensor) -> Tensor:
    """The part of a sharded parameter that this process holds."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor.detach()


def _gradient(parameter: Tensor) -> Tensor | None:
    found = parameter.grad
    if found is None:
        return None
    found = _local(found)
    return found.to_dense() if found.is_sparse else found


def _squares(some: Sequence[Tensor | None]) -> list[Tensor | None]:
    return _dots(some, some)


def _dots(some: Sequence[Tensor | None], others: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Inner products in float32 at least, None where one of the two is missing."""
    found: list[Tensor | None] = []
    for one, other in zip(some, others, strict=True):
        if one is None or other is None:
            found.append(None)
        else:
            dtype = torch.promote_types(one.dtype, torch.float32)
            found.append(torch.dot(one.reshape(-1).to(dtype), other.reshape(-1).to(dtype)))
    return found


def _summed(parameters: Sequence[Any], rows: Sequence[Sequence[Tensor | None]]) -> Floats:
    """Numbers `(row, parameter)`, of sharded parameters summed over the processes; nan where there are none."""
    present = [[one is not None for one in row] for row in rows]
    flat = [one.double() for row in rows for one in row if one is not None]
    numbers = np.full((len(rows), len(parameters)), math.nan)
    if flat:
        numbers[np.array(present, dtype=bool)] = torch.stack(flat).cpu().numpy()
    sharded = np.array([_is_sharded(one) for one in parameters], dtype=bool)
    if sharded.any():
        part = torch.from_numpy(np.nan_to_num(numbers[:, sharded]))
        torch.distributed.all_reduce(part)
        numbers[:, sharded] = np.where(np.isnan(numbers[:, sharded]), math.nan, part.numpy())
    return numbers


def _is_sharded(parameter: Any) -> bool:
    return any(placement.is_shard() for placement in getattr(parameter, "placements", ()))
