"""001, §4.1: isometry of positive semi-definite matrices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import above, at_least, at_most, below, deterministic, equal, vanishes
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.isometry.gap_steps import isometry_of, parallelogram_ratio


def _psd(rng: Rng, count: int) -> Iterator[Instance]:
    for m in ([[1, 0], [0, 1]], [[2, 0], [0, 2]], [[2, 1], [1, 2]], [[1, 1], [1, 1]], [[3]], [[4, 0], [0, 1]]):
        yield {"M": np.array(m, dtype=float), "c": 3.0}
    for _ in range(count):
        n = int(rng.integers(1, 6))
        x = rng.standard_normal((n + int(rng.integers(0, 3)), n))
        yield {"M": x.T @ x, "c": float(np.exp(rng.uniform(-3, 3)))}


def _singular(rng: Rng, count: int) -> Iterator[Instance]:
    """Gram matrices of linearly dependent integer vectors: singular to the last digit."""
    yield {"M": np.ones((2, 2))}
    yield {"M": np.diag([1.0, 0.0])}
    for _ in range(count):
        n = int(rng.integers(2, 5))
        x = rng.integers(-3, 4, (n, n)).astype(float)
        x[:, -1] = x[:, 0]
        if x.any():
            yield {"M": x.T @ x}


_multiples = cases(*({"M": c * np.eye(n)} for n in (1, 2, 3, 5) for c in (2.0, 1.0, 0.5)))


def _multiple(i: Instance) -> bool:
    """Whether M is a multiple of the identity."""
    m = i["M"]
    return bool((m == m[0, 0] * np.eye(len(m))).all())


def _identity_distance(i: Instance) -> Numeric:
    m = i["M"]
    return ((m - np.eye(len(m), dtype=int)) ** 2).sum() ** 0.5


def _angles(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"a": 1.0, "b": 1.0, "sine": 1.0}
    for _ in range(count):
        a, b = (float(v) for v in np.exp(rng.uniform(-2, 2, 2)))
        yield {"a": a, "b": b, "sine": float(rng.uniform())}


def _plane(i: Instance) -> Numeric:
    """½ I of the Gram matrix of two vectors with these lengths and this angle."""
    a, b, s = i["a"], i["b"], i["sine"]
    cosine = (1 - s * s) ** 0.5
    return isometry_of(np.array([[a * a, a * b * cosine], [a * b * cosine, b * b]], dtype=object)) / 2


def _built(point: Numeric) -> Numeric:
    x = np.tan(3.0 * (np.asarray(point) - 0.5)).reshape(2, 2)
    return x.T @ x + 1e-9 * np.eye(2)


CLAIMS = (
    deterministic(
        "001/fig-4.1:maximum",
        at_most(lambda i: parallelogram_ratio(i["a"], i["b"], i["sine"]), 0.5),
        {"angles": _angles},
        search=Search(lambda p: {"a": 2 * float(p[0]) + 0.01, "b": 2 * float(p[1]) + 0.01, "sine": float(p[2])}, 3),
    ),
    deterministic(
        "001/fig-4.1:isometry",
        equal(lambda i: parallelogram_ratio(i["a"], i["b"], i["sine"]), _plane),
        {"angles": _angles},
        hypotheses=lambda i: i["sine"] > 1e-3,
        tolerance=1e-7,
    ),
    deterministic(
        "001/lem-4.2:scale",
        equal(lambda i: isometry_of(i["c"] * i["M"]), lambda i: isometry_of(i["M"])),
        {"psd": _psd},
        scale=1,
    ),
    deterministic(
        "001/lem-4.2:upper",
        at_most(lambda i: isometry_of(i["M"]), 1),
        {"psd": _psd},
        search=Search(lambda p: {"M": _built(p)}, 4),
    ),
    deterministic(
        "001/lem-4.2:lower",
        at_least(lambda i: isometry_of(i["M"]), 0),
        {"psd": _psd, "singular": _singular},
        scale=1,
        search=Search(lambda p: {"M": _built(p)}, 4),
    ),
    deterministic(
        "001/lem-4.2:one",
        vanishes(_identity_distance),
        {"multiples": _multiples, "psd": _psd},
        hypotheses=lambda i: bool(isometry_of(i["M"]) == 1),
    ),
    deterministic(
        "001/lem-4.2:one#corrected",
        below(lambda i: isometry_of(i["M"]), 1),
        {"psd": _psd, "singular": _singular},
        hypotheses=lambda i: not _multiple(i),
        search=Search(lambda p: {"M": _built(p)}, 4),
    ),
    deterministic("001/lem-4.2:identity", equal(lambda i: isometry_of(i["M"]), 1), {"multiples": _multiples}),
    deterministic(
        "001/lem-4.2:degenerate", vanishes(lambda i: isometry_of(i["M"])), {"singular": _singular}, tolerance=1e-3
    ),
    deterministic(
        "001/lem-4.2:nondegenerate",
        above(lambda i: isometry_of(i["M"]), 0),
        {"psd": _psd},
        hypotheses=lambda i: bool(np.linalg.eigvalsh(np.asarray(i["M"], dtype=float))[0] > 1e-6),
        scale=1,
    ),
)
