"""Families of instances: `(rng, count) -> instances`, made by hand, drawn, or from another family."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from isometer_papers.claims._claim import Instance

Rng = np.random.Generator
Family = Callable[[Rng, int], Iterator[Instance]]
"""Instances of one kind: from a random generator and a number, that many of them."""


def cases(*instances: Instance) -> Family:
    """Instances made by hand, as many as the effort allows.

    Example:
        >>> list(cases({"x": 1}, {"x": 2})(np.random.default_rng(0), 1))
        [{'x': 1}]
    """
    return lambda rng, count: iter(instances[:count])


def drawn(draw: Callable[[Rng], Instance]) -> Family:
    """Independent draws.

    Example:
        >>> list(drawn(lambda rng: {"n": int(rng.integers(5, 6))})(np.random.default_rng(0), 2))
        [{'n': 5}, {'n': 5}]
    """
    return lambda rng, count: (draw(rng) for _ in range(count))


def extended(family: Family, more: Callable[[Rng, Instance], Instance]) -> Family:
    """The same instances, each with more in it.

    Example:
        >>> family = extended(cases({"x": 1}), lambda rng, i: {"y": 2 * i["x"]})
        >>> list(family(np.random.default_rng(0), 1))
        [{'x': 1, 'y': 2}]
    """
    return lambda rng, count: ({**i, **more(rng, i)} for i in family(rng, count))
