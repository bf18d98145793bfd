"""Errors that name what was expected, what came and how to fix it."""

import difflib
from collections.abc import Iterable
from typing import Any

_LISTED = 16  # names that fit into a message


class IsometerError(ValueError):
    """Base class of every error that Isometer raises about its input.

    Example:
        >>> from isometer.errors import IsometerError
        >>> issubclass(IsometerError, ValueError)
        True
    """


class ActivationError(IsometerError):
    """An activation cannot be parsed, evaluated or integrated under a Gaussian.

    Example:
        >>> from isometer import activation
        >>> activation("rleu")
        Traceback (most recent call last):
        ...
        isometer.errors.ActivationError: unknown activation or name 'rleu'; did you mean 'relu'? ...
    """


class InfiniteMomentError(ActivationError):
    """The activation has no finite second moment under a standard Gaussian.

    Example:
        >>> from isometer import activation
        >>> activation("exp(x**2)").second_moment
        Traceback (most recent call last):
        ...
        isometer.errors.InfiniteMomentError: the second moment E φ(X)² of exp(x**2) is infinite ...
    """


class OverflowingMomentError(InfiniteMomentError):
    """A moment of the activation is finite, but too large for floating point.

    Example:
        >>> from isometer import activation
        >>> activation("relu").scaled(1e200).second_moment
        Traceback (most recent call last):
        ...
        isometer.errors.OverflowingMomentError: E φ² of scaled(relu, 1e+200) is about 10^400, which floating point ...
    """


class ModelChangedError(IsometerError):
    """An examination succeeded, but the model changed and could not be restored.

    Example:
        >>> from isometer.errors import IsometerError, ModelChangedError
        >>> issubclass(ModelChangedError, IsometerError)
        True
    """


def unknown_name(
    kind: str, name: Any, known: Iterable[Any], *, fix: str = "", error: type[Exception] = IsometerError
) -> Exception:
    """The error about a name that does not exist: the nearest one, all of them if they are few, and the fix.

    Args:
        kind: what it should name.
        name: what came.
        known: the names that exist.
        fix: what to do, such as the command that lists all names.
        error: its class.

    Example:
        >>> unknown_name("norm", "bacth", ["batch", "layer"], fix="pass one of them")
        IsometerError("unknown norm 'bacth'; did you mean 'batch'? expected one of batch, layer — pass one of them")
    """
    names = [str(one) for one in known]
    shown = name[:60] if isinstance(name, str) else name
    near = difflib.get_close_matches(str(shown), names, 1)
    told = [f"did you mean {near[0]!r}?"] if near else []
    if len(names) <= _LISTED or not (near or fix):
        told.append(f"expected one of {', '.join(names)}" + (f" — {fix}" if fix else ""))
    elif fix:
        told.append(fix)
    return error(f"unknown {kind} {shown!r}; {' '.join(told)}")
