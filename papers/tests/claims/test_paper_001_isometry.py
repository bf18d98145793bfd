"""Paper 001, chapter 6 and Appendix C: the verdicts, and its counterexamples by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer_papers.claims import check, ledger, text_of
from isometer_papers.claims._evidence import without_power
from isometer_papers.claims.joudaki2024.isometry import CLAIMS

RNG = np.random.default_rng


# --- verdicts ------------------------------------------------------------

REFUTED = {
    "001/alg-C.5:goal",
    "001/alg-C.5:sign",
    "001/claim-6.spectrum:factor",
    "001/claim-6.spectrum:interval",
    "001/cor-6.4",
    "001/cor-C.19:multiplicity",
    "001/cor-C.3",
    "001/cor-C.3:strict",
    "001/cor-C.6",
    "001/def-6.5:rectangular",
    "001/eq-6.1-6.2:gradient",
    "001/eq-C.48:from-cor-C.6",
    "001/eq-C.48:input",
    "001/eq-C.78-80:eq-C.80",
    "001/fig-C.10:standard",
    "001/lem-C.11:eq-C.148",
    "001/lem-C.12",
    "001/lem-C.12:eq-C.87",
    "001/lem-C.13:eq-C.84",
    "001/lem-C.13:eq-C.85",
    "001/lem-C.14:eq-C.113",
    "001/lem-C.15:eq-C.111",
    "001/lem-C.15:eq-C.99",
    "001/lem-C.16:eq-C.139",
    "001/lem-C.16:log",
    "001/lem-C.17:conclusion",
    "001/lem-C.18:size",
    "001/lem-C.8",
    "001/lem-C.9:log-upper",
    "001/lem-C.9:lower-digits",
    "001/lem-C.9:roots",
    "001/op-6.4:entries",
    "001/rem-6.7:squared-error",
    "001/tab-C.1:rank",
    "001/thm-6.1:proof-idea",
    "001/thm-6.5:gap-bound",
    "001/thm-6.5:rotations",
    "001/thm-C.10",
    "001/thm-C.4:law",
    "001/thm-C.4:rem-C.5",
    "001/weingarten:eq-C.25",
}
SIMULATED = {
    "001/alg-C.5:sign",
    "001/eq-6.1-6.2:gradient",
    "001/fig-C.10:standard",
    "001/tab-C.1:rank",
    "001/weingarten:eq-C.25",
}
OWN = {claim.id: claim for claim in CLAIMS}


def test_shipped_verdicts() -> None:
    verdicts = {row.id: row.verdict for row in ledger("001") if row.id in OWN}
    assert set(verdicts) == set(OWN)
    assert {i for i, verdict in verdicts.items() if verdict == "refuted"} == REFUTED
    assert {i for i, verdict in verdicts.items() if verdict not in ("holds", "refuted")} <= without_power("001")


@pytest.mark.parametrize("identifier", sorted(REFUTED - SIMULATED))
def test_refuted_and_repaired(identifier: str) -> None:
    result = check(OWN[identifier])
    assert result.verdict == "refuted"
    assert (result.certified_by or "").startswith("mpmath, 50 digits")
    assert text_of(identifier).corrected in OWN


def test_counterexamples_by_hand() -> None:
    """With nothing but NumPy."""
    # 001/cor-6.4: rotation does not change the gap, so that it cannot fall
    x = np.array([[1.0, 0.0], [0.6, 0.8]])
    values = np.linalg.eigvalsh(x @ x.T)
    assert values.max() == pytest.approx(1.6)  # 001/claim-6.spectrum:interval
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    assert abs(np.linalg.det(turn @ x)) == pytest.approx(abs(np.linalg.det(x)))
    assert math.log(1 - ((values - 1) ** 2).sum() / 32) < -0.02
    # 001/lem-C.8: c = 0.002, d = 2
    assert -math.log(1.01 * 0.99) / 2 <= 0.002 / 32
    assert 1.01 > 1 + 0.002
    # 001/lem-C.9: x = 0, and the discriminant
    assert math.log(1 + 0) > 0 - (6 + 0) / (6 + 4 * 0)
    root = (1 + math.sqrt(73)) / 24
    assert 3 * root**2 - (6 + 4 * root) / 16 == pytest.approx(0, abs=1e-15)
    # 001/lem-C.13: X = I/100 has ψ = 0 and a Jacobian of norm 100; 001/lem-C.16:log: X = 2I
    assert math.log(100) > 1
    assert math.log(1 / 2) > -math.log(4)
    # 001/lem-C.14:eq-C.113: d = 2, ψ₀ = 0.032 > 1/32, so that S ≥ 1 surely
    assert 16 * 2 * 0.032 * math.exp(-1 / max(8, 32 * 8 * 0.032)) < 1
    # 001/lem-C.15:eq-C.111: d = 1, L = 0
    assert 32 * (1 - math.exp(0)) < 32 * (1 - (1 - 1 / 32))
    # 001/lem-C.12:eq-C.87: rows of length 1, and a layer that stretches
    pre = turn @ x
    assert np.allclose(np.linalg.norm(x, axis=1), 1)
    assert np.linalg.norm(pre, axis=1).min() < 1
    # 001/lem-C.17:conclusion: dψ = 0.01
    assert math.sqrt(2 * math.sqrt(0.02)) > 2 * math.sqrt(0.01)


def test_centring_makes_a_square_batch_degenerate() -> None:
    """001/fig-C.10:standard: n = d samples, centred, span n − 1 dimensions; n = d + 1 span d."""
    for n, rank in ((4, 3), (5, 4)):
        h = RNG(0).standard_normal((4, n))
        assert np.linalg.matrix_rank(h - h.mean(axis=1, keepdims=True)) == rank


def test_without_the_data_set_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isometer.data.find", lambda name: None)
    result = check(OWN["001/tab-C.1:rank"])
    assert (result.verdict, result.instances) == ("inconclusive", {})
