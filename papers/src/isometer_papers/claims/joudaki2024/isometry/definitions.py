"""001, §6.2 to §6.4: batch norm without recentring, the isometry gap, ranks, spectra of BN(·), activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.activations import activation
from isometer.metrics import batch_normalize
from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import eigenvalues, elementwise, mpmath, numerical_rank
from isometer_papers.claims._statements import above, asymptotic, at_least, at_most, deterministic, equal, vanishes
from isometer_papers.claims.joudaki2024.isometry.instances import (
    MATRICES,
    UNIT,
    gram_spectrum,
    grid,
    layer_gap,
    rotation,
    search_matrix,
    singular,
)
from isometer_papers.float_or_mpmath import Numeric, is_precise
from isometer_papers.theory.isometry import (
    column_gap,
    gain_factor,
    isometry_of,
    normalized_rows,
    normalized_rows_as_printed,
    printed_gap,
    row_norms,
)


def _wide(rng: Rng, count: int) -> Iterator[Instance]:
    """More samples than features."""
    yield {"X": np.array([[3.0, 4.0]])}
    yield {"X": np.array([[2.0, 1.0, 2.0], [1.0, 0.0, 0.0]])}
    for _ in range(count):
        d = int(rng.integers(1, 5))
        yield {"X": rng.standard_normal((d, d + int(rng.integers(0, 4))))}


def _tall(rng: Rng, count: int) -> Iterator[Instance]:
    """At most as many samples as features."""
    yield {"X": np.array([[1.0], [0.0]])}
    yield {"X": np.array([[1.0], [1.0]])}
    yield {"X": np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])}
    for _ in range(count):
        n = int(rng.integers(1, 5))
        yield {"X": rng.standard_normal((n + int(rng.integers(0, 4)), n)) * rng.uniform(0.1, 3)}


def _orthogonal(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"X": np.eye(2)}
    for _ in range(count):
        yield {"X": rotation(rng, int(rng.integers(1, 7)))}


def _by_matrix(x: Numeric) -> Numeric:
    """diag(XXᵀ)^{−1/2} X, written as matrices."""
    return np.diag(np.diagonal(x @ x.T) ** -0.5) @ x


def _largest(difference: Numeric) -> Numeric:
    return abs(difference).max()


def _scaling(x: Numeric) -> Numeric:
    n = x.shape[1]
    root = n**0.5
    if not is_precise(np.asarray(x)):
        return _largest(batch_normalize(x.T, recenter=False).T - root * normalized_rows(x))
    return _largest(x / ((x * x).sum(axis=1) / n)[:, None] ** 0.5 - mpmath().sqrt(n) * normalized_rows(x))


def _far_from_orthogonal(i: Instance) -> bool:
    gram = i["X"].T @ i["X"]
    return bool(_largest(gram - np.eye(len(gram)) * np.trace(gram) / len(gram)) > 1e-3 * np.trace(gram))


def _not_orthogonal(i: Instance) -> bool:
    return bool(_largest(i["X"] @ i["X"].T - np.eye(len(i["X"]))) > 1e-6)


def _low_rank(rng: Rng, count: int) -> Iterator[Instance]:
    """Of every rank."""
    for _ in range(count):
        d = int(rng.integers(2, 7))
        k = int(rng.integers(1, d + 1))
        x = rng.standard_normal((d, k)) @ rng.standard_normal((k, d))
        yield {"X": x, "W": rotation(rng, d)}


def _slope(i: Instance) -> float:
    return float(activation(i["phi"]).derivative(i["x"]))


def _exact_slope(i: Instance) -> Numeric:
    library = mpmath()
    return library.cos(i["x"]) if i["phi"] == "sin" else 1 - library.tanh(i["x"]) ** 2


def _functions(name: str, low: float, high: float, *extra: float) -> Any:
    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for i in grid(name, low, high, *extra)(rng, count):
            for phi in ("tanh", "sin"):
                yield {**i, "phi": phi}

    return generator


_origin = cases({"phi": "tanh", "x": 0.0}, {"phi": "sin", "x": 0.0})


CLAIMS = (
    deterministic("001/op-6.4:rows", vanishes(lambda i: _largest(row_norms(_by_matrix(i["X"])) - 1)), MATRICES),
    deterministic(
        "001/op-6.4:entries",
        vanishes(lambda i: _largest(_by_matrix(i["X"]) - normalized_rows_as_printed(i["X"]))),
        {"wide": _wide},
    ),
    deterministic(
        "001/op-6.4:entries#corrected",
        vanishes(lambda i: _largest(_by_matrix(i["X"]) - normalized_rows(i["X"]))),
        {"wide": _wide, "tall": _tall, **MATRICES},
        hypotheses=lambda i: bool((row_norms(i["X"]) > 0).all()),
    ),
    deterministic(
        "001/op-6.4:scaling", vanishes(lambda i: _scaling(i["X"])), {"wide": _wide, "square": MATRICES["random"]}
    ),
    deterministic("001/def-6.5:rectangular", at_least(lambda i: printed_gap(i["X"]), 0), {"tall": _tall}),
    deterministic(
        "001/def-6.5:rectangular#intended",
        at_least(lambda i: layer_gap(i["X"]), 0),
        MATRICES,
        scale=1,
        search=search_matrix(2),
    ),
    deterministic(
        "001/def-6.5:rectangular#corrected", at_least(lambda i: column_gap(i["X"]), 0), {"tall": _tall}, scale=1
    ),
    deterministic("001/def-6.5:orthogonal", vanishes(lambda i: layer_gap(i["X"])), {"orthogonal": _orthogonal}),
    deterministic(
        "001/def-6.5:scaled-identity",
        above(lambda i: layer_gap(i["X"]), 0),
        MATRICES,
        hypotheses=_far_from_orthogonal,
        scale=1,
    ),
    deterministic(
        "001/def-6.5:collinear", vanishes(lambda i: isometry_of(i["X"])), {"singular": singular}, tolerance=1e-6
    ),
    deterministic("001/claim-6.spectrum:trace", equal(lambda i: gram_spectrum(i).sum(), lambda i: len(i["X"])), UNIT),
    deterministic("001/claim-6.spectrum:interval", at_most(lambda i: max(gram_spectrum(i)), 1), UNIT),
    deterministic(
        "001/claim-6.spectrum:interval#corrected",
        at_most(lambda i: max(eigenvalues(normalized_rows(i["X"]) @ normalized_rows(i["X"]).T)), lambda i: len(i["X"])),
        {**UNIT, "singular": singular},
    ),
    deterministic("001/claim-6.spectrum:factor", above(lambda i: gain_factor(gram_spectrum(i)), 1), UNIT),
    deterministic(
        "001/claim-6.spectrum:factor#corrected",
        above(lambda i: gain_factor(gram_spectrum(i)), 1),
        UNIT,
        hypotheses=_not_orthogonal,
        tolerance=1e-15,
    ),
    deterministic(
        "001/claim-6.rank",
        at_most(lambda i: numerical_rank(normalized_rows(i["W"] @ i["X"])), lambda i: numerical_rank(i["X"])),
        {"singular": singular, "low": _low_rank},
    ),
    deterministic(
        "001/claim-6.act:centred",
        vanishes(lambda i: elementwise(i["phi"])(i["x"])),
        {"origin": _origin},
        exact=lambda i: (getattr(mpmath(), i["phi"])(i["x"]), 0),
    ),
    deterministic("001/claim-6.act:slope", equal(_slope, 1), {"origin": _origin}, exact=lambda i: (_exact_slope(i), 1)),
    deterministic(
        "001/claim-6.act:bounded",
        at_most(_slope, 1),
        {"line": _functions("x", -20.0, 20.0, 0.0)},
        exact=lambda i: (_exact_slope(i), 1),
        scale=1,
    ),
    asymptotic(
        "001/claim-6.act:linear",
        vanishes(lambda i: abs(float(elementwise(i["phi"])(1e-3 * i["x"])) / 1e-3 - i["x"])),
        {"line": _functions("x", -3.0, 3.0, 1.0)},
        exact=lambda i: (abs(getattr(mpmath(), i["phi"])(i["x"] / 1000) * 1000 - i["x"]), 0),
        tolerance=1e-5,
    ),
)
