"""003, B.1 and C.1–C.5, thesis A.2–A.3: one layer at finite width."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer.theory.batch_norm import spectrum_map
from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import Sampled, at_least, at_most, equal, vanishes
from isometer_papers.claims.daneshmand2021.chains import spectra_along, squares_of
from isometer_papers.claims.daneshmand2021.instances import SPECTRA, batches, widths
from isometer_papers.claims.daneshmand2021.shares import precise_share
from isometer_papers.claims.daneshmand2021.source import Source
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.orthogonality_steps import gram_statistics
from isometer_papers.theory.orthogonality.bounds import (
    averaged_drift_bound,
    gram_spread,
    lyapunov_drift_bound,
    lyapunov_of,
    orthogonal_spread,
    spectral_gap,
    unit_features,
)

DRAWS = 3000
LAYERS = cases(
    {"squares": np.array([0.5, 0.5]), "width": 4},
    {"squares": np.array([0.5, 0.5]), "width": 1024},
    {"squares": np.array([0.9, 0.1]), "width": 256},
    {"squares": np.array([0.25, 0.25, 0.25, 0.25]), "width": 16},
    {"squares": np.array([0.97, 0.01, 0.01, 0.01]), "width": 512},
    {"squares": np.array([0.3, 0.3, 0.3, 0.1]), "width": 64},
    {"squares": np.array([1 - 3e-6, 1e-6, 1e-6, 1e-6]), "width": 64},
    {"squares": np.full(8, 0.125), "width": 8},
    {"squares": np.full(8, 0.125), "width": 256},
    {"squares": np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05]), "width": 128},
    {"squares": np.full(16, 1 / 16), "width": 256},
    {"squares": np.array([0.9, 0.1]), "width": 4096},
)
COUNTS = (9, 12)


def _draws(i: Instance) -> int:
    return max(200, min(DRAWS, 3_000_000 // (int(i["width"]) * len(i["squares"]))))


def lyapunov_of_grams(c: Numeric) -> Numeric:
    """V̂ of Gram matrices of trace 1."""
    return 1 / c.shape[-1] - np.linalg.eigvalsh(c)[..., 0]


def _next(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(gram_statistics(i["squares"], i["width"], lyapunov_of_grams, draws=_draws(i), rng=rng))


def _deviation(i: Instance, rng: Rng) -> Estimate:
    """(V̂(H_{ℓ+1}) − (1/n − p_n))²."""
    n = len(i["squares"])
    expected = 1 / n - float(spectrum_map(i["squares"]).eigenvalues[-1])
    # squares of deviations have heavy tails: twice the draws of a mean
    found = gram_statistics(i["squares"], i["width"], lyapunov_of_grams, draws=2 * _draws(i), rng=rng)
    return Estimate.of((found - expected) ** 2)


def _drift(inside: Callable[[Any], Any]) -> Callable[[Instance], float]:
    def bound(i: Instance) -> float:
        squares = i["squares"]
        return float(lyapunov_drift_bound(lyapunov_of(squares), inside(squares), len(squares), i["width"]))

    return bound


def _entry(i: Instance, rng: Rng) -> Estimate:
    """[C]_nn."""
    draws = 2 * _draws(i)
    return Estimate.of(gram_statistics(i["squares"], i["width"], lambda c: c[..., -1, -1], draws=draws, rng=rng))


def _turned(rng: Rng, count: int) -> Iterator[Instance]:
    """Squared singular values of a batch, and its right singular vectors V."""
    yield {"squares": np.array([0.75, 0.25]), "V": np.array([[0.6, -0.8], [0.8, 0.6]])}
    for instance in SPECTRA["simple"](rng, count):
        n = len(instance["squares"])
        yield {**instance, "V": np.linalg.qr(rng.standard_normal((n, n)))[0]}


def _mean_gap(i: Instance, shares: Numeric) -> Numeric:
    """Largest entry of E C − diag(p), E C = V diag(p) Vᵀ in the samples' own basis."""
    return abs((i["V"] * shares) @ i["V"].T - np.diag(shares)).max()


def _exact_mean_gap(i: Instance) -> tuple[Numeric, Numeric]:
    squares = i["squares"]
    return _mean_gap(i, np.array([precise_share(squares, k) for k in range(len(squares))], dtype=object)), 0


def _spread(i: Instance) -> Numeric:
    return gram_spread(spectrum_map(i["squares"]).eigenvalues, i["width"])


def _exact_spread(i: Instance) -> tuple[Numeric, Numeric]:
    squares, one = i["squares"], i["squares"][0] * 0 + 1
    shares = np.array([precise_share(squares, k) for k in range(len(squares))], dtype=object)
    return gram_spread(shares, i["width"]), one / i["width"]


def _off_diagonal(i: Instance, rng: Rng) -> Estimate:
    """Σ_{i≠j} [C]_ij² after an orthogonal batch."""
    n = i["samples"]
    away = 1 - np.eye(n)
    squares = np.full(n, 1 / n)
    found = gram_statistics(squares, i["width"], lambda c: ((c * away) ** 2).sum((-2, -1)), draws=20_000, rng=rng)
    return Estimate.of(found)


ORTHOGONAL = cases(*({"samples": n, "width": d} for n, d in ((2, 2), (2, 8), (4, 16), (8, 32))))
PAIRS = cases(*({"width": float(d)} for d in (2, 4, 16, 100)))


def _unit_rows(rng: Rng, count: int) -> Iterator[Instance]:
    """A: d × n with rows of length 1."""
    yield {"A": np.eye(2)}
    for _ in range(count):
        n = int(rng.integers(2, 6))
        a = rng.standard_normal((int(rng.integers(n, 9)), n))
        yield {"A": a / np.linalg.norm(a, axis=1, keepdims=True)}


def _exact_off_diagonal(i: Instance) -> Numeric:
    """Σ_{i≠j} E[C]_ij² after an orthogonal batch."""
    return orthogonal_spread(i["A"].shape[1], i["A"][0, 0] * 0 + len(i["A"])).off_diagonal


def _off_diagonal_as_printed(i: Instance) -> Numeric:
    """(1/d²)(Σ_k (Σ_i A_ki²)² − Σ_ik A_ki⁴) of one draw."""
    squares = i["A"] ** 2
    return ((squares.sum(axis=1) ** 2).sum() - (squares**2).sum()) / len(i["A"]) ** 2


def _last_line(i: Instance, paper: str) -> Numeric:
    a = i["A"]
    total = (a[0] ** 2).sum() if paper == "003" else sum(a[k, k] ** 2 for k in range(a.shape[1]))
    return total**2 / len(a) ** 2


def _symmetric_pairs(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"A": np.diag([1.0, 2.0]), "B": np.diag([1.0, 1.0])}
    for _ in range(count):
        n = int(rng.integers(1, 6))
        a, b = rng.standard_normal((2, n, n))
        yield {"A": a + a.T, "B": b + b.T + float(rng.integers(2)) * (a + a.T)}


def _eigenvalue_gap(i: Instance) -> Numeric:
    return abs(eigenvalues(i["A"])[0] - eigenvalues(i["B"])[0])


def _distance(i: Instance) -> Numeric:
    return ((i["A"] - i["B"]) ** 2).sum() ** 0.5


def _factored(rng: Rng, count: int) -> Iterator[Instance]:
    """H = [I; 0] diag(σ) Vᵀ and weights."""
    yield {"sigma": np.array([2.0, 1.0]), "V": np.array([[0.6, -0.8], [0.8, 0.6]]), "W": np.array([[1.0, 1], [1, -1]])}
    for _ in range(count):
        n = int(rng.integers(2, 5))
        d = int(rng.integers(n, 7))
        v = np.linalg.qr(rng.standard_normal((n, n)))[0]
        yield {"sigma": rng.uniform(0.1, 1, n), "V": v, "W": rng.standard_normal((d, d))}


def _after(i: Instance) -> tuple[Numeric, Numeric]:
    """H_{ℓ+1}ᵀH_{ℓ+1}, and the average of the (w ⊙ σ/‖w ⊙ σ‖)^{⊗2}."""
    n, d = len(i["sigma"]), len(i["W"])
    rows = i["W"][:, :n] * i["sigma"]
    mixed = unit_features((rows @ i["V"].T).T)
    plain = unit_features(rows.T)
    return mixed @ mixed.T / d, plain @ plain.T / d


def _literal(i: Instance) -> Numeric:
    left, right = _after(i)
    return abs(left - right).max()


def _conjugated(i: Instance) -> Numeric:
    left, right = _after(i)
    return abs(left - i["V"] @ right @ i["V"].T).max()


def _variances(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"U": np.eye(2)}
    for _ in range(min(count, 20)):
        d = int(rng.integers(2, 7))
        yield {"U": np.linalg.qr(rng.standard_normal((d, d)))[0]}


def _variance_gap(i: Instance, times: bool) -> Numeric:
    """Largest |Var(W_ℓU)_ij − 1|, entries of W_ℓ of variance 1/d; or of the same times d."""
    d = len(i["U"])
    return abs((i["U"] ** 2).sum(axis=0) * (d if times else 1) / (i["U"][0, 0] * 0 + d) - 1).max()


def _two_ways(i: Instance, rng: Rng) -> Estimate:
    """Mean V̂ of the next layer: dense weights minus the reduction to singular values."""
    h = np.asarray(i["H"])
    d = h.shape[1]
    weights = rng.standard_normal((8000, d, d)) / math.sqrt(d)
    out = h @ np.swapaxes(weights, 1, 2)
    out /= np.linalg.norm(out, axis=1, keepdims=True)
    dense = lyapunov_of_grams(out @ np.swapaxes(out, 1, 2) / d)
    squares = np.linalg.svd(h, compute_uv=False) ** 2
    reduced = gram_statistics(squares, d, lyapunov_of_grams, draws=8000, rng=rng)
    return Estimate.of(dense - reduced)


def _average(i: Instance, rng: Rng) -> Estimate:
    values = spectra_along(squares_of(i), i["width"], i["layers"], 24)
    n = values.shape[-1]
    lyapunov = 1 / n - values[..., 0]
    return Estimate.of((lyapunov * (1 / n - lyapunov)).mean(axis=1))


def _average_bound(i: Instance) -> float:
    return float(averaged_drift_bound(lyapunov_of(i["squares"]), i["layers"], i["width"]))


AVERAGES = cases(
    {"squares": np.array([0.99, 0.01]), "width": 4096, "layers": 60},
    {"squares": np.array([0.5, 0.5]), "width": 4, "layers": 1},
    {"squares": np.array([0.999, 0.001]), "width": 64, "layers": 10},
    {"squares": np.full(4, 0.25), "width": 16, "layers": 5},
    {"squares": np.array([0.7, 0.1, 0.1, 0.1]), "width": 1024, "layers": 30},
    {"squares": np.full(8, 0.125), "width": 8, "layers": 40},
)


def claims(s: Source) -> tuple[Claim, ...]:
    """The claims of a paper."""
    return (*_theorem(s), *_averages(s), *_reduction(s), *_concentration(s), *_smallest(s))


def _theorem(s: Source) -> tuple[Claim, ...]:
    return (
        *s.expectation(
            "drift",
            at_most(Sampled(_next), _drift(lyapunov_of)),
            {"layers": LAYERS},
            counts=COUNTS,
        ),
        *s.expectation(
            "drift-gap",
            at_most(Sampled(_next), _drift(spectral_gap)),
            {"layers": LAYERS},
            counts=COUNTS,
        ),
        *s.expectation(
            "drift-lyapunov",
            at_most(Sampled(_next), _drift(lyapunov_of)),
            {"layers": LAYERS},
            counts=COUNTS,
        ),
    )


def _long_input_bound(i: Instance) -> Numeric:
    """3V̂(H_0)/2 + 3/(2√d), one layer; the left side, a mean of V̂(1/n − V̂) with 0 ≤ V̂ ≤ 1/n, is never below 0."""
    n, d = i["H"].shape
    one = i["H"][0, 0] * 0 + 1
    return averaged_drift_bound(one / n - eigenvalues(i["H"] @ i["H"].T)[0], 1, one * d)


def _averages(s: Source) -> tuple[Claim, ...]:
    return (
        *s.expectation(
            "average",
            at_most(Sampled(_average), _average_bound),
            {"chains": AVERAGES},
            trivial=lambda i: 1 / (4 * len(i["squares"]) ** 2),
            counts=(6, 6),
            resolution=0.2,
        ),
        *s.deterministic(
            "average:input",
            at_most(lambda i: i["H"][0, 0] * 0, _long_input_bound),
            {"long": cases({"H": 5 * np.eye(2)}, {"H": np.array([[3.0, 0.0, 0.0], [0.0, 2.0, 1.0]])})},
        ),
        *s.deterministic(
            "average:input#corrected",
            at_least(lambda i: averaged_drift_bound(lyapunov_of(i["squares"]), 1, 100), 0),
            {**SPECTRA},
        ),
    )


def _reduction(s: Source) -> tuple[Claim, ...]:
    return (
        *s.deterministic(
            "reduction:average",
            vanishes(_literal),
            {"factored": _factored},
        ),
        *s.deterministic(
            "reduction:average#corrected",
            vanishes(_conjugated),
            {"factored": _factored},
        ),
        *s.deterministic(
            "reduction:standard",
            vanishes(lambda i: _variance_gap(i, False)),
            {"rotations": _variances},
        ),
        *s.deterministic(
            "reduction:standard#corrected",
            vanishes(lambda i: _variance_gap(i, True)),
            {"rotations": _variances},
        ),
        *s.expectation(
            "reduction:law",
            equal(Sampled(_two_ways), 0.0),
            {"batches": batches},
            scale=lambda i: 1 / len(i["H"]),
            hypotheses=lambda i: len(i["H"]) > 1,
            counts=(8, 12),
        ),
    )


def _concentration(s: Source) -> tuple[Claim, ...]:
    squares = s.paper == "001"
    return (
        *s.expectation(
            "concentration",
            at_most(_spread, lambda i: 1 / i["width"]),
            {name: widths(family, 2, 8, 32, 512) for name, family in SPECTRA.items()},
            exact=_exact_spread,
            counts=(60, 400),
        ),
        *s.deterministic(
            "concentration:mean",
            vanishes(lambda i: _mean_gap(i, spectrum_map(i["squares"]).eigenvalues)),
            {"turned": _turned},
            exact=_exact_mean_gap,
        ),
        *s.expectation(
            "concentration:mean#corrected",
            equal(Sampled(_entry), lambda i: float(spectrum_map(i["squares"]).eigenvalues[-1])),
            {"layers": LAYERS},
            scale=lambda i: 1 / len(i["squares"]),
            counts=COUNTS,
            resolution=0.1,
        ),
        *(
            s.deterministic(
                "concentration:off-diagonal",
                equal(_exact_off_diagonal, _off_diagonal_as_printed),
                {"rows": _unit_rows},
            )
            if squares
            else s.deterministic(
                "concentration:off-diagonal",
                equal(lambda i: 0, lambda i: orthogonal_spread(2, i["width"]).off_diagonal),
                {"pairs": PAIRS},
            )
        ),
        *s.expectation(
            "concentration:off-diagonal#corrected",
            equal(
                Sampled(_off_diagonal), lambda i: float(orthogonal_spread(i["samples"], float(i["width"])).off_diagonal)
            ),
            {"orthogonal": ORTHOGONAL},
            counts=(4, 4),
            resolution=0.1,
        ),
        *s.deterministic(
            "concentration:last-line",
            equal(lambda i: _last_line(i, s.paper), lambda i: (i["A"][0, 0] * 0 + 1) / len(i["A"])),
            {"rows": _unit_rows},
        ),
        *s.deterministic(
            "concentration:last-line#corrected",
            equal(
                lambda i: ((i["A"] ** 2).sum(axis=1) ** 2).sum() / len(i["A"]) ** 2,
                lambda i: (i["A"][0, 0] * 0 + 1) / len(i["A"]),
            ),
            {"rows": _unit_rows},
        ),
    )


def _smallest(s: Source) -> tuple[Claim, ...]:
    first = s.paper == "003"
    return (
        *s.expectation(
            "smallest",
            at_most(Sampled(_deviation), lambda i: 1 / i["width"]),
            {"layers": LAYERS},
            counts=COUNTS,
        ),
        *(
            s.deterministic(
                "smallest:first-line",
                equal(
                    lambda i: orthogonal_spread(2, i["width"]).total,
                    lambda i: orthogonal_spread(2, i["width"]).smallest,
                ),
                {"pairs": PAIRS},
            )
            if first
            else s.deterministic(
                "smallest:second-line",
                equal(
                    lambda i: orthogonal_spread(2, i["width"]).smallest,
                    lambda i: orthogonal_spread(2, i["width"]).total,
                ),
                {"pairs": PAIRS},
            )
        ),
        *(
            s.expectation(
                "smallest:first-line#corrected",
                equal(Sampled(_deviation), lambda i: orthogonal_spread(2, float(i["width"])).smallest),
                {"pairs": cases(*({"squares": np.array([0.5, 0.5]), "width": d} for d in (2, 8, 64)))},
                counts=(3, 3),
                resolution=0.3,
            )
            if first
            else ()
        ),
        *s.deterministic(
            "smallest:weyl" if first else "smallest:second-line#corrected",
            at_most(_eigenvalue_gap, _distance),
            {"pairs": _symmetric_pairs},
        ),
    )
