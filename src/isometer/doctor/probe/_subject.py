"""Running a model without changing it: one mechanism for everything that runs a user's model.

Where the model can be copied faithfully, the copy runs and the model itself is never touched. Otherwise the model runs,
and everything it reaches is put back from a snapshot. Either way an extra copy of the weights is in memory meanwhile;
generators and settings of torch are put back; signals wait while that happens; and at the end the model is compared
with what it was.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from isometer.doctor.probe._copying import Twin, Unfaithful
from isometer.doctor.probe._reach import Reach
from isometer.doctor.probe._signals import guarded, uninterrupted
from isometer.doctor.probe._snapshot import Snapshot
from isometer.doctor.probe._storages import checksum, write_bytes
from isometer.doctor.probe._world import World, eager, without_collection
from isometer.errors import IsometerError, ModelChangedError

Result = TypeVar("Result")
_SMALL = 1_000_000  # weights of a model that one thread serves best
_NAMED = 5  # differences that a message lists


class Subject:
    """A model that can be run any number of times, every time from the same state.

    Args:
        model: the model.
        beside: what runs with it, such as a loss; its state is put back too.

    Example:
        >>> norm = nn.BatchNorm1d(2)
        >>> subject = Subject(norm)
        >>> subject.run(lambda model: model(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).shape, seed=0)
        torch.Size([2, 2])
        >>> norm.running_mean.tolist(), norm.num_batches_tracked.item()
        ([0.0, 0.0], 0)

    Attributes:
        original: the model.
        model: what runs: a faithful copy, or the model itself.
        reason: why there is no copy; empty if there is one.
        joint: what runs beside it holds part of the model.
        has_history: tensors that the model keeps have a graph of the caller's, which must not be freed.
    """

    def __init__(self, model: nn.Module, beside: Sequence[Any] = ()) -> None:
        self.original, self.reason = model, ""
        self.joint = self._dirty = False
        self._problems: list[str] = []
        self._twin: Twin | None = None
        # A model's own way of copying may draw numbers.
        guarded(lambda: self._take(beside), World().restore)
        self.model = model if self._twin is None else self._twin.model
        self._small = sum(parameter.numel() for parameter in self.model.parameters()) < _SMALL
        self.has_history = self._twin is None and any(not one.leaf for one in self._state.tensors)

    def _take(self, beside: Sequence[Any]) -> None:
        # Tensors made under inference mode could not be trained.
        with torch.inference_mode(False), without_collection():
            self._state = Snapshot(Reach([self.original]))
            outside = Reach([one for one in beside if one is not None], outside=True)
            self._beside = Snapshot(outside)
            self._copy(outside)

    def _copy(self, outside: Reach) -> None:
        try:
            self.joint = bool(outside.shared) and bool(self._state.reach.state_ids() & outside.state_ids())
            if self.joint or not outside.complete:
                raise Unfaithful("the loss or the target holds part of the model")
            self._twin = Twin(self.original, self._state)
            self._state.keep_checksums()
        except Unfaithful as problem:
            self.reason = str(problem)
            self._state.keep_values()
        self._beside.keep_values(self._state.values)

    def twin(self, module: nn.Module) -> nn.Module:
        """What runs in the place of a module of the model."""
        return module if self._twin is None else self._twin.of[id(module)]

    def original_id(self, key: int) -> int:
        """Identity of the parameter whose place the parameter with identity `key` has."""
        return key if self._twin is None else self._twin.original_ids.get(key, key)

    def run(
        self,
        work: Callable[[nn.Module], Result],
        *,
        seed: int,
        mode: str | None = None,
        prepare: Callable[[nn.Module], object] | None = None,
    ) -> Result:
        """Call a function with the model, from the state it came in, with seeded generators and gradients on.

        Args:
            work: what to do; its result must not hold the model.
            seed: seed of the generators of torch, NumPy and Python.
            mode: `"train"` or `"eval"`; `None` for the mode each submodule is in.
            prepare: changes the model before it runs; undone like everything else.
        """
        world = World()

        def start() -> None:
            self._start()
            world.seed(seed)

        def once() -> Result:
            # Under inference mode tensors have no history, even with gradients enabled.
            with torch.inference_mode(False), torch.enable_grad(), eager():
                if self._small:
                    torch.set_num_threads(1)  # more would wait for each other; put back with the other settings
                if mode is not None:
                    self.model.train(mode == "train")
                if prepare is not None:
                    prepare(self.model)
                return work(self.model)

        return guarded(once, lambda: self._put_back(world), start)

    def _start(self) -> None:
        if self._twin is None:
            self._state.hide_gradients()
        elif self._dirty:
            self._reclaim(self._twin)  # the copy is put back from the model's own bytes
            self._twin.state.restore()
        self._dirty = True
        self._beside.put_stand_ins()
        self._state.put_stand_ins(common=self._twin is not None)
        if self._twin is not None:
            self._twin.state.put_stand_ins()

    def _put_back(self, world: World) -> None:
        problems = [*world.restore(), *self._beside.restore()]
        problems += self._state.restore() if self._twin is None else self._state.restore_common()
        self._problems = problems

    def verify(self) -> None:
        """Compare the model with what it was, put back what differs, and say what could not be put back.

        Raises:
            ModelChangedError: the model differs from what it was.
        """
        found = self._state.differences()
        if found:
            self._repair()
            found = self._state.differences()
        if found:
            told = ", ".join(found[:_NAMED]) + (f" and {len(found) - _NAMED} more" if len(found) > _NAMED else "")
            why = f" ({self._problems[0]})" if self._problems else ""
            raise ModelChangedError(
                f"the model changed while it was examined: {told}{why}; expected it to be as before — pass "
                "copy.deepcopy(model), or load its state_dict again"
            )

    def _repair(self) -> None:
        def repair() -> None:
            if self._twin is not None:
                self._reclaim(self._twin)
            self._problems = self._state.restore()

        uninterrupted(repair)

    def _reclaim(self, twin: Twin) -> None:
        """Bytes that the original lost and the copy still has."""
        state = self._state
        for mine, other in zip(state.tensors, twin.state.tensors, strict=False):
            if mine.storage is None or other.storage is None:
                continue
            known = state.checksums.get(mine.storage._cdata)
            if known is not None and checksum(mine.storage) != known and checksum(other.storage) == known:
                write_bytes(mine.storage, other.storage)


def all_or_nothing(model: nn.Module, work: Callable[[], Result]) -> Result:
    """Call a function that changes a model; if it raises or is interrupted, the model is as it was.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> before = model.weight.item()
        >>> def halfway() -> None:
        ...     model.weight.data.zero_()
        ...     raise KeyError("halfway")
        >>> try:
        ...     all_or_nothing(model, halfway)
        ... except KeyError:
        ...     print(model.weight.item() == before)
        True
    """
    state = Snapshot.of(model)
    done: list[Result] = []
    guarded(lambda: done.append(work()), lambda: None if done else state.restore())
    return done[0]


def left_alone(model: nn.Module, work: Callable[[], Result]) -> Result:
    """Call a function that runs working copies of a model; afterwards generators and what copies share are as before.

    Copies share what only functions hold, such as an averaged model in the closure of a hook.

    Example:
        >>> model, calls = nn.Linear(1, 1), torch.zeros(1)
        >>> _ = model.register_forward_hook(lambda *_: calls.add_(1))
        >>> copied = working_copy(model)
        >>> _ = left_alone(model, lambda: copied(torch.ones(1)))
        >>> calls.item()
        0.0
    """
    world = World()
    if not any(Reach([model]).beyond()):
        return guarded(work, world.restore)
    state = Snapshot.of(model)
    return guarded(work, lambda: (world.restore(), state.restore()))


@contextmanager
def examined(model: nn.Module, *beside: Any) -> Iterator[Subject]:
    """A subject, and at the end the proof that the model is as it was.

    Args:
        model: the model.
        beside: a loss, a target, or what else may hold parts of the model.

    Raises:
        ModelChangedError: everything went well, but the model differs from what it was.

    Example:
        >>> with examined(nn.Dropout(0.5)) as subject:
        ...     same = [subject.run(lambda model: model(torch.ones(9)).sum(), seed=1).item() for _ in range(2)]
        >>> same[0] == same[1]
        True
    """
    subject = Subject(model, beside)
    try:
        yield subject
    except Exception as problem:
        try:
            subject.verify()
        except ModelChangedError as changed:
            problem.add_note(str(changed))
        raise
    subject.verify()


def working_copy(model: nn.Module) -> nn.Module:
    """A copy of a model to change or to train: nothing that it does changes the model.

    What functions hold, such as the tensors in the closure of a hook, it may share with the model.

    Raises:
        Exception: what the model's own code raises when it is copied.
        IsometerError: the copy refers to the model.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> _ = model.register_forward_hook(lambda *_: model.bias.data.zero_())
        >>> working_copy(model)
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: a hook or another function of the model refers to the model itself; ...
    """
    # A model's own way of copying may draw numbers.
    return guarded(lambda: _stand_alone(model), World().restore)


def _stand_alone(model: nn.Module) -> nn.Module:
    state = Snapshot(Reach([model]))
    try:
        return Twin(model, state).model
    except Unfaithful:
        plain = copy.deepcopy(model)
    if Reach([plain]).weight_ids() & state.reach.own_ids():
        raise IsometerError(
            "a hook or another function of the model refers to the model itself; expected a model whose copy is "
            "independent — remove the hook first"
        )
    return plain
