"""What is installed only when asked for, and the message where it is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from isometer.errors import IsometerError

EXTRAS = {
    "torch": "torch",
    "dash": "explore",
    "distributed": "dask",
    "lightning": "lightning",
    "sklearn": "data",
    "isometer_papers": "papers",
    "transformers": "test",
}  # package → extra
"""Which extra installs each optional package."""


class MissingExtraError(IsometerError, ImportError):
    """A part of Isometer needs a package that is not installed.

    Example:
        >>> issubclass(MissingExtraError, ImportError)
        True
    """


def need(package: str, what: str) -> ModuleType:
    """Import a package that an extra brings.

    Args:
        package: one of `EXTRAS`.
        what: what needs it, as the beginning of a sentence.

    Returns:
        The package.

    Raises:
        MissingExtraError: it is not installed; the message names the extra.

    Example:
        >>> need("torch", "probing a model").__name__
        'torch'
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != package:
            raise  # it is there, and something that it needs is not
        raise MissingExtraError(missing(package, what)) from None


def missing(package: str, what: str) -> str:
    """What to say where a package is missing.

    Example:
        >>> missing("dash", "the explorer")
        "the explorer needs dash, which is not installed — pip install 'isometer[explore]'"
    """
    return f"{what} needs {package}, which is not installed — pip install 'isometer[{EXTRAS[package]}]'"
