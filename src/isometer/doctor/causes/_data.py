"""Inputs, targets and losses whose units, offsets or values keep a network from learning, and what puts them right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isometer.doctor.causes._repair import INPUT, LOSS, TARGETS, Repair
from isometer.doctor.probe._tensor_trees import dense, map_tensors, tensors
from isometer.doctor.stress._objectives import Loss, usual_loss

Tensor = torch.Tensor
_UNITS = (0.05, 20.0)  # standard deviations that networks are used to
_OFFSET = 3.0  # means, in standard deviations
_OUTLIER = 10.0  # times the middle feature
_ROWS = 2048
_FAR = 20.0  # standard deviations at which single values are cut
_LOSS_SIZE = 1.2  # decades between a loss and the usual one; sums over small batches are within


def input_repairs(batches: Sequence[Any]) -> list[Repair]:
    """What is odd about inputs, put right on their way into the model: at most one repair.

    Args:
        batches: inputs of some batches.

    Example:
        >>> x = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
        >>> input_repairs([x])
        []
        >>> [one.evidence for one in input_repairs([x + 100])]
        ['the inputs have mean 1e+02 and standard deviation 0.92']
    """
    pooled = _pooled(batches)
    fits = [_fit(values) for values in pooled]
    if all(one is None for one in fits):
        return []
    deviation = max(one.deviation for one in fits if one is not None)
    words = "; ".join(one.words for one in fits if one is not None)
    advice = "Standardise the inputs: subtract the mean, divide by the standard deviation, replace what is not finite."
    return [Repair("input", (INPUT,), advice, words, deviation, _Standardise(tuple(fits)))]


def same_for_all(batches: Sequence[Any]) -> str:
    """Why inputs tell nothing, in words; empty if samples differ.

    Example:
        >>> same_for_all([torch.ones(8, 3)])
        'all samples of a batch have the same input'
        >>> same_for_all([torch.eye(8)])
        ''
    """
    alike = [_distinct(inputs) for inputs in batches]
    known = [one for one in alike if one is not None]
    if not known:
        return ""
    if all(distinct == 1 and rows > 1 for distinct, rows in known):
        return "all samples of a batch have the same input"
    if all(distinct <= rows / 4 for distinct, rows in known):
        distinct, rows = known[0]
        return f"only {distinct} of {rows} samples of a batch are distinct"
    return ""


def _distinct(inputs: Any) -> tuple[int, int] | None:
    """How many different samples a batch has, and how many."""
    parts = [t for t in tensors(inputs) if t.dim() and t.layout is torch.strided and not t.is_nested]
    if not parts or any(len(t) != len(parts[0]) for t in parts) or len(parts[0]) < 4:
        return None
    rows = torch.cat([t.detach().reshape(len(t), -1).double() for t in parts], dim=1).nan_to_num()
    return len(torch.unique(rows, dim=0)), len(rows)


@dataclass(frozen=True, eq=False)
class _Fit:
    """How values become standard ones, and what was odd."""

    mean: float
    scale: float
    features: Tensor | None  # factors of the features on the last axis
    deviation: float
    words: str

    def __call__(self, values: Tensor) -> Tensor:
        found = values.nan_to_num(self.mean, self.mean, self.mean)
        if self.features is not None:
            found = found * self.features.to(found)
        return ((found - self.mean) / self.scale).clamp(-_FAR, _FAR)


@dataclass(frozen=True, eq=False)
class _Standardise:
    """Have a model's floating point inputs standardised on their way in."""

    fits: tuple[_Fit | None, ...]

    def __call__(self, model: nn.Module) -> None:
        model.register_forward_pre_hook(self._before, with_kwargs=True, prepend=True)

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        remaining = iter(self.fits)

        def one(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point():
                return tensor
            fit = next(remaining, None)
            return tensor if fit is None else fit(tensor)

        changed: tuple[Any, Any] = map_tensors(one, (args, kwargs))
        return changed


def _pooled(batches: Sequence[Any]) -> list[Tensor]:
    """The floating point tensors of the inputs, each over some batches."""
    parts = [
        [t.detach() for t in tensors(one) if t.is_floating_point() and t.layout is torch.strided and not t.is_nested]
        for one in batches
    ]
    parts = [one for one in parts if [t.shape[1:] for t in one] == [t.shape[1:] for t in parts[0]]]
    return [torch.cat([t.reshape(-1, *t.shape[1:]) for t in same])[:_ROWS] for same in zip(*parts, strict=False)]


def _fit(values: Tensor) -> _Fit | None:
    """How to put values right, `None` where nothing is odd."""
    rows = values.double().reshape(-1, values.shape[-1] if values.dim() > 1 else 1)
    finite = rows.isfinite()
    if not rows.numel() or not bool(finite.any()):
        return None
    odd: list[tuple[float, str]] = []
    lost = 1 - float(finite.double().mean())
    if lost:
        odd.append((4.0, f"{lost:.2g} of the input values are not finite"))
        rows = torch.where(finite, rows, rows[finite].mean())
    factors = None
    # A feature may stand out by its mean: the edge of a picture is the same in all of them.
    features = (rows - rows.mean(dim=0).median()).square().mean(dim=0).sqrt()
    middle = float(features[features > 0].median()) if bool((features > 0).any()) else 0.0
    if rows.shape[1] > 2 and middle > 0 and (largest := float(features.max()) / middle) > _OUTLIER:
        odd.append((2 * math.log10(largest / _OUTLIER) + 1, f"one input feature is {largest:.2g} times as large"))
        factors = torch.where(features > _OUTLIER * middle, middle / features.clamp_min(1e-300), 1.0)
        rows = rows * factors
    mean, scale = float(rows.mean()), float(rows.std(correction=0))
    if scale <= 0:
        return None  # nothing but a constant: no units to put right
    told = f"the inputs have mean {mean:.2g} and standard deviation {scale:.2g}"
    offset = abs(mean) / scale
    if offset > _OFFSET:
        odd.append((2 * math.log10(offset / _OFFSET) + 1, told))
    units = max(math.log10(scale / _UNITS[1]), math.log10(_UNITS[0] / scale))
    if units > 0:
        odd.append((2 * units + 1, told))
    if not odd:
        return None
    if offset <= _OFFSET and units <= 0:
        mean, scale = 0.0, 1.0  # units that are fine stay
    words = "; ".join(dict.fromkeys(text for _, text in odd))
    return _Fit(mean, scale, None if factors is None else factors.float(), max(size for size, _ in odd), words)


def target_repairs(targets: Sequence[Any], output: Any, loss: Loss = usual_loss) -> list[Repair]:
    """What is odd about the targets of a regression, put right behind the model: at most one repair.

    Args:
        targets: of some batches.
        output: what the model returns for one.
        loss: of output and target; its units are those of the targets.

    Example:
        >>> target_repairs([1000 + torch.randn(64, 1)], torch.zeros(64, 1))[0].modules
        ('targets',)
        >>> target_repairs([torch.randn(64, 1)], torch.zeros(64, 1))
        []
    """
    values = [t for target in targets for t in tensors(target) if t.is_floating_point()]
    answers = [t for t in dense(output) if t.dim()]
    if not values or len(answers) != 1 or values[0].numel() != answers[0].numel():
        return []
    pooled = torch.cat([t.detach().double().flatten() for t in values])
    if not bool(pooled.isfinite().all()):
        return []
    mean, scale = float(pooled.mean()), float(pooled.std(correction=0))
    if scale <= 0:
        return []
    offset = math.log10(max(abs(mean) / scale, 1e-9) / _OFFSET)
    units = max(math.log10(scale / _UNITS[1]), math.log10(_UNITS[0] / scale))
    if max(offset, units) <= 0:
        return []
    words = f"the targets have mean {mean:.2g} and standard deviation {scale:.2g}"
    change = InUnits(mean, scale, _standard_loss(loss, targets[0], output, mean, scale))
    advice = "Standardise the targets, or initialise the readout so that it returns their mean and scale."
    return [Repair("targets", (TARGETS,), advice, words, 2 * max(offset, units) + 1, change)]


def _standard_loss(loss: Loss, target: Any, output: Any, mean: float, scale: float) -> float:
    """How many times as large a loss is once targets are standardised; 1 where that cannot be said."""

    def constant(value: float) -> Any:
        return map_tensors(lambda one: torch.full_like(one, value) if one.is_floating_point() else one, output)

    standard = map_tensors(lambda one: (one - mean) / scale if one.is_floating_point() else one, target)
    try:
        with torch.no_grad():
            size = float(loss(constant(0.0), standard)) / float(loss(constant(mean), target))
    except Exception:  # a loss of the caller's own, of which nothing is known
        return 1.0
    return size if 0 < size < math.inf else 1.0


@dataclass(frozen=True)
class InUnits:
    """Have a model's output multiplied and shifted into the units of the targets, and trained as without units.

    The loss has units too: a squared error of targets that are a hundredth as large has gradients a ten-thousandth as
    large, for which the usual rates of SGD are far too small.

    Attributes:
        mean: of the targets.
        scale: their standard deviation.
        loss: factor of the gradients, the loss of standardised targets over that of these.
    """

    mean: float
    scale: float
    loss: float = 1.0

    def __call__(self, model: nn.Module) -> None:
        model.register_forward_hook(self._after)

    def _after(self, module: nn.Module, args: Any, output: Any) -> Any:
        def one(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point():
                return tensor
            return _with_gradients(self.mean + self.scale * tensor, self.loss)

        return map_tensors(one, output)


def _with_gradients(tensor: Tensor, factor: float) -> Tensor:
    """The same values, with gradients times a factor."""
    if not tensor.requires_grad or factor == 1:
        return tensor
    found = tensor.view_as(tensor)  # hooks of the model's own tensors stay as they are
    found.register_hook(lambda gradient: factor * gradient)  # type: ignore[no-untyped-call]
    return found


def loss_repairs(loss: Loss, target: Any, output: Any) -> list[Repair]:
    """A loss of another size than the usual one for such targets, put right: at most one repair.

    Both are taken of an output of zeros. What is compared is only the size: a sum in place of a mean, a forgotten or
    doubled division, a weight of 1e-8.

    Args:
        loss: of output and target.
        target: of one batch.
        output: what the model returns for it.

    Example:
        >>> labels = torch.tensor([0, 1, 2])
        >>> tiny = loss_repairs(lambda y, t: 1e-4 * nn.functional.cross_entropy(y, t), labels, torch.randn(3, 4))
        >>> tiny[0].evidence, f"{tiny[0].change.factor:.3g}"
        ('the loss is 0.0001 times the usual one', '1e+04')
        >>> loss_repairs(nn.functional.cross_entropy, labels, torch.randn(3, 4))
        []
    """
    zeros = map_tensors(lambda one: torch.zeros_like(one) if one.is_floating_point() else one, output)
    try:
        with torch.no_grad():
            size = float(loss(zeros, target)) / float(usual_loss(zeros, target))
    except Exception:  # a loss of the caller's own, of which nothing is known
        return []
    if not 0 < size < math.inf or abs(math.log10(size)) <= _LOSS_SIZE:
        return []
    advice = f"Multiply the loss by {1 / size:.3g}, or the learning rate of SGD."
    words = f"the loss is {size:.2g} times the usual one"
    return [Repair("loss", (LOSS,), advice, words, abs(math.log10(size)), ScaledLoss(1 / size))]


@dataclass(frozen=True)
class ScaledLoss:
    """Have a model trained as if its loss were so many times as large: by the gradients that reach its output.

    Attributes:
        factor: factor of the loss.
    """

    factor: float

    def __call__(self, model: nn.Module) -> None:
        model.register_forward_hook(self._after)

    def _after(self, module: nn.Module, args: Any, output: Any) -> Any:
        return map_tensors(lambda one: _with_gradients(one, self.factor), output)
