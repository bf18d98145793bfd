"""001, Lemma C.8, eq. C.48 and C.64 to C.75: how fast the gap decays, by the exact expectation of one layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.theory.batch_norm import isometry_gap_step
from isometer_papers.claims._claim import Claim, Instance, always
from isometer_papers.claims._families import Family, Rng, cases
from isometer_papers.claims._statements import Comparison, at_least, at_most, deterministic, expectation
from isometer_papers.claims.joudaki2024.isometry.instances import (
    MATRICES,
    SPECTRA,
    apart,
    exact_gap_step,
    excess,
    is_far,
    layer_gap,
    near_spectra,
    random_spectra,
    search_matrix,
    search_spectrum,
    small_spectra,
    with_gap,
)
from isometer_papers.float_or_mpmath import Numeric, exp
from isometer_papers.theory.isometry import (
    decay_time,
    deviation_root,
    gap_step_bound,
    normalized_rows,
    spectrum_gap,
    variance_step_bound,
)


def gap(i: Instance) -> Numeric:
    """ψ."""
    return spectrum_gap(i["spectrum"])


def size(i: Instance) -> int:
    """d."""
    return len(i["spectrum"])


def deviation(i: Instance) -> Numeric:
    """max|λ − 1|."""
    return abs(excess(i)).max()


def step(i: Instance) -> float:
    """E ψ(X^{ℓ+1}) − ψ(X^ℓ)."""
    return isometry_gap_step(i["spectrum"]).value


def _kept(i: Instance) -> float:
    """E ψ(X^{ℓ+1})/ψ(X^ℓ)."""
    return 1 + step(i) / float(gap(i))


def _exact_kept(bound: Any) -> Any:
    """The same and its bound, in mpmath."""
    return lambda i: (1 + exact_gap_step(i["spectrum"]) / gap(i), bound(i))


def _at_edge(rng: Rng, count: int) -> Iterator[Instance]:
    """Eigenvalues and a c with ψ ≤ c/(16d), often nearly equal."""
    yield {"spectrum": np.array([1.01, 0.99]), "c": 0.002}
    yield {"spectrum": np.array([1.1, 0.9]), "c": 1.0}
    for _ in range(count):
        d = int(rng.integers(2, 30))
        c = float(10.0 ** rng.uniform(-4, 1))
        direction = rng.standard_normal(d) if rng.integers(2) else rng.choice([-1.0, 1.0]) * np.eye(d)[0]
        yield {"spectrum": with_gap(direction, c * rng.choice([1.0, rng.uniform()]) / (16 * d)), "c": c}


def _within(i: Instance) -> bool:
    return bool(16 * size(i) * gap(i) <= i["c"] * (1 + 1e-12))


def _with_start(family: Family) -> Family:
    """The gap of the input at least that of the layer."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for i in family(rng, count):
            factor = float(rng.choice([1.0, 1.0 + rng.exponential()]))
            yield {**i, "start": float(gap(i)) * factor}

    return generator


STARTED = {"small": _with_start(small_spectra), "random": _with_start(random_spectra)}


NEAR_STARTED = {**STARTED, "near": _with_start(near_spectra)}


def _rate(i: Instance) -> Numeric:
    """1 − min(1/(2d²), 1/(32d³ψ₀))."""
    d = size(i)
    return 1 - min(1 / (2 * d**2), 1 / (32 * d**3 * i["start"])) if i["start"] > 0 else 1 - 1 / (2 * d**2)


def _decaying(i: Instance) -> Numeric:
    return exp(-1 / (decay_time(i["start"], size(i)) + 0 * i["start"]))


def _times(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        d = int(rng.integers(1, 50))
        yield {"d": d, "gap": float(10.0 ** rng.uniform(-4, 2)) / d}


BOTH = {**SPECTRA, "near": near_spectra}


def one_step(part: str, bound: Any, **rest: Any) -> Claim:
    """A bound of what one layer does to the expected gap."""
    rest = {"search": search_spectrum(3), "counts": (60, 600), **rest}
    condition = rest.pop("hypotheses", always)
    return expectation(
        f"001/{part}",
        at_least(lambda i: step(i) / float(bound(i)), 1),
        rest.pop("families", BOTH),
        exact=lambda i: (exact_gap_step(i["spectrum"]) / bound(i), 1),
        hypotheses=lambda i: apart(i) and condition(i),
        **rest,
    )


def implied(part: str, compared: Comparison, **rest: Any) -> Claim:
    """A deterministic statement about spectra."""
    rest = {"search": search_spectrum(3), **rest}
    return deterministic(f"001/{part}", compared, rest.pop("families", BOTH), **rest)


CLAIMS = (
    implied(
        "lem-C.8", at_most(deviation, lambda i: i["c"]), families={"edge": _at_edge}, hypotheses=_within, search=None
    ),
    implied(
        "lem-C.8#corrected",
        at_most(deviation, lambda i: deviation_root(i["c"])),
        families={"edge": _at_edge},
        hypotheses=_within,
        search=None,
    ),
    one_step("eq-C.48", lambda i: variance_step_bound(i["spectrum"])),
    implied(
        "eq-C.48:input",
        at_most(lambda i: 0 * i["spectrum"][0], lambda i: gap(i) + variance_step_bound(i["spectrum"])),
        families={"inputs": cases({"spectrum": np.array([6.0, 2.0])}, {"spectrum": np.array([4.0, 4.0, 4.0])})},
        search=None,
    ),
    implied(
        "eq-C.48:from-cor-C.6",
        at_most(lambda i: gap_step_bound(i["spectrum"]), lambda i: variance_step_bound(i["spectrum"])),
    ),
    implied(
        "eq-C.48:from-cor-C.6#corrected",
        at_most(lambda i: variance_step_bound(i["spectrum"], shifted=True) / gap_step_bound(i["spectrum"]), 1),
        hypotheses=apart,
    ),
    deterministic(
        "001/eq-C.67-75:monotone",
        at_most(lambda i: layer_gap(normalized_rows(i["W"] @ i["X"])), lambda i: layer_gap(i["X"])),
        MATRICES,
        scale=1,
        search=search_matrix(2),
    ),
    expectation(
        "001/eq-C.67-75:eq-C.66",
        at_most(_kept, lambda i: 1 - 1 / (32 * size(i) ** 3 * i["start"])),
        STARTED,
        hypotheses=is_far,
        exact=_exact_kept(lambda i: 1 - 1 / (32 * size(i) ** 3 * i["start"])),
        counts=(60, 600),
    ),
    expectation(
        "001/eq-C.67-75:eq-C.71",
        at_most(_kept, _rate),
        NEAR_STARTED,
        hypotheses=apart,
        exact=_exact_kept(_rate),
        counts=(60, 600),
    ),
    deterministic(
        "001/eq-C.67-75:eq-C.73",
        at_most(
            lambda i: 1 - 1 / (decay_time(i["gap"], i["d"]) + 0 * i["gap"]),
            lambda i: exp(-1 / (decay_time(i["gap"], i["d"]) + 0 * i["gap"])),
        ),
        {"times": _times},
    ),
    expectation(
        "001/eq-C.67-75:eq-C.74",
        at_most(_kept, _decaying),
        NEAR_STARTED,
        hypotheses=apart,
        exact=_exact_kept(_decaying),
        counts=(60, 600),
    ),
    deterministic(
        "001/eq-C.67-75:time",
        at_most(lambda i: decay_time(i["gap"], i["d"]), lambda i: 2 * i["d"] ** 2 * (1 + 16 * i["d"] * i["gap"])),
        {"times": _times},
    ),
)
