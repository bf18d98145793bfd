"""What kernels of a batch take: memory and time, before anything is computed."""

from __future__ import annotations

from isometer.theory.kernels._length_map import SignalFamily
from isometer.theory.kernels._pair_rules import PairRule
from isometer.theory.kernels._quadratic_pairs import QuadraticPieces
from isometer.work import Work, check_work

# Measured on one core of a common computer, and rounded up.
_ENTRY = 4e-7  # seconds per entry of a matrix whose layers share a map
_FLOP = 1e-9
_TERM = 4e-9  # per pair and degree of a series
_NODE = 1.5e-7  # per pair and node of a rule, φ included
_ANGLE = 2e-5  # per pair, for every two kinks of an integral over an angle
_TABLE = 4e-5  # per pair from a table, its making included
_DEGREES = 200  # of a series, more or less
_MAP = 1.0  # seconds for the map of one length


def kernel_work(inputs: int, features: int, kinds: int) -> Work:
    """Of one length: inner products, a function of each, and the spectrum.

    Example:
        >>> kernel_work(1000, 10, 1).seconds < 10
        True
    """
    n = float(inputs)
    return Work(
        8.0 * n * (n * (kinds + 3) + 3 * features) + (1 << 26),
        _MAP + n * n * (_ENTRY * kinds + _FLOP * (features + 3 * n)),
    )


def mixed_work(family: SignalFamily, inputs: int, features: int, depth: int, *, tangent: bool) -> Work:
    """Of several lengths, where every layer costs.

    Example:
        >>> from isometer.theory.kernels import SignalFamily
        >>> mixed_work(SignalFamily("tanh"), 100, 10, 100, tangent=False).seconds < 60
        True
    """
    n, phi = float(inputs), family.activation
    one = kernel_work(inputs, features, 2 if tangent else 1)
    if phi.kinks:
        each = n * n / 2 * _pair_seconds(family) * (2 if tangent else 1) + n * 5e-5
    else:
        each = n * n * _DEGREES * _TERM * (2 if tangent else 1) + n * 4e-4
    return Work(one.memory + 8.0 * n * (6 * n + 2000), one.seconds + depth * (each + 2e-3))


def _pair_seconds(family: SignalFamily) -> float:
    """Of a pair and layer, where φ has kinks."""
    phi = family.activation
    if family.affine_rays is not None or family.sign_like:
        return _ENTRY
    pieces = QuadraticPieces.of(phi)
    if pieces is not None:
        return _ANGLE * (len(pieces.kinks) ** 2 + 1)
    if phi.kinks == (0.0,) and not phi.jumps:
        return _TABLE
    return PairRule(phi, None, phi.kinks).nodes() * _NODE


def check_kernel_work(inputs: int, features: int, kinds: int) -> None:
    """Refuse kernels of more inputs than fit."""
    knobs = {"inputs": (inputs, lambda n: kernel_work(n, features, kinds))}
    check_work("the kernel", kernel_work(inputs, features, kinds), knobs)


def check_mixed_work(family: SignalFamily, inputs: int, features: int, depth: int, *, tangent: bool) -> None:
    """Refuse kernels of inputs of several lengths that would take too long."""
    check_work(
        "the kernel of inputs of several lengths",
        mixed_work(family, inputs, features, depth, tangent=tangent),
        {
            "inputs": (inputs, lambda n: mixed_work(family, n, features, depth, tangent=tangent)),
            "layers": (depth, lambda layers: mixed_work(family, inputs, features, layers, tangent=tangent)),
        },
    )
