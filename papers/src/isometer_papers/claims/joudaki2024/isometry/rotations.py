"""001, Lemmas 6.2, C.1, C.2, Corollary C.3: what one rotation and batch norm do to isometry, for every matrix."""

from __future__ import annotations

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import cases, extended
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import above, at_least, at_most, deterministic, equal, vanishes
from isometer_papers.claims.joudaki2024.isometry.instances import (
    MATRICES,
    UNIT,
    layer_gap,
    matrices,
    search_matrix,
    singular,
)
from isometer_papers.float_or_mpmath import Numeric, absolute_determinant, is_precise
from isometer_papers.theory.isometry import isometry_of, normalized_rows, row_norms, variation_bound


def _turned(i: Instance) -> Numeric:
    return i["W"] @ i["X"]


def _left_factor(x: Numeric) -> Numeric:
    """U of X = U S Vᵀ, in any precision."""
    if not is_precise(np.asarray(x)):
        return np.linalg.svd(x)[0]
    library = mpmath()
    u = library.svd_r(library.matrix(x.tolist()))[0]
    return np.array(u.tolist(), dtype=object)


def _best(i: Instance) -> Numeric:
    return isometry_of(normalized_rows(_left_factor(i["X"]).T @ i["X"]))


def _turned_other(i: Instance) -> Numeric:
    """With the U of X and another matrix H, as printed."""
    return isometry_of(normalized_rows(_left_factor(i["X"]).T @ i["H"]))


_OTHERS = {
    "by-hand": cases({"X": np.diag([2.0, 1.0]), "H": np.array([[1.0, 0.0], [0.6, 0.8]])}),
    "random": extended(matrices, lambda rng, i: {"H": rng.standard_normal(i["X"].shape)}),
}


def _not_orthogonal(i: Instance) -> bool:
    return bool(abs(i["X"] @ i["X"].T - np.eye(len(i["X"]))).max() > 1e-6)


def _no_multiple(i: Instance) -> bool:
    return bool(isometry_of(i["X"]) < 1 - 1e-6)


def _regular(i: Instance) -> bool:
    values = np.linalg.svd(i["X"], compute_uv=False)
    return bool(values[-1] > 1e-7 * values[0])


def _row_difference(x: Numeric) -> Numeric:
    """Lengths of the rows of UᵀX against singular values, both sorted, relative to the largest."""
    rows = np.sort(row_norms(_left_factor(x).T @ x))
    if not is_precise(np.asarray(x)):
        values = np.sort(np.linalg.svd(x, compute_uv=False))
    else:
        library = mpmath()
        values = np.array(sorted(library.svd_r(library.matrix(x.tolist()), compute_uv=False)), dtype=object)
    return abs(rows - values).max() / values[-1]


def _from_one(i: Instance) -> Numeric:
    """The largest distance of an eigenvalue of W from 1."""
    if not is_precise(i["W"]):
        return float(abs(np.linalg.eigvals(i["W"]) - 1).max())
    library = mpmath()
    return max(abs(value - 1) for value in library.eig(library.matrix(i["W"].tolist()), left=False, right=False))


def _stretch(i: Instance) -> Numeric:
    """The largest entry of WᵀW − I: 0 if all singular values are 1."""
    return abs(i["W"].T @ i["W"] - np.eye(len(i["W"]), dtype=int)).max()


def _volume(i: Instance) -> Numeric:
    """|det X'| of X' = W diag(σ)Vᵀ: the product of the singular values of X."""
    return absolute_determinant(i["X"])


def _written_out(i: Instance) -> Numeric:
    """WX − (WU) diag(σ)Vᵀ, the largest entry."""
    if not is_precise(i["X"]):
        u, sigma, right = np.linalg.svd(i["X"])
    else:
        library = mpmath()
        parts = library.svd_r(library.matrix(i["X"].tolist()))
        u, sigma, right = (np.array(part.tolist(), dtype=object) for part in parts)
        sigma = sigma.ravel()
    return abs(i["W"] @ i["X"] - (i["W"] @ u) @ (sigma[:, None] * right)).max()


CLAIMS = (
    deterministic("001/thm-6.5:rotations", vanishes(_from_one), MATRICES),
    deterministic("001/thm-6.5:rotations#corrected", vanishes(_stretch), {"random": MATRICES["random"]}),
    deterministic("001/thm-C.4:law", equal(_volume, lambda i: absolute_determinant(i["W"])), UNIT),
    deterministic("001/thm-C.4:law#corrected", equal(_written_out, 0), MATRICES, scale=lambda i: abs(i["X"]).max()),
    deterministic(
        "001/lem-C.1",
        at_least(
            lambda i: isometry_of(normalized_rows(i["X"])), lambda i: variation_bound(i["X"]) * isometry_of(i["X"])
        ),
        MATRICES,
        search=search_matrix(3),
    ),
    deterministic(
        "001/lem-6.2",
        at_least(
            lambda i: isometry_of(normalized_rows(_turned(i))),
            lambda i: variation_bound(_turned(i)) * isometry_of(i["X"]),
        ),
        MATRICES,
        search=search_matrix(2),
    ),
    deterministic(
        "001/lem-C.2",
        at_least(
            lambda i: isometry_of(normalized_rows(_turned(i))),
            lambda i: variation_bound(_turned(i)) * isometry_of(i["X"]),
        ),
        MATRICES,
        search=search_matrix(3),
    ),
    deterministic(
        "001/lem-C.2:degenerate",
        vanishes(
            lambda i: isometry_of(normalized_rows(_turned(i))) + variation_bound(_turned(i)) * isometry_of(i["X"])
        ),
        {"singular": singular},
        tolerance=1e-6,
    ),
    deterministic(
        "001/lem-C.2:determinant",
        equal(lambda i: absolute_determinant(_turned(i)) ** 2, lambda i: absolute_determinant(i["X"]) ** 2),
        MATRICES,
        tolerance=1e-7,
    ),
    deterministic(
        "001/lem-C.2:trace", equal(lambda i: (_turned(i) ** 2).sum(), lambda i: (i["X"] ** 2).sum()), MATRICES
    ),
    deterministic(
        "001/thm-6.1:proof-idea",
        at_least(lambda i: layer_gap(normalized_rows(i["X"])), lambda i: layer_gap(i["X"])),
        MATRICES,
    ),
    deterministic(
        "001/thm-6.1:proof-idea#corrected",
        at_most(lambda i: layer_gap(normalized_rows(i["X"])), lambda i: layer_gap(i["X"])),
        MATRICES,
        scale=1,
        search=search_matrix(3),
    ),
    deterministic("001/cor-C.3", equal(_turned_other, 1), _OTHERS, hypotheses=_regular, tolerance=1e-7),
    deterministic("001/cor-C.3#corrected", equal(_best, 1), MATRICES, hypotheses=_regular, tolerance=1e-7),
    deterministic("001/cor-C.3:rows", vanishes(lambda i: _row_difference(i["X"])), MATRICES, hypotheses=_regular),
    deterministic(
        "001/cor-C.3:strict",
        above(_best, lambda i: isometry_of(i["X"])),
        MATRICES,
        hypotheses=lambda i: _not_orthogonal(i) and _regular(i),
    ),
    deterministic(
        "001/cor-C.3:strict#corrected",
        above(_best, lambda i: isometry_of(i["X"])),
        MATRICES,
        hypotheses=lambda i: _no_multiple(i) and _regular(i),
    ),
)
