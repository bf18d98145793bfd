"""A model at its parameters and a batch: the outputs, and products of cotangents with the Jacobian, tap by tap."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from isometer.doctor.probe._examine import call
from isometer.doctor.probe._tensor_trees import dense, map_tensors, tensors
from isometer.empirical._taps import Tap, Tapping, TapSite
from isometer.errors import IsometerError

Tensor = torch.Tensor
Axis = Literal[0, 1, None]
"""Which axis of a site holds the samples; None where none does, or samples act on each other."""


@dataclass(frozen=True, eq=False)
class Parameter:
    """A trained parameter, with its taps and the axis of samples that all their sites have."""

    name: str
    tensor: nn.Parameter
    taps: tuple[Tap, ...]
    direct: bool  # it also has uses that taps do not cover
    separate: bool  # the derivative of one sample's outputs can be told from the others' in one pass


class Linearisation:
    """One forward pass, held by its graph.

    Args:
        model: in the mode in which it is to run.
        batch: as for `isometer.probe`.
        select: picks the output out of what the model returns; the first tensor with samples unless given.
        tapped: whether uses of parameters are tapped; otherwise autograd gives every derivative whole.

    Attributes:
        outputs: (samples, outputs).
        shape: of one sample's output.
        parameters: those that are trained and reach the outputs.
    """

    def __init__(
        self, model: nn.Module, batch: Any, select: Callable[[Any], Tensor] | None, *, tapped: bool, seed: int = 0
    ) -> None:
        self.samples = sample_count(batch)
        named = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
        if not named:
            raise IsometerError(
                "the model has no parameter with requires_grad; expected some that are trained — unfreeze them"
            )
        mode = Tapping([one for _, one in named], self.samples) if tapped else None
        with warnings.catch_warnings(), mode or nullcontext():
            output = call(model, map_tensors(_own, batch))
        chosen = chosen_output(output, select, self.samples)
        if not chosen.requires_grad:
            raise IsometerError(
                "the output has no derivative by the parameters; expected one that depends on them — pass output=… to "
                "pick another, and leave out torch.no_grad in the model"
            )
        self.shape = chosen.shape[1:]
        self.outputs = chosen.reshape(self.samples, -1)
        self.width = self.outputs.shape[1]
        self._batched = True
        self.taps = [] if mode is None else mode.taps
        self.axes: dict[TapSite, Axis] = {}
        self.parameters = self._arranged(named, seed)
        self.pass_flops = sum(2.0 * math.prod(tap.site.shape) * tap.width for tap in self.taps) or 2.0 * sum(
            one.numel() for _, one in named
        )
        self.site_numbers = sum(math.prod(site.shape) for site in {tap.site for tap in self.taps})

    def gradients(self, cotangents: Tensor, sources: Sequence[Any]) -> list[Tensor | None]:
        """Derivatives of ⟨cotangent, outputs⟩ for a stack of cotangents, by some tensors or edges.

        Args:
            cotangents: (k, samples, outputs).
            sources: tensors, or edges of the graph.

        Returns:
            (k, *shape) for each source; None where the outputs do not depend on it.
        """
        if self._batched:
            try:
                return self._grad(cotangents, sources, batched=True)
            except RuntimeError as problem:
                if not _about_vmap(problem):
                    raise
                self._batched = False  # an operation without a rule for stacks of cotangents
        single = [self._grad(one, sources, batched=False) for one in cotangents]
        columns = zip(*single, strict=True)
        return [None if column[0] is None else torch.stack(column) for column in columns]  # type: ignore[arg-type]

    def _grad(self, cotangents: Tensor, sources: Sequence[Any], *, batched: bool) -> list[Tensor | None]:
        with warnings.catch_warnings():
            # Operations without a rule of their own are looped over inside torch, which says so.
            warnings.filterwarnings("ignore", message=".*batching rule.*")
            return list(
                torch.autograd.grad(
                    self.outputs,
                    list(sources),
                    cotangents,
                    retain_graph=True,
                    allow_unused=True,
                    is_grads_batched=batched,
                )
            )

    # --- which samples a site's entries belong to ---------------------------------------------------------------------

    def _arranged(self, named: Sequence[tuple[str, nn.Parameter]], seed: int) -> list[Parameter]:
        """Find the axis of samples of every site, and what else uses each parameter.

        The outputs of the samples whose index has bit b set are differentiated, and those of the others: where samples
        do not act on each other, entries of the other half get exactly zero. Some bit separates any two samples.
        """
        sites = list({tap.site: None for tap in self.taps})
        leaves = [one for _, one in named]
        generator = torch.Generator().manual_seed(seed)
        random = torch.randn(self.outputs.shape, generator=generator, dtype=torch.float64).to(self.outputs)
        found = self.gradients(random[None], [*leaves, *(site.edge for site in sites)])
        direct = {id(leaf) for leaf, gradient in zip(leaves, found, strict=False) if gradient is not None}
        reached = {site for site, g in zip(sites, found[len(leaves) :], strict=True) if g is not None}
        self.taps = [tap for tap in self.taps if tap.site in reached]
        sites = [site for site in sites if site in reached]
        self.axes = self._axes(sites, random)
        of = {id(tap.constant): _leaves(tap.constant, leaves) for tap in self.taps}
        parameters = []
        for name, leaf in named:
            taps = tuple(tap for tap in self.taps if any(one is leaf for one in of[id(tap.constant)]))
            if not taps and id(leaf) not in direct:
                continue
            separate = id(leaf) not in direct and all(_separable(tap, self.axes[tap.site]) for tap in taps)
            parameters.append(Parameter(name, leaf, taps, id(leaf) in direct, separate))
        return parameters

    def _axes(self, sites: Sequence[TapSite], random: Tensor) -> dict[TapSite, Axis]:
        if self.samples == 1:
            return dict.fromkeys(sites, None)
        candidates: dict[TapSite, list[Axis]] = {site: _candidates(site.shape, self.samples) for site in sites}
        index = torch.arange(self.samples, device=random.device)
        for bit in range((self.samples - 1).bit_length()):
            for half in (0, 1):
                chosen = (index >> bit) % 2 == half
                cotangent = torch.where(chosen[:, None], random, torch.zeros_like(random))
                asked = [site for site in sites if candidates[site]]
                if not asked:
                    break
                found = self.gradients(cotangent[None], [site.edge for site in asked])
                for site, gradient in zip(asked, found, strict=True):
                    if gradient is not None:
                        candidates[site] = [a for a in candidates[site] if _vanishes(gradient[0], a, ~chosen)]
        return {site: candidates[site][0] if candidates[site] else None for site in sites}


def sample_count(batch: Any) -> int:
    """Samples of a batch: the first axis of its first tensor."""
    first = next((one for one in tensors(batch) if not one.is_nested and one.dim()), None)
    if first is None:
        raise IsometerError(
            f"batch is a {type(batch).__name__} without a tensor that has samples; expected a tensor, a tuple of "
            "positional arguments or a mapping of keyword arguments — pass torch.as_tensor(batch)"
        )
    if not first.shape[0]:
        raise IsometerError(f"batch has shape {tuple(first.shape)}; expected at least one sample — pass more")
    return int(first.shape[0])


def chosen_output(output: Any, select: Callable[[Any], Tensor] | None, samples: int) -> Tensor:
    """The tensor of outputs, samples first."""
    if select is not None:
        chosen = select(output)
        if not isinstance(chosen, Tensor) or not chosen.dim() or chosen.shape[0] != samples:
            came = f"shape {tuple(chosen.shape)}" if isinstance(chosen, Tensor) else f"a {type(chosen).__name__}"
            raise IsometerError(f"output=… gave {came}; expected a tensor whose first axis is the {samples} samples")
        return chosen
    fitting = [one for one in dense(output) if one.dim() and one.shape[0] == samples]
    if not fitting:
        shapes = ", ".join(str(tuple(one.shape)) for one in dense(output)) or f"a {type(output).__name__}"
        raise IsometerError(
            f"the model returned {shapes}; expected a floating-point tensor whose first axis is the {samples} samples "
            "— pass output=lambda found: … to pick or turn it"
        )
    return fitting[0]


def _own(tensor: Tensor) -> Tensor:
    """A copy with history: what comes of the inputs is told from what comes of parameters alone."""
    own = tensor.detach().clone()
    return own.requires_grad_().clone() if own.is_floating_point() else own


def _about_vmap(problem: RuntimeError) -> bool:
    text = str(problem)
    return any(word in text for word in ("vmap", "batching rule", "batched", "functorch"))


def _leaves(constant: Tensor, leaves: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """The parameters that a constant is calculated from."""
    if constant.is_leaf:
        return [one for one in leaves if one is constant]
    start = torch.ones_like(constant)
    found = torch.autograd.grad(constant, list(leaves), start, allow_unused=True, retain_graph=True)
    return [one for one, gradient in zip(leaves, found, strict=True) if gradient is not None]


def _candidates(shape: Sequence[int], samples: int) -> list[Axis]:
    found: list[Axis] = []
    if shape and shape[0] and shape[0] % samples == 0:
        found.append(0)
    if len(shape) > 1 and shape[1] == samples:
        found.append(1)
    return found


def arranged(tensor: Tensor, axis: Axis, samples: int, *, lead: int = 0) -> Tensor:
    """(…lead, n, m, *rest): samples in front, with whatever shares their axis or stood before it; n = 1 for no axis.

    Example:
        >>> arranged(torch.zeros(6, 5), 0, 3).shape, arranged(torch.zeros(6, 5), None, 3).shape
        (torch.Size([3, 2, 5]), torch.Size([1, 6, 5]))
    """
    if axis is None:
        return tensor.unsqueeze(lead)
    if axis == 1:
        return tensor.movedim(lead + 1, lead)
    shape = tensor.shape
    return tensor.reshape(*shape[:lead], samples, shape[lead] // samples, *shape[lead + 1 :])


def _vanishes(gradient: Tensor, axis: Axis, where: Tensor) -> bool:
    return not bool(arranged(gradient, axis, len(where))[where].any())


def _separable(tap: Tap, axis: Axis) -> bool:
    """Whether a tap's derivative can be read per sample: a constant must not have an axis of samples itself."""
    if axis is None:
        return False
    return tap.rule != "sum" or tap.aligned[axis] == 1
