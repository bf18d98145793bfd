"""The edge of chaos: the gain, skip strength, bias or activation scale at which χ = 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq

from isometer.errors import IsometerError
from isometer.solvers._answer import Answer
from isometer.spec import Chain, Spec, with_number
from isometer.spec._edits import NetworkNumber
from isometer.theory.chains import ChainLayer, chi_of, network_phase
from isometer.theory.chains._layer import uncovered

RANGES: dict[NetworkNumber, tuple[float, float]] = {
    "gain": (0.05, 20.0),
    "gamma": (0.01, 100.0),
    "bias_variance": (1e-4, 10.0),
    "activation_gain": (0.05, 20.0),
}
"""Where solutions are looked for unless told."""
_WORDS = {
    "gain": "gain",
    "gamma": "skip strength γ",
    "bias_variance": "bias variance",
    "activation_gain": "activation scale α",
}
_POINTS = 33  # of the scan for changes of sign
_FEWER = 13  # where every point follows a network layer by layer
_LEAST = 1e-7  # |χ − 1| of a solution: where χ jumps across 1 there is none


def chi(spec: Spec, unknown: NetworkNumber, value: float, mean_square: float = 1.0) -> float:
    """χ of a network with one of its numbers set.

    Example:
        >>> chi(Spec(width=4, depth=2, activation="relu"), "gain", 2**0.5)
        1.0000000000000002
    """
    if unknown == "activation_gain" and isinstance(spec, Chain) and not uncovered(spec):
        # without a norm φ(αz) is φ of a signal α times as large, whose moments are known already
        layer = ChainLayer.of(spec.replace(activation_gain=1.0))
        if layer.is_plain:
            names = ("weight_variance", "entry_variance", "bias_variance")
            larger = layer.with_values(**{name: getattr(layer, name) * value**2 for name in names})
            return chi_of(larger, mean_square=mean_square)
    network = with_number(spec, unknown, value)
    if isinstance(network, Chain) and not uncovered(network):
        return chi_of(ChainLayer.of(network), mean_square=mean_square)
    return network_phase(network, mean_square=mean_square).chi


def edge_of(
    spec: Spec, unknown: NetworkNumber, *, between: tuple[float, float] | None = None, mean_square: float = 1.0
) -> Answer:
    """The value of one number of a network at which χ = 1: nearby inputs neither align nor separate exponentially.

    Args:
        spec: the network; the number's own value does not matter, and all steps that have it get the same.
        unknown: `"gain"`, `"gamma"`, `"bias_variance"` or `"activation_gain"`.
        between: where to look, on a logarithmic scale.
        mean_square: mean square of the inputs.

    Returns:
        An `Answer`; the smallest solution, with all of them in `solutions`.

    Example:
        >>> from isometer import Spec
        >>> edge_of(Spec(width=8, depth=2, activation="tanh", bias_variance=0.1), "gain").conclusion[:40]
        'The edge of chaos is at gain 1.4092809.'
    """
    low, high = between or RANGES[unknown]
    if not 0.0 < low < high:
        raise IsometerError(f"the range is {low:g} to {high:g}; expected two positive numbers, the smaller first")
    question = f"χ over the {_WORDS[unknown]}; the edge of chaos is at χ = 1"
    quick = isinstance(spec, Chain) and not uncovered(spec)
    grid = np.geomspace(low, high, _POINTS if quick else _FEWER)
    if network_phase(with_number(spec, unknown, float(grid[0])), mean_square=mean_square).growing:
        words = "The signal grows with depth, since no norm follows the skip: χ approaches 1 for all values."
        step = "add --norm layer --norm-position sum, or solve for a depth"
        return Answer(unknown, question, str(spec), None, None, words, step)

    def excess(value: float) -> float:
        return min(chi(spec, unknown, value, mean_square), 1e300) - 1.0

    values = [excess(float(at)) for at in grid]
    rows = tuple(
        (float(at), 1.0 + value) for at, value in zip(grid[:: len(grid) // 8], values[:: len(grid) // 8], strict=True)
    )
    columns = (unknown.replace("_", " "), "χ")
    if max(map(abs, values)) <= 1e-9:
        words = f"Any {_WORDS[unknown]} will do: χ = 1 for all of them."
        step = "isometer phase, with the same options, says what happens at the edge"
        return Answer(unknown, question, str(spec), math.inf, 0.0, words, step, columns, rows)
    solutions, errors = _roots(excess, grid, values)
    if not solutions:
        flat = max(values) - min(values) <= 1e-9
        span = f"χ is {1 + values[0]:.4g}" if flat else f"χ goes from {1 + min(values):.4g} to {1 + max(values):.4g}"
        words = f"No {_WORDS[unknown]} between {low:g} and {high:g} is at the edge: {span}."
        step = "look elsewhere with --between LOW:HIGH, or solve for another number"
        return Answer(unknown, question, str(spec), None, None, words, step, columns, rows)
    value, error = solutions[0], errors[0]
    solved = with_number(spec, unknown, value)
    more = "" if len(solutions) == 1 else f" (and at {', '.join(f'{one:.6g}' for one in solutions[1:])})"
    words = f"The edge of chaos is at {_WORDS[unknown]} {value:.9g}{more}."
    step = f'isometer simulate --network "{solved}" --backward, to see gradients that keep their size'
    return Answer(unknown, question, str(solved), value, error, words, step, columns, rows, tuple(solutions))


def _roots(
    excess: Callable[[float], float], grid: np.ndarray[tuple[int], np.dtype[np.float64]], values: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Where the excess is zero, with errors; a jump across zero is none."""
    found: list[float] = []
    errors: list[float] = []
    for left, right, below, above in zip(grid[:-1], grid[1:], values[:-1], values[1:], strict=True):
        if below == 0.0:
            root = float(left)
        elif below * above < 0.0:
            root = float(brentq(excess, left, right, xtol=1e-14, rtol=8.9e-16, maxiter=200))
        else:
            continue
        rest = abs(excess(root))
        if rest > _LEAST:
            continue
        step = 1e-4 * root
        slope = abs(excess(root + step) - excess(root - step)) / (2 * step)
        found.append(root)
        errors.append(max(4e-16 * root, (rest + 1e-13) / slope if slope > 0 else math.inf))
    return found, errors


def edge_curve(
    spec: Spec,
    unknown: NetworkNumber,
    along: NetworkNumber,
    values: Sequence[float],
    *,
    between: tuple[float, float] | None = None,
    mean_square: float = 1.0,
) -> Answer:
    """The edge of chaos as a curve: one number solved for at each value of another.

    Args:
        spec: the network.
        unknown: what is solved for.
        along: what is given.
        values: values of it.
        between, mean_square: as for `edge_of`.

    Returns:
        An `Answer` with the curve as its table.

    Example:
        >>> from isometer import Spec
        >>> spec = Spec(width=8, depth=2, activation="tanh")
        >>> [round(row[1], 4) for row in edge_curve(spec, "gain", "bias_variance", [0.01, 0.1]).rows]
        [1.1934, 1.4093]
    """
    if along == unknown:
        raise IsometerError(
            f"{unknown} is both solved for and given; expected two different numbers of the network — name another"
        )
    if not values:
        raise IsometerError(f"no values of {along} are given; expected some — bias-variance=0.01:0.5:11, for example")
    rows = []
    for value in values:
        found = edge_of(with_number(spec, along, float(value)), unknown, between=between, mean_square=mean_square)
        rows.append((float(value), found.value, found.error, found.network))
    known = [row for row in rows if row[1] is not None]
    question = f"the edge of chaos, χ = 1: {_WORDS[unknown]} over {_WORDS[along]}"
    if not known:
        words = f"No {_WORDS[unknown]} is at the edge at any of the {len(rows)} values of the {_WORDS[along]}."
    else:
        first, last = known[0], known[-1]
        words = (
            f"The edge of chaos is at {_WORDS[unknown]} {first[1]:.6g} for {_WORDS[along]} {first[0]:g} and at "
            f"{last[1]:.6g} for {last[0]:g}."
        )
    columns = (along.replace("_", " "), unknown.replace("_", " "), "error")
    step = "isometer phase --plot phase.png, with the same network, draws the plane"
    table = tuple(row[:3] for row in rows)
    networks = tuple(row[3] for row in known)
    return Answer(unknown, question, str(spec), None, None, words, step, columns, table, networks=networks)
