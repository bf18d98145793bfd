"""003, 4 to B, C.1, C.5 and thesis 2.3, A.1 to A.3: what is printed for all H_ℓ, for an input H_0 of norm above 1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isometer_papers.claims._claim import Claim, Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import at_most
from isometer_papers.claims.daneshmand2021.source import Source
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.orthogonality.bounds import lyapunov_drift_bound, spectral_gap


def _long(rng: Rng, count: int) -> Iterator[Instance]:
    """Squared singular values of H_0, each above 1/n: orthonormal samples first."""
    yield {"squares": np.array([1.0, 1.0, 1.0]), "width": 400.0}
    for _ in range(count):
        n = int(rng.integers(2, 7))
        yield {"squares": np.sort(rng.uniform(0.9, 1.2, n))[::-1].copy(), "width": float(rng.integers(400, 4000))}


def _lyapunov(i: Instance) -> Numeric:
    """V̂(H_0) = 1/n − σ_n²."""
    values = i["squares"]
    return (values[0] * 0 + 1) / len(values) - min(values)


def _distance(i: Instance) -> Numeric:
    """W₂² of W_0H_0 and G/√n, Σ(σ_i − 1/√n)²."""
    values = i["squares"]
    return ((values**0.5 - 1 / (values[0] * 0 + len(values)) ** 0.5) ** 2).sum()


def _drift(i: Instance, inside: Numeric) -> Numeric:
    return lyapunov_drift_bound(_lyapunov(i), inside, len(i["squares"]), i["width"])


def _zero(i: Instance) -> Numeric:
    """The least value of V̂(H_1), and of 1/n − p_n."""
    return i["squares"][0] * 0


def claims(s: Source) -> tuple[Claim, ...]:
    """The claims of a paper."""
    long = {"long": _long}
    return (
        *s.deterministic(
            "gap-lyapunov:input",
            at_most(lambda i: spectral_gap(i["squares"]), lambda i: 2 * len(i["squares"]) * _lyapunov(i)),
            long,
        ),
        *s.deterministic(
            "gaussian:input",
            at_most(_distance, lambda i: 2 * len(i["squares"]) * spectral_gap(i["squares"])),
            long,
        ),
        *s.deterministic("drift:input", at_most(_zero, lambda i: _drift(i, _lyapunov(i))), long),
        *s.deterministic("drift-lyapunov:input", at_most(_zero, lambda i: _drift(i, _lyapunov(i))), long),
        *s.deterministic("drift-gap:input", at_most(_zero, lambda i: _drift(i, spectral_gap(i["squares"]))), long),
        *s.deterministic(
            "contraction:input", at_most(_zero, lambda i: (1 - 2 * min(i["squares"]) / 3) * _lyapunov(i)), long
        ),
    )
