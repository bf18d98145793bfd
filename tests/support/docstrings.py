"""Docstrings of public names."""

from __future__ import annotations

import importlib
import inspect

# records whose fields are documented beside the function that returns them
RECORDS = {"ActivationEntry", "ClaimSettings", "DepthOutlook", "Dual", "Entry"}


def public(room: str) -> list[tuple[str, object]]:
    module = importlib.import_module(room)
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == room and n[0] != "_"]
    names = getattr(module, "__all__", own)
    return [(name, getattr(module, name)) for name in names]


def without_example(room: str) -> list[str]:
    """The public classes and functions of a module whose docstring has no runnable example."""
    bare = []
    for name, value in public(room):
        if (
            not (inspect.isclass(value) or inspect.isfunction(value))
            or name in RECORDS
            or (inspect.isclass(value) and issubclass(value, tuple))
        ):
            continue
        if ">>>" not in (inspect.getdoc(value) or ""):
            bare.append(name)
    return bare
