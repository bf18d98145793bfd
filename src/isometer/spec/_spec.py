"""The network spec: what all descriptions of a random network have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, overload

from isometer._display import Displayed
from isometer.spec._checks import SpecError
from isometer.spec._normal_form import normal_form
from isometer.spec._program import Shape, layers
from isometer.spec._steps import Step
from isometer.spec._text import network_text

if TYPE_CHECKING:
    from isometer.spec._chain import Chain


READERS: dict[str, Callable[..., Any]] = {}
"""What makes a spec; `isometer.spec._reading` fills it in, since this class comes before its kinds."""


class _SpecType(type):
    """`Spec(…)` returns the kind of spec that fits: a `Chain` where it can be one, a `Composition` otherwise."""

    def __call__(cls, *given: Any, **fields: Any) -> Any:
        return super().__call__(*given, **fields) if cls is not Spec else READERS["python"](*given, **fields)


class Spec(Displayed, metaclass=_SpecType):
    """A random network: one immutable value that theory, simulation, `nn.build` and the doctor all interpret.

    A spec is a composition of steps. Write it

    - as text: `Spec("input(64) > repeat(residual(norm('layer') > dense > act('gelu') > dense, scale=0.3), 24)")`, or a
      preset such as `Spec("preln_mlp(width=64, blocks=24)")`;
    - as steps: `Spec([Dense(64), Act("relu")], width=3)`;
    - by the fields of a chain, one layer repeated: `Spec(width=64, depth=3, activation="tanh", norm="batch")`.

    Every spelling of one layer repeated gives a `Chain`, whatever it is written as; everything else is a
    `Composition`. Two specs are equal if they have the same normal form.

    Args:
        network: text, or steps; nothing for a chain.
        width: features of the input, where the network does not say.
        positions: sizes of the input's axes of positions, where the network does not say.
        fields: fields of a chain, see `Chain`.

    Example:
        >>> spec = Spec("input(64) > repeat(dense > norm('batch') > act('tanh'), 3)")
        >>> spec == Spec(width=64, depth=3, activation="tanh", norm="batch")
        True
        >>> Spec("input(8) > repeat(residual(norm('layer') > dense(32) > act('gelu') > dense(8)), 2)").depth
        2
        >>> Spec.from_json(spec.to_json()) == spec
        True

    Implements: the recurrences of all five papers; `isometer.spec` lists them.
    """

    if TYPE_CHECKING:

        @overload
        def __new__(
            cls,
            network: str | Spec | Sequence[Step] | Step,
            /,
            *,
            width: int | None = ...,
            positions: tuple[int, ...] = ...,
        ) -> Spec: ...
        @overload
        def __new__(cls, width: Any, depth: int | None = ..., **fields: Any) -> Chain: ...
        def __new__(cls, *given: Any, **fields: Any) -> Any: ...

    @property
    def composition(self) -> tuple[Step, ...]:
        """The steps as they are spelled.

        Example:
            >>> Spec(width=8, depth=2).composition[0].times
            2
        """
        raise NotImplementedError

    @property
    def shape(self) -> Shape:
        """Features and positions of the input.

        Example:
            >>> Spec(width=8, depth=2).shape.width
            8
        """
        raise NotImplementedError

    @cached_property
    def normal_form(self) -> tuple[Step, ...]:
        """The steps in the one spelling that all equal specs share.

        Example:
            >>> Spec("input(4) > dense > dense").normal_form == Spec("input(4) > repeat(dense, 2)").normal_form
            True
        """
        return normal_form(self.composition, self.shape)

    def executed_layers(self) -> Iterator[tuple[tuple[Step, ...], Shape]]:
        """What is executed, layer by layer, with the shape after each layer.

        A layer is one repetition of a repeat; outside of repeats a layer begins at every step that has weights.

        Example:
            >>> [len(steps) for steps, _ in Spec("input(4) > dense > repeat(dense > act('relu'), 2)").executed_layers()]
            [1, 2, 2]
        """
        return layers(self.composition, self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return self is other or (self.shape == other.shape and self.normal_form == other.normal_form)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.normal_form))

    def __str__(self) -> str:
        return network_text(self.composition, self.shape)

    def __repr__(self) -> str:
        return f'Spec("{self}")'

    def to_json(self) -> str:
        """The spec as JSON, which `from_json` reads.

        Example:
            >>> print(Spec("input(4) > dense > act('relu') > dense(2)").to_json())
            {"network": "input(4) > dense > act('relu') > dense(2)"}
        """
        return json.dumps({"network": str(self)})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The spec that `to_json` wrote: an object with the `network` as text, or with the fields of a chain.

        Raises:
            SpecError: it is not JSON, or not a spec.

        Example:
            >>> Spec.from_json('{"width": 8, "depth": 2, "norm": "batch"}').norm.over
            'batch'
        """
        found = READERS["json"](text)
        if not isinstance(found, cls):
            raise SpecError(
                f"the spec is {found}, not one layer repeated; expected a chain — pass one to this function"
            )
        return found
