"""Instances that several claims of 003 share: spectra (squared singular values, sum 1) and batches `(n, d)`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Family, Rng, cases, extended
from isometer_papers.float_or_mpmath import Numeric


def _sorted(values: Numeric) -> Numeric:
    return np.sort(values / values.sum())[::-1].copy()


# Hand-made ones.
simple_spectra = cases(
    *(
        {"squares": np.array(values)}
        for values in ([0.75, 0.25], [0.5, 0.5], [0.9, 0.1], [0.5, 0.25, 0.25], [0.4, 0.4, 0.2])
    )
)


def random_spectra(rng: Rng, count: int) -> Iterator[Instance]:
    """Dirichlet, from nearly equal to nearly of rank one; smallest at least 1e-9."""
    for _ in range(count):
        n = int(rng.integers(2, 13))
        values = rng.gamma(10.0 ** rng.uniform(-1.5, 2), size=n)
        yield {"squares": _sorted(np.maximum(values / values.sum(), 1e-9))}


def extreme_spectra(rng: Rng, count: int) -> Iterator[Instance]:
    """One large value, or one small one, and all others equal."""
    for n in (2, 3, 4, 5, 8, 16, 32):
        for share in (1e-6, 0.01, 0.1, 0.5, 0.9, 0.99):
            small = share / n
            yield {"squares": np.array([1 - (n - 1) * small] + [small] * (n - 1))}
            yield {"squares": np.array([(1 - small) / (n - 1)] * (n - 1) + [small])}


# With zeros.
singular_spectra = cases(
    *({"squares": np.array([1 / k] * k + [0.0] * (n - k))} for n in range(2, 9) for k in range(1, n))
)


SPECTRA = {"simple": simple_spectra, "random": random_spectra, "extreme": extreme_spectra}


def spectrum_search(n: int = 4) -> Search:
    """An adversary over spectra."""
    return Search(lambda x: {"squares": _sorted(np.exp(-8.0 * np.asarray(x)))}, n)


def batches(rng: Rng, count: int) -> Iterator[Instance]:
    """Batches `(n, d)` with n ≤ d: Gaussian, correlated, nearly of rank one."""
    yield {"H": np.eye(2)}
    yield {"H": np.array([[1.0, 0.0], [1.0, 1.0]])}
    for _ in range(count):
        n = int(rng.integers(1, 6))
        d = int(rng.integers(n, 9))
        h = rng.standard_normal((n, d)) + rng.uniform(0, 3) * rng.standard_normal(d)
        yield {"H": h if rng.integers(3) else np.ones((n, 1)) + 0.1 * h}


def with_weights(generate: Family) -> Family:
    """The same batches with d × d Gaussian weights."""
    return extended(generate, lambda rng, i: {"W": rng.standard_normal((i["H"].shape[1], i["H"].shape[1]))})


def widths(generate: Family, *choices: int) -> Family:
    """The same spectra with a width of at least n."""
    return extended(generate, lambda rng, i: {"width": int(rng.choice([d for d in choices if d >= len(i["squares"])]))})
