"""Instances that several claims of 002 share. H is `(n, d)`; in 𝓗 every feature has mean square 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.linalg import hadamard

from isometer.metrics import batch_normalize
from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Family, Rng, drawn
from isometer_papers.float_or_mpmath import Numeric

ODD_FUNCTIONS = {"identity": 1.0, "tanh": 1.0, "sin": 1.0, "arctan": 1.0, "hardtanh": 1.0, "double": 2.0}  # F: B


def unit_features(array: Numeric) -> Numeric:
    """Into 𝓗."""
    return batch_normalize(np.asarray(array, dtype=float), recenter=False)


def random_matrix(rng: Rng, n: int, d: int) -> Any:
    """Gaussian, of low rank, heavy-tailed or nearly of rank one."""
    style = rng.integers(4)
    if style == 0:
        return rng.standard_normal((n, d))
    if style == 1:
        k = int(rng.integers(1, min(n, d) + 1))
        return rng.standard_normal((n, k)) @ rng.standard_normal((k, d))
    if style == 2:
        return rng.standard_t(1.5, (n, d))
    base = np.outer(rng.standard_normal(n), rng.choice([-1.0, 1.0], d))
    return base + 10.0 ** -rng.uniform(0, 3) * rng.standard_normal((n, d))


def shapes(rng: Rng, least: int = 2, most: int = 8) -> tuple[int, int]:
    """n and d."""
    n, d = rng.integers(least, most + 1, 2)
    return int(n), int(d)


# Any matrices.
random_any = drawn(lambda rng: {"H": random_matrix(rng, *shapes(rng))})


# Matrices in 𝓗.
random_unit = drawn(lambda rng: {"H": unit_features(random_matrix(rng, *shapes(rng)))})


def extreme_unit(rng: Rng, count: int) -> Iterator[Instance]:
    """Matrices in 𝓗 where bounds are attained: orthogonal and equal features, groups of them, sign matrices."""
    yield {"H": np.ones((2, 2))}
    yield {"H": np.array([[1.0, 1.0], [1.0, -1.0]])}
    for size in (2, 4, 8):
        h = hadamard(size).astype(float)
        yield {"H": h}
        for k in range(1, size):
            yield {"H": h[:, :k]}
            yield {"H": np.concatenate([h[:, :k]] * 2, axis=1)}  # every feature twice
            yield {"H": h[:, np.minimum(np.arange(size), k)]}  # one feature many times
    for _ in range(count):
        n, d = shapes(rng, 1, 6)
        yield {"H": rng.choice([-1.0, 1.0], (n, d))}


def with_threshold(generate: Family) -> Family:
    """The same instances with a threshold τ in [0, 1], at its ends, or at an eigenvalue."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for instance in generate(rng, count):
            h = instance["H"]
            values = np.linalg.eigvalsh(h.T @ h / len(h))
            inside = values[(values > 1e-6) & (values < 1)]
            choices = [float(rng.uniform()), 0.0, 0.5, 1.0]
            if inside.size:
                # just below the eigenvalue, or rounding decides whether it counts
                choices.append(float(rng.choice(inside)) * (1 - 1e-9))
            yield {**instance, "tau": float(rng.choice(choices))}

    return generator


def search_unit(n: int, d: int, extra: Sequence[str] = (), normalize: bool = True) -> Search:
    """An adversary over 𝓗 (or all matrices), and over parameters in [0, 1]."""

    def build(point: Numeric) -> Instance:
        point = np.asarray(point)
        h = np.tan(3.0 * (point[: n * d] - 0.5)).reshape(n, d)
        rest = {name: float(value) for name, value in zip(extra, point[n * d :], strict=True)}
        return {"H": unit_features(h) if normalize else h, **rest}

    return Search(build, n * d + len(extra))


def steps(
    gammas: tuple[float, float] = (0.01, 2.0), functions: Sequence[str] = ("identity",), square: bool = False
) -> Family:
    """One layer: H in 𝓗, weights, γ and F; the slope bound B is that of F."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for _ in range(count):
            n, d = shapes(rng, 1, 6)
            n = d if square else n
            weights = rng.uniform(-(3**0.5), 3**0.5, (d, d))
            if rng.integers(2):
                weights = np.sign(weights) * 3**0.5
            yield {
                "H": unit_features(random_matrix(rng, n, d)),
                "W": weights,
                "gamma": float(rng.uniform(*gammas)),
                "F": str(rng.choice(list(functions))),
            }

    return generator


def spectra(rng: Rng, count: int) -> Iterator[Instance]:
    """Eigenvalues that sum to their number, a power of 2."""
    for _ in range(count):
        d = int(2 ** rng.integers(1, 6))
        values = rng.gamma(float(rng.uniform(0.05, 3)), size=d)
        if rng.integers(2):
            values[rng.permutation(d)[: rng.integers(0, d)]] = 0.0
        if values.sum() == 0:
            values[0] = 1.0
        yield {"spectrum": np.sort(values / values.sum() * d)[::-1].copy()}


def equal_spectra(rng: Rng, count: int) -> Iterator[Instance]:
    """Spectra with k equal non-zero eigenvalues."""
    for power in range(1, 6):
        d = 2**power
        for k in range(1, d + 1):
            yield {"spectrum": np.array([d / k] * k + [0.0] * (d - k))}
