"""001, §6.2 to §6.4: batch norm without recentring, the isometry gap, ranks, spectra of BN(·), activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.activations import activation
from isometer.metrics import batch_normalize
from isometer_papers.claims._claim import Claim, Instance
from isometer_papers.claims._precise import eigenvalues, elementwise, mpmath, numerical_rank
from isometer_papers.claims.joudaki2024.isometry.instances import (
    MATRICES,
    UNIT,
    Rng,
    grid,
    nought,
    one,
    rotation,
    search_matrix,
    singular,
    unit_scale,
)
from isometer_papers.float_or_mpmath import log
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
    for _ in range(count):
        d = int(rng.integers(1, 5))
        yield {"X": rng.standard_normal((d, d + int(rng.integers(0, 4))))}


def _tall(rng: Rng, count: int) -> Iterator[Instance]:
    """At most as many samples as features."""
    yield {"X": np.array([[1.0], [0.0]])}
    yield {"X": np.array([[1.0], [1.0]])}
    for _ in range(count):
        n = int(rng.integers(1, 5))
        yield {"X": rng.standard_normal((n + int(rng.integers(0, 4)), n)) * rng.uniform(0.1, 3)}


def _orthogonal(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"X": np.eye(2)}
    for _ in range(count):
        yield {"X": rotation(rng, int(rng.integers(1, 7)))}


def _by_matrix(x: Any) -> Any:
    """diag(XXᵀ)^{−1/2} X, written as matrices."""
    return np.diag(np.diagonal(x @ x.T) ** -0.5) @ x


def _largest(difference: Any) -> Any:
    return abs(difference).max()


def _scaling(x: Any) -> Any:
    n = x.shape[1]
    root = n**0.5
    if np.asarray(x).dtype != object:
        return _largest(batch_normalize(x.T, recenter=False).T - root * normalized_rows(x))
    return _largest(x / ((x * x).sum(axis=1) / n)[:, None] ** 0.5 - mpmath().sqrt(n) * normalized_rows(x))


def _gap(i: Instance) -> Any:
    return -log(isometry_of(i["X"]))


def _far_from_orthogonal(i: Instance) -> bool:
    gram = i["X"].T @ i["X"]
    return bool(_largest(gram - np.eye(len(gram)) * np.trace(gram) / len(gram)) > 1e-3 * np.trace(gram))


def _spectrum(i: Instance) -> Any:
    return eigenvalues(i["X"] @ i["X"].T)


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


def _exact_slope(i: Instance) -> Any:
    library = mpmath()
    return library.cos(i["x"]) if i["phi"] == "sin" else 1 - library.tanh(i["x"]) ** 2


def _functions(name: str, low: float, high: float, *extra: float) -> Any:
    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for i in grid(name, low, high, *extra)(rng, count):
            for phi in ("tanh", "sin"):
                yield {**i, "phi": phi}

    return generator


def _origin(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"phi": "tanh", "x": 0.0}
    yield {"phi": "sin", "x": 0.0}


_RANK = "rank(BN(WX)) ≤ rank(X)"

CLAIMS = (
    Claim(
        "001/op-6.4:rows",
        "eq. 6.4",
        "deterministic",
        "the rows of BN(X) have length 1",
        "==",
        nought,
        MATRICES,
        quantity=lambda i: _largest(row_norms(_by_matrix(i["X"])) - 1),
        scale=unit_scale,
    ),
    Claim(
        "001/op-6.4:entries",
        "eq. 6.4",
        "deterministic",
        "diag(XXᵀ)^{−1/2} X has the entries X_ij/√(Σ_{k≤d} X_ik²), n = d",
        "==",
        nought,
        MATRICES,
        quantity=lambda i: _largest(_by_matrix(i["X"]) - normalized_rows_as_printed(i["X"])),
        scale=unit_scale,
    ),
    Claim(
        "001/op-6.4:rectangular",
        "eq. 6.4",
        "deterministic",
        "diag(XXᵀ)^{−1/2} X has the entries X_ij/√(Σ_{k≤d} X_ik²) for X ∈ ℝ^{d×n}",
        "==",
        nought,
        {"wide": _wide},
        quantity=lambda i: _largest(_by_matrix(i["X"]) - normalized_rows_as_printed(i["X"])),
        scale=unit_scale,
        corrected="001/op-6.4:rectangular#corrected",
        remark="the operator is declared on ℝ^{d×n}; the sum has to run to n",
    ),
    Claim(
        "001/op-6.4:rectangular#corrected",
        "eq. 6.4",
        "deterministic",
        "diag(XXᵀ)^{−1/2} X has the entries X_ij/√(Σ_{k≤n} X_ik²) for X ∈ ℝ^{d×n}",
        "==",
        nought,
        {"wide": _wide, "tall": _tall},
        quantity=lambda i: _largest(_by_matrix(i["X"]) - normalized_rows(i["X"])),
        hypotheses=lambda i: bool((row_norms(i["X"]) > 0).all()),
        scale=unit_scale,
    ),
    Claim(
        "001/op-6.4:scaling",
        "§6.2",
        "deterministic",
        "with the factor 1/n in the denominator BN(X) is multiplied by a constant, √n",
        "==",
        nought,
        {"wide": _wide, "square": MATRICES["random"]},
        quantity=lambda i: _scaling(i["X"]),
        scale=unit_scale,
    ),
    Claim(
        "001/def-6.5:nonnegative",
        "under eq. 6.5",
        "deterministic",
        "φ(X) ≥ 0, n = d",
        ">=",
        nought,
        MATRICES,
        quantity=_gap,
        scale=unit_scale,
        search=search_matrix(2),
    ),
    Claim(
        "001/def-6.5:rectangular",
        "eq. 6.5",
        "deterministic",
        "φ(X) ≥ 0 for φ on ℝ^{d×n}, with the exponent 1/d and the factor 1/d of the trace",
        ">=",
        nought,
        {"tall": _tall},
        quantity=lambda i: printed_gap(i["X"]),
        corrected="001/def-6.5:rectangular#corrected",
        remark="φ is declared on ℝ^{d×n}; for n < d both d have to be n",
    ),
    Claim(
        "001/def-6.5:rectangular#corrected",
        "eq. 6.5",
        "deterministic",
        "−log(det(XᵀX)^{1/n}/(tr(XᵀX)/n)) ≥ 0 for X ∈ ℝ^{d×n}, n ≤ d",
        ">=",
        nought,
        {"tall": _tall},
        quantity=lambda i: column_gap(i["X"]),
        scale=unit_scale,
    ),
    Claim(
        "001/def-6.5:orthogonal",
        "under eq. 6.5",
        "deterministic",
        "φ(X) = 0 for orthogonal X",
        "==",
        nought,
        {"orthogonal": _orthogonal},
        quantity=_gap,
        scale=unit_scale,
    ),
    Claim(
        "001/def-6.5:scaled-identity",
        "§6.2.1",
        "deterministic",
        "ψ(X) = 0 implies that XᵀX is a multiple of the identity",
        ">",
        nought,
        MATRICES,
        quantity=_gap,
        hypotheses=_far_from_orthogonal,
        scale=unit_scale,
        scope="ψ > 0 wherever XᵀX is at least 0.001 tr away from a multiple of the identity",
    ),
    Claim(
        "001/def-6.5:collinear",
        "§6.2.1",
        "deterministic",
        "ψ(X) = ∞, I(X) = 0, if two columns are collinear",
        "==",
        nought,
        {"singular": singular},
        quantity=lambda i: isometry_of(i["X"]),
        scale=unit_scale,
        tolerance=1e-6,
        scope="whole-number matrices; rounding leaves (1e-15)^{1/d}",
    ),
    Claim(
        "001/claim-6.spectrum:trace",
        "Remark C.5",
        "deterministic",
        "Σλ_i = d for the eigenvalues of XXᵀ, X = BN(·)",
        "==",
        lambda i: len(i["X"]),
        UNIT,
        quantity=lambda i: _spectrum(i).sum(),
    ),
    Claim(
        "001/claim-6.spectrum:interval",
        "under Theorem 6.3",
        "deterministic",
        "the eigenvalues of XXᵀ, X = BN(·), lie in (0, 1]",
        "<=",
        one,
        UNIT,
        quantity=lambda i: max(_spectrum(i)),
        corrected="001/claim-6.spectrum:interval#corrected",
        remark="they sum to d, so that all lie in (0, 1] only if all are 1",
    ),
    Claim(
        "001/claim-6.spectrum:interval#corrected",
        "under Theorem 6.3",
        "deterministic",
        "the eigenvalues of XXᵀ, X = BN(·), lie in [0, d]",
        "<=",
        lambda i: len(i["X"]),
        {**UNIT, "singular": singular},
        quantity=lambda i: max(eigenvalues(normalized_rows(i["X"]) @ normalized_rows(i["X"]).T)),
    ),
    Claim(
        "001/claim-6.spectrum:factor",
        "under Theorem 6.3",
        "deterministic",
        "(1 − Σ(λ_k−1)²/(2d²(d+2)))^{−1} > 1 for X = BN(·), always",
        ">",
        one,
        UNIT,
        quantity=lambda i: gain_factor(_spectrum(i)),
        corrected="001/claim-6.spectrum:factor#corrected",
        remark="it is 1 for orthogonal X",
    ),
    Claim(
        "001/claim-6.spectrum:factor#corrected",
        "under Theorem 6.3",
        "deterministic",
        "(1 − Σ(λ_k−1)²/(2d²(d+2)))^{−1} > 1 for X = BN(·) that is not orthogonal",
        ">",
        one,
        UNIT,
        quantity=lambda i: gain_factor(_spectrum(i)),
        hypotheses=_not_orthogonal,
        tolerance=1e-15,
    ),
    Claim(
        "001/claim-6.rank",
        "§6.2.1",
        "deterministic",
        f"{_RANK}: neither products nor batch norm raise the rank",
        "<=",
        lambda i: numerical_rank(i["X"]),
        {"singular": singular, "low": _low_rank},
        quantity=lambda i: numerical_rank(normalized_rows(i["W"] @ i["X"])),
    ),
    Claim(
        "001/claim-6.act:centred",
        "§6.4",
        "deterministic",
        "φ(0) = 0 for tanh and sin",
        "==",
        nought,
        {"origin": _origin},
        quantity=lambda i: elementwise(i["phi"])(i["x"]),
        exact=lambda i: (getattr(mpmath(), i["phi"])(i["x"]), 0),
        scale=unit_scale,
    ),
    Claim(
        "001/claim-6.act:slope",
        "§6.4",
        "deterministic",
        "φ'(0) = 1 for tanh and sin",
        "==",
        one,
        {"origin": _origin},
        quantity=_slope,
        exact=lambda i: (_exact_slope(i), 1),
    ),
    Claim(
        "001/claim-6.act:bounded",
        "§6.4",
        "deterministic",
        "φ'(x) ≤ 1 for tanh and sin",
        "<=",
        one,
        {"line": _functions("x", -20.0, 20.0, 0.0)},
        quantity=_slope,
        exact=lambda i: (_exact_slope(i), 1),
        scale=unit_scale,
    ),
    Claim(
        "001/claim-6.act:linear",
        "§6.4",
        "asymptotic",
        "φ(αx)/α → x as α → 0, for tanh and sin",
        "==",
        nought,
        {"line": _functions("x", -3.0, 3.0, 1.0)},
        quantity=lambda i: abs(float(elementwise(i["phi"])(1e-3 * i["x"])) / 1e-3 - i["x"]),
        exact=lambda i: (abs(getattr(mpmath(), i["phi"])(i["x"] / 1000) * 1000 - i["x"]), 0),
        scale=unit_scale,
        tolerance=1e-5,
        scope="at α = 0.001, |x| ≤ 3, where the difference is at most |x|³α²/3 = 9e-6",
    ),
)
