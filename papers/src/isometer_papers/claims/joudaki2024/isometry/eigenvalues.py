"""001, Lemma C.17: the smallest eigenvalue by the gap."""

from __future__ import annotations

from typing import Any

from isometer_papers.claims._claim import Claim, Instance
from isometer_papers.claims.joudaki2024.isometry.instances import (
    NEAR,
    SPECTRA,
    grid,
    is_near,
    near_spectra,
    search_spectrum,
    unit_scale,
)
from isometer_papers.float_or_mpmath import log
from isometer_papers.theory.isometry import (
    eigenvalue_product_bound,
    smallest_eigenvalue_bound,
    smallest_eigenvalue_bound_near,
    spectrum_gap,
)


def _spectrum_gap(i: Instance) -> Any:
    return spectrum_gap(i["spectrum"])


def _least(i: Instance) -> Any:
    return min(i["spectrum"])


def _size(i: Instance) -> int:
    return len(i["spectrum"])


_BOTH = {**SPECTRA, "near": near_spectra}


def _of_spectra(part: str, place: str, statement: str, quantity: Any, bound: Any, **rest: Any) -> Claim:
    rest = {"search": search_spectrum(3), "families": _BOTH, "relation": "<=", **rest}
    return Claim(
        f"001/{part}",
        place,
        "deterministic",
        statement,
        rest.pop("relation"),
        bound,
        rest.pop("families"),
        quantity=quantity,
        **rest,
    )


CLAIMS = (
    _of_spectra(
        "lem-C.17:far",
        "Lemma C.17",
        "−log λ_d ≤ dψ(X) + 1 for Σλ = d",
        lambda i: -log(_least(i)),
        lambda i: smallest_eigenvalue_bound(_spectrum_gap(i), _size(i)),
    ),
    _of_spectra(
        "lem-C.17:near",
        "Lemma C.17",
        "ψ(X) ≤ 1/(16d) ⇒ −log λ_d ≤ 2√(dψ(X))",
        lambda i: -log(_least(i)),
        lambda i: smallest_eigenvalue_bound_near(_spectrum_gap(i), _size(i)),
        families=NEAR,
        hypotheses=is_near,
        search=search_spectrum(4, 1 / 64),
        scale=unit_scale,
        remark="√(2dψ) to leading order for large d, √(dψ) at d = 2",
    ),
    _of_spectra(
        "lem-C.17:eq-C.123",
        "eq. C.123",
        "the mean of the other eigenvalues is 1 + (1 − λ_d)/(d − 1)",
        lambda i: (i["spectrum"].sum() - _least(i)) / (_size(i) - 1),
        lambda i: 1 + (1 - _least(i)) / (_size(i) - 1),
        relation="==",
    ),
    _of_spectra(
        "lem-C.17:eq-C.124",
        "eq. C.124",
        "Πλ_k ≤ λ_d (1 + (1 − λ_d)/(d − 1))^{d−1}",
        lambda i: i["spectrum"].prod(),
        lambda i: eigenvalue_product_bound(_least(i), _size(i)),
    ),
    _of_spectra(
        "lem-C.17:eq-C.126",
        "eq. C.126",
        "−dψ(X) ≤ log λ_d + 1 − λ_d",
        lambda i: -_size(i) * _spectrum_gap(i),
        lambda i: log(_least(i)) + 1 - _least(i),
        scale=unit_scale,
    ),
    Claim(
        "001/lem-C.17:quadratic",
        "above eq. C.127",
        "deterministic",
        "log x + 1 − x ≤ −(x − 1)²/2 for x ∈ (0, 1]",
        "<=",
        lambda i: -((i["x"] - 1) ** 2) / 2,
        {"line": grid("x", 1e-6, 1.0, 0.5)},
        quantity=lambda i: log(i["x"]) + 1 - i["x"],
        scale=unit_scale,
    ),
    _of_spectra(
        "lem-C.17:eq-C.127",
        "eq. C.127",
        "(1 − λ_d)²/2 ≤ dψ(X)",
        lambda i: (1 - _least(i)) ** 2 / 2,
        lambda i: _size(i) * _spectrum_gap(i),
        scale=unit_scale,
    ),
    _of_spectra(
        "lem-C.17:eq-C.128",
        "eq. C.128",
        "λ_d ≥ 1 − √(2dψ(X))",
        _least,
        lambda i: 1 - (2 * _size(i) * _spectrum_gap(i)) ** 0.5,
        relation=">=",
        scale=unit_scale,
    ),
    Claim(
        "001/lem-C.17:root",
        "above eq. C.130",
        "deterministic",
        "−log(1 − x) ≤ √(2x) for 0 ≤ x ≤ ½",
        "<=",
        lambda i: (2 * i["x"]) ** 0.5,
        {"line": grid("x", 0.0, 0.5, 0.1)},
        quantity=lambda i: -log(1 - i["x"]),
        scale=unit_scale,
    ),
    Claim(
        "001/lem-C.17:conclusion",
        "eq. C.130",
        "deterministic",
        "√(2x) at x = √(2dψ) is at most 2√(dψ), so that C.130 follows, for 2√(dψ) ≤ ½",
        "<=",
        lambda i: 2 * i["dpsi"] ** 0.5,
        {"line": grid("dpsi", 0.0, 1 / 16, 0.01)},
        quantity=lambda i: (2 * (2 * i["dpsi"]) ** 0.5) ** 0.5,
        corrected="001/lem-C.17:conclusion#corrected",
        remark="the inequality needed is −log(1 − x) ≤ √2 x",
    ),
    Claim(
        "001/lem-C.17:conclusion#corrected",
        "eq. C.130",
        "deterministic",
        "−log(1 − x) ≤ √2 x for 0 ≤ x ≤ ½, and √2 x = 2√(dψ) at x = √(2dψ)",
        "<=",
        lambda i: 2**0.5 * i["x"],
        {"line": grid("x", 0.0, 0.5, 0.1)},
        quantity=lambda i: -log(1 - i["x"]),
        scale=unit_scale,
    ),
)
