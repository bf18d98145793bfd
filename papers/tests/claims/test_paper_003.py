"""Papers 003 and 001 (chapter 2, Appendix A): the verdicts, and their counterexamples by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isometer_papers.claims import check, claims_of, ledger, text_of
from isometer_papers.claims._evidence import without_power
from isometer_papers.claims._ledger import shipped
from isometer_papers.claims.joudaki2024 import orthogonality

THESIS = {claim.id: claim for claim in orthogonality.CLAIMS}
PAPER = {claim.id: claim for claim in claims_of("003")}


# --- verdicts -------------------------------------------------------------------------------------------------------

REFUTED_003 = {
    "003/F2-odd:centre",
    "003/alg-iter-conv:size",
    "003/alg-iter-mlp:gap",
    "003/alg-iter-mlp:inverse",
    "003/alg-iter-mlp:slice",
    "003/appB-induction:induction",
    "003/appB-induction:step",
    "003/appB1-average:input",
    "003/appE:after",
    "003/appE:cauchy-last",
    "003/appE:difference",
    "003/appE:eq-18",
    "003/appE:product",
    "003/claim-full-inverse",
    "003/claim-intro-rates:depth",
    "003/claim-intro-rates:proportional",
    "003/claim-intro-rates:radius",
    "003/claim-rank-preserved:infinite-depth",
    "003/conj-F1",
    "003/cor-3",
    "003/eq-10:all-layers",
    "003/eq-10:shape",
    "003/eq-12:average",
    "003/eq-12:standard",
    "003/eq-14:input",
    "003/fig-3a:gap",
    "003/fig-6:coincide",
    "003/fig-6:exponent",
    "003/fig-7:orthogonal",
    "003/lem-10:expansion",
    "003/lem-10:second-slope",
    "003/lem-2:input",
    "003/lem-2:orthogonal",
    "003/lem-4:input",
    "003/lem-6:cross-term",
    "003/lem-6:element",
    "003/lem-6:last-line",
    "003/lem-6:mean",
    "003/lem-6:off-diagonal",
    "003/lem-6:variance",
    "003/lem-7:first-line",
    "003/lem-8:input",
    "003/p-map:index",
    "003/thm-1",
    "003/thm-1:last-line",
    "003/thm-5:input",
}
REFUTED_001 = {
    "001/alg-2.6:gap",
    "001/alg-2.6:inverse",
    "001/alg-2.6:slice",
    "001/ass-2.A1:infinite-depth",
    "001/claim-1.diagonal",
    "001/claim-2.abstract:depth",
    "001/claim-2.abstract:proportional",
    "001/claim-2.abstract:radius",
    "001/claim-2.drift",
    "001/claim-2.minsv",
    "001/claim-2.vanillarank:rank-one",
    "001/claim-2.whiten",
    "001/claim-A.4:after",
    "001/claim-A.4:difference",
    "001/claim-A.4:eq-A.20",
    "001/claim-A.4:product",
    "001/claim-A.stab:input",
    "001/cor-2.3",
    "001/eq-A.10:index",
    "001/eq-A.11:constant",
    "001/eq-A.6:induction",
    "001/eq-A.6:step",
    "001/eq-A.7:average",
    "001/eq-A.7:standard",
    "001/eq-A.9:input",
    "001/fig-2.3:curve",
    "001/fig-2.4a:gap",
    "001/init-orthxavier",
    "001/lem-2.2:input",
    "001/lem-2.2:orthogonal",
    "001/lem-A.1:input",
    "001/lem-A.3:cross-term",
    "001/lem-A.3:element",
    "001/lem-A.3:last-line",
    "001/lem-A.3:mean",
    "001/lem-A.3:off-diagonal",
    "001/lem-A.3:variance",
    "001/lem-A.4:second-line",
    "001/lem-A.5:input",
    "001/lem-A.7:second-slope",
    "001/lem-A.7:slope",
    "001/lem-A.8:decreases",
    "001/lem-A.8:digamma",
    "001/lem-A.8:eq-A.13",
    "001/lem-A.8:eq-A.16",
    "001/lem-A.8:eq-A.18",
    "001/lem-A.8:rate",
    "001/rec-2.1:all-layers",
    "001/rec-2.1:shape",
    "001/thm-2.1",
    "001/thm-2.1:last-line",
    "001/thm-A.2:input",
}


def test_shipped_verdicts() -> None:
    verdicts = {row.id: row.verdict for row in ledger("003")}
    assert {i for i, verdict in verdicts.items() if verdict == "refuted"} == REFUTED_003
    assert {i for i, verdict in verdicts.items() if verdict not in ("holds", "refuted")} <= without_power("003")


def test_statements_with_a_correction_are_the_refuted_ones() -> None:
    assert {i for i in PAPER if text_of(i).corrected is not None} == REFUTED_003
    assert {i for i in THESIS if text_of(i).corrected is not None} == REFUTED_001


def test_the_papers_differ_where_they_print_different_things() -> None:
    """Refuted in 003 and not in the thesis, or the other way round."""
    for ours, theirs in (
        ("003/lem-10:expansion", "001/lem-A.7:expansion"),
        ("003/appE:cauchy-last", "001/claim-A.4:cauchy-last"),
    ):
        assert check(PAPER[ours]).verdict == "refuted"
        assert check(THESIS[theirs]).verdict == "holds"
    for ours, theirs in (("003/eq-16:constant", "001/eq-A.11:constant"), ("003/lem-10:slope", "001/lem-A.7:slope")):
        assert check(PAPER[ours]).verdict == "holds"
        assert check(THESIS[theirs]).verdict == "refuted"
    assert check(THESIS["001/lem-A.4:second-line"]).verdict == "refuted"
    assert check(PAPER["003/lem-7:weyl"]).verdict == "holds"


def _instance(identifier: str) -> dict[str, Any]:
    found = {row.id: row.counterexample for row in shipped("003").values()}[identifier]
    assert found is not None
    return dict(found["instance"])


def test_the_rate_of_the_theorem_by_hand() -> None:
    """The shipped counterexample of Theorem 1, by Gauss–Jacobi quadrature over Beta(½, (n−1)/2) alone."""
    from scipy.special import roots_jacobi

    instance = _instance("003/thm-1")
    n, first, layers = instance["n"], instance["first"], instance["layers"]
    nodes, weights = roots_jacobi(200, (n - 3) / 2, -0.5)
    b, weights = (1 + nodes) / 2, weights / weights.sum()
    least, gap = math.inf, 0.0
    for layer in range(1, layers + 2):
        rest = (1 - first) / (n - 1)
        first = float(weights @ (first * b / (first * b + rest * (1 - b))))
        gap = abs(first - 1 / n) * math.sqrt(n / (n - 1))
        if layer <= layers:
            least = min(least, math.sqrt(min(first, (1 - first) / (n - 1))))
    assert gap > 1.1 * 2 * (1 - 2 * least / 3) ** layers
    assert gap < 2 * (1 - 2 * least**2 / 3) ** layers


def test_the_step_by_hand() -> None:
    """E V̂(H_{ℓ+1}) at n = 5, d = 2^17, σ_n² = 1/128: six standard errors above the printed right side."""
    n, small, width = 5, 1 / 128, 1 << 17
    sigma = np.sqrt([*[(1 - small) / 4] * 4, small])
    rng, found = np.random.default_rng(0), []
    for _ in range(12):
        rows = rng.standard_normal((width, n)) * sigma
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        found.append(1 / n - float(np.linalg.eigvalsh(rows.T @ rows / width)[0]))
    printed = (1 - 2 / 3 * math.sqrt(small)) * (1 / n - small) + 1 / math.sqrt(width)
    corrected = (1 - 2 / 3 * small) * (1 / n - small) + 1 / math.sqrt(width)
    error = float(np.std(found)) / math.sqrt(11)
    assert np.mean(found) > printed + 6 * error
    assert np.mean(found) < corrected - 6 * error


def test_counterexamples_by_hand() -> None:
    """The shipped ones, recomputed with nothing but NumPy."""
    slice_ = _instance("003/alg-iter-mlp:gap")
    v, sigma = np.array(slice_["V"]), np.array(slice_["sigma"])
    h = np.diag(sigma) @ v.T
    out = v[: len(sigma)] @ np.diag(sigma**-0.5) @ h

    def gap(x: Any) -> float:
        g = x.T @ x / (x**2).sum()
        return float(np.linalg.norm(g - np.eye(len(g)) / len(g)))

    assert gap(out) > gap(h)
    averaged = _instance("003/eq-12:average")
    sigma, v, w = (np.array(averaged[name]) for name in ("sigma", "V", "W"))
    state = w[:, : len(sigma)] @ np.diag(sigma) @ v.T
    state /= np.linalg.norm(state, axis=1, keepdims=True)
    plain = w[:, : len(sigma)] * sigma
    plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    assert abs(state.T @ state - plain.T @ plain).max() > 0.1
    assert np.allclose(state.T @ state, v @ plain.T @ plain @ v.T)
    steps = _instance("003/appE:cauchy-last")
    sigma = np.array(steps["sigma"]) / np.linalg.norm(steps["sigma"])
    assert (sigma**3).sum() > (sigma**4).sum()
    orthogonal = np.array(_instance("003/F2-odd:centre")["H"])
    assert gap(orthogonal) < 1e-9 < 0.5 < abs(orthogonal).min()


def test_thesis_counterexamples_by_hand() -> None:
    same = np.ones((2, 3))  # two equal samples of ±1
    assert np.linalg.svd(same, compute_uv=False)[-1] < math.sqrt(3) - math.sqrt(2)
    after = math.sqrt(0.8) / (math.sqrt(0.8) + math.sqrt(0.2))  # λ_1 after one layer of infinite width
    assert abs((after - 0.5) * (after - 0.8)) > abs((0.8 - 0.5) * (0.8 - 0.8))
    ratio = math.exp(-20.0)  # σ_2²/σ_1² after ℓ = 10 layers, eq. A.16
    assert math.log(ratio / (1 + ratio)) / 20 > math.log(2 * ratio) / 10
