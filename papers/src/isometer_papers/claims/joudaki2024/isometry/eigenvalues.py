"""001, Lemma C.17: the smallest eigenvalue by the gap."""

from __future__ import annotations

from typing import Any

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._statements import at_least, at_most, deterministic, equal
from isometer_papers.claims.joudaki2024.isometry.decay import gap, implied, size
from isometer_papers.claims.joudaki2024.isometry.instances import NEAR, grid, is_near, search_spectrum
from isometer_papers.float_or_mpmath import log
from isometer_papers.theory.isometry import (
    eigenvalue_product_bound,
    smallest_eigenvalue_bound,
    smallest_eigenvalue_bound_near,
)


def _least(i: Instance) -> Any:
    return min(i["spectrum"])


CLAIMS = (
    implied(
        "lem-C.17:far",
        "Lemma C.17",
        "−log λ_d ≤ dψ(X) + 1 for Σλ = d",
        at_most(lambda i: -log(_least(i)), lambda i: smallest_eigenvalue_bound(gap(i), size(i))),
    ),
    implied(
        "lem-C.17:near",
        "Lemma C.17",
        "ψ(X) ≤ 1/(16d) ⇒ −log λ_d ≤ 2√(dψ(X))",
        at_most(lambda i: -log(_least(i)), lambda i: smallest_eigenvalue_bound_near(gap(i), size(i))),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
        scale=1,
        remark="√(2dψ) to leading order for large d, √(dψ) at d = 2",
    ),
    implied(
        "lem-C.17:eq-C.123",
        "eq. C.123",
        "the mean of the other eigenvalues is 1 + (1 − λ_d)/(d − 1)",
        equal(
            lambda i: (i["spectrum"].sum() - _least(i)) / (size(i) - 1), lambda i: 1 + (1 - _least(i)) / (size(i) - 1)
        ),
    ),
    implied(
        "lem-C.17:eq-C.124",
        "eq. C.124",
        "Πλ_k ≤ λ_d (1 + (1 − λ_d)/(d − 1))^{d−1}",
        at_most(lambda i: i["spectrum"].prod(), lambda i: eigenvalue_product_bound(_least(i), size(i))),
    ),
    implied(
        "lem-C.17:eq-C.126",
        "eq. C.126",
        "−dψ(X) ≤ log λ_d + 1 − λ_d",
        at_most(lambda i: -size(i) * gap(i), lambda i: log(_least(i)) + 1 - _least(i)),
        scale=1,
    ),
    deterministic(
        "001/lem-C.17:quadratic",
        "above eq. C.127",
        "log x + 1 − x ≤ −(x − 1)²/2 for x ∈ (0, 1]",
        at_most(lambda i: log(i["x"]) + 1 - i["x"], lambda i: -((i["x"] - 1) ** 2) / 2),
        {"line": grid("x", 1e-6, 1.0, 0.5)},
        scale=1,
    ),
    implied(
        "lem-C.17:eq-C.127",
        "eq. C.127",
        "(1 − λ_d)²/2 ≤ dψ(X)",
        at_most(lambda i: (1 - _least(i)) ** 2 / 2, lambda i: size(i) * gap(i)),
        scale=1,
    ),
    implied(
        "lem-C.17:eq-C.128",
        "eq. C.128",
        "λ_d ≥ 1 − √(2dψ(X))",
        at_least(_least, lambda i: 1 - (2 * size(i) * gap(i)) ** 0.5),
        scale=1,
    ),
    deterministic(
        "001/lem-C.17:root",
        "above eq. C.130",
        "−log(1 − x) ≤ √(2x) for 0 ≤ x ≤ ½",
        at_most(lambda i: -log(1 - i["x"]), lambda i: (2 * i["x"]) ** 0.5),
        {"line": grid("x", 0.0, 0.5, 0.1)},
        scale=1,
    ),
    deterministic(
        "001/lem-C.17:conclusion",
        "eq. C.130",
        "√(2x) at x = √(2dψ) is at most 2√(dψ), so that C.130 follows, for 2√(dψ) ≤ ½",
        at_most(lambda i: (2 * (2 * i["dpsi"]) ** 0.5) ** 0.5, lambda i: 2 * i["dpsi"] ** 0.5),
        {"line": grid("dpsi", 0.0, 1 / 16, 0.01)},
        corrected="001/lem-C.17:conclusion#corrected",
        remark="the inequality needed is −log(1 − x) ≤ √2 x",
    ),
    deterministic(
        "001/lem-C.17:conclusion#corrected",
        "eq. C.130",
        "−log(1 − x) ≤ √2 x for 0 ≤ x ≤ ½, and √2 x = 2√(dψ) at x = √(2dψ)",
        at_most(lambda i: -log(1 - i["x"]), lambda i: 2**0.5 * i["x"]),
        {"line": grid("x", 0.0, 0.5, 0.1)},
        scale=1,
    ),
)
