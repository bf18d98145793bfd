"""Adaptive gradient clipping for any optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from isometer.errors import IsometerError


class AdaptiveClipping:
    """Clip the gradient of each weight relative to its own norm, before every step of an optimizer.

    `G ← λ ‖W‖*/‖G‖ · G` where `‖G‖/‖W‖* ≥ λ`, with `‖W‖* = max(‖W‖, floor)` and Frobenius norms, for parameters of two
    or more axes. It hooks into the optimizer, which is used as before, by schedulers and trainers too; a closure passed
    to `step` has its gradients clipped whenever it is called. Gradients that are not finite are left as they are.

    Args:
        optimizer: any torch optimizer; parameter groups added later are clipped too.
        clipping: λ; the thesis has 0.1 and 1.
        floor: smallest ‖W‖ that counts.
        vectors: clip parameters of fewer than two axes (biases, scales) as well.
        units: compare norms unit by unit, over what comes in to one output, as the method was first published; without,
            those of whole matrices, as the thesis has it. A vector is then compared entry by entry.

    Example:
        >>> weight = torch.nn.Parameter(torch.eye(2))
        >>> optimizer = torch.optim.SGD([weight], lr=1.0)
        >>> clipping = AdaptiveClipping(optimizer, 0.5)
        >>> weight.grad = torch.full((2, 2), 100.0)
        >>> optimizer.step()
        >>> round(float((torch.eye(2) - weight.detach()).norm() / 2**0.5), 6), clipping.clipped
        (0.5, 1)

    Implements: 001/opt-agc (A.21).
    """

    def __init__(
        self,
        optimizer: Optimizer,
        clipping: float = 0.1,
        *,
        floor: float = 1e-2,
        vectors: bool = False,
        units: bool = False,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise IsometerError(
                f"optimizer is a {type(optimizer).__name__}; expected a torch.optim.Optimizer — pass "
                "torch.optim.SGD(model.parameters(), lr=0.01), for example"
            )
        for value, name in ((clipping, "clipping"), (floor, "floor")):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise IsometerError(f"{name} is {value!r}; expected a finite number above 0 — pass one")
        self.optimizer, self.clipping, self.floor, self.vectors = optimizer, float(clipping), float(floor), vectors
        self.units = units
        self.clipped = 0
        self._handle = optimizer.register_step_pre_hook(self._before_step)

    def remove(self) -> None:
        """Stop clipping."""
        self._handle.remove()

    @torch.no_grad()
    def clip(self) -> int:
        """Clip the current gradients, and return how many were too large."""
        count = 0
        alike: dict[tuple[torch.device, torch.dtype], list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None or (parameter.dim() < 2 and not self.vectors):
                    continue
                if self.units:
                    count += self._clip_units(parameter, gradient)
                else:
                    alike.setdefault((gradient.device, gradient.dtype), []).append((parameter, gradient))
        self.clipped = count + sum(self._clip_whole(pairs) for pairs in alike.values())
        return self.clipped

    def _clip_whole(self, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> int:
        """How many of these gradients were too large; all norms in two calls."""
        parameters, gradients = zip(*pairs, strict=True)
        norms, sizes = (torch.stack(torch._foreach_norm(list(of))) for of in (parameters, gradients))
        limits = self.clipping * norms.to(sizes.dtype).clamp_min(self.floor)
        large = ((sizes >= limits) & sizes.isfinite()).nonzero().flatten().tolist()
        for i in large:
            gradients[i].mul_(limits[i] / sizes[i])
        return len(large)

    def _clip_units(self, parameter: torch.Tensor, gradient: torch.Tensor) -> int:
        """One if any unit was too large."""
        axes = tuple(range(1, parameter.dim()))
        sizes, norms = (
            torch.linalg.vector_norm(one, dim=axes, keepdim=True) if axes else one.abs()
            for one in (gradient, parameter)
        )
        limits = self.clipping * norms.clamp_min(self.floor)
        large = (sizes >= limits) & sizes.isfinite()
        gradient.mul_(torch.where(large, limits / sizes, 1.0))
        return int(bool(large.any()))

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        # torch passes the arguments of the unbound `step`: args[0] is the optimizer
        closure: Callable[[], Any] | None = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            self.clip()
            return None

        # the gradients are computed by the closure: there is nothing to clip before it runs
        def clipped() -> Any:
            loss = closure()
            self.clip()
            return loss

        if "closure" in kwargs:
            return args, {**kwargs, "closure": clipped}
        return (args[0], clipped, *args[2:]), kwargs
