"""The same numbers again in 50 digits: instances as mpmath numbers, and the certificate of a refutation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from isometer.errors import IsometerError, unknown_name
from isometer_papers.claims._claim import Claim, Instance, slack
from isometer_papers.float_or_mpmath import Numeric, atan, is_precise, sin, tanh

DIGITS = 50
_EQUAL = 40  # agreement to so many digits is equality
_SEEN = 1e-3  # of the larger side: a violation that a second formula confirms


def mpmath() -> Any:
    """The library, loaded when it is needed.

    Example:
        >>> mpmath().mpf(1) / 4
        mpf('0.25')
    """
    try:
        import mpmath as library
    except ImportError:
        raise IsometerError("checking claims needs mpmath, which is not installed — pip install mpmath") from None
    return library


def lifted(value: Any) -> Any:
    """An instance with its floating-point numbers and arrays as mpmath numbers, exactly; integers and text stay.

    Example:
        >>> lifted({"x": 0.5, "n": 3, "h": np.ones((1, 2))})["h"].dtype
        dtype('O')
    """
    number = mpmath().mpf
    if isinstance(value, Mapping):
        return {key: lifted(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return np.frompyfunc(lambda v: number(float(v)), 1, 1)(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, np.floating):
        return number(float(value))
    return value


def exact_sides(claim: Claim, instance: Instance) -> tuple[Numeric, Numeric]:
    """Quantity and bound of an instance in 50 digits.

    Example:
        >>> claim = Claim("000/x", "deterministic", ">=", lambda i: i["x"], {"one": lambda rng, n: []},
        ...               quantity=lambda i: i["x"] ** 2)
        >>> exact_sides(claim, {"x": 0.5})[0]
        mpf('0.25')
    """
    with mpmath().workdps(DIGITS):
        if claim.exact is not None:
            return claim.exact(lifted(instance))
        assert claim.quantity is not None
        high = lifted(instance)
        return claim.quantity(high), claim.bound(high)


def certified(claim: Claim, instance: Instance) -> str | None:
    """How a violation is certified, or None if high precision does not confirm it.

    Example:
        >>> claim = Claim("000/x", "deterministic", ">", lambda i: i["x"], {"one": lambda rng, n: []},
        ...               quantity=lambda i: i["x"] ** 2)
        >>> certified(claim, {"x": 1.0}), certified(claim, {"x": 2.0})
        ('mpmath, 50 digits', None)
    """
    library = mpmath()
    value, bound = exact_sides(claim, instance)
    with library.workdps(DIGITS):
        value, bound = library.mpf(value), library.mpf(bound)
        size = max(abs(value), abs(bound)) if claim.scale is None else library.mpf(claim.scale(lifted(instance)))
        room = slack(claim.relation, value, bound) / (size if size > 0 else 1)
        # a tie refutes a strict statement; the others keep their tolerance, which may stand for a limit
        violated = room <= library.mpf(10) ** -_EQUAL if claim.relation in ("<", ">") else room < -claim.tolerance
    if not violated or not _confirmed(claim, instance):
        return None
    told = f"mpmath, {DIGITS} digits"
    return told if claim.second is None else f"{told}; second formula ({claim.second.how})"


def _confirmed(claim: Claim, instance: Instance) -> bool:
    """Whether the second formula, if there is one, sees the violation, too."""
    if claim.second is None:
        return True
    value, bound = claim.second.sides(instance)
    room = slack(claim.relation, value, bound)
    # a second formula may be a quadrature or a simulation: what it confirms is beyond its errors
    return bool(room <= 0 if claim.relation in ("<", ">") else room < -_SEEN * max(abs(value), abs(bound)))


def eigenvalues(matrix: Any) -> np.ndarray[Any, Any]:
    """Eigenvalues of a symmetric matrix in ascending order, in float64 or in the digits of its mpmath numbers.

    Example:
        >>> eigenvalues(np.diag([2.0, 1.0])).tolist()
        [1.0, 2.0]
    """
    array = np.asarray(matrix)
    if not is_precise(array):
        return np.asarray(np.linalg.eigvalsh(array))
    library = mpmath()
    values = library.eigsy(library.matrix(array.tolist()), eigvals_only=True)
    return np.array(sorted(values), dtype=object)


def numerical_rank(matrix: Any) -> int:
    """Rank of a matrix: singular values above 1e-9 of the largest, or above 1e-20 for mpmath numbers.

    Example:
        >>> numerical_rank(np.ones((3, 2)))
        1
    """
    array = np.asarray(matrix)
    if not is_precise(array):
        values = np.linalg.svd(array, compute_uv=False)
        return int((values > 1e-9 * values[0]).sum()) if values.size and values[0] > 0 else 0
    values = eigenvalues(array.T @ array)
    # squares of singular values: 1e-40 is 1e-20
    return int(sum(value > 1e-40 * values[-1] for value in values)) if values[-1] > 0 else 0


def elementwise(name: str) -> Callable[[Numeric], Numeric]:
    """An activation as a function of float64 or mpmath arrays.

    Example:
        >>> elementwise("tanh")(np.zeros(2)).tolist()
        [0.0, 0.0]
    """

    if name not in _FUNCTIONS:
        raise unknown_name("function", name, _FUNCTIONS)
    return _FUNCTIONS[name]


_FUNCTIONS: dict[str, Callable[[Numeric], Numeric]] = {
    "identity": np.asarray,
    "tanh": tanh,
    "sin": sin,
    "arctan": atan,
    "relu": lambda x: np.maximum(x, 0),
    "hardtanh": lambda x: np.minimum(np.maximum(x, -1), 1),
    "double": lambda x: 2 * np.asarray(x),
}
