"""What a computation says while it runs: jobs tell, the worker that runs them listens."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def tell(text: str) -> None:
    """Say what is being computed, to whoever listens.

    Example:
        >>> heard = []
        >>> listen(heard.append)
        >>> tell("training a copy")
        >>> listen(None)
        >>> heard
        ['training a copy']
    """
    for one in _listeners:
        one(text)


def listen(listener: Callable[[str], None] | None) -> None:
    """Let a function hear what is told from now on, and nobody else; None for nobody."""
    _listeners[:] = [] if listener is None else [listener]
