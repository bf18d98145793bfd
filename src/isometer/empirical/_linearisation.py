"""A model at its parameters and a batch: the outputs, and products of cotangents with the Jacobian, tap by tap."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from isometer.doctor.probe._calling import call
from isometer.doctor.probe._tensor_trees import dense, map_tensors, tensors
from isometer.empirical._taps import Tap, Tapping, TapSite
from isometer.errors import IsometerError

Tensor = torch.Tensor
_NUMBERS = 1 << 26  # of derivatives at a time while the axes of samples are looked for
_STACKED = 1 << 24  # numbers in a stack of derivatives; larger ones are no faster
_DIGITS = 32  # powers of two that mark samples, from 2⁻¹⁶ on: a range that float32 has room for
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
        select: selects the output from what the model returns; the first tensor with samples by default.
        tapped: whether uses of parameters are tapped; otherwise autograd gives every derivative whole.

    Attributes:
        outputs: (samples, outputs).
        shape: shape of one sample's output.
        parameters: those that are trained and reach the outputs.
    """

    def __init__(
        self, model: nn.Module, batch: Any, select: Callable[[Any], Tensor] | None, *, tapped: bool, seed: int = 0
    ) -> None:
        self.samples = sample_count(batch)
        named = trained_parameters(model)
        inputs = map_tensors(_own, batch)
        mode = Tapping([one for _, one in named], tensors(inputs)) if tapped else None
        with mode or nullcontext():
            output = call(model, inputs)
        chosen = _differentiable(chosen_output(output, select, self.samples))
        self.shape = chosen.shape[1:]
        self.outputs = chosen.reshape(self.samples, -1)
        self.width = self.outputs.shape[1]
        self.taps = [] if mode is None else mode.taps
        self.site_numbers = sum(math.prod(site.shape) for site in {tap.site for tap in self.taps})
        self._stack = _STACKED // max(1, self.site_numbers or sum(one.numel() for _, one in named))
        self.axes: dict[TapSite, Axis] = {}
        self.parameters = self._arranged(named, seed)
        self.pass_flops = sum(2.0 * math.prod(tap.site.shape) * tap.width for tap in self.taps) or 2.0 * sum(
            one.numel() for _, one in named
        )

    def gradients(self, cotangents: Tensor, sources: Sequence[Any]) -> list[Tensor | None]:
        """Derivatives of ⟨cotangent, outputs⟩ for a stack of cotangents, by some tensors or edges.

        Args:
            cotangents: (k, samples, outputs).
            sources: tensors, or edges of the graph.

        Returns:
            (k, *shape) for each source; None where the outputs do not depend on it.
        """
        if self._stack > 1 and len(cotangents) > 1:
            try:
                return _together(
                    torch.split(cotangents, self._stack), lambda part: self._grad(part, sources, batched=True)
                )
            except RuntimeError as problem:
                if not _about_vmap(problem):
                    raise
                self._stack = 1  # an operation without a rule for stacks of cotangents

        def alone(cotangent: Tensor) -> list[Tensor | None]:
            return [None if one is None else one[None] for one in self._grad(cotangent[0], sources, batched=False)]

        return _together(torch.split(cotangents, 1), alone)

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
        """Find the axis of samples of every site, and what else uses each parameter."""
        sites = list({tap.site: None for tap in self.taps})
        leaves = [one for _, one in named]
        generator = torch.Generator().manual_seed(seed)
        random = torch.randn(self.outputs.shape, generator=generator, dtype=torch.float64).to(self.outputs)
        found = self.gradients(random[None], [*leaves, *(site.edge for site in sites)])
        direct = {id(leaf) for leaf, one in zip(leaves, found, strict=False) if one is not None}
        reached = {site: one[0] for site, one in zip(sites, found[len(leaves) :], strict=True) if one is not None}
        del found
        self.axes = dict.fromkeys(reached)
        if self.samples > 1 and reached:
            self.axes |= self._axes_by_scale(reached, random)
            doubtful = [site for site, axis in self.axes.items() if axis is None]
            reached.clear()
            self.axes |= self._axes_by_sets(doubtful, random)
        self.taps = [tap for tap in self.taps if tap.site in self.axes]
        constants = {id(tap.constant): tap.constant for tap in self.taps}
        of = {key: set(map(id, _leaves(one, leaves))) for key, one in constants.items()}
        parameters = []
        for name, leaf in named:
            taps = tuple(tap for tap in self.taps if id(leaf) in of[id(tap.constant)])
            if not taps and id(leaf) not in direct:
                continue
            separate = id(leaf) not in direct and all(_separable(tap, self.axes[tap.site]) for tap in taps)
            parameters.append(Parameter(name, leaf, taps, id(leaf) in direct, separate))
        return parameters

    def _axes_by_scale(self, found: Mapping[TapSite, Tensor], random: Tensor) -> dict[TapSite, Axis]:
        """Multiply each sample's cotangent by a power of two: where samples do not act on each other, the derivatives
        of each grow by exactly that factor. A pass tells samples of different powers apart, so few passes are enough.
        """
        candidates = {site: _candidates(site.shape, self.samples) for site in found}
        for scales in sample_scales(self.samples).to(random):
            left = [site for site in found if candidates[site]]
            again = self.gradients((random * scales[:, None])[None], [site.edge for site in left])
            for site, one in zip(left, again, strict=True):
                assert one is not None
                candidates[site] = [axis for axis in candidates[site] if _grows(found[site], one[0], axis, scales)]
        return {site: axes[0] if axes else None for site, axes in candidates.items()}

    def _axes_by_sets(self, sites: Sequence[TapSite], random: Tensor) -> dict[TapSite, Axis]:
        """The outputs of some of the samples are differentiated: where samples do not act on each other, entries of the
        rest get exactly zero. For any two samples i and j some set holds i and not j.
        """
        candidates = {site: found for site in sites if (found := _candidates(site.shape, self.samples))}
        room = max(1, _NUMBERS // (1 + sum(math.prod(site.shape) for site in candidates)))
        for part in torch.split(separating_sets(self.samples).to(random.device), room):
            left = [site for site, axes in candidates.items() if axes]
            if not left:
                break
            cotangents = torch.where(part[:, :, None], random, torch.zeros_like(random))
            for site, one in zip(left, self.gradients(cotangents, [site.edge for site in left]), strict=True):
                assert one is not None
                candidates[site] = [axis for axis in candidates[site] if _vanishes(one, axis, ~part)]
        return {site: axes[0] if axes else None for site, axes in candidates.items()}


def sample_scales(samples: int) -> Tensor:
    """Powers of two (passes, samples): any two samples have different ones in some pass.

    Example:
        >>> (sample_scales(4) * 2**16).tolist(), sample_scales(100).shape
        ([[1.0, 2.0, 4.0, 8.0]], torch.Size([2, 100]))
    """
    index = torch.arange(samples)
    digits: list[Tensor] = []
    while not digits or index.any():
        digits.append(index % _DIGITS)
        index = index // _DIGITS
    return 2.0 ** (torch.stack(digits) - _DIGITS // 2).double()


def separating_sets(samples: int) -> Tensor:
    """Sets of samples (sets, samples) of which, for any two samples, one holds the first and not the second.

    Each sample is in a different half of the sets, and no half contains another: about log₂ n + ½ log₂ log₂ n sets.

    Example:
        >>> separating_sets(6).int().T.tolist()
        [[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1]]
    """
    if samples == 1:
        return torch.ones(1, 1, dtype=torch.bool)
    sets = next(m for m in itertools.count(2) if math.comb(m, m // 2) >= samples)
    found = torch.zeros(sets, samples, dtype=torch.bool)
    for sample, members in zip(range(samples), itertools.combinations(range(sets), sets // 2), strict=False):
        found[list(members), sample] = True
    return found


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


def trained_parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Those with `requires_grad`, with their names; at least one."""
    named = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
    if not named:
        raise IsometerError(
            "the model has no parameter with requires_grad; expected some that are trained — unfreeze them"
        )
    return named


def plain_outputs(model: nn.Module, batch: Any, select: Callable[[Any], Tensor] | None) -> Tensor:
    """(samples, outputs) of one pass without taps, with its graph."""
    samples = sample_count(batch)
    found = call(model, map_tensors(_own, batch))
    return _differentiable(chosen_output(found, select, samples)).reshape(samples, -1)


def chosen_output(output: Any, select: Callable[[Any], Tensor] | None, samples: int) -> Tensor:
    """The tensor of outputs, samples first."""
    if select is not None:
        chosen = select(output)
        if not isinstance(chosen, Tensor) or not chosen.dim() or chosen.shape[0] != samples:
            came = f"shape {tuple(chosen.shape)}" if isinstance(chosen, Tensor) else f"a {type(chosen).__name__}"
            raise IsometerError(
                f"output=… returned {came}; expected a tensor whose first axis is the {samples} samples"
            )
        return chosen
    fitting = [one for one in dense(output) if one.dim() and one.shape[0] == samples]
    if not fitting:
        shapes = ", ".join(str(tuple(one.shape)) for one in dense(output)) or f"a {type(output).__name__}"
        raise IsometerError(
            f"the model returned {shapes}; expected a floating-point tensor whose first axis is the {samples} samples "
            "— pass output=lambda found: … to pick or reshape it"
        )
    return fitting[0]


def _differentiable(output: Tensor) -> Tensor:
    if not output.requires_grad:
        raise IsometerError(
            "the output has no derivative with respect to the parameters; expected one that depends on them — pass "
            "output=… to pick another, and leave out torch.no_grad in the model"
        )
    return output


def _own(tensor: Tensor) -> Tensor:
    """A copy with history: what comes of the inputs is told from what comes of parameters alone."""
    own = tensor.detach().clone()
    return own.requires_grad_().clone() if own.is_floating_point() else own


def _together(parts: Sequence[Tensor], derive: Callable[[Tensor], list[Tensor | None]]) -> list[Tensor | None]:
    """Stacks of derivatives from the derivatives of parts of the stack."""
    if len(parts) == 1:
        return derive(parts[0])
    stacks: list[Tensor | None] = []
    place = 0
    for part in parts:
        found = derive(part)
        if not place:
            count = sum(map(len, parts))
            stacks = [None if one is None else one.new_empty(count, *one.shape[1:]) for one in found]
        for stack, one in zip(stacks, found, strict=True):
            if stack is not None and one is not None:
                stack[place : place + len(part)] = one
        place += len(part)
    return stacks


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
    """Whether a stack of derivatives is zero at some samples: (k, *site) and (k, samples)."""
    return not bool(arranged(gradient, axis, where.shape[1], lead=1)[where].any())


def _grows(before: Tensor, after: Tensor, axis: Axis, scales: Tensor) -> bool:
    """Whether the derivatives of every sample are exactly those before times its scale."""
    first, second = (arranged(one, axis, len(scales)) for one in (before, after))
    return torch.equal(first * scales.reshape(-1, *[1] * (first.dim() - 1)), second)


def _separable(tap: Tap, axis: Axis) -> bool:
    """Whether a tap's derivative can be read per sample: a constant must not have an axis of samples itself."""
    if axis is None:
        return False
    return tap.rule != "sum" or tap.aligned[axis] == 1
