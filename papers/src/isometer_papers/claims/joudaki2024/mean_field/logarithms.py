"""001, Appendix B.2: what becomes of ε² ln(1/ε) where its parts are put together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import at_least, at_most, deterministic
from isometer_papers.float_or_mpmath import Numeric, exp, log


def _small(rng: Rng, count: int) -> Iterator[Instance]:
    """ε for which t² = ln(2/(3ε²)) is not negative."""
    for eps in (0.5, 0.1, 0.8):
        yield {"eps": eps}
    for _ in range(count):
        yield {"eps": float(10 ** rng.uniform(-6, -0.1))}


# ε just below 1, where ln(1/ε) is small; c stands for an absolute constant.
_near_one = cases(*({"eps": eps, "norm": 2.0, "c": c} for c, eps in ((10.0, 0.99), (1000.0, 0.9999), (10.0, 0.5))))


def _halves(rng: Rng, count: int) -> Iterator[Instance]:
    """ε below ½ and below 1/‖G_*‖."""
    yield {"eps": 0.5, "norm": 2.0}
    for _ in range(count):
        norm = float(np.exp(rng.uniform(0.7, 4)))
        yield {"eps": float(rng.uniform(0.01, 1) / norm), "norm": norm}


def _chosen(i: Instance) -> Numeric:
    """(3/2)t²ε² + e^{−t²} at t² = ln(2/(3ε²))."""
    square = log(2 / (3 * i["eps"] ** 2))
    return 3 * square * i["eps"] ** 2 / 2 + exp(-square)


def _with_one(i: Instance) -> Numeric:
    """(3ε²/2)(1 + ln(1/ε²)), the right side of eq. B.45 as it is printed."""
    return 3 * i["eps"] ** 2 / 2 * (1 - 2 * log(i["eps"]))


def _without_one(i: Instance) -> Numeric:
    """ε² ln(1/ε²)."""
    return -2 * i["eps"] ** 2 * log(i["eps"])


def _before_renaming(i: Instance) -> Numeric:
    """‖G_*‖² ε² ln(1/ε) at ε/‖G_*‖."""
    return -(i["eps"] ** 2) * log(i["eps"] / i["norm"])


def _after_renaming(i: Instance) -> Numeric:
    return -(i["eps"] ** 2) * log(i["eps"])


def _rows(rng: Rng, count: int) -> Iterator[Instance]:
    """Rows of length √n at most, B = 1: G_* is their mean of squares."""
    for _ in range(count):
        n, d = int(rng.integers(2, 6)), int(rng.integers(1, 50))
        x = rng.standard_normal((3 * n, n))
        x *= rng.uniform(0.5, 1, 3 * n)[:, None] * np.sqrt(n) / np.linalg.norm(x, axis=1)[:, None]
        yield {"rows": x, "width": d}


def _conditioning(i: Instance) -> Numeric:
    """nB‖G_*^{-1}‖."""
    rows = i["rows"]
    return rows.shape[1] / eigenvalues(rows.T @ rows / len(rows))[0]


def _width_term(i: Instance) -> Numeric:
    """√d e^{−d/2}."""
    one = 1 + 0 * i["rows"][0, 0]
    return (one * i["width"]) ** 0.5 * exp(-one * i["width"] / 2)


CLAIMS = (
    deterministic(
        "001/lem-B.3:eq-B.45",
        at_most(_chosen, _with_one),
        {"small": _small},
        hypotheses=lambda i: 3 * i["eps"] ** 2 <= 2,
    ),
    deterministic(
        "001/lem-B.3:eq-B.46", at_most(_with_one, lambda i: i["c"] * _without_one(i)), {"near one": _near_one}
    ),
    deterministic(
        "001/lem-B.3:eq-B.46#corrected", at_most(_with_one, lambda i: 3 * _without_one(i)), {"halves": _halves}
    ),
    deterministic("001/lem-B.3:condition", at_least(_conditioning, _width_term), {"rows": _rows}),
    deterministic(
        "001/thm-B.6:renamed", at_most(_before_renaming, lambda i: i["c"] * _after_renaming(i)), {"near one": _near_one}
    ),
    deterministic(
        "001/thm-B.6:renamed#corrected",
        at_most(_before_renaming, lambda i: 2 * _after_renaming(i)),
        {"halves": _halves},
    ),
)
