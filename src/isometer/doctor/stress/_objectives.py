"""What a step minimises where the caller says little: losses by the kind of target, a teacher where there is none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from isometer.doctor.probe._tensor_trees import dense, map_tensors, tensors
from isometer.errors import IsometerError

Tensor = torch.Tensor
Loss = Callable[[Any, Any], Tensor]
_HIDDEN = 1  # features of the teacher: of several, sound networks learn too little in a few dozen steps
_MOST_OUTPUTS = 64  # numbers per sample or position that the teacher asks for
_CONSTANT_STEPS = 60
_ROUNDING = 0.02  # of log-probabilities in half precision
_FAR = (1e2, 1e3, 1e4)  # where a loss without a bottom shows


class NothingToLearn(IsometerError):
    """A model whose output has no place for targets: there is nothing to train it on."""


def own_loss(output: Any, target: Any) -> Tensor:
    """The loss that the model itself returns, as models of `transformers` do for labels."""
    value: Tensor = output.loss
    return value


def has_own_loss(output: Any) -> bool:
    """Whether an output brings its loss."""
    value = getattr(output, "loss", None)
    return isinstance(value, Tensor) and value.numel() == 1 and value.requires_grad


def usual_loss(output: Any, target: Any) -> Tensor:
    """Cross-entropy for whole numbers, mean squared error for values.

    Classes are on axis 1, or on the last axis where the target has the shape of all axes before it.

    Raises:
        IsometerError: target and output do not fit either.

    Example:
        >>> usual_loss(torch.zeros(3, 4), torch.tensor([0, 1, 2])).exp().round().item()
        4.0
        >>> usual_loss(torch.zeros(3, 1), torch.ones(3)).item()
        1.0
    """
    found = getattr(output, "logits", output)
    found = found if isinstance(found, Tensor) else next(iter(dense(found)), None)
    if isinstance(found, Tensor) and isinstance(target, Tensor):
        if target.is_floating_point() and _same_places(found.shape, target.shape):
            return functional.mse_loss(found, target.reshape(found.shape))
        whole = not target.is_floating_point() and target.dtype is not torch.bool and found.dim() > 1
        if whole and found.shape[-1] > 1 and target.shape == found.shape[:-1]:
            return functional.cross_entropy(found.reshape(-1, found.shape[-1]), target.reshape(-1).long())
        if whole and found.shape[1] > 1 and target.shape == (found.shape[0], *found.shape[2:]):
            return functional.cross_entropy(found, target.long())
    came = f"of shape {tuple(target.shape)}" if isinstance(target, Tensor) else f"a {type(target).__name__}"
    shape = f"of shape {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(output).__name__}"
    raise IsometerError(
        f"the target is {came} and the output {shape}; expected class numbers or values that fit — pass loss="
    )


def _same_places(found: torch.Size, target: torch.Size) -> bool:
    """Whether values of two shapes belong together: axes of size 1 apart, or with all but the samples in a row."""
    if found.numel() != target.numel():
        return False
    flat = min(len(found), len(target)) <= 2 and found[:1] == target[:1]
    return flat or [size for size in found if size != 1] == [size for size in target if size != 1]


class Teacher:
    """A random linear function of the input, to be learned where there are no labels.

    It has the shape of the model's first output (at most 64 numbers per sample or position) and unit variance on the
    batch it was made from.

    Args:
        inputs: a batch.
        output: what the model returns for it.
        seed: seed of the function.

    Example:
        >>> x = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))
        >>> teacher = Teacher(x, torch.zeros(8, 3), seed=0)
        >>> y = teacher(x)
        >>> y.shape, round(y.std(correction=0).item(), 3)
        (torch.Size([8, 3]), 1.0)
        >>> torch.allclose(teacher(2 * x) - y, y - teacher(0 * x), atol=1e-5)
        True
    """

    def __init__(self, inputs: Any, output: Any, *, seed: int) -> None:
        source = self._source(inputs)
        first = self._answers(output)
        self._seed = seed
        self._per_token = first.shape[0] != len(source) and first.shape[0] == source.shape[:2].numel()
        self._positions = self._per_token or (first.dim() > 2 and source.shape[1:2] == first.shape[1:2])
        if not self._per_token and first.shape[0] != len(source):
            raise NothingToLearn(
                f"the model returns {first.shape[0]} rows for {len(source)} samples; expected one row per "
                "sample — pass target= and loss="
            )
        self._count = min(_MOST_OUTPUTS, first[(0,) * (2 if self._positions and not self._per_token else 1)].numel())
        self._mean, self._scale = 0.0, 1.0
        raw = self(inputs)
        self._mean, self._scale = float(raw.mean()), max(float(raw.std(correction=0)), 1e-12)

    @staticmethod
    def _source(inputs: Any) -> Tensor:
        found = [t for t in tensors(inputs) if t.dim() and t.numel() and not t.is_nested]
        found = [t for t in found if t.dtype is not torch.bool] or found
        if not found:
            raise NothingToLearn("the model takes no tensor with samples; expected one to learn from — pass target=")
        source = max(found, key=Tensor.numel).detach()
        source = torch.view_as_real(source) if source.is_complex() else source
        return source.to_dense() if source.layout is not torch.strided else source

    @staticmethod
    def _answers(output: Any) -> Tensor:
        """What is to become the target: the first output with samples, those with features before those without."""
        found = [t for t in dense(output) if t.dim()]
        first = next((t for t in found if t.dim() > 1), next(iter(found), None))
        if first is None:
            raise NothingToLearn(
                "the model returns no tensor of floating point with samples; expected one to "
                "learn — pass target= and loss="
            )
        return first

    def _features(self, inputs: Any) -> Tensor:
        source = self._source(inputs)
        generator = torch.Generator().manual_seed(self._seed)
        axes = 2 if self._positions else 1  # of what the features belong to
        if not source.is_floating_point():  # tokens: a random vector for each
            table = torch.randn(4093, _HIDDEN, generator=generator, dtype=torch.float32)
            found = table[source.long().cpu() % 4093]
            if source.dim() <= axes:
                return found
            return found.flatten(axes, -2).sum(axes) / math.sqrt(source[(0,) * axes].numel())
        rows = _averaged(source.float().cpu().nan_to_num(0.0, 0.0, 0.0).unsqueeze(-1), axes)
        mix = torch.randn(rows.shape[-1], _HIDDEN, generator=generator, dtype=torch.float32)
        return rows @ mix / math.sqrt(rows.shape[-1])

    def __call__(self, inputs: Any) -> Tensor:
        """The targets of a batch."""
        features = self._features(inputs)
        generator = torch.Generator().manual_seed(self._seed + 1)
        mix = torch.randn(_HIDDEN, self._count, generator=generator, dtype=torch.float32)
        mixed = features @ mix / math.sqrt(_HIDDEN)
        mixed = mixed.flatten(0, 1) if self._per_token else mixed
        return (mixed - self._mean) / self._scale

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Mean squared error of the outputs that are requested."""
        first = self._answers(output).unsqueeze(-1)
        found = first.flatten(target.dim() - 1)[..., : target.shape[-1]]
        return functional.mse_loss(found.float(), target.to(found.device))


def _averaged(rows: Tensor, axes: int) -> Tensor:
    """Rows of features: channels, averaged over places, since many networks pool; the shorter axis counts as channels.

    Example:
        >>> _averaged(torch.ones(2, 3, 8, 8, 1), 1).shape, _averaged(torch.ones(2, 7, 1), 1).shape
        (torch.Size([2, 3]), torch.Size([2, 7]))
    """
    rest = [axis for axis in range(axes, rows.dim()) if rows.shape[axis] > 1]
    if len(rest) < 2:
        return rows.flatten(axes)
    kept = min((rest[0], rest[-1]), key=lambda axis: rows.shape[axis])
    return rows.mean([axis for axis in rest if axis != kept]).flatten(axes)


def best_constant(loss: Loss, output: Any, targets: Sequence[Any], *, samples: int) -> float:
    """Loss of the best answer that does not depend on the input: chance.

    The constant may vary along one axis of each output, that of the classes; which axis that is, the loss decides. It
    may vary along all where there are ten times as many samples as numbers on the second and on the last axis: what a
    model says of a position without looking at the input is chance too.

    Args:
        loss: of output and target.
        output: what the model returns for one batch.
        targets: of some batches, all like the first.
        samples: in all of them.

    Returns:
        The loss; minus infinity if it falls without end; nan where the loss takes no such answer.

    Example:
        >>> labels, values = torch.tensor([0, 0, 0, 1]), torch.tensor([[1.0], [3.0]])
        >>> round(best_constant(functional.cross_entropy, torch.zeros(4, 2), [labels], samples=4), 4)
        0.5623
        >>> round(best_constant(functional.mse_loss, torch.zeros(2, 1), [values], samples=2), 4)
        1.0
        >>> best_constant(lambda y, t: -functional.mse_loss(y, t), torch.zeros(2, 1), [torch.ones(2, 1)], samples=2)
        -inf
    """
    return best_answer(loss, output, targets, samples=samples).loss


@dataclass(frozen=True, eq=False)
class ConstantAnswer:
    """The best answer that does not depend on the input.

    Attributes:
        loss: of it, on all targets that it was found with; nan where the loss takes no such answer.
        on: its loss on one target.
    """

    loss: float
    on: Callable[[Any], float]


def best_answer(loss: Loss, output: Any, targets: Sequence[Any], *, samples: int) -> ConstantAnswer:
    """The answer that `best_constant` tells the loss of; arguments as there."""
    last = max((t.dim() for t in dense(output)), default=1) - 1
    widest = max((max(t.shape[1], t.shape[-1]) for t in dense(output) if t.dim() > 1), default=1)
    axes: list[int | None] = [*sorted({1, last})]
    if last > 1 and samples >= 10 * widest:
        axes.append(None)
    found = [_constant_along(loss, output, targets, axis) for axis in axes]
    known = [one for one in found if not math.isnan(one.loss)]
    return min(known, key=lambda one: one.loss, default=ConstantAnswer(math.nan, lambda target: math.nan))


def _constant_along(loss: Loss, output: Any, targets: Sequence[Any], axis: int | None) -> ConstantAnswer:
    """With a constant that varies along one axis, or along all but that of the samples."""

    def varies(place: int, axes: int) -> bool:
        return place > 0 and (axis is None or place == min(axis, axes - 1))

    shapes = {
        id(t): [size if varies(place, t.dim()) else 1 for place, size in enumerate(t.shape)] for t in dense(output)
    }
    free = {key: torch.zeros(shape, requires_grad=True) for key, shape in shapes.items()}
    probabilities = {id(t): _axis_of_log_probabilities(t) for t in dense(output)}

    def one(tensor: Tensor) -> Tensor:
        if id(tensor) not in free:
            return tensor
        found = free[id(tensor)].expand(tensor.shape)
        along = probabilities[id(tensor)]
        return (found if along is None else found.log_softmax(along)).to(tensor)

    def value() -> Tensor:
        return torch.stack([loss(map_tensors(one, output), target).float().reshape(()) for target in targets]).mean()

    parts = list(free.values())
    solver = torch.optim.LBFGS(parts, max_iter=_CONSTANT_STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        found = value()
        # Not backward(): the loss may hold parameters, whose gradients are the caller's.
        for part, gradient in zip(parts, torch.autograd.grad(found, parts, allow_unused=True), strict=True):
            part.grad = gradient
        return found

    try:
        start = float(value().detach())
        solved = _solved(solver, closure)
        end = float(value().detach()) if solved else math.nan
        if not math.isfinite(end):
            end = start
            for part in parts:
                part.data.zero_()
        solution = [part.detach().clone() for part in parts]
        if _falls_on(value, parts, end):
            return ConstantAnswer(-math.inf, lambda target: -math.inf)
    except Exception:  # a loss may refuse constants in any way it likes
        return ConstantAnswer(math.nan, lambda target: math.nan)

    def on(target: Any) -> float:
        with torch.no_grad():
            for part, known in zip(parts, solution, strict=True):
                part.copy_(known)
            return float(loss(map_tensors(one, output), target))

    return ConstantAnswer(min(start, end) if solved else math.nan, on)


def _solved(solver: torch.optim.LBFGS, closure: Callable[[], Tensor]) -> bool:
    try:
        solver.step(closure)  # type: ignore[no-untyped-call]
    except Exception:  # of the loss, or of a line search that finds no bottom
        return False
    return True


def _axis_of_log_probabilities(output: Tensor) -> int | None:
    """The axis along which exponentials sum to 1, as a log-softmax makes them: then so must those of an answer."""
    for axis in sorted({1, output.dim() - 1} - {0, -1}):
        if output.dim() > 1 and output.shape[axis] > 1:
            sums = output.detach().float().logsumexp(axis)
            if bool((sums.abs() < _ROUNDING).all()):
                return axis
    return None


def _falls_on(value: Callable[[], Tensor], free: Sequence[Tensor], end: float) -> bool:
    """Whether the loss falls ever further as the answer grows in some direction: towards a bottom it falls less."""
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(part.shape, generator=generator) for part in free]
    base = [part.detach().clone() for part in free]
    with torch.no_grad():
        for directions in (drawn, [-one for one in drawn]):
            found = [end]
            for size in _FAR:
                for part, middle, direction in zip(free, base, directions, strict=True):
                    part.copy_(middle + size * direction)
                found.append(float(value()))
            falls = [before - after for before, after in itertools.pairwise(found)]
            if 0 < falls[0] < falls[1] < falls[2]:
                return True
    return False
