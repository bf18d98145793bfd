"""A target whose cases go wrong in every way there is."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from isometer.errors import IsometerError
from support.fuzz.target import MEMORY, Target

_WAYS = ("answer", "refuse", "raise", "wait", "take", "die")


def _check(case: Any) -> None:
    if case == "refuse":
        raise IsometerError("no")
    if case == "raise":
        raise ValueError("a traceback")
    if case == "take":
        np.ones(5 * MEMORY // 8)
    if case == "die":
        os._exit(3)
    while case == "wait":
        pass


def _draw(rng: np.random.Generator) -> str:
    return _WAYS[rng.integers(len(_WAYS))]


TARGETS = (Target("faulty", 12, 0, _draw, _check, seconds=0.5),)
