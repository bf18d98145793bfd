"""How the families of sequences draw sizes and the severity of their faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isometer.trial._family import Blueprint, pick


def drawn(**choices: tuple[Any, ...]) -> Callable[[Blueprint, np.random.Generator], Blueprint]:
    """A fault whose options are drawn, each from its choices.

    Example:
        >>> fault = drawn(score_scale=(10.0, 30.0))
        >>> fault(Blueprint("text", 32, 2), np.random.default_rng(0)).options["score_scale"] in (10.0, 30.0)
        True
    """

    def fault(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
        return blueprint.changed(**{name: pick(rng, *several) for name, several in choices.items()})

    return fault


def size(
    rng: np.random.Generator, large: bool, *, widths: tuple[int, ...], depths: tuple[int, ...], largest: tuple[int, int]
) -> tuple[int, int]:
    """Width and depth; the deeper half of the depths comes with the narrower half of the widths, to stay fast.

    Example:
        >>> size(np.random.default_rng(0), True, widths=(32,), depths=(2, 4), largest=(128, 8))
        (128, 8)
    """
    if large:
        return largest
    depth = pick(rng, *depths)
    if depth >= sorted(depths)[len(depths) // 2]:
        widths = widths[: (len(widths) + 1) // 2]
    return pick(rng, *widths), depth
