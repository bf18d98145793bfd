"""001, Appendix B.2: total variation around the fixed point."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.theory.batch_norm import batch_norm_map
from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import elementwise
from isometer_papers.claims._statements import (
    asymptotic,
    at_least,
    at_most,
    deterministic,
    equal,
    probability,
)
from isometer_papers.claims.joudaki2024.mean_field.chains import (
    TV_EXPONENT,
    exponent_between,
    precise_library,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.isometry.gap_steps import batch_norm_rows
from isometer_papers.theory.mean_field.covariance_concentration import deviation_tail_as_printed
from isometer_papers.theory.mean_field.total_variation import (
    correlation_tv_bound,
    gaussian_distance,
    gaussian_tv_lower,
    gaussian_tv_upper,
    mixture_tv,
    scale_distance,
    scale_tv,
)
from isometer_papers.theory.mean_field.two_samples import (
    mixing_limit,
    tail_bound,
    tv_bound,
    two_sample_tail,
)


def _odd_widths(rng: Rng, count: int) -> Iterator[Instance]:
    """tε just below the smallest deviation √2/d, and ordinary t."""
    for d in (1, 3, 11):
        yield {"d": d, "t": 0.35 / math.sqrt(d)}
        yield {"d": d, "t": 0.5}


def _ratios(rng: Rng, count: int) -> Iterator[Instance]:
    """N(0, g I_m) against N(0, I_m)."""
    for g in (1.01, 1.1, 2.0, 0.5):
        for m in (1, 10):
            yield {"m": m, "g": g}
    for _ in range(count):
        yield {"m": int(rng.integers(1, 200)), "g": float(1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-4, -0.05))}


def _scale_tv(i: Instance) -> Numeric:
    return scale_tv(i["m"], i["g"], precise_library(i["g"]))


def _distance(i: Instance) -> Numeric:
    return scale_distance(i["m"], i["g"])


def _stacked(rng: Rng, count: int) -> Iterator[Instance]:
    """d rows of one sample: G_* = 1, G = g."""
    for rows, g in ((1000, 1.1), (100, 1.1), (1, 1.1), (10_000, 1.01)):
        yield {"m": rows, "g": g}
    for _ in range(count):
        yield {"m": int(rng.integers(1, 500)), "g": float(1 + 10 ** rng.uniform(-4, -0.3))}


def _row_distance(i: Instance) -> Numeric:
    """‖G_*^{-1}G − I‖_F of one row."""
    return abs(i["g"] - 1)


# G_* = diag(1, δ²), G the same with correlation s: one row, two samples.
_correlated = cases(*({"delta": delta, "s": s} for delta, s in ((0.01, 0.008), (0.1, 0.05), (0.02, 0.015))))


def _frobenius_square(i: Instance) -> Numeric:
    """t = ‖G_*^{-1}G − I‖_F²."""
    delta, s = i["delta"], i["s"]
    reference = np.array([1 + 0 * delta, delta * delta])
    gram = np.array([[reference[0], s * delta], [s * delta, reference[1]]])
    return gaussian_distance(reference, gram) ** 2


_mixtures = cases({"G": np.array([0.5, 2.0])}, {"G": np.array([0.5, 1.5])}, {"G": np.array([0.25, 4.0])})


def _grams(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n = int(rng.integers(2, 5))
        x = rng.standard_normal((n + 1, n))
        yield {"S": np.exp(rng.uniform(-1, 1, n)), "G": x.T @ x}


def _rates(rng: Rng, count: int) -> Iterator[Instance]:
    for depth in (1, 2, 10):
        for alpha in (0.5, 0.1, 0.9):
            yield {"alpha": alpha, "depth": depth}
    for _ in range(count):
        yield {"alpha": float(rng.uniform()), "depth": int(rng.integers(1, 50))}


# n = 2, ReLU: G_* = ½I, α = 2^{−d}, and a B > 1 with ε = 1 − gap: ε = 4B/√d in the lemmas, 2B/√d in the theorem.
_near_one = cases(
    *(
        {"width": width, "gap": gap, "depth": 60 * 2**width, "c": c}
        for width, gap, c in ((17, 1e-13, 10.0), (17, 1e-14, 100.0), (20, 1e-15, 10.0))
    )
)
_tails_near_one = cases(
    *(
        {"width": width, "t": 0.3, "gap": gap, "depth": 60 * 2**width, "c": c}
        for width, gap, c in ((5, 1e-6, 10.0), (5, 1e-8, 1000.0), (9, 1e-8, 10.0))
    )
)


def _rank_one_chance(i: Instance) -> Numeric:
    """A lower bound of ‖μ̂ − μ_*‖_tv: μ_* gives the h of rank one the chance 2^{1−d}, μ̂ none."""
    return 2 * mixing_limit(i["width"]) * (1 + 0 * i["gap"])


def _tv_at_one(i: Instance) -> Numeric:
    """α^{−1}ε² ln(1/ε)."""
    return tv_bound(1 - i["gap"], mixing_limit(i["width"]))


def _tail(i: Instance) -> Numeric:
    """P(‖G_* − G_ℓ‖_F ≥ t)."""
    return two_sample_tail(i["width"], float(i["t"]), 1.0, 0.0) * (1 + 0 * i["t"])


def _tail_bound(i: Instance) -> Numeric:
    """With the constant c of ≲."""
    return i["c"] * tail_bound(i["t"], 0.5, 1 - i["gap"], mixing_limit(i["width"]), i["depth"])


def _rows(rng: Rng, count: int) -> Iterator[Instance]:
    for name in ("relu", "tanh"):
        yield {"x": np.array([[1.0, 0.0]]), "phi": name}
    for _ in range(count):
        x = rng.standard_normal((1, int(rng.integers(2, 10))))
        yield {"x": x, "phi": str(rng.choice(["relu", "tanh", "identity"]))}


def _closed(n: int) -> float:
    """Off-diagonal entry of G_* for ReLU: (√(1−r²) + r(π − arccos r))/(2π), r = −1/(n−1)."""
    r = -1 / (n - 1)
    return (math.sqrt(1 - r * r) + r * (math.pi - math.acos(r))) / (2 * math.pi)


def _relu_gram(n: int) -> Any:
    return np.full((n, n), _closed(n)) + np.eye(n) * (0.5 - _closed(n))


def _lemma_b_3(width: int) -> float:
    """ε² ln(1/ε) with ε = n‖G_*^{-1}‖B/√d = 4/√d for ReLU and n = 2."""
    return float(tv_bound(4 / math.sqrt(width)))


SCALES = Search(lambda p: {"m": 1 + int(50 * p[0]), "g": 0.02 + 2.5 * float(p[1])}, 2)


CLAIMS = (
    asymptotic(
        "001/lem-B.3",
        at_most(TV_EXPONENT, lambda i: exponent_between(i, _lemma_b_3)),
        {"widths": cases({"widths": [100, 10_000]})},
        counts=(1, 1),
    ),
    probability(
        "001/lem-B.3:eq-B.40",
        at_most(
            lambda i: two_sample_tail(i["d"], float(2 * i["t"]) / math.sqrt(i["d"]), 1.0, 0.0),
            lambda i: deviation_tail_as_printed(i["t"], precise_library(i["t"])),
        ),
        {"networks": _odd_widths},
    ),
    deterministic("001/lem-B.3:eq-B.43", at_most(_scale_tv, lambda i: 3 * _distance(i) ** 2 / 2), {"scales": _ratios}),
    deterministic(
        "001/lem-B.3:eq-B.43#corrected",
        at_most(_scale_tv, lambda i: 3 * _distance(i) / 2),
        {"scales": _ratios},
        search=SCALES,
    ),
    deterministic("001/lem-B.3:rows", at_most(_scale_tv, lambda i: 3 * _row_distance(i) / 2), {"rows": _stacked}),
    deterministic(
        "001/lem-B.3:rows#corrected",
        at_most(_scale_tv, lambda i: 3 * _distance(i) / 2),
        {"rows": _stacked},
        search=SCALES,
    ),
    asymptotic("001/lem-B.4", at_most(_rank_one_chance, lambda i: i["c"] * _tv_at_one(i)), {"near one": _near_one}),
    asymptotic(
        "001/lem-B.5",
        at_most(_rank_one_chance, lambda i: i["c"] * ((1 - mixing_limit(i["width"])) ** i["depth"] + _tv_at_one(i))),
        {"near one": _near_one},
    ),
    deterministic(
        "001/lem-B.5:eq-B.33",
        at_most(
            lambda i: (1 - i["alpha"]) ** i["depth"],
            lambda i: precise_library(i["alpha"]).exp(-(i["alpha"] ** i["depth"])),
        ),
        {"rates": _rates},
        search=Search(lambda p: {"alpha": 0.001 + 0.998 * float(p[0]), "depth": 1 + int(20 * p[1])}, 2),
    ),
    probability("001/thm-B.6", at_most(_tail, _tail_bound), {"near one": _tails_near_one}),
    deterministic(
        "001/thm-B.6:norm",
        at_most(
            lambda i: ((i["G"] - np.diag(i["S"])) ** 2).sum() ** 0.5,
            lambda i: max(i["S"]) * gaussian_distance(i["S"], i["G"]),
        ),
        {"grams": _grams},
        search=Search(
            lambda p: {"S": np.asarray(p[:2]) + 0.05, "G": np.array([[1.0, p[2] - 0.5], [p[2] - 0.5, 1.0]])}, 3
        ),
    ),
    deterministic(
        "001/lem-B.7",
        at_least(
            lambda i: correlation_tv_bound(i["s"], 1, precise_library(i["s"])), lambda i: _frobenius_square(i) / 100
        ),
        {"correlated": _correlated},
        hypotheses=lambda i: _frobenius_square(i) <= 1,
    ),
    deterministic(
        "001/lem-B.7#corrected",
        at_least(_scale_tv, lambda i: gaussian_tv_lower(_distance(i))),
        {"scales": _ratios},
        search=SCALES,
    ),
    deterministic(
        "001/lem-B.7:mixture",
        equal(
            lambda i: mixture_tv(i["G"], precise_library(i["G"][0])),
            lambda i: sum(scale_tv(1, g, precise_library(g)) for g in i["G"]) / len(i["G"]),
        ),
        {"mixtures": _mixtures},
        tolerance=0.01,
    ),
    deterministic(
        "001/lem-B.7:mixture#corrected",
        at_most(
            lambda i: mixture_tv(i["G"], precise_library(i["G"][0])),
            lambda i: sum(scale_tv(1, g, precise_library(g)) for g in i["G"]) / len(i["G"]),
        ),
        {"mixtures": _mixtures},
        tolerance=1e-3,
        search=Search(lambda p: {"G": 0.05 + 3 * np.asarray(p)}, 2, (60, 200)),
    ),
    deterministic(
        "001/gauss-tv:upper",
        at_most(_scale_tv, lambda i: gaussian_tv_upper(_distance(i))),
        {"scales": _ratios},
        search=SCALES,
    ),
    deterministic(
        "001/gauss-tv:lower",
        at_least(_scale_tv, lambda i: gaussian_tv_lower(_distance(i))),
        {"scales": _ratios},
        search=SCALES,
    ),
    deterministic(
        "001/eq-B.36-B.39:fixed-point",
        equal(lambda i: float(batch_norm_map(_relu_gram(i["n"]), "relu").gram[0, 1]), lambda i: _closed(i["n"])),
        {"relu": cases(*({"n": n} for n in (3, 4, 10, 30)))},
    ),
    deterministic(
        "001/eq-B.36-B.39:norm",
        at_most(
            lambda i: (batch_norm_rows(i["x"], True) ** 2).sum() ** 0.5,
            lambda i: (0 * i["x"][0, 0] + i["x"].shape[1]) ** 0.5,
        ),
        {"rows": _rows},
        search=Search(lambda p: {"x": np.asarray(p)[None, :] * [1.0, 2.0, 4.0] + [[0.1, 0.0, 0.0]], "phi": "tanh"}, 3),
    ),
    deterministic(
        "001/eq-B.36-B.39:activation",
        at_most(lambda i: (elementwise(i["phi"])(batch_norm_rows(i["x"], True)) ** 2).sum(), lambda i: i["x"].shape[1]),
        {"rows": _rows},
        search=Search(lambda p: {"x": np.asarray(p)[None, :] * [1.0, 2.0, 4.0] + [[0.1, 0.0, 0.0]], "phi": "tanh"}, 3),
    ),
)
