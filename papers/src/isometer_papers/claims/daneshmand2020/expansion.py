"""002, §7.5: what one weak linear layer does to ‖M‖_F² (Lemma 12, Proposition 13, Example 14)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Family, Rng, cases
from isometer_papers.claims._fits import intercept
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import (
    Sampled,
    above,
    asymptotic,
    at_most,
    below,
    deterministic,
    equal,
    expectation,
    vanishes,
)
from isometer_papers.claims.daneshmand2020.instances import equal_spectra, extreme_unit, random_unit, spectra
from isometer_papers.float_or_mpmath import Numeric, is_precise
from isometer_papers.simulate.rank_steps import weak_layer_change, weak_layer_statistics
from isometer_papers.theory.rank.bounds import (
    equal_row_drift,
    equal_row_moments,
    power_sums,
    two_level_leading_change,
    two_level_norms,
    two_level_norms_as_printed,
    two_level_spectrum,
)
from isometer_papers.theory.rank.residual_step import frobenius_drift

UNIT = {"random": random_unit, "extreme": extreme_unit}

GAMMAS = (0.02, 0.05, 0.1)

DRAWS = 40_000


def small_moments(rng: Rng, count: int) -> Iterator[Instance]:
    """M of two to four features, correlated and not."""
    yield {"M": np.eye(2)}
    yield {"M": np.full((3, 3), 0.5) + 0.5 * np.eye(3)}
    for _ in range(count):
        d = int(rng.integers(2, 5))
        h = rng.standard_normal((int(rng.integers(1, 6)), d)) + rng.uniform(0, 2) * rng.standard_normal(d)
        m = h.T @ h
        size = np.sqrt(np.diag(m))
        yield {"M": np.where(np.eye(d) > 0, 1.0, m / np.outer(size, size))}


def _drift_size(i: Instance) -> float:
    return 2.0 * len(i["M"]) ** 2


def _largest(m: Numeric) -> Numeric:
    return np.linalg.eigvalsh(m)[..., -1]


def _extrapolated(i: Instance, rng: Rng) -> Estimate:
    """(E‖M₊‖² − ‖M‖²)/γ² at γ = 0, from a straight line in γ²."""
    values = [Estimate.of(weak_layer_change(i["M"], gamma, draws=DRAWS, rng=rng)) for gamma in GAMMAS]
    return intercept([gamma**2 for gamma in GAMMAS], values)


def _leading(i: Instance, rng: Rng, draws: int = DRAWS) -> Estimate:
    """(E λ₁⁺ − λ₁)/γ⁴ at γ = 0 for the spectrum of Example 14, from a straight line in γ²."""
    d, values, gammas = i["width"], [], (0.01, 0.02, 0.04)
    for gamma in gammas:
        m = equal_row_moments(two_level_spectrum(d, gamma**2))
        after = weak_layer_statistics(m, gamma, _largest, draws=draws // 2, rng=rng)
        values.append(Estimate.of((after - (d - gamma**2 * (d - 1))) / gamma**4))
    return intercept([gamma**2 for gamma in gammas], values)


def _growth(i: Instance, rng: Rng, one: Callable[[Instance, Rng], Estimate]) -> Estimate:
    """Exponent in d between two widths."""
    low, high = ({"width": d} for d in i["widths"])
    a, b = one(low, rng), one(high, rng)
    span = math.log(i["widths"][1] / i["widths"][0])
    return Estimate(math.log(b.value / a.value) / span, math.hypot(a.error / a.value, b.error / b.value) / span)


def _leading_by_norm(i: Instance, rng: Rng) -> Estimate:
    """The same change read off ‖M‖_F² ≈ λ₁²."""
    d, gamma = i["width"], 0.02
    m = equal_row_moments(two_level_spectrum(d, gamma**2))
    return Estimate.of(weak_layer_change(m, gamma, draws=DRAWS, rng=rng) / (2 * d * gamma**2))


def _widths(*widths: int) -> Family:
    return lambda rng, count: iter([{"width": d} for d in widths[:count]])


_two_levels = cases(*({"width": d, "gamma": 1e-4} for d in (2, 3, 4, 8, 32)))


def _norm_claims() -> Iterator[Claim]:
    """Eq. 83, printed and corrected, one claim per norm."""
    for k, (name, power) in enumerate((("square", 2), ("cube", 3), ("fourth", 4))):
        for printed in (True, False):
            approximate = two_level_norms_as_printed if printed else two_level_norms
            yield asymptotic(
                f"002/ex-14:eq-83-{name}{'' if printed else '#corrected'}",
                vanishes(lambda i, k=k, p=power, f=approximate: _norm_error(i, k, p, f)),  # type: ignore[misc]
                {"widths": _two_levels},
                tolerance=1e-4,
            )


def _norm_error(i: Instance, k: int, power: int, approximate: Any) -> Numeric:
    small = i["gamma"] ** 2
    values = two_level_spectrum(i["width"], small)
    square = (values**2).sum()
    true = (square, (values**3).sum(), square**2)[k]
    return abs(true - approximate(i["width"], small)[k]) / (small * i["width"] ** power)


def _equal_row_sums(i: Instance) -> Numeric:
    return power_sums(equal_row_moments(i["spectrum"]))


def drift(m: Numeric) -> Numeric:
    """δ_F from the four traces, in any precision."""
    d, sums = len(m), power_sums(m)
    if not is_precise(np.asarray(m)):
        return float(frobenius_drift(m))
    return 2 * d**2 - 2 * sums.square - 8 * sums.cube + 8 * sums.diagonal


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value * factor, estimate.error * abs(factor), estimate.freedom, estimate.draws)


SPECTRA = {"random": spectra, "equal": equal_spectra}


CLAIMS = (
    expectation(
        "002/lem-12",
        equal(Sampled(_extrapolated), lambda i: float(frobenius_drift(i["M"]))),
        {"moments": small_moments},
        scale=_drift_size,
        counts=(5, 20),
        resolution=0.1,
    ),
    deterministic(
        "002/prop-13:cube",
        equal(lambda i: _equal_row_sums(i).cube, lambda i: (eigenvalues(equal_row_moments(i["spectrum"])) ** 3).sum()),
        SPECTRA,
    ),
    deterministic(
        "002/prop-13:frobenius",
        equal(
            lambda i: _equal_row_sums(i).square, lambda i: (eigenvalues(equal_row_moments(i["spectrum"])) ** 2).sum()
        ),
        SPECTRA,
    ),
    deterministic(
        "002/prop-13:diagonal",
        equal(lambda i: _equal_row_sums(i).square ** 2, lambda i: (i["spectrum"] ** 2).sum() ** 2 / len(i["spectrum"])),
        SPECTRA,
    ),
    deterministic(
        "002/prop-13:diagonal#corrected",
        equal(lambda i: _equal_row_sums(i).diagonal, lambda i: (i["spectrum"] ** 2).sum() ** 2 / len(i["spectrum"])),
        SPECTRA,
    ),
    deterministic(
        "002/prop-13:drift",
        equal(lambda i: drift(equal_row_moments(i["spectrum"])), lambda i: equal_row_drift(i["spectrum"])),
        SPECTRA,
        scale=lambda i: len(i["spectrum"]) ** 3,
    ),
    expectation(
        "002/ex-14:frobenius",
        below(
            Sampled(lambda i, rng: _scaled(_leading_by_norm(i, rng), 2 * i["width"])), lambda i: -float(i["width"] ** 2)
        ),
        {"widths": _widths(2, 4, 8)},
        counts=(2, 3),
    ),
    asymptotic(
        "002/ex-14:leading",
        at_most(
            Sampled(
                lambda i, rng: _growth(i, rng, _leading),
                lambda i, rng: _growth(i, rng, _leading_by_norm),
                "the change of ‖M‖_F² instead of λ₁, other draws",
            ),
            1.0,
        ),
        {"widths": lambda rng, count: iter([{"widths": [4, 16]}])},
    ),
    expectation(
        "002/ex-14:leading#intended",
        at_most(Sampled(_leading), lambda i: -float(i["width"])),
        {"widths": _widths(2, 4, 8)},
        counts=(2, 3),
    ),
    expectation(
        "002/ex-14:leading#corrected",
        equal(Sampled(_leading), lambda i: float(two_level_leading_change(i["width"]))),
        {"widths": _widths(2, 4, 8)},
        counts=(2, 3),
        resolution=0.1,
    ),
    expectation(
        "002/ex-14:small",
        above(Sampled(lambda i, rng: _scaled(_leading(i, rng), -1.0)), 0.0),
        {"widths": _widths(2, 4, 8)},
        counts=(2, 3),
    ),
    *_norm_claims(),
)
