"""What a step minimises where the caller says little: losses by the kind of target, a teacher where there is none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from isometer.doctor.probe._tensor_trees import dense, map_tensors, tensors
from isometer.errors import IsometerError

Tensor = torch.Tensor
Loss = Callable[[Any, Any], Tensor]
_HIDDEN = 16  # features of the teacher
_MOST_OUTPUTS = 64  # numbers per sample or position that the teacher asks for
_CONSTANT_STEPS = 60
_FAR = (1e2, 1e3, 1e4)  # where a loss without a bottom shows


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
        if target.is_floating_point() and target.numel() == found.numel():
            return functional.mse_loss(found, target.reshape(found.shape))
        whole = not target.is_floating_point() and target.dtype is not torch.bool
        if whole and found.dim() > 1 and target.shape == found.shape[:-1]:
            return functional.cross_entropy(found.reshape(-1, found.shape[-1]), target.reshape(-1).long())
        if whole and found.dim() > 1 and target.shape == (found.shape[0], *found.shape[2:]):
            return functional.cross_entropy(found, target.long())
    came = f"of shape {tuple(target.shape)}" if isinstance(target, Tensor) else f"a {type(target).__name__}"
    shape = f"of shape {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(output).__name__}"
    raise IsometerError(
        f"the target is {came} and the output {shape}; expected class numbers or values that fit — pass loss="
    )


class Teacher:
    """A random linear function of the input, to be learned where there are no labels.

    It has the shape of the model's first output (at most 64 numbers per sample or position) and unit variance on the
    batch it was made from.

    Args:
        inputs: a batch.
        output: what the model returns for it.
        seed: of the function.

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
        first = next((t for t in dense(output) if t.dim() > 1), None)
        if first is None:
            raise IsometerError(
                "the model returns no tensor of floating point with samples; expected one to learn — pass target= and "
                "loss="
            )
        self._seed, self._shape = seed, tuple(first.shape)
        self._positions = first.dim() > 2 and self._source(inputs).shape[1:2] == first.shape[1:2]
        self._mean, self._scale = 0.0, 1.0
        raw = self(inputs)
        self._mean, self._scale = float(raw.mean()), max(float(raw.std(correction=0)), 1e-12)

    @staticmethod
    def _source(inputs: Any) -> Tensor:
        found = [t for t in tensors(inputs) if t.dim() and t.dtype is not torch.bool]
        return max(found, key=Tensor.numel)

    def _features(self, inputs: Any) -> Tensor:
        source = self._source(inputs).detach()
        generator = torch.Generator().manual_seed(self._seed)
        if not source.is_floating_point():  # tokens: a random vector for each
            table = torch.randn(4093, _HIDDEN, generator=generator)
            found = table[source.long().cpu() % 4093]
            return found if self._positions else found.flatten(1, -2).sum(1) / math.sqrt(max(1, source[0].numel()))
        rows = source.float().cpu().flatten(2 if self._positions else 1)
        rows = rows.nan_to_num(0.0, 0.0, 0.0)
        return rows @ torch.randn(rows.shape[-1], _HIDDEN, generator=generator) / math.sqrt(rows.shape[-1])

    def __call__(self, inputs: Any) -> Tensor:
        """The targets of a batch."""
        features = self._features(inputs)
        wanted = self._shape[2:] if self._positions else self._shape[1:]
        count = min(_MOST_OUTPUTS, math.prod(wanted))
        generator = torch.Generator().manual_seed(self._seed + 1)
        mixed = features @ torch.randn(_HIDDEN, count, generator=generator) / math.sqrt(_HIDDEN)
        return (mixed - self._mean) / self._scale

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Mean squared error of the outputs that are asked for."""
        first = next(t for t in dense(output) if t.dim() > 1)
        found = first.flatten(2 if self._positions else 1)[..., : target.shape[-1]]
        return functional.mse_loss(found.float(), target.to(found.device))


def best_constant(loss: Loss, output: Any, targets: Sequence[Any], *, samples: int) -> float:
    """Loss of the best answer that does not depend on the input: chance.

    The constant may vary along one axis of each output, that of the classes; which axis that is, the loss decides. It
    may vary along all where there are ten times as many samples as numbers on the last axis: what a model says of a
    position without looking at the input is chance too.

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
    last = max((t.dim() for t in dense(output)), default=1) - 1
    widest = max((t.shape[-1] for t in dense(output) if t.dim() > 1), default=1)
    axes: list[int | None] = [*sorted({1, last})]
    if last > 1 and samples >= 10 * widest:
        axes.append(None)
    found = [_constant_along(loss, output, targets, axis) for axis in axes]
    known = [value for value in found if not math.isnan(value)]
    return min(known, default=math.nan)


def _constant_along(loss: Loss, output: Any, targets: Sequence[Any], axis: int | None) -> float:
    """With a constant that varies along one axis, or along all but that of the samples."""

    def varies(place: int, axes: int) -> bool:
        return place > 0 and (axis is None or place == min(axis, axes - 1))

    shapes = [[size if varies(place, t.dim()) else 1 for place, size in enumerate(t.shape)] for t in dense(output)]
    free = [torch.zeros(shape, requires_grad=True) for shape in shapes]

    def answer() -> Any:
        parts = dict(zip(map(id, dense(output)), free, strict=True))
        return map_tensors(lambda t: parts[id(t)].expand(t.shape).to(t) if id(t) in parts else t, output)

    def value() -> Tensor:
        return torch.stack([loss(answer(), target).float().reshape(()) for target in targets]).mean()

    solver = torch.optim.LBFGS(free, max_iter=_CONSTANT_STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        found = value()
        found.backward()  # type: ignore[no-untyped-call]
        return found

    try:
        start = float(value().detach())
        solver.step(closure)  # type: ignore[no-untyped-call]
        end = float(value().detach())
    except Exception:  # a loss may refuse constants in any way it likes
        return math.nan
    if not math.isfinite(end):
        end = start
        for part in free:
            part.data.zero_()
    return -math.inf if _falls_on(value, free, end) else min(start, end)


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
