"""001, eq. C.78 to C.90: gradients and Jacobians through several layers, for every draw of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import at_most, deterministic, equal
from isometer_papers.claims.joudaki2024.isometry.instances import UNIT, rotation, small_matrices
from isometer_papers.float_or_mpmath import Numeric, log
from isometer_papers.theory.isometry import (
    chain_jacobian,
    gradient_through_layers,
    isometry_of,
    log_jacobian_norm,
    normalized_rows,
    pre_activations,
    two_phase_bound,
)


def _paths(rng: Rng, count: int) -> Iterator[Instance]:
    """Weights of several layers and a batch with rows of length 1."""
    for i in small_matrices(rng, count):
        yield {"X": normalized_rows(i["X"]), "W": i["W"][None]}
    for _ in range(count):
        d, layers = int(rng.integers(2, 4)), int(rng.integers(1, 5))
        x = rng.standard_normal((d, d))
        if rng.integers(2):
            x = rotation(rng, d) + 0.2 * rng.uniform() * x
        yield {"X": normalized_rows(x), "W": np.stack([rotation(rng, d) for _ in range(layers)])}


def _classes(rng: Rng, count: int) -> Iterator[Instance]:
    """Weights V of the logits, C × d with C ≤ d orthonormal rows: two classes first."""
    x = np.array([[1.0, -1.0, 0.0, -1.0], [1.0, 1.0, 2.0, -1.0], [2.0, -1.0, -1.0, -2.0], [2.0, 2.0, 2.0, 1.0]])
    yield {
        "X": normalized_rows(x),
        "W": np.eye(4)[None],
        "V": np.array([[0.5, 0.5, 0.5, 0.5], [0.5, -0.5, 0.5, -0.5]]),
        "G": np.array([[2.0, 0.0, 1.0, -1.0], [0.0, 2.0, 1.0, 1.0]]),
    }
    for i in _paths(rng, count):
        d = len(i["X"])
        classes = int(rng.integers(1, d + 1))
        yield {**i, "V": rotation(rng, d)[:classes], "G": rng.standard_normal((classes, d))}


def _operator(x: Numeric) -> Numeric:
    return max(eigenvalues(x.T @ x)) ** 0.5


def _states(i: Instance) -> list[Any]:
    """X^1 … X^L, whose H^ℓ = W^ℓ X^ℓ are normalised."""
    return [i["X"], *(normalized_rows(h) for h in pre_activations(list(i["W"]), i["X"])[:-1])]


def _all_layers(i: Instance) -> Numeric:
    """log‖J_F‖."""
    return log(_operator(chain_jacobian(list(i["W"]), i["X"])))


def _summed_inputs(i: Instance) -> Numeric:
    return sum(log_jacobian_norm(h) for h in pre_activations(list(i["W"]), i["X"]))


def _gaps(i: Instance) -> list[Any]:
    """ψ(X^ℓ), the first also in the place of X⁰."""
    values = [-log(isometry_of(state)) for state in _states(i)]
    values = [value if value > 0 else 0 * value for value in values]
    return [values[0], *values]


def _gradient(i: Instance) -> Numeric:
    """log‖∂𝓛/∂W^ℓ‖ of the first weights."""
    return log(gradient_through_layers([*i["W"], i["V"]], i["X"], i["G"]).gradient)


def _chain_rule(i: Instance, logits: bool) -> Numeric:
    """The bound, with the term log‖J_BN(H^L)‖ of the logits or without."""
    found = gradient_through_layers([*i["W"], i["V"]], i["X"], i["G"])
    last = log_jacobian_norm(pre_activations([*i["W"], i["V"]], i["X"])[-1]) if logits else 0
    return log(found.loss) + sum(found.log_jacobians) + last + log(_operator(i["X"]))


_PATHS = {"paths": _paths}
_COUNTS = (60, 400)

CLAIMS = (
    deterministic(
        "001/eq-C.78-80:eq-C.80",
        at_most(_gradient, lambda i: _chain_rule(i, True)),
        {"classes": _classes},
        scale=1,
        counts=_COUNTS,
    ),
    deterministic(
        "001/eq-C.78-80:eq-C.80#corrected",
        at_most(_gradient, lambda i: _chain_rule(i, False)),
        {"classes": _classes},
        scale=1,
        counts=_COUNTS,
    ),
    deterministic("001/eq-C.78-80:weights", equal(lambda i: _operator(i["W"]), 1), UNIT),
    deterministic(
        "001/eq-C.78-80:inputs",
        at_most(lambda i: _operator(i["X"]), lambda i: len(i["X"])),
        {**UNIT, "equal": lambda rng, count: ({"X": np.ones((d, d)) / d**0.5} for d in (2, 3, 5))},
    ),
    deterministic(
        "001/lem-C.12:eq-C.87",
        at_most(_all_layers, lambda i: sum(log_jacobian_norm(state) for state in _states(i))),
        _PATHS,
        scale=1,
        counts=_COUNTS,
    ),
    deterministic(
        "001/lem-C.12:eq-C.87#corrected", at_most(_all_layers, _summed_inputs), _PATHS, scale=1, counts=_COUNTS
    ),
    deterministic(
        "001/lem-C.12:eq-C.88",
        at_most(_summed_inputs, lambda i: two_phase_bound(_gaps(i), len(i["X"]))),
        _PATHS,
        scale=1,
        tolerance=1e-6,
        counts=_COUNTS,
    ),
    deterministic(
        "001/lem-C.12:eq-C.89",
        at_most(
            lambda i: two_phase_bound(_gaps(i), len(i["X"])),
            lambda i: two_phase_bound(_gaps(i), len(i["X"]), _gaps(i)[0]),
        ),
        _PATHS,
        scale=1,
        counts=_COUNTS,
    ),
)
