"""Random numbers: one independent stream per run, drawn for many layers at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import torch

Kind = Literal["normal", "uniform"]
Role = Literal["weights", "bias", "backward", "cotangent", "probe", "mask"]
# the position is part of a stream's seed
_ROLES: tuple[Role, ...] = ("weights", "bias", "backward", "cotangent", "probe", "mask")
BLOCK = 1 << 16
"""Numbers drawn at a time and run: enough to forget the overhead of a call."""
_ENDLESS = 1 << 24  # numbers that streams without an end keep ready, all slots together


class RandomNumbers(Protocol):
    """Random numbers for every slot, as many as requested."""

    def take(self, *shape: int) -> torch.Tensor:
        """The next numbers, `(slots, *shape)`."""
        ...


class Streams:
    """Standard normal numbers, or uniform ones on [−1, 1), for a fixed number of slots.

    Slot i belongs to run `runs[i]`, and its numbers depend on the seed, the run, the role and the requested sizes, not
    on the other slots. Slots beyond `runs` are padding and repeat the first. Float64 numbers on a CPU come from NumPy's
    SFC64, which makes normals faster than torch there; the others from `torch.Generator`.

    Args:
        seed: the seed of the whole simulation.
        runs: indices of the runs in the slots.
        slots: number of slots.
        role: what the numbers are for; different roles are independent.
        kind: `"normal"` or `"uniform"`.
        need: the largest count of one call of `take`.
        like: a tensor with the dtype and device of the numbers.
        total: how many numbers will be requested in all, None if that is unknown or large.
        keep: hand out memory that is not used again (for a backward pass).
        place: place of a step in a network, where every step has streams of its own.

    Example:
        >>> like = torch.zeros(())
        >>> seven = Streams(0, range(7), 16, "weights", "normal", 6, like).take(2, 3)
        >>> eight = Streams(0, range(8), 16, "weights", "normal", 6, like).take(2, 3)
        >>> seven.shape, bool((seven[:7] == eight[:7]).all())
        (torch.Size([16, 2, 3]), True)
    """

    def __init__(
        self,
        seed: int,
        runs: Sequence[int],
        slots: int,
        role: Role,
        kind: Kind,
        need: int,
        like: torch.Tensor,
        *,
        total: int | None = None,
        keep: bool = False,
        place: int | None = None,
    ) -> None:
        # the spawn key is a place in the tree of seeds: no stream depends on how many others there are
        key = (_ROLES.index(role),) if place is None else (_ROLES.index(role), place)
        sequences = [np.random.SeedSequence(seed, spawn_key=(run, *key)) for run in runs]
        self._numpy = like.dtype == torch.float64 and like.device.type == "cpu"
        self._numpy_generators = [np.random.Generator(np.random.SFC64(s)) for s in sequences] if self._numpy else []
        self._torch_generators: list[torch.Generator] = []
        if not self._numpy:
            for sequence in sequences:
                generator = torch.Generator(device=like.device)
                generator.manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))
                self._torch_generators.append(generator)
        self._filled = len(sequences)
        self._slots, self._kind, self._like, self._keep = slots, kind, like, keep
        need = max(1, need)
        # a multiple of the largest request, so that layers of equal size waste no numbers
        self._capacity = need * -(-BLOCK // need)
        if total is not None:
            self._capacity = max(need, min(self._capacity, total))
        else:  # requests are all alike, so that a smaller block gives the same numbers
            self._capacity = need * max(1, min(self._capacity, _ENDLESS // max(1, slots)) // need)
        self._buffer = like.new_empty(0)
        self._position = self._capacity  # nothing drawn yet: the first `take` refills

    def take(self, *shape: int) -> torch.Tensor:
        """The next numbers, `(slots, *shape)`; without `keep` they are valid until a later call."""
        count = 1
        for length in shape:
            count *= length
        # the rest of a block is thrown away where it is too short: a request is one view
        if self._position + count > self._capacity:
            self._refill()
        start = self._position
        self._position += count
        return self._buffer[:, start : start + count].view(self._slots, *shape)

    def _refill(self) -> None:
        # views that `take` handed out share the buffer, and a backward pass still reads them
        if self._keep or self._buffer.numel() == 0:
            self._buffer = self._like.new_empty(self._slots, self._capacity)
        rows = self._buffer
        for slot, numbers in enumerate(self._numpy_generators):
            out = rows[slot].numpy()  # shares the tensor's memory: NumPy draws straight into it
            if self._kind == "normal":
                numbers.standard_normal(out=out)
            else:
                numbers.random(out=out)
                out *= 2.0
                out -= 1.0
        for slot, generator in enumerate(self._torch_generators):
            if self._kind == "normal":
                torch.randn(self._capacity, generator=generator, out=rows[slot], dtype=rows.dtype, device=rows.device)
            else:
                rows[slot].uniform_(-1.0, 1.0, generator=generator)
        rows[self._filled :] = rows[:1]
        self._position = 0


class GroupedNumbers:
    """Numbers for several groups in every slot, as if each group were a slot: `(slots · groups, *shape)`."""

    def __init__(self, numbers: RandomNumbers, groups: int) -> None:
        self._numbers, self._groups = numbers, groups

    def take(self, *shape: int) -> torch.Tensor:
        """The next numbers."""
        return self._numbers.take(self._groups, *shape).flatten(0, 1)


class StepStreams:
    """Streams for the steps of a network: each step has its own, by its place among those of its role.

    So a step's numbers depend on how many steps of its role come before it, not on their sizes nor on what follows.

    Args:
        seed: the seed of the whole simulation.
        runs: indices of the runs in the slots.
        slots: number of slots.
        like: a tensor with the dtype and device of the numbers.

    Example:
        >>> like = torch.zeros(())
        >>> first, second = (StepStreams(0, [0], 1, like) for _ in range(2))
        >>> _ = first.following("weights", "normal", 5), second.following("weights", "normal", 7)
        >>> [bool((a.take(2) == b.take(2)).all()) for a, b in [(first.following("weights", "normal", 2),
        ...                                                     second.following("weights", "normal", 2))]]
        [True]
    """

    def __init__(self, seed: int, runs: Sequence[int], slots: int, like: torch.Tensor) -> None:
        self._source = (seed, list(runs), slots)
        self._like = like.new_empty(0)
        self._counts: dict[str, int] = {}

    def place(self, role: Role) -> int:
        """The place of the next step of a role."""
        self._counts[role] = self._counts.get(role, -1) + 1
        return self._counts[role]

    def at(self, role: Role, place: int, kind: Kind, count: int) -> Streams:
        """The streams of a step that takes so many numbers in all."""
        seed, runs, slots = self._source
        return Streams(seed, runs, slots, role, kind, count, self._like, total=count, place=place)

    def following(self, role: Role, kind: Kind, count: int) -> Streams:
        """The streams of the next step of a role."""
        return self.at(role, self.place(role), kind, count)
