"""003, §2–3, A.2–A.3 and thesis 2.1–2.2, A.1: batch norm, the gap V and the Lyapunov function V̂."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isometer.metrics import orthogonality_gap
from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import Sampled, above, at_most, equal, vanishes
from isometer_papers.claims.daneshmand2021.instances import (
    SPECTRA,
    batches,
    singular_spectra,
    spectrum_search,
    with_weights,
)
from isometer_papers.claims.daneshmand2021.source import Source
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.orthogonality.bounds import gap_of, lyapunov_of, spectral_gap, unit_features, unit_trace
from isometer_papers.theory.rank.chain import whitened

WITH_ZEROS = {**SPECTRA, "singular": singular_spectra}


def _no_zero_feature(i: Instance) -> bool:
    return bool((abs(i["H"]).max(axis=0) > 0).all())


def _sparse(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n, d = (int(v) for v in rng.integers(1, 7, 2))
        yield {"H": rng.standard_normal((n, d)) * (rng.uniform(size=(n, d)) < 0.6)}


def _longest_row(i: Instance) -> Numeric:
    return abs((unit_features(i["H"]) ** 2).sum(axis=0) - 1).max()


def _layers(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"H": np.array([[1.0, 0.0], [2.0, 1.0]]), "layer": 0}
    for instance in with_weights(batches)(rng, count):
        yield {**instance, "layer": 1}


def _norm(i: Instance) -> Numeric:
    """‖H_0‖_F² or ‖H_1‖_F²."""
    if i["layer"] == 0:
        return (i["H"] ** 2).sum()
    return (unit_features(i["H"] @ i["W"].T) ** 2).sum() / i["H"].shape[1]


def _independent(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"H": np.array([[1.0, 0.0], [1.0, 1.0]])}
    yield {"H": np.array([[1.0, 0.0, 1.0], [2.0, 1.0, 1.0]])}
    for _ in range(count):
        n = int(rng.integers(1, 6))
        yield {"H": rng.standard_normal((n, int(rng.integers(n, 8)))) + rng.uniform(0, 2)}


def _rank_of_moments(i: Instance) -> Numeric:
    """rank MMᵀ for M = Hᵀ."""
    return int(np.linalg.matrix_rank(i["H"].T @ i["H"]))


def _precise_rank(i: Instance) -> tuple[Numeric, Numeric]:
    """The number of eigenvalues of MMᵀ that do not vanish in 50 digits, and d."""
    library = mpmath()
    values = library.eigsy(library.matrix((i["H"].T @ i["H"]).tolist()), eigvals_only=True)
    return sum(value > max(values) * library.mpf(10) ** -30 for value in values), i["H"].shape[1]


def _precise_polar(i: Instance) -> tuple[Numeric, Numeric]:
    """The gap of (HHᵀ)^{−1/2}H from an eigendecomposition in 50 digits."""
    library = mpmath()
    h = i["H"]
    values, vectors = library.eigsy(library.matrix((h @ h.T).tolist()))
    root = vectors * library.diag([1 / library.sqrt(v) for v in values]) * vectors.T
    return gap_of(np.array((root * library.matrix(h.tolist())).tolist(), dtype=object)), 0


def _rotations(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"H": np.eye(2), "W": np.array([[0.6, -0.8], [0.8, 0.6]])}
    for instance in batches(rng, count):
        d = instance["H"].shape[1]
        yield {**instance, "W": np.linalg.qr(rng.standard_normal((d, d)))[0]}


def _rectified_gap(i: Instance, rng: Rng) -> Estimate:
    """V(relu(WH)) for orthogonal H and Haar W."""
    n, d = i["samples"], i["width"]
    frames = np.linalg.qr(rng.standard_normal((400, d, d)))[0][:, :, :n]
    return Estimate.of(np.asarray(orthogonality_gap(np.swapaxes(np.maximum(frames, 0.0), 1, 2))))


def _spike(i: Instance) -> Numeric:
    """Σσ⁴ − 1/n at σ_1² = 1 − (n−1)σ_n², all others σ_n²."""
    values = unit_trace(i["squares"])
    n, smallest = len(values), min(values)
    top = 1 - (n - 1) * smallest
    return top**2 + (n - 1) * smallest**2 - (smallest * 0 + 1) / n


def claims(s: Source) -> tuple[Claim, ...]:
    """The claims of a paper."""
    return (
        *s.deterministic(
            "bn",
            vanishes(_longest_row),
            {"random": batches, "sparse": _sparse},
            hypotheses=_no_zero_feature,
        ),
        *s.deterministic(
            "frobenius",
            equal(lambda i: (unit_features(i["H"]) ** 2).sum(), lambda i: i["H"].shape[1]),
            {"random": batches, "sparse": _sparse},
            hypotheses=_no_zero_feature,
        ),
        *s.deterministic(
            "all-layers:all-layers",
            equal(_norm, 1),
            {"layers": _layers},
        ),
        *s.deterministic(
            "all-layers:all-layers#corrected",
            equal(_norm, 1),
            {"layers": _layers},
            hypotheses=lambda i: i["layer"] > 0,
        ),
        *_lyapunov(s),
        *s.deterministic(
            "inverse",
            equal(_rank_of_moments, lambda i: i["H"].shape[1]),
            {"random": _independent},
            exact=_precise_rank,
            hypotheses=lambda i: bool(np.linalg.cond(i["H"]) < 1e6),
        ),
        *s.deterministic(
            "inverse#corrected",
            vanishes(lambda i: float(orthogonality_gap(whitened(i["H"])))),
            {"random": _independent},
            exact=_precise_polar,
            tolerance=1e-7,
            hypotheses=lambda i: bool(np.linalg.cond(i["H"]) < 1e4),  # floats lose the square of it
        ),
        *s.deterministic(
            "orthogonal-weights",
            equal(lambda i: gap_of(i["H"] @ i["W"].T), lambda i: gap_of(i["H"])),
            {"random": _rotations},
            scale=1,
        ),
        *s.expectation(
            "orthogonal-weights:relu",
            above(Sampled(_rectified_gap), 0.0),
            {"shapes": cases({"samples": 2, "width": 8}, {"samples": 8, "width": 8}, {"samples": 8, "width": 64})},
            counts=(3, 3),
            resolution=0.2,
        ),
    )


def _lyapunov(s: Source) -> tuple[Claim, ...]:
    return (
        *s.deterministic(
            "gap-lyapunov",
            at_most(lambda i: spectral_gap(i["squares"]), lambda i: 2 * len(i["squares"]) * lyapunov_of(i["squares"])),
            WITH_ZEROS,
            search=spectrum_search(),
            scale=1,
        ),
        *s.deterministic(
            "gap-lyapunov:identity",
            equal(
                lambda i: spectral_gap(i["squares"]) ** 2,
                lambda i: (unit_trace(i["squares"]) ** 2).sum() - (i["squares"][0] * 0 + 1) / len(i["squares"]),
            ),
            WITH_ZEROS,
            scale=1,
        ),
        *s.deterministic(
            "gap-lyapunov:maximum",
            at_most(lambda i: spectral_gap(i["squares"]) ** 2, _spike),
            WITH_ZEROS,
            search=spectrum_search(),
            scale=1,
        ),
        *s.deterministic(
            "gap-lyapunov:square",
            at_most(
                lambda i: spectral_gap(i["squares"]) ** 2,
                lambda i: 2 * (len(i["squares"]) - 1) ** 2 * lyapunov_of(i["squares"]) ** 2,
            ),
            WITH_ZEROS,
            search=spectrum_search(2),
            scale=1,
        ),
    )
