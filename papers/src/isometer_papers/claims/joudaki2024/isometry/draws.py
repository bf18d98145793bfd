"""Random rotations of a spectrum and long chains, computed once per process; what is read off them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.run import seed_of
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Family, Rng, cases
from isometer_papers.claims._statements import Sampled
from isometer_papers.claims.joudaki2024.isometry.instances import with_gap
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.rotations import RotationChain, rotated_row_norms, rotation_chain
from isometer_papers.theory.isometry import spectrum_gap

_SPECTRA: tuple[tuple[float, ...], ...] = (
    (1.8, 0.2),
    (2.4, 0.3, 0.3),
    (1.3, 1.3, 0.4),
    (1.5, 0.5),
    (2.8, 0.4, 0.4, 0.4),
    (3.0, 1.0, 0.5, 0.3, 0.2),
    (2.5, 0.7, 0.7, 0.7, 0.7, 0.7),
    (1.1, 0.9),
)


# A few spectra, most of them far from isometry.
some_spectra = cases(*({"spectrum": np.array(values)} for values in _SPECTRA))


# Gaps just below 1/(16d), two levels.
edge_spectra = cases(
    *(
        {"spectrum": with_gap(sign * np.eye(d)[0], 0.99 / (16 * d)).round(9)}
        for d, sign in ((2, 1), (3, 1), (3, -1), (4, 1), (5, -1), (6, 1))
    )
)


POLAR = "polar factors instead of QR, other draws"


@lru_cache(maxsize=64)
def _row_norms(values: tuple[float, ...], draws: int) -> Any:
    rng = np.random.default_rng(seed_of(f"001 rotations {values} {draws}"))
    return rotated_row_norms(values, draws, rng)


def row_norms_of(i: Instance, draws: int = 20_000) -> Numeric:
    """‖X'_j‖², `(draws, d)`."""
    return _row_norms(tuple(float(value) for value in i["spectrum"]), draws)


def polar_row_norms(i: Instance, rng: Rng, draws: int = 20_000) -> Numeric:
    """The same from polar factors of Gaussian matrices."""
    values = np.asarray(i["spectrum"], dtype=float)
    w = polar_factors(draws, len(values), rng)
    return (w * w) @ values


def polar_factors(draws: int, d: int, rng: Rng) -> Any:
    """Haar matrices as polar factors U Vᵀ of Gaussian matrices."""
    u, _, vt = np.linalg.svd(rng.standard_normal((draws, d, d)))
    return u @ vt


def rotated(read: Callable[[Instance, Any], Estimate]) -> Sampled:
    """What is read off the squared row lengths of an instance and its draws; again from polar factors."""
    return Sampled(lambda i, rng: read(i, row_norms_of(i)), lambda i, rng: read(i, polar_row_norms(i, rng)), POLAR)


def mean_over(statistic: Callable[[Any], Any]) -> Sampled:
    """The mean of a statistic of squared row lengths."""
    return rotated(lambda i, squares: Estimate.of(statistic(squares)))


# --- chains ------------------------------------------------------------


@lru_cache(maxsize=64)
def _chain(d: int, rho: float, layers: int, runs: int) -> RotationChain:
    rng = np.random.default_rng(seed_of(f"001 chain {d} {rho} {layers} {runs}"))
    return rotation_chain(np.diag(np.sqrt(correlated(d, rho))), layers, runs, rng)


def correlated(d: int, rho: float) -> Any:
    """Eigenvalues of the matrix of cosines ρ: 1 + (d−1)ρ once, 1 − ρ d − 1 times."""
    return np.array([1 + (d - 1) * rho] + [1 - rho] * (d - 1))


def chain_of(i: Instance) -> RotationChain:
    """The chain of an instance, from X_0 with XᵀX of cosines ρ."""
    return _chain(i["d"], float(i["rho"]), i["layers"], i.get("runs", 400))


def start_gap(i: Instance) -> float:
    """ψ(X_0)."""
    return float(spectrum_gap(correlated(i["d"], i["rho"])))


def of_chain(statistic: Callable[[Instance, RotationChain], Any]) -> Any:
    """The mean over runs of a statistic of a chain; at least 1/runs of its largest size counts as error."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        values = np.asarray(statistic(i, chain_of(i)), dtype=float)
        found = Estimate.of(values)
        floor = float(np.abs(values).max() or 1.0) / values.size
        return Estimate(found.value, max(found.error, floor), found.freedom, found.draws)

    return estimate


def chains(*given: tuple[int, float, int], **extra: Any) -> Family:
    """Chains (d, ρ, layers)."""
    return cases(*({"d": d, "rho": rho, "layers": layers, **extra} for d, rho, layers in given))


def hitting_times(i: Instance, chain: RotationChain) -> Numeric:
    """S, the first ℓ with ψ_ℓ ≤ 1/(16d); the chain has to be long enough."""
    below = chain.gap <= 1 / (16 * i["d"])
    if not below[:, -1].all():
        raise ArithmeticError(f"{i} is too short for its hitting time")
    return below.argmax(axis=1)
