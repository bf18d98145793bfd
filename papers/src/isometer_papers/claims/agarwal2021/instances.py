"""Instances that several claims of 004 share: duals, correlation matrices, separations.

A dual is `squares` (Hermite coefficients squared) or `dual` (a name of `theory.exact_duals`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Family, Rng
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.float_or_mpmath import Numeric, is_precise
from isometer_papers.theory.duals.exact_duals import dual_slope, dual_value

NAMES = ("relu", "exp", "sin", "erf")


def dual_of(i: Instance) -> Numeric:
    """The dual of an instance."""
    return i["squares"] if "squares" in i else i["dual"]


def like(i: Instance) -> Numeric:
    """0 in the precision of the instance."""
    for value in i.values():
        if hasattr(value, "_mpf_"):
            return value * 0
        if isinstance(value, np.ndarray) and is_precise(value):
            return value.ravel()[0] * 0
    return 0.0


def nonlinearity(i: Instance) -> Numeric:
    """μ = 1 − a_1² for E σ = 0, E σ² = 1 (Definition 2)."""
    return 1 - dual_slope(dual_of(i), like(i))


def nonaffinity(i: Instance) -> Numeric:
    """μ̃ = 1 − a_0² − a_1²."""
    nought = like(i)
    return 1 - dual_value(dual_of(i), nought) - dual_slope(dual_of(i), nought)


def offdiagonal(matrix: Numeric) -> Numeric:
    """max |M_ij| over i ≠ j; 0 for one sample."""
    off = abs(matrix * (1 - np.eye(len(matrix), dtype=int)))
    return off.max() if len(matrix) > 1 else off[0, 0] * 0


def condition(matrix: Numeric) -> Numeric:
    """λ_max/λ_min."""
    values = eigenvalues(matrix)
    return values[-1] / values[0]


def random_squares(rng: Rng, *, centred: bool = True, degree: int = 8) -> Any:
    """a_i², of a random number of degrees; never affine."""
    size = int(rng.integers(3, degree + 2))
    squares = rng.gamma(float(rng.choice([0.2, 1.0])), size=size) + 1e-6
    squares[rng.permutation(size)[: rng.integers(0, size)]] = 0.0
    if not squares[2:].any():
        squares[int(rng.integers(2, size))] = float(rng.uniform(0.01, 1))
    if rng.integers(3) == 0:
        squares[1] += float(10 ** rng.uniform(0, 2))
    if centred:
        squares[0] = 0.0
    if squares[2:].sum() < 0.03 * squares.sum():  # depths grow like 1/μ
        squares[2] += 0.04 * squares.sum()
    return squares / squares.sum()


def some_dual(rng: Rng, names: tuple[str, ...] = NAMES) -> dict[str, Any]:
    """A random polynomial, the extreme (1 − μ)ρ + μρ², or a name."""
    style = int(rng.integers(4))
    if style == 0:
        return {"dual": str(rng.choice(names))}
    if style == 1:
        mu = float(rng.choice([0.03, 0.1, 0.5, 1.0, rng.uniform(0.03, 1)]))
        return {"squares": np.array([0.0, 1 - mu, mu])}
    return {"squares": random_squares(rng)}


def simple_duals(rng: Rng, count: int) -> Iterator[dict[str, Any]]:
    """Second Hermite polynomial, mixtures with the identity, names."""
    yield {"squares": np.array([0.0, 0.0, 1.0])}
    yield {"squares": np.array([0.0, 0.5, 0.5])}
    yield {"squares": np.array([0.0, 0.9, 0.0, 0.1])}
    for name in NAMES:
        yield {"dual": name}


def gram(rng: Rng) -> Any:
    """A correlation matrix: equal correlations, random ones, points near each other or near antipodes."""
    n = int(rng.integers(2, 6))
    style = int(rng.integers(4))
    if style == 0:
        rho = float(rng.choice([1 - 10 ** -rng.uniform(0.3, 4), rng.uniform(-1 / (n - 1), 1)]))
        return (1 - rho) * np.eye(n) + rho * np.ones((n, n))
    d = int(rng.integers(2, 9))
    x = rng.standard_normal((n, d))
    if style == 1:
        x = x[:1] * rng.choice([-1.0, 1.0], (n, 1)) + 10 ** -rng.uniform(0, 2) * x
    return correlations(x)


def correlations(x: Numeric) -> Numeric:
    """Cosines of the rows, 1 on the diagonal."""
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    matrix = np.clip(unit @ unit.T, -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def separation(matrix: Numeric) -> Numeric:
    """The largest δ of Assumption A."""
    return 1 - offdiagonal(matrix)


def smallest(matrix: Numeric) -> Numeric:
    """The largest δ of Assumption B."""
    return eigenvalues(matrix)[0]


def apart(least: float = 1e-5) -> Callable[[Instance], bool]:
    """Assumption A with δ above a floor where float64 still sees it."""
    return lambda i: bool(separation(i["K"]) > least)


def independent(least: float = 1e-4) -> Callable[[Instance], bool]:
    """Assumption B with δ above a floor."""
    return lambda i: bool(smallest(i["K"]) > least)


def pair_gram(rho: float) -> Any:
    """Two inputs of cosine ρ."""
    return np.array([[1.0, rho], [rho, 1.0]])


def networks(depths: Callable[[Rng, Instance], int], names: tuple[str, ...] = NAMES) -> dict[str, Family]:
    """Duals with correlation matrices and a depth."""

    def simple(rng: Rng, count: int) -> Iterator[Instance]:
        for dual in simple_duals(rng, count):
            if dual.get("dual", "relu") not in names:
                continue
            for rho in (0.5, 0.9, 0.999, -0.9):
                instance = {**dual, "K": pair_gram(rho)}
                yield {**instance, "L": depths(rng, instance)}

    def random(rng: Rng, count: int) -> Iterator[Instance]:
        for _ in range(count):
            instance = {**some_dual(rng, names), "K": gram(rng)}
            if separation(instance["K"]) > 1e-9:
                yield {**instance, "L": depths(rng, instance)}

    return {"simple": simple, "random": random}


def search_network(depths: Callable[[Any, Instance], int], size: int = 2) -> Search:
    """An adversary over three Hermite weights, one correlation of `size` inputs and the depth."""

    def build(point: Numeric) -> Instance:
        p = np.asarray(point)
        squares = np.array([0.0, p[0], p[1] + 0.05, p[2]])
        rho = 1 - 10 ** (-5 * float(p[3]))
        k = (1 - rho) * np.eye(size) + rho * np.ones((size, size))
        instance = {"squares": squares / squares.sum(), "K": k}
        return {**instance, "L": depths(float(p[4]), instance)}

    return Search(build, 5, (160, 640))
