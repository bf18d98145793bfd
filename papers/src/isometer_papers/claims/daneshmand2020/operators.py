"""002, §1 and eq. 5: batch norm, the step of the chain and whitening."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isometer.metrics import batch_normalize, rank
from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import Rng, cases, extended
from isometer_papers.claims._precise import elementwise, numerical_rank
from isometer_papers.claims._statements import deterministic, equal, vanishes
from isometer_papers.claims.daneshmand2020.instances import random_any, steps
from isometer_papers.claims.daneshmand2020.ranks import square_gap
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.rank.chain import batch_norm_as_printed, normalized_step, residual_step, whitened


def _affine(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in random_any(rng, count):
        yield {"H": instance["H"] + rng.standard_normal(instance["H"].shape[1])}


_shifted = cases({"H": np.array([[1.0, 1.0], [3.0, -1.0]])}, {"H": np.array([[0.0, 1.0], [2.0, 3.0], [1.0, 0.0]])})


_moved = cases({"H": np.array([[1.0, 1.0], [3.0, -1.0]]), "alpha": np.array([0.5, 0.0])})


def _variance_gap(h: Numeric) -> Numeric:
    centred = h - h.sum(axis=0) / h.shape[0]
    return abs((centred * centred).sum(axis=0) / h.shape[0] - 1).max()


_zero_steps = cases(
    {"H": np.array([[1.0, 1.0], [-1.0, 1.0]]), "W": np.diag([-1.0, 1.0]), "gamma": 1.0, "F": "identity"},
)


def _step(i: Instance) -> Numeric:
    return normalized_step(i["H"], i["W"], i["gamma"], elementwise(i["F"]))


def _no_zero_row(i: Instance) -> bool:
    return bool((abs(residual_step(i["H"], i["W"], i["gamma"], elementwise(i["F"]))).max(axis=0) > 0).all())


def _full_rank(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        d = int(rng.integers(1, 7))
        yield {"H": rng.standard_normal((int(rng.integers(d, 12)), d))}


def _linear_gap(i: Instance) -> Numeric:
    h, w = i["H"], i["W"]
    d = h.shape[1]
    left = residual_step(h, w, i["gamma"])
    return abs(left - h @ (np.eye(d, dtype=int) + i["gamma"] * w).T).max()


ALL_STEPS = steps(functions=("identity", "tanh", "sin", "relu"))


def _deviation(h: Numeric) -> Numeric:
    centred = h - h.sum(axis=0) / len(h)
    return ((centred * centred).sum(axis=0) / len(h)) ** 0.5


CLAIMS = (
    deterministic(
        "002/def-bn:zero-mean",
        vanishes(lambda i: abs((batch_norm_as_printed(i["H"]) + i["alpha"]).sum(axis=0)).max()),
        {"moved": _moved, "random": extended(_affine, lambda rng, i: {"alpha": rng.standard_normal(i["H"].shape[1])})},
    ),
    deterministic(
        "002/def-bn:zero-mean#corrected",
        vanishes(lambda i: abs(batch_norm_as_printed(i["H"]).sum(axis=0)).max()),
        {"random": _affine, "shifted": _shifted},
    ),
    deterministic(
        "002/def-bn:unit-variance",
        vanishes(lambda i: _variance_gap(batch_norm_as_printed(i["H"]))),
        {"shifted": _shifted, "random": _affine},
    ),
    deterministic(
        "002/def-bn:unit-variance#corrected",
        vanishes(lambda i: _variance_gap(batch_normalize(i["H"]))),
        {"random": _affine, "shifted": _shifted},
        exact=lambda i: (_variance_gap((i["H"] - i["H"].sum(axis=0) / len(i["H"])) / _deviation(i["H"])), 0),
    ),
    deterministic(
        "002/eq-5:into-space", vanishes(lambda i: square_gap(_step(i))), {"zero": _zero_steps, "random": ALL_STEPS}
    ),
    deterministic(
        "002/eq-5:into-space#corrected",
        vanishes(lambda i: square_gap(_step(i))),
        {"zero": _zero_steps, "random": ALL_STEPS},
        hypotheses=_no_zero_row,
    ),
    deterministic("002/eq-47", vanishes(_linear_gap), {"random": steps()}),
    deterministic(
        "002/op-whitening",
        equal(lambda i: float(rank(whitened(i["H"]), tolerance=1e-9)), lambda i: i["H"].shape[1]),
        {"random": _full_rank},
        hypotheses=lambda i: float(rank(i["H"], tolerance=1e-6)) == i["H"].shape[1],
        exact=lambda i: (numerical_rank(i["H"]), i["H"].shape[1]),
    ),
)
