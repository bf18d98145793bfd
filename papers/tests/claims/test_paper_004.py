"""Paper 004: the verdicts, its counterexamples by hand, and the simulations behind them."""

from __future__ import annotations

import math

import numpy as np
from scipy import special, stats

from isometer_papers.claims import find, ledger
from isometer_papers.claims._ledger import shipped
from isometer_papers.claims.agarwal2021.simulations import dense_cosines, kernel_draws, unit_cosines
from isometer_papers.theory.duals.exact_duals import dual_value

# --- simulations ------------------------------------------------------------


def test_pairs_in_law_are_networks() -> None:
    """Last cosines of both ways to draw a network: means within 4.5 standard errors, and a KS test."""
    law = unit_cosines("normalized(relu)", 16, 6, 0.5, 2000)[-1]
    dense = dense_cosines("normalized(relu)", 16, 6, 0.5, 500, np.random.default_rng(0))
    assert stats.ks_2samp(law, dense).pvalue > 1e-4
    draws = kernel_draws("unit(sin)", 256, 1, 0.6, 2000)
    assert abs(draws.mean() - dual_value("sin", 0.6)) < 4.5 * draws.std() / math.sqrt(2000)


# --- verdicts ------------------------------------------------------------

REFUTED = {
    "004/asm-B:noise",
    "004/cor-10:step",
    "004/def-18:fact-2",
    "004/def-18:fact-3",
    "004/def-18:fact-4-square",
    "004/def-2:unnormalised",
    "004/def-sigma-c:eq-15",
    "004/def-sigma-c:eq-16",
    "004/eq-3",
    "004/eq-7",
    "004/eq-7:discontinuous",
    "004/fact-1:rate-below",
    "004/lem-1:deviation",
    "004/lem-1:hidden-only",
    "004/lem-1:step-bn",
    "004/lem-1:step-ln",
    "004/lem-23:series",
    "004/lem-26:step",
    "004/lem-39:step",
    "004/lem-40",
    "004/lem-40:vectors",
    "004/lem-41",
    "004/lem-54",
    "004/lem-55:residual",
    "004/lem-57:others",
    "004/normrelu:zeroth",
    "004/rem-D4:counterexample",
    "004/rem-D4:sigmoid",
    "004/tab-I3:rates",
    "004/tab-mu:exp-dual",
    "004/tab-mu:relu-dual",
    "004/tab-mu:relu-series",
    "004/thm-12:constant",
    "004/thm-13:sgd",
    "004/thm-15:eq-24",
    "004/thm-15:modulus",
    "004/thm-15:queries",
    "004/thm-16",
    "004/thm-16:vanishing",
    "004/thm-37",
    "004/thm-3:features",
    "004/thm-42:step",
    "004/thm-44",
    "004/thm-45",
    "004/thm-45:smallest",
    "004/thm-47",
    "004/thm-50",
    "004/thm-50:assumption",
    "004/thm-51",
    "004/thm-51:step",
    "004/thm-52",
    "004/thm-52:split",
    "004/thm-58:generalises",
    "004/thm-59:recursion",
    "004/thm-59:sums",
    "004/thm-5:step",
    "004/thm-9",
    "004/thm-9:appendix",
}


def test_shipped_verdicts() -> None:
    verdicts = {row.id: row.verdict for row in ledger("004")}
    assert {i for i, verdict in verdicts.items() if verdict == "refuted"} == REFUTED
    assert set(verdicts.values()) == {"refuted", "holds"}


def test_counterexamples_by_hand() -> None:
    """The shipped ones, recomputed with nothing but NumPy."""
    found = {row.id: row.counterexample["instance"] for row in shipped("004").values() if row.counterexample}
    assert {"004/thm-37", "004/lem-40", "004/thm-50:assumption", "004/thm-16", "004/lem-54"} <= set(found)
    # lengths: E erf(t√γX)² by Gauss–Hermite
    case = found["004/thm-37"]
    x, w = np.polynomial.hermite_e.hermegauss(150)
    w = w / math.sqrt(2 * math.pi)

    def moment(gamma: float) -> float:
        return float(w @ (case["a"] * math.sqrt(gamma) * x + special.erf(case["t"] * math.sqrt(gamma) * x)) ** 2)

    gamma = case["gamma"]
    for _ in range(case["L"]):
        gamma = moment(gamma) / moment(1.0)
    assert abs(gamma - 1) > abs(case["gamma"] - 1) ** 2
    # Hermite polynomials of eq. 14 under N(0, γ)
    case = found["004/lem-40"]
    assert case["i"] != case["j"] or case["p"] != 1.0
    # least squares with full column rank and no solution
    case = found["004/thm-50:assumption"]
    a, y = np.array(case["A"]), np.array(case["y"])
    assert np.linalg.matrix_rank(a) == a.shape[1]
    assert np.linalg.norm(a @ np.linalg.lstsq(a, y, rcond=None)[0] - y) > 0.1
    # eq. 15 for erf, whose dual is an arcsine: one power of ρ does not do
    case = found["004/def-sigma-c:eq-15"]
    assert (case["a"], case["t"], case["p"], case["q"]) == (0.0, 1.0, 1.0, 1.0)
    ratio = math.asin(2 * case["rho"] / 3) / math.asin(2 / 3)
    assert min(abs(ratio - case["rho"] ** i) for i in range(60)) > 0.03
    # pure noise on orthonormal inputs: the interpolant is ±1 on its sample, the best predictor 0
    case = found["004/thm-16"]
    assert case["mean"] == 0.0
    assert case["n"] / case["N"] > 0
    assert math.prod(1 - k / case["N"] for k in range(case["n"] ** 2)) >= 0.55
    assert found["004/lem-54"]["N"] == 1
    # a cosine after layers of the smooth clip, with the printed constant
    case = found["004/thm-12:constant"]
    assert case["p"] == 0.5


def test_parts_are_found_together() -> None:
    assert {claim.id for claim in find("004/lem-54")} == {"004/lem-54", "004/lem-54#corrected"}
