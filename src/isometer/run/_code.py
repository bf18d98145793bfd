"""Which code computes a cell: names of functions, and a version that changes with what they compute."""

from __future__ import annotations

import importlib
import json
import platform
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import metadata
from typing import Any

from isometer.errors import IsometerError
from isometer.run._reach import Reached, reached

INSTRUMENT = "isometer"
LIBRARIES = (INSTRUMENT, "numpy", "scipy", "xarray", "h5netcdf", "h5py", "torch")


def name_of(function: Callable[..., Any]) -> str:
    """`module:name`, by which a worker finds a function.

    Example:
        >>> from isometer.run.example import power
        >>> name_of(power)
        'isometer.run.example:power'
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<object>")
    if module is None or module == "__main__" or "<" in name:
        raise IsometerError(
            f"the function {name!r} of {module!r} cannot be found by its name in another process; expected a function "
            "at the top level of a module — move it into a file and import it"
        )
    return f"{module}:{name}"


def function_named(name: str) -> Callable[..., Any]:
    """The function that `name_of` named.

    Example:
        >>> function_named("isometer.run.example:power").__name__
        'power'
    """
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as problem:  # a module that is imported may raise anything
        raise IsometerError(f"cannot find the function {name!r} ({problem}) — install or restore its module") from None
    if not callable(found) or not isinstance(getattr(found, "__module__", None), str):
        raise IsometerError(f"{name!r} is not a function; expected module:function")
    return found  # type: ignore[no-any-return]


def code_version(function: Callable[..., Any], configuration: Mapping[str, Any] | None = None) -> str:
    """Version of the package of a function and a digest of the code that it can reach.

    The digest covers the definitions, in the function's top-level package and in the instrument, that the function uses
    by name, directly or not, and what their modules do when they are imported. It does not change with comments,
    layout, docstrings, annotations of functions or the words of errors, nor with functions that only observe
    (`observes`). Other packages count by their version, which each result records.

    Args:
        function: a function of a module.
        configuration: of a cell, where functions that observe count if it sets their setting.

    Returns:
        `"version+digest"`.

    Example:
        >>> from isometer.run.example import power
        >>> code_version(power) == code_version(code_version)  # other code
        False
    """
    found = _reached(function, frozenset())
    chosen = frozenset(name for name in found.settings if configuration and configuration.get(name))
    if chosen:
        found = _reached(function, chosen)
    package = function.__module__.partition(".")[0]
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        version = "0"
    return f"{version}+{found.digest[:16]}"


@lru_cache(maxsize=64)
def _reached(function: Callable[..., Any], chosen: frozenset[str]) -> Reached:
    module = function.__module__
    return reached(module, function.__qualname__, {module.partition(".")[0], INSTRUMENT}, chosen)


@lru_cache(maxsize=1)
def library_versions() -> str:
    """Versions of Python and of the libraries that compute and write results, as JSON.

    Example:
        >>> sorted(json.loads(library_versions()))[:3]
        ['h5netcdf', 'h5py', 'isometer']
    """
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "none"
    return json.dumps(versions, sort_keys=True)
