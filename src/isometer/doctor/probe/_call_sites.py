"""Where a torch function is called: the innermost module of the model that runs, and file and line of the code."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import torch
from torch import nn

_CALL = nn.Module._call_impl.__code__
_TORCH = str(Path(torch.__file__).parent) + os.sep
_DOCTOR = str(Path(__file__).parents[1]) + os.sep
_PATIENTS = _DOCTOR + "patients" + os.sep  # models, not tools


class CodeLine(NamedTuple):
    """A line of code; empty where no code but torch's own runs inside the module."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        """As people write it, `model.py:42`."""
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else ""


@lru_cache(maxsize=4096)
def _is_doctors(file: str) -> bool:
    return file.startswith(_DOCTOR) and not file.startswith(_PATIENTS)


@lru_cache(maxsize=4096)
def _is_torchs(file: str) -> bool:
    return file.startswith((_TORCH, "<frozen"))


def code_line(frame: FrameType | None) -> CodeLine:
    """The innermost line of code that is neither torch's nor the doctor's; empty where the doctor made the call itself.

    Args:
        frame: where to start; the search goes outwards.

    Example:
        >>> import sys
        >>> code_line(sys._getframe()).line
        1
    """
    for belongs in (_is_doctors, _is_torchs):  # the doctor was called by torch, and torch by the model
        while frame is not None and belongs(frame.f_code.co_filename):
            frame = frame.f_back
    if frame is None or _is_doctors(frame.f_code.co_filename):
        return CodeLine()
    return CodeLine(frame.f_code.co_filename, frame.f_lineno)


def call_site(frame: FrameType | None, known: Callable[[nn.Module], bool]) -> tuple[nn.Module | None, CodeLine]:
    """The innermost module that runs among those that are known, and the line inside it where a call comes from.

    Hooks run inside the module they hang on. Modules that belong to no model, such as helpers in hooks, are code of the
    module that calls them.

    Args:
        frame: where to start; the search goes outwards.
        known: whether a module counts.

    Returns:
        The module, `None` where none runs, and the line.

    Example:
        >>> import sys
        >>> class Scaled(nn.Module):
        ...     def forward(self, x):
        ...         self.found = call_site(sys._getframe(), lambda module: True)
        ...         return x
        >>> model = Scaled()
        >>> _ = model(torch.ones(1))
        >>> model.found[0] is model, model.found[1].line
        (True, 3)
    """
    site = CodeLine()
    while frame is not None:
        code = frame.f_code
        if code is _CALL:
            module = frame.f_locals.get("self")
            if module is not None and known(module):
                return module, site
        elif not site.file and not (_is_torchs(code.co_filename) or _is_doctors(code.co_filename)):
            site = CodeLine(code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None, CodeLine()
