"""Paper 002: the verdicts, and its counterexamples by hand."""

from __future__ import annotations

import numpy as np
import pytest

from isometer_papers.claims import find, ledger
from isometer_papers.claims._evidence import without_power
from isometer_papers.claims._ledger import shipped
from isometer_papers.theory.rank.bounds import soft_rank_bound

# --- verdicts ------------------------------------------------------------

REFUTED = {
    "002/def-bn:unit-variance",
    "002/def-bn:zero-mean",
    "002/def-space-H:off-diagonal",
    "002/eq-4:below-rank",
    "002/eq-4:words",
    "002/eq-5:into-space",
    "002/ex-14:eq-83-cube",
    "002/ex-14:eq-83-fourth",
    "002/ex-14:eq-83-square",
    "002/ex-14:leading",
    "002/ex-16:eq-87",
    "002/ex-17",
    "002/lem-1",
    "002/lem-12-steps:eq-78",
    "002/lem-15",
    "002/lem-18:eq-62",
    "002/lem-1:eigenvalues",
    "002/lem-20",
    "002/lem-20:expansion",
    "002/lem-21#intended",
    "002/lem-21:rank",
    "002/lem-4",
    "002/lem-4:sequence",
    "002/lem-6:eq-44",
    "002/lem-7#intended",
    "002/lem-7:norm",
    "002/prop-13:diagonal",
    "002/prop-8:gradients-linear",
    "002/prop-8:gradients-relu",
    "002/prop-8:linear",
    "002/prop-8:relu",
    "002/tab-1:vanilla-linear",
    "002/tab-1:vanilla-tanh",
}
VACUOUS = {
    "002/eq-64-66:rank",
    "002/lem-18",
    "002/lem-18:eq-58",
    "002/lem-18:eq-60",
    "002/lem-21",
    "002/lem-7",
    "002/thm-19:rank",
    "002/thm-19:regularity",
    "002/thm-3:root-d",
    "002/thm-3:soft-rank",
    "002/thm-5",
}


def test_shipped_verdicts() -> None:
    verdicts = {row.id: row.verdict for row in ledger("002")}
    assert {i for i, verdict in verdicts.items() if verdict == "refuted"} == REFUTED
    assert {i for i, verdict in verdicts.items() if verdict == "vacuous"} == VACUOUS
    undecided = {i for i, verdict in verdicts.items() if verdict == "inconclusive"}
    assert undecided <= {"002/tab-1:bn-tanh", *without_power("002")}


def test_counterexamples_by_hand() -> None:
    """The shipped ones, recomputed with nothing but NumPy."""
    found = {row.id: row.counterexample["instance"] for row in shipped("002").values() if row.counterexample}
    h = np.array(found["002/lem-1"]["H"])
    assert np.linalg.matrix_rank(h) == pytest.approx(float(soft_rank_bound(h, 0)))
    relu = found["002/prop-8:relu"]
    first, second = (np.maximum(a * np.array(relu["u"]), 0) for a in relu["a"])
    assert np.linalg.matrix_rank(np.stack([first, second])) == 2
    step = found["002/lem-21:rank"]
    h, w = np.array(step["H"]), np.array(step["W"])
    assert np.linalg.matrix_rank(h) == 1
    assert np.linalg.matrix_rank(h + step["gamma"] * np.tanh(h) @ w.T) == 2


def test_parts_are_found_together() -> None:
    assert {claim.id for claim in find("002/lem-18")} >= {"002/lem-18", "002/lem-18#corrected", "002/lem-18:eq-61"}
