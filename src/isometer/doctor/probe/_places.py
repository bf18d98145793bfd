"""Single places that hold one object each: slots of instances, and the cells that closures share."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, NamedTuple

MISSING: Any = object()
"""What an empty place holds."""


class Slot(NamedTuple):
    """A slot of an instance, read and written past the code of its class."""

    owner: Any
    member: Any
    value: Any  # what it held

    def now(self) -> Any:
        """What it holds."""
        try:
            return self.member.__get__(self.owner)
        except AttributeError:
            return MISSING

    def put(self, value: Any) -> None:
        """Make it hold something."""
        if value is not MISSING:
            self.member.__set__(self.owner, value)
        elif self.now() is not MISSING:
            self.member.__delete__(self.owner)


class ClosureCell(NamedTuple):
    """A variable that functions share.

    Example:
        >>> def counter():
        ...     calls = 0
        ...     def count() -> int:
        ...         nonlocal calls
        ...         calls += 1
        ...         return calls
        ...     return count
        >>> count = counter()
        >>> cell = cells_of(count)[0]
        >>> _ = count(), count()
        >>> cell.put(cell.value)
        >>> count()
        1
    """

    owner: Any
    value: Any

    def now(self) -> Any:
        """What it holds."""
        try:
            return self.owner.cell_contents
        except ValueError:  # not filled
            return MISSING

    def put(self, value: Any) -> None:
        """Make it hold something."""
        if value is not MISSING:
            self.owner.cell_contents = value
        elif self.now() is not MISSING:
            del self.owner.cell_contents


Place = Slot | ClosureCell


def slots_of(value: Any) -> list[Slot]:
    """The slots of an instance, as they are now."""
    kind: Any = type(value)
    found = [Slot(value, member, MISSING) for member in _members(kind)]
    return [slot._replace(value=slot.now()) for slot in found]


def cells_of(function: types.FunctionType) -> list[ClosureCell]:
    """The cells of a function's closure, as they are now."""
    found = [ClosureCell(cell, MISSING) for cell in function.__closure__ or ()]
    return [cell._replace(value=cell.now()) for cell in found]


@functools.lru_cache(maxsize=1024)
def _members(kind: Any) -> tuple[Any, ...]:
    found: list[Any] = []
    for base in kind.__mro__:
        if "__slots__" not in vars(base) or base.__module__.partition(".")[0] in sys.stdlib_module_names:
            continue
        found.extend(member for member in vars(base).values() if type(member) is types.MemberDescriptorType)
    return tuple(found)
