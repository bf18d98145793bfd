"""What can be tried with random input: how a case is drawn, and what must hold for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np

CORPUS = Path(__file__).parent / "corpus"
SECONDS = 10.0
"""Of computing that a case may take without a sign of progress."""
MEMORY = 2 << 30
"""Bytes that a case may take unannounced."""


class PromiseBroken(AssertionError):
    """Something that the instrument promises did not hold."""


@dataclass(frozen=True)
class Target:
    """One kind of input.

    Attributes:
        name: of the kind.
        total: cases of the whole run.
        few: cases in the ordinary tests.
        draw: draws a case, anything that JSON can hold.
        check: tries a case; an error of the instrument (`IsometerError`) is an answer, any other exception is none.
        seconds: of computing that a case may take; more where it shows progress, or says before what it takes.
        everything: whether it can reach code that its imports do not show, so that any change of code counts.
    """

    name: str
    total: int
    few: int
    draw: Callable[[np.random.Generator], Any]
    check: Callable[[Any], None]
    seconds: float = SECONDS
    everything: bool = False

    def case(self, index: int) -> Any:
        """The case of a number, the same on every machine."""
        seed = hashlib.sha256(f"{self.name} {index}".encode()).digest()
        return self.draw(np.random.default_rng(np.frombuffer(seed, dtype=np.uint32)))

    def corpus(self) -> list[Any]:
        """Cases that went wrong once."""
        path = CORPUS / f"{self.name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def targets(package: str = "support.fuzz") -> Iterator[Target]:
    """The `TARGETS` of every module of a package."""
    for module in sorted(one.name for one in iter_modules(import_module(package).__path__)):
        yield from getattr(import_module(f"{package}.{module}"), "TARGETS", ())
