"""001, Lemma C.11, Remarks 6.6 and 6.7: derivatives of the losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Instance, Search
from isometer_papers.claims._families import Rng
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import at_most, deterministic, equal, vanishes
from isometer_papers.claims.joudaki2024.isometry.instances import singular
from isometer_papers.float_or_mpmath import Numeric, exp, is_precise, library_of, log
from isometer_papers.theory.isometry import (
    cross_entropy_gradient,
    isometry_of,
    softmax_jacobian,
    squared_loss_gradient,
)


def _logits(rng: Rng, count: int) -> Iterator[Instance]:
    """Logits and the one-hot label of one sample."""
    yield {"z": np.zeros(2), "y": np.array([1.0, 0.0])}
    yield {"z": np.array([-20.0, 20.0]), "y": np.array([1.0, 0.0])}
    for _ in range(count):
        classes = int(rng.integers(2, 11))
        yield {
            "z": rng.standard_normal(classes) * 10.0 ** rng.uniform(-1, 1.5),
            "y": np.eye(classes)[rng.integers(classes)],
        }


def _build(point: Numeric) -> Instance:
    return {"z": 30 * (np.asarray(point) - 0.5), "y": np.array([1.0, 0.0, 0.0])}


def _batches(rng: Rng, count: int) -> Iterator[Instance]:
    """Logits of n samples as rows, and the index of the right class of each: equal samples first."""
    yield {"Z": np.tile([-20.0, 20.0], (3, 1)), "labels": [0, 0, 0]}
    for _ in range(count):
        n, classes = (int(v) for v in rng.integers(2, 8, 2))
        z = rng.standard_normal((n, classes)) * 10.0 ** rng.uniform(-1, 1.5)
        yield {"Z": z, "labels": [int(k) for k in rng.integers(classes, size=n)]}


def _batch_gradient(i: Instance) -> Numeric:
    """Operator norm of the derivative of Σ_i 𝓛(z_i, y_i) by the logits of all samples."""
    labels = np.eye(i["Z"].shape[1])[i["labels"]]
    rows = np.array([cross_entropy_gradient(z, y) for z, y in zip(i["Z"], labels, strict=True)])
    return max(eigenvalues(rows.T @ rows)) ** 0.5


FAMILIES = {"logits": _logits}
_SEARCH = Search(_build, 3)


def _imaginary(z: Numeric) -> Numeric:
    return library_of(z[0]).mpc(0, 1) if is_precise(np.asarray(z)) else 1j


def _plain_softmax(z: Numeric, shift: Any) -> Numeric:
    powers = exp(z - shift)
    return powers / powers.sum()


def _step(z: Numeric, k: int) -> Numeric:
    """z with an imaginary step in one place, scaled so that its imaginary part is the derivative."""
    moved = np.array(z, dtype=object if is_precise(np.asarray(z)) else complex)
    moved[k] = moved[k] + _imaginary(z) * 1e-30
    return moved


def _derivative(z: Numeric, function: Any) -> Numeric:
    """∂function/∂z_k of a function of softmax(z), by complex steps: a list over k."""
    shift = max(z)
    return [function(_plain_softmax(_step(z, k), shift)) for k in range(len(z))]


def _jacobian_gap(i: Instance) -> Numeric:
    columns = _derivative(i["z"], lambda p: [entry.imag / 1e-30 for entry in p])
    difference = np.array(columns).T - softmax_jacobian(i["z"])
    return abs(difference).max()


def _cross_entropy_gap(i: Instance) -> Numeric:
    label = int(np.argmax(i["y"].astype(float)))
    values = _derivative(i["z"], lambda p: -log(p[label]))
    return max(abs(v.imag / 1e-30 - g) for v, g in zip(values, _cross_entropy(i), strict=True))


def _squared(i: Instance) -> Numeric:
    """∂/∂z of (1/C) Σ (y − p)², by complex steps."""
    values = _derivative(i["z"], lambda p: ((i["y"] - p) ** 2).sum() / len(p))
    return [value.imag / 1e-30 for value in values]


def _cross_entropy(i: Instance) -> Numeric:
    return cross_entropy_gradient(i["z"], i["y"])


def _squared_formula(i: Instance) -> Numeric:
    return squared_loss_gradient(i["z"], i["y"])


def _on_logits(i: Instance) -> Numeric:
    """∂/∂z of (1/C) Σ (y − z)², without a softmax."""
    return 2 * (i["z"] - i["y"]) / len(i["z"])


def _absolute_sum(i: Instance) -> Numeric:
    """(2/C) Σ_i |y_i − p_i||∂p_i/∂z_k|, the largest over k."""
    jacobian = softmax_jacobian(i["z"])
    p = _plain_softmax(i["z"], max(i["z"]))
    return (abs(i["y"] - p)[:, None] * abs(jacobian)).sum(axis=0).max() * 2 / len(p)


def _norm(vector: Numeric) -> Numeric:
    return (vector * vector).sum() ** 0.5


def _bounded(part: str, quantity: Any) -> Claim:
    return deterministic(
        f"001/{part}",
        at_most(quantity, 2),
        FAMILIES,
        search=_SEARCH,
    )


CLAIMS = (
    _bounded("rem-6.7:cross-entropy", lambda i: _norm(_cross_entropy(i))),
    deterministic("001/rem-6.7:squared-error", at_most(lambda i: _norm(_on_logits(i)), 2), FAMILIES),
    _bounded("rem-6.7:squared-error#corrected", lambda i: _norm(_squared_formula(i))),
    _bounded("lem-C.11:cross-entropy", lambda i: abs(_cross_entropy(i)).max()),
    _bounded("lem-C.11:squared-error", lambda i: abs(_squared_formula(i)).max()),
    _bounded("lem-C.11:absolute-sum", _absolute_sum),
    deterministic("001/lem-C.11:softmax", vanishes(_jacobian_gap), FAMILIES),
    deterministic("001/lem-C.11:eq-C.146", vanishes(_cross_entropy_gap), FAMILIES),
    deterministic(
        "001/lem-C.11:eq-C.148",
        equal(lambda i: abs(_squared(i)[0]), lambda i: _squared_formula(i)[0]),
        FAMILIES,
        scale=1,
    ),
    deterministic(
        "001/lem-C.11:eq-C.148#corrected",
        vanishes(lambda i: max(abs(a - b) for a, b in zip(_squared(i), _squared_formula(i), strict=True))),
        FAMILIES,
    ),
    deterministic(
        "001/lem-C.11:batch",
        at_most(_batch_gradient, lambda i: 2 * (0 * i["Z"][0, 0] + len(i["Z"])) ** 0.5),
        {"batches": _batches},
    ),
    deterministic("001/rem-6.6", vanishes(lambda i: isometry_of(i["X"])), {"singular": singular}, tolerance=1e-6),
)
