"""The corrections carried out on a model of one size, so that they can be tried before anyone writes them down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._tensor_trees import dense
from isometer.doctor.scaling._roles import Role, Roles
from isometer.doctor.scaling._rules import ADAPTIVE
from isometer.doctor.scaling._sizes import Size
from isometer.doctor.scaling._verdicts import Correction, Opinion
from isometer.errors import IsometerError

Tensor = torch.Tensor


class CannotScale(IsometerError):
    """A model whose output cannot be multiplied from outside."""


@dataclass(frozen=True, eq=False)
class Corrections:
    """What an opinion wants to change, as factors for one size; all of them are 1 at the base size.

    Attributes:
        found: the opinion.
        base: where rates are tuned.
        kind: kind of optimizer.
    """

    found: Opinion
    base: Size
    kind: str

    @property
    def empty(self) -> bool:
        """Whether there is nothing to change."""
        return not self.found.changes

    def _of(self, role: Role) -> Correction | None:
        same = (one for one in self.found.corrections if (one.group, one.repeated) == (role.group, role.repeated))
        return next(same, None)

    def apply(self, model: nn.Module, roles: Roles, size: Size) -> None:
        """Scale initial weights, and residual branches and the output from now on.

        Raises:
            CannotScale: the output is no tensor, so that a loss inside the model would not see the change.
        """
        wide, deep = _ratio(size.width, self.base.width), _ratio(size.depth, self.base.depth)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                one = self._of(roles.of[name])
                if one is not None and one.init_width:
                    parameter.mul_(wide**one.init_width)
        multiplier = deep**self.found.branch_depth
        modules = dict(model.named_modules())
        for name in roles.blocks if multiplier != 1.0 else ():
            _scale_branch(modules[name], multiplier)
        if self.found.output_width and wide != 1.0:
            _scale_output(model, wide**self.found.output_width)

    def rates(self, roles: Roles, size: Size) -> dict[str, float]:
        """Factors of the rate by name of the parameter, those that are not 1."""
        wide, deep = _ratio(size.width, self.base.width), _ratio(size.depth, self.base.depth)
        found = {}
        for name, role in roles.of.items():
            one = self._of(role)
            if one is not None:
                found[name] = wide**one.rate_width * deep**one.rate_depth
        return {name: factor for name, factor in found.items() if factor != 1.0}

    def regroup(
        self, optimizer: torch.optim.Optimizer, model: nn.Module, factors: Mapping[str, float]
    ) -> torch.optim.Optimizer:
        """Split the groups of a fresh optimizer, one for each factor."""
        by_id = {id(parameter): factors.get(name, 1.0) for name, parameter in model.named_parameters()}
        groups = []
        for group in optimizer.param_groups:
            for factor in dict.fromkeys(by_id.get(id(one), 1.0) for one in group["params"]):
                mine = [one for one in group["params"] if by_id.get(id(one), 1.0) == factor]
                new: dict[str, Any] = {**group, "params": mine, "lr": float(group["lr"]) * factor}
                if self.kind == ADAPTIVE and "weight_decay" in new:
                    new["weight_decay"] = new["weight_decay"] / factor  # lr · decay stays the same
                groups.append(new)
        optimizer.param_groups = groups
        return optimizer


def _ratio(size: int | None, base: int | None) -> float:
    return 1.0 if size is None or base is None else size / base


def _scale_branch(block: nn.Module, multiplier: float) -> None:
    """h + branch(h) becomes h + multiplier · branch(h), where input and output have one shape."""

    def hook(module: nn.Module, arguments: Any, named: Any, output: Any) -> Any:
        entered, left = dense((arguments, named)), dense(output)
        if not entered or not left or entered[0].shape != left[0].shape:
            return output
        scaled = entered[0] + multiplier * (left[0] - entered[0])
        return _with_first(output, left[0], scaled)

    block.register_forward_hook(hook, with_kwargs=True)


def _scale_output(model: nn.Module, multiplier: float) -> None:
    def hook(module: nn.Module, arguments: Any, output: Any) -> Any:
        if not isinstance(output, Tensor):
            raise CannotScale(f"the model returns a {type(output).__name__}; expected a tensor to multiply")
        return multiplier * output

    model.register_forward_hook(hook)


def _with_first(output: Any, old: Tensor, new: Tensor) -> Any:
    if output is old:
        return new
    if isinstance(output, (tuple, list)) and not hasattr(output, "_fields"):
        parts: Sequence[Any] = [new if one is old else one for one in output]
        return type(output)(parts)
    return output
