"""A network that is not one layer repeated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from isometer.spec._program import Shape
from isometer.spec._spec import Spec
from isometer.spec._steps import Step, checked_steps


@dataclass(frozen=True, eq=False, repr=False)
class Composition(Spec):
    """A network as steps, for an input of some shape; `Spec(…)` makes it.

    Example:
        >>> spec = Spec("input(3, [8, 8]) > conv(3, 16) > act('relu') > pool > dense(10)")
        >>> type(spec).__name__, spec.depth, spec.output.width
        ('Composition', 2, 10)
    """

    steps: tuple[Step, ...]
    input: Shape

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", checked_steps(self.steps, "the network"))
        assert self.output  # every width and shape is checked on the way

    @property
    def composition(self) -> tuple[Step, ...]:
        return self.steps

    @property
    def shape(self) -> Shape:
        return self.input

    @cached_property
    def _size(self) -> tuple[int, Shape]:
        shapes = [shape for _, shape in self.executed_layers()]
        return len(shapes), shapes[-1]

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return self._size[0]

    @property
    def output(self) -> Shape:
        """The shape of what leaves the network."""
        return self._size[1]
