"""003, §5.2 and Appendix E, thesis 2.4.2 and A.4: iterative orthogonalisation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isometer_papers.claims._claim import Claim, Instance, Search
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import above, at_most, below, equal, vanishes
from isometer_papers.claims.daneshmand2021.source import Source
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.orthogonality.bounds import gap_of
from isometer_papers.theory.orthogonality.iterative_gap import (
    cauchy_steps,
    gap_after,
    gap_after_squared,
    gap_before,
    key_inequality,
    sliced_output,
)

HALVES = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0], [1.0, -1.0]]) / 2


def _frames(rng: Rng, count: int) -> Iterator[Instance]:
    """V with orthonormal columns, n ≥ d, and singular values."""
    yield {"V": HALVES, "sigma": np.ones(2)}
    for _ in range(count):
        d = int(rng.integers(2, 6))
        n = int(rng.integers(d, 4 * d + 1))
        yield {"V": np.linalg.qr(rng.standard_normal((n, d)))[0], "sigma": 10.0 ** rng.uniform(-2, 0, d)}


def _spectra(rng: Rng, count: int) -> Iterator[Instance]:
    """Singular values of full rank for n = d samples."""
    yield {"sigma": np.array([0.8, 0.6]), "n": 2}
    for _ in range(count):
        d = int(rng.integers(2, 9))
        yield {"sigma": 10.0 ** rng.uniform(-float(rng.choice([0.1, 1, 3])), 0, d), "n": d}


def _long_batches(rng: Rng, count: int) -> Iterator[Instance]:
    """More samples than features too, equal singular values among them."""
    yield {"sigma": np.array([1.0, 1.0]), "n": 4}
    yield {"sigma": np.array([0.8, 0.6]), "n": 2}
    for _ in range(count):
        d = int(rng.integers(2, 9))
        yield {"sigma": 10.0 ** rng.uniform(-2, 0, d), "n": int(rng.integers(d, 4 * d + 1))}


def _sigma_search(x: Numeric) -> Instance:
    return {"sigma": np.exp(-5.0 * np.asarray(x)), "n": 3}


SEARCH = Search(_sigma_search, 3)


def _product(i: Instance) -> Numeric:
    """Largest entry of V′V′ᵀ − I."""
    d = i["V"].shape[1]
    part = i["V"][:d]
    return abs(part @ part.T - np.eye(d, dtype=int)).max()


def _before(i: Instance) -> Numeric:
    square = gap_before(i["sigma"], i["n"])
    return (square if square > 0 else square * 0) ** 0.5


def _not_zero(i: Instance) -> bool:
    """V(H) ≠ 0, beyond rounding."""
    return float(_before(i)) > 1e-6


def _unequal(i: Instance) -> bool:
    sigma = np.asarray(i["sigma"], dtype=float)
    return bool(sigma.max() > sigma.min() * (1 + 1e-6))


def _least_gap(i: Instance) -> Numeric:
    """√(1/d − 1/n): the gap of n ≥ d samples in d features is never smaller."""
    n, d = i["V"].shape
    one = i["V"][0, 0] * 0 + 1
    return (one / d - one / n) ** 0.5


def _parts(s: Source) -> tuple[str, str]:
    return ("eq-17", "eq-18") if s.paper == "003" else ("eq-A.19", "eq-A.20")


def claims(s: Source) -> tuple[Claim, ...]:
    """The claims of a paper."""
    return (*_algorithm(s), *_gaps(s), *_chain(s))


def _algorithm(s: Source) -> tuple[Claim, ...]:
    return (
        *s.deterministic(
            "algorithm:slice",
            vanishes(_product),
            {"frames": _frames},
        ),
        *s.deterministic(
            "algorithm:slice#corrected",
            vanishes(_product),
            {"frames": _frames},
            hypotheses=lambda i: i["V"].shape[0] == i["V"].shape[1],
        ),
        *s.deterministic(
            "algorithm:gap",
            below(lambda i: gap_of(sliced_output(i["V"], i["sigma"])), lambda i: gap_of(i["V"] * i["sigma"])),
            {"frames": _frames},
        ),
        *s.deterministic(
            "algorithm:gap#corrected",
            below(lambda i: gap_after(i["sigma"], i["n"]), _before),
            {"batches": _long_batches},
            search=SEARCH,
            hypotheses=_unequal,
            tolerance=0.0,
        ),
        *s.deterministic(
            "convolution-figure:orthogonal",
            equal(lambda i: gap_of(sliced_output(i["V"], i["sigma"])), _least_gap),
            {"frames": _frames},
            scale=1,
        ),
        *s.deterministic(
            "convolution-figure:orthogonal#corrected",
            equal(lambda i: gap_of(i["V"]), _least_gap),
            {"frames": _frames},
            scale=1,
        ),
    )


def _gaps(s: Source) -> tuple[Claim, ...]:
    return (
        *s.deterministic(
            f"iterative:{_parts(s)[0]}",
            below(lambda i: gap_after(i["sigma"], i["n"]), _before),
            {"spectra": _spectra},
            search=SEARCH,
            hypotheses=_not_zero,
            tolerance=0.0,
        ),
        *s.deterministic(
            f"iterative:{_parts(s)[1]}",
            equal(_before, lambda i: gap_before(i["sigma"], i["n"])),
            {"spectra": _spectra},
            scale=1,
        ),
        *s.deterministic(
            f"iterative:{_parts(s)[1]}#corrected",
            equal(lambda i: gap_of(np.diag(i["sigma"])) ** 2, lambda i: gap_before(i["sigma"], i["n"])),
            {"spectra": _spectra},
            scale=1,
        ),
        *s.deterministic(
            "iterative:after",
            equal(lambda i: gap_of(np.diag(i["sigma"] ** 0.5)), lambda i: gap_after_squared(i["sigma"], i["n"])),
            {"spectra": _spectra},
            scale=1,
        ),
        *s.deterministic(
            "iterative:after#corrected",
            equal(lambda i: gap_of(np.diag(i["sigma"] ** 0.5)) ** 2, lambda i: gap_after_squared(i["sigma"], i["n"])),
            {"spectra": _spectra},
            scale=1,
        ),
    )


def _chain(s: Source) -> tuple[Claim, ...]:
    return (
        *s.deterministic(
            "iterative:key",
            above(lambda i: key_inequality(i["sigma"]), 1),
            {"spectra": _spectra},
            search=SEARCH,
            hypotheses=_unequal,
            tolerance=0.0,
        ),
        *s.deterministic(
            "iterative:cauchy",
            at_most(lambda i: cauchy_steps(i["sigma"])["start"], lambda i: cauchy_steps(i["sigma"])["middle"]),
            {"spectra": _spectra},
            search=SEARCH,
        ),
        *s.deterministic(
            "iterative:cauchy-last",
            at_most(lambda i: cauchy_steps(i["sigma"])["middle"], lambda i: cauchy_steps(i["sigma"])[s.paper]),
            {"spectra": _spectra},
            search=SEARCH,
        ),
        *(
            s.deterministic(
                "iterative:cauchy-last#corrected",
                at_most(lambda i: cauchy_steps(i["sigma"])["middle"], lambda i: cauchy_steps(i["sigma"])["001"]),
                {"spectra": _spectra},
                search=SEARCH,
            )
            if s.paper == "003"
            else ()
        ),
    )
