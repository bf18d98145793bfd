"""Tables that can grow at run time: what the doctor knows, by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from isometer.errors import IsometerError


class _Named(Protocol):
    @property
    def id(self) -> str: ...


Entry = TypeVar("Entry", bound=_Named)


class Registry(Mapping[str, Entry]):
    """Entries by their ids, in the order in which they were added.

    Args:
        kind: what an entry is, for messages.
        entries: those that are there from the start.

    Example:
        >>> from isometer.doctor.conditions._prescription import Prescription
        >>> table = Registry[Prescription]("prescription")
        >>> rest = table.register(Prescription("rest", "Train less.", "training", elsewhere="it is your training loop"))
        >>> list(table), table.unregister("rest") is rest, len(table)
        (['rest'], True, 0)
    """

    def __init__(self, kind: str, entries: Iterable[Entry] = ()) -> None:
        self._kind = kind
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            self.register(entry)

    def register(self, entry: Entry) -> Entry:
        """Add an entry.

        Returns:
            The entry.

        Raises:
            IsometerError: its id is taken.
        """
        if entry.id in self._entries:
            raise IsometerError(f"there is a {self._kind} {entry.id!r} already; choose another id, or unregister it")
        self._entries[entry.id] = entry
        return entry

    def unregister(self, one: str) -> Entry:
        """Remove an entry.

        Returns:
            The entry.

        Raises:
            IsometerError: there is none with this id.
        """
        if one not in self._entries:
            raise IsometerError(f"there is no {self._kind} {one!r}; expected one of {', '.join(self._entries)}")
        return self._entries.pop(one)

    def __getitem__(self, one: str) -> Entry:
        return self._entries[one]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Registry({self._kind!r}, {list(self._entries)})"
