"""Errors that name what was expected, what came and how to fix it."""


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
