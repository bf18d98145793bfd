"""Paper 000: the verdicts, and its counterexamples by hand."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from isometer_papers.claims import claims_of
from isometer_papers.claims._ledger import shipped


def relu(x: Any) -> Any:
    return np.maximum(x, 0.0)


# --- verdicts ------------------------------------------------------------

REFUTED = {
    "000/K-gt-ip",
    "000/appE-mid:exactly-one",
    "000/claim-previous",
    "000/cor-4:item-1",
    "000/cor-4:item-2",
    "000/eq-112-117:115",
    "000/eq-112-117:last",
    "000/eq-26-28:27",
    "000/eq-26-28:28b",
    "000/eq-26-28:28c-minimum",
    "000/eq-26-28:geometric",
    "000/eq-26-28:independence",
    "000/eq-26-28:steps",
    "000/eq-35:d",
    "000/eq-35:e",
    "000/eq-35:f",
    "000/eq-41-43:exist",
    "000/eq-41-43:sets",
    "000/eq-45-50:48",
    "000/eq-53-60:57",
    "000/eq-53-60:58",
    "000/eq-63-73:positive",
    "000/eq-81-94:87-step",
    "000/eq-81-94:92",
    "000/example-circle:cells",
    "000/example-circle:gamma",
    "000/fig-5a",
    "000/fig-8",
    "000/init-one-neuron-per-sample:every",
    "000/intuition-3steps:effect",
    "000/intuition-3steps:few",
    "000/lem-2:eq-19",
    "000/lem-2:eq-20",
    "000/model-tree:projections",
    "000/odd-emergence:cluster",
    "000/odd-emergence:far",
    "000/odd-emergence:infinite-width",
    "000/odd-emergence:one-point",
    "000/remark-largest-norm",
    "000/thm-10:eq-31-mixed",
    "000/thm-10:two-or-three",
    "000/thm-13:item-1",
    "000/thm-13:item-2",
    "000/thm-13:item-3",
    "000/thm-14:item-1-unsquared",
    "000/thm-14:item-2-unsquared",
    "000/thm-14:scale",
    "000/thm-3.1",
    "000/thm-3.2b",
}
VACUOUS = {f"000/thm-14:item-{item}" for item in (1, 2, 3, 4)} | {"000/eq-81-94:86"}


def test_shipped_verdicts() -> None:
    verdicts = {row.id: row.verdict for row in shipped("000").values()}
    assert set(verdicts) == {claim.id for claim in claims_of("000")}
    assert {i for i, verdict in verdicts.items() if verdict == "refuted"} == REFUTED
    assert {i for i, verdict in verdicts.items() if verdict == "vacuous"} == VACUOUS
    assert not {i for i, verdict in verdicts.items() if verdict == "inconclusive"}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return {row.id: row.counterexample["instance"] for row in shipped("000").values() if row.counterexample}


def test_tree_counterexamples_by_hand(found: dict[str, Any]) -> None:
    """The shipped ones, recomputed with nothing but NumPy."""
    row = np.array(found["000/fig-8"]["x"])
    assert [len(np.unique(relu(s * (row - row.mean())))) for s in (1, -1)] == [2, 2]
    deep = np.array(found["000/appE-mid:exactly-one"]["x"])
    for signs in product((1, -1), repeat=found["000/appE-mid:exactly-one"]["T"]):
        image = deep
        for sign in signs:
            image = relu(sign * (image - image.mean()))
        assert len(np.unique(image.round(12))) < 3
    mixed = found["000/thm-10:eq-31-mixed"]
    rows = [np.array(mixed["x"])]
    for sign in mixed["signs"]:
        rows.append(relu(sign * (rows[-1] - rows[-1].mean())))
    gaps = [np.diff(np.unique(r.round(9)))[1] for r in rows[1:]]
    assert len({len(np.unique(r.round(9))) for r in rows}) == 1
    assert abs(gaps[-1] - gaps[0]) > 1e-6
    twice = np.array(found["000/eq-35:d"]["x"])
    assert found["000/eq-35:d"]["signs"] == [-1, -1]
    once = relu(twice.mean() - twice)
    assert len(np.unique(relu(once.mean() - once).round(9))) == len(twice) > 3


def test_other_counterexamples_by_hand(found: dict[str, Any]) -> None:
    n = found["000/example-circle:gamma"]["n"]
    x = np.stack([[math.cos(2 * math.pi * i / n), math.sin(2 * math.pi * i / n)] for i in range(n)])
    t = 2 * np.pi * (np.arange(20_000) + 0.5) / 20_000
    patterns, counts = np.unique(np.stack([np.cos(t), np.sin(t)], 1) @ x.T > 0, axis=0, return_counts=True)
    assert len(patterns) == 2 * n
    assert counts.min() / 20_000 == pytest.approx(1 / (2 * n), abs=1e-3)
    batch = np.array(found["000/cor-4:item-1"]["X"])
    z = (batch - batch.mean(axis=0)) @ np.random.default_rng(0).standard_normal((2, 500))
    assert np.linalg.matrix_rank(relu(z)) < len(batch)
    assert np.linalg.matrix_rank(np.stack([batch[0], batch[1]])) == 2
    pair = found["000/K-gt-ip"]
    a, b = np.array(pair["x"]), np.array(pair["y"])
    assert np.linalg.norm(a) * np.linalg.norm(b) == pytest.approx(a @ b, rel=1e-15)  # parallel and different
    assert not np.array_equal(a, b)
    points = np.array(found["000/init-one-neuron-per-sample:every"]["x"])
    own = points[found["000/init-one-neuron-per-sample:every"]["index"]]
    assert points.min() < own < points.max()


def test_no_odd_point_in_three_samples(found: dict[str, Any]) -> None:
    """The layer by its integral in closed form, iterated in NumPy: all three lengths become equal."""
    x = np.array(found["000/odd-emergence:infinite-width"]["X"])
    gram = x @ x.T
    centring = np.eye(len(x)) - 1 / len(x)
    for _ in range(found["000/odd-emergence:infinite-width"]["depth"]):
        inner = centring @ gram @ centring
        size = np.sqrt(np.diag(inner))
        rho = np.clip(inner / np.outer(size, size), -1, 1)
        gram = np.outer(size, size) * (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho)
        gram /= np.trace(gram)
    assert np.diag(gram) == pytest.approx(np.full(len(x), 1 / len(x)), rel=1e-6)
