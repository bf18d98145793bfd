"""The ways through a model: which layers lead to its output, what its readout reads, and what nothing bypasses.

All of it is read off the trace of a probe. Where the trace has a gap (a transform of torch.func, a scripted module, a
custom function whose input is not known), ways are not known, and every layer is taken to be on one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._recorder import UNKNOWN
from isometer.doctor.probe._sites import ADDITIONS
from isometer.doctor.probe._trace import TraceStep

_MERGES = ADDITIONS | {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack"}


class Paths:
    """The ways from the inputs of a model to its outputs.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from isometer.doctor import probe
        >>> class Model(nn.Module):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.side, self.body, self.head = (nn.Linear(4, 4) for _ in range(3))
        ...     def forward(self, x: torch.Tensor) -> torch.Tensor:
        ...         self.side(x)
        ...         return self.head(x + torch.tanh(self.body(x)))
        >>> paths = Paths(probe(Model(), torch.eye(3, 4)))
        >>> sorted(paths.layers), sorted(paths.cuts)  # layers 1, 2 and 3 are side, body and tanh
        ([0, 2, 3, 4, 5], [0, 4, 5])
    """

    def __init__(self, examination: Examination) -> None:
        self._trace: Sequence[TraceStep] = examination.trace
        self._outputs, self._count = examination.outputs, len(examination)
        self._sites = examination.sites

    @cached_property
    def _steps(self) -> frozenset[int]:
        """Steps that the output depends on; empty where that is not known."""
        found, waiting = set[int](), list(self._outputs)
        while waiting:
            index = waiting.pop()
            if index in found:
                continue
            found.add(index)
            step = self._trace[index]
            if step.kind == UNKNOWN:
                return frozenset()
            waiting.extend(step.inputs)
        return frozenset(found) if any(self._trace[index].kind == "input" for index in found) else frozenset()

    @property
    def known(self) -> bool:
        """Whether the trace has no gap."""
        return bool(self._steps)

    @cached_property
    def layers(self) -> frozenset[int]:
        """Layers that the output depends on, and the input."""
        if not self.known:
            return frozenset(range(self._count))
        made = (self._trace[index].layer for index in self._steps)
        return frozenset({0, *(layer for layer in made if layer is not None)})

    @cached_property
    def cuts(self) -> frozenset[int]:
        """Layers that every way from an input to an output goes through: nothing bypasses them."""
        if not self.known:
            return frozenset(range(self._count))
        last: dict[int, int] = {}  # the latest step that reads each
        for index in sorted(self._steps):
            for source in self._trace[index].inputs:
                last[source] = index
        for output in self._outputs:
            last[output] = len(self._trace)
        found, reach = set[int](), -1
        starts = [index for index in self._steps if self._trace[index].kind == "input"]
        begun = 0
        for index in sorted(self._steps):
            begun += index in starts
            # Steps are in the order of execution: one is a cut if nothing before it is read after it.
            layer = self._trace[index].layer
            if layer is not None and reach <= index and begun == len(starts):
                found.add(layer)
            reach = max(reach, last.get(index, index))
        return frozenset(found)

    def read_by_the_end(self, hidden: Callable[[int], bool], through: Callable[[int], bool]) -> frozenset[int]:
        """The hidden layers that the deepest outputs are made of, over additions and concatenations.

        Args:
            hidden: whether a layer is a representation, at which a way back ends.
            through: whether a way back goes on behind a layer, as behind the weights of a readout.
        """
        if not self.known:
            return frozenset()
        depths = [self._depth(index) for index in self._outputs]
        waiting = [index for index, depth in zip(self._outputs, depths, strict=True) if depth == max(depths)]
        found, seen = set[int](), set[int]()
        while waiting:
            index = waiting.pop()
            if index in seen:
                continue
            seen.add(index)
            step = self._trace[index]
            if step.layer is not None and (hidden(step.layer) or step.layer == 0):
                found.add(step.layer)
            elif (step.layer is None or through(step.layer)) and (len(set(step.inputs)) < 2 or step.name in _MERGES):
                waiting.extend(step.inputs)
        return frozenset(found)

    def _depth(self, index: int) -> int:
        """Layers of weights before a step: those of the nearest sites that it depends on."""
        depth, waiting, seen = 0, [index], set[int]()
        while waiting:
            index = waiting.pop()
            if index not in seen:
                seen.add(index)
                layer = self._trace[index].layer
                if layer is None:
                    waiting.extend(self._trace[index].inputs)
                else:
                    depth = max(depth, self._sites[layer].depth)
        return depth
