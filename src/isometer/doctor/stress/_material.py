"""What a copy is trained on: one batch, fresh ones where there are any, a loss, and what chance would reach."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._calling import call
from isometer.doctor.probe._given import BatchReader
from isometer.doctor.probe._subject import Subject
from isometer.doctor.probe._tensor_trees import map_tensors, owned, tensors
from isometer.doctor.probe._world import World
from isometer.doctor.stress._objectives import (
    ConstantAnswer,
    Loss,
    Teacher,
    best_answer,
    best_constant,
    has_own_loss,
    own_loss,
    usual_loss,
)
from isometer.errors import IsometerError

Tensor = torch.Tensor
Pair = tuple[Any, Any]
MEMORY = 256 << 20  # bytes of batches that are kept
_HARDEST = 5.0  # times the usual loss of a constant on a batch that still counts
_CHANCE_SAMPLES = 512  # fewer make the best constant look better than it is


def is_stream(batch: Any) -> bool:
    """Whether a batch is many batches: an iterable such as a DataLoader, or a list of pairs.

    Example:
        >>> is_stream(torch.ones(2)), is_stream((torch.ones(2), torch.ones(2))), is_stream({"x": torch.ones(2)})
        (False, False, False)
        >>> is_stream([(torch.ones(2), torch.ones(2))]), is_stream(iter([]))
        (True, True)
    """
    if isinstance(batch, list):
        return bool(batch) and all(isinstance(one, (tuple, list)) and len(one) == 2 and _has(one[0]) for one in batch)
    return isinstance(batch, Iterable) and not isinstance(batch, (Tensor, Mapping, tuple, str, bytes))


def _has(inputs: Any) -> bool:
    """Whether inputs hold a tensor, or are an array."""
    return next(tensors(inputs), None) is not None or hasattr(inputs, "__array__")


class Batches:
    """Batches that are read when they are first asked for, and kept; generators are left as they were.

    The generators are those of torch, NumPy and Python, and those that a DataLoader and its samplers hold.

    Args:
        stream: gives batches; each is inputs, or a pair of inputs and targets.
        reader: makes tensors of arrays, in the model's precision.

    Raises:
        IsometerError: there is none, or one is no pair.

    Example:
        >>> batches = Batches(iter([(torch.tensor(1), 5), (torch.tensor(2), 6)]))
        >>> batches.read(1), batches[0][1], batches.read(9), batches[3][1]
        (1, 5, 2, 6)
    """

    def __init__(self, stream: Iterable[Any], reader: BatchReader | None = None) -> None:
        self._size, self._ended = 0, False
        self._reader = reader
        self._found: list[Pair] = []
        self._generators = _generators_of(stream)
        with self._left_alone():
            self._stream = iter(stream)
        if not self.read(1):
            raise IsometerError(
                "batch yields no batches; expected at least one (inputs, targets) — pass a new iterator"
            )

    def read(self, count: int) -> int:
        """Have that many ready, as far as there are any and memory allows; how many there are."""
        if len(self._found) >= count or self._ended:
            return len(self._found)
        with self._left_alone():
            for item in itertools.islice(self._stream, count - len(self._found)):
                self._found.append(self._read(item))
                self._size += sum(t.numel() * t.element_size() for t in tensors(self._found[-1]))
                if self._size > MEMORY:
                    break
            self._ended = len(self._found) < count
        return len(self._found)

    def _read(self, item: Any) -> Pair:
        if self._reader is None:
            return _pair(item)
        inputs, target = _pair(self._reader.tensors(item))
        return self._reader.inputs(inputs), target

    @contextmanager
    def _left_alone(self) -> Iterator[None]:
        """Generators inside are used, and afterwards as before; those of the stream go on where they were left."""
        world = World()
        theirs = [one.get_state() for one, _ in self._generators]
        for one, mine in self._generators:
            one.set_state(mine)
        try:
            yield
        finally:
            self._generators = [(one, one.get_state()) for one, _ in self._generators]
            for (one, _), state in zip(self._generators, theirs, strict=True):
                one.set_state(state)
            world.restore()

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, step: int) -> Pair:
        """The batch of a step; they start again where there are not enough."""
        return self._found[step % len(self._found)]


def _generators_of(stream: Any) -> list[tuple[torch.Generator, Tensor]]:
    """The generators that a DataLoader and its samplers hold, each with its state."""
    holders = [stream, *(getattr(stream, name, None) for name in ("sampler", "batch_sampler"))]
    holders.append(getattr(holders[-1], "sampler", None))
    found = {id(one): one for one in (getattr(holder, "generator", None) for holder in holders)}
    return [(one, one.get_state()) for one in found.values() if isinstance(one, torch.Generator)]


def _pair(item: Any) -> Pair:
    if isinstance(item, (Tensor, Mapping)):
        return item, None
    if isinstance(item, (tuple, list)) and len(item) in (1, 2):
        return (item[0], item[1] if len(item) == 2 else None)
    came = f"{len(item)} parts" if isinstance(item, (tuple, list)) else f"a {type(item).__name__}"
    raise IsometerError(f"batch gives {came} each time; expected (inputs, targets) — wrap the loader")


@dataclass(frozen=True, eq=False)
class Material:
    """What steps are made with.

    Attributes:
        batches: inputs and targets; the first is the batch that is fitted alone.
        loss: of output and target.
        kind: what the targets are: `yours`, `the model's own` (it returns its loss), or `a random teacher`.
        chance: loss of the best constant, nan if unknown, minus infinity if the loss has no bottom.
        chance_of_one: the same for the first batch alone.
        samples: in a batch.
        output: what the model returns for the first batch, without its history.
        teacher: what makes the targets, where there are none.
        constant: the best answer that does not depend on the input, `None` where it is unknown.
    """

    batches: Batches
    loss: Loss
    kind: str
    chance: float
    chance_of_one: float
    samples: int
    output: Any
    teacher: Teacher | None = None
    constant: ConstantAnswer | None = None

    @property
    def fresh(self) -> bool:
        """Whether there are other batches than the first."""
        return len(self.batches) > 1

    def batch(self, step: int) -> Pair:
        """The inputs and targets of a step; a loss may write to the targets."""
        inputs, target = self.batches[step]
        return inputs, written(target) if self.teacher is None else self.teacher(inputs)

    def level(self, step: int) -> float:
        """How hard the batch of a step is: the loss of the best constant on it, over that on all batches."""
        if self.constant is None or not 0 < self.chance < math.inf:
            return 1.0
        try:
            found = self.constant.on(self.batch(step)[1])
        except Exception:  # a batch of another size
            return 1.0
        return min(_HARDEST, max(1 / _HARDEST, found / self.chance)) if math.isfinite(found) else 1.0

    def loss_of(self, model: nn.Module, pair: Pair) -> Tensor:
        """The loss of a model on a batch."""
        return self.loss(call(model, owned(pair[0])), pair[1])


def written(target: Any) -> Any:
    """A copy that a loss may write to; what has a history may be part of the model and stays."""
    return map_tensors(lambda tensor: tensor if tensor.requires_grad else tensor.clone(), target)


def material(
    subject: Subject,
    batches: Batches,
    loss: Callable[..., Tensor] | None,
    *,
    samples: int,
    mode: str | None,
    seed: int,
) -> Material:
    """Batches with a loss and its chance; one forward pass of the model says what it returns.

    Args:
        subject: the model.
        batches: inputs and targets.
        loss: of output and target, or of the output where targets are None; by the kind of target by default.
        samples: in a batch.
        mode: in which the model runs.
        seed: seed of the teacher.
    """
    batches.read(-(-_CHANCE_SAMPLES // max(1, samples)))
    _, target = batches[0]
    chosen, kind, teacher, output = choose_loss(subject, batches[0], loss, mode=mode, seed=seed)
    chance = of_one = math.nan
    constant: ConstantAnswer | None = None
    if kind != "the model's own" and not (kind == "yours" and target is None):
        pairs = [batches[step] for step in range(len(batches))]
        targets = [y if teacher is None else teacher(x) for x, y in pairs]
        targets = [y for y in targets if _shapes(y) == _shapes(targets[0])]

        def constants(_: nn.Module) -> tuple[float, ConstantAnswer]:
            def loss_of(answer: Any, target: Any) -> Tensor:
                return chosen(answer, written(target))

            of_one = best_constant(loss_of, output, targets[:1], samples=samples)
            return of_one, best_answer(loss_of, output, targets, samples=samples * len(targets))

        # As if the model ran: whatever a loss holds is put back, and gradients are on.
        of_one, constant = subject.run(constants, seed=seed, mode=mode)
        chance = constant.loss
        # Where every sample asks for the same, a constant has no loss: only the first loss is there to compare with.
        of_one = math.nan if _one_answer(targets[:1]) else of_one
        chance = math.nan if _one_answer(targets) else chance
    return Material(batches, chosen, kind, chance, of_one, samples, output, teacher, constant)


def choose_loss(
    subject: Subject, pair: Pair, loss: Callable[..., Tensor] | None, *, mode: str | None, seed: int
) -> tuple[Loss, str, Teacher | None, Any]:
    """What is minimised on a batch: the loss, what its targets are, what makes them, and the model's output.

    Example:
        >>> pair = torch.ones(3, 2), None
        >>> _, kind, teacher, _ = choose_loss(Subject(nn.Linear(2, 1)), pair, None, mode=None, seed=0)
        >>> kind, teacher is not None
        ('a random teacher', True)
    """
    inputs, target = pair
    output = subject.run(lambda model: _kept(call(model, owned(inputs))), seed=seed, mode=mode)
    if loss is not None:
        given = loss
        chosen: Loss = (lambda output, target: given(output)) if target is None else given
        return chosen, "yours", None, output[0]
    if target is not None:
        usual_loss(output[0], written(target))
        return usual_loss, "yours", None, output[0]
    if output[1]:
        return own_loss, "the model's own", None, output[0]
    teacher = Teacher(inputs, output[0], seed=seed)
    return teacher.loss, "a random teacher", teacher, output[0]


def _kept(output: Any) -> tuple[Any, bool]:
    """The output without its history, and whether it brings a loss."""
    return map_tensors(lambda tensor: tensor.detach().clone(), output), has_own_loss(output)


def _one_answer(targets: Sequence[Any]) -> bool:
    """Whether all samples have the same target.

    Example:
        >>> _one_answer([torch.tensor([1, 1]), torch.tensor([1])]), _one_answer([torch.tensor([1, 2])])
        (True, False)
    """
    parts = [list(tensors(target)) for target in targets]
    for same in zip(*parts, strict=False):
        if any(one.dim() and bool((one != same[0][:1]).any()) for one in same):
            return False
    return bool(parts and parts[0])


def _shapes(tree: Any) -> list[torch.Size]:
    return [tensor.shape for tensor in tensors(tree)]
