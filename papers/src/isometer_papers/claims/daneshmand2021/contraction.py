"""003, C.3 and C.6–C.7, thesis A.3: the shares p_i, Lemma 8 and the convexity behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer.theory.batch_norm import ratio_expectation, smallest_share_bound, spectrum_map
from isometer_papers.claims._claim import Claim, Estimate, Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import Sampled, at_least, at_most, equal
from isometer_papers.claims.daneshmand2021.instances import SPECTRA, spectrum_search
from isometer_papers.claims.daneshmand2021.shares import derivative, precise_share, sides
from isometer_papers.claims.daneshmand2021.source import Source
from isometer_papers.float_or_mpmath import Numeric, is_precise, library_of
from isometer_papers.theory.orthogonality.bounds import share_contraction, spectral_gap, unit_trace
from isometer_papers.theory.orthogonality.spectrum_shares import (
    share_integrand,
    share_integrand_curvature,
    share_integrand_slope,
    slope_helper,
    slope_helper_brackets,
    two_level_share,
)


def _share(i: Instance, index: int = -1) -> float:
    return float(spectrum_map(i["squares"]).eigenvalues[index])


def _deficit(i: Instance) -> float:
    return 1 / len(i["squares"]) - _share(i)


def _inverse(i: Instance) -> Numeric:
    return (i["squares"][0] * 0 + 1) / len(i["squares"])


def _exact_deficit(bound: Callable[[Instance], Numeric]) -> Callable[[Instance], tuple[Numeric, Numeric]]:
    return lambda i: (_inverse(i) - precise_share(i["squares"]), bound(i))


def _ratio_of_smallest(i: Instance) -> float:
    return _share(i) / float(unit_trace(i["squares"])[-1])


def _bound_of_smallest(i: Instance) -> float:
    smallest = float(unit_trace(i["squares"])[-1])
    return float(two_level_share(len(i["squares"]), smallest)) / smallest


def _exact_smallest(i: Instance) -> tuple[Numeric, Numeric]:
    values = unit_trace(i["squares"])
    smallest = values[-1]
    return precise_share(values) / smallest, two_level_share(len(values), smallest) / smallest


def _points(rng: Rng, count: int) -> Iterator[Instance]:
    """δ in [0, 1/n] and θ over eight decades."""
    yield {"n": 2, "theta": 1.0, "delta": 0.25}
    yield {"n": 3, "theta": 1.0, "delta": 0.25}
    for _ in range(count):
        n = int(rng.integers(2, 33))
        delta = float(rng.choice([0.001, 0.5, 0.999, rng.uniform(0.01, 0.99)])) / n
        yield {"n": n, "theta": float(10.0 ** rng.uniform(-4, 4)), "delta": delta}


def _point_search(x: Numeric) -> Instance:
    n = 2 + int(30 * x[2])
    return {"n": n, "theta": float(10.0 ** (8 * x[0] - 4)), "delta": float((0.001 + 0.998 * x[1]) / n)}


def _pairs(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n = int(rng.integers(2, 33))
        a, b = (float(v) / n for v in rng.uniform(0, 0.999, 2))
        yield {"n": n, "deltas": [a, b]}


def _integral(n: int, delta: Numeric) -> Numeric:
    """∫ g dθ."""
    if is_precise(delta):
        smallest = library_of(delta).mpf(1) / n - delta
        return two_level_share(n, smallest) / smallest
    return smallest_share_bound(delta, n)


def _midpoint(i: Instance) -> Numeric:
    a, b = i["deltas"]
    return _integral(i["n"], (a + b) / 2)


def _chord(i: Instance) -> Numeric:
    a, b = i["deltas"]
    return (_integral(i["n"], a) + _integral(i["n"], b)) / 2


def _lifted_pairs(i: Instance) -> tuple[Numeric, Numeric]:
    high = {**i, "deltas": [mpmath().mpf(v) for v in i["deltas"]]}
    return _midpoint(high), _chord(high)


def _scaled_slope(function: Callable[..., Any]) -> Callable[[Instance], Numeric]:
    """The derivative by δ at the point of an instance."""
    return lambda i: derivative(lambda x: function(x, i["theta"], i["n"]), i["delta"])


def _thetas(rng: Rng, count: int) -> Iterator[Instance]:
    """Two θ for one δ."""
    yield {"n": 3, "theta": 1.0, "other": 2.0, "delta": 0.25}
    for i in _points(rng, count):
        yield {**i, "other": i["theta"] * float(rng.uniform(1.5, 3))}


def _printed_slope(key: str) -> Callable[[Instance], Numeric]:
    """θ h_1 h_2 at one of them."""
    return lambda i: share_integrand_slope(i["delta"], i[key], i["n"])


def _h1_slope(version: str) -> Callable[[Instance], Numeric]:
    def slope(i: Instance) -> Numeric:
        point = (i["delta"], i["theta"], i["n"])
        return i["theta"] * slope_helper(*point, steps=2) * slope_helper_brackets(*point)[version]

    return slope


def _bracket(version: str) -> Callable[[Instance], Numeric]:
    return lambda i: slope_helper_brackets(i["delta"], i["theta"], i["n"])[version]


def _numbers(rng: Rng, count: int) -> Iterator[Instance]:
    for n in range(2, min(count, 60) + 2):
        yield {"n": n}


def _flat_integral(i: Instance) -> float:
    return float(ratio_expectation(lambda t: share_integrand(0.0, -t, i["n"])).value)


def _slope_integral(i: Instance) -> float:
    n = i["n"]
    return float(ratio_expectation(lambda t: -2 * t * (1 - 2 * t / n) ** (-n / 2 - 2)).value)


def _exact_integral(slope: bool) -> Callable[[Instance], tuple[Numeric, Numeric]]:
    def exact(i: Instance) -> tuple[Numeric, Numeric]:
        library, n = mpmath(), i["n"]
        power = -library.mpf(n) / 2 - (2 if slope else 1)
        value = library.quad(
            lambda t: (2 * t if slope else 1) * (1 + 2 * t / n) ** power, [0, 1, n, 10 * n, library.inf]
        )
        return value, library.mpf(2 * n) / (n + 2) if slope else library.mpf(1)

    return exact


def _sampled_share(i: Instance, rng: Rng) -> Estimate:
    """σ_n²w_n²/Σσ_k²w_k² over Gaussian w."""
    squares = np.asarray(i["squares"])
    w = rng.standard_normal((200_000, len(squares))) ** 2 * squares
    return Estimate.of(w[:, -1] / w.sum(axis=1))


def _fractions(rng: Rng, count: int) -> Iterator[Instance]:
    """X_2 a sum of k of the m squares of X_1, or independent of X_1 with k degrees of freedom."""
    for m in range(3, min(count, 20) + 3):
        for k in (1, 2, 5):
            yield {"m": m, "k": min(k, m), "kind": "part"}
            yield {"m": m, "k": k, "kind": "independent"}


def _sawa(i: Instance) -> float:
    m, k = i["m"], i["k"]
    power = -m / 2 - 1 if i["kind"] == "part" else -m / 2
    return float(ratio_expectation(lambda t: k * (1 - 2 * t) ** power).value)


def _known_ratio(i: Instance) -> float:
    return float(i["k"] / (i["m"] if i["kind"] == "part" else i["m"] - 2))


def _exact_sawa(i: Instance) -> tuple[Numeric, Numeric]:
    library, m, k = mpmath(), i["m"], i["k"]
    power = -library.mpf(m) / 2 - (1 if i["kind"] == "part" else 0)
    value = library.quad(lambda t: k * (1 + 2 * t) ** power, [0, 1, library.inf])
    return value, library.mpf(k) / (m if i["kind"] == "part" else m - 2)


def _generating(i: Instance, rng: Rng) -> Estimate:
    squares, (first, second) = np.asarray(i["squares"]), i["thetas"]
    x = rng.standard_normal((100_000, len(squares))) ** 2 * squares
    return Estimate.of(np.exp(first * x.sum(axis=1) + second * x[:, i["index"]]))


def _generated(i: Instance) -> float:
    squares, (first, second) = np.asarray(i["squares"]), i["thetas"]
    factors = 1 - 2 * first * squares
    factors[i["index"]] -= 2 * second * squares[i["index"]]
    return float(1 / math.sqrt(factors.prod()))


GENERATING = cases(
    {"squares": np.array([0.75, 0.25]), "thetas": [-0.5, 0.25], "index": 0},
    {"squares": np.array([0.5, 0.3, 0.2]), "thetas": [-1.0, -0.5], "index": 2},
    {"squares": np.array([0.4, 0.3, 0.2, 0.1]), "thetas": [-2.0, 0.5], "index": 3},
)
SHARES = cases(
    {"squares": np.array([0.75, 0.25])},
    {"squares": np.array([0.5, 0.3, 0.2])},
    {"squares": np.array([0.97, 0.01, 0.01, 0.01])},
    {"squares": np.array([0.3, 0.3, 0.3, 0.1])},
    {"squares": np.array([0.4, 0.2, 0.1, 0.1, 0.1, 0.1])},
)


def claims(s: Source) -> tuple[Claim, ...]:
    """The claims of a paper."""
    return (
        *_lemma(s),
        *_shares(s),
        *s.expectation(
            "ratio",
            equal(_sawa, _known_ratio),
            {"chi-squares": _fractions},
            exact=_exact_sawa,
            tolerance=1e-8,
        ),
        *s.expectation(
            "ratio:generating-function",
            equal(Sampled(_generating), _generated),
            {"points": GENERATING},
            counts=(3, 3),
        ),
        *_two_levels(s),
        *_convexity(s),
    )


def _lemma(s: Source) -> tuple[Claim, ...]:
    return (
        *s.deterministic(
            "contraction",
            at_most(_deficit, lambda i: share_contraction(i["squares"])),
            SPECTRA,
            exact=_exact_deficit(lambda i: share_contraction(i["squares"])),
            search=spectrum_search(),
            scale=_inverse,
        ),
        *s.deterministic(
            "contraction:proof",
            at_most(_deficit, lambda i: share_contraction(i["squares"], sharp=True)),
            SPECTRA,
            exact=_exact_deficit(lambda i: share_contraction(i["squares"], sharp=True)),
            search=spectrum_search(),
            scale=_inverse,
        ),
        *s.deterministic(
            "contraction:below-gap",
            at_most(_deficit, lambda i: spectral_gap(i["squares"])),
            SPECTRA,
            exact=_exact_deficit(lambda i: spectral_gap(i["squares"])),
            search=spectrum_search(),
            scale=1,
        ),
    )


def _shares(s: Source) -> tuple[Claim, ...]:
    return (
        *s.deterministic(
            "shares:index",
            equal(lambda i: len(i["squares"]) * _share(i), 1),
            {"simple": SPECTRA["simple"], "random": SPECTRA["random"]},
            exact=sides(lambda p: p, lambda i: _inverse(i)),
        ),
        *s.deterministic(
            "shares:index#corrected",
            equal(lambda i: spectrum_map(i["squares"]).eigenvalues.sum(), 1),
            SPECTRA,
            exact=lambda i: (sum(precise_share(i["squares"], k) for k in range(len(i["squares"]))), 1),
        ),
        *s.expectation(
            "shares:integral",
            equal(Sampled(_sampled_share), _share),
            {"spectra": SHARES},
            counts=(3, 5),
        ),
    )


def _two_levels(s: Source) -> tuple[Claim, ...]:
    return (
        *s.deterministic(
            "two-level",
            at_least(_ratio_of_smallest, _bound_of_smallest),
            SPECTRA,
            exact=_exact_smallest,
            search=spectrum_search(),
        ),
        *(
            s.deterministic(
                "two-level:constant",
                at_most(lambda i: i["top"] * _integral(i["n"], 0 * i["top"]), 1),
                {"tops": cases(*({"n": n, "top": top} for n in (3, 2, 8) for top in (2.0, 10.0, 100.0)))},
            )
            if s.paper == "001"
            else ()
        ),
        *s.deterministic(
            "two-level:constant" + ("#corrected" if s.paper == "001" else ""),
            equal(_flat_integral, 1),
            {"samples": _numbers},
            exact=_exact_integral(False),
        ),
        *s.deterministic(
            "two-level:slope",
            equal(_slope_integral, lambda i: 2 * i["n"] / (i["n"] + 2)),
            {"samples": _numbers},
            exact=_exact_integral(True),
        ),
    )


def _convexity(s: Source) -> tuple[Claim, ...]:
    own = s.paper
    points, search = {"points": _points}, Search(_point_search, 3)
    statement = (
        s.deterministic(
            "convex",
            at_least(lambda i: share_integrand_curvature(i["delta"], i["theta"], i["n"]), 0),
            points,
            search=search,
        )
        if own == "003"
        else s.deterministic(
            "convex",
            at_most(_midpoint, _chord),
            {"pairs": _pairs},
            exact=_lifted_pairs,
        )
    )
    return (
        *statement,
        *(
            s.deterministic("convex:slope", equal(_printed_slope("theta"), _printed_slope("other")), {"pairs": _thetas})
            if own == "001"
            else ()
        ),
        *s.deterministic(
            "convex:slope" + ("#corrected" if own == "001" else ""),
            equal(_scaled_slope(share_integrand), lambda i: share_integrand_slope(i["delta"], i["theta"], i["n"])),
            points,
            scale=lambda i: abs(share_integrand_slope(i["delta"], i["theta"], i["n"])),
        ),
        *s.deterministic(
            "convex:second-slope",
            equal(_scaled_slope(slope_helper), _h1_slope("printed")),
            points,
        ),
        *s.deterministic(
            "convex:second-slope#corrected",
            equal(_scaled_slope(slope_helper), _h1_slope("true")),
            points,
            scale=lambda i: abs(_h1_slope("true")(i)) + abs(_h1_slope("printed")(i)),
        ),
        *s.deterministic(
            "convex:expansion",
            equal(_bracket("printed"), _bracket(own)),
            points,
        ),
        *(
            s.deterministic(
                "convex:expansion#corrected",
                equal(_bracket("printed"), _bracket("001")),
                points,
            )
            if own == "003"
            else ()
        ),
        *s.deterministic(
            "convex:sign",
            at_least(_bracket(own), 0),
            points,
            search=search,
        ),
    )
