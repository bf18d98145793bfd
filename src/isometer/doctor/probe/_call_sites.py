"""Where in the user's code a function was called."""

from __future__ import annotations

import os.path
import sys
from types import FrameType

_PROBE = __name__.rpartition(".")[0]


def call_site() -> str:
    """`file.py:line` of the innermost frame outside torch and the probe; empty where the probe itself made the call."""
    frame: FrameType | None = sys._getframe(1)
    for room in (_PROBE, "torch"):  # the probe was called by torch, and torch by the model
        while frame is not None and _is_in(room, frame):
            frame = frame.f_back
    if frame is None or _is_in(_PROBE, frame):
        return ""
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _is_in(room: str, frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__"))
    return name == room or name.startswith(f"{room}.")
