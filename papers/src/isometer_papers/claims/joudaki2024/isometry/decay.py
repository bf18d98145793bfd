"""001, Lemma C.8, eq. C.48 and C.64 to C.75: how fast the gap decays, by the exact expectation of one layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.theory.batch_norm import isometry_gap_step
from isometer_papers.claims._claim import Claim, Instance, always
from isometer_papers.claims._families import Family, Rng
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
from isometer_papers.float_or_mpmath import exp
from isometer_papers.theory.isometry import (
    decay_time,
    deviation_root,
    gap_step_bound,
    normalized_rows,
    spectrum_gap,
    variance_step_bound,
)


def gap(i: Instance) -> Any:
    """ψ."""
    return spectrum_gap(i["spectrum"])


def size(i: Instance) -> int:
    """d."""
    return len(i["spectrum"])


def deviation(i: Instance) -> Any:
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


def _rate(i: Instance) -> Any:
    """1 − min(1/(2d²), 1/(32d³ψ₀))."""
    d = size(i)
    return 1 - min(1 / (2 * d**2), 1 / (32 * d**3 * i["start"])) if i["start"] > 0 else 1 - 1 / (2 * d**2)


def _decaying(i: Instance) -> Any:
    return exp(-1 / (decay_time(i["start"], size(i)) + 0 * i["start"]))


def _times(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        d = int(rng.integers(1, 50))
        yield {"d": d, "gap": float(10.0 ** rng.uniform(-4, 2)) / d}


BOTH = {**SPECTRA, "near": near_spectra}


def one_step(part: str, place: str, statement: str, bound: Any, **rest: Any) -> Claim:
    """A bound of what one layer does to the expected gap."""
    rest = {"search": search_spectrum(3), "counts": (60, 600), **rest}
    condition = rest.pop("hypotheses", always)
    return expectation(
        f"001/{part}",
        place,
        statement,
        at_least(lambda i: step(i) / float(bound(i)), 1),
        rest.pop("families", BOTH),
        exact=lambda i: (exact_gap_step(i["spectrum"]) / bound(i), 1),
        hypotheses=lambda i: apart(i) and condition(i),
        scope="what the layer takes off the gap over what the bound does, the expectation by its integral; "
        "Σ(λ−1)² > 1e-6",
        **rest,
    )


def implied(part: str, place: str, statement: str, compared: Comparison, **rest: Any) -> Claim:
    """A deterministic statement about spectra."""
    rest = {"search": search_spectrum(3), **rest}
    return deterministic(f"001/{part}", place, statement, compared, rest.pop("families", BOTH), **rest)


CLAIMS = (
    implied(
        "lem-C.8",
        "Lemma C.8",
        "ψ(X) ≤ c/(16d) ⇒ the eigenvalues of XᵀX are within [1 − c, 1 + c]",
        at_most(deviation, lambda i: i["c"]),
        families={"edge": _at_edge},
        hypotheses=_within,
        search=None,
        corrected="001/lem-C.8#corrected",
        scope="max|λ − 1| for eigenvalues that sum to d; without that X = 2I contradicts it for every c < 3",
        remark="|λ − 1| is of order √c, so that it fails for c < 1/16 at d = 2 and below about 0.136 at any d",
    ),
    implied(
        "lem-C.8#corrected",
        "Lemma C.8",
        "ψ(X) ≤ c/(16d), Σλ = d ⇒ |λ − 1| ≤ c/24 + √(c²/576 + c/8)",
        at_most(deviation, lambda i: deviation_root(i["c"])),
        families={"edge": _at_edge},
        hypotheses=_within,
        search=None,
        remark="at most √c/2 for c ≤ 1",
    ),
    one_step(
        "eq-C.48",
        "eq. C.48",
        "E ψ(X^{ℓ+1}) ≤ ψ(X^ℓ) − σ_λ(X^ℓ)/(2d²)",
        lambda i: variance_step_bound(i["spectrum"]),
        remark="stronger than Corollary C.6, from which it is said to follow; the exact fall is at least twice this",
    ),
    implied(
        "eq-C.48:from-cor-C.6",
        "eq. C.48",
        "log(1 − Σ(λ_k−1)²/(2d²(d+2))) ≤ −σ_λ/(2d²), by which C.48 follows from Corollary C.6",
        at_most(lambda i: gap_step_bound(i["spectrum"]), lambda i: variance_step_bound(i["spectrum"])),
        corrected="001/eq-C.48:from-cor-C.6#corrected",
        remark="the text takes 1/(d(d+2)) for 1/d², which is larger",
    ),
    implied(
        "eq-C.48:from-cor-C.6#corrected",
        "eq. C.48",
        "log(1 − Σ(λ_k−1)²/(2d²(d+2))) ≤ −σ_λ/(2d(d+2))",
        at_most(lambda i: variance_step_bound(i["spectrum"], shifted=True) / gap_step_bound(i["spectrum"]), 1),
        hypotheses=apart,
        scope="ratio of both sides; Σ(λ−1)² > 1e-6",
    ),
    deterministic(
        "001/eq-C.67-75:monotone",
        "proof of Theorem 6.1",
        "ψ(X^{ℓ+1}) ≤ ψ(X^ℓ) for every layer",
        at_most(lambda i: layer_gap(normalized_rows(i["W"] @ i["X"])), lambda i: layer_gap(i["X"])),
        MATRICES,
        scale=1,
        search=search_matrix(2),
    ),
    expectation(
        "001/eq-C.67-75:eq-C.66",
        "eq. C.64 to C.66",
        "ψ(X^ℓ) > 1/(16d) ⇒ E ψ(X^{ℓ+1}) ≤ (1 − 1/(32d³ψ(X⁰))) ψ(X^ℓ)",
        at_most(_kept, lambda i: 1 - 1 / (32 * size(i) ** 3 * i["start"])),
        STARTED,
        hypotheses=is_far,
        exact=_exact_kept(lambda i: 1 - 1 / (32 * size(i) ** 3 * i["start"])),
        counts=(60, 600),
        scope="both sides over ψ(X^ℓ); ψ(X⁰) ≥ ψ(X^ℓ)",
    ),
    expectation(
        "001/eq-C.67-75:eq-C.71",
        "eq. C.67 to C.72",
        "E ψ(X^{ℓ+1}) ≤ (1 − min(1/(2d²), 1/(32d³ψ(X⁰)))) ψ(X^ℓ)",
        at_most(_kept, _rate),
        NEAR_STARTED,
        hypotheses=apart,
        exact=_exact_kept(_rate),
        counts=(60, 600),
        scope="both sides over ψ(X^ℓ); ψ(X⁰) ≥ ψ(X^ℓ)",
    ),
    deterministic(
        "001/eq-C.67-75:eq-C.73",
        "eq. C.73",
        "1 − 1/k ≤ e^{−1/k}, k = max(2d², 32d³ψ(X⁰))",
        at_most(
            lambda i: 1 - 1 / (decay_time(i["gap"], i["d"]) + 0 * i["gap"]),
            lambda i: exp(-1 / (decay_time(i["gap"], i["d"]) + 0 * i["gap"])),
        ),
        {"times": _times},
    ),
    expectation(
        "001/eq-C.67-75:eq-C.74",
        "eq. C.74",
        "E ψ(X^{ℓ+1}) ≤ e^{−1/k} ψ(X^ℓ), k = max(2d², 32d³ψ(X⁰))",
        at_most(_kept, _decaying),
        NEAR_STARTED,
        hypotheses=apart,
        exact=_exact_kept(_decaying),
        counts=(60, 600),
        scope="both sides over ψ(X^ℓ); ψ(X⁰) ≥ ψ(X^ℓ)",
        remark="k = 0.73 d(1 + dψ(X^ℓ)) was enough everywhere, a power of d less",
    ),
    deterministic(
        "001/eq-C.67-75:time",
        "under eq. C.75",
        "max(2d², 32d³ψ(X⁰)) ≤ 2d²(1 + 16dψ(X⁰))",
        at_most(lambda i: decay_time(i["gap"], i["d"]), lambda i: 2 * i["d"] ** 2 * (1 + 16 * i["d"] * i["gap"])),
        {"times": _times},
    ),
)
