"""Objects that can be used up and not put back: iterators, and caches of functions.

While a model runs, something else stands where the model holds them: a copy, an empty cache, or, for a generator of
which there is no copy, an object that refuses to be advanced. So the object itself never notices.
"""

from __future__ import annotations

import copy
import functools
import itertools
import types
import warnings
from collections.abc import Iterator
from typing import Any

from isometer.errors import IsometerError

CACHE: Any = functools._lru_cache_wrapper
_ITERABLE: tuple[Any, ...] = ((), [], {}, {}.items(), {}.values(), set(), "", b"", range(0), range(1 << 99))
ITERATORS: tuple[Any, ...] = (
    types.GeneratorType,
    map,
    filter,
    zip,
    enumerate,
    reversed,
    *(type(iter(one)) for one in _ITERABLE),
    *(one for one in vars(itertools).values() if isinstance(one, type)),
)


class Unmoved(Iterator[Any]):
    """Stands for a generator that a model holds.

    Example:
        >>> next(Unmoved())
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the model advances a generator that it holds, ...
    """

    def __next__(self) -> Any:
        raise IsometerError(
            "the model advances a generator that it holds, which cannot be reset; expected a forward that can be "
            "repeated — hold a list, itertools.count or an iterator class instead"
        )

    def send(self, value: Any) -> Any:
        """Refused likewise."""
        return next(self)

    def throw(self, *problem: Any) -> Any:
        """Refused likewise."""
        return next(self)

    def close(self) -> None:
        """Refused likewise."""
        next(self)


def stand_in(value: Any) -> Any:
    """What a model uses in the place of an iterator or a cache.

    Example:
        >>> ids = itertools.count(3)
        >>> next(stand_in(ids)), next(stand_in(ids)), next(ids)
        (3, 3, 3)
    """
    if isinstance(value, CACHE):
        return functools.lru_cache(**value.cache_parameters())(value.__wrapped__)
    if isinstance(value, types.GeneratorType):
        return Unmoved()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of Python copy fewer of them
            twin = copy.deepcopy(value)
    except Exception:  # what is behind it may have no copy
        return Unmoved()
    return Unmoved() if twin is value else twin
