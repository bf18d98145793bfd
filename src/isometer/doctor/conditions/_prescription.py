"""One thing to change: what it does, why, at what price, and the calls that carry it out."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from isometer.errors import IsometerError

if TYPE_CHECKING:
    from torch import nn

KINDS = ("weights", "architecture", "batch", "training")
"""What a prescription touches, from the least to the most intrusive."""


@dataclass(frozen=True)
class Call:
    """One call of a function on the model, which can be made or written down.

    Example:
        >>> Call("isometer.init", "principled_gain_", batch=True, options={"law": "keep"}, seeded=True).line(3)
        "principled_gain_(model, batch, law='keep', seed=3)"

    Attributes:
        module: where the function is imported from.
        function: its name.
        batch: whether its second argument is the batch.
        options: keyword arguments.
        seeded: whether it takes a seed.
    """

    module: str
    function: str
    batch: bool = False
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seeded: bool = False

    @property
    def imported(self) -> str:
        """The line that imports the function."""
        return f"from {self.module} import {self.function}"

    def make(self, model: nn.Module, batch: Any, seed: int) -> Any:
        """Make the call."""
        function = getattr(importlib.import_module(self.module), self.function)
        return function(model, *([batch] if self.batch else []), **self._keywords(seed))

    def line(self, seed: int) -> str:
        """The call as Python."""
        keywords = (f"{name}={value!r}" for name, value in self._keywords(seed).items())
        return f"{self.function}({', '.join(['model', *(['batch'] if self.batch else []), *keywords])})"

    def _keywords(self, seed: int) -> dict[str, Any]:
        return {**self.options, **({"seed": seed} if self.seeded else {})}


@dataclass(frozen=True)
class Prescription:
    """One thing to change.

    Example:
        >>> from isometer.doctor import PRESCRIPTIONS
        >>> PRESCRIPTIONS["zero-bias"].kind, PRESCRIPTIONS["zero-bias"].calls[0][0].line(0)
        ('weights', 'zero_biases_(model)')
        >>> PRESCRIPTIONS["fewer-layers"].elsewhere
        'only you can decide which layers to leave out'

    Attributes:
        id: short name, the same wherever the same change is meant.
        text: what to do, one sentence.
        kind: what it touches, one of `KINDS`.
        references: inventory IDs of the statements behind it.
        calls: alternatives, each a sequence of calls; the first that raises no error is used. None where no function on
            the model carries it out.
        elsewhere: why there are no calls, and what to do instead.
        theory: why it helps.
        cost: what it takes.
        side_effects: what else changes.
        cannot: when it does not apply, and why.

    Raises:
        IsometerError: the kind is not known, or it has neither calls nor a reason why not, or both.
    """

    id: str
    text: str
    kind: str
    references: tuple[str, ...] = ()
    calls: tuple[tuple[Call, ...], ...] = ()
    elsewhere: str = ""
    theory: str = ""
    cost: str = ""
    side_effects: str = ""
    cannot: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise IsometerError(
                f"the prescription {self.id!r} has the kind {self.kind!r}; expected one of {', '.join(KINDS)}"
            )
        if bool(self.calls) == bool(self.elsewhere):
            raise IsometerError(
                f"the prescription {self.id!r} has {'both calls and' if self.calls else 'neither calls nor'} elsewhere"
                "; expected one of them — calls that carry it out, or why there are none"
            )

    def to_dict(self) -> dict[str, Any]:
        """What a report says of it, ready for JSON."""
        return {"id": self.id, "text": self.text, "kind": self.kind, "references": list(self.references)}


class Written(Protocol):
    """A change of a model, both to be made and to be written down: a `Call`, or what no call expresses."""

    @property
    def imported(self) -> str:
        """The line that imports what is called, empty if nothing is."""

    def make(self, model: nn.Module, batch: Any, seed: int) -> Any:
        """Change the model."""

    def line(self, seed: int) -> str:
        """The change as Python, or as a comment."""


def code(calls: Iterable[Written], seed: int) -> str:
    """Python lines that make these calls on `model` and `batch`.

    Example:
        >>> print(code([Call("isometer.init", "haar_orthogonal_", seeded=True)], 0))
        from isometer.init import haar_orthogonal_
        <BLANKLINE>
        haar_orthogonal_(model, seed=0)
    """
    made: Sequence[Written] = list(calls)
    imports = sorted({call.imported for call in made} - {""})
    return "\n".join([*imports, *([""] if imports else []), *(call.line(seed) for call in made)])
