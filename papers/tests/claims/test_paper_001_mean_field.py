"""Paper 001, chapters 3 to 5 and Appendix B: the verdicts, and its counterexamples by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer_papers.claims import check, find, ledger
from isometer_papers.claims._evidence import without_power
from isometer_papers.claims.joudaki2024.mean_field import CLAIMS

# --- verdicts ------------------------------------------------------------


REFUTED = {
    "001/ass-3.1:unique",
    "001/claim-3.doeblin",
    "001/claim-3.explore:chain",
    "001/claim-3.global:nonlinear",
    "001/claim-4.deterministic:gram",
    "001/claim-4.deterministic:layer-norm",
    "001/claim-5.bias:similar",
    "001/claim-5.fix:series",
    "001/claim-5.integrable:stable",
    "001/claim-5.markov",
    "001/claim-5.normlimit:first-layer",
    "001/claim-5.normlimit:length",
    "001/claim-7.isometry",
    "001/cor-4.4",
    "001/cor-4.4:projection",
    "001/cor-4.5:mean",
    "001/cor-4.5:no-mean",
    "001/cor-5.10:bound",
    "001/cor-5.10:step",
    "001/cor-5.7:middle",
    "001/def-3.2:orientation",
    "001/def-4.1:preserves",
    "001/eq-3.7-3.8:eq-3.7",
    "001/eq-3.7-3.8:radius",
    "001/eq-B.5",
    "001/eq-B.6-9:total",
    "001/eq-B.6-9:triangle",
    "001/fig-5.2:relu",
    "001/fix-G*:identity",
    "001/lem-3.3",
    "001/lem-4.2:one",
    "001/lem-5.6:mehler",
    "001/lem-B.1",
    "001/lem-B.1:eq-B.11",
    "001/lem-B.1:eq-B.14",
    "001/lem-B.2",
    "001/lem-B.2:whitening",
    "001/lem-B.3",
    "001/lem-B.3:eq-B.40",
    "001/lem-B.3:eq-B.43",
    "001/lem-B.3:eq-B.46",
    "001/lem-B.3:rows",
    "001/lem-B.4",
    "001/lem-B.4:any-law",
    "001/lem-B.5",
    "001/lem-B.7",
    "001/lem-B.7:mixture",
    "001/prop-5.1:any-input",
    "001/prop-5.2:any-input",
    "001/prop-5.2:summands",
    "001/rem-5.9:slope-at-one",
    "001/thm-3.2:joint",
    "001/thm-3.2:layers",
    "001/thm-4.3:diverse",
    "001/thm-4.3:eq-4.6",
    "001/thm-4.3:eq-4.7",
    "001/thm-4.3:factor",
    "001/thm-4.3:trace",
    "001/thm-5.11.steps:below",
    "001/thm-5.11.steps:chord",
    "001/thm-5.11.steps:chord-terms",
    "001/thm-5.11.steps:combined",
    "001/thm-5.11.steps:denominator",
    "001/thm-5.11.steps:no-knife-edge",
    "001/thm-5.11.steps:norm",
    "001/thm-5.11.steps:potential",
    "001/thm-5.11.steps:potential-first",
    "001/thm-5.11.steps:series",
    "001/thm-5.11.steps:sign",
    "001/thm-5.11:case-1",
    "001/thm-5.11:case-4",
    "001/thm-5.15:none",
    "001/thm-5.15:post-ln",
    "001/thm-5.15:post-rms",
    "001/thm-5.15:pre-ln",
    "001/thm-5.15:pre-rms",
    "001/thm-5.8:covariance",
    "001/thm-5.8:fixed-points",
    "001/thm-5.8:opposite",
    "001/thm-B.6",
    "001/thm-B.6:renamed",
}
VACUOUS = {
    "001/thm-3.2",
}


def test_shipped_verdicts() -> None:
    verdicts = {row.id: row.verdict for row in ledger("001") if row.id in {claim.id for claim in CLAIMS}}
    assert {i for i, verdict in verdicts.items() if verdict == "refuted"} == REFUTED
    assert {i for i, verdict in verdicts.items() if verdict == "vacuous"} == VACUOUS
    assert {i for i, verdict in verdicts.items() if verdict == "inconclusive"} <= without_power("001")


@pytest.mark.slow
@pytest.mark.parametrize("identifier", sorted(REFUTED | VACUOUS))
def test_verdicts_again(identifier: str) -> None:
    claim = next(claim for claim in CLAIMS if claim.id == identifier)
    assert check(claim).verdict == ("refuted" if identifier in REFUTED else "vacuous")


def test_counterexamples_by_hand() -> None:
    """The kept instances, from NumPy alone."""
    # Corollaries 4.4 and 4.5, Lemma 4.2, §4.3: layer norm of e₁, e₂ gives ±(1, −1), dependent
    normed = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert np.linalg.det(normed.T @ normed) == 0
    assert 1 + (1 - 0.5) ** 2 / 0.5**2 == 2  # one feature, two samples, ā = 1/2, while I = 1 before and after
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.125, 0.125]])
    after = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    values = [np.sqrt(np.linalg.det(x.T @ x)) / (np.trace(x.T @ x) / 2) for x in (rows, after)]
    assert values[1] < 0.95 < 0.99 < values[0]
    # Theorem 5.11 case 1, sin: κ = sinh ρ/sinh 1
    one = math.sinh(0.1) / math.sinh(1)
    two = math.sinh(one) / math.sinh(1)
    assert two / (1 - two) > 0.1 / 0.9 * (math.sinh(1) / math.cosh(1)) ** 2
    # Theorem 5.11 case 4, x²: κ = (1 + 2ρ²)/3, ρ* = 1/2, printed rate 2/3
    rho = 0.9
    for _ in range(20):
        rho = (1 + 2 * rho**2) / 3
    assert abs(rho - 0.5) > 0.4 / 0.1 * (2 / 3) ** 20
    # Theorem 5.15, layer norm after ReLU: (κ − 1/π)/(1 − 1/π), printed rate (1 − 1/π)/1
    rho = 0.1
    for _ in range(2):
        raw = (math.sqrt(1 - rho**2) + rho * (math.pi - math.acos(rho))) / math.pi
        rho = (raw - 1 / math.pi) / (1 - 1 / math.pi)
    assert rho / (1 - rho) > 0.1 / 0.9 * (1 - 1 / math.pi) ** 2
    # Proposition 5.2: signs as weights, one-hot inputs, ReLU
    assert (0.5 * 1) ** 2 / 0.5 == 0.5 != pytest.approx(1 / math.pi)
    # Lemma B.7: G_* = diag(1, 1e-4), G with correlation 0.008
    scaled = np.diag([1, 1e4]) @ np.array([[1, 8e-5], [8e-5, 1e-4]]) - np.eye(2)
    assert (scaled**2).sum() / 100 > math.sqrt(-math.log(1 - 0.008**2) / 4)
    # Lemma B.1: one fair coin deviates from ½ by ½, always
    assert math.exp(-(0.1633**2)) < 1
    assert 3 * 0.1633 <= 0.5
    # eq. B.11: d = 200 vectors on the circle of radius √2, t = 1
    assert math.exp(-100 / (16 + 4 / 3)) < 0.01 < 1 <= math.sqrt(2)


def test_two_identical_samples_stay_identical() -> None:
    """Assumption 3.1 for n ≥ 3, from NumPy alone."""
    rng = np.random.default_rng(0)
    h = rng.standard_normal((5, 3))
    h[:, 1] = h[:, 0]
    for _ in range(5):
        centred = h - h.mean(axis=1, keepdims=True)
        h = rng.standard_normal((5, 5)) @ np.tanh(centred / centred.std(axis=1, keepdims=True))
    assert (h[:, 0] == h[:, 1]).all()
    assert not np.allclose(h[:, 0], h[:, 2])


def test_parts_are_found_together() -> None:
    assert {claim.id for claim in find("001/thm-5.11")} >= {"001/thm-5.11:case-1", "001/thm-5.11:case-1#corrected"}
