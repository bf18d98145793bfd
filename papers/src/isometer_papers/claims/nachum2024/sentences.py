"""000: sentences beside the numbered statements: what others showed, the tree's projections, r_t, compositions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import numerical_rank
from isometer_papers.claims._statements import Sampled, at_least, at_most, deterministic, empirical, equal, vanishes
from isometer_papers.claims.daneshmand2021.chains import gaps, over_chains, stationary
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.orthogonality_steps import dense_chain
from isometer_papers.simulate.tree.transformations import negative_transformation, positive_transformation

# --- what was shown before: rescaling alone ------------------------------------------------------------


def _gap(i: Instance, rng: Rng) -> Estimate:
    return over_chains(gaps(stationary(i["samples"], i["width"])))


def _dense_gap(i: Instance, rng: Rng) -> Estimate:
    found = []
    for _ in range(12):
        states = dense_chain(rng.standard_normal((i["width"], i["samples"])), layers=200, rng=rng)[100:]
        found.append(float(gaps(np.linalg.svd(states, compute_uv=False) ** 2 / i["width"]).mean()))
    return Estimate.of(found)


def _scaled_gap(i: Instance, rng: Rng) -> Estimate:
    """V√d/√n."""
    one, factor = _gap(i, rng), (i["width"] / i["samples"]) ** 0.5
    return Estimate(factor * one.value, factor * one.error, one.freedom, one.draws)


NETWORKS = cases({"samples": 4, "width": 32}, {"samples": 4, "width": 128}, {"samples": 8, "width": 64})

# --- r_t, Appendix B ------------------------------------------------------------


def _ranks(i: Instance, samples: int, neurons: int) -> int:
    """rank relu(W⁽ʳ⁾X) of the first samples and neurons; samples in rows of `X`."""
    rows = np.asarray(i["W"], dtype=float)[:neurons] @ np.asarray(i["X"], dtype=float)[:samples].T
    return numerical_rank(np.maximum(rows, 0))


def _first(i: Instance, t: int, printed: bool) -> int | None:
    """r_t: with as many samples as neurons, as printed, or with t samples."""
    most = len(i["X"]) if printed else len(i["W"])
    return next((r for r in range(1, most + 1) if _ranks(i, r if printed else t, r) == t), None)


def _rank_at_first(i: Instance) -> int:
    r = _first(i, i["t"], True)
    assert r is not None
    return _ranks(i, i["t"], r)


def _least_step(i: Instance) -> int:
    """min y_t, t from 2 on; r_t as meant."""
    found = [_first(i, t, False) for t in range(1, len(i["X"]) + 1)]
    return min((b - a for a, b in pairwise(found) if a is not None and b is not None), default=0)


def _neurons(rng: Rng, count: int) -> Iterator[Instance]:
    """No two samples collinear; W has enough rows for full rank as a rule."""
    yield {"X": np.eye(2), "W": np.array([[-1.0, -1.0], [-1.0, 1.0]]), "t": 1}
    for _ in range(count):
        n = int(rng.integers(2, 5))
        yield {"X": rng.standard_normal((n, 3)), "W": rng.standard_normal((60, 3)), "t": int(rng.integers(1, n + 1))}


# --- the tree ------------------------------------------------------------


def _unit_vectors(d: int) -> set[tuple[int, ...]]:
    """S_d: ±e_1, …, ±e_d."""
    return {tuple(int(sign * (j == k)) for j in range(d)) for k in range(d) for sign in (1, -1)}


def _weights(t: int) -> set[tuple[int, ...]]:
    """The rows of W⁽ᵗ⁺¹⁾, eq. 9."""
    one = np.eye(2**t, dtype=int)
    return {tuple(int(v) for v in row) for row in np.concatenate([one, -one])}


def _differing(i: Instance, exponent: int) -> int:
    """Vectors that only one of both sets has."""
    return len(_weights(i["t"]) ^ _unit_vectors(2 ** (i["t"] + exponent)))


LAYERS = cases({"t": 1}, {"t": 2}, {"t": 3})


def _descendants(row: Numeric, layers: int) -> Numeric:
    rows = np.asarray(row)[None]
    for _ in range(layers):
        rows = np.concatenate([positive_transformation(rows), negative_transformation(rows)])
    return rows


def _not_complementary(i: Instance) -> int:
    """Descendants in which x_1 and a middle sample are both positive, or both at zero."""
    rows = _descendants(i["x"], i["T"]) > 0
    return int((rows[:, :1] == rows[:, 1:-1]).sum())


def _first_apart(rng: Rng, count: int) -> Iterator[Instance]:
    """Rows of composition (1, n − 1) in the order of the samples: x_1 apart, at zero or not."""
    for n in (4, 5, 6):
        for first in (0.0, 1.0):
            row = np.full(n, 1.0 - first)
            row[0] = first
            for layers in (1, 2, 3):
                yield {"x": row, "T": layers}


CLAIMS = (
    empirical(
        "000/claim-previous",
        vanishes(Sampled(_gap, _dense_gap, "all weights written out, from Gaussian inputs, layers 101 to 200")),
        {"networks": NETWORKS},
        counts=(3, 3),
        resolution=0.05,
    ),
    empirical(
        "000/claim-previous#corrected",
        at_most(Sampled(_scaled_gap), 1.0),
        {"networks": NETWORKS},
        counts=(3, 3),
        resolution=0.2,
    ),
    deterministic(
        "000/eq-26-28:steps",
        equal(_rank_at_first, lambda i: i["t"]),
        {"neurons": _neurons},
        hypotheses=lambda i: _first(i, i["t"], True) is not None,
        counts=(200, 1000),
    ),
    deterministic("000/eq-26-28:steps#corrected", at_least(_least_step, 0), {"neurons": _neurons}, counts=(40, 200)),
    deterministic("000/model-tree:projections", vanishes(lambda i: _differing(i, 1)), {"layers": LAYERS}),
    deterministic("000/model-tree:projections#corrected", vanishes(lambda i: _differing(i, 0)), {"layers": LAYERS}),
    deterministic("000/eq-45-50:complementary", vanishes(_not_complementary), {"rows": _first_apart}),
)
