"""Where in the user's code a function was called."""

from __future__ import annotations

import os.path
import sys
from functools import lru_cache
from types import FrameType

_PROBE = __name__.rpartition(".")[0]


def call_site() -> str:
    """`file.py:line` of the innermost frame outside torch and the probe; empty where the probe itself made the call."""
    frame: FrameType | None = sys._getframe(1)
    for room in (_PROBE, "torch"):  # the probe was called by torch, and torch by the model
        while frame is not None and _room(frame.f_globals.get("__name__")) == room:
            frame = frame.f_back
    if frame is None or _room(frame.f_globals.get("__name__")) == _PROBE:
        return ""
    return _written(frame.f_code.co_filename, frame.f_lineno)


@lru_cache(maxsize=1024)
def _room(module: object) -> str:
    name = str(module)
    return next((room for room in (_PROBE, "torch") if name == room or name.startswith(f"{room}.")), "")


@lru_cache(maxsize=1024)
def _written(path: str, line: int) -> str:
    return f"{os.path.basename(path)}:{line}"
