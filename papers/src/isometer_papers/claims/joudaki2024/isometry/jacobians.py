"""001, Lemmas C.13, C.16 and C.18 to C.21: the Jacobian of batch norm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import at_least, at_most, deterministic, equal, vanishes
from isometer_papers.claims.joudaki2024.isometry.instances import (
    MATRICES,
    TRACED,
    UNIT,
    layer_gap,
    rotation,
    search_matrix,
)
from isometer_papers.float_or_mpmath import Numeric, is_precise, library_of, log
from isometer_papers.theory.isometry import (
    chain_jacobian,
    log_jacobian_norm,
    normalization_jacobian,
    row_jacobian,
    row_norms,
    smallest_eigenvalue_bound,
    smallest_eigenvalue_bound_near,
)


def _vectors(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"x": np.array([3.0, 4.0])}
    yield {"x": np.array([2.0])}
    for _ in range(count):
        yield {"x": rng.standard_normal(int(rng.integers(2, 8))) * 10.0 ** rng.uniform(-2, 2)}


def _several(i: Instance) -> bool:
    return len(i["x"]) > 1


def _differentiated(x: Numeric) -> Numeric:
    """The Jacobian of X ↦ BN(X), of x/‖x‖ for one row, by complex steps; the rows of X one after the other."""
    x = np.atleast_2d(x)
    precise = is_precise(x)
    # a complex step subtracts nothing: its error, of order 1e-60, is below 50 digits
    step = (library_of(x[0, 0]).mpc(0, 1) if precise else 1j) * 1e-30
    columns = []
    for k in range(x.size):
        moved = np.array(x, dtype=object if precise else complex).ravel()
        moved[k] = moved[k] + step
        moved = moved.reshape(x.shape)
        # no conjugate: the function has to stay analytic
        value = moved / ((moved * moved).sum(axis=1) ** 0.5)[:, None]
        columns.append([entry.imag / 1e-30 for entry in value.ravel()])
    return np.array(columns, dtype=object if precise else float).T


def _copies(i: Instance, value: Any) -> int:
    """How often the row's Jacobian has an eigenvalue."""
    norm = (i["x"] @ i["x"]) ** 0.5
    return sum(bool(abs(found * norm - value) < 1e-9) for found in eigenvalues(row_jacobian(i["x"])))


def _squared_norm(matrix: Numeric) -> Numeric:
    return max(eigenvalues(matrix.T @ matrix))


def _smallest(i: Instance) -> Numeric:
    return min(eigenvalues(i["X"] @ i["X"].T))


def _union_gap(i: Instance) -> Numeric:
    """Eigenvalues of J_BN against those of its rows, 1/‖X_i‖ n − 1 times each and zeros."""
    d, n = i["X"].shape
    inverse = 1 / row_norms(i["X"])
    listed = sorted([*[value for value in inverse for _ in range(n - 1)], *[0 * inverse[0]] * d])
    return max(abs(a - b) for a, b in zip(eigenvalues(normalization_jacobian(i["X"])), listed, strict=True))


def _off_blocks(i: Instance) -> Numeric:
    """The largest derivative between different rows."""
    d, n = i["X"].shape
    mask = np.kron(1 - np.eye(d, dtype=int), np.ones((n, n), dtype=int))
    return abs(_differentiated(i["X"]) * mask).max()


def _block_gap(i: Instance) -> Numeric:
    return abs(_differentiated(i["X"]) - normalization_jacobian(i["X"])).max()


def _near_gap(i: Instance) -> bool:
    return bool(16 * len(i["X"]) * layer_gap(i["X"]) <= 1)


def _scaled(rng: Rng, count: int) -> Iterator[Instance]:
    """Inputs of any size."""
    yield {"X": 0.01 * np.eye(2)}
    for _ in range(count):
        d = int(rng.integers(2, 6))
        x = rotation(rng, d) + 10.0 ** -rng.uniform(0.5, 4) * rng.standard_normal((d, d))
        yield {"X": x * 10.0 ** rng.uniform(-2, 1)}


def _any_size(rng: Rng, count: int) -> Iterator[Instance]:
    """One sample and one feature, and more."""
    yield {"X": np.array([[2.0]])}
    for family in MATRICES.values():
        yield from family(rng, count)


def _orthogonal_nearly(rng: Rng, count: int) -> Iterator[Instance]:
    """Near isometry, tr XXᵀ = d."""
    yield {"X": np.eye(2)}
    for _ in range(count):
        d = int(rng.integers(2, 7))
        x = rotation(rng, d) + 10.0 ** -rng.uniform(0.5, 4) * rng.standard_normal((d, d))
        yield {"X": x * (d / float((x * x).sum())) ** 0.5}


_ISOMETRIC = {**TRACED, "near": _orthogonal_nearly}


def _regular(i: Instance) -> bool:
    values = np.linalg.svd(i["X"], compute_uv=False)
    return bool(values[-1] > 1e-5 * values[0])


CLAIMS = (
    deterministic(
        "001/thm-6.5:gap-bound", at_most(lambda i: log_jacobian_norm(i["X"]), lambda i: layer_gap(i["X"])), _ISOMETRIC
    ),
    deterministic(
        "001/lem-C.13:eq-C.84",
        at_most(
            lambda i: log_jacobian_norm(i["X"]), lambda i: smallest_eigenvalue_bound(layer_gap(i["X"]), len(i["X"]))
        ),
        {"scaled": _scaled},
    ),
    deterministic(
        "001/lem-C.13:eq-C.84#corrected",
        at_most(
            lambda i: log_jacobian_norm(i["X"]), lambda i: smallest_eigenvalue_bound(layer_gap(i["X"]), len(i["X"]))
        ),
        _ISOMETRIC,
        search=search_matrix(2, trace=True),
    ),
    deterministic(
        "001/lem-C.13:eq-C.85",
        at_most(
            lambda i: log_jacobian_norm(i["X"]),
            lambda i: smallest_eigenvalue_bound_near(abs(layer_gap(i["X"])), len(i["X"])),
        ),
        {"scaled": _scaled},
        hypotheses=_near_gap,
    ),
    deterministic(
        "001/lem-C.13:eq-C.85#corrected",
        at_most(
            lambda i: log_jacobian_norm(i["X"]),
            lambda i: smallest_eigenvalue_bound_near(abs(layer_gap(i["X"])), len(i["X"])),
        ),
        _ISOMETRIC,
        hypotheses=_near_gap,
        scale=1,
        tolerance=1e-6,
    ),
    deterministic(
        "001/lem-C.16",
        at_most(lambda i: _squared_norm(normalization_jacobian(i["X"])) * _smallest(i), 1),
        MATRICES,
        hypotheses=_regular,
        search=search_matrix(2),
    ),
    deterministic(
        "001/lem-C.16:log",
        at_most(lambda i: log_jacobian_norm(i["X"]), lambda i: -log(_smallest(i))),
        MATRICES,
        hypotheses=_regular,
    ),
    deterministic(
        "001/lem-C.16:log#intended",
        at_most(lambda i: log_jacobian_norm(i["X"]), lambda i: -log(_smallest(i))),
        _ISOMETRIC,
        hypotheses=_regular,
        scale=1,
        search=search_matrix(2, trace=True),
    ),
    deterministic(
        "001/lem-C.16:log#corrected",
        at_most(lambda i: log_jacobian_norm(i["X"]), lambda i: -log(_smallest(i)) / 2),
        MATRICES,
        hypotheses=_regular,
        scale=1,
        search=search_matrix(2),
    ),
    deterministic("001/lem-C.16:blocks", vanishes(_off_blocks), MATRICES, counts=(40, 200)),
    deterministic(
        "001/lem-C.16:diagonal",
        equal(_block_gap, 0),
        MATRICES,
        scale=lambda i: max(1 / row_norms(i["X"])),
        counts=(40, 200),
    ),
    deterministic(
        "001/lem-C.16:spectrum",
        equal(_union_gap, 0),
        MATRICES,
        scale=lambda i: max(1 / row_norms(i["X"])),
        counts=(60, 400),
    ),
    deterministic(
        "001/lem-C.16:eq-C.139",
        equal(lambda i: _squared_norm(normalization_jacobian(i["X"])) * min(row_norms(i["X"])) ** 2, 1),
        {"any size": _any_size},
    ),
    deterministic(
        "001/lem-C.16:eq-C.139#corrected",
        equal(lambda i: _squared_norm(normalization_jacobian(i["X"])) * min(row_norms(i["X"])) ** 2, 1),
        MATRICES,
    ),
    deterministic(
        "001/lem-C.18",
        vanishes(lambda i: abs(row_jacobian(i["x"]) - _differentiated(i["x"])).max() * (i["x"] @ i["x"]) ** 0.5),
        {"vectors": _vectors},
    ),
    deterministic(
        "001/lem-C.18:size",
        equal(lambda i: len(_differentiated(i["x"])), lambda i: len(i["x"]) ** 2),
        {"vectors": _vectors},
    ),
    deterministic(
        "001/lem-C.18:size#corrected",
        equal(lambda i: len(_differentiated(i["x"])), lambda i: len(i["x"])),
        {"vectors": _vectors},
    ),
    deterministic(
        "001/cor-C.19:multiplicity",
        equal(lambda i: _copies(i, 1), lambda i: len(i["x"]) ** 2 - 1),
        {"vectors": _vectors},
    ),
    deterministic(
        "001/cor-C.19:multiplicity#corrected",
        equal(lambda i: _copies(i, 1), lambda i: len(i["x"]) - 1),
        {"vectors": _vectors},
        hypotheses=_several,
    ),
    deterministic("001/cor-C.19:zero", equal(lambda i: _copies(i, 0), 1), {"vectors": _vectors}),
    deterministic(
        "001/lem-C.20",
        at_least(lambda i: min(row_norms(i["X"])) ** 2, _smallest),
        {**MATRICES, "unit": UNIT["random"]},
        scale=lambda i: (i["X"] ** 2).sum(),
        search=search_matrix(3),
    ),
    deterministic(
        "001/lem-C.21",
        at_most(
            lambda i: log(_squared_norm(chain_jacobian([i["W"]], i["X"]))) / 2,
            lambda i: log_jacobian_norm(i["W"] @ i["X"]),
        ),
        UNIT,
        scale=1,
        counts=(60, 400),
    ),
)
