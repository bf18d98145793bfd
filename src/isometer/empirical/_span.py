"""A model between two of its places: products of the Jacobian from one to the other with vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from isometer.doctor.probe._calling import call
from isometer.doctor.probe._tensor_trees import dense, map_tensors
from isometer.empirical._linearisation import chosen_output, sample_count, separating_sets
from isometer.errors import IsometerError, unknown_name

Tensor = torch.Tensor


class Span:
    """One pass of a model, held by its graph from a start to an end.

    Args:
        model: in the mode in which it is to run.
        batch: as for `isometer.probe`.
        start: the module whose output is the start of the Jacobian; the floating-point inputs by default.
        end: the module whose output is the end of the Jacobian; the model's output by default.
        select: picks the output out of what the model (or the module `end`) returns.

    Attributes:
        samples: of the batch.
        rows, columns: of the Jacobian, per sample.
        separate: no sample's end depends on another's start.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Any,
        start: str | None,
        end: str | None,
        select: Callable[[Any], Tensor] | None,
    ) -> None:
        self.samples = sample_count(batch)
        found: dict[str, list[Any]] = {"start": [], "end": []}
        handles = [
            _module(model, name).register_forward_hook(hook)
            for name, hook in ((start, _cut(found["start"])), (end, _keep(found["end"])))
            if name is not None
        ]
        inputs = map_tensors(lambda one: one.detach().clone(), batch)
        if start is None:
            inputs = map_tensors(lambda one: _leaf(one, found["start"]), inputs)
        try:
            # The fused kernels of attention have no second derivative.
            with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
                output = call(model, inputs)
        finally:
            for handle in handles:
                handle.remove()
        if end is not None and not found["end"]:
            raise IsometerError(f"module {end!r} did not run in this pass; expected one that does — pass another end")
        self.starts: list[Tensor] = [one for one in found["start"] if one.dim() and one.shape[0] == self.samples]
        if not self.starts:
            raise IsometerError(
                "the batch has no floating-point tensor with respect to which to differentiate; expected one, samples "
                "first — pass start='…', the module that embeds the tokens"
                if start is None
                else f"module {start!r} returned no floating-point tensor with the {self.samples} samples first; "
                "expected one — pass another start"
            )
        chosen = chosen_output(found["end"][-1] if end is not None else output, select, self.samples)
        if not chosen.requires_grad or not _depends(chosen, self.starts):
            raise IsometerError(
                f"the end {end or 'of the model'!r} does not depend on the start {start or 'input'!r}; expected one "
                "that does — pass another start or end"
            )
        self.outputs = chosen.reshape(self.samples, -1)
        self.rows = self.outputs.shape[1]
        self.columns = sum(one[0].numel() for one in self.starts)
        self.separate = self._is_separate()
        self._pulled: Tensor | None = None

    def pull(self, cotangents: Tensor) -> Tensor:
        """uᵀJ: (samples, rows) to (samples, columns)."""
        found = torch.autograd.grad(self.outputs, self.starts, cotangents, retain_graph=True, allow_unused=True)
        return self._flat(found)

    def push(self, tangents: Tensor) -> Tensor:
        """Jv: (samples, columns) to (samples, rows): the derivative of u ↦ ⟨uᵀJ, v⟩."""
        if self._pulled is None:
            self._dual = torch.zeros_like(self.outputs, requires_grad=True)
            found = torch.autograd.grad(
                self.outputs, self.starts, self._dual, create_graph=True, retain_graph=True, allow_unused=True
            )
            self._pulled = self._flat(found)
        if not self._pulled.requires_grad:
            return torch.zeros_like(self.outputs)
        (found_rows,) = torch.autograd.grad(self._pulled, self._dual, tangents, retain_graph=True)
        return found_rows

    def dense_rows(self) -> Tensor:
        """The Jacobian whole: (samples, rows, columns) of separate samples, else (1, all rows, all columns)."""
        unit = torch.eye(self.rows, dtype=self.outputs.dtype, device=self.outputs.device)
        if self.separate:
            found = [self.pull(one.expand(self.samples, -1)) for one in unit]
            return torch.stack(found, 1)
        zero = torch.zeros_like(self.outputs)
        rows = []
        for sample in range(self.samples):
            for one in unit:
                cotangent = zero.clone()
                cotangent[sample] = one
                rows.append(self.pull(cotangent).flatten())
        return torch.stack(rows)[None]

    def _flat(self, gradients: Sequence[Tensor | None]) -> Tensor:
        parts = [
            torch.zeros_like(one).flatten(1) if gradient is None else gradient.flatten(1)
            for one, gradient in zip(self.starts, gradients, strict=True)
        ]
        return torch.cat(parts, 1)

    def _is_separate(self) -> bool:
        """Some samples' outputs are differentiated: the others' starts must get exactly zero, for separating sets."""
        if self.samples == 1:
            return True
        generator = torch.Generator().manual_seed(0)
        random = torch.randn(self.outputs.shape, generator=generator, dtype=torch.float64).to(self.outputs)
        for chosen in separating_sets(self.samples).to(random.device):
            if self.pull(torch.where(chosen[:, None], random, torch.zeros_like(random)))[~chosen].any():
                return False
        return True


def _depends(end: Tensor, starts: Sequence[Tensor]) -> bool:
    found = torch.autograd.grad(end, list(starts), torch.ones_like(end), retain_graph=True, allow_unused=True)
    return any(one is not None for one in found)


def _module(model: nn.Module, name: str) -> nn.Module:
    modules = dict(model.named_modules())
    if name not in modules:
        raise unknown_name("module", name, [one for one in modules if one], fix="see model.named_modules()")
    found: nn.Module = modules[name]
    return found


def _leaf(tensor: Tensor, found: list[Any]) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    own = tensor.requires_grad_()
    found.append(own)
    return own.clone()  # models may write into their input


def _cut(found: list[Any]) -> Callable[..., Any]:
    """Replace the first output by a leaf, so that the graph begins there."""

    def hook(module: nn.Module, given: Any, output: Any) -> Any:
        if found:
            return None
        return map_tensors(lambda one: _leaf(one.detach().clone(), found), output)

    return hook


def _keep(found: list[Any]) -> Callable[..., None]:
    def hook(module: nn.Module, given: Any, output: Any) -> None:
        found.append(map_tensors(lambda one: one.clone(), output))

    return hook


def module_outputs(model: nn.Module, batch: Any) -> tuple[dict[str, Tensor], Any]:
    """The output of every module that has no other inside, in order of execution, and that of the model.

    Example:
        >>> outputs, _ = module_outputs(nn.Sequential(nn.Linear(2, 3), nn.Tanh()), torch.ones(4, 2))
        >>> {name: tuple(one.shape) for name, one in outputs.items()}
        {'0': (4, 3), '1': (4, 3)}
    """
    found: dict[str, Tensor] = {}

    def keeping(name: str) -> Callable[..., Any]:
        def hook(module: nn.Module, given: Any, output: Any) -> Any:
            first = dense(output)[:1]
            if first and name not in found and isinstance(output, Tensor):
                if not output.requires_grad:
                    output = output.requires_grad_()
                found[name] = output
                # What follows may write into its input: the kept tensor stays as it is in the graph.
                return output.clone()
            return None

        return hook

    handles = [
        module.register_forward_hook(keeping(name))
        for name, module in model.named_modules()
        if name and not any(True for _ in module.children())
    ]
    try:
        with torch.enable_grad():
            output = call(model, map_tensors(lambda one: one.detach().clone(), batch))
    finally:
        for handle in handles:
            handle.remove()
    return found, output
