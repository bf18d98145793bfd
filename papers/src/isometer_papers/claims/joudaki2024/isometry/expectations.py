"""001, Theorem 6.3 = C.4 with its proof, Corollary 6.4 = C.6: isometry gained in expectation over Haar rotations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Unpack

import numpy as np

from isometer.theory.batch_norm import isometry_gap_step
from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import (
    ClaimSettings,
    Comparison,
    asymptotic,
    at_least,
    at_most,
    below,
    deterministic,
    equal,
    expectation,
    vanishes,
)
from isometer_papers.claims.joudaki2024.isometry.draws import mean_over, rotated, some_spectra
from isometer_papers.claims.joudaki2024.isometry.instances import (
    SPECTRA,
    UNIT,
    apart,
    exact_gap_step,
    excess,
    gram_spectrum,
    layer_gap,
    rotation,
    search_spectrum,
)
from isometer_papers.float_or_mpmath import Numeric, log
from isometer_papers.theory.isometry import (
    eigenvalue_variance,
    gain_factor,
    gap_step_bound,
    isometry_of,
    normalized_rows,
    pair_expectation_bound,
    product_expectation_bound,
    row_norms,
    squared_sum_bound,
)


def _gain(squares: Numeric) -> Numeric:
    """I(BN(X'))/I(X) − 1 = (Π ‖X'_j‖²)^{−1/d} − 1, for rows of mean square 1."""
    return np.exp(-np.log(squares).mean(axis=1)) - 1


def _pair(squares: Numeric) -> Numeric:
    """‖X'_1‖‖X'_2‖, averaged over pairs of rows."""
    norms, d = np.sqrt(squares), squares.shape[1]
    return (norms.sum(axis=1) ** 2 - squares.sum(axis=1)) / (d * (d - 1))


def _squared_sum(squares: Numeric) -> Numeric:
    return np.sqrt(squares).sum(axis=1) ** 2


def _linear_pair(squares: Numeric) -> Numeric:
    """Π of 1 + ½ Σ(λ_k − 1)W_jk² over two rows."""
    near = 1 + 0.5 * (squares - 1)
    d = squares.shape[1]
    return (near.sum(axis=1) ** 2 - (near**2).sum(axis=1)) / (d * (d - 1))


def _by_influence(value: float, influence: Any) -> Estimate:
    """A function of means, with the error that its linearisation has draw by draw."""
    spread = Estimate.of(influence)
    return Estimate(value, spread.error, spread.freedom, spread.draws)


def _jensen(squares: Numeric) -> Estimate:
    """E[d²/S] · E[S]/d² − 1 for S = (Σ‖X'_j‖)²."""
    total = _squared_sum(squares) / squares.shape[1] ** 2
    a, b = float((1 / total).mean()), float(total.mean())
    return _by_influence(a * b - 1, b / total + a * total)


def _log_jensen(squares: Numeric) -> Estimate:
    """E log S − log E S."""
    total = _squared_sum(squares)
    mean = float(total.mean())
    return _by_influence(float(np.log(total).mean()) - math.log(mean), np.log(total) - total / mean)


def _orthogonal(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"X": np.eye(2), "W": np.array([[0.6, -0.8], [0.8, 0.6]])}
    for _ in range(count):
        d = int(rng.integers(2, 7))
        yield {"X": rotation(rng, d), "W": rotation(rng, d)}


def _fall_ratio(i: Instance) -> float:
    return isometry_gap_step(i["spectrum"]).value / float(gap_step_bound(i["spectrum"]))


def _full_rank(i: Instance) -> bool:
    return bool(min(i["spectrum"]) > 0)


def _sums(i: Instance) -> tuple[Numeric, Numeric]:
    own = (excess(i) ** 2).sum()
    return excess(i).sum() ** 2 - own, own


def _between(i: Instance) -> Numeric:
    """C.34."""
    d, (across, own) = len(i["spectrum"]), _sums(i)
    return 1 + (across - own) / (4 * d * (d + 2) * (d - 1))


def _relative_sum(i: Instance) -> Numeric:
    """Σ(λ_k − 1)²/(2d²(d+2)) · d."""
    d = len(i["spectrum"])
    return eigenvalue_variance(i["spectrum"]) / (2 * (d + 2))


def _printed_step(i: Instance) -> Numeric:
    return layer_gap(i["X"]) + gap_step_bound(gram_spectrum(i))


def _sums_to_width(i: Instance) -> bool:
    return bool(abs(i["spectrum"].sum() - len(i["spectrum"])) < 1e-9)


def _many(id: str, compared: Comparison, **settings: Unpack[ClaimSettings]) -> Claim:
    """A claim about a mean over rotations of a few spectra."""
    common: ClaimSettings = {"hypotheses": _sums_to_width, "counts": (5, 8), **settings}
    return expectation(id, compared, {"spectra": some_spectra}, **common)


def _rank_one(count: int) -> Iterator[Instance]:
    for d in (2, 10, 100):
        yield {"spectrum": np.array([float(d)] + [0.0] * (d - 1))}


_GAIN = mean_over(_gain)
_PAIR = mean_over(_pair)
_SUM = mean_over(_squared_sum)
_LINEAR = mean_over(_linear_pair)


def _theorem(name: str) -> tuple[Claim, Claim]:
    return (
        _many(
            f"001/{name}",
            at_least(_GAIN, lambda i: gain_factor(i["spectrum"]) - 1),
            resolution=0.5,
        ),
        deterministic(
            f"001/{name}:equality",
            equal(
                lambda i: isometry_of(normalized_rows(i["W"] @ i["X"])),
                lambda i: gain_factor(gram_spectrum(i)) * isometry_of(i["X"]),
            ),
            {"orthogonal": _orthogonal},
        ),
    )


def _corollary(name: str) -> Claim:
    return expectation(
        f"001/{name}",
        at_least(_fall_ratio, 1),
        SPECTRA,
        exact=lambda i: (exact_gap_step(i["spectrum"]) / gap_step_bound(i["spectrum"]), 1),
        hypotheses=apart,
        search=search_spectrum(3),
        counts=(60, 600),
    )


CLAIMS = (
    *_theorem("thm-6.3"),
    expectation("001/cor-6.4", at_most(lambda i: layer_gap(i["W"] @ i["X"]), _printed_step), UNIT),
    _corollary("cor-6.4#corrected"),
    *_theorem("thm-C.4"),
    deterministic(
        "001/thm-C.4:rem-C.5",
        below(lambda i: (i["spectrum"] ** 2).sum(), lambda i: len(i["spectrum"]) ** 2),
        {"one": cases({"spectrum": np.array([1.0])}), **SPECTRA},
        hypotheses=_full_rank,
    ),
    deterministic(
        "001/thm-C.4:rem-C.5#corrected",
        below(lambda i: (i["spectrum"] ** 2).sum(), lambda i: len(i["spectrum"]) ** 2),
        SPECTRA,
        hypotheses=_full_rank,
        search=search_spectrum(3),
    ),
    deterministic(
        "001/thm-C.4:eq-C.15", equal(lambda i: (row_norms(i["W"] @ i["X"]) ** 2).sum(), lambda i: len(i["X"])), UNIT
    ),
    _many("001/thm-C.4:eq-C.16", at_least(rotated(lambda i, squares: _jensen(squares)), 0), resolution=0.5),
    _many("001/thm-C.4:eq-C.18", at_most(_PAIR, lambda i: product_expectation_bound(i["spectrum"])), resolution=0.02),
    _many("001/thm-C.4:eq-C.20", equal(_LINEAR, lambda i: product_expectation_bound(i["spectrum"])), resolution=0.02),
    deterministic("001/thm-C.4:eq-C.24", vanishes(lambda i: i["spectrum"].sum() / len(i["spectrum"]) - 1), SPECTRA),
    deterministic(
        "001/thm-C.4:eq-C.34", equal(lambda i: product_expectation_bound(i["spectrum"]), _between), SPECTRA, scale=1
    ),
    deterministic(
        "001/thm-C.4:eq-C.35", equal(_between, lambda i: pair_expectation_bound(i["spectrum"])), SPECTRA, scale=1
    ),
    _many(
        "001/thm-C.4:eq-C.35-bound", at_most(_PAIR, lambda i: pair_expectation_bound(i["spectrum"])), resolution=0.02
    ),
    deterministic(
        "001/thm-C.4:eq-C.38",
        equal(
            lambda i: (
                len(i["spectrum"])
                + (len(i["spectrum"]) ** 2 - len(i["spectrum"])) * pair_expectation_bound(i["spectrum"])
            ),
            lambda i: squared_sum_bound(i["spectrum"]),
        ),
        SPECTRA,
    ),
    _many("001/thm-C.4:eq-C.39", at_most(_SUM, lambda i: squared_sum_bound(i["spectrum"])), resolution=0.02),
    expectation("001/cor-C.6", at_most(lambda i: layer_gap(i["W"] @ i["X"]), _printed_step), UNIT),
    _corollary("cor-C.6#corrected"),
    deterministic(
        "001/cor-C.6:eq-C.41",
        at_most(
            lambda i: layer_gap(normalized_rows(i["W"] @ i["X"])),
            lambda i: layer_gap(i["X"]) - log(len(i["X"]) ** 2 / row_norms(i["W"] @ i["X"]).sum() ** 2),
        ),
        UNIT,
        scale=1,
    ),
    _many("001/cor-C.6:eq-C.44", at_most(rotated(lambda i, squares: _log_jensen(squares)), 0), resolution=0.5),
    deterministic(
        "001/cor-C.6:eq-C.46",
        at_most(
            lambda i: log(squared_sum_bound(i["spectrum"]) / len(i["spectrum"]) ** 2),
            lambda i: gap_step_bound(i["spectrum"]),
        ),
        SPECTRA,
        scale=1,
    ),
    asymptotic(
        "001/rem-C.7:order",
        at_most(_relative_sum, 0.5),
        {**SPECTRA, "wide": lambda rng, count: _rank_one(count)},
        search=search_spectrum(4),
    ),
    deterministic("001/rem-C.7:sign", at_most(lambda i: gap_step_bound(i["spectrum"]), 0), SPECTRA, scale=1),
)
